/* workers/models/files/weights.h - a model's tensors, in any layout of its folder.
 *
 * One file or shards with an index, safetensors, PyTorch's, CTranslate2's or whisper.cpp's, with
 * Hugging Face's names, OpenAI's or CTranslate2's (see weight_layout.h and weight_names.h): tensors
 * are found by Hugging Face's names and read as float32. An adapter's tensors are those of its base
 * with its deltas added. Files are mapped; nothing is copied. Immutable after opening: any thread
 * may read. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHTS_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "workers/models/files/weight.h"

struct checkpoint;
struct ct2_file;
struct ggml_file;
struct weights;

/* Opens every file and checks what each claims; with an index also that each tensor is in the shard
 * that the index names and in no other that it names. ERR_MODEL, or ERR_MISSING when there are no
 * weights (or the system's codes). */
int weights_open(const char *dir, struct weights **ret, struct err *err);
/* One file: safetensors, or a PyTorch checkpoint, a training's included. ERR_MODEL, also when it is
 * not there. */
int weights_open_file(const char *path, struct weights **ret, struct err *err);
void weights_close(struct weights *w); /* accepts NULL */

/* False when there is no such tensor. *ret points into w. */
bool weights_find(const struct weights *w, const char *name, struct weight *ret);

/* All values of a tensor that has exactly this shape and holds finite numbers alone, in order.
 * ERR_MODEL names the tensor and what is wrong with it. out: [product of dim]. */
int weights_values(const struct weights *w, const char *name, uint32_t rank, const uint64_t *dim,
                   float *out, struct err *err);

/* The checkpoint when it is one of OpenAI's, which also says the model's dimensions; else NULL. */
const struct checkpoint *weights_openai(const struct weights *w);

/* CTranslate2's file when it is one, which says them by its variables' shapes; else NULL. */
const struct ct2_file *weights_ct2(const struct weights *w);
/* whisper.cpp's file when it is one, which says them in numbers; else NULL. */
const struct ggml_file *weights_ggml(const struct weights *w);

#endif
