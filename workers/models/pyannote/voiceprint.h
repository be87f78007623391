/* workers/models/pyannote/voiceprint.h - a voice as a vector: speaker encoders on one device.
 *
 * Two architectures behind one interface, told apart by the file's tensors:
 *   WeSpeaker's ResNet34 as pyannote uses it: 80-bin Kaldi filter bank (25 ms, 10 ms, Hamming,
 *     samples scaled by 32768, the window's mean taken off) -> ResNet34 (32, 64, 128, 256) ->
 *     weighted mean and deviation over time -> linear -> 256 values;
 *   GE2E (Resemblyzer): 40 mel bins -> 3 LSTM layers (256) -> linear, ReLU -> 256 values of length
 * 1, the mean over partial windows of 1.6 s. float32, but for the convolutions of ResNet, which are
 * float16 on a GPU that has that and TF32, unless the weights want more range, and then TF32. A
 * result does not depend on the rest of a call (bit for bit on the host). */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_VOICEPRINT_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_VOICEPRINT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define VOICEPRINT_MAX_SIZE 512
#define VOICEPRINT_MAX_SAMPLES 400000 /* of a window: 25 s */

struct backend;
struct voiceprint;

/* The frames of a window, or of a part of it, in which one speaker is heard. */
struct voice_mask {
    uint32_t window;      /* of the call */
    const float *weights; /* [frames], 0 .. 1; stretched to the network's frames (nearest) */
    /* The part of the window that the frames cover, in samples; of length 0: all of it. ResNet's
     * convolutions run once over a window, whatever parts its masks cover. */
    uint32_t begin, length;
};

/* Like pyannet_load. windows: the most in a call; 0: chosen. samples: of the longest
 * window, at most VOICEPRINT_MAX_SAMPLES. */
int voiceprint_load(const char *file, struct backend *be, uint32_t windows, size_t samples,
                    struct voiceprint **ret, struct err *err);
void voiceprint_free(struct voiceprint *v); /* NULL is fine */
uint32_t voiceprint_windows(const struct voiceprint *v);
uint32_t voiceprint_size(const struct voiceprint *v); /* values of a vector; <= the maximum above */
uint64_t voiceprint_predict_bytes(uint32_t windows);
/* n windows of `samples` (at most as loaded for) floats in [-1, 1]: window i begins at
 * pcm[at[i]], at strictly ascending; at NULL: one behind another. One vector for each mask, not
 * normalised (but GE2E's), to ret [masks][size]; a mask that covers too little for a vector (none
 * of the network's frames; GE2E: less than 0.4 s, or silence) gives NaNs. frames: of every mask.
 * Errors as of pyannet_run; ERR_LIMIT: a sound that convolutions in float16 have no room for. */
int voiceprint_run(struct voiceprint *v, const float *pcm, const size_t *at, size_t samples,
                   uint32_t n, const struct voice_mask *masks, uint32_t mask_count, uint32_t frames,
                   float *ret, struct err *err);

#endif
