#include "scheduler/run/run.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/report.h"

void run_touch(struct run *run) { run->tick.dirty = true; }

void run_fail(struct run *run, const struct err *err)
{
    if (run->failure.code == 0)
        run->failure = *err;
    run_touch(run);
}

void run_check(struct run *run, int rc, const struct err *err)
{
    if (rc)
        run_fail(run, err);
}

bool run_worker_ready(const struct run_worker *w)
{
    return w->process.state == PROCESS_UP && w->was_ready;
}

uint32_t run_ready_workers(const struct run *run)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < run->devices.count; i++)
        n += run_worker_ready(&run->devices.workers[i]);
    return n;
}

bool run_leased(const struct run *run) { return run->dispatch.leases.count > 0; }

static void on_commit(uv_timer_t *timer)
{
    struct run *run = timer->data;

    run->commit.armed = false;
    run_flush(run);
    run_touch(run);
}

/* More than memory should hold: written now, or the run ends in order while it still can. */
static void bound_ledger(struct run *run)
{
    struct err err = {0};

    if (ledger_bytes(run->ledger) <= run->tune.kept_bytes || run->failure.code)
        return;
    if (run_flush_at_once(run) || run->failure.code)
        return;
    err_set(&err, ERR_FULL,
            "the catalog cannot be written, and more results wait for it than memory should hold: "
            "%llu of them will be computed again by the next run",
            (unsigned long long)ledger_shards(run->ledger));
    run->interrupted = true;
    run_fail(run, &err);
}

void run_note_commit(struct run *run)
{
    struct run_commit *c = &run->commit;

    bound_ledger(run);
    if (c->armed || c->trouble_since_ms)
        return;
    c->armed = true;
    /* In numbers, more of them share what a commit costs by itself; a second's are soon computed
     * again where it is lost. */
    uv_timer_start(&c->timer, on_commit, run->tune.commit_ms * (run->processes.many ? 2 : 1), 0);
}

void run_note_unwritten(struct run *run, int64_t task)
{
    struct err err = {0};

    if (idmap_put(&run->commit.unwritten, (uint64_t)task, run))
        run_check(run, err_set(&err, ERR_NOMEM, "no memory for a result"), &err);
    run_note_commit(run);
}

void run_note_unfinalized(struct run *run)
{
    run->tick.unfinalized = true;
    run_touch(run);
}

/* The catalog could not be written. Unwritten results stay in memory, and the run tries again
 * for a while: a full disk is often emptied by whoever filled it. */
static void handle_write_failure(struct run *run, struct err *err)
{
    struct run_commit *c = &run->commit;
    int64_t now = clock_mono_ms();
    unsigned long long n = ledger_shards(run->ledger);

    if (c->trouble_since_ms == 0) {
        c->trouble_since_ms = now;
        char span[48] = "";

        if (err->code != ERR_LOCKED)
            snprintf(span, sizeof(span), " for %u s", run->tune.full_give_up_ms / 1000);
        report_event(run, LOG_ERROR, "%s; %llu result%s wait%s in memory, trying again%s", err->msg,
                     n, n == 1 ? "" : "s", n == 1 ? "s" : "", span);
    }
    c->trouble_next_ms = now + run->tune.full_retry_ms;
    c->trouble_code = err->code;
    /* Somebody's open transaction ends some time, and a night is too much for it. */
    if (err->code == ERR_LOCKED || now - c->trouble_since_ms < run->tune.full_give_up_ms)
        return;
    err_prefix(err,
               "the catalog could not be written for %u s, and %llu result%s will be computed "
               "again by the next run, once there is room",
               run->tune.full_give_up_ms / 1000, n, n == 1 ? "" : "s");
    run->interrupted = true;
    run_fail(run, err);
}

bool run_is_disabled(const struct run *run, int64_t stage)
{
    for (size_t i = 0; i < run->disabled.count; i++)
        if (run->disabled.stages[i] == stage)
            return true;
    return false;
}

bool run_flush(struct run *run)
{
    struct run_commit *c = &run->commit;
    const struct store_completed before = store_completed(run->st);
    struct store_completed now;
    struct err err = {0};
    int rc;

    if (ledger_pending(run->ledger) == 0)
        return true;
    if (c->trouble_since_ms && clock_mono_ms() < c->trouble_next_ms)
        return false;
    rc = ledger_flush(run->ledger, &err);
    if (rc == 0) {
        /* The catalog alone knows: the last shard of a task may be anybody's. */
        now = store_completed(run->st);
        figures_written(&run->figures, now.tasks - before.tasks,
                        now.recordings - before.recordings);
        idmap_free(&c->unwritten);
        if (c->trouble_since_ms)
            report_event(run, LOG_INFO, "the catalog can be written again; continuing");
        c->trouble_since_ms = 0;
        return true;
    }
    if (retry_store(rc) == STORE_WAIT) {
        handle_write_failure(run, &err);
    } else {
        err_prefix(&err, "writing results");
        run_fail(run, &err);
    }
    return false;
}

bool run_flush_at_once(struct run *run)
{
    run->commit.trouble_next_ms = 0;
    return run_flush(run);
}

void run_free(struct run *run)
{
    idmap_free(&run->commit.unwritten);
    free(run);
}
