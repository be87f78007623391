#include "scheduler/lease/lease.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/run/report.h"
#include "scheduler/run/run.h"
#include "workers/wire/frame.h"

/* ---- leases that end before their time */

void lease_revoke_cap(struct run *run, const struct planner_step *s)
{
    struct msg_cap m = {.lease_id = s->lease, .last = s->last};
    struct run_lease *l = idmap_get(&run->dispatch.leases, s->lease);
    struct buf b = BUF_INIT;

    log_debug("lease %" PRIu64 " ends with shard %u", s->lease, s->last);
    msg_cap_put(&b, &m);
    process_send(&run->devices.workers[s->worker].process, MSG_CAP, &b);
    buf_free(&b);
    if (l)
        l->last = s->last;
}

void lease_revoke_track(struct run *run, const struct run_lease *l, uint32_t track)
{
    struct msg_cancel m = {.lease_id = l->id, .track = track};
    struct buf b = BUF_INIT;

    msg_cancel_put(&b, &m);
    process_send(&run->devices.workers[l->worker].process, MSG_CANCEL, &b);
    buf_free(&b);
}

void lease_revoke_task(struct run *run, int64_t task)
{
    const struct run_lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->dispatch.leases, &at)))
        if (l->task->t.task_id == task)
            lease_revoke_track(run, l, 0);
}

void lease_revoke_at_checkpoint(struct run *run, int64_t task)
{
    const struct run_lease *l;
    struct planner_step s;
    size_t at = 0;

    while ((l = idmap_next(&run->dispatch.leases, &at)))
        if (l->task->t.task_id == task && planner_cap_now(run->planner, l->id, &s))
            lease_revoke_cap(run, &s);
}

/* ---- leases of stages that work on a transcription: the passages are read when they are leased,
 * go to the worker with the lease, and into the catalog with the vectors that come back */

void passages_drop(struct run_task *t)
{
    store_passages_free(t->passages, t->passage_count);
    t->passages = NULL;
    t->passage_count = 0;
}

int passages_read(struct run *run, struct run_task *t, struct err *err)
{
    int rc;

    passages_drop(t);
    rc = store_passages(run->st, t->t.task_id, run->backlog.kind.passage_chars, &t->passages,
                        &t->passage_count, err);
    if (rc == 0 && t->passage_count > UINT32_MAX)
        rc = err_set(err, ERR_LIMIT, "%zu passages are more than can be sent", t->passage_count);
    if (rc)
        return rc;
    return t->passage_count == 0;
}

void passages_fill(const struct run_task *t, struct msg_lease *m)
{
    m->total_ms = t->t.duration_ms > 0 ? t->t.duration_ms : 0;
    m->passage_count = (uint32_t)t->passage_count;
    m->passages = t->passages;
}

bool passages_answered(const struct run_task *t, const struct msg_shard_done *m, struct err *err)
{
    if (m->vector_count != t->passage_count) {
        err_set(err, ERR_PROTOCOL, "%u vectors of %zu passages", m->vector_count, t->passage_count);
        return false;
    }
    for (size_t i = 0; i < t->passage_count; i++)
        if (m->vectors[i].start_ms != t->passages[i].start_ms ||
            m->vectors[i].end_ms != t->passages[i].end_ms) {
            err_set(err, ERR_PROTOCOL, "vector %zu is of another passage", i);
            return false;
        }
    return true;
}

/* ---- leases of transcriptions whose text another one has written already: it goes to the worker
 * with the lease, and comes back with the times of its words */

void known_text_add(struct run *run, const struct store_stage_row *stage,
                    const struct store_task *t, uint32_t first, uint32_t last, struct msg_track *m)
{
    char *params = run->o->text_of ? run->o->text_of(stage->name, stage->params_json) : NULL;
    struct store_known_text known_text = {0};
    struct err err = {0};
    int rc =
        params ? store_known_text(run->st, t->task_id, params, first, last, &known_text, &err) : 0;

    free(params);
    if (rc < 0 && retry_store(rc) == STORE_STOP) {
        run_fail(run, &err);
        return;
    }
    if (rc < 0)
        report_event(run, LOG_WARN, "recording %" PRId64 " is transcribed anew: %s", t->media_id,
                     err.msg);
    m->known_text = known_text.shards;
    m->known_text_count = known_text.count;
}

void known_text_drop(struct msg_lease *m)
{
    for (uint32_t i = 0; i < m->track_count; i++) {
        struct store_known_text known_text = {.shards = m->tracks[i].known_text,
                                              .count = m->tracks[i].known_text_count};

        store_known_text_free(&known_text);
        m->tracks[i].known_text = NULL;
        m->tracks[i].known_text_count = 0;
    }
}

static bool has_earlier_results(const struct msg_lease *m)
{
    bool any = false;

    for (uint32_t i = 0; i < m->track_count; i++)
        any |= m->tracks[i].known_text_count > 0;
    return any;
}

/* Once for a recording, whichever lease comes first. */
static void record_words_timed(struct run *run, const struct msg_lease *m)
{
    struct err err = {0};
    bool whole = false;

    for (uint32_t i = 0; i < m->track_count; i++)
        whole |= m->first == 0 && m->tracks[i].known_text_count && !m->tracks[i].skip_count;
    if (!whole)
        return;
    run_check(run,
              ledger_event(run->ledger, "words-timed", m->media_id, "",
                           "its text stays as it was written without times of words, which are "
                           "added; nothing is decoded again",
                           &err),
              &err);
    run_note_commit(run);
}

void known_text_put(struct run *run, const struct run_task *t, struct msg_lease *m, struct buf *ret)
{
    const bool holds = !has_earlier_results(m) || fields_hold(msg_fields(MSG_LEASE), m);

    if (holds)
        msg_lease_put(ret, m);
    if (!has_earlier_results(m) || (holds && ret->len <= FRAME_MAX)) {
        record_words_timed(run, m);
        return;
    }
    report_event(run, LOG_WARN, "%s is transcribed anew: its text in the catalog is %s", t->shown,
                 holds ? "more than can be sent to a worker" : "impossible");
    known_text_drop(m);
    buf_clear(ret);
    msg_lease_put(ret, m);
}
