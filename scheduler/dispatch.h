/* scheduler/dispatch.h - leases to workers, and what comes back for them.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_DISPATCH_H
#define NIGHTSHIFT_SCHEDULER_DISPATCH_H

#include "scheduler/run/run.h"

void dispatch_all(struct run *run); /* until the planner has nothing to say */
/* Results and ends. A false return means that the worker broke the protocol; *err says how. */
bool dispatch_media(struct run_worker *w, const struct msg_media *m, struct err *err);
bool dispatch_shard_done(struct run_worker *w, struct msg_shard_done *m, struct err *err);
bool dispatch_shard_failed(struct run_worker *w, const struct msg_shard_failed *m, struct err *err);
bool dispatch_lease_end(struct run_worker *w, const struct msg_lease_end *m, struct err *err);
/* All leases of a worker that has gone come back. code, message: why it died. */
void dispatch_worker_lost(struct run_worker *w, int code, const char *message,
                          enum restart_cause *cause, int64_t *task);
void dispatch_cancel(struct run *run, int64_t task); /* CANCEL to every lease of it */
void dispatch_cancel_track(struct run *run, const struct run_lease *l, uint32_t track);
void dispatch_free(struct run *run);
void dispatch_cap_task(struct run *run, int64_t task);
/* What is known of a task's failures before this one. False: the run has failed. */
bool dispatch_history(struct run *run, int64_t task, struct retry_failure *ret);
void dispatch_done(struct run *run, int64_t task); /* it is done after all */
/* A failure as retry_decide has judged it (SUSPECT, AGAIN or FAIL): noted and told. */
struct dispatch_failure {
    int64_t task, media;
    const char *shown;
    int code; /* 0: ERR_CRASH */
    bool died;
};
void dispatch_record(struct run *run, const struct dispatch_failure *f,
                     const struct retry_decision *d);

#endif
