/* What is kept of runs and their devices: what a note changes, what is lost, how it is bounded. */
#include "store/runs.h"
#include "tests/unit/store/fixture.h"

#define AT INT64_C(1767225600000) /* 2026-01-01 */
#define DAY (INT64_C(86400) * 1000)

static struct store_run run_of(int64_t id)
{
    return (struct store_run){.run_id = id,
                              .started_ms = AT + id * 1000,
                              .seen_ms = AT + id * 1000 + 500,
                              .why = "",
                              .reason = "",
                              .devices = "cpu"};
}

static void note(struct store *st, struct store_run r)
{
    struct err e = {0};

    assert_ok(store_run_note(st, &r, &e), e);
}

static int list(void *arg, const struct store_run *r)
{
    char *text = arg;

    snprintf(text + strlen(text), 400, "%lld %lld %lld %lld %s,%s,%s %llu %llu %llu %lld %lld\n",
             (long long)r->run_id, (long long)(r->started_ms - AT), (long long)(r->seen_ms - AT),
             (long long)(r->ended_ms ? r->ended_ms - AT : 0), r->why, r->reason, r->devices,
             (unsigned long long)r->recordings_done, (unsigned long long)r->recordings_failed,
             (unsigned long long)r->recordings_left, (long long)r->audio_ms, (long long)r->work_ms);
    return 0;
}

TEST(a_run_is_noted_again_and_again)
{
    struct store *st = catalog_new();
    struct store_run r = run_of(1);
    struct err e = {0};
    char text[1000] = "";
    int64_t next;

    assert_ok(store_run_next(st, &next, &e), e);
    assert_int_equal(next, 1);
    note(st, r);
    r.seen_ms += 1;
    r.recordings_done = 5;
    r.audio_ms = 7;
    r.work_ms = 9;
    note(st, r);
    assert_ok(store_run_next(st, &next, &e), e);
    assert_int_equal(next, 2);
    /* The second finds that the first never ended. */
    note(st, run_of(2));
    r = run_of(2);
    r.ended_ms = r.seen_ms + 1;
    r.why = "failed";
    r.reason = "a disk";
    r.recordings_failed = 2;
    r.recordings_left = 3;
    note(st, r);
    assert_ok(store_runs_each(st, 10, list, text, &e), e);
    assert_string_equal(text, "2 2000 2500 2501 failed,a disk,cpu 0 2 3 0 0\n"
                              "1 1000 1501 1501 lost,,cpu 5 0 0 7 9\n");
    text[0] = 0;
    assert_ok(store_runs_each(st, 1, list, text, &e), e);
    assert_null(strchr(text, '\n')[1] ? text : NULL);
    r.why = "because";
    assert_int_equal(store_run_note(st, &r, &e), ERR_INPUT);
    r.why = "";
    r.audio_ms = -1;
    assert_int_equal(store_run_note(st, &r, &e), ERR_INPUT);
    r.audio_ms = 0;
    r.work_ms = -1;
    assert_int_equal(store_run_note(st, &r, &e), ERR_INPUT);
    catalog_close(st);
}

static int count(void *arg, const struct store_sample *s)
{
    assert_string_equal(s->device, "cuda:0");
    assert_int_equal(s->memory_bytes, 3000000000u);
    assert_int_equal(s->slots, 64);
    ++*(int *)arg;
    return 0;
}

TEST(it_is_bounded)
{
    struct store *st = catalog_new();
    struct store_sample s = {.device = "cuda:0",
                             .span_ms = 300000,
                             .busy_ms = 200000,
                             .audio_ms = 1,
                             .memory_bytes = 3000000000u,
                             .slots = 64,
                             .windows = 8};
    struct err e = {0};
    int n = 0;

    assert_ok(store_begin(st, &e), e);
    for (int64_t id = 1; id <= 1010; id++) {
        note(st, run_of(id));
        s.run_id = id;
        s.at_ms = AT;
        assert_ok(store_sample_note(st, &s, &e), e);
    }
    assert_ok(store_commit(st, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM run"), 1000);
    assert_int_equal(count_of("SELECT min(run_id) FROM run"), 11);
    assert_int_equal(count_of("SELECT count(*) FROM run_sample"), 1000);
    s.at_ms = AT + 59 * DAY;
    assert_ok(store_sample_note(st, &s, &e), e);
    assert_ok(store_sample_note(st, &s, &e), e); /* the same stretch */
    assert_ok(store_samples_each(st, 1010, count, &n, &e), e);
    assert_int_equal(n, 2);
    assert_int_equal(count_of("SELECT busy_ms FROM run_sample WHERE run_id = 1010 "
                              "ORDER BY at DESC LIMIT 1"),
                     2 * 200000);
    s.at_ms = AT + 61 * DAY;
    assert_ok(store_sample_note(st, &s, &e), e);
    assert_int_equal(count_of("SELECT count(*) FROM run_sample"), 2);
    s.seen_ms = -1;
    assert_int_equal(store_sample_note(st, &s, &e), ERR_INPUT);
    s.seen_ms = 0;
    s.busy_ms = -1;
    assert_int_equal(store_sample_note(st, &s, &e), ERR_INPUT);
    catalog_close(st);
}

static int list_sight(void *arg, const struct store_sample *s)
{
    char *text = arg;

    snprintf(text, 200, "%lld %lld %lld %lld %lld %lld", (long long)s->seen_ms,
             (long long)s->left_ms, (long long)s->load_ms, (long long)s->energy_j,
             (long long)s->celsius, (long long)s->used_bytes);
    return 0;
}

/* What is not known stays so, also where it is added to what is. */
TEST(what_the_driver_saw)
{
    struct store *st = catalog_new();
    struct store_sample s = {.run_id = 1,
                             .device = "cuda:0",
                             .at_ms = AT,
                             .load_ms = -1,
                             .energy_j = -1,
                             .celsius = -1,
                             .used_bytes = -1};
    struct err e = {0};
    char text[200];

    note(st, run_of(1));
    assert_ok(store_sample_note(st, &s, &e), e);
    assert_ok(store_samples_each(st, 1, list_sight, text, &e), e);
    assert_string_equal(text, "0 0 -1 -1 -1 -1");
    assert_int_equal(count_of("SELECT count(*) FROM run_sample WHERE load_ms IS NULL AND energy_j "
                              "IS NULL AND temperature_c IS NULL AND used_bytes IS NULL"),
                     1);
    s.seen_ms = 1000;
    s.load_ms = 500;
    s.energy_j = 7;
    s.celsius = 60;
    s.used_bytes = 9;
    assert_ok(store_sample_note(st, &s, &e), e);
    assert_ok(store_samples_each(st, 1, list_sight, text, &e), e);
    assert_string_equal(text, "1000 0 500 7 60 9");
    s.left_ms = 3;
    s.celsius = 50;
    s.used_bytes = -1;
    assert_ok(store_sample_note(st, &s, &e), e);
    assert_ok(store_samples_each(st, 1, list_sight, text, &e), e);
    assert_string_equal(text, "2000 3 1000 14 60 9");
    s.load_ms = -2;
    assert_int_not_equal(store_sample_note(st, &s, &e), 0);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
