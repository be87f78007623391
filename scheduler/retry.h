/* scheduler/retry.h - what a failure means for its recording, and for the run. Pure.
 *
 *   code                                     verdict
 *   input, limit                             FAIL: the recording is bad, and stays so
 *   missing, changed, denied                 PLACE while it has other places, then FAIL
 *   io, timeout, nomem, vram, full, ...      AGAIN after a while, up to the limit, then FAIL:
 *                                            "set aside after 3 attempts: ..."
 *   device, a worker that died               SUSPECT: innocent until it has happened to the
 *                                            recording alone; then as AGAIN
 *   cancelled                                BACK: it was us
 *   model                                    STOP: every other recording would fail alike */
#ifndef NIGHTSHIFT_SCHEDULER_RETRY_H
#define NIGHTSHIFT_SCHEDULER_RETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETRY_ATTEMPTS 3u
#define RETRY_BASE_MS 5000u
#define RETRY_CAP_MS 900000

enum retry_verdict {
    RETRY_BACK,    /* queue it again, nothing is charged */
    RETRY_SUSPECT, /* queue it again, alone */
    RETRY_AGAIN,   /* charge an attempt; not before at_ms */
    RETRY_PLACE,   /* queue it again with another of its places */
    RETRY_FAIL,    /* failed; `message` says why and what to do */
    RETRY_STOP,    /* the run cannot go on */
};

struct retry_failure {
    int code;
    const char *message; /* what happened, one sentence without a way out */
    bool died;           /* the worker died, of `message`; code is then of no meaning */
    uint32_t deaths;     /* died: how often before this one */
    bool alone;          /* the worker held nothing else */
    bool other_place;    /* it has places that were not tried yet */
    uint32_t attempts;   /* charged before this one */
};

struct retry_rule {
    uint32_t limit;   /* attempts; 0: RETRY_ATTEMPTS */
    uint32_t base_ms; /* the first wait; 0: RETRY_BASE_MS */
};

struct retry_decision {
    enum retry_verdict verdict;
    int64_t at_ms;     /* AGAIN */
    bool quarantined;  /* FAIL because the limit was reached */
    char message[400]; /* AGAIN, FAIL: for the catalog */
};

/* Does the verdict need `attempts`? (They cost a query.) */
bool retry_counts(int code, bool died);
/* spread: any number that differs from task to task, so that tasks which failed together do not all
 * come back at once. */
void retry_decide(const struct retry_rule *rule, const struct retry_failure *f, int64_t now_ms,
                  uint64_t spread, struct retry_decision *ret);

/* What an error of the catalog itself means. */
enum store_verdict {
    STORE_WAIT, /* no space, or the disk failed: keep what there is and try again for a while */
    STORE_BAD,  /* only this one change is impossible */
    STORE_STOP, /* the catalog cannot be used any more */
};
enum store_verdict retry_store(int code);

#endif
