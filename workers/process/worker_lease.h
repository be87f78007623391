/* workers/process/worker_lease.h - leases from LEASE to LEASE_END, and the end of their shards. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_WORKER_LEASE_H
#define NIGHTSHIFT_WORKERS_PROCESS_WORKER_LEASE_H

#include "workers/process/worker_state.h"

/* Of a shard whose result fits into a message for certain; UINT32_MAX: any. */
uint32_t lease_most_shard_ms(const char *stage, const char *params);

/* ---- control thread, and who may give up; these take the lock */

/* Takes msg over (also when it is refused, which is answered by LEASE_END). */
void lease_accept(struct worker *w, struct msg_lease *msg);
/* Of a lease and its companions, or of a companion's lease alone. */
void lease_cap(struct worker *w, const struct msg_cap *m);
void lease_cancel(struct worker *w, const struct msg_cancel *m);
void lease_drain(struct worker *w);
/* Sets `leaving` and makes blocked decoders return. */
void lease_leave(struct worker *w);
/* Frees all that is left; no other thread runs any more. */
void lease_free_all(struct worker *w);

/* ---- lock held */

/* No decoder thread has begun its pass. False of companions: they have none. */
bool lease_is_waiting(const struct lease *l);
struct lease *lease_find(const struct worker *w, uint64_t id); /* NULL: none is held */
/* Nobody wants the results of its shards behind `after`; begun_too: also of those that the engine
 * works on. Frees nothing. */
void lease_drop_shards(struct worker *w, const struct lease *l, int64_t after, bool begun_too);
/* Posts LEASE_END and frees the lease when nothing of it is left to do. */
void lease_settle(struct worker *w, struct lease *l);
/* The engine has finished with a shard; frees it unless its decoder still feeds it, and ends the
 * lease when it was the last. */
void shard_settle(struct worker *w, struct shard *s);
/* Unlinks and frees it. */
void shard_free(struct worker *w, struct shard *s);

#endif
