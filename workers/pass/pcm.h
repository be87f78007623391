/* workers/pass/pcm.h - the decoded audio of one shard on its way from a decoder to the
 * engine, and the bound on all of it together.
 *
 * A decoder feeds the open lanes of its pass, at most one of each track. A lane *starves* when the
 * engine has asked for more than it holds (at first: for one window).
 *
 * Why nothing waits for ever: only decoder threads wait, and only while the pool is over its
 * budget. With open lanes one waits only while the lanes that drive it do not starve: the first
 * track's open lane alone, or, if that track does not want this shard, all of the others'. So in
 * the first stage a lane whose decoder waits can be worked on, a closed lane is complete, and a
 * lane for which the engine waits is always fed; whatever the budget, that stage can go on, its
 * lanes end, and their audio is freed. Other tracks drive nothing beside it, but get all that it is
 * fed: where it is done with a shard, they have the shard as well. So each pass comes to the end of
 * its open shard, the lanes of other tracks that it feeds are closed, and what they hold is worked
 * on and freed like all else. A decoder also waits before it opens lanes while the pool is over its
 * budget; by the same reasoning that ends. Lanes behind their cut that still hear what follows
 * (their tail, at most a window of 30 s) are always fed, and while there is one its decoder
 * waits for nothing: else the lane could not end.
 *
 * Why memory is bounded: the pool is exceeded by at most a window of the driving lane, the tails
 * and a decoder's message for each decoder thread, and by tracks that fall behind. A track that is
 * not the first, does not starve and holds more than PCM_LAG_BYTES in its lanes when the pool is
 * over its budget loses its open shard (feed.c), which is left to a later lease of its stage.
 *
 * A lane of several sources has a reader for each, and holds the audio between the last reader and
 * the first, of all sources and their mix: stride times a window. All readers of a shard begin
 * together (process/engine.c), and over the budget only the one furthest behind is fed: so they
 * stay within a window, or the look-ahead of voice activity, of each other. None waits for ever:
 * the last reader gets the audio that it asks for, moves on, and then another one is the last.
 *
 * Not locked: the caller holds the worker's lock. */
#ifndef NIGHTSHIFT_WORKERS_PASS_PCM_H
#define NIGHTSHIFT_WORKERS_PASS_PCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PCM_STRIDE_MAX 9u
#define PCM_LAG_BYTES (UINT64_C(600) * 16000 * 2) /* ten minutes */

#define PCM_BYTES_LEAST (UINT64_C(64) << 20)
#define PCM_BYTES_MOST (UINT64_C(512) << 20)

struct pcm_pool {
    uint64_t used_bytes;
    uint64_t budget_bytes;
};

/* Widens the budget so that each slot can have a shard of this length of one long recording, and
 * two more wait, but at most to PCM_BYTES_MOST: more would only be decoded earlier. Never shrinks
 * it, because leases of longer shards may be at work. */
void pcm_pool_widen(struct pcm_pool *p, uint32_t slots, uint32_t shard_ms);

struct pcm_chunk;
struct pcm_lane {
    struct pcm_pool *pool;   /* borrowed */
    struct pcm_chunk *first; /* owned */
    struct pcm_chunk *last;
    uint32_t stride; /* samples of a frame: 1, or the mix and each source */
    int64_t start;   /* of the shard */
    int64_t cut;     /* of the shard's end; -1: not known yet */
    int64_t end;     /* of what has come: up to the cut, and what is heard of the next shard */
    int64_t asked;   /* the furthest that was ever asked for */
    bool closed;     /* nothing more comes */
    uint64_t held_bytes;
};

/* stride: 1 to PCM_STRIDE_MAX. */
void pcm_lane_init(struct pcm_lane *l, struct pcm_pool *pool, uint32_t stride, int64_t start);
void pcm_lane_free(struct pcm_lane *l); /* gives everything back; again is fine */

bool pcm_pool_has_room(const struct pcm_pool *p);
/* The engine waits for more than it holds. */
bool pcm_lane_starves(const struct pcm_lane *l);
/* n frames. ERR_NOMEM: the lane holds what it held before, and perhaps some of pcm. */
int pcm_lane_append(struct pcm_lane *l, const int16_t *pcm, size_t n, struct err *err);
/* The shard ends where its audio ends now. */
void pcm_lane_cut(struct pcm_lane *l);
void pcm_lane_close(struct pcm_lane *l);

/* Serves as lane_source in workers/stages/transcribe/transcribe.h: samples [at, at + n) of one
 * source (below stride) as floats in [-1, 1). ahead: another one who reads the lane wants audio
 * before this one's: then nothing is asked for that the pool has no room for. */
int64_t pcm_lane_read(struct pcm_lane *l, uint32_t source, int64_t at, size_t n, bool ahead,
                      float *out);
/* Audio before `at` may go. True when memory became free. */
bool pcm_lane_release(struct pcm_lane *l, int64_t at);

#endif
