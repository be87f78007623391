/* workers/models/yamnet/yamnet_mel.h - what YAMNet hears: log-mel frames of 25 ms every 10 ms at 16
 * kHz.
 *
 * Periodic Hann window over 400 samples, zero-padded to 512; magnitudes; 64 triangles on the HTK
 * scale from 125 to 7500 Hz with sides straight over mel; ln(x + 0.001). float64 within: empty bins
 * beside a loud tone would show float32's error. Immutable: any thread may use it. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_YAMNET_YAMNET_MEL_H
#define NIGHTSHIFT_WORKERS_MODELS_YAMNET_YAMNET_MEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define YAMNET_FRAMES 96 /* of a patch */
#define YAMNET_FRAME_HOP 160
#define YAMNET_FRAME 400
#define YAMNET_FFT 512
#define YAMNET_BINS 64

struct yamnet_mel;

int yamnet_mel_new(struct yamnet_mel **ret, struct err *err);
void yamnet_mel_free(struct yamnet_mel *m); /* NULL is fine */
/* Frame t is of samples [160 t, 160 t + 400) of pcm, which goes on with zeros after n. ret:
 * [frames][64]. */
int yamnet_mel(const struct yamnet_mel *m, const float *pcm, size_t n, uint32_t frames, float *ret,
               struct err *err);

#endif
