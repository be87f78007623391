/* workers/audio/cut.h - where a long recording is cut into shards. Pure.
 *
 * The cut near a nominal boundary b lies in the middle of the longest quiet stretch of
 * [b - CUT_REACH_MS, b + CUT_REACH_MS], so it depends on that audio alone and both neighbours find
 * the same one. Quiet: 20 ms frames whose energy is within 10 dB above the 10th percentile of that
 * stretch. Ties: the earliest. The cut is a multiple of a frame (320 samples). */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_CUT_H
#define NIGHTSHIFT_WORKERS_AUDIO_CUT_H

#include <stddef.h>
#include <stdint.h>

#define CUT_REACH_MS 15000
#define CUT_FRAME_SAMPLES 320

/* pcm: 16 kHz mono of [b - reach, b + reach) clipped to what exists; first_sample is pcm[0]'s
 * position. Returns the cut's position in samples, inside the stretch. n may be anything. */
int64_t cut_find(const int16_t *pcm, size_t n, int64_t first_sample);

#endif
