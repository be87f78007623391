/* Stages that listen to what is decoded for another: one pass for all of them, the same rows as
 * one stage after the other, and nothing lost or charged whatever becomes of those that listen. */
#include "tests/unit/scheduler/fixture.h"

static const char DONE[] = "SELECT count(*) FROM task WHERE state = 'done'";
static const char CHARGED[] = "SELECT count(*) FROM task WHERE attempts > 0";
/* What all stages have found, whichever order they came in; and whichever index SQLite takes, so
 * each list has an order of its own. */
static const char FOUND[] =
    "SELECT p.path, s.name, t.state, t.shards_total, h.seq, h.start_ms, h.end_ms, "
    "(SELECT group_concat(said, ' ') FROM (SELECT g.start_ms || g.text || ifnull(k.label, '') AS "
    "said "
    " FROM segment g LEFT JOIN speaker k USING (speaker_id) "
    " WHERE g.task_id = h.task_id AND g.seq = h.seq ORDER BY g.start_ms, said)), "
    "(SELECT group_concat(heard, ' ') FROM (SELECT d.start_ms || d.name AS heard FROM sound d "
    " WHERE d.task_id = h.task_id AND d.seq = h.seq ORDER BY d.start_ms, heard)), "
    "(SELECT group_concat(vector, ' ') FROM (SELECT e.start_ms || hex(e.vector) AS vector "
    " FROM embedding e WHERE e.task_id = h.task_id AND e.seq = h.seq ORDER BY e.start_ms, "
    "vector)), "
    "(SELECT group_concat(turn, ' ') FROM (SELECT u.start_ms || l.label AS turn "
    " FROM turn u JOIN speaker l USING (speaker_id) "
    " WHERE u.task_id = h.task_id ORDER BY u.start_ms, turn)) "
    "FROM task t JOIN stage s USING (stage_id) JOIN media m USING (media_id) "
    "JOIN place p ON p.place_id = m.place_id LEFT JOIN shard h USING (task_id) ORDER BY 1, 2, 5";

static int passes(const char *name)
{
    static const char *const stages[] = {"transcribe", "diarize", "sounds", "embed-audio"};
    char what[64];
    int n = 0;

    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
        snprintf(what, sizeof(what), "%s:%s", stages[i], name);
        n += count_left(what);
    }
    return n;
}

static void enqueue_all(const char *const *paths, size_t n)
{
    static const char *const stages[] = {"fake", "fake@diarize", "fake@sounds", "fake@embed-audio",
                                         "fake@embed-text"};

    for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++)
        fixture_add(paths, n, stages[i]);
}

/* -------------------------------------------------------------------------------- one pass */

#define SOME 5
static const char *const some[SOME] = {"/a/ok-1", "/a/ok-3", "/a/mute-2", "/a/ok-7", "/a/ok-02"};

static char *found_stage_by_stage(const char *const *paths, size_t n)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_result r;
    struct err e = {0};
    char *rows;

    fixture_reset();
    enqueue_all(paths, n);
    o.stage_by_stage = true;
    assert_ok(scheduler_run(&o, &r, &e), e);
    assert_int_equal(r.tasks_done, 5 * n);
    assert_int_equal(passes(strrchr(paths[0], '/') + 1), 4);
    rows = rows_of(FOUND);
    return rows;
}

TEST(all_stages_hear_one_pass)
{
    char *want = found_stage_by_stage(some, SOME), *got;
    struct scheduler_result r;

    fixture_reset();
    enqueue_all(some, SOME);
    r = run_all("cpu");
    got = rows_of(FOUND);
    assert_string_equal(got, want);
    assert_int_equal(r.tasks_done, 5 * SOME);
    assert_int_equal(r.tasks_left, 0);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'run-end' "
                              "AND text = '5 done, 0 failed'"),
                     1);
    for (int i = 0; i < SOME; i++)
        assert_int_equal(passes(strrchr(some[i], '/') + 1), 1);
    assert_int_equal(count_left("+diarize:ok-7"), 1);
    assert_int_equal(count_left("+embed-text:ok-7"), 0); /* it hears nothing */
    assert_int_equal(count_left("embed-text:ok-7"), 1);
    /* The whole was read once, and its length is known to all. */
    assert_int_equal(count_of("SELECT count(*) FROM media WHERE content_hash IS NOT NULL"), SOME);
    r = run_all("cpu");
    assert_int_equal(r.tasks_done, 0);
    assert_int_equal(passes("ok-7"), 1);
    free(want);
    free(got);
}

/* Each recording has the stages that it was enqueued for, and no others. */
TEST(stages_of_other_recordings_do_not_listen)
{
    fixture_reset();
    ADD("/a/ok-1", "/a/ok-2");
    ADD_TO("fake@sounds", "/a/ok-2", "/a/ok-3");
    ADD_TO("fake@diarize", "/a/ok-3", "/a/ok-4");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 6);
    assert_int_equal(passes("ok-1") + passes("ok-2") + passes("ok-3") + passes("ok-4"), 4);
    assert_int_equal(count_left("+sounds:ok-2"), 1);
    assert_int_equal(count_left("+sounds:ok-1"), 0);
    assert_int_equal(count_left("+diarize:ok-3"), 1); /* beside sounds, whose turn it was */
    assert_int_equal(count_left("diarize:ok-4"), 1);
}

/* What is asked for in another way is not heard in the old one, too. */
TEST(a_withdrawn_stage_does_not_listen)
{
    fixture_reset();
    ADD("/a/ok-3");
    ADD_TO("beams", "/a/ok-3");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 1);
    assert_int_equal(count_left("transcribe:ok-3"), 1);
    assert_int_equal(count_left("+transcribe:ok-3"), 0);
    assert_int_equal(count_of("SELECT count(DISTINCT task_id) FROM segment"), 1);
}

TEST(longer_than_one_lease)
{
    static const char *const paths[] = {"/a/ok-160", "/a/ok-90", "/a/ok-5"};
    char *want = found_stage_by_stage(paths, 3), *got;

    fixture_reset();
    setenv("FAKE_SHARD_US", "3000", 1);
    enqueue_all(paths, 3);
    run_all("cpu,cpu,cpu,cpu");
    got = rows_of(FOUND);
    assert_string_equal(got, want);
    /* They were shared between workers, with all their tracks. */
    assert_true(count_left("transcribe:ok-160") > 1);
    assert_int_equal(count_left("+sounds:ok-160"), count_left("transcribe:ok-160"));
    assert_int_equal(count_left("sounds:ok-160"), 0);
    free(want);
    free(got);
}

/* What a first pass did not come past is done in the stage's own turn, and no more than that. */
TEST(parts_that_are_done_are_not_done_again)
{
    sqlite3 *db;

    fixture_reset();
    ADD("/a/ok-4");
    run_all("cpu");
    ADD_TO("fake@sounds", "/a/ok-4");
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db,
                                  "PRAGMA foreign_keys = ON; "
                                  "DELETE FROM segment WHERE task_id = 1 AND seq >= 2; "
                                  "DELETE FROM shard WHERE task_id = 1 AND seq >= 2; "
                                  "UPDATE task SET state = 'pending', settled_at = NULL "
                                  "WHERE task_id = 1",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    run_all("cpu");
    assert_int_equal(count_of(DONE), 2);
    assert_int_equal(count_left("+sounds:ok-4"), 1); /* shards 2 and 3 */
    assert_int_equal(count_left("sounds:ok-4"), 1);  /* 0 and 1 */
    assert_int_equal(count_of("SELECT count(*) FROM sound"), 4);
}

/* ------------------------------------------------------------------- those that are not loaded */

static void expect_own_turn(const char *how)
{
    fixture_reset();
    enqueue_all(some, SOME);
    setenv("FAKE_TRACKS", how, 1);
    run_all("cpu");
    assert_int_equal(count_of(DONE), 5 * SOME);
    assert_int_equal(count_of(CHARGED), 0);
    assert_int_equal(count_left("+sounds:ok-3"), 0);
    assert_int_equal(count_left("sounds:ok-3"), 1);
}

TEST(what_is_not_loaded_has_its_own_turn)
{
    expect_own_turn("none");
    assert_int_equal(passes("ok-3"), 4);
    expect_own_turn("few");
    assert_int_equal(passes("ok-3"), 4);
    expect_own_turn("none@sounds");
    assert_int_equal(count_left("+diarize:ok-3"), 1);
    assert_int_equal(count_left("sounds:ok-3"), 1);
    assert_int_equal(passes("ok-3"), 2); /* embed-audio listened to the first */
}

/* ------------------------------------------------------------------------ those that misbehave */

static char *said_of_deaths(void)
{
    return rows_of("SELECT text FROM event WHERE kind = 'worker-died'");
}

/* The worker dies once; after that the others have their own turns, and nobody is charged. */
static void expect_one_death(const char *how, const char *why)
{
    char *said;

    fixture_reset();
    enqueue_all(some, SOME);
    setenv("FAKE_TRACKS", how, 1);
    run_all("cpu");
    said = said_of_deaths();
    if (!strstr(said, why))
        fail_msg("%s: %s", how, said);
    free(said);
    assert_int_equal(count_of(DONE), 5 * SOME);
    assert_int_equal(count_of(CHARGED), 0);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'worker-aside'"), 0);
}

static int64_t deaths(void)
{
    return count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'");
}

TEST(who_listens_kills_once)
{
    expect_one_death("crash@sounds", "signal 6");
    /* Once beside the transcription, and once beside the next stage. */
    assert_in_range(deaths(), 1, 2);
    expect_one_death("crash", "signal 6");
    assert_in_range(deaths(), 1, 3);
    expect_one_death("die@sounds", "signal 6");
    assert_in_range(deaths(), 1, 2);
    expect_one_death("many", "protocol");
    expect_one_death("outside@diarize", "protocol");
    expect_one_death("foreign@embed-audio", "protocol");
    expect_one_death("astray@sounds", "protocol");
    expect_one_death("longer@sounds", "protocol");
    expect_one_death("lastly", "protocol");
}

TEST(what_a_track_fails_at_is_done_in_its_stage_s_own_turn)
{
    static const char *const how[] = {"fail", "drop"};

    for (int i = 0; i < 2; i++) {
        fixture_reset();
        enqueue_all(some, SOME);
        setenv("FAKE_TRACKS", how[i], 1);
        run_all("cpu");
        assert_int_equal(count_of(DONE), 5 * SOME);
        assert_int_equal(count_of(CHARGED), 0);
        assert_int_equal(deaths(), 0);
        assert_int_equal(count_left("+sounds:ok-3"), 2); /* beside both stages before it */
        assert_int_equal(count_left("sounds:ok-3"), 1);
    }
}

TEST(what_comes_twice_counts_once)
{
    struct scheduler_result r;

    fixture_reset();
    enqueue_all(some, SOME);
    setenv("FAKE_TRACKS", "twice", 1);
    r = run_all("cpu");
    assert_int_equal(r.tasks_done, 5 * SOME);
    assert_int_equal(deaths(), 0);
}

/* A recording that kills workers is found out, though at first it may have been another stage. */
TEST(a_guilty_recording_is_charged_all_the_same)
{
    enum { N = 10 };
    static char path[N][32] = {"/a/crash-2"};
    const char *paths[N];
    char last[64];

    fixture_reset();
    for (int i = 0; i < N; i++) {
        if (i)
            snprintf(path[i], sizeof(path[i]), "/a/ok-%0*d", i, 2);
        paths[i] = path[i];
    }
    fixture_add(paths, N, "fake");
    fixture_add(paths, N, "fake@sounds");
    run_all("cpu");
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'failed' AND attempts = 1"),
                     2);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done' AND attempts = 0"),
                     2 * N - 2);
    /* In each stage once for nothing, as it held others or had given results; alone after that. */
    assert_int_equal(deaths(), 2 * (1 + 2));
    assert_int_equal(count_left("+sounds:crash-2"), 1);
    snprintf(last, sizeof(last), "+sounds:%s", path[N - 1] + 3);
    assert_int_equal(count_left(last), 0);
    assert_int_equal(count_left(last + 1), 1);
}

/* Nothing of a stage is done beside another while workers have died on it. */
TEST(suspects_do_not_listen)
{
    sqlite3 *db;

    fixture_reset();
    ADD("/a/ok-2", "/a/ok-3");
    ADD_TO("fake@sounds", "/a/ok-2", "/a/ok-3");
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    assert_int_equal(
        sqlite3_exec(db, "UPDATE task SET suspect = 1 WHERE task_id = 3", NULL, NULL, NULL),
        SQLITE_OK);
    sqlite3_close(db);
    run_all("cpu");
    assert_int_equal(count_of(DONE), 4);
    assert_int_equal(count_left("+sounds:ok-2"), 0);
    assert_int_equal(count_left("sounds:ok-2"), 1);
    assert_int_equal(count_left("+sounds:ok-3"), 1);
}

/* ------------------------------------------------------- while only those that listen are at work
 */

static const char TRANSCRIBED[] = "SELECT count(*) FROM task t JOIN stage s USING (stage_id) "
                                  "WHERE s.name = 'transcribe' AND t.state = 'done'";
static const char HEARD[] = "SELECT count(*) FROM sound";

/* A run that has transcribed all, and whose other stage has yet to say what it heard. */
static pid_t start_late(struct scheduler_options *o)
{
    pid_t pid;

    fixture_reset();
    ADD("/a/ok-1", "/a/ok-2");
    ADD_TO("fake@sounds", "/a/ok-1", "/a/ok-2", "/a/ok-3");
    leave_word("late");
    *o = fixture_options("cpu");
    pid = run_child(o);
    wait_count(TRANSCRIBED, 2);
    usleep(200000); /* a run that does not wait would go on now */
    return pid;
}

TEST(the_next_stage_waits_for_them)
{
    struct scheduler_options o;
    pid_t pid;

    pid = start_late(&o);
    assert_int_equal(count_left("sounds:ok-3"), 0);
    assert_int_equal(count_of(HEARD), 0);
    take_word_back("late");
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of(DONE), 5);
    assert_int_equal(count_left("sounds:ok-1") + count_left("sounds:ok-2"), 0);
    assert_int_equal(count_left("sounds:ok-3"), 1);
}

TEST(a_drained_run_ends_with_them)
{
    struct scheduler_options o;
    pid_t pid;

    pid = start_late(&o);
    kill(pid, SIGINT);
    assert_int_equal(wait_child(pid), 99);
    assert_int_equal(count_of(DONE), 2);
    assert_int_equal(count_of(CHARGED), 0);
    take_word_back("late");
    run_all("cpu");
    assert_int_equal(count_of(DONE), 5);
}

TEST(a_worker_that_dies_costs_them_nothing)
{
    struct scheduler_options o;
    pid_t pid, child[8];

    pid = start_late(&o);
    assert_int_equal(children_of(pid, child, 8), 1);
    kill(child[0], SIGKILL);
    take_word_back("late");
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of(DONE), 5);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE attempts + suspect > 0"), 0);
    assert_int_equal(count_left("sounds:ok-1"), 1);
}

TEST(cancelled_ones_end)
{
    struct scheduler_options o;
    pid_t pid;

    pid = start_late(&o);
    tell_run(REQUEST_CANCEL, 2);
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of(DONE), 2);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'cancelled'"), 3);
    assert_int_equal(count_of(HEARD), 0);
}

/* Of the first track's job, whose tasks are done: the others go on with the pass that they had. */
TEST(a_cancel_of_what_is_done_leaves_them)
{
    struct scheduler_options o;
    pid_t pid;

    pid = start_late(&o);
    tell_run(REQUEST_CANCEL, 1);
    take_word_back("late");
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of(DONE), 5);
    assert_int_equal(count_left("+sounds:ok-1") + count_left("+sounds:ok-2"), 2);
    assert_int_equal(count_left("sounds:ok-1") + count_left("sounds:ok-2"), 0);
}

TEST(a_pause_of_their_job_is_theirs_alone)
{
    struct scheduler_options o;
    pid_t pid;

    pid = start_late(&o);
    tell_run(REQUEST_PAUSE, 2);
    assert_int_equal(wait_child(pid), 0);
    assert_int_equal(count_of(DONE), 2);
    assert_int_equal(count_of(HEARD), 0);
}

/* ------------------------------------------------------------------------------------- kill -9 */

TEST(a_killed_run_ends_in_the_same_rows)
{
    static const char *const paths[] = {"/a/ok-40", "/a/ok-1",  "/a/ok-2", "/a/ok-13",
                                        "/a/ok-5",  "/a/ok-60", "/a/ok-17"};
    struct scheduler_options o = fixture_options("cpu,cpu");
    char *want = found_stage_by_stage(paths, 7), *got;
    unsigned seed = (unsigned)clock_mono_ns();
    struct scheduler_result r;

    print_message("seed %u\n", seed);
    fixture_reset();
    enqueue_all(paths, 7);
    setenv("FAKE_SHARD_US", "2000", 1);
    for (int i = 0; i < 8; i++) {
        pid_t pid = run_child(&o);

        seed = seed * 1103515245 + 12345;
        usleep((useconds_t)(20000 + (seed >> 8) % 150000) * PATIENCE);
        kill(pid, SIGKILL);
        wait_child(pid);
    }
    unsetenv("FAKE_SHARD_US");
    r = run_all("cpu,cpu");
    got = rows_of(FOUND);
    assert_string_equal(got, want);
    assert_int_equal(r.tasks_left, 0);
    assert_int_equal(count_of(CHARGED), 0);
    free(want);
    free(got);
}

TEST_MAIN(NULL, NULL)
