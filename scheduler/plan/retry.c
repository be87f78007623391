#include "scheduler/plan/retry.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/utf8.h"

#define STALLED_STEPS 4 /* as after so many attempts: the longest wait, as a run has it */

enum kind { KIND_BAD, KIND_PLACE, KIND_AGAIN, KIND_WORKER, KIND_BACK, KIND_STOP };

static enum kind kind_of(int code, bool died)
{
    if (died)
        return KIND_WORKER;
    switch (code) {
    case ERR_INPUT:
    case ERR_LIMIT:
        return KIND_BAD;
    case ERR_MISSING:
    case ERR_CHANGED:
    case ERR_DENIED:
        return KIND_PLACE;
    case ERR_DEVICE:
    case ERR_CRASH:
        return KIND_WORKER;
    case ERR_CANCELLED:
        return KIND_BACK;
    case ERR_MODEL:
        return KIND_STOP;
    default:
        return KIND_AGAIN;
    }
}

bool retry_counts(int code, bool died)
{
    enum kind k = kind_of(code, died);

    return k == KIND_AGAIN || k == KIND_WORKER;
}

bool retry_is_of_file(int code)
{
    enum kind k = kind_of(code, false);

    return k == KIND_BAD || k == KIND_PLACE;
}

static const char *way_out(int code)
{
    switch (code) {
    case ERR_MISSING:
        return "; bring it back and `nightshift retry` it, or enqueue the place where it is now";
    case ERR_CHANGED:
        return "; enqueue it again to have its new content transcribed (where its size and time "
               "are what they were, `touch` it first)";
    case ERR_DENIED:
        return "; give yourself read permission and `nightshift retry` it";
    default:
        return "";
    }
}

/* base * 4^attempts, capped, plus up to a quarter. */
static int64_t wait_ms(const struct retry_rule *rule, uint32_t attempts, uint64_t spread)
{
    int64_t ms = rule->base_ms ? rule->base_ms : RETRY_BASE_MS;

    while (attempts-- && ms < RETRY_MAX_MS)
        ms *= 4;
    if (ms > RETRY_MAX_MS)
        ms = RETRY_MAX_MS;
    return ms + (int64_t)(spread * 0x9E3779B97F4A7C15u >> 33) % (ms / 4 + 1);
}

static void count_failed_attempt(const struct retry_rule *rule, const struct retry_failure *f,
                                 int64_t now_ms, uint64_t spread, struct retry_decision *ret)
{
    uint32_t limit = rule->limit ? rule->limit : RETRY_ATTEMPTS;
    char why[300];

    utf8_copy(why, sizeof(why), f->message);
    if (f->attempts + 1 < limit) {
        ret->verdict = RETRY_AGAIN;
        /* A share that hangs does not come back in seconds; each try holds a decoder meanwhile. */
        ret->at_ms =
            now_ms + wait_ms(rule, f->code == ERR_STALLED ? STALLED_STEPS : f->attempts, spread);
        utf8_copy(ret->message, sizeof(ret->message), why);
        return;
    }
    ret->verdict = RETRY_FAIL;
    ret->quarantined = true;
    snprintf(ret->message, sizeof(ret->message),
             "failed after %u attempt%s: %s; `nightshift retry` it when the cause is gone",
             f->attempts + 1, f->attempts ? "s" : "", why);
}

/* A lease that gave results before it died is no evidence: what was done by then is done, and if
 * the recording is guilty its next lease dies without any. */
static void judge_death(const struct retry_rule *rule, const struct retry_failure *f,
                        int64_t now_ms, uint64_t spread, struct retry_decision *ret)
{
    char said[240], why[270];

    utf8_copy(said, sizeof(said), f->message);
    snprintf(why, sizeof(why), "%s%s", f->died ? "the worker died on it: " : "", said);
    ret->own = f->alone || (!f->died && f->code == ERR_CRASH);
    ret->deaths = (f->progress ? 0 : f->deaths) + 1;
    ret->deaths_alone = f->alone && !f->progress ? f->deaths_alone + 1 : 0;
    ret->quarantined = f->alone && (ret->deaths >= RETRY_DEATHS ||
                                    ret->deaths_alone >= RETRY_DEATHS_ALONE + f->acquitted);
    if (ret->quarantined) {
        snprintf(ret->message, sizeof(ret->message),
                 "failed after %u crashes in a row, %u of them alone in this run: %s; `nightshift "
                 "retry` it when the cause is gone",
                 ret->deaths, ret->deaths_alone, why);
        return;
    }
    ret->verdict = RETRY_SUSPECT;
    /* A cause from outside, such as a shortage of memory, may be over soon. */
    if (f->alone)
        ret->at_ms = now_ms + wait_ms(rule, f->deaths_alone > 0, spread);
    utf8_copy(ret->message, sizeof(ret->message), why);
}

void retry_decide(const struct retry_rule *rule, const struct retry_failure *f, int64_t now_ms,
                  uint64_t spread, struct retry_decision *ret)
{
    char why[300];

    *ret = (struct retry_decision){.verdict = RETRY_FAIL};
    utf8_copy(why, sizeof(why), f->message);
    switch (kind_of(f->code, f->died)) {
    case KIND_BACK:
        ret->verdict = RETRY_BACK;
        break;
    case KIND_STOP:
        ret->verdict = RETRY_STOP;
        utf8_copy(ret->message, sizeof(ret->message), why);
        break;
    case KIND_BAD:
        utf8_copy(ret->message, sizeof(ret->message), why);
        break;
    case KIND_PLACE:
        if (f->other_place)
            ret->verdict = RETRY_PLACE;
        snprintf(ret->message, sizeof(ret->message), "%s%s", why, way_out(f->code));
        break;
    case KIND_WORKER:
        judge_death(rule, f, now_ms, spread, ret);
        break;
    case KIND_AGAIN:
        count_failed_attempt(rule, f, now_ms, spread, ret);
        break;
    }
}

enum store_verdict retry_store(int code)
{
    switch (code) {
    case ERR_FULL:
    case ERR_IO:
    case ERR_LOCKED: /* somebody else's sqlite3 shell holds a write lock */
    case ERR_TIMEOUT:
    case ERR_NOMEM:
        return STORE_WAIT;
    case ERR_INPUT:
    case ERR_MISSING:
    case ERR_EMPTY:
    case ERR_LIMIT:
    case ERR_USAGE:
        return STORE_BAD;
    default:
        return STORE_STOP;
    }
}

/* ---- when a worker that died is started again, and when not any more.
 *
 * A death with nothing in hand (before it was ready, or idle) is the worker's own. A death with
 * work in hand may be a recording's doing, and bad recordings in a row must not cost the device:
 * there the different recordings that it was the first to die on alone are counted, since its last
 * result. A recording that failed, or died alone, before says nothing about this worker. */

#define RESTART_OWN_MAX 5u /* own deaths in a row: quarantined */

static void record_victim(struct restart *r, int64_t task)
{
    uint32_t i;

    for (i = 0; i < r->victim_count; i++)
        if (r->victims[i] == task)
            return;
    if (r->victim_count < RESTART_VICTIMS_MAX)
        r->victims[r->victim_count++] = task;
}

int64_t restart_death(struct restart *r, enum restart_cause cause, int64_t task, uint32_t base_ms)
{
    int64_t ms = base_ms ? base_ms : RESTART_BASE_MS;
    uint32_t n = r->in_a_row++;

    if (cause == RESTART_ONE)
        record_victim(r, task);
    else if (cause != RESTART_KNOWN)
        r->own++;
    if (r->own >= RESTART_OWN_MAX || r->victim_count >= RESTART_VICTIMS_MAX)
        return -1;
    while (n-- && ms < RESTART_MAX_MS)
        ms *= 2;
    return ms < RESTART_MAX_MS ? ms : RESTART_MAX_MS;
}

void restart_result(struct restart *r) { *r = (struct restart){0}; }
