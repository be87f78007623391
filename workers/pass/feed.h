/* workers/pass/feed.h - a pass's decoded audio dealt out to the shards of its lease's
 * tracks, by a decoder thread. Each track has its own shards, with copies of the audio of their
 * own, but all are cut at the same samples. A shard:
 *
 *   open ──audio──► cut ──┬─► fed                       stages without a tail
 *                         └─► trailing ──tail──► fed    the windows that begin before the cut hear
 *                                                       on behind it, though the audio is the next
 *                                                       shard's as well, wanted or not
 *
 * While shards trail, decoding goes on past the lease's last shard, and nothing is waited for. An
 * error in a track other than the first drops that track, and is no error of the pass. */
#ifndef NIGHTSHIFT_WORKERS_PASS_FEED_H
#define NIGHTSHIFT_WORKERS_PASS_FEED_H

#include "workers/pass/split.h"
#include "workers/pass/state.h"

/* One decoding pass; lives on its decoder thread's stack. */
struct pass {
    struct worker *w;
    struct lease *l;
};

/* Its functions take the worker's lock. p outlives it. */
struct split_sink feed_sink(const struct pass *p);

/* 0: go on with shard `seq`; ERR_EMPTY: enough of this recording; ERR_CANCELLED. Lock held. */
int feed_may_go_on(const struct pass *p, uint32_t seq, struct err *err);
/* The recording has ended: trailing shards have all there is. Takes the lock. */
void feed_end(const struct pass *p);
/* No more audio comes for a track: half a shard is no result. Lock held; any thread. */
void feed_stop(struct worker *w, struct track *t);
/* The only shard of a lease of passages, when it is wanted. Lock held. Returns like feed_may_go_on,
 * or ERR_NOMEM. */
int feed_text(const struct pass *p, struct err *err);

#endif
