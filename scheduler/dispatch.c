#include "scheduler/dispatch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/backlog.h"
#include "scheduler/disabled_stages.h"
#include "scheduler/failure.h"
#include "scheduler/lease/lease.h"
#include "scheduler/lease/tracks.h"
#include "scheduler/run/diary.h"
#include "scheduler/run/report.h"
#include "scheduler/run/run.h"

/* ------------------------------------------------------------------------------------ leases */

static struct run_lease *lease_new(struct run *run, const struct planner_step *s)
{
    struct run_lease *l = calloc(1, sizeof(*l));
    struct planner_ended e;
    struct err err = {0};

    if (l && idmap_put(&run->dispatch.leases, s->lease, l) == 0) {
        l->id = s->lease;
        l->task = idmap_get(&run->backlog.tasks, (uint64_t)s->task);
        l->worker = s->worker;
        l->first = s->first;
        l->last = l->granted = s->last;
        return l;
    }
    free(l);
    err_set(&err, ERR_NOMEM, "no memory for a lease");
    run_fail(run, &err);
    planner_lease_end(run->planner, s->lease, false, 0, &e, &err);
    return NULL;
}

void dispatch_close(struct run *run, struct run_lease *l)
{
    idmap_remove(&run->dispatch.leases, l->id);
    tracks_drop(run, l);
    free(l);
}

void dispatch_free(struct run *run)
{
    struct run_lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->dispatch.leases, &at))) {
        tracks_drop(run, l);
        free(l);
    }
    idmap_free(&run->dispatch.leases);
}

/* -------------------------------------------------------------------------------- to workers */

/* Ends a lease that its worker was not told of. code 0: it is done, and had no passages. */
static void end_unsent(struct run *run, struct run_lease *l, int code, const char *message)
{
    struct run_task *t = l->task;
    uint64_t lease = l->id;
    struct msg_shard_done none = {.media_id = t->t.media_id,
                                  .end_ms = t->t.duration_ms > 0 ? t->t.duration_ms : 0,
                                  .language = strdup("")};
    struct planner_ended e;
    struct err err = {0};

    dispatch_close(run, l);
    if (code) {
        msg_shard_done_free(&none);
        failure_note(t, code, message);
    } else {
        run_check(run, planner_shard(run->planner, lease, 0, true, &err), &err);
        run_check(run, ledger_shard(run->ledger, t->t.task_id, "", &none, &err), &err);
        run_check(run, ledger_total(run->ledger, t->t.task_id, 1, &err), &err);
        run_note_commit(run);
    }
    if (planner_lease_end(run->planner, lease, code == 0, code == 0, &e, &err) == 0 && e.idle)
        task_end(run, t, &e);
}

/* The lease's passages. False: there is nothing to send, and the lease has ended. */
static bool add_passages(struct run *run, struct run_lease *l, struct msg_lease *m)
{
    struct err err = {0};
    int rc = passages_read(run, l->task, &err);

    if (rc == 0) {
        passages_fill(l->task, m);
        return true;
    }
    if (rc < 0 && retry_store(rc) == STORE_STOP)
        run_fail(run, &err);
    end_unsent(run, l, rc < 0 ? rc : 0, err.msg);
    return false;
}

/* A large one may keep the run silent for long: which it is, is said before. */
static void say_first(struct run *run, const struct run_task *t)
{
    if (!run->dispatch.named)
        report_event(run, LOG_INFO, "beginning with %s", t->shown);
    run->dispatch.named = true;
}

/* With all that is told of it, or where that is too much without; with all of its tracks, or with
 * the first alone. False: that is too long, too. */
static bool encode_lease(struct run *run, struct run_lease *l, struct msg_lease *m, struct buf *ret)
{
    known_text_put(run, l->task, m, ret);
    if (ret->len > FRAME_MAX && m->track_count > 1) {
        tracks_drop(run, l);
        m->track_count = 1;
        buf_clear(ret);
        msg_lease_put(ret, m);
    }
    return ret->len <= FRAME_MAX;
}

static void send_lease(struct run *run, const struct planner_step *s)
{
    struct run_lease *l = lease_new(run, s);
    const struct run_task *t = l ? l->task : NULL;
    struct run_worker *w = &run->devices.workers[s->worker];
    struct buf b = BUF_INIT;
    struct msg_track tracks[SETUP_MAX_STAGES];
    struct msg_lease m;

    if (!l)
        return;
    tracks[0] = (struct msg_track){
        .language = t->t.language ? t->t.language : (char *)"",
        .skip_count = s->skip_count,
        .skip = (uint32_t *)s->skip, /* which is read only */
    };
    m = (struct msg_lease){
        .lease_id = s->lease,
        .media_id = t->t.media_id,
        .path = t->t.path,
        .member = t->t.member ? t->t.member : (char *)"",
        .nth = t->t.nth,
        .size_bytes = t->t.size_bytes,
        /* Only who reads to the end can have read the whole. */
        .want_hash = !t->t.has_hash && s->last == UINT32_MAX && !run->backlog.kind.passage_chars,
        .shard_ms = run->o->shard_ms,
        .first = s->first,
        .last = s->last,
        .track_count = 1,
        .tracks = tracks,
    };
    memcpy(m.fingerprint, t->t.fingerprint, sizeof(m.fingerprint));
    if (run->backlog.kind.passage_chars && !add_passages(run, l, &m))
        return;
    log_debug("lease %" PRIu64 ": %s, shards %u to %u%s, to %s", s->lease, t->shown, s->first,
              s->last, s->alone ? ", alone" : "", w->label);
    known_text_add(run, &run->backlog.stage, &t->t, s->first, s->last, &tracks[0]);
    if (!s->alone)
        tracks_add(w, l, &m);
    if (encode_lease(run, l, &m, &b)) {
        say_first(run, t);
        process_send(&w->process, MSG_LEASE, &b);
    } else {
        end_unsent(run, l, ERR_LIMIT, "its text is more than can be sent to a worker");
    }
    known_text_drop(&m);
    buf_free(&b);
}

void dispatch_all(struct run *run)
{
    struct planner_step s;
    struct err err = {0};

    diary_work(run);
    planner_more(run->planner, backlog_unread(run));
    for (;;) {
        if (planner_next(run->planner, &s, &err)) {
            run_fail(run, &err);
            return;
        }
        switch (s.kind) {
        case PLANNER_NOTHING:
            return;
        case PLANNER_LEASE:
            send_lease(run, &s);
            break;
        case PLANNER_CAP:
            lease_revoke_cap(run, &s);
            break;
        }
    }
}

/* ---- what becomes of a task whose leases have all ended: it is done, forgotten, queued again,
 * tried again later, or given up */

/* The same for every recording of its stage: none of them is charged. */
static void disable_stage(struct run *run, const struct run_task *t, const char *message)
{
    struct err err = {0};

    err_set(&err, t->code, "%s", message);
    backlog_drop(run, t->t.task_id);
    if (run->backlog.has_stage) /* else it is disabled already */
        disabled_stage_put(run, &run->backlog.stage, &err);
}

static void requeue_task(struct run *run, struct run_task *t)
{
    struct err err = {0};

    failure_clear(t);
    run_check(run, planner_task_requeue(run->planner, t->t.task_id, &err), &err);
}

/* Tries the recording's next place; what decide says when there is none is `otherwise`. */
static bool next_place(struct run *run, struct run_task *t)
{
    struct err err = {0};
    int rc = store_task_place(run->st, &t->t, t->place + 1, &err);

    if (rc == ERR_EMPTY)
        return false;
    if (rc) {
        run_fail(run, &err);
        return false;
    }
    t->place++;
    report_event(run, LOG_INFO, "%s: %s; trying another place of it", t->shown, t->message);
    return true;
}

static void handle_failed_task(struct run *run, struct run_task *t, const struct planner_ended *e)
{
    struct retry_rule rule = {.limit = run->o->attempts, .base_ms = run->tune.retry_base_ms};
    struct retry_failure f = {
        .code = t->code,
        .message = t->message,
        .died = t->died,
        .alone = e->alone,
        .progress = e->progress,
        .other_place = true,
    };
    struct retry_decision d;

    if (retry_counts(f.code, f.died) && !failure_history(run, t->t.task_id, &f))
        return;
    retry_decide(&rule, &f, clock_wall_ms(), (uint64_t)t->t.task_id, &d);
    if (d.verdict == RETRY_PLACE && !next_place(run, t)) {
        if (run->failure.code)
            return;
        f.other_place = false;
        retry_decide(&rule, &f, clock_wall_ms(), (uint64_t)t->t.task_id, &d);
    }
    switch (d.verdict) {
    case RETRY_BACK:
    case RETRY_PLACE:
        requeue_task(run, t);
        break;
    case RETRY_SUSPECT:
        failure_record_task(run, t, &d);
        if (d.at_ms) {
            backlog_drop(run, t->t.task_id);
            break;
        }
        if (!t->died) /* else the planner knows on which worker; its last lease may be another's */
            planner_task_suspect(run->planner, t->t.task_id, e->worker);
        requeue_task(run, t);
        break;
    case RETRY_AGAIN:
    case RETRY_FAIL:
        failure_record_task(run, t, &d);
        backlog_drop(run, t->t.task_id);
        break;
    case RETRY_STOP:
        disable_stage(run, t, d.message);
        break;
    }
}

/* No lease of it is open any more. */
void task_end(struct run *run, struct run_task *t, const struct planner_ended *e)
{
    passages_drop(t);
    if (e->complete) {
        if (run->backlog.kind.finalizes)
            run_note_unfinalized(run);
        run_note_commit(run);
        failure_over(&run->failures, t->t.task_id);
        backlog_drop(run, t->t.task_id);
    } else if (t->stopping) {
        backlog_drop(run, t->t.task_id);
        backlog_rescan(run); /* it may have been wanted again meanwhile */
    } else if (t->failed || t->died) {
        handle_failed_task(run, t, e);
    } else {
        requeue_task(run, t);
    }
    run_touch(run);
}
