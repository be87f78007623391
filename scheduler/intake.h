/* scheduler/intake.h - what comes back for leases: results, their ends, or the worker's.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_INTAKE_H
#define NIGHTSHIFT_SCHEDULER_INTAKE_H

#include "scheduler/run/run.h"

/* A false return means that the worker broke the protocol; *err says how. */
bool intake_media(struct run_worker *w, struct msg_media *m, struct err *err);
bool intake_shard_done(struct run_worker *w, struct msg_shard_done *m, struct err *err);
bool intake_shard_failed(struct run_worker *w, const struct msg_shard_failed *m, struct err *err);
bool intake_lease_end(struct run_worker *w, const struct msg_lease_end *m, struct err *err);
/* All leases of a worker that has gone come back. code, message: why it died. */
void intake_worker_lost(struct run_worker *w, int code, const char *message,
                        enum restart_cause *cause, int64_t *task);

#endif
