/* tests/parity/hf/random_weights.h - a model directory with the weights of make_fixtures.py. */
#ifndef NIGHTSHIFT_TESTS_PARITY_HF_RANDOM_WEIGHTS_H
#define NIGHTSHIFT_TESTS_PARITY_HF_RANDOM_WEIGHTS_H

#include <stdint.h>

#define RANDOM_D_MODEL 128
#define RANDOM_FFN 256
#define RANDOM_LAYERS 2

/* Writes config.json and model.safetensors (float32) into dir, which exists. `name` is the
 * configuration's name: it is part of every tensor's seed. 0, or -1 with errno. */
int random_weights_write(const char *dir, const char *name, uint32_t vocab, uint32_t mel_bins);

#endif
