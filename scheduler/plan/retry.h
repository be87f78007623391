/* scheduler/plan/retry.h - what a failure means for its recording, and for the run. Pure.
 *
 *   code                                     verdict
 *   input, limit                             FAIL: the recording is bad, and stays so
 *   missing, changed, denied                 PLACE while it has other places, then FAIL
 *   io, timeout, nomem, vram, full, ...      AGAIN after a while, up to the limit, then FAIL:
 *                                            "failed after 3 attempts: ..."
 *   stalled                                  the same, after the longest while each time
 *   device, crash, a worker that died        SUSPECT: counts against nobody, as anybody may have
 *                                            killed it. The recording is done alone when nothing
 *                                            else waits. FAIL when it has died alone twice in a
 *                                            row in one run, both times without a result. Once
 *                                            more for each recording that such deaths befell and
 *                                            that was done after all: somebody kills at random.
 *                                            In the end with its eighth death in a row, over all
 *                                            runs, as each may end before the second one
 *   cancelled                                BACK: it was us
 *   model                                    STOP: every other recording would fail alike */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_RETRY_H
#define NIGHTSHIFT_SCHEDULER_PLAN_RETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETRY_ATTEMPTS 3u
#define RETRY_DEATHS_ALONE 2u /* in one run */
#define RETRY_DEATHS 8u       /* in all */
#define RETRY_BASE_MS 5000u
#define RETRY_MAX_MS 900000

enum retry_verdict {
    RETRY_BACK,    /* queue it again, nothing is charged */
    RETRY_SUSPECT, /* queue it again, alone; not before at_ms */
    RETRY_AGAIN,   /* charge an attempt; not before at_ms */
    RETRY_PLACE,   /* queue it again with another of its places */
    RETRY_FAIL,    /* failed; `message` says why and what to do */
    RETRY_STOP,    /* the run cannot go on */
};

struct retry_failure {
    int code;
    const char *message; /* what happened, one sentence without a way out */
    bool died;           /* the worker died, of `message`; code is then of no meaning */
    bool alone;          /* as a suspect: with nothing else at work there */
    bool progress;       /* it had given a result before, in the same lease */
    bool other_place;    /* it has places that were not tried yet */
    /* Before this one: */
    uint32_t attempts;     /* charged */
    uint32_t deaths;       /* over it, in a row without a result: the catalog's count */
    uint32_t deaths_alone; /* of them, alone and in this run */
    uint32_t acquitted;    /* recordings that were done in this run though they `own` a death */
};

struct retry_rule {
    uint32_t limit;   /* attempts; 0: RETRY_ATTEMPTS */
    uint32_t base_ms; /* the first wait; 0: RETRY_BASE_MS */
};

struct retry_decision {
    enum retry_verdict verdict;
    int64_t at_ms;    /* AGAIN, SUSPECT; 0: at once */
    bool quarantined; /* FAIL because the limit was reached */
    uint32_t deaths;  /* with this one; 0: it is none */
    uint32_t deaths_alone;
    bool own;          /* of its decoder, or alone: nobody else's */
    char message[400]; /* SUSPECT, AGAIN, FAIL: for people */
};

/* Is it wrong with the file, or with where it lies: the same for every stage? */
bool retry_is_of_file(int code);
/* Does the verdict need what was before? (That costs a query.) */
bool retry_counts(int code, bool died);
/* spread: any number that differs from task to task, so that tasks which failed together do not all
 * come back at once. */
void retry_decide(const struct retry_rule *rule, const struct retry_failure *f, int64_t now_ms,
                  uint64_t spread, struct retry_decision *ret);

/* The meaning of an error of the catalog itself. */
enum store_verdict {
    STORE_WAIT, /* no space, or the disk failed: keep what there is and try again for a while */
    STORE_BAD,  /* only this one change is impossible */
    STORE_STOP, /* the catalog cannot be used any more */
};
enum store_verdict retry_store(int code);

/* ---- when a worker that died is started again, and when not any more. Pure.
 *
 * A death with nothing in hand (before it was ready, or idle) is the worker's own. A death with
 * work in hand may be a recording's doing, and bad recordings in a row must not cost the device:
 * there the different recordings that it was the first to die on alone are counted, since its last
 * result. A recording that failed, or died alone, before says nothing about this worker. */
#define RESTART_VICTIMS_MAX 8u /* different recordings that it died on alone, in a row */
#define RESTART_BASE_MS 1000u
#define RESTART_MAX_MS 60000

struct restart {       /* all zero at first */
    uint32_t in_a_row; /* deaths since its last result */
    uint32_t own;
    uint32_t victim_count;
    int64_t victims[RESTART_VICTIMS_MAX];
};

enum restart_cause {
    RESTART_OWN,   /* it held nothing */
    RESTART_MANY,  /* it held several recordings */
    RESTART_ONE,   /* it held one, `task`, */
    RESTART_KNOWN, /* or one that failed or died alone before */
};

/* How long to wait before it is started again (base_ms 0: RESTART_BASE_MS); -1: quarantine it. */
int64_t restart_death(struct restart *r, enum restart_cause cause, int64_t task, uint32_t base_ms);
/* It gave a result: everything is forgotten. */
void restart_result(struct restart *r);

#endif
