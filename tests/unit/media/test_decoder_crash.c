/* A decoder that crashes, hangs, floods or lies costs its file a sentence, and nobody else
 * anything: no process, no descriptor stays behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "base/spawn.h"
#include "tests/unit/media/media_util.h"
#include "workers/media/sandbox.h"

static const struct decoder_work plain;

static int open_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* What remains of a decoder that behaved in this way. */
static struct outcome behave(const char *how, bool listing, const struct decoder_limits *limits)
{
    struct ask ask = {.limits = limits ? *limits : (struct decoder_limits){0}};
    int before = open_fds();
    struct outcome o;

    assert_int_equal(setenv("MEDIA_DOUBLE", how, 1), 0);
    o = listing ? list_path("/dev/null", limits) : decode_path("/dev/null", &ask);
    assert_int_equal(open_fds(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    return o;
}

static void expect(const char *how, int code, const char *words)
{
    struct outcome o = behave(how, false, NULL);

    if (o.rc != code || !strstr(o.err.msg, words))
        print_error("%s:\n", how);
    assert_sentence(&o, code, words);
    outcome_free(&o);
}

TEST(crashes)
{
    expect("signal 11", ERR_INPUT, "crashed on it (signal 11)");
    expect("signal 6", ERR_INPUT, "crashed on it (signal 6)");
    expect("signal 8", ERR_INPUT, "crashed on it (signal 8)");
    expect("signal 31", ERR_INPUT, "crashed on it (signal 31)");
    expect("signal 24", ERR_LIMIT, "s of processor time");
    expect("exit 3", ERR_INPUT, "crashed on it (exit status 3)");
    expect("exit 0", ERR_INPUT, "crashed on it (exit status 0)");
    expect("exit 64", ERR_IO, "did not take what it was asked for");
}

/* Nothing in a file can send these, so the file is not to blame and may be tried again. */
TEST(killed_from_outside)
{
    expect("signal 9", ERR_CRASH, "killed from outside (signal 9)");
    expect("signal 15", ERR_CRASH, "killed from outside (signal 15)");
}

TEST(lies)
{
    expect("garbage", ERR_INPUT, "went astray");
    expect("giant", ERR_INPUT, "went astray");
    expect("half", ERR_INPUT, "");
    expect("type 200", ERR_INPUT, "went astray");
    expect("type 65", ERR_INPUT, "went astray"); /* an empty info */
    expect("type 71", ERR_INPUT, "went astray"); /* a sandbox report that nobody asked for */
    expect("early pcm", ERR_INPUT, "went astray");
    expect("gap", ERR_INPUT, "went astray");
    expect("infos", 0, "");
    expect("three infos", ERR_INPUT, "went astray");
    expect("other sources", ERR_INPUT, "went astray");
    expect("late pcm", ERR_INPUT, "went astray");
    expect("entry", ERR_INPUT, "went astray");
    expect("wrong end", ERR_INPUT, "went astray");
}

/* What an unpacker may send: nothing that was not asked for, no more and no less than it said. */
TEST(lies_about_bytes)
{
    static const struct {
        const char *how;
        bool asks, wanted, fine;
    } cases[] = {
        {"early bytes", false, false, false}, {"bytes 10", true, false, false},
        {"bytes 11", true, true, false},      {"bytes 0", true, true, false},
        {"bytes 9", true, true, true},        {"bytes 10", true, true, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int file = open("/dev/null", O_RDONLY | O_CLOEXEC), rc = 0;
        struct decoder_event ev = {0};
        struct decoder *d;
        struct err err = {0};

        assert_int_equal(setenv("MEDIA_DOUBLE", cases[i].how, 1), 0);
        assert_ok(decoder_start_unpack(file, NULL, &d, &err), err);
        close(file);
        if (cases[i].asks) {
            assert_ok(decoder_next(d, &ev, &err), err);
            assert_int_equal(ev.type, DECODER_ENTRY);
            assert_ok(decoder_answer(d, cases[i].wanted, &err), err);
        }
        rc = decoder_next(d, &ev, &err);
        assert_int_equal(rc, cases[i].fine ? 0 : ERR_INPUT);
        if (rc != 0)
            assert_non_null(strstr(err.msg, "went astray"));
        decoder_close(d);
    }
    expect("early bytes", ERR_INPUT, "went astray"); /* of a recording */
}

/* One that takes no answers must not make its parent wait for room for them. */
TEST(deaf_to_answers)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC), rc = 0;
    struct decoder_event ev = {0};
    struct decoder *d;
    struct err err = {0};

    assert_int_equal(setenv("MEDIA_DOUBLE", "deaf", 1), 0);
    assert_ok(decoder_start_unpack(file, NULL, &d, &err), err);
    close(file);
    for (int i = 0; i < 100000 && rc == 0; i++) {
        assert_ok(decoder_next(d, &ev, &err), err);
        rc = decoder_answer(d, false, &err);
    }
    assert_int_equal(rc, ERR_INPUT);
    assert_non_null(strstr(err.msg, "went astray"));
    decoder_close(d);
}

TEST(errors_of_its_own)
{
    char how[32];

    snprintf(how, sizeof(how), "error %d", ERR_CHANGED);
    expect(how, ERR_CHANGED, "an error of its own");
    snprintf(how, sizeof(how), "error %d", ERR_CORRUPT); /* that would stop the whole run */
    expect(how, ERR_INPUT, "went astray");
    snprintf(how, sizeof(how), "error %d", ERR_DEVICE);
    expect(how, ERR_INPUT, "went astray");
}

TEST(silence_ends_it)
{
    /* Long enough for a process to start on a machine that has other things to do. */
    const struct decoder_limits limits = {.silence_ms = 4000};
    struct outcome o = behave("hang", false, &limits);

    assert_true(o.has_info);
    assert_sentence(&o, ERR_TIMEOUT, "did not answer");
    outcome_free(&o);
}

/* Signs of life are not enough for ever, nor is a little at a time. */
TEST(one_that_drips_is_not_waited_for)
{
    const struct decoder_limits limits = {.wait_ms = 1000};
    struct outcome o = behave("drip", false, &limits);

    assert_sentence(&o, ERR_TIMEOUT, "kept us waiting");
    outcome_free(&o);
}

TEST(too_many_entries)
{
    const struct decoder_limits limits = {.max_entries = 10};
    struct outcome o = behave("entries", true, &limits);

    assert_int_equal(o.rc, ERR_INPUT);
    assert_int_equal(o.entry_count, 10);
    outcome_free(&o);
}

/* Of a listing all bytes come to whoever asked for it, and he makes of them what a member is. */
TEST(lies_about_what_is_listed)
{
    static const struct {
        const char *how;
        uint64_t room; /* bytes that it may unpack; 0: as many as it likes */
        bool fine;
    } cases[] = {
        {"listed 10", 0, true},           {"listed 10", 10, true},
        {"listed 10", 9, false},          {"listed 9", 0, false},
        {"listed 11", 0, false},          {"unfinished entries", 0, false},
        {"unfinished listing", 0, false}, {"listed, and damaged", 0, true},
    };
    static const char zeros[10];
    uint8_t whole[HASH_BYTES];

    hash_of(zeros, sizeof(zeros), whole);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct decoder_limits limits = {.max_unpacked_bytes = cases[i].room};
        struct outcome o = behave(cases[i].how, true, &limits);
        const bool damaged = strstr(cases[i].how, "damaged") != NULL;

        assert_int_equal(o.rc, cases[i].fine ? 0 : ERR_INPUT);
        assert_int_equal(o.entry_count, cases[i].fine);
        if (!cases[i].fine)
            assert_non_null(strstr(o.err.msg, "went astray"));
        else if (damaged)
            assert_int_equal(o.entries[0].code, ERR_INPUT);
        else
            assert_memory_equal(o.entries[0].content_hash, whole, HASH_BYTES);
        outcome_free(&o);
    }
}

static void count_line(enum log_level level, const char *line, void *arg)
{
    (void)level;
    assert_true(strlen(line) < 1000);
    ++*(unsigned *)arg;
}

TEST(a_flood_of_complaints_is_cut)
{
    unsigned lines = 0;

    log_set_sink(count_line, &lines);
    expect("stderr", ERR_INPUT, "crashed on it (signal 6)");
    log_set_sink(NULL, NULL);
    assert_in_range(lines, 1, 20);
}

TEST(only_its_descriptors)
{
    int stray = open("/dev/null", O_RDONLY); /* as another library might leave open */

    assert_true(stray >= 0);
    expect("fds", ERR_INPUT, "exit status 105");
    close(stray);
}

TEST(one_that_does_not_leave)
{
    struct outcome o = behave("good", false, NULL);

    assert_int_equal(o.rc, 0);
    assert_true(o.has_end);
    assert_int_equal(o.samples, 1600);
    outcome_free(&o);
}

static void *cancel_soon(void *arg)
{
    const struct timespec wait = {.tv_nsec = 50 * 1000 * 1000};

    nanosleep(&wait, NULL);
    decoder_cancel(arg);
    return NULL;
}

TEST(cancelled_from_another_thread)
{
    static const char *const ways[] = {"hang", "endless"};
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);

    for (int i = 0; i < 2; i++) {
        struct decoder_event ev;
        struct decoder *d;
        struct err err;
        pthread_t thread;
        int rc;

        assert_int_equal(setenv("MEDIA_DOUBLE", ways[i], 1), 0);
        assert_ok(decoder_start(file, &plain, NULL, &d, &err), err);
        assert_int_equal(pthread_create(&thread, NULL, cancel_soon, d), 0);
        do {
            rc = decoder_next(d, &ev, &err);
        } while (rc == 0);
        assert_int_equal(rc, ERR_CANCELLED);
        assert_int_equal(pthread_join(thread, NULL), 0);
        decoder_close(d);
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    }
    close(file);
}

TEST(closed_half_way)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct decoder_event ev;
    struct decoder *d;
    struct err err;

    assert_int_equal(setenv("MEDIA_DOUBLE", "endless", 1), 0);
    assert_ok(decoder_start(file, &plain, NULL, &d, &err), err);
    assert_ok(decoder_next(d, &ev, &err), err);
    assert_ok(decoder_next(d, &ev, &err), err);
    decoder_close(d);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    decoder_close(NULL);
    close(file);
}

static const char *double_path;

static void expect_good(struct decoder *d)
{
    struct decoder_event ev = {.type = DECODER_INFO};
    struct err err;

    while (ev.type != DECODER_END)
        assert_ok(decoder_next(d, &ev, &err), err);
    assert_int_equal(ev.end.total_samples, 1600);
}

TEST(several_of_one_server)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC), before = open_fds();
    struct decoder *d[3];
    struct err err;

    assert_int_equal(setenv("MEDIA_DOUBLE", "good", 1), 0);
    decoder_share_server();
    assert_int_equal(setenv("MEDIA_DOUBLE", "exit 3", 1), 0); /* another one would do this */
    for (int i = 0; i < 3; i++)
        assert_ok(decoder_start(file, &plain, NULL, &d[i], &err), err);
    for (int i = 0; i < 3; i++)
        expect_good(d[i]);
    decoder_close(d[1]);
    decoder_drop_server(); /* what it started goes on */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), 0);
    decoder_close(d[0]);
    decoder_close(d[2]);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(open_fds(), before);
    close(file);
}

struct said {
    int warnings;
    char last[200];
};

static void note_warning(enum log_level level, const char *line, void *arg)
{
    struct said *s = arg;

    s->warnings += level == LOG_WARN;
    snprintf(s->last, sizeof(s->last), "%.199s", line);
}

/* Of the processes that have this one for a parent the first, which is its fork server. */
static pid_t first_child(void)
{
    char name[64];
    FILE *f;
    int pid = 0;

    snprintf(name, sizeof(name), "/proc/%d/task/%d/children", (int)getpid(), (int)getpid());
    f = fopen(name, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%d", &pid), 1);
    fclose(f);
    return pid;
}

TEST(a_shared_server_that_died)
{
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC), before = open_fds();
    struct said said = {0};
    struct decoder *d;
    struct err err;
    pid_t server;

    log_set_sink(note_warning, &said);
    assert_int_equal(setenv("MEDIA_DOUBLE", "good", 1), 0);
    decoder_share_server();
    for (int i = 0; i < 6; i++) {
        const bool dies = i % 2 == 0; /* the next decoder is of the one that took its place */

        server = first_child();
        if (dies)
            assert_int_equal(kill(server, SIGKILL), 0);
        while (dies && !spawn_ended(server))
            usleep(1000);
        assert_ok(decoder_start(file, &plain, NULL, &d, &err), err);
        expect_good(d);
        decoder_close(d);
        assert_int_equal(first_child() != server, dies);
    }
    assert_int_equal(said.warnings, 1);
    assert_non_null(strstr(said.last, "signal 9"));
    log_set_sink(NULL, NULL);
    decoder_drop_server();
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(open_fds(), before);
    close(file);
}

/* By itself it wants no libraries; where decoders are about to be started it finds that they cannot
 * be opened. */
TEST(a_trial_of_the_sandbox)
{
    struct sandbox_report report = {0};
    int before = open_fds();
    struct err err = {0};

    assert_int_equal(setenv("MEDIA_DOUBLE", "unloaded", 1), 0);
    assert_ok(sandbox_check(&report, &err), err);
    assert_true(report.seccomp);
    decoder_share_server();
    assert_int_equal(sandbox_check(&report, &err), ERR_IO);
    assert_non_null(strstr(err.msg, "it ended before"));
    decoder_drop_server();
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(open_fds(), before);
}

TEST(no_such_program)
{
    struct decoder *d;
    struct err err = {0};
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC), before = open_fds();
    int rc;

    decoder_set_program("/nowhere/at/all");
    rc = decoder_start(file, &plain, NULL, &d, &err);
    assert_true(rc < 0);
    assert_non_null(strstr(err.msg, "start a decoder"));
    assert_int_equal(open_fds(), before);
    assert_int_equal(decoder_start(-1, &plain, NULL, &d, &err) < 0, 1);
    close(file);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s DOUBLE\n", argv[0]);
        return 2;
    }
    double_path = argv[1];
    decoder_set_program(double_path);
    return suite_run(NULL, NULL);
}
