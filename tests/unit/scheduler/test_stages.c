/* Runs of several stages: what each of them yields, what is finalized when its shards are there,
 * and what becomes of the others when one cannot be done. */
#include <sys/socket.h>
#include <uv.h>

#include "scheduler/ledger.h"
#include "scheduler/run/process.h"
#include "tests/unit/scheduler/fixture.h"
#include "workers/wire/protocol.h"

static const char DONE[] = "SELECT count(*) FROM task WHERE state = 'done'";
static const char UNFINALIZED[] = "SELECT count(*) FROM task WHERE waits = 'settling'";

#define HELD 2 /* finalizers of a run */

static int run_fails(char message[496])
{
    struct scheduler_result r;
    struct err e;
    int rc = run_once("cpu", &r, &e);

    snprintf(message, 496, "%s", e.msg);
    return rc;
}

static void rows_are(const char *sql, const char *want)
{
    char *rows = rows_of(sql);

    assert_string_equal(rows, want);
    free(rows);
}

/* ----------------------------------------------------------------------------- what they yield */

TEST(sounds_and_vectors_are_kept)
{
    fixture_reset();
    ADD_TO("fake@sounds", "/a/ok-2");
    ADD_TO("fake@embed-audio", "/a/ok-2");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 2);
    rows_are("SELECT seq, start_ms, end_ms, class_id, name, score FROM sound ORDER BY seq",
             "0|0|960|7|Applause|0.5|\n1|10000|10960|7|Applause|0.5|\n");
    rows_are("SELECT seq, idx, start_ms, length(vector), ifnull(text, '-') FROM embedding "
             "ORDER BY seq, idx",
             "0|0|0|8|-|\n0|1|1000|8|-|\n1|0|10000|8|-|\n1|1|11000|8|-|\n");
    assert_int_equal(count_of("SELECT count(*) FROM segment"), 0);
}

/* Whichever was enqueued first: vectors of text wait for the text. */
TEST(passages_are_made_of_the_transcription)
{
    fixture_reset();
    ADD_TO("fake@embed-text", "/a/ok-2");
    ADD("/a/ok-2");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 2);
    assert_int_equal(count_left("embed-text:ok-2"), 1);
    /* Twelve characters: each of the fake's segments is a passage. */
    assert_int_equal(count_of("SELECT count(*) FROM embedding"), 4);
    assert_int_equal(count_of("SELECT count(*) FROM embedding e JOIN segment g ON "
                              "g.start_ms = e.start_ms AND g.end_ms = e.end_ms AND "
                              "g.text = e.text"),
                     4);
    /* Nobody listened to it for them: what listening told stays. */
    rows_are("SELECT duration_ms, content_hash IS NOT NULL FROM media", "20000|1|\n");
}

TEST(text_of_nobody_asks_no_worker)
{
    fixture_reset();
    ADD("/a/mute-2", "/a/ok-1");
    ADD_TO("fake@embed-text", "/a/mute-2", "/a/ok-1");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 4);
    assert_int_equal(count_left("embed-text:mute-2"), 0);
    assert_int_equal(count_left("embed-text:ok-1"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM embedding"), 2);
}

static void count_told(enum log_level level, const char *line, void *arg)
{
    unsigned *told = arg;

    told[0] += level == LOG_WARN && strstr(line, "input-1: ");
    told[1] += level == LOG_WARN && strstr(line, "wrong-1: ");
}

/* What is wrong with a file is told once, however many stages meet it; and all that is. */
TEST(each_wrong_of_a_file_is_told_once)
{
    unsigned told[2] = {0};

    fixture_reset();
    ADD_TO("fake@sounds", "/a/input-1", "/a/wrong-1");
    ADD_TO("fake@embed-audio", "/a/input-1", "/a/wrong-1");
    log_set_sink(count_told, told);
    run_all("cpu");
    log_set_sink(NULL, NULL);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'failed'"), 4);
    assert_int_equal(told[0], 1);
    assert_int_equal(told[1], 2);
}

/* A run that was killed between a text's vectors and the word that they are all. */
TEST(vectors_that_are_there_are_not_made_again)
{
    sqlite3 *db;

    fixture_reset();
    ADD("/a/ok-1");
    ADD_TO("fake@embed-text", "/a/ok-1");
    run_all("cpu");
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "UPDATE task SET state = 'pending', shards_total = NULL "
                                  "WHERE stage_id = 2",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    run_all("cpu");
    assert_int_equal(count_of(DONE), 2);
    assert_int_equal(count_left("embed-text:ok-1"), 1);
}

TEST(what_waits_for_a_failure_stays_and_ends_no_run_late)
{
    fixture_reset();
    ADD("/a/input-1", "/a/ok-1");
    ADD_TO("fake@embed-text", "/a/input-1", "/a/ok-1");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 2);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE waits = 'source'"), 1);
}

/* Looking for what is to be finalized, at every message, must not write what waits for others. */
int __real_ledger_flush(struct ledger *l, struct err *err);
int __wrap_ledger_flush(struct ledger *l, struct err *err);
static unsigned commits; /* with results */

int __wrap_ledger_flush(struct ledger *l, struct err *err)
{
    commits += ledger_shards(l) > 0;
    return __real_ledger_flush(l, err);
}

TEST(results_are_written_together)
{
    static const char *const models[] = {"fake", "fake@diarize"};
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    struct scheduler_result r;
    struct err e = {0};

    t.commit_ms = 600000;
    o.tuning = &t;
    for (int i = 0; i < 2; i++) {
        fixture_reset();
        ADD_TO(models[i], "/a/ok-100");
        setenv("FAKE_SHARD_US", "2000", 1); /* a message each */
        commits = 0;
        assert_ok(scheduler_run(&o, &r, &e), e);
        assert_int_equal(count_of("SELECT count(*) FROM shard"), 100);
        assert_in_range(commits, 1, 15);
    }
}

/* A process's socket waits only while much is said, and never for ever. */
int __real_uv_read_stop(uv_stream_t *s);
int __wrap_uv_read_stop(uv_stream_t *s);
static unsigned stops;

int __wrap_uv_read_stop(uv_stream_t *s)
{
    stops++;
    return __real_uv_read_stop(s);
}

static void hear_of(const char *path)
{
    fixture_reset();
    ADD(path);
    setenv("FAKE_SHARD_US", "200", 1);
    stops = 0;
    assert_int_equal(run_all("cpu").tasks_done, 1);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'"), 0);
}

TEST(sockets_wait_while_much_is_said)
{
    hear_of("/a/ok-4");
    assert_int_equal(stops, 1); /* at the worker's end */
    hear_of("/a/ok-2000");
    assert_in_range(stops, 2, 1000);
}

/* ---------------------------------------------------------------------------------- finalizing */

static const char TURNS[] = "SELECT m.place_id, k.label, u.start_ms, u.end_ms FROM turn u "
                            "JOIN task t USING (task_id) JOIN media m USING (media_id) "
                            "JOIN speaker k USING (speaker_id) ORDER BY 1, u.idx";

TEST(a_recording_is_finalized_when_its_shards_are_there)
{
    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-2");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 1);
    rows_are(TURNS, "1|SPEAKER_00|0|1000|\n1|SPEAKER_01|1000|2000|\n"
                    "1|SPEAKER_00|10000|11000|\n1|SPEAKER_01|11000|12000|\n");
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'run-end' "
                              "AND text = '1 done, 0 failed'"),
                     1);
    run_all("cpu"); /* nothing is left */
    assert_int_equal(count_left("settled-1"), 1);
}

TEST(a_finalizer_computes_with_the_threads_of_a_run)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_result r;
    struct err e;

    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-2");
    o.threads = 3;
    assert_ok(scheduler_run(&o, &r, &e), e);
    assert_int_equal(count_left("threads-3"), 1);
}

/* Between the run and its children lies a small buffer, whatever this machine's default is, so that
 * a finalizer that is slow to take its voices leaves them with the run. */
int __real_socketpair(int domain, int type, int protocol, int fds[2]);
int __wrap_socketpair(int domain, int type, int protocol, int fds[2]);

int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
    int rc = __real_socketpair(domain, type, protocol, fds), bytes = 4096;

    if (rc == 0)
        assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
    return rc;
}

static size_t most_queued, largest_frame; /* of those that tell a finalizer voices, */
static size_t announced;                  /* and of the one that goes with the first of them */

int __real_process_send(struct process *p, uint8_t type, const struct buf *payload);
int __wrap_process_send(struct process *p, uint8_t type, const struct buf *payload);

int __wrap_process_send(struct process *p, uint8_t type, const struct buf *payload)
{
    int rc = __real_process_send(p, type, payload);

    if (type == MSG_FINALIZE)
        announced = FRAME_HEADER + payload->len;
    if (type != MSG_VOICES)
        return rc;
    if (process_queued(p) - announced > most_queued)
        most_queued = process_queued(p) - announced;
    announced = 0;
    if (FRAME_HEADER + payload->len > largest_frame)
        largest_frame = FRAME_HEADER + payload->len;
    return rc;
}

static void finalize_long_ones(uint64_t queued_bytes)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    struct scheduler_result r;
    struct err e = {0};

    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-200", "/a/ok-3");
    setenv("FAKE_FINALIZE", "late", 1);
    t.queued_bytes = queued_bytes;
    o.tuning = &t;
    most_queued = largest_frame = 0;
    assert_ok(scheduler_run(&o, &r, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 2 * (200 + 3));
    assert_int_equal(count_left("settled-1") + count_left("settled-2"), 2);
}

/* Long recordings: the finalizer takes what is queued before more is read. */
TEST(voices_go_to_a_finalizer_as_it_takes_them)
{
    char *all, *paced;

    finalize_long_ones(UINT64_MAX);
    all = rows_of(TURNS);
    assert_true(most_queued > 100 * largest_frame);
    finalize_long_ones(1);
    paced = rows_of(TURNS);
    assert_string_equal(paced, all);
    /* The socket was full, and then no more than one was taken from the catalog ahead. */
    assert_in_range(most_queued, 1, largest_frame);
    free(all);
    free(paced);
}

#define COUNT 24 /* names that differ, by their zeros */

TEST(many_are_finalized_beside_the_work)
{
    char path[COUNT][32];
    const char *paths[COUNT];
    int i;

    fixture_reset();
    for (i = 0; i < COUNT; i++) {
        snprintf(path[i], sizeof(path[i]), "/a/ok-%0*d", 1 + i / 3, 1 + i % 3);
        paths[i] = path[i];
    }
    fixture_add(paths, COUNT, "fake@diarize");
    fixture_add(paths, COUNT, "fake");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 2 * COUNT);
    assert_int_equal(count_of("SELECT count(*) FROM turn"),
                     count_of("SELECT 2 * count(*) FROM shard h JOIN task t USING (task_id) "
                              "JOIN stage s USING (stage_id) WHERE s.name = 'diarize'"));
    assert_int_equal(count_of("SELECT count(*) FROM segment WHERE speaker_id IS NULL"), 0);
}

/* As what is to be decoded: with little room, and somebody who holds the catalog's log. */
TEST(nothing_is_finalized_without_room)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t = quick;
    struct request rq = {.type = REQUEST_ENQUEUE_BEGIN,
                         .command_line = "test",
                         .stage = fixture_stage("fake"),
                         .language = ""};
    struct request_reply reply;
    struct control *c;
    struct err e = {0};
    sqlite3 *db;
    pid_t pid;

    fixture_reset();
    leave_word("hold");
    ADD_TO("fake@diarize", "/a/ok-1");
    t.room_ms = 20;
    t.log_bytes = 4096;
    t.free_bytes = INT64_MAX;
    o.tuning = &t;
    pid = run_child(&o); /* before SQLite is used: its locks are not those of a child */
    wait_words("diarize:ok-1", 1);
    c = reach_run();
    db = reader_open();
    assert_int_equal(sqlite3_exec(db, "BEGIN; SELECT count(*) FROM task", NULL, NULL, NULL), 0);
    assert_ok(control_request(c, &rq, &reply, &e), e); /* makes the log longer */
    rq = (struct request){.type = REQUEST_ENQUEUE_END, .job_id = reply.job_id};
    assert_ok(control_request(c, &rq, &reply, &e), e);
    control_close(c);
    wait_count("SELECT count(*) FROM event WHERE kind = 'log-held'", 1);
    take_word_back("hold");
    wait_count(UNFINALIZED, 1);
    usleep(500000 * PATIENCE);
    assert_int_equal(count_of(UNFINALIZED), 1);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
    assert_int_equal(sqlite3_close(db), 0);
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of(DONE), 1);
}

TEST(a_death_while_finalizing_costs_nothing)
{
    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-1");
    setenv("FAKE_FINALIZE", "crashonce", 1);
    run_all("cpu");
    rows_are("SELECT state, attempts, suspect FROM task", "done|0|1|\n");
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'settler-died'"), 1);
}

static void expect_set_aside(const char *how, int attempts, const char *why)
{
    char *said, expected[100];

    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-1");
    ADD("/a/ok-1", "/a/ok-2");
    setenv("FAKE_FINALIZE", how, 1);
    run_all("cpu");
    snprintf(expected, sizeof(expected),
             "diarize|failed|%d|\ntranscribe|done|0|\ntranscribe|done|0|\n", attempts);
    rows_are("SELECT s.name, t.state, t.attempts FROM task t JOIN stage s USING (stage_id) "
             "ORDER BY 1, 2",
             expected);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'quarantined'"), 1);
    said = rows_of("SELECT error FROM task WHERE state = 'failed'");
    if (!strstr(said, why))
        fail_msg("%s: %s", how, said);
    free(said);
}

TEST(what_cannot_be_finalized_is_set_aside)
{
    expect_set_aside(
        "crash", 1, "2 of them alone in this run: the worker died on it: it was ended by signal 6");
    expect_set_aside("midway", 1, "signal 6");
    expect_set_aside("io", 3, "reading failed");
    expect_set_aside("other", 1, "does not speak our protocol");
    expect_set_aside("badturn", 1, "does not speak our protocol");
    expect_set_aside("longturn", 1, "after the recording's end");
    expect_set_aside("longspeech", 1, "after the recording's end");
}

TEST(one_that_gives_no_answer_is_killed)
{
    struct scheduler_tuning t = quick;
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_result r;
    struct err e = {0};

    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-1");
    setenv("FAKE_FINALIZE", "hang", 1);
    t.still_ms = 200 * PATIENCE;
    o.tuning = &t;
    assert_ok(scheduler_run(&o, &r, &e), e);
    rows_are("SELECT state, attempts FROM task", "failed|1|\n");
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE error LIKE '%no answer%'"), 1);
}

TEST(a_verdict_about_the_voices_is_final)
{
    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-1");
    setenv("FAKE_FINALIZE", "input", 1);
    run_all("cpu");
    rows_are("SELECT state, error_code, error FROM task",
             "failed|input|its voices make no sense|\n");
}

/* No finalizer can be had: all else is done, and the run says it. */
TEST(without_finalizers_the_rest_is_done)
{
    char message[496];

    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-1");
    ADD("/a/ok-1");
    setenv("FAKE_FINALIZE", "version", 1);
    assert_int_equal(run_fails(message), ERR_VERSION);
    assert_non_null(strstr(message, "cannot be finalized"));
    assert_int_equal(count_of(DONE), 1);
    assert_int_equal(count_of(UNFINALIZED), 1);
    unsetenv("FAKE_FINALIZE");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 2);
}

/* kill -9 of the run at any moment of finalizing: the next one finalizes what is left, and the rows
 * are those of a run that was left in peace. */
TEST(a_killed_run_finalizes_again)
{
    static const char *const paths[] = {"/a/ok-1", "/a/ok-2",   "/a/ok-01",
                                        "/a/ok-3", "/a/ok-001", "/a/ok-02"};
    struct scheduler_options o = fixture_options("cpu");
    char *want, *got;
    int i;

    fixture_reset();
    fixture_add(paths, 6, "fake@diarize");
    run_all("cpu");
    want = rows_of(TURNS);
    fixture_reset();
    fixture_add(paths, 6, "fake@diarize");
    setenv("FAKE_FINALIZE", "slow", 1);
    for (i = 0; i < 4; i++) {
        pid_t pid = run_child(&o);

        if (i == 0)
            wait_count(UNFINALIZED, 1);
        usleep((useconds_t)(60000 + 70000 * i));
        kill(pid, SIGKILL);
        wait_child(pid);
    }
    unsetenv("FAKE_FINALIZE");
    run_all("cpu");
    got = rows_of(TURNS);
    assert_string_equal(got, want);
    assert_int_equal(count_of(DONE), 6);
    free(want);
    free(got);
}

/* A run whose finalizers each have one recording in hand until they may go on. */
static pid_t start_held(struct scheduler_options *o, struct scheduler_tuning *t)
{
    pid_t pid;

    *t = quick;
    t->still_ms = 600000;
    o->tuning = t;
    setenv("FAKE_FINALIZE", "held", 1);
    pid = run_child(o);
    wait_words("in-hand-", HELD);
    return pid;
}

/* What is in hand is finished; the rest waits. */
TEST(a_drained_run_finalizes_what_it_holds)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t;
    pid_t pid;

    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-1", "/a/ok-01", "/a/ok-001", "/a/ok-0001", "/a/ok-00001",
           "/a/ok-000001");
    pid = start_held(&o, &t);
    wait_count(UNFINALIZED, 6);
    kill(pid, SIGINT);
    wait_draining();
    leave_word("go-on");
    assert_int_equal(wait_child(pid), 99);
    assert_int_equal(count_of(DONE), HELD);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending'"), 6 - HELD);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE attempts + suspect > 0"), 0);
}

/* Somebody's shell in a transaction; returns when it is in it. */
static pid_t lock_catalog(useconds_t us)
{
    pid_t pid = fork();
    sqlite3 *db;

    if (pid == 0) {
        if (sqlite3_open(CATALOG, &db) != SQLITE_OK ||
            sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
            _exit(1);
        leave_word("locked");
        usleep(us);
        _exit(0);
    }
    assert_true(pid > 0);
    wait_words("locked", 1);
    return pid;
}

TEST(cancelled_ones_are_not_finalized)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t;
    struct scheduler_result r;
    struct err e = {0};
    pid_t pid;

    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-1", "/a/ok-01", "/a/ok-001", "/a/ok-0001");
    pid = start_held(&o, &t);
    tell_run(REQUEST_CANCEL, 0);
    leave_word("go-on");
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'cancelled'"), 4);
    assert_int_equal(count_of("SELECT count(*) FROM turn"), 0); /* what was answered is dropped */
    /* The next run drops what was heard; but it does not end because somebody writes just then. */
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 4);
    t.busy_ms = 50;
    pid = lock_catalog(1000000 * PATIENCE);
    assert_ok(scheduler_run(&o, &r, &e), e);
    assert_int_equal(wait_child(pid), 0);
    run_all("cpu");
    assert_int_equal(count_of("SELECT count(*) FROM voice"), 0);
}

TEST(a_paused_catalog_is_not_finalized)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_tuning t;
    pid_t pid;

    fixture_reset();
    ADD_TO("fake@diarize", "/a/ok-1", "/a/ok-01", "/a/ok-001", "/a/ok-0001", "/a/ok-00001",
           "/a/ok-000001");
    pid = start_held(&o, &t);
    wait_count(UNFINALIZED, 6);
    tell_run(REQUEST_PAUSE, 0);
    leave_word("go-on");
    wait_count(DONE, HELD); /* what was in hand is finished */
    usleep(300000);
    assert_int_equal(count_of(DONE), HELD);
    tell_run(REQUEST_RESUME, 0);
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of(DONE), 6);
}

/* --------------------------------------------------------------------------- what comes first */

static void tell_priority(const char *path, int64_t priority)
{
    struct request rq = {.type = REQUEST_PRIORITY, .select_path = path, .priority = priority};
    struct request_reply reply;
    struct err e = {0};
    struct control *c = reach_run();

    assert_ok(control_request(c, &rq, &reply, &e), e);
    assert_int_equal(reply.affected, 1);
    control_close(c);
}

TEST(a_stage_with_something_of_high_priority_is_next)
{
    struct scheduler_options o = fixture_options("cpu");
    pid_t pid;

    fixture_reset();
    ADD("/a/slow-20000", "/a/slow-20001", "/a/ok-3");
    ADD_TO("fake@sounds", "/a/ok-1");
    o.watch = true;
    pid = run_child(&o);
    wait_count("SELECT count(*) FROM shard", 2);
    tell_priority("/a/ok-3", STORE_HIGH); /* of its own stage, when a lease has ended */
    tell_priority("/a/ok-1", STORE_LOW);
    tell_priority("/a/ok-1", STORE_HIGH); /* not before what is as high */
    wait_count("SELECT count(*) FROM shard", 6);
    assert_int_equal(count_of(DONE), 0);
    tell_priority("/a/ok-3", STORE_NORMAL);
    wait_count(DONE, 1);
    rows_are("SELECT path FROM task JOIN media USING (media_id) JOIN place USING (place_id) "
             "WHERE task.state = 'done'",
             "/a/ok-1|\n");
    wait_count("SELECT count(*) FROM shard", 12); /* and the first one goes on */
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE suspect OR attempts"), 0);
}

/* ----------------------------------------------------------------------- stages that cannot be */

static void expect_others_done(const char *mode_name, const char *env, int code, const char *why)
{
    char message[496];

    fixture_reset();
    ADD("/a/ok-3", "/a/ok-4");
    ADD_TO("fake@sounds", "/a/ok-3", "/a/ok-4");
    ADD_TO("fake@diarize", "/a/ok-3", "/a/ok-4");
    setenv(env, mode_name, 1);
    assert_int_equal(run_fails(message), code);
    assert_non_null(strstr(message, why));
    assert_int_equal(count_of(DONE), 4);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending' AND attempts = 0 "
                              "AND suspect = 0"),
                     2);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'stage-aside'"), 1);
    unsetenv(env);
    run_all("cpu");
    assert_int_equal(count_of(DONE), 6);
}

TEST(a_stage_without_its_model_does_not_stop_the_others)
{
    setenv("NIGHTSHIFT_DEVICES", "cpu", 1);
    expect_others_done("model@transcribe", "FAKE_MODE", ERR_MODEL, "tensor 'x' is missing");
    expect_others_done("model@sounds", "FAKE_MODE", ERR_MODEL, "tensor 'x' is missing");
    expect_others_done("novram@transcribe", "FAKE_MODE", ERR_VRAM, "8 GB are needed");
    expect_others_done("model", "FAKE_FINALIZE", ERR_MODEL, "transforms are gone");
}

/* Somebody has mended it: who retries, or enqueues again, has it tried again by the same run. */
TEST(a_stage_put_aside_is_tried_again_when_asked)
{
    struct scheduler_options o = fixture_options("cpu");
    pid_t pid;

    fixture_reset();
    o.watch = true;
    ADD_TO("fake@diarize", "/a/ok-2");
    setenv("FAKE_FINALIZE", "model", 1);
    pid = run_child(&o);
    wait_count("SELECT count(*) FROM event WHERE kind = 'stage-aside'", 1);
    tell_run(REQUEST_RETRY, 0); /* it is as broken as before */
    wait_count("SELECT count(*) FROM event WHERE kind = 'stage-aside'", 2);
    kill(pid, SIGINT);
    assert_int_equal(wait_child(pid), err_exit_status(ERR_MODEL));
    assert_int_equal(count_of(UNFINALIZED), 1);
}

/* ---------------------------------------------------------------------------- length of shards */

static const char LENGTH_KEPT[] = "SELECT count(*) FROM setting WHERE name = 'shard_ms'";

TEST(a_length_that_a_stage_cannot_have_is_refused)
{
    char message[496];

    fixture_reset();
    ADD("/a/ok-1");
    ADD_TO("fake@sounds", "/a/ok-1");
    fixture_most_shard_ms = SHARD_MS - 1;
    assert_int_equal(run_fails(message), ERR_USAGE);
    if (!strstr(message, "stage sounds") || !strstr(message, "use --shard=9s or less"))
        fail_msg("%s", message);
    assert_int_equal(count_of(DONE), 0); /* of no stage: it is the run that was meant otherwise, */
    assert_int_equal(count_of(LENGTH_KEPT), 0); /* and the next one may be meant so */
    fixture_most_shard_ms = SHARD_MS;
    run_all("cpu");
    assert_int_equal(count_of(DONE), 2);
    fixture_most_shard_ms = 1; /* nothing waits for it */
    run_all("cpu");
}

TEST(a_stage_that_cannot_have_the_catalogs_length_is_put_aside)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_result r;
    struct err e = {0};

    fixture_reset();
    ADD("/a/ok-1");
    run_all("cpu");
    ADD_TO("fake@sounds", "/a/ok-1");
    ADD("/a/ok-2");
    fixture_most_shard_ms = SHARD_MS - 1;
    o.shard_ms = 0; /* what the results that are there have */
    assert_int_equal(scheduler_run(&o, &r, &e), ERR_LIMIT);
    assert_true(r.stages_disabled);
    rows_are("SELECT s.name, t.state FROM task t JOIN stage s USING (stage_id) ORDER BY 1, 2",
             "sounds|pending|\ntranscribe|done|\ntranscribe|done|\n");
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'stage-aside' AND text LIKE "
                              "'%too long for the stage sounds%--shard=9s or less'"),
                     1);
    /* Of the mix alone it could have it. */
    fixture_mixed_most_shard_ms = SHARD_MS;
    assert_int_equal(scheduler_run(&o, &r, &e), ERR_LIMIT);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'stage-aside' AND text LIKE "
                              "'%--shard=9s or less, or enqueue with --channels=mix%'"),
                     1);
}

TEST_MAIN(NULL, NULL)
