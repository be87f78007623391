/* The run with a worker that misbehaves on command, on a real catalog. */
#include <glob.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>

#include "scheduler/plan/retry.h"
#include "tests/unit/scheduler/fixture.h"

#define STATE_OF(name)                                                                             \
    "SELECT count(*) FROM task JOIN place USING (media_id) WHERE cast(path AS TEXT) LIKE '%/" name \
    "' AND task.state = "

static void results_are_whole(int64_t recordings, int64_t shards)
{
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), recordings);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), shards);
    assert_int_equal(count_of("SELECT count(*) FROM segment"), shards * 2);
    /* Each word of what the worker said is with its segment, and what it dropped is apart. */
    assert_int_equal(count_of("SELECT count(*) FROM word JOIN segment g USING (segment_id) "
                              "WHERE g.idx = 1 AND g.attempts = 2 AND g.speech_prob = 0.875 "
                              "AND g.reason = 'tried again: repetitive' AND (word.idx, word.text, "
                              "word.start_ms - g.start_ms, probability) IN "
                              "(VALUES (0, ' the', 0, 0.5), (1, ' end', 500, 0.75))"),
                     shards * 2);
    assert_int_equal(count_of("SELECT count(*) FROM word"), shards * 2);
    assert_int_equal(count_of("SELECT count(*) FROM segment WHERE idx = 0 AND attempts = 1 "
                              "AND speech_prob IS NULL AND reason = ''"),
                     shards);
    assert_int_equal(count_of("SELECT count(*) FROM dropped WHERE text = 'you' AND attempts = 6 "
                              "AND speech_prob = 0.125 AND reason = 'no voice'"),
                     shards);
}

static void change_catalog(const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* So many deaths in earlier runs. */
static void suspect_all(uint32_t deaths)
{
    char sql[80];

    snprintf(sql, sizeof(sql), "UPDATE task SET suspect = %u", deaths);
    change_catalog(sql);
}

TEST(all_recordings_are_done)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/ok-1", "/a/ok-2", "/a/ok-7", "/a/slow-12", "/b/ok-1");
    assert_ok(run_once("cpu,cpu", &r, &e), e);
    results_are_whole(4, 22);
    assert_int_equal(r.tasks_done, 4);
    assert_int_equal(r.tasks_failed, 0);
    assert_int_equal(r.tasks_left, 0);
    assert_int_equal(r.audio_ms, 22 * SHARD_MS);
    assert_false(r.interrupted);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind IN ('run-start', 'run-end')"),
                     2);
    assert_int_equal(count_of("SELECT count(*) FROM media WHERE content_hash IS NULL"), 0);
    /* A second run has nothing to do, and starts no worker for it. */
    assert_ok(run_once("cpu", &r, &e), e);
    assert_int_equal(r.tasks_done, 0);
    results_are_whole(4, 22);
}

TEST(bad_recordings_fail_and_the_rest_goes_on)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/ok-3", "/a/input-1", "/a/io-2", "/a/denied-1", "/a/ioonce-4", "/gone/missing-1",
        "/a/shardfail-5", "/a/short-6", "/a/ok-9");
    assert_ok(run_once("cpu", &r, &e), e);
    assert_int_equal(r.tasks_done, 3);
    assert_int_equal(r.tasks_failed, 6);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), 3);
    assert_int_equal(count_of(STATE_OF("input-1") "'failed' AND attempts = 1 AND error_code = "
                                                  "'input' AND error = 'no audio track'"),
                     1);
    assert_int_equal(count_of(STATE_OF("io-2") "'failed' AND attempts = 3 AND error LIKE "
                                               "'failed after 3 attempts: reading failed%'"),
                     1);
    assert_int_equal(count_of(STATE_OF("denied-1") "'failed' AND error LIKE '%nightshift retry%'"),
                     1);
    assert_int_equal(count_of(STATE_OF("missing-1") "'failed' AND error_code = 'missing'"), 1);
    assert_int_equal(count_of(STATE_OF("ioonce-4") "'done' AND attempts = 1"), 1);
    assert_int_equal(count_of(STATE_OF("short-6") "'failed' AND error_code = 'protocol'"), 1);
    /* What could be had of a bad recording is there. */
    assert_int_equal(count_of(STATE_OF("shardfail-5") "'failed' AND shards_done = 4"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'quarantined'"), 2);
}

TEST(another_place_is_tried)
{
    fixture_reset();
    ADD("/gone/missing-4", "/gone/deeper/missing-4", "/here/missing-4");
    run_all("cpu");
    results_are_whole(1, 4);
}

TEST(which_of_a_name_is_said)
{
    fixture_reset();
    ADD("/a/second-3");
    run_all("cpu");
    results_are_whole(1, 3);
}

TEST(deaths_cost_only_the_guilty)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/ok-3", "/a/crash-4", "/a/ok-1", "/a/ok-2", "/a/crashonce-6", "/a/ok-11", "/a/device-2",
        "/a/garbage-1", "/a/outside-2", "/a/ok-5");
    assert_ok(run_once("cpu,cpu", &r, &e), e);
    assert_int_equal(r.tasks_failed, 4);
    assert_int_equal(r.tasks_done, 6);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done' AND attempts > 0"),
                     0);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'failed' AND attempts = 1"),
                     4);
    assert_int_equal(
        count_of(STATE_OF("crash-4") "'failed' AND error LIKE 'failed after _ crashes "
                                     "in a row, _ of them alone in this run: the worker "
                                     "died on it: it was ended by signal 6%retry%'"),
        1);
    assert_int_equal(count_of(STATE_OF("garbage-1") "'failed' AND error_code = 'protocol'"), 1);
    assert_true(count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'") >= 9);
}

/* Somebody kills decoders. */
TEST(a_kill_counts_against_nobody)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/killedonce-1", "/a/killed-1", "/a/killedonce-4", "/a/killed-6", "/a/ok-1", "/a/ok-2",
        "/a/ok-3");
    assert_ok(run_once("cpu", &r, &e), e);
    assert_int_equal(r.tasks_done, 5);
    assert_int_equal(r.tasks_failed, 2);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done' AND attempts > 0"),
                     0);
    assert_int_equal(count_of(STATE_OF("killed-_") "'failed' AND attempts = 1 AND error_code = "
                                                   "'crash' AND error LIKE 'failed after % "
                                                   "alone in this run: the decoder was killed from "
                                                   "outside (signal 9); %retry%'"),
                     2);
    assert_int_equal(count_of(STATE_OF("killed-6") "'failed' AND shards_done = 3"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'"), 0);
    /* At the end of the night: when all that nobody suspects is done. */
    assert_int_equal(count_of("SELECT count(*) FROM task a JOIN task b ON a.suspect AND NOT "
                              "b.suspect AND a.settled_at < b.settled_at"),
                     0);
}

static void kills_of_other_runs(const char *path, uint32_t deaths)
{
    const char *paths[] = {path};

    fixture_reset();
    fixture_add(paths, 1, "fake");
    suspect_all(deaths);
    run_all("cpu");
}

/* One alone in each of some runs is still nothing; but no killer goes on so for ever. */
TEST(kills_of_several_runs)
{
    kills_of_other_runs("/a/killedonce-1", RETRY_DEATHS - 2);
    results_are_whole(1, 1);
    kills_of_other_runs("/a/crashonce-1", RETRY_DEATHS - 2);
    results_are_whole(1, 1);
    kills_of_other_runs("/a/crashonce-1", RETRY_DEATHS - 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'failed' AND suspect = 8 "
                              "AND error LIKE 'failed after 8 crashes in a row, 1 of them alone%'"),
                     1);
    /* What gave a result before it died begins anew. */
    kills_of_other_runs("/a/crashonce-9", RETRY_DEATHS - 1);
    results_are_whole(1, 9);
}

TEST(what_hangs_is_killed)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/ok-3", "/a/still-1", "/a/hang-1", "/a/ok-2");
    struct scheduler_options o = fixture_options("cpu,cpu");
    suspect_all(RETRY_DEATHS - 1);         /* one more is enough */
    o.worker_silence_ms = 1000 * PATIENCE; /* less than what is called standing still */
    assert_ok(scheduler_run(&o, &r, &e), e);
    assert_int_equal(r.tasks_done, 2);
    assert_int_equal(count_of(STATE_OF("still-1") "'failed' AND error_code = 'timeout' AND error "
                                                  "LIKE '%it made no progress%'"),
                     1);
    assert_int_equal(count_of(STATE_OF("hang-1") "'failed' AND error_code = 'timeout' AND error "
                                                 "LIKE '%did not answer for%'"),
                     1);
}

TEST(doubled_and_stray_results_change_nothing)
{
    fixture_reset();
    ADD("/a/dup-5", "/a/stray-6", "/a/ok-2");
    run_all("cpu");
    results_are_whole(3, 13);
}

TEST(results_do_not_depend_on_workers)
{
    static const char sql[] =
        "SELECT path, task.state, shards_total, seq, shard.start_ms, shard.end_ms, idx, "
        "segment.start_ms, text FROM place JOIN task USING (media_id) JOIN shard USING (task_id) "
        "JOIN segment USING (task_id, seq) ORDER BY path, seq, idx";
    char *one, *many;

    fixture_reset();
    ADD("/a/slow-30", "/a/ok-3", "/a/ok-1", "/a/crashonce-9");
    run_all("cpu");
    one = rows_of(sql);
    fixture_reset();
    ADD("/a/slow-30", "/a/ok-3", "/a/ok-1", "/a/crashonce-9");
    run_all("cpu,cpu,cpu,cpu");
    many = rows_of(sql);
    assert_string_equal(one, many);
    free(one);
    free(many);
}

TEST(stages_run_one_after_the_other)
{
    const char *paths[] = {"/a/ok-3", "/a/ok-4"}, *others[] = {"/b/ok-2", "/b/ok-5"};

    fixture_reset();
    fixture_add(paths, 2, "a");
    fixture_add(others, 2, "b");
    run_all("cpu");
    results_are_whole(4, 14);
}

static void expect_stop(const char *mode, int code, const char *words)
{
    struct scheduler_result r;
    struct err e;
    int rc;

    fixture_reset();
    setenv("FAKE_MODE", mode, 1);
    ADD("/a/ok-3");
    rc = run_once("cpu,cpu", &r, &e);
    unsetenv("FAKE_MODE");
    assert_int_equal(rc, code);
    if (!strstr(e.msg, words))
        fail_msg("'%s' does not say '%s'", e.msg, words);
    /* Nothing is charged to the recording, and the next run does it. */
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending' AND attempts = 0"),
                     1);
    run_all("cpu");
    results_are_whole(1, 3);
}

TEST(workers_that_cannot_work_stop_the_run)
{
    expect_stop("version", ERR_VERSION, "another build (0.0.1-other");
    expect_stop("model", ERR_MODEL, "tensor 'x' is missing");
    expect_stop("exit", ERR_CRASH, "it ended with status 7");
    expect_stop("nomem", ERR_NOMEM, "the model does not fit");
}

/* Another start loads no library that is missing. */
TEST(what_has_to_be_installed_is_told_at_once)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    setenv("FAKE_MODE", "nolibrary", 1);
    ADD("/a/ok-3");
    assert_int_equal(run_once("cpu,cpu", &r, &e), ERR_LIBRARY);
    unsetenv("FAKE_MODE");
    assert_non_null(strstr(e.msg, "no worker is left: FFmpeg cannot be opened"));
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'"), 2);
    run_all("cpu");
    results_are_whole(1, 3);
}

TEST(patience_has_an_end)
{
    struct scheduler_tuning t = quick;
    struct scheduler_options o;
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/ok-1");
    t.hello_ms = t.ready_ms = 100;
    o = fixture_options("cpu");
    o.tuning = &t;
    setenv("FAKE_MODE", "mute", 1);
    assert_int_equal(scheduler_run(&o, &r, &e), ERR_TIMEOUT);
    assert_non_null(strstr(e.msg, "did not say who it is"));
    t.hello_ms = 20000;
    setenv("FAKE_MODE", "unready", 1);
    assert_int_equal(scheduler_run(&o, &r, &e), ERR_TIMEOUT);
    assert_non_null(strstr(e.msg, "did not load the model"));
}

TEST(a_program_that_is_missing_is_said)
{
    struct scheduler_tuning t = quick;
    struct scheduler_options o;
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/ok-1");
    t.worker_program = "/nonexistent/nightshift";
    o = fixture_options("cpu");
    o.tuning = &t;
    assert_int_equal(scheduler_run(&o, &r, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "could not be started: No such file"));
}

TEST(options_are_checked)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    assert_int_equal(unlink(CATALOG), 0);
    assert_int_equal(run_once("cpu", &r, &e), ERR_MISSING);
    ADD("/a/ok-1");
    assert_int_equal(run_once("gpu9", &r, &e), ERR_USAGE);
    assert_int_equal(run_once(",", &r, &e), ERR_USAGE);
}

TEST(a_second_run_says_who_holds_it)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_result r;
    struct err e;
    pid_t pid;

    fixture_reset();
    ADD("/a/slow-60");
    pid = run_child(&o);
    wait_count("SELECT count(*) FROM shard", 1);
    assert_int_equal(run_once("cpu", &r, &e), ERR_LOCKED);
    if (!strstr(e.msg, "nightshift run"))
        fail_msg("'%s'", e.msg);
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
}

TEST(a_drained_run_goes_on_later)
{
    struct scheduler_options o = fixture_options("cpu,cpu");
    int64_t before;
    pid_t pid;

    fixture_reset();
    ADD("/a/slow-40", "/a/slow-41", "/a/slow-42");
    pid = run_child(&o);
    wait_count("SELECT count(*) FROM shard", 3);
    kill(pid, SIGINT);
    assert_int_equal(wait_child(pid), 99);
    before = count_of("SELECT count(*) FROM shard");
    assert_true(before < 123);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE attempts + suspect > 0"), 0);
    run_all("cpu,cpu");
    results_are_whole(3, 123);
}

TEST(a_second_signal_stops_at_once)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    pid_t pid;

    fixture_reset();
    ADD("/a/ok-2", "/a/hang-8");
    o.worker_silence_ms = t.still_ms = 600000;
    o.tuning = &t;
    pid = run_child(&o);
    wait_count("SELECT count(*) FROM shard", 6);
    kill(pid, SIGTERM);
    wait_draining(); /* of two signals that come at once one is never seen */
    usleep(100000);
    /* The worker hangs: its shard never ends. */
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 6);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE attempts + suspect > 0"), 0);
}

/* Results depend on where recordings are cut. */
TEST(the_shard_length_is_the_catalogs)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_result r;
    struct err e = {0};

    fixture_reset();
    ADD("/a/ok-3");
    run_all("cpu");
    ADD("/a/ok-4");
    o.shard_ms = 2 * SHARD_MS;
    assert_int_equal(scheduler_run(&o, &r, &e), ERR_USAGE);
    assert_non_null(strstr(e.msg, "--shard"));
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending'"), 1);
    o.shard_ms = 0;
    assert_ok(scheduler_run(&o, &r, &e), e);
    results_are_whole(2, 7);
    assert_int_equal(count_of("SELECT max(end_ms) FROM shard"), 4 * SHARD_MS);
}

TEST(nohup_is_respected)
{
    struct scheduler_options o = fixture_options("cpu");
    pid_t pid;

    fixture_reset();
    ADD("/a/slow-20");
    signal(SIGHUP, SIG_IGN);
    pid = run_child(&o);
    signal(SIGHUP, SIG_DFL);
    wait_count("SELECT count(*) FROM shard", 1);
    kill(pid, SIGHUP);
    assert_int_equal(wait_child(pid), 0);
    results_are_whole(1, 20);
}

/* The first process that the run starts waits at a gate before it becomes another program. */
static bool gate_up;

int __real_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attr, char *const argv[], char *const envp[]);
int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attr, char *const argv[], char *const envp[]);

int __wrap_posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                       const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
    if (gate_up)
        assert_int_equal(posix_spawn_file_actions_addopen((posix_spawn_file_actions_t *)actions, 9,
                                                          "state/gate", O_WRONLY | O_CLOEXEC, 0),
                         0);
    gate_up = false;
    return __real_posix_spawn(pid, path, actions, attr, argv, envp);
}

static void *signal_newborn(void *arg)
{
    pid_t newborn;

    (void)arg;
    while (children_of(getpid(), &newborn, 1) == 0)
        usleep(1000);
    assert_int_equal(kill(newborn, SIGHUP), 0);
    close(open("state/gate", O_RDONLY | O_CLOEXEC));
    return NULL;
}

/* Ctrl-C reaches the whole foreground group, and so a child that has not left it yet and still has
 * the run's handlers: it must not tell the run a second time. */
TEST(signals_to_a_newborn_worker_are_its_own)
{
    struct scheduler_result r;
    struct err e;
    pthread_t thread;

    fixture_reset();
    ADD("/a/ok-3");
    assert_int_equal(mkfifo("state/gate", 0600), 0);
    gate_up = true;
    assert_int_equal(pthread_create(&thread, NULL, signal_newborn, NULL), 0);
    assert_ok(run_once("cpu", &r, &e), e);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(gate_up);
    assert_false(r.interrupted);
    results_are_whole(1, 3);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'"), 1);
}

/* A disk that is full, as the run sees it: no file may grow beyond what the catalog needs now. */
static pid_t run_on_a_full_disk(const struct scheduler_options *o)
{
    pid_t pid;

    fixture_reset();
    ADD("/a/ok-300", "/a/ok-301", "/a/ok-302");
    signal(SIGXFSZ, SIG_IGN);
    pid = fork();
    if (pid == 0) {
        struct rlimit limit = {300000, RLIM_INFINITY};
        struct scheduler_result r;
        struct err e = {0};
        int rc;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setrlimit(RLIMIT_FSIZE, &limit);
        rc = scheduler_run(o, &r, &e);
        _exit(rc == 0 ? 0 : (rc == ERR_FULL || rc == ERR_IO) && r.interrupted ? 50 : 51);
    }
    assert_true(pid > 0);
    return pid;
}

TEST(a_full_disk_stops_the_run_in_order)
{
    struct scheduler_options o = fixture_options("cpu");

    assert_int_equal(wait_child(run_on_a_full_disk(&o)), 50);
    assert_true(count_of("SELECT count(*) FROM shard") < 903);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE attempts > 0"), 0);
    run_all("cpu");
    results_are_whole(3, 903);
}

/* However long it lasts, memory is not filled instead of the disk. */
TEST(results_in_memory_are_bounded)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;

    t.full_give_up_ms = 600000;
    t.kept_bytes = 20000;
    o.tuning = &t;
    assert_int_equal(wait_child(run_on_a_full_disk(&o)), 50);
    run_all("cpu");
    results_are_whole(3, 903);
}

/* Results that make no sense are the worker's fault and the recording's end, not the run's. */
TEST(impossible_results_are_refused)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/badtext-2", "/a/ok-1");
    assert_ok(run_once("cpu", &r, &e), e);
    assert_int_equal(r.tasks_done, 1);
    assert_int_equal(r.tasks_failed, 1);
    assert_int_equal(count_of(STATE_OF("badtext-2") "'failed'"), 1);
    assert_int_equal(count_of(STATE_OF("ok-1") "'done'"), 1);
}

/* And so is what the catalog alone finds wrong, whatever else is in the same commit. */
TEST(what_the_catalog_refuses_fails_alone)
{
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD("/a/first-4", "/a/second-4", "/a/third-4");
    change_catalog(
        "CREATE TRIGGER refuse AFTER INSERT ON shard WHEN new.task_id = 2 AND new.seq = 1 "
        "BEGIN SELECT RAISE(ABORT, 'not this one'); END");
    assert_ok(run_once("cpu", &r, &e), e);
    assert_int_equal(r.tasks_done, 2);
    assert_int_equal(r.tasks_failed, 1);
    assert_int_equal(r.recordings_failed, 1);
    assert_int_equal(count_of(STATE_OF("second-4") "'failed'"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE error LIKE '%not this one%'"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE task_id <> 2"), 8);
}

TEST(a_disk_that_is_emptied_lets_the_run_go_on)
{
    struct scheduler_options o = fixture_options("cpu");
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    struct scheduler_tuning t = quick;
    int64_t before = -1, now = 0;
    pid_t pid;

    t.full_give_up_ms = 600000;
    o.tuning = &t;
    pid = run_on_a_full_disk(&o);
    while (now == 0 || now != before) { /* until nothing gets through any more */
        before = now;
        usleep(700000);
        now = count_of("SELECT count(*) FROM shard");
    }
    assert_true(now < 903);
    assert_int_equal(prlimit(pid, RLIMIT_FSIZE, &none, NULL), 0);
    assert_int_equal(wait_child(pid), 0);
    results_are_whole(3, 903);
}

/* Somebody's shell in a transaction, and little room: the run says whose, begins nothing new, and
 * goes on when the shell has ended. */
TEST(a_forgotten_reader_is_waited_for)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    char held[256];
    sqlite3 *db;
    int64_t before;
    pid_t pid;

    fixture_reset();
    leave_word("hold");
    ADD("/a/slow-6", "/a/slow-7", "/a/slow-8", "/a/slow-9", "/a/slow-10", "/a/slow-11",
        "/a/slow-12");
    t.room_ms = 20;
    t.log_bytes = 4096;
    t.free_bytes = INT64_MAX;
    o.tuning = &t;
    pid = run_child(&o); /* before SQLite is used: its locks are not those of a child */
    control_close(reach_run());
    db = reader_open();
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM task", NULL, NULL, NULL), 0);
    take_word_back("hold");
    snprintf(held, sizeof(held),
             "SELECT count(*) FROM event WHERE kind = 'log-held' AND text LIKE "
             "'%%while test_scheduler_ (pid %ld) reads it%%'",
             (long)getpid());
    wait_count(held, 1);
    /* What is leased is finished; and then nothing moves any more. */
    do {
        before = count_of("SELECT count(*) FROM shard");
        usleep(500000 * PATIENCE);
    } while (count_of("SELECT count(*) FROM shard") != before);
    assert_true(before < 6 + 7 + 8 + 9 + 10 + 11 + 12);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    assert_int_equal(sqlite3_close(db), 0);
    assert_int_equal(wait_child(pid), 0);
    results_are_whole(7, 6 + 7 + 8 + 9 + 10 + 11 + 12);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'log-held'"), 1);
}

static void lose_all(void) { assert_int_equal(system("rm " CATALOG " " CATALOG "-*"), 0); }

/* As who brings a backup back. */
static void put_another(void)
{
    assert_int_equal(system("echo another file > other && mv other " CATALOG), 0);
}

static void lose_log(void) { assert_int_equal(unlink(CATALOG "-wal"), 0); }

/* As run_child, with what it says in the file "said". */
static pid_t run_child_heard(const struct scheduler_options *o)
{
    int kept = dup(2), to = open("said", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    pid_t pid;

    assert_true(kept >= 0 && to >= 0);
    assert_int_equal(dup2(to, 2), 2);
    pid = run_child(o);
    assert_int_equal(dup2(kept, 2), 2);
    close(kept);
    close(to);
    return pid;
}

static void lose_and_see(void (*lose)(void), int code)
{
    struct scheduler_options o = fixture_options("cpu");
    char line[32] = "", cmd[256];
    FILE *f = NULL;
    glob_t found;
    pid_t pid;

    fixture_reset();
    ADD("/a/slow-300", "/a/ok-2");
    pid = run_child_heard(&o);
    wait_count("SELECT count(*) FROM shard", 2);
    lose();
    assert_int_equal(wait_child(pid), err_exit_status(code));
    assert_int_equal(system("grep -q '^run: .*; the whole catalog, .* is now in .*\\.rescued-.*: "
                            "move that to the catalog.s place' said"),
                     0);
    if (lose == put_another) {
        f = fopen(CATALOG, "r");
        assert_non_null(f);
        assert_non_null(fgets(line, sizeof(line), f));
        fclose(f);
        assert_string_equal(line, "another file\n");
        assert_int_equal(access(CATALOG "-wal", F_OK), -1); /* would be taken for its own */
    }
    assert_int_equal(glob(CATALOG ".rescued-*", 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    snprintf(cmd, sizeof(cmd), "rm -f " CATALOG " " CATALOG "-wal && mv %s " CATALOG,
             found.gl_pathv[0]);
    globfree(&found);
    assert_int_equal(system(cmd), 0);
    assert_int_equal(count_of("SELECT count(*) FROM pragma_integrity_check "
                              "WHERE integrity_check = 'ok'"),
                     1);
    assert_true(count_of("SELECT count(*) FROM shard") >= 2);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'run-end'"), 1);
}

TEST(a_deleted_catalog_is_rescued) { lose_and_see(lose_all, ERR_MISSING); }

TEST(a_replaced_catalog_is_rescued) { lose_and_see(put_another, ERR_CHANGED); }

TEST(a_catalog_without_its_log_is_rescued) { lose_and_see(lose_log, ERR_CHANGED); }

TEST_MAIN(NULL, NULL)
