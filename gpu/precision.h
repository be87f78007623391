/* gpu/precision.h - how a model's matrix products are computed, and what lies between them.
 *
 * Sums, layer norms, softmax and logits are float32 in all of them. */
#ifndef NIGHTSHIFT_GPU_PRECISION_H
#define NIGHTSHIFT_GPU_PRECISION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/tensor.h"

enum precision {
    PRECISION_AUTO, /* the device's best: backend_precision */
    PRECISION_F32,
    PRECISION_TF32, /* float32 whose products are rounded to 11 bits of fraction (sm_80 and later)
                     */
    PRECISION_F16,
    PRECISION_BF16,
    PRECISION_INT8, /* weights of 8 bits, one scale an output; inputs of 8 bits, one scale a row;
                       float16 between the products */
    PRECISION_INT8_F32,  /* the same with float32 between them: what a processor takes for int8 */
    PRECISION_INT8_BF16, /* or bfloat16, where it has that */
    PRECISION_INT16, /* weights and inputs of 16 bits, a scale for every 64 inputs of an output and
                        of a row, float32 between the products: errs as float16, and is what a
                        processor without bfloat16 takes; LINEAR_ROWS as fp32 */
    PRECISION_FP8,   /* e4m3 weights, one scale an output, and inputs, one scale a row (sm_90
                        alone), bfloat16 between the products; LINEAR_ROWS as bf16: few rows are
                        bound by what is around a product, and gain nothing */
    PRECISION_COUNT,
};

#define INT16_SPAN 64 /* inputs that share a scale */

/* A set of them: bit (1u << PRECISION_...). */
typedef uint32_t precision_set;

/* "auto", "fp32", "tf32", "fp16", "bf16", "int8", "fp8", "int16"; all three of int8 have its name.
 */
const char *precision_name(enum precision p);
/* Also "", "f32", "f16"; ERR_USAGE names them all. */
int precision_parse(const char *name, enum precision *ret, struct err *err);
/* What can be asked for, for completion; ends with NULL. */
extern const char *const precision_choices[], *const cache_precision_choices[];
/* The type between the products, and of keys and values. */
enum dtype precision_type(enum precision p);
/* The type that wide products read in the end: what only they read is best written in it. */
enum dtype precision_input(enum precision p);
/* The precision between products of integers and fp8, where these would lose too much; p itself for
 * the others. */
enum precision precision_fine(enum precision p);
/* The precision of products with few rows (LINEAR_ROWS) if p was asked for. */
enum precision precision_of_rows(enum precision p);
/* Bytes of one weight of a matrix product. */
uint32_t precision_weight_bytes(enum precision p);
/* Bytes of the weights of a product, [out][in], and of their scales where they have some. */
uint64_t precision_product_bytes(enum precision p, uint64_t out, uint64_t in);
/* How the keys and values that the decoder looks at of a window are kept: most of what a step
 * reads. Own ones, of tokens, are always of the precision's own type. */
enum cache_precision {
    CACHE_AUTO,
    CACHE_16, /* the precision's own type: 16 bits, or float32 with fp32 and tf32 */
    CACHE_8,  /* DTYPE_I8: gpu/backend.h, struct kv */
    CACHE_COUNT,
};

/* "auto", "16", "8". */
const char *cache_precision_name(enum cache_precision c);
/* Also "", "16bit", "8bit"; ERR_USAGE names them all. */
int cache_precision_parse(const char *name, enum cache_precision *ret, struct err *err);
/* AUTO becomes 8 for precisions of 16 bits and less, whose rounding is similar; else 16. fp32 is
 * the reference for all others, and rounds nothing without being told to. */
enum cache_precision cache_precision_resolve(enum cache_precision wish, enum precision p);
enum dtype cache_precision_type(enum cache_precision resolved, enum precision p);

/* What an NVIDIA GPU of this compute capability, 7.5 or later, has. fp8 on 9.0 alone: elsewhere
 * cuBLASLt applies no scale for each row to it. */
precision_set precisions_of_gpu(int major, int minor);
/* AUTO on a device that has `have`: fp16, else bf16, else int16, else fp32. int8 and fp8, which
 * cost words, must be asked for. */
enum precision precision_auto(precision_set have);
/* The precision for a wish on such a device: AUTO and the three int8 ones become one that it has,
 * others stay as they are. The result need not be in `have`. */
enum precision precision_resolve(enum precision wish, precision_set have);

#endif
