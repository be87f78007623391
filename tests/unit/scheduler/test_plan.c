/* The policies as functions: planner, retry rule, restarts, rate, the progress line. */
#include "tests/common/test.h"

#include "base/err.h"
#include "base/utf8.h"
#include "scheduler/plan/disk_space.h"
#include "scheduler/plan/estimate.h"
#include "scheduler/plan/idmap.h"
#include "scheduler/plan/planner.h"
#include "scheduler/plan/progress.h"
#include "scheduler/plan/retry.h"

#define SHARD_MS 1000

TEST(ids_are_found_again)
{
    static char seen[5000];
    struct idmap m = IDMAP_INIT;
    uint64_t r = 88172645463325252u;
    size_t at = 0, n = 0, i;

    assert_null(idmap_get(&m, 0));
    assert_null(idmap_remove(&m, 7));
    for (i = 0; i < 200000; i++) {
        uint64_t id;

        r ^= r << 13;
        r ^= r >> 7;
        r ^= r << 17;
        id = r % 5000;
        if (r >> 63) {
            assert_int_equal(idmap_put(&m, id * 1024, &seen[id]), 0);
            n += !seen[id];
            seen[id] = 1;
        } else {
            assert_ptr_equal(idmap_remove(&m, id * 1024), seen[id] ? &seen[id] : NULL);
            n -= (size_t)seen[id];
            seen[id] = 0;
        }
        assert_int_equal(m.count, n);
    }
    for (i = 0; i < 5000; i++)
        assert_ptr_equal(idmap_get(&m, i * 1024), seen[i] ? &seen[i] : NULL);
    for (i = 0; idmap_next(&m, &at); i++)
        ;
    assert_int_equal(i, n);
    idmap_free(&m);
}

/* -------------------------------------------------------------------------------- planner */

static struct planner *plan_of(uint32_t workers, uint32_t capacity)
{
    struct planner *p = planner_new(SHARD_MS);
    uint32_t i;

    assert_non_null(p);
    for (i = 0; i < workers; i++)
        planner_worker_ready(p, i, capacity);
    return p;
}

static void add(struct planner *p, int64_t id, int64_t shards, uint32_t suspect)
{
    struct planner_task t = {
        .id = id, .duration_ms = shards < 0 ? -1 : shards * SHARD_MS, .suspect = suspect};
    struct err e = {0};

    assert_ok(planner_task_add(p, &t, &e), e);
}

static struct planner_step step(struct planner *p)
{
    struct planner_step s;
    struct err e = {0};

    assert_ok(planner_next(p, &s, &e), e);
    return s;
}

static void nothing(struct planner *p) { assert_int_equal(step(p).kind, PLANNER_NOTHING); }

TEST(recordings_go_out_in_order)
{
    struct planner *p = plan_of(1, 4);
    struct planner_step s;

    nothing(p);
    add(p, 30, 1, false);
    add(p, 10, 1, false);
    add(p, 20, 1, false);
    add(p, 10, 1, false); /* known: left as it is */
    assert_int_equal(planner_queued(p), 3);
    for (int64_t id = 10; id <= 30; id += 10) {
        s = step(p);
        assert_int_equal(s.kind, PLANNER_LEASE);
        assert_int_equal(s.task, id);
        assert_int_equal(s.first, 0);
        assert_int_equal(s.last, UINT32_MAX);
        assert_int_equal(s.skip_count, 0);
    }
    nothing(p);
    assert_int_equal(planner_leased(p), 3);
    planner_free(p);
}

TEST(what_is_of_high_priority_goes_out_first)
{
    static const struct planner_task tasks[] = {
        {.id = 5, .priority = -1}, {.id = 30}, {.id = 40, .priority = 1}, {.id = 10},
        {.id = 20, .priority = 1},
    };
    static const int64_t order[] = {20, 40, 10, 30, 5};
    struct planner *p = plan_of(1, 8);
    struct err e = {0};

    for (size_t i = 0; i < 5; i++)
        assert_ok(planner_task_add(p, &tasks[i], &e), e);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(step(p).task, order[i]);
    planner_free(p);
}

TEST(capacity_is_filled_and_not_overfilled)
{
    struct planner *p = plan_of(1, 4);
    struct planner_ended e;
    struct planner_step s;
    struct err err;
    int64_t i;

    for (i = 1; i <= 6; i++)
        add(p, i, 1, false);
    for (i = 1; i <= 4; i++)
        s = step(p);
    nothing(p);
    assert_int_equal(planner_shard(p, s.lease, 0, true, &err), 0);
    assert_int_equal(planner_shard(p, s.lease, 0, true, &err), 1); /* twice */
    assert_int_equal(planner_lease_end(p, s.lease, true, 1, &e, &err), 0);
    assert_true(e.complete && e.idle && e.progress && !e.unreported);
    planner_task_remove(p, e.task);
    assert_int_equal(step(p).task, 5);
    nothing(p);
    assert_int_equal(planner_shard(p, s.lease, 0, true, &err), ERR_EMPTY);
    assert_int_equal(planner_lease_end(p, s.lease, true, 1, &e, &err), ERR_EMPTY);
    planner_free(p);
}

/* A lease may be open for long after its last shard: it is no load then, and the task is complete.
 */
TEST(what_is_known_to_be_done_is_no_load)
{
    struct planner *p = plan_of(1, 4);
    struct planner_ended e;
    struct planner_step s;
    uint32_t total = 0;
    struct err err;

    for (int64_t i = 1; i <= 6; i++)
        add(p, i, 1, false);
    for (int64_t i = 1; i <= 4; i++)
        s = step(p);
    assert_int_equal(planner_shard(p, s.lease, 0, true, &err), 0);
    assert_false(planner_task_complete(p, 4));
    nothing(p); /* there may be more of it */
    assert_int_equal(planner_task_total(p, 4, 0, &total, &err), ERR_PROTOCOL);
    assert_int_equal(planner_task_total(p, 4, PLANNER_MAX_SHARDS + 1, &total, &err), ERR_PROTOCOL);
    assert_int_equal(planner_task_total(p, 4711, 3, &total, &err), 0); /* of nothing it knows */
    assert_int_equal(planner_task_total(p, 4, 1, &total, &err), 0);
    assert_int_equal(total, 1);
    assert_true(planner_task_complete(p, 4));
    assert_false(planner_task_complete(p, 3));
    assert_int_equal(step(p).task, 5);
    nothing(p);
    assert_int_equal(planner_lease_end(p, s.lease, false, 0, &e, &err), 0); /* its worker is lost */
    assert_true(e.complete && !e.unreported);
    nothing(p);
    planner_free(p);
}

/* Never fewer than are done. */
TEST(a_total_is_at_least_what_is_done)
{
    struct planner *p = plan_of(1, 4);
    uint32_t total = 0;
    struct planner_step s;
    struct err err;

    add(p, 1, 3, false);
    s = step(p);
    assert_int_equal(planner_shard(p, s.lease, 2, true, &err), 0);
    assert_int_equal(planner_task_total(p, 1, 2, &total, &err), 0);
    assert_int_equal(total, 3);
    assert_false(planner_task_complete(p, 1));
    planner_free(p);
}

/* Of a part of a catalog: shards 3 and 4 of a recording alone. */
TEST(a_share_is_all_there_is)
{
    struct planner *p = plan_of(1, 8);
    struct planner_task t = {.id = 1, .duration_ms = -1, .first = 3, .end = 5};
    struct planner_step s;
    struct planner_ended ended;
    struct err e = {0};
    uint32_t total;

    assert_ok(planner_task_add(p, &t, &e), e);
    s = step(p);
    assert_int_equal(s.first, 3);
    assert_int_equal(s.last, 4);
    assert_int_equal(s.skip_count, 0);
    assert_int_equal(planner_shard(p, s.lease, 5, true, &e), ERR_PROTOCOL);
    assert_int_equal(planner_shard(p, s.lease, 3, true, &e), 0);
    assert_int_equal(planner_shard(p, s.lease, 4, true, &e), 0);
    assert_int_equal(planner_lease_end(p, s.lease, false, 0, &ended, &e), 0);
    assert_true(ended.complete && !ended.unreported);
    planner_task_remove(p, 1);
    /* To the end, wherever that is: it lies before the share. The number told is the recording's.
     */
    t = (struct planner_task){.id = 2, .duration_ms = -1, .first = 3};
    assert_ok(planner_task_add(p, &t, &e), e);
    s = step(p);
    assert_int_equal(s.first, 3);
    assert_int_equal(s.last, UINT32_MAX);
    assert_int_equal(planner_task_total(p, 2, 2, &total, &e), 0);
    assert_int_equal(total, 2);
    assert_int_equal(planner_lease_end(p, s.lease, true, 2, &ended, &e), 0);
    assert_true(ended.complete);
    planner_task_remove(p, 2);
    t = (struct planner_task){.id = 3, .first = 5, .end = 5};
    assert_int_equal(planner_task_add(p, &t, &e), ERR_INPUT);
    t = (struct planner_task){.id = 3, .end = PLANNER_MAX_SHARDS + 1};
    assert_int_equal(planner_task_add(p, &t, &e), ERR_INPUT);
    planner_free(p);
}

TEST(done_shards_are_skipped)
{
    struct planner *p = plan_of(1, 1);
    uint32_t done[] = {0, 1, 3, 6}, all[] = {0, 1, 2};
    struct planner_task t = {.id = 1, .duration_ms = -1, .done = done, .done_count = 4};
    struct planner_step s;
    struct planner_ended ended;
    struct err e = {0};

    assert_ok(planner_task_add(p, &t, &e), e);
    s = step(p);
    assert_int_equal(s.first, 2);
    assert_int_equal(s.last, UINT32_MAX);
    assert_int_equal(s.skip_count, 2);
    assert_int_equal(s.skip[0], 3);
    assert_int_equal(s.skip[1], 6);
    assert_int_equal(planner_shard(p, s.lease, 1, true, &e), ERR_PROTOCOL);
    assert_int_equal(planner_shard(p, s.lease, UINT32_MAX, true, &e), ERR_PROTOCOL);
    assert_int_equal(planner_lease_end(p, s.lease, true, 0, &ended, &e), ERR_PROTOCOL);
    assert_int_equal(planner_lease_end(p, s.lease, false, 0, &ended, &e), 0);
    assert_true(ended.unreported && !ended.complete);
    /* Its number is known: only up to the last that is missing. */
    planner_task_remove(p, 1);
    t.shards_total = 7;
    assert_ok(planner_task_add(p, &t, &e), e);
    s = step(p);
    assert_int_equal(s.first, 2);
    assert_int_equal(s.last, 5);
    assert_int_equal(s.skip_count, 1);
    t = (struct planner_task){.id = 2, .shards_total = 3, .done = all, .done_count = 3};
    assert_int_equal(planner_task_add(p, &t, &e), 1);
    t = (struct planner_task){.id = 3, .shards_total = PLANNER_MAX_SHARDS + 1};
    assert_int_equal(planner_task_add(p, &t, &e), ERR_INPUT);
    planner_free(p);
}

TEST(the_last_long_recording_is_split)
{
    struct planner *p = plan_of(2, 2);
    struct planner_step s, cap, rest;
    struct planner_ended e;
    struct err err = {0};
    uint32_t i;

    add(p, 1, 100, false);
    s = step(p);
    assert_int_equal(s.kind, PLANNER_LEASE);
    cap = step(p);
    assert_int_equal(cap.kind, PLANNER_CAP);
    assert_int_equal(cap.lease, s.lease);
    assert_in_range(cap.last, 45, 55); /* equal workers, equal halves */
    rest = step(p);
    assert_int_equal(rest.kind, PLANNER_LEASE);
    assert_int_equal(rest.worker, 1 - s.worker);
    assert_int_equal(rest.first, cap.last + 1);
    assert_int_equal(rest.last, UINT32_MAX);
    nothing(p);
    /* A worker past its cap when it heard of it: its result counts, and is not asked for again. */
    for (i = 0; i <= cap.last + 1; i++)
        assert_int_equal(planner_shard(p, s.lease, i, true, &err), 0);
    assert_int_equal(planner_lease_end(p, s.lease, false, 0, &e, &err), 0);
    assert_false(e.unreported || e.idle || e.complete);
    for (i = rest.first; i < 100; i++) /* that one is no news of the second worker's */
        assert_int_equal(planner_shard(p, rest.lease, i, true, &err), i == cap.last + 1);
    assert_int_equal(planner_lease_end(p, rest.lease, true, 100, &e, &err), 0);
    assert_true(e.complete);
    planner_free(p);
}

TEST(what_has_no_length_is_not_split)
{
    struct planner *p = plan_of(2, 2);

    add(p, 1, -1, false);
    assert_int_equal(step(p).kind, PLANNER_LEASE);
    nothing(p);
    planner_task_duration(p, 1, 100 * SHARD_MS); /* now it has */
    assert_int_equal(step(p).kind, PLANNER_CAP);
    assert_int_equal(step(p).kind, PLANNER_LEASE);
    planner_free(p);
}

/* With room for all of it in one worker's hands: what that has not begun is shared all the same. */
TEST(what_is_not_begun_is_shared)
{
    struct planner *p = plan_of(2, 64);
    struct planner_step s, cap;

    add(p, 1, 30, false);
    s = step(p);
    nothing(p); /* it may have begun everything */
    planner_worker_busy(p, s.worker, 2);
    cap = step(p);
    assert_int_equal(cap.kind, PLANNER_CAP);
    assert_in_range(cap.last, 13, 16);
    assert_int_equal(step(p).first, cap.last + 1);
    nothing(p);
    planner_free(p);
}

/* The last shard waits for the fast worker; with more behind it the slow one works too. */
TEST(a_slow_worker_does_not_hold_the_last)
{
    struct planner *p = plan_of(2, 1);
    struct planner_step s;

    planner_worker_rate(p, 0, 0.01);
    planner_worker_rate(p, 1, 1);
    for (int64_t id = 1; id <= 3; id++)
        add(p, id, 1, false);
    s = step(p);
    assert_int_equal(s.worker, 1);
    nothing(p);
    planner_more(p, 1000);
    assert_int_equal(step(p).kind, PLANNER_LEASE);
    planner_free(p);
}

static void finish(struct planner *p, uint64_t lease, uint32_t shards)
{
    struct planner_ended e;
    struct err err = {0};

    for (uint32_t i = 0; i < shards; i++)
        assert_int_equal(planner_shard(p, lease, i, true, &err), 0);
    assert_int_equal(planner_lease_end(p, lease, true, shards, &e, &err), 0);
    planner_task_remove(p, e.task);
}

TEST(suspects_are_alone)
{
    struct planner *p = plan_of(2, 8);
    struct planner_step s, t, of[4];
    struct planner_ended e;
    struct err err = {0};

    add(p, 1, 400, 2);
    add(p, 2, 400, 1);
    assert_int_equal(planner_suspects(p), 2);
    for (int i = 0; i < 4; i++)
        add(p, 10 + i, 1, 0);
    for (int i = 0; i < 4; i++) {
        of[i] = step(p);
        assert_int_equal(of[i].task, 10 + i);
        assert_false(of[i].alone);
        assert_int_equal(of[i].worker, of[0].worker == (uint32_t)i % 2 ? 0 : 1);
    }
    nothing(p); /* not while anything else is in their hands */
    finish(p, of[0].lease, 1);
    nothing(p);
    finish(p, of[2].lease, 1);
    s = step(p); /* the one with fewer deaths first */
    assert_int_equal(s.task, 2);
    assert_int_equal(s.worker, of[0].worker);
    assert_true(s.alone);
    assert_int_equal(planner_suspects(p), 1);
    add(p, 20, 1, 0);
    t = step(p); /* nothing else beside it */
    assert_int_equal(t.task, 20);
    assert_int_equal(t.worker, of[1].worker);
    /* It kills that worker: another one is to try it, before what is worse. */
    planner_worker_gone(p, s.worker);
    assert_int_equal(planner_lease_end(p, s.lease, false, 0, &e, &err), 0);
    assert_true(e.idle && e.alone && e.unreported && !e.progress);
    planner_task_suspect(p, 2, s.worker);
    assert_int_equal(planner_task_requeue(p, 2, &err), 0);
    nothing(p);
    finish(p, of[1].lease, 1);
    finish(p, of[3].lease, 1);
    finish(p, t.lease, 1);
    planner_worker_ready(p, s.worker, 8);
    t = step(p);
    assert_int_equal(t.task, t.worker == s.worker ? 1 : 2);
    t = step(p);
    assert_int_equal(t.task, t.worker == s.worker ? 1 : 2);
    nothing(p); /* and neither is split */
    planner_free(p);
}

TEST(the_queue_can_be_forgotten)
{
    struct planner *p = plan_of(1, 1);
    struct planner_step s;
    struct err e = {0};

    add(p, 1, 5, false);
    s = step(p);
    add(p, 2, 1, false);
    add(p, 3, 1, true);
    planner_forget_queued(p);
    assert_int_equal(planner_queued(p), 0);
    assert_true(planner_task_known(p, 1));
    assert_false(planner_task_known(p, 2) || planner_task_known(p, 3));
    planner_task_remove(p, 1); /* not while it is leased */
    assert_true(planner_task_known(p, 1));
    add(p, 2, 1, false);
    assert_int_equal(planner_shard(p, s.lease, 0, true, &e), 0);
    assert_true(planner_cap_now(p, s.lease, &s));
    assert_int_equal(s.last, 1); /* it holds one shard at a time: 1 may have begun */
    assert_false(planner_cap_now(p, s.lease, &s));
    planner_free(p);
}

/* ---------------------------------------------------------------------------------- retry */

static struct retry_decision verdict(int code, bool died, bool alone, bool place, uint32_t attempts)
{
    struct retry_rule rule = {0};
    struct retry_failure f = {.code = code,
                              .message = "why",
                              .died = died,
                              .alone = alone,
                              .other_place = place,
                              .attempts = attempts};
    struct retry_decision d;

    retry_decide(&rule, &f, 1000000, 7, &d);
    return d;
}

/* The n-th death over a recording in a row: of its worker, or of its decoder alone. */
static struct retry_decision death(bool died, bool alone, bool progress, uint32_t before,
                                   uint32_t before_alone, uint32_t acquitted)
{
    struct retry_rule rule = {.limit = 1}; /* which is of attempts */
    struct retry_failure f = {.code = ERR_CRASH,
                              .message = "signal 9",
                              .died = died,
                              .alone = alone,
                              .progress = progress,
                              .attempts = 5,
                              .deaths = before,
                              .deaths_alone = before_alone,
                              .acquitted = acquitted};
    struct retry_decision d;

    retry_decide(&rule, &f, 1000000, 7, &d);
    return d;
}

TEST(a_death_counts_when_it_was_alone)
{
    struct retry_decision d;

    /* With others at work: at once again, but alone. Its decoder's was nobody else's, yet may have
     * been the others' doing. */
    d = death(true, false, false, 6, 0, 0);
    assert_int_equal(d.verdict, RETRY_SUSPECT);
    assert_true(d.at_ms == 0 && d.deaths == 7 && d.deaths_alone == 0 && !d.own);
    d = death(false, false, true, 6, 0, 0);
    assert_int_equal(d.verdict, RETRY_SUSPECT);
    assert_true(d.at_ms == 0 && d.deaths == 1 && d.deaths_alone == 0 && d.own);
    assert_false(verdict(ERR_DEVICE, false, false, false, 0).own); /* lost for all of them */
    /* Alone: twice, by either. */
    for (int died = 0; died < 2; died++) {
        d = death(died, true, false, 1, 0, 0);
        assert_int_equal(d.verdict, RETRY_SUSPECT);
        assert_true(d.deaths == 2 && d.deaths_alone == 1 && d.own && !d.quarantined);
        assert_in_range(d.at_ms - 1000000, 5000, 6250);
        d = death(died, true, false, 2, 1, 0);
        assert_int_equal(d.verdict, RETRY_FAIL);
        assert_true(d.quarantined && d.deaths == 3);
        assert_string_equal(d.message,
                            died ? "failed after 3 crashes in a row, 2 of them alone in this "
                                   "run: the worker died on it: signal 9; `nightshift retry` it "
                                   "when the cause is gone"
                                 : "failed after 3 crashes in a row, 2 of them alone in this "
                                   "run: signal 9; `nightshift retry` it when the cause is gone");
    }
    /* A result in between, and it begins anew. */
    d = death(true, true, true, 7, 1, 0);
    assert_int_equal(d.verdict, RETRY_SUSPECT);
    assert_true(d.deaths == 1 && d.deaths_alone == 0 && d.own);
    /* Deaths befell others that were innocent. */
    d = death(true, true, false, 3, 2, 2);
    assert_int_equal(d.verdict, RETRY_SUSPECT);
    assert_in_range(d.at_ms - 1000000, 20000, 25000);
    assert_int_equal(death(true, true, false, 4, 3, 2).verdict, RETRY_FAIL);
    /* However many, and in however many runs: no killer goes on for ever. */
    assert_int_equal(death(true, true, false, RETRY_DEATHS - 2, 0, 100).verdict, RETRY_SUSPECT);
    assert_int_equal(death(true, true, false, RETRY_DEATHS - 1, 0, 100).verdict, RETRY_FAIL);
}

TEST(a_wild_capacity_is_bounded)
{
    struct planner *p = plan_of(1, UINT32_MAX);
    struct planner_step s;

    add(p, 1, 100, false);
    s = step(p);
    assert_int_equal(s.kind, PLANNER_LEASE);
    for (int64_t i = 2; i < 20000; i++)
        add(p, i, 1, false);
    while (step(p).kind == PLANNER_LEASE)
        ;
    assert_in_range(planner_leased(p), PLANNER_MAX_CAPACITY - 200, 2 * PLANNER_MAX_CAPACITY);
    assert_true(planner_cap_now(p, s.lease, &s)); /* it may have begun so many */
    assert_int_equal(s.last, PLANNER_MAX_CAPACITY - 1);
    planner_free(p);
}

TEST(each_failure_has_its_verdict)
{
    static const int again[] = {ERR_IO,   ERR_TIMEOUT,  ERR_NOMEM,   ERR_VRAM,
                                ERR_FULL, ERR_PROTOCOL, ERR_CORRUPT, ERR_EMPTY};
    struct retry_decision d, later;
    size_t i;

    assert_int_equal(verdict(ERR_INPUT, false, true, true, 0).verdict, RETRY_FAIL);
    assert_int_equal(verdict(ERR_LIMIT, false, true, true, 0).verdict, RETRY_FAIL);
    assert_int_equal(verdict(ERR_MISSING, false, true, true, 0).verdict, RETRY_PLACE);
    d = verdict(ERR_CHANGED, false, true, false, 0);
    assert_int_equal(d.verdict, RETRY_FAIL);
    assert_non_null(strstr(d.message, "why; enqueue it again"));
    assert_non_null(strstr(d.message, "touch")); /* else enqueue takes it for what it knows */
    assert_false(d.quarantined);
    assert_non_null(
        strstr(verdict(ERR_MISSING, false, true, false, 0).message, "nightshift retry"));
    assert_non_null(strstr(verdict(ERR_DENIED, false, true, false, 0).message, "permission"));
    assert_int_equal(verdict(ERR_CANCELLED, false, true, false, 9).verdict, RETRY_BACK);
    assert_int_equal(verdict(ERR_MODEL, false, true, false, 0).verdict, RETRY_STOP);
    /* A share that hangs: not in seconds, whichever attempt it is. */
    d = verdict(ERR_STALLED, false, true, true, 0);
    assert_int_equal(d.verdict, RETRY_AGAIN);
    assert_in_range(d.at_ms - 1000000, RETRY_MAX_MS, RETRY_MAX_MS * 5 / 4);
    assert_int_equal(verdict(ERR_DEVICE, false, false, false, 9).verdict, RETRY_SUSPECT);
    assert_int_equal(verdict(0, true, false, false, 9).verdict, RETRY_SUSPECT);
    assert_int_equal(verdict(ERR_CRASH, false, false, false, 9).verdict, RETRY_SUSPECT);
    assert_int_equal(verdict(0, true, true, false, 0).verdict, RETRY_SUSPECT);
    assert_true(retry_counts(ERR_CRASH, false) && retry_counts(ERR_CANCELLED, true));
    for (i = 0; i < sizeof(again) / sizeof(again[0]); i++) {
        d = verdict(again[i], false, true, true, 0);
        later = verdict(again[i], false, true, true, 1);
        assert_int_equal(d.verdict, RETRY_AGAIN);
        assert_int_equal(later.verdict, RETRY_AGAIN);
        assert_in_range(d.at_ms - 1000000, 5000, 6250);
        assert_in_range(later.at_ms - 1000000, 20000, 25000);
        d = verdict(again[i], false, true, true, 2);
        assert_int_equal(d.verdict, RETRY_FAIL);
        assert_true(d.quarantined);
        assert_non_null(strstr(d.message, "failed after 3 attempts: why"));
        assert_true(retry_counts(again[i], false));
    }
    assert_false(retry_counts(ERR_INPUT, false));
    assert_int_equal(retry_store(ERR_FULL), STORE_WAIT);
    assert_int_equal(retry_store(ERR_INPUT), STORE_BAD);
    assert_int_equal(retry_store(ERR_CORRUPT), STORE_STOP);
    assert_int_equal(retry_store(ERR_VERSION), STORE_STOP);
}

TEST(waiting_is_bounded)
{
    struct retry_rule rule = {.limit = 1000, .base_ms = 100};
    struct retry_failure f = {.code = ERR_IO, .message = "x", .attempts = 900};
    struct retry_decision d;

    retry_decide(&rule, &f, 0, 3, &d);
    assert_int_equal(d.verdict, RETRY_AGAIN);
    assert_in_range(d.at_ms, RETRY_MAX_MS, RETRY_MAX_MS * 5 / 4);
}

TEST(workers_are_put_aside_when_they_are_to_blame)
{
    struct restart r = {0};
    int64_t last = 0, ms;
    int i;

    for (i = 0; i < 4; i++) {
        ms = restart_death(&r, RESTART_OWN, 0, 0);
        assert_true(ms > last);
        last = ms;
    }
    assert_int_equal(restart_death(&r, RESTART_MANY, 0, 0), -1);
    r = (struct restart){0};
    /* One and the same recording, or some that were charged before, are not its fault. */
    for (i = 0; i < 100; i++) {
        ms = restart_death(&r, i % 2 ? RESTART_ONE : RESTART_KNOWN, 5, 0);
        assert_in_range(ms, RESTART_BASE_MS, RESTART_MAX_MS);
    }
    restart_result(&r);
    for (i = 0; i < 7; i++)
        assert_true(restart_death(&r, RESTART_ONE, i, 0) > 0);
    assert_int_equal(restart_death(&r, RESTART_ONE, 7, 0), -1);
    restart_result(&r);
    assert_int_equal(restart_death(&r, RESTART_ONE, 8, 0), RESTART_BASE_MS);
}

/* ------------------------------------------------------------------------- rate and progress */

TEST(speed_is_of_the_last_minutes)
{
    struct rate r = {0};
    int64_t t;

    assert_true(rate_speed(&r, 0) == 0);
    for (t = 0; t <= 600000; t += 100)
        rate_add(&r, t, (uint64_t)t * 10);
    assert_true(rate_speed(&r, t) > 9.9 && rate_speed(&r, t) < 10.1);
    for (; t <= 1000000; t += 100)
        rate_add(&r, t, 6000000 + (uint64_t)(t - 600000) * 2);
    assert_true(rate_speed(&r, t) > 1.9 && rate_speed(&r, t) < 2.1);
    rate_add(&r, t + 60000, 0); /* a worker was started again: not backwards */
    assert_true(rate_speed(&r, t + 60000) > 1.0);
}

TEST(what_is_left_is_estimated)
{
    struct rate_backlog b = {.known_left_ms = 1000};

    assert_int_equal(rate_left_ms(&b), 1000);
    b.tasks_unknown = 10;
    assert_int_equal(rate_left_ms(&b), -1);
    b.known_ms = 5000;
    b.tasks_known = 5;
    assert_int_equal(rate_left_ms(&b), 1000 + 10 * 1000);
    b.bytes_known = 80000; /* 16 kB a second */
    b.bytes_unknown = 160000;
    assert_int_equal(rate_left_ms(&b), 1000 + 10000);
    assert_int_equal(rate_eta_ms(2.0, &b), 5500);
    assert_int_equal(rate_eta_ms(0, &b), -1);
    b = (struct rate_backlog){0};
    assert_int_equal(rate_eta_ms(0, &b), 0);
    b.tasks_unknown = UINT64_MAX;
    b.bytes_unknown = UINT64_MAX;
    b.bytes_known = b.tasks_known = 1;
    b.known_ms = INT64_MAX;
    assert_true(rate_left_ms(&b) > 0);
    assert_true(rate_eta_ms(1e-9, &b) >= -1);
}

static unsigned measure_columns(const char *s)
{
    unsigned n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

TEST(the_line_fits)
{
    struct progress p = {.done = 1234,
                         .all = 40000,
                         .failed = 7,
                         .audio_done_ms = 3600000LL * 812,
                         .audio_all_ms = 3600000LL * 20123,
                         .speed = 163.4,
                         .low_ms = 3600000LL * 3,
                         .high_ms = 3600000LL * 5,
                         .work_percent = -1,
                         .note = ""};
    char line[PROGRESS_LINE], json[PROGRESS_JSON];
    unsigned c;

    progress_line(&p, 100, line);
    assert_string_equal(line, "1234 of 40000 recordings, 7 failed, 812 h of 20123 h, 163\xC3\x97 "
                              "real time, 3 to 5 hours left");
    /* What is in work is named at any width that has room for it. */
    p.work = "/archive/1990/interview with the mayor of the town, part 2.wav";
    p.work_percent = 45;
    p.work_more = 3;
    progress_line(&p, 79, line);
    assert_string_equal(line, "1234 of 40000 recordings, 7 failed, 3 to 5 hours left: "
                              "int...rt 2.wav (45 %) +3");
    progress_line(&p, 200, line);
    assert_non_null(strstr(line, " real time, 3 to 5 hours left: interview with the mayor of the "
                                 "town, part 2.wav (45 %) and 3 more"));
    p.work = "/a/\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E.wav";
    for (c = 20; c < 200; c++) {
        progress_line(&p, c, line);
        assert_true(measure_columns(line) <= c);
        assert_true(utf8_valid(line, strlen(line)));
    }
    /* What is paused or cancelled is named, and still of the whole; so is the stage that is ahead.
     */
    p.work = NULL;
    p.paused = 2;
    p.cancelled = 1;
    p.stage = "transcribe";
    p.stage_done = 5000;
    progress_line(&p, 130, line);
    assert_non_null(strstr(line, "1234 of 40000 recordings, 7 failed, 2 paused, 1 cancelled, "
                                 "transcribe 5000, 812 h"));
    /* A part is told in the unit of the whole. */
    p = (struct progress){.done = 0, .all = 1, .low_ms = -1, .high_ms = -1};
    p.audio_done_ms = 162000;
    p.audio_all_ms = 48 * 60000;
    progress_line(&p, 80, line);
    assert_string_equal(line, "0 of 1 recording, 2.7 min of 48.0 min");
    p.audio_all_ms = 5 * 3600000;
    progress_line(&p, 80, line);
    assert_non_null(strstr(line, ", 0.0 h of 5.0 h"));
    p.audio_all_ms = -1;
    p.note = "stopping at a checkpoint";
    progress_line(&p, 80, line);
    assert_string_equal(line, "0 of 1 recording, stopping at a checkpoint, 2.7 min");
    p.all = p.done = p.failed = p.paused = UINT64_MAX;
    p.audio_all_ms = p.audio_done_ms = p.low_ms = p.high_ms = INT64_MAX;
    p.speed = 1e300;
    p.work = "a \"quoted\" \\ name";
    p.work_more = UINT32_MAX;
    progress_line(&p, 80, line);
    assert_true(measure_columns(line) <= 80);
    progress_json(&p, "progress", json);
    assert_int_equal(json[strlen(json) - 1], '}');
    assert_non_null(strstr(json, "{\"recording\":\"a \\\"quoted\\\" \\\\ name\",\"percent\":0}"));
}

static const char *range(double low_s, double high_s)
{
    static char text[PROGRESS_SPAN];

    progress_range((int64_t)(low_s * 1000), (int64_t)(high_s * 1000), text);
    return text;
}

TEST(a_range_is_in_one_unit)
{
    assert_string_equal(range(6.8 * 60, 19 * 60), "7 to 19 minutes");
    assert_string_equal(range(7 * 60, 21 * 60), "5 to 20 minutes");
    assert_string_equal(range(10, 40), "10 to 40 seconds");
    assert_string_equal(range(0, 0), "up to 1 second");
    assert_string_equal(range(0.2, 9.8), "up to 10 seconds");
    assert_string_equal(range(50, 100), "1 to 2 minutes");
    assert_string_equal(range(58, 91), "1 to 2 minutes");
    assert_string_equal(range(80, 91), "1 to 2 minutes");
    assert_string_equal(range(10 * 60, 12 * 60), "10 to 12 minutes");
    assert_string_equal(range(52 * 60, 140 * 60), "50 to 140 minutes");
    assert_string_equal(range(1.6 * 3600, 3.2 * 3600), "2 to 3 hours");
    assert_string_equal(range(3.7 * 3600, 4.4 * 3600), "about 4 hours");
    assert_string_equal(range(3600, 49 * 3600), "up to 2 days");
    assert_string_equal(range(2 * 86400, 4 * 86400), "2 to 4 days");
    assert_string_equal(range(-1, 5), "?");
    assert_int_equal(progress_middle(4, 9), 6);
}

TEST(a_log_that_is_held_is_told_once)
{
    const struct disk_space_limits l = {.log_bytes = 100, .free_bytes = 50};
    struct disk_space r = {0};

    assert_int_equal(disk_space_look(&r, &l, 100, 0),
                     DISK_SPACE_NOTHING); /* no longer than it may be */
    assert_int_equal(disk_space_look(&r, &l, 100, 0), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 101, 1000), DISK_SPACE_NOTHING); /* somebody passing */
    assert_int_equal(disk_space_look(&r, &l, 0, 1000), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 101, 1000), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 102, 1000), DISK_SPACE_HELD);
    assert_int_equal(disk_space_look(&r, &l, 9999, 50), DISK_SPACE_NOTHING);
    assert_false(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 0, 1000), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 200, 1000), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 200, 1000), DISK_SPACE_HELD); /* another one */
}

TEST(a_run_waits_before_the_disk_is_full)
{
    const struct disk_space_limits l = {.log_bytes = 100, .free_bytes = 50};
    struct disk_space r = {0};

    /* A disk that is short for another reason, but not nearly full. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(disk_space_look(&r, &l, 10, 0), DISK_SPACE_NOTHING);
    assert_false(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 200, 49), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 200, 49), DISK_SPACE_SHORT);
    assert_true(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 200, 99),
                     DISK_SPACE_NOTHING); /* not for a hair's breadth */
    assert_true(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 200, 100), DISK_SPACE_AGAIN);
    assert_false(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 300, 100), DISK_SPACE_NOTHING); /* told already */
    assert_int_equal(disk_space_look(&r, &l, 300, 10), DISK_SPACE_SHORT);
    assert_int_equal(disk_space_look(&r, &l, 0, 10), DISK_SPACE_AGAIN); /* the reader has ended */
    assert_false(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 0, 10), DISK_SPACE_NOTHING);
}

TEST(a_disk_that_is_nearly_full)
{
    const struct disk_space_limits l = {.log_bytes = 100, .free_bytes = 50, .full_bytes = 20};
    struct disk_space r = {0};

    assert_int_equal(disk_space_look(&r, &l, 10, 20), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 10, 19),
                     DISK_SPACE_FULL); /* at once: nobody is just passing */
    assert_true(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 10, 0), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 10, 39), DISK_SPACE_NOTHING);
    assert_true(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 10, 40), DISK_SPACE_AGAIN);
    assert_false(r.waiting);
    /* Both, one after the other. */
    assert_int_equal(disk_space_look(&r, &l, 200, 30), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 200, 30), DISK_SPACE_SHORT);
    assert_int_equal(disk_space_look(&r, &l, 200, 10), DISK_SPACE_FULL);
    assert_int_equal(disk_space_look(&r, &l, 0, 10), DISK_SPACE_NOTHING);
    assert_true(r.waiting);
    assert_int_equal(disk_space_look(&r, &l, 0, 40), DISK_SPACE_AGAIN);
    assert_false(r.waiting);
    /* Both at once. */
    assert_int_equal(disk_space_look(&r, &l, 200, 41), DISK_SPACE_NOTHING);
    assert_int_equal(disk_space_look(&r, &l, 200, 1), DISK_SPACE_SHORT);
    assert_int_equal(disk_space_look(&r, &l, 200, 100), DISK_SPACE_AGAIN);
}

TEST_MAIN(NULL, NULL)
