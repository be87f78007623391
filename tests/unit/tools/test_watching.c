/* Which files of a watched folder are whole, and what follows of what comes and goes. */
#include <fcntl.h>
#include <signal.h>
#include <sysexits.h>
#include <unistd.h>

#include "tests/common/test.h"

#include "base/clock.h"
#include "tools/enqueue/watching.h"

#define NOW INT64_C(1800000000000)

static bool finalized(int64_t modified_ms, int64_t changed_ms)
{
    const struct stat st = {
        .st_mtim = {(NOW - modified_ms) / 1000, (NOW - modified_ms) % 1000 * 1000000},
        .st_ctim = {(NOW - changed_ms) / 1000, (NOW - changed_ms) % 1000 * 1000000}};

    return watching_is_stable(&st, 30000, NOW);
}

TEST(a_file_finalizes)
{
    assert_true(finalized(30000, 30000));
    assert_false(finalized(29999, 60000));
    assert_false(finalized(INT64_C(31536000000), 10)); /* cp -p gives it its old time in the end */
    assert_false(finalized(0, 0));
    assert_false(finalized(-1000, -1000)); /* a server's clock */
    assert_true(finalized(-3600000, -3600000));
    assert_true(watching_is_stable(&(struct stat){.st_mtim = {INT64_MAX, 0}}, 30000, NOW));
}

static void make_file(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY, 0600);

    assert_true(fd >= 0);
    close(fd);
}

/* In place of an enqueue, which comes when more is whole than was to the look before it. */
static int enqueue(const char *as_of)
{
    const int64_t looked_ms = strtoll(as_of, NULL, 10), began_ms = clock_wall_ms();

    if (access("root", F_OK) != 0) {
        kill(getppid(), SIGTERM);
        return EX_NOINPUT;
    }
    if (looked_ms > began_ms || looked_ms < began_ms - 60000)
        return EX_DATAERR;
    usleep(200000);
    return rename("root", "away") == 0 ? EX_OK : EX_IOERR;
}

TEST(a_root_that_goes_is_enqueued_as_gone)
{
    static char as_of[WATCHING_AS_OF];
    static const char *const argv[] = {"test", "enqueue", as_of, NULL};
    static const char *const roots[] = {"root"};
    const struct watching w = {.roots = roots,
                               .root_count = 1,
                               .argv = argv,
                               .as_of = as_of,
                               .stable_ms = 100,
                               .poll_ms = 100};
    struct err err = {0};

    unlink("away/new.wav"); /* of the last time */
    rmdir("away");
    assert_int_equal(mkdir("root", 0700), 0);
    make_file("root/new.wav");
    alarm(60);
    assert_ok(watching_run(&w, &err), err);
    alarm(0);
    assert_int_equal(access("away/new.wav", F_OK), 0);
}

int main(int argc, char **argv)
{
    if (argc > 2 && strcmp(argv[1], "enqueue") == 0)
        return enqueue(argv[2]);
    return suite_run(NULL, NULL);
}
