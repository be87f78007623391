/* tests/unit/models/silero_model.h - a voice activity model with made-up weights: as a file, and as
 * plain loops in double precision. */
#ifndef NIGHTSHIFT_TESTS_UNIT_MODELS_SILERO_MODEL_H
#define NIGHTSHIFT_TESTS_UNIT_MODELS_SILERO_MODEL_H

#include <stddef.h>
#include <stdint.h>

#define SILERO_TENSORS 15

struct silero_tensor {
    const char *name, *type; /* "F32" */
    const char *shape;       /* "128,129,3" */
    size_t count;
    float *value;
};

struct silero_model {
    struct silero_tensor tensor[SILERO_TENSORS]; /* in the order of the network */
};

struct silero_model_stream {
    double h[128], c[128];
    float context[64];
};

struct silero_model *silero_model_new(uint64_t seed);
void silero_model_free(struct silero_model *m);
/* Tensors without a name are left out; cut: bytes that the file lacks at its end. */
void silero_model_write(const struct silero_model *m, const char *path, size_t cut);
/* One step of 512 samples: the probability. */
double silero_model_step(const struct silero_model *m, struct silero_model_stream *s,
                         const float *pcm);

#endif
