/* workers/models/files/weights.h - a model's tensors, in any layout of its folder.
 *
 * One file or shards with an index, safetensors, PyTorch's, CTranslate2's or whisper.cpp's, with
 * Hugging Face's names, OpenAI's or CTranslate2's (see weight_layout.h): tensors are found by
 * Hugging Face's names and read as float32. An adapter's tensors are those of its base with its
 * deltas added. Files are mapped; nothing is copied. Immutable after opening: any thread may
 * read. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHTS_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* ---- a network's tensors as arrays, their sizes found in the file
 *
 * Used for networks without a config file. The arrays live until the pool is freed. */

struct weights_block;

struct weights_pool { /* zeroed: empty */
    struct weights_block *first;
};

bool weights_has(const struct weights *w, const char *name);
/* Whether any of n tensors is there whose names are the formats, each with the number `layer` for
 * its one %u: of a layer of which a part is missing, that part is to be missed. */
bool weights_has_layer(const struct weights *w, const char *const *formats, size_t n,
                       uint32_t layer);
/* All values of a tensor of `rank` dimensions as float32, finite ones alone. dim[i] > 0: it must be
 * that; 0: found, set, and 1 .. most. ERR_MODEL names the tensor and what is wrong with it. */
int weights_take(const struct weights *w, struct weights_pool *pool, const char *name,
                 uint32_t rank, uint32_t *dim, uint32_t most, float **ret, struct err *err);
/* An array of `count` values for something computed from them. NULL: no memory. */
float *weights_pool_array(struct weights_pool *pool, uint64_t count);
void weights_pool_free(struct weights_pool *pool);

/* ---- what a tensor of Whisper is called in each layout
 *
 * Everything above the files asks by Hugging Face's names. Pure. */

#define WEIGHT_NAME_MAX 200 /* with the NUL: room for any of these */

/* Another layout's tensor, of which ours is one of `parts` equal parts of the rows. */
struct weight_alias {
    char name[WEIGHT_NAME_MAX];
    uint32_t part, parts;
};

/* False: Hugging Face's `name` is none of Whisper's. */
bool weight_name_openai(const char *name, struct weight_alias *ret);
bool weight_name_ct2(const char *name, struct weight_alias *ret);

#endif
