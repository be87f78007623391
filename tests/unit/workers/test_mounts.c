/* Shares that hang: by a file system of our own that never answers. Needs /dev/fuse and the right
 * to mount; skipped without. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/media/media_util.h"

#include "base/clock.h"
#include "workers/pass/mounts.h"

#define SCRIPT "tests/common/stalled_mount.py"

static pid_t server;
static int said = -1; /* the server's standard output */
static char here[512];

/* At HERE/mnt are the files of HERE/src; how: what is never answered. False: not here. */
static bool mount_at(const char *how)
{
    const char *source = getenv("NIGHTSHIFT_SOURCE_DIR");
    char script[600], mnt[600], src[600], byte;
    int ends[2];

    assert_non_null(source);
    assert_non_null(getcwd(here, sizeof(here) - 16));
    snprintf(script, sizeof(script), "%s/" SCRIPT, source);
    snprintf(mnt, sizeof(mnt), "%s/mnt", here);
    snprintf(src, sizeof(src), "%s/src", here);
    umount2("mnt", MNT_DETACH); /* a test that failed left it */
    mkdir("mnt", 0777);
    mkdir("src", 0777);
    sh("head -c 44 /dev/zero > src/a.wav");
    assert_int_equal(pipe(ends), 0);
    server = fork();
    if (server == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        execlp("python3", "python3", script, mnt, how, src, (char *)NULL);
        _exit(1);
    }
    close(ends[1]);
    said = ends[0];
    if (read(said, &byte, 1) == 1)
        return true;
    close(said);
    waitpid(server, NULL, 0);
    print_message("skipped: no file system can be mounted here\n");
    return false;
}

/* Who waits for it gets an error then. */
static void unmount(void)
{
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    umount2("mnt", MNT_DETACH);
    close(said);
}

TEST(a_decoder_that_cannot_be_killed_is_left_behind)
{
    const struct ask ask = {.limits = {.silence_ms = 1000}};
    const int64_t began_ms = clock_mono_ms();
    struct outcome o;

    if (!mount_at("read"))
        skip();
    o = decode_path("mnt/a.wav", &ask); /* and closes it */
    unmount();
    if (o.rc != ERR_STALLED)
        fail_msg("%d: %s", o.rc, o.err.msg);
    assert_in_range(clock_mono_ms() - began_ms, 1000, 20000);
    outcome_free(&o);
}

/* The first opens wait, all others of that mount are told at once, and those elsewhere go on. */
TEST(a_mount_that_opens_nothing_is_set_apart)
{
    char path[600];
    struct err err = {0};
    int64_t began_ms;
    int fd = -1;

    if (!mount_at("open"))
        skip();
    snprintf(path, sizeof(path), "%s/mnt/a.wav", here);
    mounts_set_patience(700, 2000);
    began_ms = clock_mono_ms();
    assert_int_equal(mounts_open(path, &fd, &err), ERR_STALLED);
    assert_in_range(clock_mono_ms() - began_ms, 700, 10000);
    assert_non_null(strstr(err.msg, "/mnt does not answer"));
    began_ms = clock_mono_ms();
    err = (struct err){0};
    assert_int_equal(mounts_open(path, &fd, &err), ERR_STALLED);
    assert_true(clock_mono_ms() - began_ms < 500);
    snprintf(path, sizeof(path), "%s/src/a.wav", here);
    err = (struct err){0};
    assert_ok(mounts_open(path, &fd, &err), err);
    close(fd);
    /* It is tried again, and answers now: by what lies beneath. */
    unmount();
    sh("cp src/a.wav mnt/a.wav");
    usleep(2100000);
    snprintf(path, sizeof(path), "%s/mnt/a.wav", here);
    assert_ok(mounts_open(path, &fd, &err), err);
    close(fd);
}

TEST(what_is_not_there_is_said_as_before)
{
    struct err err = {0};
    int fd = -1;

    assert_int_equal(mounts_open("/nowhere/at/all", &fd, &err), ERR_MISSING);
    sh("rm -f fifo; mkfifo fifo");
    err = (struct err){0};
    assert_ok(mounts_open("fifo", &fd, &err), err); /* at once; it is looked at then */
    close(fd);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "decoder") == 0)
        return decoder_main(argc, argv);
    return suite_run(NULL, NULL);
}
