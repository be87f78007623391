/* scheduler/failure.h - what went wrong with a task: kept with it until its leases have ended, then
 * noted in the catalog and told, as plan/retry.h judges it.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_FAILURE_H
#define NIGHTSHIFT_SCHEDULER_FAILURE_H

#include "scheduler/run/run.h"

/* Keeps the most severe of several failures of one task; a cancelled task has none. */
void failure_note(struct run_task *t, int code, const char *message);
void failure_clear(struct run_task *t);

/* Reads a task's earlier failures. False: the run has failed. */
bool failure_history(struct run *run, int64_t task, struct retry_failure *ret);
void failure_over(struct failures *f, int64_t task); /* it is done after all */
/* Reads anew when the next of them is to be tried again: run->failures.retry_due_ms. */
int failure_next_retry(struct run *run, struct err *err);
void failure_free(struct failures *f);

/* A failure as retry_decide has judged it (SUSPECT, AGAIN or FAIL): noted and told. */
struct failure {
    int64_t task, media;
    const char *shown;
    int code; /* 0: ERR_CRASH */
    bool died;
};
void failure_record(struct run *run, const struct failure *f, const struct retry_decision *d);
void failure_record_task(struct run *run, const struct run_task *t, const struct retry_decision *d);

#endif
