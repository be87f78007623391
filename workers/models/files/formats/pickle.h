/* workers/models/files/formats/pickle.h - reads the pickle in which PyTorch describes a
 * checkpoint's tensors.
 *
 * A pickle is a program for a small stack machine, and Python's own reader lets that program call
 * any function. This one has no functions to call: it knows the few names that describe tensors
 * (torch._utils._rebuild_tensor_v2 and _rebuild_parameter, torch's storage types and
 * collections.OrderedDict), builds plain values for them, and refuses every other name by that
 * name. It reads numbers, text, lists, tuples, dictionaries and tensors; no object, no class.
 * pickle_parse_skipping does not refuse other names: anything made from them becomes an opaque
 * value. It calls nothing either.
 *
 * The cost of a hostile file is bounded: the limits below are for bytes, values, memo entries and
 * nesting, and each byte of input makes at most one value. Values may contain themselves (through
 * the memo), so a caller must not walk them without a bound of its own. Everything is checked when
 * it is read: a tensor that is handed out has a storage, at most PICKLE_MAX_RANK dimensions and no
 * negative number; the caller checks the storage's content. Immutable afterwards, any thread. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_PICKLE_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PICKLE_MAX_BYTES (64u << 20)
#define PICKLE_MAX_VALUES (1u << 20) /* a large Whisper model has some 30 000 */
#define PICKLE_MAX_MEMO (1u << 20)
#define PICKLE_MAX_MARKS 64 /* open brackets */
#define PICKLE_MAX_RANK 8

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,
    PICKLE_INT,
    PICKLE_FLOAT,
    PICKLE_TEXT,
    PICKLE_BYTES,
    PICKLE_LIST,
    PICKLE_TUPLE,
    PICKLE_DICT, /* items: key, value, key, value ... in the order of the file */
    PICKLE_GLOBAL,
    PICKLE_STORAGE,
    PICKLE_TENSOR,
    PICKLE_OPAQUE, /* of pickle_parse_skipping alone */
};

enum pickle_storage_type {
    PICKLE_FLOAT32,
    PICKLE_FLOAT16,
    PICKLE_BFLOAT16,
    PICKLE_FLOAT64,
    PICKLE_INT64,
    PICKLE_INT32,
    PICKLE_INT16,
    PICKLE_INT8,
    PICKLE_UINT8,
    PICKLE_BOOLEAN,
};

struct pickle_value;

struct pickle_tensor {
    uint32_t storage; /* a value: PICKLE_STORAGE */
    uint64_t offset;  /* elements */
    uint32_t rank;
    uint64_t dim[PICKLE_MAX_RANK], stride[PICKLE_MAX_RANK]; /* elements */
};

struct pickle_value {
    enum pickle_kind kind;
    union {
        int64_t integer; /* and PICKLE_BOOL */
        double real;
        struct {
            const char *at; /* borrowed from the input, no NUL behind it */
            size_t len;
        } text; /* and PICKLE_BYTES */
        struct {
            uint32_t *item;       /* values, for pickle_at */
            uint32_t n, capacity; /* n counts keys and values of a dictionary */
        } list;                   /* and PICKLE_TUPLE, PICKLE_DICT */
        uint32_t global;
        struct {
            uint32_t key; /* a value: PICKLE_TEXT, the name of the file with its bytes */
            enum pickle_storage_type type;
            uint64_t count; /* elements */
        } storage;
        struct pickle_tensor *tensor;
    } u;
};

struct pickle;

/* ERR_MODEL with a sentence. data is borrowed until pickle_free. */
int pickle_parse(const void *data, size_t len, struct pickle **ret, struct err *err);
/* Reads training checkpoints, which hold more than tensors (settings, a specification): unknown
 * names become PICKLE_OPAQUE values. */
int pickle_parse_skipping(const void *data, size_t len, struct pickle **ret, struct err *err);
void pickle_free(struct pickle *p); /* accepts NULL */

const struct pickle_value *pickle_root(const struct pickle *p);
const struct pickle_value *pickle_at(const struct pickle *p, uint32_t value);
/* The value of a text key in a dictionary; NULL when it is none or has no such key. */
const struct pickle_value *pickle_get(const struct pickle *p, const struct pickle_value *dict,
                                      const char *key);
bool pickle_is_text(const struct pickle_value *v, const char *text);

#endif
