/* workers/worker_pcm.h - the decoded audio of one shard on its way from a decoder to the engine,
 * and the bound on all of it together.
 *
 * Why nothing waits for ever: only decoder threads wait, each for its open lane and only while the
 * pool is over its budget AND the lane already holds everything that the engine has asked of it
 * (at first: one window). So a lane whose decoder waits can be worked on, a closed lane holds all
 * that it ever will, and a lane for which the engine waits is always fed; whatever the budget, the
 * engine can go on, lanes end, and their audio is freed. A decoder also waits before it opens a
 * lane while the pool is over its budget; by the same reasoning that ends. A lane behind its cut
 * that still hears what follows (its tail, at most a third of a window) is always fed, and while
 * there is one its decoder waits for nothing: else the lane could not end. The pool is exceeded by
 * at most a window, the tails of it and a decoder's message for each decoder thread.
 *
 * Not locked: the caller holds the worker's lock. */
#ifndef NIGHTSHIFT_WORKERS_WORKER_PCM_H
#define NIGHTSHIFT_WORKERS_WORKER_PCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pcm_pool {
    uint64_t used_bytes;
    uint64_t budget_bytes;
};

struct pcm_chunk;
struct pcm_lane {
    struct pcm_pool *pool;   /* borrowed */
    struct pcm_chunk *first; /* owned */
    struct pcm_chunk *last;
    int64_t start; /* of the shard */
    int64_t cut;   /* of the shard's end; -1: not known yet */
    int64_t end;   /* of what has come: up to the cut, and what is heard of the next shard */
    int64_t asked; /* the furthest that was ever asked for */
    bool closed;   /* nothing more comes */
};

void pcm_lane_init(struct pcm_lane *l, struct pcm_pool *pool, int64_t start);
void pcm_lane_free(struct pcm_lane *l); /* gives everything back; again is fine */

bool pcm_pool_has_room(const struct pcm_pool *p);
bool pcm_lane_may_append(const struct pcm_lane *l);
/* ERR_NOMEM: the lane holds what it held before, and perhaps some of pcm. */
int pcm_lane_append(struct pcm_lane *l, const int16_t *pcm, size_t n, struct err *err);
/* The shard ends where its audio ends now. */
void pcm_lane_cut(struct pcm_lane *l);
void pcm_lane_close(struct pcm_lane *l);

/* As lane_source in workers/stages/transcribe.h: samples [at, at + n) as floats in [-1, 1). */
int64_t pcm_lane_read(struct pcm_lane *l, int64_t at, size_t n, float *out);
/* Audio before `at` may go. True when memory became free. */
bool pcm_lane_release(struct pcm_lane *l, int64_t at);

#endif
