#include "scheduler/intake.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/dispatch.h"
#include "scheduler/failure.h"
#include "scheduler/lease/lease.h"
#include "scheduler/lease/tracks.h"
#include "scheduler/run/diary.h"
#include "scheduler/run/figures.h"
#include "scheduler/worker_pool.h"

/* *ret is NULL where it was given up. */
static bool lease_of(struct run_worker *w, uint64_t lease, int64_t media, struct run_lease **ret,
                     struct err *err)
{
    struct run_lease *l = *ret = idmap_get(&w->process.run->dispatch.leases, lease);

    if (!l)
        log_debug("%s: lease %" PRIu64 " is over", w->label, lease);
    if (!l || (l->worker == w->index && l->task->t.media_id == media))
        return true;
    err_set(err, ERR_PROTOCOL, "lease %" PRIu64 " is not of this worker or recording", lease);
    return false;
}

/* Is it to be noted what it hears? Nearly every recording is one source, all of it. */
static bool hears_other(struct store_task *t, const struct msg_media *m)
{
    if (!m->source_count && !*m->left_out && !*m->mix_left_out && !t->sources && !t->left_out)
        return false;
    t->left_out = true; /* or another source: what is heard next has to be told, too */
    return true;
}

bool intake_media(struct run_worker *w, struct msg_media *m, struct err *err)
{
    struct run *run = w->process.run;
    int64_t heard[SETUP_MAX_STAGES];
    uint32_t n = 0;
    struct run_lease *l;

    if (!lease_of(w, m->lease_id, m->media_id, &l, err))
        return false;
    if (!l || run->backlog.kind.passage_chars)
        return true;
    if (hears_other(&l->task->t, m))
        heard[n++] = l->task->t.task_id;
    for (uint32_t i = 0; i < l->track_count; i++)
        if (hears_other(&l->tracks[i].t, m))
            heard[n++] = l->tracks[i].t.task_id;
    planner_task_duration(run->planner, l->task->t.task_id, m->duration_ms);
    run_check(run, ledger_media(run->ledger, m, heard, n, err), err);
    run_note_commit(run);
    return true;
}

static bool is_as_said(const struct run_lease *l, uint32_t shards, struct err *err)
{
    if (l->shards == 0 || l->shards == shards)
        return true;
    err_set(err, ERR_PROTOCOL, "a recording of %u shards, and of %u", l->shards, shards);
    return false;
}

/* How many shards the recording has: with the last of them each track's task is done. */
static bool take_total(struct run *run, struct run_lease *l, uint32_t shards, struct err *err)
{
    int64_t task = l->task->t.task_id;
    uint32_t total;

    if (l->shards)
        return is_as_said(l, shards, err);
    if (planner_task_total(run->planner, task, shards, &total, err))
        return false;
    l->shards = shards;
    run_check(run, ledger_total(run->ledger, task, total, err), err);
    tracks_total(run, l, shards);
    run_note_commit(run);
    return true;
}

/* The recording's end was seen while some tracks may be at work for long: what is done by now is
 * done. Finalizing needs the length. */
static bool take_end(struct run *run, struct run_lease *l, uint32_t shards, int64_t total_ms,
                     struct err *err)
{
    if (l->shards == 0)
        run_check(run, ledger_media_length(run->ledger, l->task->t.media_id, total_ms, err), err);
    return take_total(run, l, shards, err);
}

/* The first track's shard. */
static bool first_done(struct run_worker *w, struct run_lease *l, struct msg_shard_done *m,
                       struct err *err)
{
    struct run *run = w->process.run;
    struct run_task *t = l->task;
    int rc;

    if (t->passages && !passages_answered(t, m, err))
        return false;
    rc = planner_shard(run->planner, m->lease_id, m->seq, true, err);
    if (rc == 1) {
        log_debug("%s: shard %u of %s came twice", w->label, m->seq, t->shown);
        return true;
    }
    if (rc == ERR_NOMEM)
        run_fail(run, err);
    if (rc)
        return false;
    restart_result(&w->process.restart);
    figures_heard(run, t, m->end_ms - m->start_ms);
    diary_heard(&w->diary, m->end_ms - m->start_ms);
    rc = ledger_passages(run->ledger, t->t.task_id, w->device, m, t->passages, err);
    t->passages = NULL; /* they are the ledger's */
    t->passage_count = 0;
    run_check(run, rc, err);
    run_note_commit(run);
    return true;
}

bool intake_shard_done(struct run_worker *w, struct msg_shard_done *m, struct err *err)
{
    uint32_t shards = m->shards; /* *m will be the ledger's */
    int64_t total_ms = m->total_ms;
    struct run_lease *l;

    if (!lease_of(w, m->lease_id, m->media_id, &l, err))
        return false;
    if (!l)
        return true;
    if (m->track ? !tracks_shard_done(w, l, m, err) : !first_done(w, l, m, err))
        return false;
    /* Without other tracks LEASE_END is about to say it. */
    return shards == 0 || l->track_count == 0 || take_end(w->process.run, l, shards, total_ms, err);
}

bool intake_shard_failed(struct run_worker *w, const struct msg_shard_failed *m, struct err *err)
{
    struct run *run = w->process.run;
    struct run_lease *l;
    int rc;

    if (!lease_of(w, m->lease_id, m->media_id, &l, err))
        return false;
    if (!l)
        return true;
    if (m->track)
        return tracks_shard_failed(w, l, m, err);
    if (m->code == ERR_MODEL) {
        char *shown = utf8_display(m->message, strlen(m->message));
        bool again = worker_pool_left_fp16(w, shown ? shown : "");

        free(shown);
        if (again)
            return true;
    }
    rc = planner_shard(run->planner, m->lease_id, m->seq, false, err);
    if (rc == ERR_NOMEM)
        run_fail(run, err);
    if (rc < 0)
        return false;
    if (rc == 0)
        failure_note(l->task, m->code, m->message);
    if (m->code != ERR_DEVICE) /* which is about to be a death */
        restart_result(&w->process.restart);
    return true;
}

bool intake_lease_end(struct run_worker *w, const struct msg_lease_end *m, struct err *err)
{
    struct run *run = w->process.run;
    struct planner_ended e;
    struct run_lease *l;
    struct run_task *t;
    int rc;

    if (!lease_of(w, m->lease_id, m->media_id, &l, err))
        return false;
    if (!l)
        return true;
    /* While the planner knows the lease: all that a worker holds which lied is taken back. */
    if (m->reached_end && !is_as_said(l, m->shards, err))
        return false;
    t = l->task;
    diary_work(run);
    rc = planner_lease_end(run->planner, m->lease_id, m->reached_end, m->shards, &e, err);
    if (rc)
        return false;
    if (m->reached_end) {
        if (!run->backlog.kind.passage_chars) /* else nobody listened to it */
            run_check(run, ledger_media_end(run->ledger, m, err), err);
        if (!take_total(run, l, m->shards, err))
            return false;
        t->t.has_hash |= m->has_hash;
    }
    dispatch_close(run, l);
    if (e.unreported && m->code)
        failure_note(t, m->code, m->message);
    else if (e.unreported && !w->drained && run_worker_ready(w) && !t->stopping)
        failure_note(t, ERR_PROTOCOL, "the worker gave no result for a part of it");
    /* Cancelled though nobody asked: the worker's fault, and not to be repeated without end. */
    if (m->code == ERR_CANCELLED && e.unreported && !w->drained && run_worker_ready(w) &&
        !t->stopping)
        failure_note(t, ERR_PROTOCOL, "the worker dropped it without being asked");
    if (e.idle)
        task_end(run, t, &e);
    return true;
}

/* Did it hold one recording alone, for the run's stage alone? */
static bool held_alone(const struct run *run, const uint64_t *ids, size_t n, int64_t *task)
{
    bool alone = n > 0;

    for (size_t i = 0; i < n; i++) {
        const struct run_lease *l = idmap_get(&run->dispatch.leases, ids[i]);
        int64_t of = l->task->t.task_id;

        alone = alone && l->track_count == 0 && (i == 0 || of == *task);
        *task = of;
    }
    return alone;
}

static bool had_tracks(const struct run *run, const uint64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct run_lease *l = idmap_get(&run->dispatch.leases, ids[i]);

        if (l->track_count)
            return true;
    }
    return false;
}

/* Did it fail, or die alone, before? A single death may have been of others in the same worker. */
static bool is_known(struct run *run, int64_t task)
{
    struct retry_failure f = {0};

    return failure_history(run, task, &f) && (f.attempts || f.deaths_alone || f.deaths > 1);
}

void intake_worker_lost(struct run_worker *w, int code, const char *message,
                        enum restart_cause *cause, int64_t *task)
{
    struct run *run = w->process.run;
    size_t n = planner_worker_leases(run->planner, w->index, NULL, 0), i;
    uint64_t *ids = calloc(n + 1, sizeof(*ids));
    struct err err = {0};
    int64_t only = 0;
    bool alone;

    if (!ids) {
        err_set(&err, ERR_NOMEM, "no memory to take leases back");
        run_fail(run, &err);
        return;
    }
    planner_worker_leases(run->planner, w->index, ids, n);
    /* Another stage may have killed it. With none of them at work it was the recording. */
    alone = held_alone(run, ids, n, &only);
    if (cause) {
        if (n == 0 || had_tracks(run, ids, n))
            tracks_leave_out(w);
        *cause = n == 0 ? RESTART_OWN : alone ? RESTART_ONE : RESTART_MANY;
        *task = only;
        if (alone && is_known(run, only))
            *cause = RESTART_KNOWN;
    }
    diary_work(run);
    for (i = 0; i < n; i++) {
        struct run_lease *l = idmap_get(&run->dispatch.leases, ids[i]);
        struct run_task *t = l->task;
        struct planner_ended e;

        dispatch_close(run, l);
        if (planner_lease_end(run->planner, ids[i], false, 0, &e, &err))
            continue;
        if (code != ERR_CANCELLED) {
            t->died = true;
            t->code = code;
            utf8_copy(t->message, sizeof(t->message), message);
            planner_task_suspect(run->planner, e.task, w->index);
        }
        if (e.idle)
            task_end(run, t, &e);
    }
    free(ids);
}
