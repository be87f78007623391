/* tests/parity/clap/model.h - CLAP models of make_fixtures.py: a folder with weights by formula. */
#ifndef NIGHTSHIFT_TESTS_PARITY_CLAP_MODEL_H
#define NIGHTSHIFT_TESTS_PARITY_CLAP_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/common/formula_weights.h"

struct clap_shape {
    const char *name;
    uint32_t size, hop, image, width, stages;
    uint32_t depth[4], heads[4];
    bool text; /* the text tower, too */
};

extern const struct clap_shape clap_small, clap_published;

/* Its tensors; formula_free. */
struct formula *clap_model(const struct clap_shape *s);
/* config.json, preprocessor_config.json and model.safetensors into dir, which is made. 0, or -1. */
int clap_model_write(const struct clap_shape *s, const struct formula *f, const char *dir);
/* tokenizer.json of the small text tower into dir, from the source tree. 0, or -1. */
int clap_model_tokenizer(const char *dir);
/* Values [-1, 1) * mul of the generator under this name; free them. */
float *clap_noise(const char *name, uint64_t count, float mul);

#endif
