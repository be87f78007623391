#include "gpu/precision.h"

#include <string.h>

static const struct {
    const char *name;
    enum dtype type;
    uint32_t weight_bytes;
} precisions[PRECISION_COUNT] = {
    [PRECISION_AUTO] = {"auto", DTYPE_F32, 4},     [PRECISION_F32] = {"fp32", DTYPE_F32, 4},
    [PRECISION_TF32] = {"tf32", DTYPE_F32, 4},     [PRECISION_F16] = {"fp16", DTYPE_F16, 2},
    [PRECISION_BF16] = {"bf16", DTYPE_BF16, 2},    [PRECISION_INT8] = {"int8", DTYPE_F16, 1},
    [PRECISION_INT8_F32] = {"int8", DTYPE_F32, 1}, [PRECISION_INT8_BF16] = {"int8", DTYPE_BF16, 1},
    [PRECISION_FP8] = {"fp8", DTYPE_BF16, 1},      [PRECISION_INT16] = {"int16", DTYPE_F32, 2},
};

const char *const precision_choices[] = {"auto",  "fp32", "tf32", "fp16", "bf16",
                                         "int16", "int8", "fp8",  NULL};
const char *const cache_precision_choices[] = {"auto", "16", "8", NULL};

const char *precision_name(enum precision p) { return precisions[p].name; }

enum dtype precision_type(enum precision p) { return precisions[p].type; }

enum dtype precision_input(enum precision p)
{
    return p == PRECISION_FP8 ? DTYPE_E4M3 : precision_type(p);
}

enum precision precision_fine(enum precision p)
{
    switch (p) {
    case PRECISION_INT8:
        return PRECISION_F16;
    case PRECISION_INT8_F32:
    case PRECISION_INT16:
        return PRECISION_F32;
    case PRECISION_INT8_BF16:
    case PRECISION_FP8:
        return PRECISION_BF16;
    default:
        return p;
    }
}

enum precision precision_of_rows(enum precision p)
{
    return p == PRECISION_FP8 ? PRECISION_BF16 : p == PRECISION_INT16 ? PRECISION_F32 : p;
}

uint32_t precision_weight_bytes(enum precision p) { return precisions[p].weight_bytes; }

uint64_t precision_product_bytes(enum precision p, uint64_t out, uint64_t in)
{
    uint32_t weight = precision_weight_bytes(p);
    uint64_t scales = p == PRECISION_INT16 ? out * ((in + INT16_SPAN - 1) / INT16_SPAN)
                      : weight == 1        ? out
                                           : 0;

    return out * in * weight + scales * sizeof(float);
}

int precision_parse(const char *name, enum precision *ret, struct err *err)
{
    static const struct {
        const char *name;
        enum precision precision;
    } others[] = {{"", PRECISION_AUTO}, {"f32", PRECISION_F32}, {"f16", PRECISION_F16}};

    for (int i = 0; i < PRECISION_COUNT; i++) {
        if (strcmp(precisions[i].name, name) == 0) {
            *ret = (enum precision)i;
            return 0;
        }
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (strcmp(others[i].name, name) == 0) {
            *ret = others[i].precision;
            return 0;
        }
    }
    return err_set(
        err, ERR_USAGE,
        "precision '%.40s' is not known: auto, fp32, tf32, fp16, bf16, int16, int8 or fp8", name);
}

precision_set precisions_of_gpu(int major, int minor)
{
    int sm = major * 10 + minor;
    precision_set have = 1u << PRECISION_F32 | 1u << PRECISION_F16 | 1u << PRECISION_INT8;

    if (sm >= 80)
        have |= 1u << PRECISION_TF32 | 1u << PRECISION_BF16;
    if (sm == 90)
        have |= 1u << PRECISION_FP8;
    return have;
}

/* fp16 before bf16, which rounds eight times as much and is no faster where both are: of 1,171
 * words that whisper-base hears, bf16 changes 1.2 % and fp16 none (docs/measurements.md). */
enum precision precision_auto(precision_set have)
{
    if (have & 1u << PRECISION_F16)
        return PRECISION_F16;
    if (have & 1u << PRECISION_BF16)
        return PRECISION_BF16;
    if (have & 1u << PRECISION_INT16)
        return PRECISION_INT16;
    return PRECISION_F32;
}

enum precision precision_resolve(enum precision wish, precision_set have)
{
    if (wish == PRECISION_AUTO)
        return precision_auto(have);
    for (int p = PRECISION_INT8; p <= PRECISION_INT8_BF16; p++)
        if (have & 1u << p && wish >= PRECISION_INT8 && wish <= PRECISION_INT8_BF16)
            return (enum precision)p;
    return wish;
}

static const char *const caches[CACHE_COUNT] = {
    [CACHE_AUTO] = "auto", [CACHE_16] = "16", [CACHE_8] = "8"};

const char *cache_precision_name(enum cache_precision c) { return caches[c]; }

int cache_precision_parse(const char *name, enum cache_precision *ret, struct err *err)
{
    for (int i = 0; i < CACHE_COUNT; i++) {
        size_t n = strlen(caches[i]);

        if (strncmp(caches[i], name, n) == 0 &&
            (name[n] == 0 || (i != CACHE_AUTO && strcmp(name + n, "bit") == 0))) {
            *ret = (enum cache_precision)i;
            return 0;
        }
    }
    if (name[0] == 0) {
        *ret = CACHE_AUTO;
        return 0;
    }
    return err_set(err, ERR_USAGE, "caches of '%.40s' are not known: auto, 16 or 8", name);
}

enum cache_precision cache_precision_resolve(enum cache_precision wish, enum precision p)
{
    if (wish != CACHE_AUTO)
        return wish;
    return precision_weight_bytes(p) <= 2 ? CACHE_8 : CACHE_16;
}

enum dtype cache_precision_type(enum cache_precision resolved, enum precision p)
{
    return resolved == CACHE_8 ? DTYPE_I8 : precision_type(p);
}
