/* Runs that work at some hours only: rests, evenings and ends at a checkpoint. What a clock shows
 * is in tests/sim/test_nights.c. And what is kept of them. */
#include "tests/unit/scheduler/fixture.h"

#define DAY_S 86400

/* It is 23:30 while the word "night" is there, and else noon. */
static int32_t night_or_noon(int64_t ms)
{
    const int64_t wanted = access("state/night", F_OK) == 0 ? 23 * 3600 + 1800 : DAY_S / 2;

    return (int32_t)(wanted - ms / 1000 % DAY_S);
}

/* It was a second before noon when somebody looked first. */
static int32_t about_noon(int64_t ms)
{
    static int64_t begun;

    if (!begun)
        begun = ms;
    return (int32_t)(DAY_S / 2 - 1 - begun / 1000 % DAY_S);
}

#define LOG "state/log"

static struct scheduler_tuning tuning;

static void keep_log(enum log_level level, const char *line, void *arg)
{
    FILE *file = fopen(LOG, "a");

    (void)level;
    (void)arg;
    if (!file)
        return;
    fprintf(file, "%s\n", line);
    fclose(file);
}

/* A night in a log is no thousand times the same line. */
static void no_line_twice_in_a_row(const char *must)
{
    char before[1000] = "", line[1000];
    FILE *file = fopen(LOG, "r");
    bool found = false;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        assert_string_not_equal(line, before);
        found |= strstr(line, must) != NULL;
        memcpy(before, line, sizeof(before));
    }
    fclose(file);
    assert_true(found);
}

static pid_t start_at(hours_zone zone, bool watch, const char *between)
{
    struct scheduler_options o = fixture_options("cpu");

    tuning = quick;
    tuning.zone = zone;
    tuning.line_ms = 20;
    o.tuning = &tuning;
    o.watch = watch;
    assert_true(hours_parse_between(between, &o.hours));
    return run_child(&o);
}

static void wait_note(struct control *c, const char *note)
{
    int64_t end = clock_mono_ms() + 30000 * PATIENCE;
    struct control_live live;
    struct err e = {0};

    do {
        assert_true(clock_mono_ms() < end);
        assert_ok(control_status(c, &live, &e), e);
        assert_string_equal(live.hours, "22:00-06:00");
    } while (strcmp(live.note, note) != 0 || live.workers_ready);
}

TEST(a_run_rests_by_day)
{
    struct control *c;
    int64_t before;
    pid_t pid, child;

    fixture_reset();
    log_set_sink(keep_log, NULL);
    ADD("/a/slow-900");
    pid = start_at(night_or_noon, false, "22:00-06:00");
    c = reach_run();
    wait_note(c, "resting until 22:00");
    assert_int_equal(children_of(pid, &child, 1), 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 0);
    leave_word("night");
    wait_count("SELECT count(*) FROM shard", 2);
    take_word_back("night");
    wait_note(c, "resting until 22:00");
    before = count_of("SELECT count(*) FROM shard");
    assert_true(before < 900);
    usleep(200000);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), before);
    leave_word("night"); /* the next evening */
    wait_count("SELECT count(*) FROM shard", before + 2);
    control_close(c);
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
    no_line_twice_in_a_row(", resting until 22:00, ");
    assert_int_equal(count_of("SELECT count(*) FROM (SELECT 1 FROM shard GROUP BY seq "
                              "HAVING count(*) > 1)"),
                     0);
}

/* Paused in the night, resumed by day. */
TEST(a_rest_and_a_pause)
{
    struct control *c;
    int64_t before;
    pid_t pid;

    fixture_reset();
    ADD("/a/slow-900");
    leave_word("night");
    pid = start_at(night_or_noon, true, "22:00-06:00");
    c = reach_run();
    wait_count("SELECT count(*) FROM shard", 1);
    tell_run(REQUEST_PAUSE, 0);
    wait_note(c, "paused");
    take_word_back("night");
    usleep(300000);
    wait_note(c, "paused");
    tell_run(REQUEST_RESUME, 0);
    wait_note(c, "resting until 22:00");
    before = count_of("SELECT count(*) FROM shard");
    leave_word("night");
    wait_count("SELECT count(*) FROM shard", before + 1);
    control_close(c);
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
}

TEST(nothing_to_do_is_not_waited_for)
{
    fixture_reset();
    ADD("/a/ok-1");
    run_all("cpu");
    assert_int_equal(wait_child(start_at(night_or_noon, false, "22:00-06:00")), 0);
}

TEST(the_end_is_at_a_checkpoint)
{
    struct scheduler_options o = fixture_options("cpu");
    struct scheduler_result r;
    struct err e = {0};

    fixture_reset();
    ADD("/a/slow-9000");
    tuning = quick;
    tuning.zone = about_noon;
    o.tuning = &tuning;
    assert_true(hours_parse_until("12:00", &o.hours));
    assert_ok(scheduler_run(&o, &r, &e), e);
    assert_true(r.timed_out);
    assert_false(r.interrupted);
    assert_true(r.tasks_left > 0);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'run-end' "
                              "AND text LIKE '%its time was up%'"),
                     1);
}

/* A run that was killed leaves children, who hold the lock for a moment more. */
static void wait_unlocked(void)
{
    int64_t end = clock_mono_ms() + 30000 * PATIENCE;
    struct catalog_lock *lock = NULL;
    struct err e = {0};

    while (catalog_lock_take(CATALOG, "test", &lock, &e) != 0) {
        if (clock_mono_ms() > end)
            fail_msg("still locked: %s", e.msg);
        usleep(5000);
    }
    catalog_lock_release(lock);
}

/* What is kept of a run: the catalog tells it when the run is over. */
TEST(the_morning_knows)
{
    struct scheduler_options o = fixture_options("cpu,cpu");
    struct request rq = {.type = REQUEST_PAUSE};
    char *text;
    pid_t pid;

    fixture_reset();
    ADD("/a/ok-3", "/a/input-1");
    run_all("cpu,cpu");
    assert_int_equal(count_of("SELECT count(*) FROM run_sample WHERE device IN ('cpu', 'cpu #2')"),
                     2);
    assert_int_equal(count_of("SELECT sum(audio_ms) FROM run_sample"), 3 * SHARD_MS);
    assert_int_equal(count_of("SELECT count(*) FROM run_sample WHERE span_ms < busy_ms"), 0);
    /* The time in which any device worked: not less than the busiest one's, not more than all. */
    assert_int_equal(count_of("SELECT count(*) FROM run WHERE work_ms NOT BETWEEN (SELECT max(b) "
                              "FROM (SELECT sum(busy_ms) AS b FROM run_sample AS s "
                              "WHERE s.run_id = run.run_id GROUP BY device)) AND (SELECT "
                              "sum(busy_ms) FROM run_sample AS s WHERE s.run_id = run.run_id)"),
                     0);
    ADD("/a/slow-900");
    pid = run_child(&o);
    wait_count("SELECT count(*) FROM shard", 4);
    assert_int_equal(count_of("SELECT count(*) FROM run WHERE run_id = 2 AND ended_at IS NULL"), 1);
    kill(pid, SIGTERM);
    assert_int_equal(wait_child(pid), 99);
    assert_true(count_of("SELECT sum(busy_ms) FROM run_sample WHERE run_id = 2") > 0);
    pid = run_child(&o);
    /* What it did is known although it is killed. */
    wait_count("SELECT count(*) FROM run WHERE run_id = 3 AND audio_ms > 0 AND work_ms > 0", 1);
    kill(pid, SIGKILL);
    assert_int_equal(wait_child(pid), -SIGKILL);
    wait_unlocked();
    fixture_apply(&rq);
    run_all("cpu");
    text = rows_of("SELECT run_id, ended_at >= started_at, why, reason, devices LIKE 'cpu%', "
                   "recordings_done, recordings_failed FROM run");
    assert_string_equal(text, "1|1|done||1|1|1|\n2|1|interrupted||1|0|0|\n3|1|lost||1|0|0|\n"
                              "4|1|paused||1|0|0|\n");
    free(text);
}

TEST_MAIN(NULL, NULL)
