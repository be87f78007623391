#include "tools/parts/slurm_call.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"

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

static int ended(const char *name, int status, struct buf *out, size_t before, struct err *err)
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
    return rc == 0 ? ended(argv[0], status, out, before, err) : rc;
}
