/* workers/models/files/weight_layout.h - in which files a model's weights are.
 *
 * A folder holds them as one of, the first that is there:
 *   model.safetensors
 *   model.safetensors.index.json and the shards (model-00001-of-00003.safetensors ...) it names
 *   pytorch_model.bin
 *   pytorch_model.bin.index.json and its shards
 *   model.bin: CTranslate2's
 *   adapter_config.json and a LoRA adapter's matrices, which adapter.h finds
 *   NAME.pt, the only file of such a name: OpenAI's own checkpoint
 * A whisper.cpp model is a single file, recognized by its first bytes. All others are recognized by
 * file names: no weights are read here. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHT_LAYOUT_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHT_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define WEIGHT_INDEX_MAX_BYTES (16u << 20)
#define WEIGHT_INDEX_MAX_TENSORS 100000
#define WEIGHT_INDEX_MAX_FILES 1000

enum weight_format {
    WEIGHT_FORMAT_NONE,
    WEIGHT_FORMAT_SAFETENSORS,
    WEIGHT_FORMAT_TORCH,
    WEIGHT_FORMAT_ADAPTER, /* of another model: adapter.h */
    WEIGHT_FORMAT_CT2,
    WEIGHT_FORMAT_OPENAI,
    WEIGHT_FORMAT_GGML,
};

#define WEIGHT_GGML_MAGIC 0x67676d6cu /* as a little-endian number at the beginning */

struct weight_place {
    const char *tensor;
    uint32_t file;
};

struct weight_layout {
    enum weight_format format;
    const char *index; /* the index's file name; NULL: one file holds everything */
    char **file;       /* file names in the folder, sorted, each once */
    uint32_t file_count;
    struct weight_place *place; /* with an index: where each tensor is, sorted by tensor */
    uint32_t place_count;
    void *owner; /* of the tensors' names */
};

/* dir: a folder, or a file of whisper.cpp's, which is then *ret's one file by its whole path.
 * ERR_MISSING: there are no weights of any layout, or a shard is not there; ERR_MODEL: an index
 * that cannot be, or several .pt files. *ret is weight_layout_free's. */
int weight_layout_find(const char *dir, struct weight_layout *ret, struct err *err);
/* An index alone: {"weight_map": {TENSOR: FILE}}. Files are plain names with the format's suffix.
 */
int weight_layout_parse(const char *json, size_t len, enum weight_format format,
                        struct weight_layout *ret, struct err *err);
void weight_layout_free(struct weight_layout *l);

/* The place of a tensor in an index; NULL when it names none. */
const struct weight_place *weight_layout_place(const struct weight_layout *l, const char *tensor);

/* The format that weight_layout_find would find, by names alone; NONE: it would find none. */
enum weight_format weight_layout_format(const char *dir);
/* Whether weights of this format say the sizes of a Whisper network themselves. */
bool weight_format_has_sizes(enum weight_format format);

#endif
