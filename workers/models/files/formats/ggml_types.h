/* workers/models/files/formats/ggml_types.h - the number types of ggml's tensors: floats, and
 * blocks of a few bits for each value with factors of their own.
 *
 * Types by ggml's numbers: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 (blocks of 32 values), Q2_K
 * to Q6_K (blocks of 256). A block lies within one row. Pure. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_GGML_TYPES_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_GGML_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "workers/models/files/weight.h"

/* Sets the type of w and its dependent members; false: an unsupported type. */
bool ggml_type_set(struct weight *w, uint32_t type);
/* The bytes of a tensor of this type and shape; false: there is no such tensor. */
bool ggml_type_bytes(const struct weight *w, uint64_t *ret);

#endif
