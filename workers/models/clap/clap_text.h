/* workers/models/clap/clap_text.h - CLAP's text tower: RoBERTa, its first token through a linear
 * layer and tanh, then linear, ReLU, linear -> [512]. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_TEXT_H
#define NIGHTSHIFT_WORKERS_MODELS_CLAP_CLAP_TEXT_H

#include <stdint.h>

#include "base/err.h"
#include "gpu/precision.h"

#define CLAP_TEXT_TOKENS 8192 /* of one call where sequences share the device's work */

struct backend;
struct clap_text_tower;
struct weights;

/* dir: config.json (text_config) and tokenizer.json. size: of the vectors. be is borrowed; w is not
 * needed afterwards. */
int clap_text_load(const char *dir, uint32_t size, const struct weights *w, struct backend *be,
                   enum precision precision, struct clap_text_tower **ret, struct err *err);
void clap_text_free(struct clap_text_tower *t); /* NULL is fine */
/* ret: [n][size], not normalised. */
int clap_text_run(struct clap_text_tower *t, const char *const *texts, uint32_t n, float *ret,
                  struct err *err);

#endif
