/* tests/ops/check.h - tensors with random values, and their comparison with a reference. One
 * backend for a program. */
#ifndef NIGHTSHIFT_TESTS_OPS_CHECK_H
#define NIGHTSHIFT_TESTS_OPS_CHECK_H

#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "tests/ops/ops.h"

#define HEAD BACKEND_HEAD_SIZE
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

extern struct backend *be; /* between open_backend and close_backend */
extern const enum dtype types[3];

/* For cmocka's group: closing fails when memory was not released. */
int open_backend(void **state);
int close_backend(void **state);

bool computes(enum precision p);
/* Whether attention and caches of this type can be had: those of some precision that the device
 * has. */
bool have(enum dtype type);
/* n values in [-scale, scale], as the type can hold them (of float16 coarser ones). To be freed. */
float *values(size_t n, enum dtype type, float scale, uint32_t seed);
/* A tensor on the device with these values (zeros for NULL). */
struct tensor tensor_new(enum dtype type, size_t rows, size_t cols, const float *x);
void tensor_free(struct tensor t);
/* Rows of a step, in device memory. */
struct token_row *rows_new(const struct token_row *rows, size_t n);
/* An empty cache with gaps between the slots. */
struct kv kv_new(enum dtype type, uint32_t heads, uint32_t capacity, uint32_t slots);
/* Compares a tensor with its reference, and prints the case when it is not near enough. */
void compare(const char *what, enum precision p, struct tensor have_t, const double *want,
             const char *shape, uint32_t seed);

#endif
