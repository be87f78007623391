/* workers/models/files/formats/ggml_file.h - a model of whisper.cpp's: one file, such as
 * ggml-small.bin.
 *
 * The magic number, the sizes of the network, mel filters (not used: they are computed here), the
 * text tokens as bytes, then tensors one after the other (dimensions, type, name, bytes), whose
 * names are OpenAI's. The file is mapped; no tensor is copied.
 *
 * Every tensor that is offered lies within the file. Failures are ERR_MODEL with a printable
 * sentence (or ERR_MISSING, ERR_DENIED, ERR_IO from the system). Immutable after opening: any
 * thread may read. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_GGML_FILE_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_GGML_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/models/files/weight.h"

/* The file's header fields, in its order; not checked. */
struct ggml_sizes {
    uint32_t vocabulary, audio_positions, audio_state, audio_heads, audio_layers;
    uint32_t text_positions, text_state, text_heads, text_layers, mels;
};

struct ggml_token {
    const uint8_t *bytes;
    uint32_t len;
};

struct ggml_file;

int ggml_file_open(const char *path, struct ggml_file **ret, struct err *err);
/* The same over memory of the caller, which must outlive *ret. */
int ggml_file_parse(const void *data, size_t len, struct ggml_file **ret, struct err *err);
void ggml_file_close(struct ggml_file *g); /* accepts NULL */

const struct ggml_sizes *ggml_file_sizes(const struct ggml_file *g);
/* The text tokens by their ids; special tokens follow them, and are not in the file. */
const struct ggml_token *ggml_file_tokens(const struct ggml_file *g, size_t *n);

size_t ggml_file_count(const struct ggml_file *g);
const char *ggml_file_name_at(const struct ggml_file *g, size_t i); /* sorted */
const struct weight *ggml_file_find(const struct ggml_file *g, const char *name);

#endif
