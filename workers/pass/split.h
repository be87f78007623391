/* workers/pass/split.h - a recording's shards, to the sample, and the audio dealt out to
 * them.
 *
 * Boundary k > 0 lies at b(k) = k * shard_ms. Shard k exists when k == 0 or when the recording is
 * longer than b(k), so that everybody who knows the duration knows the number of shards. cut(k) is
 * what cut_find says of the samples [b(k) - reach, b(k) + reach) that exist, where b(k) is rounded
 * down to a frame and reach is CUT_REACH_MS or a quarter of shard_ms, whichever is less: stretches
 * of neighbouring boundaries never meet, and a shard is at least half of shard_ms long (the last
 * one: more than nothing). The cut depends on that stretch alone, so whoever decodes a later
 * run of shards needs to begin at its first stretch only, and finds the same cut.
 *
 * Pure. One thread per splitter. */
#ifndef NIGHTSHIFT_WORKERS_PASS_SPLIT_H
#define NIGHTSHIFT_WORKERS_PASS_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Positions are samples at 16 kHz in the recording. shard_ms: LEASE_SHARD_MS_MIN and more. */
int64_t shard_boundary(uint32_t shard_ms, uint32_t k); /* unrounded: exists when total is more */
void shard_stretch(uint32_t shard_ms, uint32_t k, int64_t *from, int64_t *to);
uint32_t shard_count(uint32_t shard_ms, int64_t total);
/* The first sample that a run from shard `first` on needs. */
int64_t shard_first_sample(uint32_t shard_ms, uint32_t first);

/* Audio is a frame of `stride` samples for each sample of the recording, of which the first (the
 * mix) alone decides where to cut.
 *
 * Called in order: open, audio ..., close, open ...; any error ends the splitting and is returned
 * from feed or end. ERR_EMPTY by convention: nobody wants the rest. */
struct split_sink {
    int (*open)(void *arg, uint32_t shard, int64_t at, struct err *err);
    int (*audio)(void *arg, const int16_t *pcm, size_t n, struct err *err);
    int (*close)(void *arg, int64_t at, struct err *err);
    void *arg;
};

struct splitter;
int splitter_new(uint32_t shard_ms, uint32_t first, struct split_sink sink, struct splitter **ret,
                 struct err *err);
/* Before the first audio; 1 where nobody says. */
int splitter_stride(struct splitter *s, uint32_t stride, struct err *err);
void splitter_free(struct splitter *s);
/* The next n frames. Ignores frames before shard_first_sample; a gap is ERR_INPUT. */
int splitter_feed(struct splitter *s, const int16_t *pcm, size_t n, int64_t at, struct err *err);
/* The recording ends at `total`: finishes the last cut and closes the last shard. */
int splitter_end(struct splitter *s, int64_t total, struct err *err);

#endif
