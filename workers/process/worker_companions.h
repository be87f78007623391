/* workers/process/worker_companions.h - leases of companions: stages that listen to a decoding pass
 * beside the stage that it is made for.
 *
 *   LEASE ──► refused: no such pass, or it has opened its first shard: LEASE_END
 *     └─────► joined ──► left ──► settled: LEASE_END
 *                         the pass ended, a cancel, an error of its own
 *
 * The lease whose pass it is knows its companions (`parts`), and each of them knows it (`host`)
 * until it leaves; nothing points at either afterwards. All of it happens under the worker's lock,
 * which the caller holds. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_COMPANIONS_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_COMPANIONS_H

#include "workers/process/worker_state.h"

/* One of those that a pass waits for has come, whatever becomes of it. */
void companion_arrived(struct worker *w, const struct msg_lease *msg);
/* In whose pass a companion's lease may take part. ERR_CANCELLED: not any more, or its stage is not
 * loaded; ERR_PROTOCOL: what no scheduler says. */
int companion_host(const struct worker *w, const struct msg_lease *msg, struct lease **ret,
                   struct err *err);
/* l is a new lease; host as above. */
void companion_join(struct lease *host, struct lease *l);
/* It gets no more audio; half a shard is no result. why: NULL, or what its other shards have no
 * result for. l may be gone afterwards. Does nothing where it has left before. */
void companion_leave(struct worker *w, struct lease *l, const char *why);
/* Decoder thread: the pass is over, and they have it from `host` how it ended. They may be gone
 * afterwards. */
void companions_end(struct worker *w, struct lease *host);
/* Engine thread: a stage is not loaded any more. Its shards are dropped, and its leases end. */
void companions_give_up(struct worker *w, uint32_t stage, const char *why);

#endif
