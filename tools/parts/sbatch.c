#include "tools/parts/sbatch.h"

#include <string.h>

#include "tools/cli/shell.h"

static void word(struct buf *out, const char *s) { shell_quote(out, s, strlen(s)); }

static void option(struct buf *out, const char *name, const char *value)
{
    if (value)
        buf_printf(out, "#SBATCH --%s=%s\n", name, value);
}

static void number(struct buf *out, const char *name, uint32_t value)
{
    if (value)
        buf_printf(out, "#SBATCH --%s=%u\n", name, value);
}

static void begin(const struct sbatch *s, const char *what, struct buf *out)
{
    buf_printf(out,
               "#!/bin/bash\n"
               "# Written by `nightshift slurm submit`; docs/how-to/use-many-machines.md has it "
               "step by step.\n"
               "#SBATCH --job-name=nightshift-%s\n"
               "#SBATCH --ntasks=1\n",
               what);
    option(out, "partition", s->partition);
    option(out, "account", s->account);
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
    begin(s, "parts", out);
    buf_printf(out, "#SBATCH --array=0-%u", s->parts - 1);
    if (s->array_throttle)
        buf_printf(out, "%%%u", s->array_throttle);
    buf_printf(out, "\n");
    number(out, "gpus-per-task", s->gpus_per_task);
    number(out, "cpus-per-task", s->cpus_per_task);
    option(out, "mem", s->memory);
    option(out, "time", s->time);
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
    begin(s, "merge", out);
    option(out, "nodelist", s->merge_node);
    buf_printf(out, "#SBATCH --output=\"%s/merge.log\"\n\n", s->dir);
    word(out, s->program);
    buf_printf(out, " merge --finish ");
    word(out, s->catalog);
    buf_printf(out, " ");
    word(out, s->dir);
    buf_printf(out, "\n");
}
