/* workers/audio/fbank.h - what speaker encoders hear: energies of mel bins every 10 ms, at 16 kHz.
 *
 * Two kinds of frames of 25 ms:
 *   FBANK_KALDI  80 bins, as Kaldi's (and torchaudio's) with a Hamming window and no dither: the
 *                frame's mean taken off, pre-emphasis 0.97, 512-point spectrum, triangles over the
 *                mel scale from 20 Hz to 8 kHz, natural logarithm of the energy. Samples count as
 *                those of 16 bits do. The frames lie within the audio.
 *   FBANK_POWER  40 bins, as librosa's melspectrogram: Hann window, 400-point spectrum, Slaney's
 *                triangles of area one, the energy itself. Frame i is centred on sample 160 i;
 *                beyond the ends is silence.
 * Computed in float64. A plan is for one call at a time, which spreads its frames over threads;
 * whatever their number, the values are the same, bit for bit. */
#ifndef NIGHTSHIFT_WORKERS_AUDIO_FBANK_H
#define NIGHTSHIFT_WORKERS_AUDIO_FBANK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FBANK_FRAME 400 /* samples */
#define FBANK_STEP 160
#define FBANK_KALDI_BINS 80
#define FBANK_POWER_BINS 40

enum fbank_kind { FBANK_KALDI, FBANK_POWER };

struct fbank;

/* threads: of a call at most; 0: as many as this process may run on, but no more than
 * FBANK_MAX_THREADS, behind which no device is waiting for it any more. */
#define FBANK_MAX_THREADS 8
int fbank_new(enum fbank_kind kind, uint32_t threads, struct fbank **ret, struct err *err);
void fbank_free(struct fbank *f); /* NULL is fine */
/* Of n samples. */
size_t fbank_frames(enum fbank_kind kind, size_t n);
/* pcm: n samples in [-1, 1]. ret: [frames][bins]. */
void fbank_run(struct fbank *f, const float *pcm, size_t n, float *ret);

/* The same for several pieces of audio in one call: short ones are spread as well as long ones. */
struct fbank_piece {
    const float *pcm; /* [n] */
    size_t n;
    float *ret; /* [frames][bins] */
};
void fbank_run_all(struct fbank *f, const struct fbank_piece *pieces, size_t count);

/* The mean of each bin over a window taken off. rows: [count] windows of `frames` frames each,
 * which may overlap. ret: [count][frames][bins], elsewhere. */
void fbank_centre_all(const struct fbank *f, const float *const *rows, size_t count, size_t frames,
                      float *ret);

#endif
