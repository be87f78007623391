/* Settlers as processes. One that dies or hangs costs its recording an attempt. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/settle.h"

#define LEAVE_MS 5000                  /* after QUIT, to leave by itself */
#define VOICES_MAX (UINT64_C(2) << 30) /* bytes of one recording's: the settler has them all */
#define ENOUGH 1                       /* for now: what is queued is to be taken first */

void settler_put_down(struct settler *w)
{
    store_task_free(&w->t);
    store_stage_row_free(&w->stage);
    memset(&w->stage, 0, sizeof(w->stage));
    w->unwanted = w->sending = false;
}

static void condemn(struct settler *w, int code, const char *why)
{
    if (!w->link || w->condemned)
        return;
    w->condemned = true;
    if (!w->last.code)
        err_set(&w->last, code, "%s", why);
    link_kill(w->link);
}

/* A settler that has gone is learnt from `gone`; only memory is a fault of ours. */
static int say(struct settler *w, uint8_t type, struct buf *b)
{
    struct err err = {0};
    int rc = link_send(w->link, type, b, &err);

    if (b)
        buf_free(b);
    if (rc == ERR_NOMEM)
        run_fail(w->run, &err);
    return rc;
}

/* A recording that cannot be settled (now): charged, by the rule that holds for all. */
static void charge(struct settler *w, int code, const char *message, bool died)
{
    struct run *run = w->run;
    struct retry_rule rule = {.limit = run->o->attempts, .base_ms = run->tune.retry_base_ms};
    struct retry_failure f = {.code = code, .message = message, .died = died, .alone = true};
    char *shown = backlog_shown(&w->t);
    struct dispatch_failure failure = {.task = w->t.task_id,
                                       .media = w->t.media_id,
                                       .shown = shown ? shown : "a recording",
                                       .code = code,
                                       .died = died};
    struct retry_decision d;
    struct err err = {0};

    dispatch_history(run, w->t.task_id, &f);
    retry_decide(&rule, &f, clock_wall_ms(), (uint64_t)w->t.task_id, &d);
    if (d.verdict == RETRY_STOP) {
        err_set(&err, code, "%s", d.message);
        backlog_put_aside(run, &w->stage, &err);
    } else if (d.verdict == RETRY_SUSPECT || d.verdict == RETRY_AGAIN || d.verdict == RETRY_FAIL) {
        dispatch_record(run, &failure, &d);
    }
    free(shown);
}

static int send_voices(void *arg, int64_t seq, const struct result_voices *v, struct err *err)
{
    struct settler *w = arg;
    struct buf b = BUF_INIT;

    msg_voices_put(&b, v);
    w->sent_bytes += b.len;
    if (b.len > FRAME_MAX || w->sent_bytes > VOICES_MAX) {
        buf_free(&b);
        return err_set(err, ERR_LIMIT, "its voices are more than can be sent to a settler");
    }
    w->told = seq;
    if (say(w, MSG_VOICES, &b)) {
        w->sending = false; /* `gone` is on its way */
        return ENOUGH;
    }
    return link_queued(w->link) < w->run->tune.queued_bytes ? 0 : ENOUGH;
}

/* Its voices are read from the catalog as it takes them: a long recording's are hundreds of
 * megabytes. */
static void send_more(struct settler *w)
{
    struct err err = {0};
    int rc = store_voices_read(w->run->st, w->t.task_id, w->told, send_voices, w, &err);

    if (rc == ENOUGH)
        return;
    if (rc == 0) {
        w->sending = false;
        say(w, MSG_SETTLE_GO, NULL);
        return;
    }
    if (retry_store(rc) == STORE_STOP)
        run_fail(w->run, &err);
    else
        charge(w, rc, err.msg, false);
    settler_put_down(w); /* and what it was told so far is forgotten with it */
    w->state = SETTLER_LEAVING;
    w->due_ms = clock_mono_ms();
    link_kill(w->link);
}

static void on_written(void *arg)
{
    struct settler *w = arg;

    if (w->state == SETTLER_BUSY && w->sending && !w->condemned &&
        link_queued(w->link) < w->run->tune.queued_bytes)
        send_more(w);
}

static void send_work(struct settler *w)
{
    const struct msg_settle m = {
        .task_id = w->t.task_id,
        .model_dir = w->stage.model_dir,
        .model_hash = w->stage.model_hash,
        .params_json = w->stage.params_json,
        .total_ms = w->t.duration_ms > 0 ? w->t.duration_ms : 0,
    };
    struct buf b = BUF_INIT;

    msg_settle_put(&b, &m);
    if (say(w, MSG_SETTLE, &b)) { /* `gone` is on its way, and not the recording's doing */
        settler_put_down(w);
        w->state = SETTLER_IDLE;
        w->condemned = true;
        link_kill(w->link);
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

void settler_give(struct settler *w, const struct store_stage_row *stage, struct store_task *t)
{
    struct run *run = w->run;
    struct err err = {0};

    if (!copy_stage(stage, &w->stage)) {
        store_stage_row_free(&w->stage);
        memset(&w->stage, 0, sizeof(w->stage));
        err_set(&err, ERR_NOMEM, "no memory to settle a recording");
        run_fail(run, &err);
        return;
    }
    w->t = *t;
    memset(t, 0, sizeof(*t));
    w->unwanted = false;
    w->state = SETTLER_BUSY;
    w->due_ms =
        clock_mono_ms() + run->tune.still_ms + (w->t.duration_ms > 0 ? w->t.duration_ms / 20 : 0);
    log_debug("settling task %lld", (long long)w->t.task_id);
    send_work(w);
}

/* --------------------------------------------------------------------------------- messages */

static bool take_hello(struct settler *w, const struct frame *f, struct err *err)
{
    struct msg_hello m;

    if (w->state != SETTLER_STARTING) {
        err_set(err, ERR_PROTOCOL, "HELLO at the wrong time");
        return false;
    }
    if (msg_hello_get(f->payload, f->len, &m, err))
        return false;
    if (strcmp(m.program, NIGHTSHIFT_VERSION) != 0)
        condemn(w, ERR_VERSION, "it is of another build; reinstall nightshift");
    else
        w->state = SETTLER_IDLE;
    msg_hello_free(&m);
    return true;
}

static bool is_of(const struct settler *w, int64_t task, struct err *err)
{
    if (w->state == SETTLER_BUSY && w->t.task_id == task)
        return true;
    err_set(err, ERR_PROTOCOL, "a result of task %lld, which it was not given", (long long)task);
    return false;
}

/* It was told how long the recording is, where that is known. */
static bool is_within(const struct settler *w, const struct msg_settled *m, struct err *err)
{
    int64_t most = w->t.duration_ms > 0 ? w->t.duration_ms : INT64_MAX;
    bool within = true;

    for (uint32_t i = 0; i < m->speaker_count && within; i++)
        within = m->speakers[i].speech_ms <= most;
    for (uint32_t i = 0; i < m->turn_count && within; i++)
        within = m->turns[i].end_ms <= most;
    if (!within)
        err_set(err, ERR_PROTOCOL, "it hears somebody behind the recording's end");
    return within;
}

static bool take_settled(struct settler *w, const struct frame *f, struct err *err)
{
    struct run *run = w->run;
    struct msg_settled m;

    if (msg_settled_get(f->payload, f->len, &m, err))
        return false;
    if (!is_of(w, m.task_id, err) || !is_within(w, &m, err)) {
        msg_settled_free(&m);
        return false;
    }
    restart_result(&w->restart);
    if (w->unwanted) {
        settle_wake(run); /* it may be wanted again by now */
        msg_settled_free(&m);
    } else {
        run_check(run, ledger_settled(run->ledger, w->t.task_id, &m, err), err);
        dispatch_done(run, w->t.task_id);
        run_note_commit(run);
    }
    settler_put_down(w);
    w->state = SETTLER_IDLE;
    return true;
}

static bool take_failed(struct settler *w, const struct frame *f, struct err *err)
{
    struct msg_settle_failed m;
    char *shown;

    if (msg_settle_failed_get(f->payload, f->len, &m, err))
        return false;
    if (!is_of(w, m.task_id, err)) {
        msg_settle_failed_free(&m);
        return false;
    }
    restart_result(&w->restart);
    shown = utf8_display(m.message, strlen(m.message));
    if (w->unwanted)
        settle_wake(w->run);
    else /* nobody asked it to stop, so that would be its own fault */
        charge(w, m.code == ERR_CANCELLED || m.code == 0 ? ERR_PROTOCOL : m.code,
               shown && shown[0] ? shown : err_name(m.code), false);
    free(shown);
    settler_put_down(w);
    w->state = SETTLER_IDLE;
    msg_settle_failed_free(&m);
    return true;
}

static bool take_log(struct settler *w, const struct frame *f, struct err *err)
{
    struct msg_log m;
    char *shown;

    if (msg_log_get(f->payload, f->len, &m, err))
        return false;
    shown = utf8_display(m.line, strlen(m.line));
    report_event(w->run, m.level <= LOG_DEBUG ? m.level : LOG_DEBUG, "settler: %.900s",
                 shown ? shown : "");
    free(shown);
    msg_log_free(&m);
    return true;
}

static void on_broken(void *arg, const struct err *err)
{
    struct settler *w = arg;
    char why[600];

    w->broken = true;
    snprintf(why, sizeof(why), "it does not speak our protocol (%s)", err->msg);
    condemn(w, ERR_PROTOCOL, why);
}

static void on_frame(void *arg, const struct frame *f)
{
    struct settler *w = arg;
    struct err err = {0};
    bool ok;

    if (w->broken || w->condemned || w->state == SETTLER_LEAVING)
        return;
    run_touch(w->run);
    switch (f->type) {
    case MSG_HELLO:
        ok = take_hello(w, f, &err);
        break;
    case MSG_SETTLED:
        ok = take_settled(w, f, &err);
        break;
    case MSG_SETTLE_FAILED:
        ok = take_failed(w, f, &err);
        break;
    case MSG_LOG:
        ok = take_log(w, f, &err);
        break;
    default:
        err_set(&err, ERR_PROTOCOL, "message %u", f->type);
        ok = false;
    }
    if (!ok && err.code == ERR_NOMEM)
        run_fail(w->run, &err);
    else if (!ok)
        on_broken(w, &err);
}

/* ----------------------------------------------------------------------------------- deaths */

bool settlers_all_aside(const struct settle *s)
{
    for (uint32_t i = 0; i < SETTLERS; i++)
        if (s->of[i].state != SETTLER_ASIDE)
            return false;
    return true;
}

static void put_aside(struct settler *w)
{
    struct run *run = w->run;
    struct err err = {0};

    w->state = SETTLER_ASIDE;
    report_event(run, LOG_ERROR, "a settler is put aside: it died again and again: %s",
                 w->last.msg);
    if (!settlers_all_aside(run->settle))
        return;
    err_set(&err, w->last.code ? w->last.code : ERR_CRASH,
            "recordings cannot be settled: %s; the next run tries it again", w->last.msg);
    if (!run->put_off.code)
        run->put_off = err;
    run_check(run, ledger_event(run->ledger, "settler-aside", 0, "", err.msg, &err), &err);
    run_note_commit(run);
}

/* It holds one recording, alone. */
static enum restart_cause blame(struct settler *w, int64_t *task)
{
    struct retry_failure f = {0};

    *task = w->t.task_id;
    dispatch_history(w->run, *task, &f);
    if (!w->unwanted)
        charge(w, w->last.code, w->last.msg, true);
    return f.attempts || f.deaths_alone ? RESTART_KNOWN : RESTART_ONE;
}

static void settler_died(struct settler *w, int status)
{
    struct run *run = w->run;
    enum restart_cause cause = RESTART_OWN;
    int64_t task = 0, wait;
    struct err err = {0};
    char text[600];

    supervisor_describe_death(status, &w->last);
    snprintf(text, sizeof(text), "a settler died: %s", w->last.msg);
    report_event(run, LOG_WARN, "%s", text);
    run_check(run, ledger_event(run->ledger, "settler-died", 0, "", text, &err), &err);
    run_note_commit(run);
    if (w->state == SETTLER_BUSY) {
        cause = blame(w, &task);
        settler_put_down(w);
    }
    wait = w->last.code == ERR_VERSION
               ? -1
               : restart_death(&w->restart, cause, task, run->tune.restart_base_ms);
    if (wait < 0) {
        put_aside(w);
        return;
    }
    w->state = SETTLER_WAITING;
    w->due_ms = clock_mono_ms() + wait;
}

static void on_gone(void *arg, int status)
{
    struct settler *w = arg;

    link_free(w->link);
    w->link = NULL;
    run_touch(w->run);
    if (w->state == SETTLER_LEAVING)
        w->state = SETTLER_OFF;
    else
        settler_died(w, status);
    settle_wake(w->run);
}

void settler_start(struct settler *w)
{
    static const char *const argv[] = {"nightshift", "settle", NULL};
    const struct link_handler h = {
        .frame = on_frame, .broken = on_broken, .written = on_written, .gone = on_gone, .arg = w};
    struct run *run = w->run;
    int64_t now = clock_mono_ms(), wait;

    w->last = (struct err){0};
    w->condemned = w->broken = false;
    if (link_start(&run->loop, run->tune.worker_program, argv, &h, &w->link, &w->last) == 0) {
        w->state = SETTLER_STARTING;
        w->due_ms = now + run->tune.hello_ms;
        return;
    }
    w->link = NULL;
    wait = restart_death(&w->restart, RESTART_OWN, 0, run->tune.restart_base_ms);
    w->state = SETTLER_WAITING;
    w->due_ms = now + wait;
    if (wait < 0)
        put_aside(w);
}

void settler_leave(struct settler *w)
{
    if (w->state == SETTLER_WAITING)
        w->state = SETTLER_OFF;
    if (!w->link || w->state == SETTLER_LEAVING)
        return;
    if (w->state == SETTLER_BUSY)
        settler_put_down(w);
    say(w, MSG_QUIT, NULL);
    w->state = SETTLER_LEAVING;
    w->due_ms = clock_mono_ms() + LEAVE_MS;
}

static void no_answer(struct settler *w)
{
    int64_t allowed_ms = w->run->tune.still_ms + (w->t.duration_ms > 0 ? w->t.duration_ms / 20 : 0);
    char why[200];

    snprintf(why, sizeof(why), "it gave no answer for %lld s", (long long)(allowed_ms / 1000));
    condemn(w, ERR_TIMEOUT, why);
}

void settler_tick(struct settler *w, int64_t now)
{
    if (now < w->due_ms)
        return;
    switch (w->state) {
    case SETTLER_WAITING:
        w->state = SETTLER_OFF;
        run_touch(w->run);
        break;
    case SETTLER_STARTING:
        condemn(w, ERR_TIMEOUT, "it did not say who it is in time");
        break;
    case SETTLER_BUSY:
        no_answer(w);
        break;
    case SETTLER_LEAVING:
        link_kill(w->link);
        break;
    case SETTLER_OFF:
    case SETTLER_IDLE:
    case SETTLER_ASIDE:
        break;
    }
}
