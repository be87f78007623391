/* Recordings whose shards are all there, and that are finalized as a whole: by finalizers,
 * processes of their own without a device, one recording at a time. Finalized results go into the
 * ledger like all others. */

#include "scheduler/finalize.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/backlog.h"
#include "scheduler/disabled_stages.h"
#include "scheduler/failure.h"
#include "scheduler/run/process.h"
#include "scheduler/run/run.h"

/* ---- what is particular to finalizers among the processes of a run. One that dies or hangs costs
 * its recording an attempt.
 *
 *   UP: idle --FINALIZE, VOICES, GO--> busy --FINALIZED, FINALIZE_FAILED--> idle
 *
 * OFF they are started for work, ASIDE they stay until somebody may have mended them. */

#define FINALIZERS 2u /* a long recording does not hold up the short ones */
#define FINALIZE_PAGE 32u

struct finalizer {
    struct process process;
    struct store_task t;          /* that it is busy with, else zero; owned */
    struct store_stage_row stage; /* of t; owned */
    bool unwanted;                /* what it finds is dropped */
    bool sending;                 /* it has not been told all: shards behind `told` are left */
    int64_t told;
    uint64_t sent_bytes;
};

/* A look into the catalog goes over the stages, and over each one's recordings in pages. */
struct finalize {
    struct finalizer of[FINALIZERS];
    int64_t looked_ms;              /* when the last one began */
    struct store_stage_row *stages; /* of this look; NULL: none is on */
    size_t stage_count, stage_at;
    int64_t cursor;
    struct store_task page[FINALIZE_PAGE];
    size_t page_len, page_at;
};

#define VOICES_MAX (UINT64_C(2) << 30) /* bytes of one recording's: the finalizer has them all */
#define ENOUGH 1                       /* for now: what is queued is to be taken first */

static bool finalizer_is_idle(const struct finalizer *w)
{
    return w->process.state == PROCESS_UP && !w->process.condemned && !w->t.task_id;
}

static bool finalizer_is_busy(const struct finalizer *w)
{
    return w->process.state == PROCESS_UP && w->t.task_id;
}

/* it has no recording in hand any more */
static void finalizer_put_down(struct finalizer *w)
{
    store_task_free(&w->t);
    store_stage_row_free(&w->stage);
    memset(&w->stage, 0, sizeof(w->stage));
    w->unwanted = w->sending = false;
}

static int send_message(struct finalizer *w, uint8_t type, struct buf *b)
{
    int rc = process_send(&w->process, type, b);

    buf_free(b);
    return rc;
}

/* A recording that cannot be finalized (now): charged, by the rule that holds for all. */
static void charge_failure(struct finalizer *w, int code, const char *message, bool died)
{
    struct run *run = w->process.run;
    struct retry_rule rule = {.limit = run->o->attempts, .base_ms = run->tune.retry_base_ms};
    struct retry_failure f = {.code = code, .message = message, .died = died, .alone = true};
    char *shown = backlog_shown(&w->t);
    struct failure failure = {.task = w->t.task_id,
                              .media = w->t.media_id,
                              .shown = shown ? shown : "a recording",
                              .code = code,
                              .died = died};
    struct retry_decision d;
    struct err err = {0};

    failure_history(run, w->t.task_id, &f);
    retry_decide(&rule, &f, clock_wall_ms(), (uint64_t)w->t.task_id, &d);
    if (d.verdict == RETRY_STOP) {
        err_set(&err, code, "%s", d.message);
        disabled_stage_put(run, &w->stage, &err);
    } else if (d.verdict == RETRY_SUSPECT || d.verdict == RETRY_AGAIN || d.verdict == RETRY_FAIL) {
        failure_record(run, &failure, &d);
    }
    free(shown);
}

static int send_voices(void *arg, int64_t seq, const struct result_voices *v, struct err *err)
{
    struct finalizer *w = arg;
    struct buf b = BUF_INIT;

    msg_voices_put(&b, v);
    w->sent_bytes += b.len;
    if (b.len > FRAME_MAX || w->sent_bytes > VOICES_MAX) {
        buf_free(&b);
        return err_set(err, ERR_LIMIT, "its voices are more than can be sent to a finalizer");
    }
    w->told = seq;
    if (send_message(w, MSG_VOICES, &b)) {
        w->sending = false; /* `gone` is on its way */
        return ENOUGH;
    }
    return process_queued(&w->process) < w->process.run->tune.queued_bytes ? 0 : ENOUGH;
}

/* Its voices are read from the catalog as it takes them: a long recording's are hundreds of
 * megabytes. */
static void send_more(struct finalizer *w)
{
    struct run *run = w->process.run;
    struct err err = {0};
    int rc = store_voices_read(run->st, w->t.task_id, w->told, send_voices, w, &err);

    if (rc == ENOUGH)
        return;
    if (rc == 0) {
        w->sending = false;
        process_send(&w->process, MSG_FINALIZE_GO, NULL);
        return;
    }
    if (retry_store(rc) == STORE_STOP)
        run_fail(run, &err);
    else
        charge_failure(w, rc, err.msg, false);
    finalizer_put_down(w); /* and what it was told so far is forgotten with it */
    process_kill(&w->process);
}

static void on_written(void *owner)
{
    struct finalizer *w = owner;

    if (finalizer_is_busy(w) && w->sending && !w->process.condemned &&
        process_queued(&w->process) < w->process.run->tune.queued_bytes)
        send_more(w);
}

static void send_work(struct finalizer *w)
{
    const struct msg_finalize m = {
        .task_id = w->t.task_id,
        .model_dir = w->stage.model_dir,
        .model_hash = w->stage.model_hash,
        .params_json = w->stage.params_json,
        .total_ms = w->t.duration_ms > 0 ? w->t.duration_ms : 0,
        .apart = w->t.sources > 0,
        .threads = w->process.run->o->threads,
    };
    struct buf b = BUF_INIT;

    msg_finalize_put(&b, &m);
    if (send_message(w, MSG_FINALIZE,
                     &b)) { /* `gone` is on its way, and not the recording's doing */
        finalizer_put_down(w);
        process_condemn(&w->process, 0, NULL);
        return;
    }
    w->sending = true;
    w->told = -1;
    w->sent_bytes = 0;
    send_more(w);
}

static bool copy_stage(const struct store_stage_row *from, struct store_stage_row *ret)
{
    *ret = (struct store_stage_row){
        .stage_id = from->stage_id,
        .name = strdup(from->name),
        .model = strdup(from->model),
        .model_dir = strdup(from->model_dir),
        .model_hash = strdup(from->model_hash),
        .params_json = strdup(from->params_json),
    };
    return ret->name && ret->model && ret->model_dir && ret->model_hash && ret->params_json;
}

static int64_t patience_ms(const struct finalizer *w)
{
    return w->process.run->tune.still_ms + (w->t.duration_ms > 0 ? w->t.duration_ms / 20 : 0);
}

/* Takes over what *t owns. The finalizer is idle. */
static void finalizer_give(struct finalizer *w, const struct store_stage_row *stage,
                           struct store_task *t)
{
    struct run *run = w->process.run;
    struct err err = {0};

    if (!copy_stage(stage, &w->stage)) {
        store_stage_row_free(&w->stage);
        memset(&w->stage, 0, sizeof(w->stage));
        err_set(&err, ERR_NOMEM, "no memory to finalize a recording");
        run_fail(run, &err);
        return;
    }
    w->t = *t;
    memset(t, 0, sizeof(*t));
    w->unwanted = false;
    w->process.due_ms = clock_mono_ms() + patience_ms(w);
    log_debug("settling task %lld", (long long)w->t.task_id);
    send_work(w);
}

/* --------------------------------------------------------------------------------- messages */

static bool is_of(const struct finalizer *w, int64_t task, struct err *err)
{
    if (finalizer_is_busy(w) && w->t.task_id == task)
        return true;
    err_set(err, ERR_PROTOCOL, "a result of task %lld, which it was not given", (long long)task);
    return false;
}

/* It was told how long the recording is, where that is known. */
static bool is_within(const struct finalizer *w, const struct result_people *p, struct err *err)
{
    int64_t most = w->t.duration_ms > 0 ? w->t.duration_ms : INT64_MAX;
    bool within = true;

    for (uint32_t i = 0; i < p->speaker_count && within; i++)
        within = p->speakers[i].speech_ms <= most;
    for (uint32_t i = 0; i < p->turn_count && within; i++)
        within = p->turns[i].end_ms <= most;
    if (!within)
        err_set(err, ERR_PROTOCOL, "it has a speaker after the recording's end");
    return within;
}

static bool take_finalized(struct finalizer *w, const struct frame *f, struct err *err)
{
    struct run *run = w->process.run;
    struct msg_finalized m;

    if (msg_finalized_get(f->payload, f->len, &m, err))
        return false;
    if (!is_of(w, m.task_id, err) || !is_within(w, &m.people, err)) {
        msg_finalized_free(&m);
        return false;
    }
    restart_result(&w->process.restart);
    if (w->unwanted) {
        run_note_unfinalized(run); /* it may be wanted again by now */
        msg_finalized_free(&m);
    } else {
        run_check(run, ledger_finalized(run->ledger, w->t.task_id, &m, err), err);
        failure_over(&run->failures, w->t.task_id);
        run_note_commit(run);
    }
    finalizer_put_down(w);
    return true;
}

static bool take_failed(struct finalizer *w, const struct frame *f, struct err *err)
{
    struct msg_finalize_failed m;
    char *shown;

    if (msg_finalize_failed_get(f->payload, f->len, &m, err))
        return false;
    if (!is_of(w, m.task_id, err)) {
        msg_finalize_failed_free(&m);
        return false;
    }
    restart_result(&w->process.restart);
    shown = utf8_display(m.message, strlen(m.message));
    if (w->unwanted)
        run_note_unfinalized(w->process.run);
    else /* nobody asked it to stop, so that would be its own fault */
        charge_failure(w, m.code == ERR_CANCELLED || m.code == 0 ? ERR_PROTOCOL : m.code,
                       shown && shown[0] ? shown : err_name(m.code), false);
    free(shown);
    finalizer_put_down(w);
    msg_finalize_failed_free(&m);
    return true;
}

static bool on_frame(void *owner, const struct frame *f, struct err *err)
{
    struct finalizer *w = owner;

    if (w->process.condemned || w->process.state == PROCESS_LEAVING)
        return true;
    switch (f->type) {
    case MSG_FINALIZED:
        return take_finalized(w, f, err);
    case MSG_FINALIZE_FAILED:
        return take_failed(w, f, err);
    default:
        err_set(err, ERR_PROTOCOL, "message %u", f->type);
        return false;
    }
}

/* ----------------------------------------------------------------------------- its life */

static bool finalizers_all_quarantined(const struct finalize *s)
{
    for (uint32_t i = 0; i < FINALIZERS; i++)
        if (s->of[i].process.state != PROCESS_QUARANTINED)
            return false;
    return true;
}

static void on_quarantined(void *owner, const char *why, const char *sentence)
{
    struct finalizer *w = owner;
    struct run *run = w->process.run;
    const struct err *last = &w->process.last;
    struct err err = {0};

    (void)why;
    (void)sentence;
    if (!finalizers_all_quarantined(run->finalize))
        return;
    err_set(&err, last->code ? last->code : ERR_CRASH,
            "recordings cannot be finalized: %s; the next run tries it again", last->msg);
    disabled_stage_why(&run->disabled, &err);
    run_check(run, ledger_event(run->ledger, "settler-aside", 0, "", err.msg, &err), &err);
    run_note_commit(run);
}

/* It holds one recording, alone. */
static void on_gone(void *owner, struct process_loss *loss)
{
    struct finalizer *w = owner;
    struct run *run = w->process.run;
    struct retry_failure f = {0};

    if (loss && w->t.task_id) {
        loss->task = w->t.task_id;
        failure_history(run, loss->task, &f);
        loss->cause = f.attempts || f.deaths_alone ? RESTART_KNOWN : RESTART_ONE;
        if (!w->unwanted)
            charge_failure(w, w->process.last.code, w->process.last.msg, true);
    }
    finalizer_put_down(w);
    run_note_unfinalized(run);
}

static void on_tick(void *owner, int64_t now, int64_t lost)
{
    struct finalizer *w = owner;
    char why[200];

    (void)lost;
    if (!finalizer_is_busy(w) || now < w->process.due_ms)
        return;
    snprintf(why, sizeof(why), "it gave no answer for %lld s", (long long)(patience_ms(w) / 1000));
    process_condemn(&w->process, ERR_TIMEOUT, why);
}

static void finalizer_add(struct finalizer *w, struct run *run)
{
    static const struct process_kind finalizer = {
        .died = "settler-died",
        .a = "a ",
        .frame = on_frame,
        .written = on_written,
        .gone = on_gone,
        .quarantined = on_quarantined,
        .tick = on_tick,
    };

    process_init(&w->process, run, &finalizer, "finalizer", "", w);
}

static void finalizer_start(struct finalizer *w)
{
    static const char *const argv[] = {"nightshift", "finalize", NULL};

    process_start(&w->process, argv);
}

/* ---- recordings that need a look as a whole, once all of their shards are there */

#define LOOK_MS 1000 /* between looks into the catalog, while there is other work */

/* ------------------------------------------------------------------------------ the catalog */

static void drop_page(struct finalize *s)
{
    while (s->page_at < s->page_len)
        store_task_free(&s->page[s->page_at++]);
    s->page_len = s->page_at = 0;
}

static void end_look(struct finalize *s)
{
    drop_page(s);
    for (size_t i = 0; i < s->stage_count; i++)
        store_stage_row_free(&s->stages[i]);
    free(s->stages);
    s->stages = NULL;
    s->stage_count = s->stage_at = 0;
    s->cursor = 0;
}

static void cannot_read(struct run *run, struct err *err)
{
    err_prefix(err, "reading recordings to finalize");
    run_fail(run, err);
}

static bool look_due(const struct run *run)
{
    const struct finalize *s = run->finalize;

    return run->tick.unfinalized && (!run_leased(run) || clock_mono_ms() - s->looked_ms >= LOOK_MS);
}

static bool begin_look(struct run *run)
{
    struct finalize *s = run->finalize;
    struct err err = {0};

    s->looked_ms = clock_mono_ms();
    run->tick.unfinalized = false;
    if (store_stages_unfinalized(run->st, clock_wall_ms(), &s->stages, &s->stage_count, &err)) {
        s->stages = NULL;
        s->stage_count = 0;
        cannot_read(run, &err);
        return false;
    }
    return s->stages != NULL;
}

static bool in_hand(const struct run *run, int64_t task)
{
    for (uint32_t i = 0; i < FINALIZERS; i++)
        if (finalizer_is_busy(&run->finalize->of[i]) && run->finalize->of[i].t.task_id == task)
            return true;
    return false;
}

/* The next page with anything in it. False: nothing (more) is to be finalized now. */
static bool read_page(struct run *run)
{
    struct finalize *s = run->finalize;
    struct err err = {0};

    /* Before the flush: this is asked at every message, and results are to be written together. */
    if (!s->stages && !look_due(run))
        return false;
    /* Results in the ledger would be read as still to do. */
    if (!run_flush(run) || (!s->stages && !begin_look(run)))
        return false;
    for (; s->stage_at < s->stage_count; s->stage_at++, s->cursor = 0) {
        int64_t stage = s->stages[s->stage_at].stage_id;

        if (run_is_disabled(run, stage))
            continue;
        if (store_unfinalized(run->st, stage, s->cursor, clock_wall_ms(), s->page, FINALIZE_PAGE,
                              &s->page_len, &err)) {
            s->page_len = 0;
            cannot_read(run, &err);
            break;
        }
        s->page_at = 0;
        if (s->page_len) {
            s->cursor = s->page[s->page_len - 1].task_id;
            return true;
        }
    }
    end_look(s);
    return false;
}

/* The next recording; it stays in the page until page_at goes on. NULL: none now. */
static struct store_task *peek_next_recording(struct run *run)
{
    struct finalize *s = run->finalize;

    for (;;) {
        if (s->page_at < s->page_len && run_is_disabled(run, s->stages[s->stage_at].stage_id))
            drop_page(s);
        if (s->page_at == s->page_len && !read_page(run))
            return NULL;
        if (!in_hand(run, s->page[s->page_at].task_id))
            return &s->page[s->page_at];
        store_task_free(&s->page[s->page_at++]);
    }
}

/* Is it still to be finalized? */
static bool still_wanted(struct run *run, const struct finalizer *w)
{
    struct store_task t;
    struct err err = {0};
    size_t n = 0;
    bool yes;

    if (store_unfinalized(run->st, w->stage.stage_id, w->t.task_id - 1, INT64_MAX, &t, 1, &n,
                          &err)) {
        cannot_read(run, &err);
        return true;
    }
    yes = n && t.task_id == w->t.task_id;
    if (n)
        store_task_free(&t);
    return yes;
}

void finalize_recheck(struct run *run)
{
    if (!run_flush(run))
        return;
    for (uint32_t i = 0; i < FINALIZERS; i++) {
        struct finalizer *w = &run->finalize->of[i];

        if (finalizer_is_busy(w))
            w->unwanted = !still_wanted(run, w); /* it may be wanted again */
    }
    end_look(run->finalize);
    run_note_unfinalized(run);
}

/* ---------------------------------------------------------------------------------- the run */

int finalize_open(struct run *run, struct err *err)
{
    run->finalize = calloc(1, sizeof(*run->finalize));
    if (!run->finalize)
        return err_set(err, ERR_NOMEM, "no memory for the run");
    for (uint32_t i = 0; i < FINALIZERS; i++)
        finalizer_add(&run->finalize->of[i], run);
    run->tick.unfinalized = true;
    return 0;
}

static struct finalizer *idle_one(struct finalize *s)
{
    for (uint32_t i = 0; i < FINALIZERS; i++)
        if (finalizer_is_idle(&s->of[i]))
            return &s->of[i];
    return NULL;
}

static struct finalizer *one_in(struct finalize *s, enum process_state state)
{
    for (uint32_t i = 0; i < FINALIZERS; i++)
        if (s->of[i].process.state == state && !s->of[i].process.condemned)
            return &s->of[i];
    return NULL;
}

static void give_next(struct finalizer *w, struct store_task *t)
{
    struct finalize *s = w->process.run->finalize;

    finalizer_give(w, &s->stages[s->stage_at], t);
    s->page_at += t->task_id == 0; /* it was taken over */
}

bool finalize_step(struct run *run)
{
    struct finalize *s = run->finalize;
    struct finalizer *w = NULL;
    struct store_task *t;

    if (finalizers_all_quarantined(s) || run->failure.code)
        return false;
    if (run->catalog.disk_space.waiting) /* nothing new is begun */
        return finalize_in_hand(run) || peek_next_recording(run) || run->tick.unfinalized;
    while (!run->failure.code && (w = idle_one(s)) && (t = peek_next_recording(run)))
        give_next(w, t);
    if (w) /* and nothing for it */
        return finalize_in_hand(run) || run->tick.unfinalized;
    /* One that is on its way takes the next one. */
    if (!one_in(s, PROCESS_STARTING) && !one_in(s, PROCESS_WAITING) &&
        (w = one_in(s, PROCESS_OFF)) && peek_next_recording(run))
        finalizer_start(w);
    return finalize_in_hand(run) || run->tick.unfinalized || s->page_at < s->page_len;
}

void finalize_take_back(struct run *run)
{
    for (uint32_t i = 0; i < FINALIZERS; i++)
        if (run->finalize->of[i].process.state == PROCESS_QUARANTINED) {
            run->finalize->of[i].process.state = PROCESS_OFF;
            restart_result(&run->finalize->of[i].process.restart);
        }
    run_note_unfinalized(run);
}

bool finalize_in_hand(const struct run *run)
{
    for (uint32_t i = 0; i < FINALIZERS; i++)
        if (finalizer_is_busy(&run->finalize->of[i]))
            return true;
    return false;
}

void finalize_leave(struct run *run)
{
    for (uint32_t i = 0; i < FINALIZERS; i++)
        process_leave(&run->finalize->of[i].process);
}

void finalize_free(struct run *run)
{
    if (!run->finalize)
        return;
    end_look(run->finalize);
    for (uint32_t i = 0; i < FINALIZERS; i++)
        finalizer_put_down(&run->finalize->of[i]);
    free(run->finalize);
    run->finalize = NULL;
}
