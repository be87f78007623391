/* workers/pass/lease.h - leases from LEASE to LEASE_END, and the end of their tracks and
 * shards. */
#ifndef NIGHTSHIFT_WORKERS_PASS_LEASE_H
#define NIGHTSHIFT_WORKERS_PASS_LEASE_H

#include "workers/pass/state.h"

/* The longest shard, in ms, whose result is certain to fit into a message; UINT32_MAX: any. */
uint32_t lease_most_shard_ms(const char *stage, const char *params);

/* ---- control thread, and who may give up; these take the lock */

/* Takes msg over (also when it is refused, which is answered by LEASE_END). */
void lease_accept(struct worker *w, struct msg_lease *msg);
void lease_cap(struct worker *w, const struct msg_cap *m);
void lease_cancel(struct worker *w, const struct msg_cancel *m);
void lease_drain(struct worker *w);
/* Sets `leaving` and makes blocked decoders return. */
void lease_leave(struct worker *w);
/* Frees all that is left; no other thread runs any more. */
void lease_free_all(struct worker *w);

/* ---- lock held */

bool lease_is_waiting(const struct lease *l); /* no decoder thread has begun its pass */
/* How many shards the recording has, and its duration; 0 while that is not known. */
uint32_t lease_total(const struct worker *w, const struct lease *l, int64_t *total_ms);
/* Ends a track, not the first, in its pass: an incomplete shard is no result, but complete ones
 * are. */
void track_drop(struct worker *w, struct track *t);
/* Engine thread: another stage than the first is not loaded any more. Its tracks' shards in hand
 * are dropped, too. */
void tracks_give_up(struct worker *w, uint32_t stage);
/* Posts LEASE_END and frees the lease when nothing of it is left to do. */
void lease_finish(struct worker *w, struct lease *l);
/* The engine has finished with a shard; frees it unless its decoder still feeds it, and ends the
 * lease when it was the last. */
void shard_finish(struct worker *w, struct shard *s);
/* Unlinks and frees it. */
void shard_free(struct worker *w, struct shard *s);

#endif
