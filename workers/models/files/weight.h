/* workers/models/files/weight.h - one tensor of a weight file, whatever the file's format.
 *
 * A view: it owns nothing and lives as long as the file that gave it. Immutable, any thread. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHT_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_WEIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define WEIGHT_MAX_RANK 8

enum weight_type {
    WEIGHT_F32,
    WEIGHT_F16,
    WEIGHT_BF16,
    WEIGHT_F64,
    WEIGHT_I8, /* integers to be divided by a scale */
    WEIGHT_I16,
    WEIGHT_BLOCKS, /* of some values each: `blocks` says how */
    WEIGHT_OTHER,  /* not read here */
};

/* How a block of values is packed. */
struct weight_blocks {
    uint32_t values, bytes;                           /* of one */
    void (*unpack)(const uint8_t *block, float *out); /* [bytes], not aligned; [values] */
};

struct weight_delta;

struct weight {
    const char *name; /* as the file has it */
    enum weight_type type;
    const char *type_name; /* "F16", as safetensors files write it */
    uint32_t rank;
    uint64_t dim[WEIGHT_MAX_RANK];
    uint64_t stride[WEIGHT_MAX_RANK]; /* elements from one index to the next */
    uint64_t count;                   /* elements: the product of dim */
    const void *data;                 /* the first element; not aligned */
    /* Scales of I8 and I16, whose values lie in order: F32, F16 or BF16, not aligned; one for each
     * index of the first dimension, or one for all. */
    const void *scale;
    enum weight_type scale_type;
    bool scale_rows;
    const struct weight_blocks *blocks; /* of BLOCKS, which lie in order, whole ones in each row */
    const struct weight_delta *delta;   /* what is added to the values; NULL: nothing */
};

/* A matrix of low rank: `factor` times the product of b [rows][rank] and a [rank][the other
 * dimensions]. */
struct weight_delta {
    struct weight a, b;
    float factor;
};

/* The strides of a tensor whose elements lie in order, last dimension first. */
void weight_set_contiguous(struct weight *w);

/* The part of `n` indices of the first dimension from `first` on, which are there; not of BLOCKS.
 */
void weight_rows(const struct weight *w, uint64_t first, uint64_t n, struct weight *ret);

/* All `count` values in order as float32, with their delta, gathered where the tensor is a view of
 * another (a transposed one, say). ERR_MODEL when they are no floating-point numbers, or integers
 * with a scale that is none. */
int weight_read(const struct weight *w, float *out, struct err *err);

#endif
