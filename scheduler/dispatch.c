#include "scheduler/dispatch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/backlog.h"
#include "scheduler/run/figures.h"
#include "scheduler/lease_passages.h"
#include "scheduler/run/report.h"
#include "scheduler/settle.h"
#include "scheduler/tracks.h"

/* ------------------------------------------------------------------------------------ leases */

static struct run_lease *lease_new(struct run *run, const struct planner_step *s)
{
    struct run_lease *l = calloc(1, sizeof(*l));
    struct planner_ended e;
    struct err err = {0};

    if (l && idmap_put(&run->leases, s->lease, l) == 0) {
        l->id = s->lease;
        l->task = idmap_get(&run->tasks, (uint64_t)s->task);
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

static void lease_free(struct run *run, struct run_lease *l)
{
    idmap_remove(&run->leases, l->id);
    tracks_drop(run, l);
    free(l);
}

void dispatch_free(struct run *run)
{
    struct run_lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->leases, &at))) {
        tracks_drop(run, l);
        free(l);
    }
    idmap_free(&run->leases);
}

/* -------------------------------------------------------------------------------- to workers */

static void note_failure(struct run_task *t, int code, const char *message);
static void conclude(struct run *run, struct run_task *t, const struct planner_ended *e);

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

    lease_free(run, l);
    if (code) {
        msg_shard_done_free(&none);
        note_failure(t, code, message);
    } else {
        run_check(run, planner_shard(run->planner, lease, 0, true, &err), &err);
        run_check(run, ledger_shard(run->ledger, t->t.task_id, "", &none, &err), &err);
        run_check(run, ledger_total(run->ledger, t->t.task_id, 1, &err), &err);
        run_note_commit(run);
    }
    if (planner_lease_end(run->planner, lease, code == 0, code == 0, &e, &err) == 0 && e.idle)
        conclude(run, t, &e);
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
    if (!run->named)
        report_event(run, LOG_INFO, "beginning with %s", t->shown);
    run->named = true;
}

/* With all of its tracks, or where that is too much with the first alone. False: that is too long,
 * too. */
static bool encode(struct run *run, struct run_lease *l, struct msg_lease *m, struct buf *ret)
{
    msg_lease_put(ret, m);
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
    struct run_worker *w = &run->workers[s->worker];
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
        .want_hash = !t->t.has_hash && s->last == UINT32_MAX && !run->kind.passage_chars,
        .shard_ms = run->o->shard_ms,
        .first = s->first,
        .last = s->last,
        .track_count = 1,
        .tracks = tracks,
    };
    memcpy(m.fingerprint, t->t.fingerprint, sizeof(m.fingerprint));
    if (run->kind.passage_chars && !add_passages(run, l, &m))
        return;
    log_debug("lease %" PRIu64 ": %s, shards %u to %u%s, to %s", s->lease, t->shown, s->first,
              s->last, s->alone ? ", alone" : "", w->label);
    if (!s->alone)
        tracks_add(w, l, &m);
    if (encode(run, l, &m, &b)) {
        say_first(run, t);
        process_send(&w->process, MSG_LEASE, &b);
    } else {
        end_unsent(run, l, ERR_LIMIT, "its text is more than can be sent to a worker");
    }
    buf_free(&b);
}

static void dispatch_cap(struct run *run, const struct planner_step *s)
{
    struct msg_cap m = {.lease_id = s->lease, .last = s->last};
    struct run_lease *l = idmap_get(&run->leases, s->lease);
    struct buf b = BUF_INIT;

    log_debug("lease %" PRIu64 " ends with shard %u", s->lease, s->last);
    msg_cap_put(&b, &m);
    process_send(&run->workers[s->worker].process, MSG_CAP, &b);
    buf_free(&b);
    if (l)
        l->last = s->last;
}

void dispatch_all(struct run *run)
{
    struct planner_step s;
    struct err err = {0};

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
            dispatch_cap(run, &s);
            break;
        }
    }
}

void dispatch_cancel_track(struct run *run, const struct run_lease *l, uint32_t track)
{
    struct msg_cancel m = {.lease_id = l->id, .track = track};
    struct buf b = BUF_INIT;

    msg_cancel_put(&b, &m);
    process_send(&run->workers[l->worker].process, MSG_CANCEL, &b);
    buf_free(&b);
}

void dispatch_cancel(struct run *run, int64_t task)
{
    const struct run_lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->leases, &at)))
        if (l->task->t.task_id == task)
            dispatch_cancel_track(run, l, 0);
}

void dispatch_cap_task(struct run *run, int64_t task)
{
    const struct run_lease *l;
    struct planner_step s;
    size_t at = 0;

    while ((l = idmap_next(&run->leases, &at)))
        if (l->task->t.task_id == task && planner_cap_now(run->planner, l->id, &s))
            dispatch_cap(run, &s);
}

/* --------------------------------------------------------------------------------- failures */

/* Which of two failures of one task decides. */
static int weight(int code)
{
    switch (code) {
    case ERR_MODEL:
        return 4;
    case ERR_INPUT:
    case ERR_LIMIT:
        return 3;
    case ERR_MISSING:
    case ERR_CHANGED:
    case ERR_DENIED:
        return 2;
    default:
        return 1;
    }
}

static void note_failure(struct run_task *t, int code, const char *message)
{
    char *shown;

    if (code == ERR_CANCELLED || (t->failed && weight(code) <= weight(t->code)))
        return;
    t->failed = true;
    t->code = code;
    shown = utf8_display(message, strlen(message));
    utf8_copy(t->message, sizeof(t->message), shown && shown[0] ? shown : err_name(code));
    free(shown);
}

static void clear_failure(struct run_task *t)
{
    t->failed = t->died = false;
    t->code = 0;
    t->message[0] = 0;
}

bool dispatch_history(struct run *run, int64_t task, struct retry_failure *ret)
{
    struct err err = {0};
    uintptr_t own;

    if (store_task_attempts(run->st, task, &ret->attempts, &ret->deaths, &err)) {
        run_fail(run, &err);
        return false;
    }
    if (ret->deaths == 0) /* none yet, or forgiven by a retry */
        idmap_remove(&run->deaths, (uint64_t)task);
    own = (uintptr_t)idmap_get(&run->deaths, (uint64_t)task);
    ret->deaths_alone = own ? (uint32_t)own - 1 : 0;
    ret->acquitted = run->acquitted;
    return true;
}

void dispatch_done(struct run *run, int64_t task)
{
    run->acquitted += idmap_remove(&run->deaths, (uint64_t)task) != NULL;
}

static void note_death(struct run *run, int64_t task, const struct retry_decision *d)
{
    bool suspect = d->verdict == RETRY_SUSPECT;
    struct err err = {0};

    run_check(run, ledger_suspect(run->ledger, task, d->deaths, suspect ? d->at_ms : 0, &err),
              &err);
    if (!suspect) {
        idmap_remove(&run->deaths, (uint64_t)task);
    } else if (d->own &&
               idmap_put(&run->deaths, (uint64_t)task, (void *)(uintptr_t)(1 + d->deaths_alone))) {
        err_set(&err, ERR_NOMEM, "no memory for a failure");
        run_fail(run, &err);
    }
}

void dispatch_record(struct run *run, const struct dispatch_failure *f,
                     const struct retry_decision *d)
{
    bool final = d->verdict == RETRY_FAIL;
    struct err err = {0};
    int code = f->code ? f->code : ERR_CRASH;

    if (d->verdict != RETRY_SUSPECT)
        run_check(
            run, ledger_failed(run->ledger, f->task, code, d->message, final ? -1 : d->at_ms, &err),
            &err);
    if (d->deaths)
        note_death(run, f->task, d);
    if (d->quarantined)
        run_check(run, ledger_event(run->ledger, "quarantined", f->media, "", d->message, &err),
                  &err);
    run_note_commit(run);
    if (final) {
        figures_failed(run, f->media);
        report_event(run, LOG_WARN, "%s: %s", f->shown, d->message);
    } else if (d->at_ms == 0) {
        /* A worker's death has been told once for all that it held. */
        report_event(run, f->died ? LOG_DEBUG : LOG_INFO,
                     "%s: %s; again, alone, when nothing else waits", f->shown, d->message);
    } else {
        char wait[PROGRESS_SPAN];

        progress_span(d->at_ms - clock_wall_ms(), wait);
        report_event(run, LOG_INFO, "%s: %s; again in %s", f->shown, d->message, wait);
        if (d->at_ms < run->retry_due_ms)
            run->retry_due_ms = d->at_ms;
    }
}

static void record_failure(struct run *run, struct run_task *t, const struct retry_decision *d)
{
    const struct dispatch_failure f = {
        .task = t->t.task_id,
        .media = t->t.media_id,
        .shown = t->shown,
        .code = t->code,
        .died = t->died,
    };

    dispatch_record(run, &f, d);
}

/* The same for every recording of its stage: none of them is charged. */
static void put_stage_aside(struct run *run, const struct run_task *t, const char *message)
{
    struct err err = {0};

    err_set(&err, t->code, "%s", message);
    backlog_drop(run, t->t.task_id);
    if (run->has_stage) /* else it is aside already */
        backlog_put_aside(run, &run->stage, &err);
}

static void requeue(struct run *run, struct run_task *t)
{
    struct err err = {0};

    clear_failure(t);
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

static void decide(struct run *run, struct run_task *t, const struct planner_ended *e)
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

    if (retry_counts(f.code, f.died) && !dispatch_history(run, t->t.task_id, &f))
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
        requeue(run, t);
        break;
    case RETRY_SUSPECT:
        record_failure(run, t, &d);
        if (d.at_ms) {
            backlog_drop(run, t->t.task_id);
            break;
        }
        if (!t->died) /* else the planner knows on which worker; its last lease may be another's */
            planner_task_suspect(run->planner, t->t.task_id, e->worker);
        requeue(run, t);
        break;
    case RETRY_AGAIN:
    case RETRY_FAIL:
        record_failure(run, t, &d);
        backlog_drop(run, t->t.task_id);
        break;
    case RETRY_STOP:
        put_stage_aside(run, t, d.message);
        break;
    }
}

/* ---------------------------------------------------------------------------------- results */

/* *ret is NULL where it was given up. */
static bool lease_of(struct run_worker *w, uint64_t lease, int64_t media, struct run_lease **ret,
                     struct err *err)
{
    struct run_lease *l = *ret = idmap_get(&w->process.run->leases, lease);

    if (!l)
        log_debug("%s: lease %" PRIu64 " is over", w->label, lease);
    if (!l || (l->worker == w->index && l->task->t.media_id == media))
        return true;
    err_set(err, ERR_PROTOCOL, "lease %" PRIu64 " is not of this worker or recording", lease);
    return false;
}

bool dispatch_media(struct run_worker *w, const struct msg_media *m, struct err *err)
{
    struct run *run = w->process.run;
    struct run_lease *l;

    if (!lease_of(w, m->lease_id, m->media_id, &l, err))
        return false;
    if (!l || run->kind.passage_chars)
        return true;
    run_check(run, ledger_media(run->ledger, m, err), err);
    run_note_commit(run);
    planner_task_duration(run->planner, l->task->t.task_id, m->duration_ms);
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
 * done. Settling needs the length. */
static bool take_end(struct run *run, struct run_lease *l, uint32_t shards, int64_t total_ms,
                     struct err *err)
{
    if (l->shards == 0)
        run_check(run, ledger_media_length(run->ledger, l->task->t.media_id, total_ms, err), err);
    return take_total(run, l, shards, err);
}

/* Of the first track. */
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
    rc = ledger_passages(run->ledger, t->t.task_id, w->device, m, t->passages, err);
    t->passages = NULL; /* they are the ledger's */
    t->passage_count = 0;
    run_check(run, rc, err);
    run_note_commit(run);
    return true;
}

bool dispatch_shard_done(struct run_worker *w, struct msg_shard_done *m, struct err *err)
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

bool dispatch_shard_failed(struct run_worker *w, const struct msg_shard_failed *m, struct err *err)
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
    rc = planner_shard(run->planner, m->lease_id, m->seq, false, err);
    if (rc == ERR_NOMEM)
        run_fail(run, err);
    if (rc < 0)
        return false;
    if (rc == 0)
        note_failure(l->task, m->code, m->message);
    if (m->code != ERR_DEVICE) /* which is about to be a death */
        restart_result(&w->process.restart);
    return true;
}

/* No lease of it is open any more. */
static void conclude(struct run *run, struct run_task *t, const struct planner_ended *e)
{
    passages_drop(t);
    if (e->complete) {
        if (run->kind.settles)
            settle_wake(run);
        run_note_commit(run);
        dispatch_done(run, t->t.task_id);
        backlog_drop(run, t->t.task_id);
    } else if (t->stopping) {
        backlog_drop(run, t->t.task_id);
        backlog_rescan(run); /* it may have been wanted again meanwhile */
    } else if (t->failed || t->died) {
        decide(run, t, e);
    } else {
        requeue(run, t);
    }
    run_touch(run);
}

bool dispatch_lease_end(struct run_worker *w, const struct msg_lease_end *m, struct err *err)
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
    rc = planner_lease_end(run->planner, m->lease_id, m->reached_end, m->shards, &e, err);
    if (rc)
        return false;
    if (m->reached_end) {
        if (!run->kind.passage_chars) /* else nobody listened to it */
            run_check(run, ledger_media_end(run->ledger, m, err), err);
        if (!take_total(run, l, m->shards, err))
            return false;
        t->t.has_hash |= m->has_hash;
    }
    lease_free(run, l);
    if (e.unreported && m->code)
        note_failure(t, m->code, m->message);
    else if (e.unreported && !w->drained && run_worker_ready(w) && !t->stopping)
        note_failure(t, ERR_PROTOCOL, "the worker gave no result for a part of it");
    /* Cancelled though nobody asked: the worker's fault, and not to be repeated without end. */
    if (m->code == ERR_CANCELLED && e.unreported && !w->drained && run_worker_ready(w) &&
        !t->stopping)
        note_failure(t, ERR_PROTOCOL, "the worker dropped it without being asked");
    if (e.idle)
        conclude(run, t, &e);
    return true;
}

/* Did it hold one recording alone, for the run's stage alone? */
static bool held_alone(const struct run *run, const uint64_t *ids, size_t n, int64_t *task)
{
    bool alone = n > 0;

    for (size_t i = 0; i < n; i++) {
        const struct run_lease *l = idmap_get(&run->leases, ids[i]);
        int64_t of = l->task->t.task_id;

        alone = alone && l->track_count == 0 && (i == 0 || of == *task);
        *task = of;
    }
    return alone;
}

static bool had_tracks(const struct run *run, const uint64_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct run_lease *l = idmap_get(&run->leases, ids[i]);

        if (l->track_count)
            return true;
    }
    return false;
}

/* Did it fail, or die alone, before? A single death may have been of others in the same worker. */
static bool is_known(struct run *run, int64_t task)
{
    struct retry_failure f = {0};

    return dispatch_history(run, task, &f) && (f.attempts || f.deaths_alone || f.deaths > 1);
}

void dispatch_worker_lost(struct run_worker *w, int code, const char *message,
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
    for (i = 0; i < n; i++) {
        struct run_lease *l = idmap_get(&run->leases, ids[i]);
        struct run_task *t = l->task;
        struct planner_ended e;

        lease_free(run, l);
        if (planner_lease_end(run->planner, ids[i], false, 0, &e, &err))
            continue;
        if (code != ERR_CANCELLED) {
            t->died = true;
            t->code = code;
            utf8_copy(t->message, sizeof(t->message), message);
            planner_task_suspect(run->planner, e.task, w->index);
        }
        if (e.idle)
            conclude(run, t, &e);
    }
    free(ids);
}
