/* workers/models/files/weight_reader.h - what every kind of weight file can be asked.
 *
 * Tensors by their names in the file; weights.h translates names. Files are mapped and
 * immutable: any thread may read. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHT_READER_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHT_READER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "workers/models/files/weight.h"
#include "workers/models/files/weight_layout.h"

struct weight_reader {
    /* *ret is `close`'s; ERR_MODEL and the system's codes */
    int (*open)(const char *path, void **ret, struct err *err);
    void (*close)(void *file);
    size_t (*count)(const void *file);
    const char *(*name_at)(const void *file, size_t i);
    bool (*find)(const void *file, const char *name, struct weight *ret);
};

/* The reader of a format, not NONE. Static. */
const struct weight_reader *weight_reader(enum weight_format format);
/* Reads a training checkpoint, which holds more than tensors. */
extern const struct weight_reader weight_reader_training;

#endif
