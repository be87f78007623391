/* workers/models/pyannote/pyannet.h - who speaks when within ten seconds: pyannote.audio's PyanNet
 * on one device (segmentation-3.0 and community-1's).
 *
 *   160000 samples at 16 kHz, each window normalised by itself (instance norm)
 *   SincNet: 80 sinc filters (251 wide, step 10) -> |.|, max pool 3, instance norm, leaky ReLU
 *            -> 2 convolutions (60 filters, 5 wide), each with pool, norm and leaky ReLU: [589][60]
 *   LSTM, bidirectional, several layers (4 x 128) -> 2 linear layers (128), leaky ReLU
 *   -> linear -> [589][7]: log-probabilities of the sets of at most 2 of 3 speakers (powerset)
 *
 * Sizes are the weights': what is read from the file decides, within bounds. float32 throughout.
 * Batches: a window's result does not depend on the others (bit for bit on the host). */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_PYANNET_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_PYANNET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PYANNET_SAMPLES 160000 /* of a window: 10 s */
#define PYANNET_STEP 16000     /* from one window to the next */
#define PYANNET_FRAMES 589
#define PYANNET_FRAME_S 0.016875 /* from one frame to the next */
#define PYANNET_CLASSES 7
#define PYANNET_SPEAKERS 3 /* that a window knows */
/* Windows a call where the backend likes many (wide_batches): a sequence for each processor of a
 * large device in the recurrent layers. */
#define PYANNET_WIDE 128

struct backend;
struct pyannet;

/* file: safetensors in the layout of docs/reference/models.md, or a PyTorch checkpoint of
 * pyannote's own. ERR_MODEL with the tensor's name and what is wrong with it. be is borrowed.
 * windows: how many a call takes at most; 0: chosen. */
int pyannet_load(const char *file, struct backend *be, uint32_t windows, struct pyannet **ret,
                 struct err *err);
void pyannet_free(struct pyannet *p); /* NULL is fine */
uint32_t pyannet_windows(const struct pyannet *p);
/* Bytes of device memory of the published model and its scratch: a prediction for planning. */
uint64_t pyannet_predict_bytes(uint32_t windows);
/* n <= windows windows of PYANNET_SAMPLES floats in [-1, 1] (a recording's end padded with zeros):
 * window i begins at pcm[at[i]], at strictly ascending; at NULL: one behind another. The overlap of
 * windows at equal steps is sent to the device once. ret: [n][PYANNET_FRAMES], for each frame the
 * likeliest class, as the set of its speakers (bit s: local speaker s); the lowest of equal
 * classes. After ERR_VRAM the same call may be made again with less. ERR_MODEL: a computed value is
 * not a number. */
int pyannet_run(struct pyannet *p, const float *pcm, const size_t *at, uint32_t n, uint8_t *ret,
                struct err *err);
/* The first sample of window i. */
static inline size_t pyannet_begin(const size_t *at, uint32_t i)
{
    return at ? at[i] : (size_t)i * PYANNET_SAMPLES;
}
/* The set of a frame's likeliest class (Plaquet and Bredin: Powerset multi-class cross entropy loss
 * for neural speaker diarization, Interspeech 2023), of equals the lowest's. Pure. */
uint8_t pyannet_likeliest(const float scores[PYANNET_CLASSES]);
/* The log-probabilities, for tests and measurements: [n][PYANNET_FRAMES][PYANNET_CLASSES]. */
int pyannet_scores(struct pyannet *p, const float *pcm, const size_t *at, uint32_t n, float *ret,
                   struct err *err);

#endif
