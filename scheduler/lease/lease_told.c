#include "scheduler/lease/lease_told.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "scheduler/run/report.h"
#include "workers/wire/frame.h"

void told_add(struct run *run, const struct store_stage_row *stage, const struct store_task *t,
              uint32_t first, uint32_t last, struct msg_track *m)
{
    char *params = run->o->text_of ? run->o->text_of(stage->name, stage->params_json) : NULL;
    struct store_told told = {0};
    struct err err = {0};
    int rc = params ? store_told(run->st, t->task_id, params, first, last, &told, &err) : 0;

    free(params);
    if (rc < 0 && retry_store(rc) == STORE_STOP) {
        run_fail(run, &err);
        return;
    }
    if (rc < 0)
        report_event(run, LOG_WARN, "recording %" PRId64 " is transcribed anew: %s", t->media_id,
                     err.msg);
    m->told = told.shards;
    m->told_count = told.count;
}

void told_drop(struct msg_lease *m)
{
    for (uint32_t i = 0; i < m->track_count; i++) {
        struct store_told told = {.shards = m->tracks[i].told, .count = m->tracks[i].told_count};

        store_told_free(&told);
        m->tracks[i].told = NULL;
        m->tracks[i].told_count = 0;
    }
}

static bool tells(const struct msg_lease *m)
{
    bool any = false;

    for (uint32_t i = 0; i < m->track_count; i++)
        any |= m->tracks[i].told_count > 0;
    return any;
}

/* Once for a recording, whichever lease comes first. */
static void note(struct run *run, const struct msg_lease *m)
{
    struct err err = {0};
    bool whole = false;

    for (uint32_t i = 0; i < m->track_count; i++)
        whole |= m->first == 0 && m->tracks[i].told_count && !m->tracks[i].skip_count;
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

void told_put(struct run *run, const struct run_task *t, struct msg_lease *m, struct buf *ret)
{
    const bool holds = !tells(m) || fields_hold(msg_fields(MSG_LEASE), m);

    if (holds)
        msg_lease_put(ret, m);
    if (!tells(m) || (holds && ret->len <= FRAME_MAX)) {
        note(run, m);
        return;
    }
    report_event(run, LOG_WARN, "%s is transcribed anew: its text in the catalog is %s", t->shown,
                 holds ? "more than can be sent to a worker" : "impossible");
    told_drop(m);
    buf_clear(ret);
    msg_lease_put(ret, m);
}
