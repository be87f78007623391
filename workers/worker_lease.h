/* workers/worker_lease.h - leases: one decoding pass each, by a decoder thread. */
#ifndef NIGHTSHIFT_WORKERS_WORKER_LEASE_H
#define NIGHTSHIFT_WORKERS_WORKER_LEASE_H

#include "workers/worker_state.h"

/* Control thread. Takes msg over (also when it is refused, which is answered by LEASE_END). */
void lease_accept(struct worker *w, struct msg_lease *msg);
/* Of a shard whose result fits into a message for certain; UINT32_MAX: any. */
uint32_t lease_most_shard_ms(const char *stage, const char *params);
void lease_cap(struct worker *w, const struct msg_cap *m);
void lease_cancel(struct worker *w, const struct msg_cancel *m);
void lease_drain(struct worker *w);
/* Sets `leaving` and makes blocked decoders return. */
void lease_leave(struct worker *w);
/* Frees all that is left; no other thread runs any more. */
void lease_free_all(struct worker *w);

/* Main function of a decoder thread; arg is the worker. */
void *lease_thread(void *arg);

/* The engine has finished with a shard; frees it unless its decoder still feeds it, and ends the
 * lease when it was the last. Lock held. */
void shard_settle(struct worker *w, struct shard *s);
/* Unlinks and frees it. Lock held. */
void shard_free(struct worker *w, struct shard *s);

#endif
