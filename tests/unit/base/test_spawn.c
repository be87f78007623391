/* How processes are started and ended. The test is its own child: its first argument says which. */
#include "tests/common/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/spawn.h"

static int made[2]; /* a pipe: the child writes what it has to say */

static pid_t begin(const char *what, int out)
{
    const char *const argv[] = {"test", what, NULL};
    pid_t pid = 0;

    assert_int_equal(spawn_start(NULL, argv, (int[]){SPAWN_NULL, out, STDERR_FILENO}, 3, &pid), 0);
    return pid;
}

static int setup(void **state)
{
    (void)state;
    return pipe2(made, O_CLOEXEC);
}

static int teardown(void **state)
{
    (void)state;
    close(made[0]);
    return made[1] < 0 ? 0 : close(made[1]);
}

static void say_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    sigset_t blocked;
    int files = -1; /* the folder itself */

    while (dir && readdir(dir))
        files++;
    sigprocmask(SIG_BLOCK, NULL, &blocked);
    /* ".", ".." and what it was given. */
    _exit(files == 5 && getpgrp() == getpid() && !sigismember(&blocked, SIGTERM) &&
                  signal(SIGUSR1, SIG_DFL) == SIG_DFL && signal(SIGHUP, SIG_DFL) == SIG_IGN
              ? 7
              : 8);
}

TEST_BOTH(it_has_what_it_is_given, setup, teardown)
{
    int stray = open("/dev/null", O_RDONLY); /* as a library might leave one open */
    sigset_t term;

    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, NULL);
    signal(SIGUSR1, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    pid_t pid = begin("files", made[1]);
    while (!spawn_ended(pid))
        usleep(1000);
    assert_true(spawn_ended(pid)); /* it stays */
    int status = spawn_end(pid, -1);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 7);
    assert_true(spawn_ended(pid));
    sigprocmask(SIG_UNBLOCK, &term, NULL);
    signal(SIGUSR1, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
    close(stray);
}

TEST(what_cannot_be_started_is_said)
{
    const char *const argv[] = {"nobody", NULL};
    int before = dup(0);
    pid_t pid = 5;

    close(before);
    assert_int_equal(spawn_start("/nowhere/at/all", argv, (int[]){0, 1, 2}, 3, &pid), ENOENT);
    assert_int_equal(spawn_start(NULL, argv, (int[]){0, -1, 2}, 3, &pid), EBADF);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(dup(0), before);
    close(before);
}

static char heard(void)
{
    char c = '-';

    close(made[1]);
    made[1] = -1;
    return read(made[0], &c, 1) == 1 ? c : '-';
}

TEST_BOTH(its_group_ends_with_it, setup, teardown)
{
    pid_t pid = begin("parent", made[1]);
    char c;

    assert_int_equal(heard(), 'g'); /* the grandchild says it, and keeps the pipe */
    int status = spawn_end(pid, 10000);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(read(made[0], &c, 1), 0);
}

static void *begin_and_go(void *arg)
{
    *(pid_t *)arg = begin("stay", made[1]);
    return (void *)(intptr_t)heard();
}

TEST_BOTH(it_dies_with_the_thread_that_started_it, setup, teardown)
{
    pthread_t thread;
    void *said;
    pid_t pid;

    assert_int_equal(pthread_create(&thread, NULL, begin_and_go, &pid), 0);
    assert_int_equal(pthread_join(thread, &said), 0);
    assert_int_equal((intptr_t)said, 's');
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

TEST_BOTH(one_that_comes_late_leaves, setup, teardown)
{
    close(made[0]);
    pid_t pid = begin("stay", made[1]);
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    made[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return suite_run(NULL, NULL);
    if (strcmp(argv[1], "files") == 0)
        say_files();
    if (strcmp(argv[1], "stay") == 0 && !spawn_begun(STDOUT_FILENO))
        return 3;
    if (strcmp(argv[1], "parent") == 0 && fork() > 0)
        pause();
    if (write(STDOUT_FILENO, strcmp(argv[1], "stay") == 0 ? "s" : "g", 1) != 1)
        return 4;
    for (;;)
        pause();
}
