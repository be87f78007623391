/* tests/gpu/device.h - the GPU of the tests labelled `gpu`, and what they feed it.
 *
 * The module is $NIGHTSHIFT_CUDA_MODULE, else the one of this build. Where it gives no device the
 * test ends as skipped, with the reason. The first device is taken, or $NIGHTSHIFT_TEST_ORDINAL. */
#ifndef NIGHTSHIFT_TESTS_GPU_DEVICE_H
#define NIGHTSHIFT_TESTS_GPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/backend.h"
#include "gpu/cuda_module.h"
#include "workers/models/whisper/whisper.h"

/* Finds module and device, once; exits with TEST_SKIPPED when there is none. */
const struct cuda_device *gpu_device(void);
const struct cuda_module *gpu_module(void);
/* Bytes that are free on the device now; 0 when it cannot say. */
uint64_t gpu_free_memory(void);

/* These assert. options NULL: the module's own. */
struct backend *gpu_open(const struct cuda_options *options);
struct backend *gpu_open_host(void);

/* Whether be has this precision, and $NIGHTSHIFT_GPU_PRECISION, where it is set, names it. */
bool gpu_wants(const struct backend *be, enum precision p);

/* Models to be tested: $NIGHTSHIFT_GPU_MODELS, or `otherwise`: names separated by commas. Calls fn
 * for each. */
void gpu_each_model(const char *otherwise, void (*fn)(const char *name));
/* "nano" is the trained one; others have random weights of their configuration, the same on every
 * device. */
int gpu_load(const char *model, struct backend *be, enum precision precision,
             struct asr_model **ret, struct err *err);

/* Window i of the tests, the same each time: speech (sample 01) for nano's first, else tones that
 * rise and fall in noise. WHISPER_WINDOW_SAMPLES of them, in a static buffer for i below 8. */
struct asr_window gpu_window(uint32_t i, uint32_t slot);

/* The prompt of a transcription in English without timestamps, for nano; other ids, which a random
 * model takes for as good, else. */
#define GPU_PROMPT 4
int32_t gpu_prompt(const struct asr_model *w, uint32_t pos);

int32_t gpu_likeliest(const float *logits, uint32_t n);
/* ||a - b|| / ||b||, and the largest |a - b| as a share of the largest |b|. */
double gpu_l2(const float *a, const float *b, size_t n);
double gpu_worst(const float *a, const float *b, size_t n);

#endif
