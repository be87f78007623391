#include "scheduler/failure.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/report.h"

/* Which of two failures of one task decides. */
static int rank_failure_code(int code)
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

void failure_note(struct run_task *t, int code, const char *message)
{
    char *shown;

    if (code == ERR_CANCELLED ||
        (t->failed && rank_failure_code(code) <= rank_failure_code(t->code)))
        return;
    t->failed = true;
    t->code = code;
    shown = utf8_display(message, strlen(message));
    utf8_copy(t->message, sizeof(t->message), shown && shown[0] ? shown : err_name(code));
    free(shown);
}

void failure_clear(struct run_task *t)
{
    t->failed = t->died = false;
    t->code = 0;
    t->message[0] = 0;
}

bool failure_history(struct run *run, int64_t task, struct retry_failure *ret)
{
    struct err err = {0};
    uintptr_t own;

    if (store_task_attempts(run->st, task, &ret->attempts, &ret->deaths, &err)) {
        run_fail(run, &err);
        return false;
    }
    if (ret->deaths == 0) /* none yet, or forgiven by a retry */
        idmap_remove(&run->failures.deaths, (uint64_t)task);
    own = (uintptr_t)idmap_get(&run->failures.deaths, (uint64_t)task);
    ret->deaths_alone = own ? (uint32_t)own - 1 : 0;
    ret->acquitted = run->failures.acquitted;
    return true;
}

void failure_over(struct failures *f, int64_t task)
{
    f->acquitted += idmap_remove(&f->deaths, (uint64_t)task) != NULL;
}

int failure_next_retry(struct run *run, struct err *err)
{
    return store_next_retry(run->st, clock_wall_ms(), &run->failures.retry_due_ms, err);
}

void failure_free(struct failures *f) { idmap_free(&f->deaths); }

static void note_death(struct run *run, int64_t task, const struct retry_decision *d)
{
    bool suspect = d->verdict == RETRY_SUSPECT;
    struct err err = {0};

    run_check(run, ledger_suspect(run->ledger, task, d->deaths, suspect ? d->at_ms : 0, &err),
              &err);
    if (!suspect) {
        idmap_remove(&run->failures.deaths, (uint64_t)task);
    } else if (d->own && idmap_put(&run->failures.deaths, (uint64_t)task,
                                   (void *)(uintptr_t)(1 + d->deaths_alone))) {
        err_set(&err, ERR_NOMEM, "no memory for a failure");
        run_fail(run, &err);
    }
}

void failure_record(struct run *run, const struct failure *f, const struct retry_decision *d)
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
        /* Report a damaged file once, however many stages open it. */
        bool news = figures_failed(run, f->media, d->message) || !retry_is_of_file(code);

        report_event(run, news ? LOG_WARN : LOG_DEBUG, "%s: %s", f->shown, d->message);
    } else if (d->at_ms == 0) {
        /* A worker's death has been told once for all that it held. */
        report_event(run, f->died ? LOG_DEBUG : LOG_INFO,
                     "%s: %s; again, alone, when nothing else waits", f->shown, d->message);
    } else {
        char wait[PROGRESS_SPAN];

        progress_span(d->at_ms - clock_wall_ms(), wait);
        report_event(run, LOG_INFO, "%s: %s; again in %s", f->shown, d->message, wait);
        if (d->at_ms < run->failures.retry_due_ms)
            run->failures.retry_due_ms = d->at_ms;
    }
}

void failure_record_task(struct run *run, const struct run_task *t, const struct retry_decision *d)
{
    const struct failure f = {
        .task = t->t.task_id,
        .media = t->t.media_id,
        .shown = t->shown,
        .code = t->code,
        .died = t->died,
    };

    failure_record(run, &f, d);
}
