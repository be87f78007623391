#include "workers/models/files/formats/ggml_types.h"

#include <string.h>

#include "gpu/tensor.h"

/* A half-precision factor, little-endian and not aligned. */
static float half_at(const uint8_t *p)
{
    uint16_t half;

    memcpy(&half, p, 2);
    return f16_to_f32(half);
}

/* ---- 32 values: the low halves of 16 bytes are the first 16, the high ones the others */

/* factor d; value (q - 8) d */
static void unpack_q4_0(const uint8_t *b, float *out)
{
    float d = half_at(b);

    for (int i = 0; i < 16; i++) {
        out[i] = (float)((b[2 + i] & 15) - 8) * d;
        out[16 + i] = (float)((b[2 + i] >> 4) - 8) * d;
    }
}

/* factor d, least value m; value q d + m */
static void unpack_q4_1(const uint8_t *b, float *out)
{
    float d = half_at(b), m = half_at(b + 2);

    for (int i = 0; i < 16; i++) {
        out[i] = (float)(b[4 + i] & 15) * d + m;
        out[16 + i] = (float)(b[4 + i] >> 4) * d + m;
    }
}

/* The fifth bit of value i is bit i of four bytes. */
static int fifth(const uint8_t *bits, int i) { return (bits[i / 8] >> (i % 8) & 1) << 4; }

static void unpack_q5_0(const uint8_t *b, float *out)
{
    float d = half_at(b);

    for (int i = 0; i < 16; i++) {
        out[i] = (float)(((b[6 + i] & 15) | fifth(b + 2, i)) - 16) * d;
        out[16 + i] = (float)((b[6 + i] >> 4 | fifth(b + 2, 16 + i)) - 16) * d;
    }
}

static void unpack_q5_1(const uint8_t *b, float *out)
{
    float d = half_at(b), m = half_at(b + 2);

    for (int i = 0; i < 16; i++) {
        out[i] = (float)((b[8 + i] & 15) | fifth(b + 4, i)) * d + m;
        out[16 + i] = (float)(b[8 + i] >> 4 | fifth(b + 4, 16 + i)) * d + m;
    }
}

static void unpack_q8_0(const uint8_t *b, float *out)
{
    float d = half_at(b);

    for (int i = 0; i < 32; i++)
        out[i] = (float)(int8_t)b[2 + i] * d;
}

/* ---- 256 values in 8 or 16 groups, whose factors are integers times the block's */

/* 16 bytes of a factor and a least value of 4 bits, 64 of two bits for each value, d, dmin. Two
 * bits of 32 bytes are 32 values, first the lowest. */
static void unpack_q2_k(const uint8_t *b, float *out)
{
    const uint8_t *q = b + 16;
    float d = half_at(b + 80), m = half_at(b + 82);

    for (int g = 0; g < 16; g++) {
        const uint8_t *at = q + 32 * (g / 8) + 16 * (g % 2);
        float factor = d * (float)(b[g] & 15), least = m * (float)(b[g] >> 4);

        for (int i = 0; i < 16; i++)
            *out++ = factor * (float)(at[i] >> (g % 8 / 2 * 2) & 3) - least;
    }
}

/* 32 bytes of a third bit for each value (where it is not set, 4 is taken off), 64 of two bits, 12
 * of 16 factors of 6 bits, d. */
static void unpack_q3_k(const uint8_t *b, float *out)
{
    const uint8_t *q = b + 32, *s = b + 96;
    float d = half_at(b + 108);

    for (int g = 0; g < 16; g++) {
        int low = s[g % 8] >> (g / 8 * 4) & 15, high = s[8 + g % 4] >> (g / 4 * 2) & 3;
        const uint8_t *at = q + 32 * (g / 8) + 16 * (g % 2), *bit = b + 16 * (g % 2);
        float factor = d * (float)((low | high << 4) - 32);

        for (int i = 0; i < 16; i++) {
            int value = at[i] >> (g % 8 / 2 * 2) & 3;

            *out++ = factor * (float)(value - (bit[i] >> (g / 2) & 1 ? 0 : 4));
        }
    }
}

/* The factor and the least value of group g of 8, of 6 bits each, in 12 bytes: of the first four
 * the low bits of eight bytes, of the others four bits of the last four, and the two high bits of
 * the first eight. */
static void six_bits(const uint8_t *s, int g, int *factor, int *least)
{
    if (g < 4) {
        *factor = s[g] & 63;
        *least = s[g + 4] & 63;
    } else {
        *factor = (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        *least = s[g + 4] >> 4 | s[g] >> 6 << 4;
    }
}

/* d, dmin, 12 bytes of factors, [fifths: 32 bytes of a fifth bit,] 128 of four bits: the low halves
 * of 32 bytes are one group, the high ones the next. */
static void unpack_groups(const uint8_t *b, const uint8_t *fifths, const uint8_t *q, float *out)
{
    float d = half_at(b), m = half_at(b + 2);

    for (int g = 0; g < 8; g++) {
        int factor, least;
        float f, l;

        six_bits(b + 4, g, &factor, &least);
        f = d * (float)factor;
        l = m * (float)least;
        for (int i = 0; i < 32; i++) {
            int value = q[32 * (g / 2) + i] >> (g % 2 * 4) & 15;

            if (fifths)
                value |= (fifths[i] >> g & 1) << 4;
            *out++ = f * (float)value - l;
        }
    }
}

static void unpack_q4_k(const uint8_t *b, float *out) { unpack_groups(b, NULL, b + 16, out); }

static void unpack_q5_k(const uint8_t *b, float *out) { unpack_groups(b, b + 16, b + 48, out); }

/* 128 bytes of four bits, 64 of two more, 16 factors of 8 bits, d. In each half of the block: the
 * low halves of 64 bytes, then the high ones. */
static void unpack_q6_k(const uint8_t *b, float *out)
{
    const int8_t *s = (const int8_t *)b + 192;
    float d = half_at(b + 208);

    for (int i = 0; i < 256; i++) {
        int half = i / 128, in = i % 128;
        int low = b[64 * half + in % 64] >> (in / 64 * 4) & 15;
        int high = b[128 + 32 * half + in % 32] >> (in / 32 * 2) & 3;

        out[i] = d * (float)s[i / 16] * (float)((low | high << 4) - 32);
    }
}

/* ---- all of them */

static const struct weight_blocks q4_0 = {32, 18, unpack_q4_0}, q4_1 = {32, 20, unpack_q4_1},
                                  q5_0 = {32, 22, unpack_q5_0}, q5_1 = {32, 24, unpack_q5_1},
                                  q8_0 = {32, 34, unpack_q8_0}, q2_k = {256, 84, unpack_q2_k},
                                  q3_k = {256, 110, unpack_q3_k}, q4_k = {256, 144, unpack_q4_k},
                                  q5_k = {256, 176, unpack_q5_k}, q6_k = {256, 210, unpack_q6_k};

static const struct {
    const char *name;
    enum weight_type type;
    const struct weight_blocks *blocks;
} types[] = {
    [0] = {"F32", WEIGHT_F32, NULL},       [1] = {"F16", WEIGHT_F16, NULL},
    [2] = {"Q4_0", WEIGHT_BLOCKS, &q4_0},  [3] = {"Q4_1", WEIGHT_BLOCKS, &q4_1},
    [6] = {"Q5_0", WEIGHT_BLOCKS, &q5_0},  [7] = {"Q5_1", WEIGHT_BLOCKS, &q5_1},
    [8] = {"Q8_0", WEIGHT_BLOCKS, &q8_0},  [10] = {"Q2_K", WEIGHT_BLOCKS, &q2_k},
    [11] = {"Q3_K", WEIGHT_BLOCKS, &q3_k}, [12] = {"Q4_K", WEIGHT_BLOCKS, &q4_k},
    [13] = {"Q5_K", WEIGHT_BLOCKS, &q5_k}, [14] = {"Q6_K", WEIGHT_BLOCKS, &q6_k},
    [30] = {"BF16", WEIGHT_BF16, NULL},
};

bool ggml_type_set(struct weight *w, uint32_t type)
{
    if (type >= sizeof(types) / sizeof(types[0]) || !types[type].name)
        return false;
    w->type = types[type].type;
    w->type_name = types[type].name;
    w->blocks = types[type].blocks;
    return true;
}

bool ggml_type_bytes(const struct weight *w, uint64_t *ret)
{
    uint64_t size = w->type == WEIGHT_F32 ? 4 : 2;

    if (!w->blocks)
        return !__builtin_mul_overflow(w->count, size, ret);
    return w->rank && w->dim[w->rank - 1] % w->blocks->values == 0 &&
           !__builtin_mul_overflow(w->count / w->blocks->values, w->blocks->bytes, ret);
}
