/* workers/audio/noise_gate.h - the mix of a track of which some channels are noise
 * (channel_choice.h): without them, but where one turns out to have something else.
 *
 * The beginning of a recording decides whether a channel is noise, and somebody may come to its
 * microphone later. The gate therefore listens on: a noise is mixed in, as every other channel, in
 * blocks of 10 s that are no noise (steady.h) and in the blocks before and behind them. A frame's
 * output depends on it and on at most two blocks on either side. Pure; one thread for each. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_NOISE_GATE_H
#define NIGHTSHIFT_WORKERS_AUDIO_NOISE_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/audio/channel_choice.h"

struct noise_gate;

/* noises: bit i: channel i is one; not all of them. */
int noise_gate_new(uint32_t channels, uint32_t noises, struct noise_gate **ret, struct err *err);
void noise_gate_free(struct noise_gate *g); /* NULL is fine */
/* The next frame: pcm[channel] points to CHANNEL_FRAME samples. */
void noise_gate_look(struct noise_gate *g, const int16_t *const *pcm);
/* No more frames come. */
void noise_gate_end(struct noise_gate *g);
/* Can the next frame be mixed? It was looked at, and enough behind it; after the end: always. */
bool noise_gate_ready(const struct noise_gate *g);
/* The next frame that is ready, of n samples: all but a recording's last are whole. */
void noise_gate_mix(struct noise_gate *g, const int16_t *const *pcm, size_t n, int16_t *ret);

#endif
