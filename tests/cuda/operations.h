/* tests/cuda/operations.h - what tests of the CUDA module's operations share: the emulated module,
 * a device of it, numbers, tensors. */
#ifndef NIGHTSHIFT_TESTS_CUDA_OPERATIONS_H
#define NIGHTSHIFT_TESTS_CUDA_OPERATIONS_H

#include "tests/cuda/module.h"

extern struct emulated cuda;     /* open_module's */
extern uint32_t operations_seed; /* of the values that come next */

int open_module(void **unused);   /* of the group, before its first test */
void nothing_held(void **unused); /* its last test: all that CUDA gave was given back */

struct backend *open_device(bool deterministic);
/* Between -1 and 1; the caller frees them. */
float *values(size_t n);
/* Device memory of the backend; from: its bytes, or NULL. */
void *device_new(struct backend *be, size_t bytes, const void *from);
struct tensor tensor_new(struct backend *be, size_t rows, size_t cols, const float *x);
/* What an epilogue makes of a sum, in double precision; old: what stood there. */
double finished(double sum, enum epilogue epilogue, double old);

#endif
