#include "tools/parts/slurm.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/spawn.h"
#include "tools/cli/shell.h"

static void word(struct buf *out, const char *s) { shell_quote(out, s, strlen(s)); }

static void put_sbatch_option(struct buf *out, const char *name, const char *value)
{
    if (value)
        buf_printf(out, "#SBATCH --%s=%s\n", name, value);
}

static void put_sbatch_number(struct buf *out, const char *name, uint32_t value)
{
    if (value)
        buf_printf(out, "#SBATCH --%s=%u\n", name, value);
}

static void put_sbatch_header(const struct sbatch *s, const char *what, struct buf *out)
{
    buf_printf(out,
               "#!/bin/bash\n"
               "# Written by `nightshift slurm submit`; docs/how-to/use-many-machines.md has it "
               "step by step.\n"
               "#SBATCH --job-name=nightshift-%s\n"
               "#SBATCH --ntasks=1\n",
               what);
    put_sbatch_option(out, "partition", s->partition);
    put_sbatch_option(out, "account", s->account);
}

/* `wait` ends with the signal that the trap hands on, hence the loop. */
static const char waiting[] =
    "run=$!\n"
    "trap 'early=1; kill -USR1 $run' USR1\n"
    "trap 'term=1; kill -TERM $run' TERM\n"
    "wait $run\n"
    "status=$?\n"
    "while kill -0 $run 2>/dev/null; do\n"
    "    wait $run\n"
    "    status=$?\n"
    "done\n"
    "# 75: work is left, and it asks for another try; over 128: it was killed. SIGTERM without "
    "the\n"
    "# early signal is an scancel, or Slurm requeues it by itself.\n"
    "if { [ $status -eq 75 ] || [ $status -gt 128 ]; } && [ ${early:-0} -ge ${term:-0} ]; then\n"
    "    for try in 1 2 3 4 5; do\n"
    "        scontrol requeue \"${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID\" && break\n"
    "        sleep 5\n"
    "    done\n"
    "fi\n"
    "exit $status\n";

void sbatch_parts(const struct sbatch *s, struct buf *out)
{
    put_sbatch_header(s, "parts", out);
    buf_printf(out, "#SBATCH --array=0-%u", s->parts - 1);
    if (s->array_throttle)
        buf_printf(out, "%%%u", s->array_throttle);
    buf_printf(out, "\n");
    put_sbatch_number(out, "gpus-per-task", s->gpus_per_task);
    put_sbatch_number(out, "cpus-per-task", s->cpus_per_task);
    put_sbatch_option(out, "mem", s->memory);
    put_sbatch_option(out, "time", s->time);
    buf_printf(out,
               "#SBATCH --requeue\n"
               "#SBATCH --signal=B:USR1@120\n"
               "#SBATCH --open-mode=append\n"
               "#SBATCH --output=\"%s/part-%%a.log\"\n\n"
               "part=$(printf '%%s/part-%%04d.db' ",
               s->dir);
    word(out, s->dir);
    buf_printf(out, " \"$SLURM_ARRAY_TASK_ID\")\n");
    word(out, s->program);
    buf_printf(out, " run --no-progress --tries=3 --part \"$part\" &\n%s", waiting);
}

void sbatch_merge(const struct sbatch *s, struct buf *out)
{
    put_sbatch_header(s, "merge", out);
    put_sbatch_option(out, "nodelist", s->merge_node);
    buf_printf(out, "#SBATCH --output=\"%s/merge.log\"\n\n", s->dir);
    word(out, s->program);
    buf_printf(out, " merge --finish ");
    word(out, s->catalog);
    buf_printf(out, " ");
    word(out, s->dir);
    buf_printf(out, "\n");
}

/* ---- asking Slurm, by its own commands */

#define MOST_ARGV 32
#define MOST_BYTES (64u << 20)
#define BLOCK 65536
#define NOT_FOUND 127 /* env's */

static int read_all(int fd, struct buf *out, struct err *err)
{
    for (;;) {
        uint8_t *to = buf_reserve(out, BLOCK);
        ssize_t n = to ? read(fd, to, BLOCK) : 0;

        if (!to || out->len > MOST_BYTES)
            return err_set(err, ERR_LIMIT, "it says more than can be taken");
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_sys(err, errno, "reading what it says");
        if (n == 0)
            return 0;
        out->len += (size_t)n;
    }
}

static int check_exit_status(const char *name, int status, struct buf *out, size_t before,
                             struct err *err)
{
    size_t n;

    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND)
        return err_set(err, ERR_MISSING,
                       "there is no program '%s': is this a machine of the "
                       "cluster?",
                       name);
    while (out->len > before && out->data[out->len - 1] == '\n')
        out->len--;
    n = out->len - before < 300 ? out->len - before : 300;
    return err_set(err, ERR_IO, "%s: %.*s", name, (int)n,
                   n ? (const char *)out->data + before : "it failed");
}

int slurm_call(const char *const argv[], struct buf *out, struct err *err)
{
    const char *with_env[MOST_ARGV + 2] = {"env"};
    size_t before = out->len;
    int ends[2], rc, status = -1;
    pid_t pid;

    for (size_t i = 0; i < MOST_ARGV && argv[i]; i++)
        with_env[i + 1] = argv[i];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_sys(err, errno, "a pipe");
    rc = spawn_start("/usr/bin/env", with_env, (int[]){SPAWN_NULL, ends[1], ends[1]}, 3, &pid);
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        return err_sys(err, rc, "starting %s", argv[0]);
    }
    rc = read_all(ends[0], out, err);
    close(ends[0]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    return rc == 0 ? check_exit_status(argv[0], status, out, before, err) : rc;
}
