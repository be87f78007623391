/* Stages that listen to the decoding passes of the stage that the run is at. A worker loads them
 * beside that one, where there is room, and each of its leases may have tracks of theirs: the same
 * shards of the same recording under these other stages. The results of such a track are committed
 * like any shard, under its own task. Shards that it does not yield are no failure: its stage has
 * its own turn later, and then does only those. So nothing here is tried again, and the planner
 * knows nothing of it. */

#include "scheduler/lease/tracks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/lease/lease.h"
#include "scheduler/run/report.h"

#define WORKER_MOST 1024u /* leases that a worker holds, for one more to have such tracks */

/* --------------------------------------------------------------------------------- the stages */

static void beside_free(struct beside *b)
{
    while (b->count)
        store_stage_row_free(&b->stages[--b->count].row);
}

void tracks_choose(struct run *run, struct store_stage_row *rows, size_t n)
{
    beside_free(&run->beside);
    if (run->o->stage_by_stage || run->backlog.kind.passage_chars)
        return;
    for (size_t i = 0; i < n && run->beside.count < SETUP_MAX_STAGES - 1; i++) {
        struct scheduler_stage kind = {0};

        if (!rows[i].stage_id || run_is_disabled(run, rows[i].stage_id))
            continue;
        if (run->o->stage)
            run->o->stage(rows[i].name, rows[i].params_json, &kind);
        if (kind.passage_chars) /* it hears nothing */
            continue;
        run->beside.stages[run->beside.count++] = (struct run_beside){rows[i], kind.finalizes};
        rows[i] = (struct store_stage_row){0};
    }
}

void tracks_free(struct beside *b) { beside_free(b); }

void tracks_setup(struct run_worker *w, struct msg_setup *m)
{
    struct run *run = w->process.run;

    w->tracks.named = w->tracks.solo ? 0 : run->beside.count;
    w->tracks.loaded = 0;
    for (uint32_t i = 0; i < w->tracks.named; i++) {
        const struct store_stage_row *row = &run->beside.stages[i].row;

        m->stages[m->stage_count++] = (struct msg_stage){
            .name = row->name,
            .model_dir = row->model_dir,
            .model_hash = row->model_hash,
            .params_json = row->params_json,
        };
    }
}

static void say_why_not(const struct run_worker *w, const char *stage, const char *why)
{
    char *shown = utf8_display(why, strlen(why));

    report_event(w->process.run, LOG_INFO, "%s: %s listens in its own turn: %.300s", w->label,
                 stage, shown ? shown : "");
    free(shown);
}

static void say_loaded(const struct run_worker *w)
{
    struct run *run = w->process.run;
    char names[256] = "";
    uint32_t said = 0;
    size_t len = 0;

    for (uint32_t i = 0; i < w->tracks.named && len < sizeof(names); i++)
        if (w->tracks.loaded >> i & 1) {
            int more = snprintf(names + len, sizeof(names) - len, "%s%s", said++ ? ", " : "",
                                run->beside.stages[i].row.name);

            len += more > 0 ? (size_t)more : 0;
        }
    if (said)
        report_event(run, LOG_INFO, "%s: %s %s to what is decoded for %s", w->label, names,
                     said == 1 ? "listens" : "listen", run->backlog.stage.name);
}

/* Stages that the message does not name are not loaded. */
bool tracks_ready(struct run_worker *w, const struct msg_ready *m, struct err *err)
{
    struct run *run = w->process.run;

    if (m->stage_count > 1 + w->tracks.named) {
        err_set(err, ERR_PROTOCOL, "%u stages in READY, of %u", m->stage_count,
                1 + w->tracks.named);
        return false;
    }
    if (w->stage_id != run->backlog.stage.stage_id) /* it is about to leave */
        return true;
    for (uint32_t i = 0; i + 1 < m->stage_count; i++)
        if (m->why_not[i + 1][0])
            say_why_not(w, run->beside.stages[i].row.name, m->why_not[i + 1]);
        else
            w->tracks.loaded |= 1u << i;
    say_loaded(w);
    return true;
}

void tracks_leave_out(struct run_worker *w)
{
    struct run *run = w->process.run;

    if (w->tracks.named == 0)
        return;
    w->tracks.solo = true;
    report_event(run, LOG_INFO, "%s goes on with %s alone: what listened has its own turn",
                 w->label, run->backlog.stage.name ? run->backlog.stage.name : "one stage");
}

/* -------------------------------------------------------------------------------- for a lease */

/* Does another worker, or this one, work on some of it already? */
static bool is_range_leased(const struct run *run, int64_t task, uint32_t first, uint32_t last)
{
    const struct run_lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->dispatch.leases, &at)))
        for (uint32_t i = 0; i < l->track_count; i++)
            if (l->tracks[i].t.task_id == task && l->first <= last && first <= l->last)
                return true;
    return false;
}

/* The stage's task of a recording, as it is with all that waits to be written. False: there is none
 * that may be worked on now. */
static bool find_task(struct run *run, int64_t stage, int64_t media, struct store_task *ret)
{
    struct err err = {0};
    bool found = false;

    for (int i = 0; i < 2; i++) {
        if (store_runnable_of(run->st, stage, media, clock_wall_ms(), ret, &found, &err)) {
            err_prefix(&err, "reading what is to be done");
            run_fail(run, &err);
            return false;
        }
        if (!found || !idmap_get(&run->commit.unwritten, (uint64_t)ret->task_id))
            break;
        store_task_free(ret);
        if (!run_flush(run))
            return false;
    }
    /* One that workers died on is done by itself, in its own turn. */
    if (found && ret->suspect)
        store_task_free(ret);
    return found && ret->task_id;
}

/* Lists the shards of [first, last] that are done already, as part of t->skip. False: all. */
static bool skip_of(const struct store_task *t, uint32_t first, uint32_t last, uint32_t **ret,
                    uint32_t *n)
{
    uint32_t from = 0, to;

    if (t->shards_total && last >= t->shards_total)
        last = t->shards_total - 1;
    if (first > last)
        return false;
    while (from < t->skip_count && t->skip[from] < first)
        from++;
    to = from;
    while (to < t->skip_count && t->skip[to] <= last)
        to++;
    *ret = t->skip + from;
    *n = to - from;
    return last == UINT32_MAX || *n < last - first + 1;
}

static void track_free(struct run_track *tr)
{
    store_task_free(&tr->t);
    idmap_free(&tr->told);
}

/* The track of one stage, if it has any use for the lease: *m is its part of the message. */
static bool make_track(struct run_worker *w, uint32_t i, const struct run_lease *l,
                       struct run_track *tr, struct msg_track *m)
{
    struct run *run = w->process.run;
    const struct run_beside *of = &run->beside.stages[i];
    struct err err = {0};

    *tr = (struct run_track){.stage = i + 1, .finalizes = of->finalizes};
    if (!(w->tracks.loaded >> i & 1) || run_is_disabled(run, of->row.stage_id) ||
        !find_task(run, of->row.stage_id, l->task->t.media_id, &tr->t))
        return false;
    *m = (struct msg_track){.stage = tr->stage,
                            .language = tr->t.language ? tr->t.language : (char *)""};
    if (!skip_of(&tr->t, l->first, l->last, &m->skip, &m->skip_count) ||
        is_range_leased(run, tr->t.task_id, l->first, l->last))
        return false;
    for (uint32_t k = 0; k < m->skip_count; k++)
        if (idmap_put(&tr->told, m->skip[k], run)) {
            err_set(&err, ERR_NOMEM, "no memory for a lease");
            run_fail(run, &err);
            return false;
        }
    known_text_add(run, &of->row, &tr->t, l->first, l->last, m);
    return true;
}

void tracks_add(struct run_worker *w, struct run_lease *l, struct msg_lease *m)
{
    struct run *run = w->process.run;

    if (planner_worker_leases(run->planner, w->index, NULL, 0) > WORKER_MOST)
        return;
    for (uint32_t i = 0; i < w->tracks.named && !run->failure.code; i++) {
        struct run_track *tr = &l->tracks[l->track_count];

        if (make_track(w, i, l, tr, &m->tracks[m->track_count])) {
            l->track_count++;
            m->track_count++;
            log_debug("%s listens to lease %" PRIu64, run->beside.stages[i].row.name, l->id);
        } else {
            track_free(tr);
        }
    }
}

void tracks_drop(struct run *run, struct run_lease *l)
{
    while (l->track_count) {
        struct run_track *tr = &l->tracks[--l->track_count];

        if (tr->finalizes)
            run_note_unfinalized(run);
        track_free(tr);
    }
}

/* ------------------------------------------------------------------------- taking tracks back */

static void cancel_track(struct run *run, const struct run_lease *l, struct run_track *tr)
{
    if (!tr->cancelled)
        lease_revoke_track(run, l, tr->stage);
    tr->cancelled = true;
}

void tracks_stop_stage(struct run *run, int64_t stage)
{
    struct run_lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->dispatch.leases, &at)))
        for (uint32_t i = 0; i < l->track_count; i++)
            if (l->tracks[i].t.stage_id == stage)
                cancel_track(run, l, &l->tracks[i]);
}

/* False: the run has failed. Also of a task that is complete, whose lease is about to end: that
 * does no harm. */
static bool recheck_track(struct run *run, const struct run_lease *l, struct run_track *tr)
{
    struct store_task t;
    struct err err = {0};
    bool wanted;

    if (store_runnable_of(run->st, tr->t.stage_id, tr->t.media_id, INT64_MAX, &t, &wanted, &err)) {
        run_fail(run, &err);
        return false;
    }
    if (wanted)
        store_task_free(&t);
    else
        cancel_track(run, l, tr);
    return true;
}

void tracks_recheck(struct run *run)
{
    struct run_lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->dispatch.leases, &at)))
        for (uint32_t i = 0; i < l->track_count; i++)
            if (!recheck_track(run, l, &l->tracks[i]))
                return;
}

/* ------------------------------------------------------------------------------------ results */

/* Finds the shard's track, and checks that the shard belongs to the lease. 0; 1: it was told
 * before; ERR_PROTOCOL; ERR_NOMEM. */
static int accept_track_shard(struct run_lease *l, uint32_t stage, uint32_t seq,
                              struct run_track **ret, struct err *err)
{
    struct run_track *tr = l->tracks, *end = tr + l->track_count;

    while (tr < end && tr->stage != stage)
        tr++;
    if (tr == end || seq < l->first || seq > l->granted || seq >= PLANNER_MAX_SHARDS)
        return err_set(err, ERR_PROTOCOL, "shard %u of track %u is not one of lease %" PRIu64, seq,
                       stage, l->id);
    *ret = tr;
    if (idmap_get(&tr->told, seq))
        return 1;
    if (idmap_put(&tr->told, seq, l))
        return err_set(err, ERR_NOMEM, "no memory for a result");
    return 0;
}

bool tracks_shard_done(struct run_worker *w, struct run_lease *l, struct msg_shard_done *m,
                       struct err *err)
{
    struct run *run = w->process.run;
    struct run_track *tr = NULL;
    int rc = accept_track_shard(l, m->track, m->seq, &tr, err);

    if (rc == 1)
        log_debug("%s: shard %u of track %u came twice", w->label, m->seq, m->track);
    if (rc)
        return rc == 1;
    restart_result(&w->process.restart);
    if (m->seq >= tr->end)
        tr->end = m->seq + 1;
    run_check(run, ledger_shard(run->ledger, tr->t.task_id, w->device, m, err), err);
    run_note_unwritten(run, tr->t.task_id);
    return true;
}

bool tracks_shard_failed(struct run_worker *w, struct run_lease *l,
                         const struct msg_shard_failed *m, struct err *err)
{
    struct run_track *tr = NULL;
    int rc = accept_track_shard(l, m->track, m->seq, &tr, err);

    if (rc == 0)
        log_debug("%s: shard %u of task %" PRId64 " is left to its own turn: %s (%s)", w->label,
                  m->seq, tr->t.task_id, m->message, err_name(m->code));
    return rc >= 0;
}

void tracks_total(struct run *run, const struct run_lease *l, uint32_t shards)
{
    struct err err = {0};

    for (uint32_t i = 0; i < l->track_count; i++) {
        const struct run_track *tr = &l->tracks[i];

        run_check(
            run,
            ledger_total(run->ledger, tr->t.task_id, shards > tr->end ? shards : tr->end, &err),
            &err);
        run_note_unwritten(run, tr->t.task_id);
    }
}
