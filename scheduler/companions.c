/* Stages that listen to the decoding passes of the stage that the run is at. A worker loads them
 * beside that one, where there is room, and each of its leases may have companions: leases of the
 * same shards of the same recording under these other stages. What a companion yields is committed
 * like any shard, under its own task. What it does not yield costs nothing and is charged to
 * nobody: its stage has its own turn later, and does only what is missing then. So nothing here is
 * tried again. */
#include "scheduler/companions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"

#define IDS (UINT64_C(1) << 63) /* the planner's ids are below */
#define WORKER_MOST 1024u       /* leases: far from what a worker holds, the others' included */

struct companion_stage {
    struct store_stage_row row;
    bool settles;
};

struct lease {
    uint64_t id, with;
    int64_t task, media, stage;
    uint32_t worker;
    uint32_t first, last, granted; /* granted: last, before it was capped */
    uint32_t end;                  /* one more than the highest shard that was done */
    bool settles, cancelled;
    struct idmap told; /* shards that are not awaited (any more): any pointer */
};

struct companions {
    struct companion_stage of[SETUP_MAX_COMPANIONS]; /* of the run's stage */
    uint32_t count;
    struct idmap leases;
    struct idmap unwritten; /* tasks of which the ledger holds something: any pointer */
    uint64_t last_id;
    uint64_t heard_ms;
};

/* ------------------------------------------------------------------------------------ the run */

int companions_open(struct run *run, struct err *err)
{
    run->companions = calloc(1, sizeof(*run->companions));
    if (!run->companions)
        return err_set(err, ERR_NOMEM, "no memory for the run");
    return 0;
}

static void stages_free(struct companions *c)
{
    while (c->count)
        store_stage_row_free(&c->of[--c->count].row);
}

static void lease_free(struct lease *l)
{
    idmap_free(&l->told);
    free(l);
}

void companions_free(struct run *run)
{
    struct companions *c = run->companions;
    struct lease *l;
    size_t at = 0;

    if (!c)
        return;
    while ((l = idmap_next(&c->leases, &at)))
        lease_free(l);
    idmap_free(&c->leases);
    idmap_free(&c->unwritten);
    stages_free(c);
    free(c);
    run->companions = NULL;
}

size_t companions_leased(const struct run *run) { return run->companions->leases.count; }
uint64_t companions_heard_ms(const struct run *run) { return run->companions->heard_ms; }
void companions_written(struct run *run) { idmap_free(&run->companions->unwritten); }
bool companions_own(uint64_t lease) { return lease & IDS; }

/* --------------------------------------------------------------------------------- the stages */

void companions_choose(struct run *run, struct store_stage_row *rows, size_t n)
{
    struct companions *c = run->companions;

    stages_free(c);
    if (run->o->stage_by_stage || run->kind.passage_chars)
        return;
    for (size_t i = 0; i < n && c->count < SETUP_MAX_COMPANIONS; i++) {
        struct scheduler_stage kind = {0};

        if (!rows[i].stage_id || backlog_is_aside(run, rows[i].stage_id))
            continue;
        if (run->o->stage)
            run->o->stage(rows[i].name, rows[i].params_json, &kind);
        if (kind.passage_chars) /* it hears nothing */
            continue;
        c->of[c->count++] = (struct companion_stage){rows[i], kind.settles};
        rows[i] = (struct store_stage_row){0};
    }
}

void companions_setup(struct run_worker *w, struct msg_setup *m,
                      struct msg_companion room[SETUP_MAX_COMPANIONS])
{
    const struct companions *c = w->run->companions;

    w->named = w->solo ? 0 : c->count;
    w->loaded = 0;
    for (uint32_t i = 0; i < w->named; i++)
        room[i] = (struct msg_companion){
            .stage = c->of[i].row.name,
            .model_dir = c->of[i].row.model_dir,
            .model_hash = c->of[i].row.model_hash,
            .params_json = c->of[i].row.params_json,
        };
    m->companion_count = w->named;
    m->companions = w->named ? room : NULL;
}

static void say_why_not(const struct run_worker *w, const char *stage, const char *why)
{
    char *shown = utf8_display(why, strlen(why));

    report_event(w->run, LOG_INFO, "%s: %s listens in its own turn: %.300s", w->label, stage,
                 shown ? shown : "");
    free(shown);
}

static void say_loaded(const struct run_worker *w)
{
    const struct companions *c = w->run->companions;
    char names[256] = "";
    uint32_t said = 0;
    size_t len = 0;

    for (uint32_t i = 0; i < w->named && len < sizeof(names); i++)
        if (w->loaded >> i & 1) {
            int more = snprintf(names + len, sizeof(names) - len, "%s%s", said++ ? ", " : "",
                                c->of[i].row.name);

            len += more > 0 ? (size_t)more : 0;
        }
    if (said)
        report_event(w->run, LOG_INFO, "%s: %s %s to what is decoded for %s", w->label, names,
                     said == 1 ? "listens" : "listen", w->run->stage.name);
}

bool companions_ready(struct run_worker *w, const struct msg_ready *m, struct err *err)
{
    const struct companions *c = w->run->companions;

    if (m->companion_count > w->named) {
        err_set(err, ERR_PROTOCOL, "%u companions in READY, of %u", m->companion_count, w->named);
        return false;
    }
    if (w->stage_id != w->run->stage.stage_id) /* it is about to leave */
        return true;
    for (uint32_t i = 0; i < m->companion_count; i++)
        if (m->companions[i][0])
            say_why_not(w, c->of[i].row.name, m->companions[i]);
        else
            w->loaded |= 1u << i;
    say_loaded(w);
    return true;
}

/* ------------------------------------------------------------------------------ giving leases */

/* Does another worker, or this one, work on some of it already? */
static bool overlaps(const struct companions *c, int64_t task, uint32_t first, uint32_t last)
{
    const struct lease *l;
    size_t at = 0;

    while ((l = idmap_next(&c->leases, &at)))
        if (l->task == task && l->first <= last && first <= l->last)
            return true;
    return false;
}

/* The companion stage's task of a recording, as it is with all that waits to be written. False:
 * there is none that may be worked on now. */
static bool find_task(struct run *run, int64_t stage, int64_t media, struct store_task *ret)
{
    struct companions *c = run->companions;
    struct err err = {0};
    bool found = false;

    for (int i = 0; i < 2; i++) {
        if (store_runnable_of(run->st, stage, media, clock_wall_ms(), ret, &found, &err)) {
            err_prefix(&err, "reading what is to be done");
            run_fail(run, &err);
            return false;
        }
        if (!found || !idmap_get(&c->unwritten, (uint64_t)ret->task_id))
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

/* What is done already of [first, last], as part of t->skip. False: all. */
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

static struct lease *lease_new(struct companions *c, const struct msg_lease *m)
{
    struct lease *l = calloc(1, sizeof(*l));

    if (!l)
        return NULL;
    *l = (struct lease){
        .id = m->lease_id,
        .with = m->with,
        .media = m->media_id,
        .first = m->first,
        .last = m->last,
        .granted = m->last,
    };
    for (uint32_t i = 0; i < m->skip_count; i++)
        if (idmap_put(&l->told, m->skip[i], c))
            goto fail;
    if (idmap_put(&c->leases, l->id, l) == 0)
        return l;
fail:
    lease_free(l);
    return NULL;
}

/* *m is the lease of the other already, but for what differs. False: it is left to its own turn. */
static bool give(struct run_worker *w, const struct companion_stage *of, const struct store_task *t,
                 struct msg_lease *m, struct buf *ret)
{
    struct companions *c = w->run->companions;
    struct err err = {0};
    struct lease *l;

    m->lease_id = IDS | ++c->last_id;
    m->language = t->language ? t->language : (char *)"";
    msg_lease_put(ret, m);
    if (ret->len > FRAME_MAX)
        return false;
    l = lease_new(c, m);
    if (!l) {
        err_set(&err, ERR_NOMEM, "no memory for a lease");
        run_fail(w->run, &err);
        return false;
    }
    l->task = t->task_id;
    l->stage = of->row.stage_id;
    l->worker = w->index;
    l->settles = of->settles;
    w->companion_leases++;
    log_debug("%s listens to lease %" PRIu64, of->row.name, m->with);
    return true;
}

/* The lease of one stage, if it has any use for it. */
static bool lease_of_stage(struct run_worker *w, uint32_t i, const struct msg_lease *with,
                           struct buf *ret)
{
    const struct companions *c = w->run->companions;
    const struct companion_stage *of = &c->of[i];
    struct msg_lease m = *with;
    struct store_task t = {0};
    bool given;

    if (!(w->loaded >> i & 1) || backlog_is_aside(w->run, of->row.stage_id) ||
        !find_task(w->run, of->row.stage_id, with->media_id, &t))
        return false;
    m.companion = i + 1;
    m.with = with->lease_id;
    m.want_hash = false;
    given = skip_of(&t, m.first, m.last, &m.skip, &m.skip_count) &&
            !overlaps(c, t.task_id, m.first, m.last) && give(w, of, &t, &m, ret);
    store_task_free(&t);
    return given;
}

void companions_lease(struct run_worker *w, struct msg_lease *with, struct buf *encoded, bool alone)
{
    struct buf theirs[SETUP_MAX_COMPANIONS];
    uint32_t n = 0;

    alone = alone || w->companion_leases >= WORKER_MOST;
    for (uint32_t i = 0; i < w->named && !alone && !w->run->failure.code; i++) {
        theirs[n] = BUF_INIT;
        if (lease_of_stage(w, i, with, &theirs[n]))
            n++;
        else
            buf_free(&theirs[n]);
    }
    if (n) { /* the pass waits for them */
        with->companions = n;
        buf_clear(encoded);
        msg_lease_put(encoded, with);
    }
    supervisor_send(w, MSG_LEASE, encoded);
    for (uint32_t i = 0; i < n; i++) {
        supervisor_send(w, MSG_LEASE, &theirs[i]);
        buf_free(&theirs[i]);
    }
}

/* ------------------------------------------------------------------------- taking leases back */

static void drop(struct run *run, struct lease *l)
{
    if (l->settles)
        settle_wake(run);
    run->workers[l->worker].companion_leases--;
    idmap_remove(&run->companions->leases, l->id);
    lease_free(l);
    run_touch(run);
}

void companions_cap(struct run *run, uint64_t with, uint32_t last)
{
    struct lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->companions->leases, &at)))
        if (l->with == with && last < l->last)
            l->last = last < l->first ? l->first : last;
}

static void cancel(struct run *run, struct lease *l)
{
    struct msg_cancel m = {.lease_id = l->id};
    struct buf b = BUF_INIT;

    if (l->cancelled)
        return;
    l->cancelled = true;
    msg_cancel_put(&b, &m);
    supervisor_send(&run->workers[l->worker], MSG_CANCEL, &b);
    buf_free(&b);
}

void companions_stop_stage(struct run *run, int64_t stage)
{
    struct lease *l;
    size_t at = 0;

    while ((l = idmap_next(&run->companions->leases, &at)))
        if (l->stage == stage)
            cancel(run, l);
}

/* Also of a task that is complete, whose lease is about to end: that does no harm. */
void companions_recheck(struct run *run)
{
    struct store_task t;
    struct err err = {0};
    struct lease *l;
    size_t at = 0;
    bool wanted;

    while ((l = idmap_next(&run->companions->leases, &at))) {
        if (store_runnable_of(run->st, l->stage, l->media, INT64_MAX, &t, &wanted, &err)) {
            run_fail(run, &err);
            return;
        }
        if (wanted)
            store_task_free(&t);
        else
            cancel(run, l);
    }
}

uint32_t companions_lost(struct run_worker *w)
{
    struct companions *c = w->run->companions;
    uint32_t n = w->companion_leases;

    while (w->companion_leases) {
        struct lease *l;
        size_t at = 0;

        while ((l = idmap_next(&c->leases, &at)) && l->worker != w->index)
            ;
        drop(w->run, l); /* there is one: they are counted */
    }
    w->loaded = 0;
    return n;
}

void companions_leave_out(struct run_worker *w)
{
    if (w->named == 0)
        return;
    w->solo = true;
    report_event(w->run, LOG_INFO, "%s goes on with %s alone: what listened has its own turn",
                 w->label, w->run->stage.name ? w->run->stage.name : "one stage");
}

/* ------------------------------------------------------------------------------------ results */

static bool lease_of(struct run_worker *w, uint64_t id, int64_t media, struct lease **ret,
                     struct err *err)
{
    struct lease *l = idmap_get(&w->run->companions->leases, id);

    *ret = l;
    if (!l)
        log_debug("%s: a companion's lease is over", w->label);
    if (!l || (l->worker == w->index && l->media == media))
        return true;
    err_set(err, ERR_PROTOCOL, "a companion's lease is not of this worker or recording");
    return false;
}

/* 0; 1: it was told before; ERR_PROTOCOL: it is not one of the lease's; ERR_NOMEM. */
static int tell(struct lease *l, uint32_t seq, struct err *err)
{
    if (seq < l->first || seq > l->granted || seq >= PLANNER_MAX_SHARDS)
        return err_set(err, ERR_PROTOCOL, "shard %u is not one of a companion's lease", seq);
    if (idmap_get(&l->told, seq))
        return 1;
    if (idmap_put(&l->told, seq, l))
        return err_set(err, ERR_NOMEM, "no memory for a result");
    return 0;
}

/* The ledger has something of the task. */
static void note(struct run *run, const struct lease *l)
{
    struct err err = {0};

    if (idmap_put(&run->companions->unwritten, (uint64_t)l->task, run->companions)) {
        err_set(&err, ERR_NOMEM, "no memory for a result");
        run_fail(run, &err);
    }
    run_note_commit(run);
}

bool companions_shard_done(struct run_worker *w, struct msg_shard_done *m, struct err *err)
{
    struct run *run = w->run;
    struct lease *l;
    int rc;

    if (!lease_of(w, m->lease_id, m->media_id, &l, err))
        return false;
    if (!l)
        return true;
    rc = tell(l, m->seq, err);
    if (rc == 1)
        log_debug("%s: shard %u of a companion came twice", w->label, m->seq);
    if (rc)
        return rc == 1;
    restart_result(&w->restart);
    if (m->seq >= l->end)
        l->end = m->seq + 1;
    run->companions->heard_ms += (uint64_t)(m->end_ms - m->start_ms);
    run_check(run, ledger_shard(run->ledger, l->task, w->device, m, err), err);
    note(run, l);
    return true;
}

bool companions_shard_failed(struct run_worker *w, const struct msg_shard_failed *m,
                             struct err *err)
{
    struct lease *l;
    int rc;

    if (!lease_of(w, m->lease_id, m->media_id, &l, err))
        return false;
    if (!l)
        return true;
    rc = tell(l, m->seq, err);
    if (rc == 0)
        log_debug("%s: a companion failed at shard %u of task %" PRId64 ", which is left to its "
                  "own turn (%s)",
                  w->label, m->seq, l->task, err_name(m->code));
    return rc >= 0;
}

bool companions_lease_end(struct run_worker *w, const struct msg_lease_end *m, struct err *err)
{
    struct run *run = w->run;
    struct lease *l;

    if (!lease_of(w, m->lease_id, m->media_id, &l, err))
        return false;
    if (!l)
        return true;
    if (m->reached_end && (m->shards == 0 || m->shards > PLANNER_MAX_SHARDS)) {
        err_set(err, ERR_PROTOCOL, "a recording of %u shards", m->shards);
        return false;
    }
    if (m->reached_end) {
        /* The other lease may say it later, and settling needs it. */
        run_check(run, ledger_media_length(run->ledger, l->media, m->total_ms, err), err);
        run_check(run,
                  ledger_total(run->ledger, l->task, m->shards > l->end ? m->shards : l->end, err),
                  err);
        note(run, l);
    } else if (m->code) {
        log_debug("%s: a companion's lease of task %" PRId64 " ended early (%s)", w->label, l->task,
                  err_name(m->code));
    }
    drop(run, l);
    return true;
}
