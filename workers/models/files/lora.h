/* workers/models/files/lora.h - the matrices of a LoRA adapter, by the tensors they are added to.
 *
 * Hugging Face's names. The adapter's file stays mapped; immutable after opening, any thread. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_LORA_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_LORA_H

#include <stddef.h>

#include "base/err.h"
#include "workers/models/files/weight.h"

struct adapter;
struct lora;

/* ERR_MODEL: a tensor of the file is none of a LoRA's, or its other half is missing or does not
 * fit. dir: the adapter's folder. */
int lora_open(const char *dir, const struct adapter *a, struct lora **ret, struct err *err);
void lora_close(struct lora *l); /* accepts NULL */

size_t lora_count(const struct lora *l);
const char *lora_name_at(const struct lora *l, size_t i); /* of the tensor that is adapted */
/* The delta of a tensor, or NULL. Lives as long as l. */
const struct weight_delta *lora_find(const struct lora *l, const char *name);

/* Whether a delta can be added to a tensor of this shape. */
bool lora_fits(const struct weight_delta *d, const struct weight *w);

#endif
