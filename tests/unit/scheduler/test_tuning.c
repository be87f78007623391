/* Devices that are remembered, that do not fit, that go and come back: with fake workers on
 * simulated devices. */
#include "tests/unit/scheduler/fixture.h"

static struct scheduler_tuning patient;

static struct scheduler_options options(void)
{
    struct scheduler_options o = fixture_options("auto");

    patient = quick;
    patient.quarantine_ms = 50;
    o.tuning = &patient;
    o.precision = "fp32";
    return o;
}

static void begin(const char *devices, const char *mode)
{
    fixture_reset();
    setenv("NIGHTSHIFT_DEVICES", devices, 1);
    if (mode)
        setenv("FAKE_MODE", mode, 1);
}

static int end(void **state)
{
    (void)state;
    unsetenv("NIGHTSHIFT_DEVICES");
    unsetenv("FAKE_MODE");
    unsetenv("FAKE_SHARD_US");
    return 0;
}

static void run_ok(const struct scheduler_options *o)
{
    struct scheduler_result r;
    struct err e = {0};

    assert_ok(scheduler_run(o, &r, &e), e);
    assert_int_equal(r.tasks_left + r.tasks_failed, 0);
}

static bool was_told(const char *word)
{
    char path[128];

    snprintf(path, sizeof(path), "state/%s", word);
    return access(path, F_OK) == 0;
}

#define ROW                                                                         \
    "SELECT count(*) FROM tuning WHERE device_id = 'sim:2GiB' AND driver = '' AND " \
    "model_hash = 'aa' AND precision = 'fp32' AND "

TEST_TEARDOWN(what_was_measured_is_told_the_next_time, end)
{
    struct scheduler_options o = options();
    sqlite3 *db;

    begin("sim:2GiB", "measure");
    ADD("/a/ok-3");
    run_ok(&o);
    assert_false(was_told("told-32-4"));
    assert_int_equal(count_of(ROW "slots = 32 AND windows = 4 AND rate = 50 AND oom_count = 0 AND "
                                  "predicted_bytes = 9000000000 AND peak_bytes = 7000000000"),
                     1);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'run-end' AND text LIKE "
                              "'%sim:0 used 7.00 GB of 2.15, predicted 9.00'"),
                     1);
    ADD("/a/ok-4");
    run_ok(&o);
    assert_true(was_told("told-32-4"));
    assert_int_equal(count_of(ROW "slots = 32 AND rate = 50"), 1);
    assert_true(was_told("told-ways"));
    assert_int_equal(count_of(ROW "CAST(ways AS TEXT) = 'four ways'"), 1);
    /* What another build does not know is found again, and so are ways that nobody can mean. */
    assert_int_equal(sqlite3_open(CATALOG, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE tuning SET ways = zeroblob(200000), rate = 1e300",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(db);
    unlink("state/told-ways");
    ADD("/a/ok-6");
    run_ok(&o);
    assert_false(was_told("told-ways"));
    assert_int_equal(count_of(ROW "CAST(ways AS TEXT) = 'four ways'"), 1);
    /* Another precision is another measurement. */
    unlink("state/told-32-4");
    o.precision = "int8";
    ADD("/a/ok-5");
    run_ok(&o);
    assert_false(was_told("told-32-4"));
}

TEST_TEARDOWN(a_worker_is_told_of_the_others, end)
{
    struct scheduler_options o = options();

    begin("sim:2GiB,sim:2GiB,sim:2GiB", "workers");
    ADD("/a/ok-3");
    run_ok(&o);
    assert_true(was_told("told-3-workers"));
}

static void rows_are(const char *want)
{
    char *rows = rows_of("SELECT model_hash, decoding, slots, oom_count FROM tuning ORDER BY 1, 2");

    assert_string_equal(rows, want);
    free(rows);
}

/* The end of a stage's worker is noted when the run's stage is the next one already. */
TEST_TEARDOWN(each_stage_of_a_run_is_measured_by_itself, end)
{
    static const char *const first[] = {"/a/ok-3"}, *const second[] = {"/a/ok-4"};
    struct scheduler_options o = options();

    begin("sim:2GiB", "lower");
    fixture_add(first, 1, "fake");
    fixture_add(second, 1, "b-fake");
    run_ok(&o);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), 2);
    assert_false(was_told("told-16-2"));
    rows_are("aa||16|1|\nbb||16|1|\n");
}

/* As tools/ has it, of stages that are told apart by less. */
static void know_stage(const char *name, const char *params_json, struct scheduler_stage *ret)
{
    (void)name;
    snprintf(ret->decoding, SCHEDULER_DECODING_LEN, "%s",
             strstr(params_json, "beam") ? "beams" : "");
}

/* The same model: with beams its windows are another burden. */
TEST_TEARDOWN(a_batch_of_one_way_of_decoding_is_not_taken_for_another, end)
{
    static const char *const first[] = {"/a/ok-3"}, *const second[] = {"/b/ok-4"},
                             *const third[] = {"/a/ok-5"};
    struct scheduler_options o = options();

    o.stage = know_stage;
    o.stage_by_stage = true; /* what listens to another is not measured */
    begin("sim:2GiB", "lower");
    fixture_add(first, 1, "fake");
    fixture_add(second, 1, "fake-beams");
    run_ok(&o);
    assert_false(was_told("told-16-2"));
    rows_are("aa||16|1|\naa|beams|16|1|\n");
    fixture_add(third, 1, "fake-beams");
    setenv("FAKE_MODE", "measure", 1);
    run_ok(&o);
    assert_true(was_told("told-16-2"));
    rows_are("aa||16|1|\naa|beams|16|1|\n");
}

TEST_TEARDOWN(what_the_user_chose_is_not_remembered, end)
{
    struct scheduler_options o = options();

    begin("sim:2GiB", "lower");
    o.slots = 32;
    ADD("/a/ok-3");
    run_ok(&o);
    assert_int_equal(count_of("SELECT count(*) FROM tuning"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'tuned'"), 1);
}

TEST_TEARDOWN(what_was_lowered_stays_so, end)
{
    struct scheduler_options o = options();

    begin("sim:2GiB", "lower");
    ADD("/a/ok-3");
    run_ok(&o);
    assert_int_equal(count_of(ROW "slots = 16 AND windows = 2 AND rate = 50 AND oom_count = 1"), 1);
    assert_int_equal(
        count_of("SELECT count(*) FROM event WHERE kind = 'tuned' AND device = 'sim:0' "
                 "AND text LIKE '%16 windows in flight, 2 at once%no room%'"),
        1);
    setenv("FAKE_MODE", "measure", 1);
    ADD("/a/ok-4");
    run_ok(&o);
    assert_true(was_told("told-16-2"));
    assert_int_equal(count_of(ROW "slots = 16 AND oom_count = 1"), 1);
}

TEST_TEARDOWN(tuned_at_the_wrong_time_is_a_broken_worker, end)
{
    struct scheduler_options o = options();
    struct scheduler_result r;
    struct err e = {0};

    begin("sim:2GiB", "early");
    ADD("/a/ok-3");
    assert_int_equal(scheduler_run(&o, &r, &e), ERR_PROTOCOL);
    assert_int_equal(count_of("SELECT count(*) FROM tuning"), 0);
}

#define EVENTS(kind, device) \
    "SELECT count(*) FROM event WHERE kind = '" kind "' AND device = '" device "'"

TEST_TEARDOWN(a_device_that_is_too_small_leaves_the_work_to_others, end)
{
    struct scheduler_options o = options();
    pid_t run;

    begin("sim:2GiB,sim:2GiB", "novram@sim:1");
    leave_word("hold");
    ADD("/a/ok-30", "/a/ok-20");
    run = run_child(&o);
    wait_count(EVENTS("worker-aside", "sim:1"), 1);
    take_word_back("hold");
    assert_int_equal(wait_child(run), 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard WHERE device = 'sim:0'"), 50);
    /* Said once, at the first try, and not after five. */
    assert_true(
        count_of(EVENTS("worker-aside", "sim:1") " AND text LIKE '%disabled: the model does "
                                                 "not fit: 8 GB are needed%'") >= 1);
    /* The run may end between the two. */
    assert_true(count_of(EVENTS("worker-died", "sim:1")) <=
                count_of(EVENTS("worker-aside", "sim:1")) + 1);
}

TEST_TEARDOWN(too_small_everywhere_ends_the_run, end)
{
    struct scheduler_options o = options();
    struct scheduler_result r;
    struct err e = {0};

    begin("sim:2GiB,sim:2GiB", "novram");
    patient.quarantine_ms = 60000;
    ADD("/a/ok-3");
    assert_int_equal(scheduler_run(&o, &r, &e), ERR_VRAM);
    assert_non_null(strstr(e.msg, "no worker is left: the model does not fit: 8 GB are needed"));
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'pending' AND attempts = 0"),
                     1);
}

TEST_TEARDOWN(a_device_that_is_aside_comes_back, end)
{
    struct scheduler_options o = options();
    pid_t run;

    begin("sim:2GiB,sim:2GiB", "gone@sim:1");
    leave_word("gone");
    leave_word(
        "hold"); /* the other device does not end the run before this one has gone and come */
    setenv("FAKE_SHARD_US", "20000", 1);
    ADD("/a/ok-300", "/a/ok-299");
    run = run_child(&o);
    wait_count(EVENTS("worker-aside", "sim:1"), 2); /* it was tried once more, in vain */
    assert_int_equal(count_of(EVENTS("worker-back", "sim:1")), 0);
    take_word_back("gone");
    take_word_back("hold");
    wait_count(EVENTS("worker-back", "sim:1"), 1);
    wait_count("SELECT count(*) FROM shard WHERE device = 'sim:1'", 1);
    assert_int_equal(wait_child(run), 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), 599);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE state = 'done'"), 2);
}

/* ---- a model that leaves fp16's range */

static void told_of_more_range(int shards)
{
    assert_true(was_told("told-auto"));
    /* A simulated device has the processor's. */
    assert_true(was_told("told-bf16") || was_told("told-int16") || was_told("told-fp32"));
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'device-range'"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'worker-died'"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE attempts OR suspect"), 0);
    assert_int_equal(count_of("SELECT count(*) FROM shard"), shards);
}

TEST_TEARDOWN(a_model_that_leaves_fp16_goes_on_with_more_range, end)
{
    struct scheduler_options o = options();

    o.precision = "auto";
    begin("sim:2GiB,sim:2GiB", "fp16");
    ADD("/a/range-20", "/a/range-30", "/a/range-40", "/a/ok-3");
    run_ok(&o);
    told_of_more_range(93);
    begin("sim:2GiB,sim:2GiB", "fp16");
    ADD("/a/overflow-20", "/a/overflow-30", "/a/ok-3");
    run_ok(&o);
    told_of_more_range(53);
}

static void ends_without_that_stage(const struct scheduler_options *o, int changes)
{
    struct scheduler_result r;
    struct err e = {0};

    assert_int_equal(scheduler_run(o, &r, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "that is not a number"));
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'device-range'"), changes);
    assert_int_equal(count_of("SELECT count(*) FROM event WHERE kind = 'stage-aside'"), 1);
    assert_int_equal(count_of("SELECT count(*) FROM task WHERE attempts OR suspect"), 0);
}

TEST_TEARDOWN(a_model_that_yields_no_numbers_is_put_aside, end)
{
    struct scheduler_options o = options();

    o.precision = "auto";
    begin("sim:2GiB,sim:2GiB", "fp16");
    ADD("/a/nan-20", "/a/ok-3");
    ends_without_that_stage(&o, 1); /* it was tried with more range */
    o.precision = "fp16";           /* who chose it is told */
    begin("sim:2GiB,sim:2GiB", "fp16");
    ADD("/a/range-20", "/a/ok-3");
    ends_without_that_stage(&o, 0);
}

TEST_MAIN(NULL, NULL)
