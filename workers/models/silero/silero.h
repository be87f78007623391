/* workers/models/silero/silero.h - Silero's voice activity model (v5 and later, 16 kHz) on one
 * device.
 *
 *   512 samples and the 64 before them, 64 more mirrored at the end: [640]
 *   STFT as a convolution (256 wide, step 128) -> magnitude [4][129]
 *   4 convolutions (128, 64 /2, 64 /2, 128; kernel 3, ReLU) -> [1][128]
 *   LSTM (128) -> ReLU -> 1 value -> sigmoid: the probability that somebody speaks
 *
 * float32 throughout. A stream is one piece of audio from its beginning; streams share calls, and a
 * stream's result does not depend on the others (bit for bit on the host). */
#ifndef NIGHTSHIFT_WORKERS_MODELS_SILERO_SILERO_H
#define NIGHTSHIFT_WORKERS_MODELS_SILERO_SILERO_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SILERO_STEP 512   /* samples at 16 kHz */
#define SILERO_CONTEXT 64 /* samples of the step before */
#define SILERO_HIDDEN 128
#define SILERO_BLOCK 128 /* steps of one call: 4.096 s */
#define SILERO_FILE "silero_vad_16k.safetensors"
#define SILERO_NAME "silero-vad" /* its folder in the models directory */

struct backend;
struct silero;

/* Plain memory: a stream that begins is all zeros. */
struct silero_stream {
    float h[SILERO_HIDDEN], c[SILERO_HIDDEN];
    float context[SILERO_CONTEXT];
};

struct silero_block {
    struct silero_stream *stream; /* moved on */
    const float *pcm;             /* [samples] in [-1, 1]; silence behind them */
    uint32_t samples;             /* 0 .. steps * SILERO_STEP */
    uint32_t steps;               /* 1 .. SILERO_BLOCK */
    float *prob;                  /* [steps] */
};

/* file: safetensors. ERR_MODEL with the tensor's name and what is wrong with it. be is borrowed.
 * blocks: how many a call takes at most; 0: chosen. They share the device's work where it has
 * wide_batches and is not deterministic, and are computed one after another elsewhere. Runs it once
 * on silence, so that the device allocates its memory now. */
int silero_load(const char *file, struct backend *be, uint32_t blocks, struct silero **ret,
                struct err *err);
void silero_free(struct silero *s); /* NULL is fine */
uint32_t silero_blocks(const struct silero *s);
/* Bytes of device memory of the model and its scratch: a prediction for planning. blocks: 1 on a
 * device that takes one at a time, which is one without wide_batches or with deterministic. */
uint64_t silero_predict_bytes(uint32_t blocks);
/* n <= silero_blocks blocks of different streams. On an error no stream has moved on, and after
 * ERR_VRAM all can be heard again. ERR_MODEL when something computed is no number. */
int silero_run(struct silero *s, struct silero_block *blocks, uint32_t n, struct err *err);

/* The file that `name` means: "silero-vad" in the models directories (model_dir.h), or a path, to
 * the file or to its folder. *ret newly allocated, absolute. ERR_MODEL says where it was looked for
 * and how to get it. */
int silero_find(const char *name, char **ret, struct err *err);
/* The same for a job that was set up with the file of this hash. name "": *ret NULL, it was set up
 * with none. ERR_MODEL also when the file is another one now. */
int silero_find_same(const char *name, const char *hash, char **ret, struct err *err);
/* A job's vad_model and vad_hash: which model, and that it is the one that was meant; neither goes
 * without the other. ERR_USAGE. */
int silero_check(const char *name, const char *hash, struct err *err);
/* Reads the file as silero_load does, and drops it: ERR_MODEL as there. */
int silero_verify_file(const char *file, struct err *err);
/* hex XXH3-128 of the file's bytes; ret: 33 bytes. ERR_MODEL when it is not there or no file. */
int silero_hash(const char *file, char *ret, struct err *err);

#endif
