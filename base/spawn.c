#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* Through copies up here, out of the way of the numbers that the process wants. */
static int place_files(const int files[], size_t count, int copies[],
                       posix_spawn_file_actions_t *actions)
{
    int rc = 0;

    for (size_t i = 0; i < count && rc == 0; i++) {
        if (files[i] == SPAWN_NULL) {
            rc = posix_spawn_file_actions_addopen(actions, (int)i, "/dev/null", O_RDWR, 0);
            continue;
        }
        copies[i] = fcntl(files[i], F_DUPFD_CLOEXEC, SPAWN_FILES);
        rc = copies[i] < 0 ? errno : posix_spawn_file_actions_adddup2(actions, copies[i], (int)i);
    }
    return rc ? rc : posix_spawn_file_actions_addclosefrom_np(actions, (int)count);
}

/* Handlers are none of its own: the C library resets them before it lets signals in. */
static int set_attributes(posix_spawnattr_t *attr)
{
    sigset_t none, all_but_hup;

    sigemptyset(&none);
    sigfillset(&all_but_hup);
    sigdelset(&all_but_hup, SIGHUP);
    posix_spawnattr_setsigmask(attr, &none);
    posix_spawnattr_setsigdefault(attr, &all_but_hup);
    posix_spawnattr_setpgroup(attr, 0);
    return posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
}

int spawn_start(const char *program, const char *const argv[], const int files[], size_t count,
                pid_t *ret)
{
    int copies[SPAWN_FILES] = {0};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int rc = count > SPAWN_FILES ? EINVAL : posix_spawn_file_actions_init(&actions);

    if (rc)
        return rc;
    rc = posix_spawnattr_init(&attr);
    if (rc == 0) {
        rc = set_attributes(&attr);
        rc = rc ? rc : place_files(files, count, copies, &actions);
        rc = rc ? rc
                : posix_spawn(ret, program ? program : "/proc/self/exe", &actions, &attr,
                              (char *const *)argv, environ);
        posix_spawnattr_destroy(&attr);
    }
    posix_spawn_file_actions_destroy(&actions);
    for (size_t i = 0; i < SPAWN_FILES; i++)
        if (copies[i] > 0)
            close(copies[i]);
    return rc;
}

bool spawn_begun(int file)
{
    struct pollfd f = {.fd = file};

    signal(SIGTTOU, SIG_IGN); /* a line of ours must not stop a background group */
    /* If the starter ended before this call, its files were closed before that. */
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
           (poll(&f, 1, 0) <= 0 || !(f.revents & (POLLHUP | POLLERR)));
}

void spawn_kill(pid_t pid) { kill(-pid, SIGKILL); }

bool spawn_ended(pid_t pid)
{
    siginfo_t info = {0};

    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
        return errno == ECHILD;
    return info.si_pid == pid;
}

int spawn_end(pid_t pid, int64_t limit_ms)
{
    int64_t until = clock_mono_ms() + limit_ms;
    int status;
    pid_t got;

    spawn_kill(pid);
    do {
        got = waitpid(pid, &status, limit_ms < 0 ? 0 : WNOHANG);
        if (got == 0)
            poll(NULL, 0, 1);
    } while ((got == 0 && clock_mono_ms() < until) || (got < 0 && errno == EINTR));
    return got == pid ? status : -1;
}
