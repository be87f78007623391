#include "workers/models/files/formats/ggml_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "gpu/tensor.h"
#include "gpu/weights_map.h"
#include "workers/models/files/weight_layout.h"

/* ---- the number types of tensors: floats, and blocks of a few bits for each value with factors of
 * their own
 *
 * Types by ggml's numbers: F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0 (blocks of 32 values), Q2_K
 * to Q6_K (blocks of 256). A block lies within one row. Pure. */

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

/* Sets the type of w and its dependent members; false: an unsupported type. */
static bool ggml_type_set(struct weight *w, uint32_t type)
{
    if (type >= sizeof(types) / sizeof(types[0]) || !types[type].name)
        return false;
    w->type = types[type].type;
    w->type_name = types[type].name;
    w->blocks = types[type].blocks;
    return true;
}

/* The bytes of a tensor of this type and shape; false: there is no such tensor. */
static bool ggml_type_bytes(const struct weight *w, uint64_t *ret)
{
    uint64_t size = w->type == WEIGHT_F32 ? 4 : 2;

    if (!w->blocks)
        return !__builtin_mul_overflow(w->count, size, ret);
    return w->rank && w->dim[w->rank - 1] % w->blocks->values == 0 &&
           !__builtin_mul_overflow(w->count / w->blocks->values, w->blocks->bytes, ret);
}

/* ---- the file */

#define MAX_TOKENS (1u << 20)
#define MAX_TOKEN_BYTES (32u << 20) /* of all; Whisper's have half a megabyte */
#define MAX_NAME 256
#define MAX_RANK 4

struct ggml_file {
    struct weights_map map; /* none when the memory is the caller's */
    struct ggml_sizes sizes;
    struct ggml_token *token;
    size_t token_count;
    struct weight *tensor; /* sorted by name; owns the names */
    size_t count, capacity;
};

static int cut_off(struct err *err)
{
    return err_set(err, ERR_MODEL,
                   "the file ends too early: it was not downloaded whole, fetch it again");
}

static int read_head(struct ggml_file *g, struct reader *r, struct err *err)
{
    uint32_t *const sizes[] = {
        &g->sizes.vocabulary,  &g->sizes.audio_positions, &g->sizes.audio_state,
        &g->sizes.audio_heads, &g->sizes.audio_layers,    &g->sizes.text_positions,
        &g->sizes.text_state,  &g->sizes.text_heads,      &g->sizes.text_layers,
        &g->sizes.mels,
    };

    if (reader_u32(r) != WEIGHT_GGML_MAGIC)
        return err_set(err, ERR_MODEL, "this is no model of whisper.cpp's");
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        *sizes[i] = reader_u32(r);
    (void)reader_u32(r); /* the type of most tensors; each has its own, too */
    return r->failed ? cut_off(err) : 0;
}

static int skip_filters(struct reader *r, struct err *err)
{
    uint64_t rows = reader_u32(r), values = rows * reader_u32(r);

    if (r->failed || values > (r->len - r->pos) / 4)
        return cut_off(err);
    r->pos += (size_t)values * 4;
    return 0;
}

static int read_tokens(struct ggml_file *g, struct reader *r, struct err *err)
{
    uint32_t n = reader_u32(r);
    size_t start = r->pos;

    if (r->failed || n > (r->len - r->pos) / 4)
        return cut_off(err);
    if (n > MAX_TOKENS)
        return err_set(err, ERR_MODEL, "it claims %u tokens, over %u", n, MAX_TOKENS);
    g->token = calloc((size_t)n + 1, sizeof(*g->token));
    if (!g->token)
        return err_set(err, ERR_NOMEM, "out of memory for the list of tokens");
    for (; g->token_count < n; g->token_count++) {
        struct ggml_token *t = &g->token[g->token_count];

        t->len = reader_u32(r);
        t->bytes = reader_raw(r, t->len);
        if (r->failed)
            return cut_off(err);
        if (r->pos - start > MAX_TOKEN_BYTES)
            return err_set(err, ERR_MODEL, "its tokens have over %u MiB", MAX_TOKEN_BYTES >> 20);
    }
    return 0;
}

/* The dimensions stand there with the last one first. A last one of 1, which biases of convolutions
 * have, is none. */
static int read_shape(struct reader *r, struct weight *w, uint32_t rank, struct err *err)
{
    w->rank = rank;
    w->count = 1;
    for (uint32_t i = rank; i-- > 0;) {
        w->dim[i] = reader_u32(r);
        if (__builtin_mul_overflow(w->count, w->dim[i], &w->count))
            return err_set(err, ERR_MODEL, "a tensor has an impossible shape");
    }
    while (w->rank > 1 && w->dim[w->rank - 1] == 1)
        w->rank--;
    return r->failed ? cut_off(err) : 0;
}

static int read_name(struct reader *r, uint32_t len, struct weight *w, struct err *err)
{
    const uint8_t *name = len <= MAX_NAME ? reader_raw(r, len) : NULL;

    if (r->failed)
        return cut_off(err);
    if (!name || !len || memchr(name, 0, len))
        return err_set(err, ERR_MODEL, "a tensor has no name of 1 to %d bytes", MAX_NAME);
    w->name = strndup((const char *)name, len);
    return w->name ? 0 : err_set(err, ERR_NOMEM, "out of memory for the list of tensors");
}

static int read_data(struct reader *r, struct weight *w, uint32_t type, struct err *err)
{
    uint64_t bytes;

    if (!ggml_type_set(w, type))
        return err_set(err, ERR_MODEL,
                       "tensor '%.200s' is of ggml's type %u, which is not read here", w->name,
                       type);
    if (!ggml_type_bytes(w, &bytes))
        return err_set(err, ERR_MODEL, "tensor '%.200s' has no shape that %s can have", w->name,
                       w->type_name);
    if (bytes > r->len - r->pos)
        return err_set(err, ERR_MODEL,
                       "tensor '%.200s' ends %llu bytes past the end of the file: it was not "
                       "downloaded whole, fetch it again",
                       w->name, (unsigned long long)(bytes - (r->len - r->pos)));
    w->data = reader_raw(r, (size_t)bytes);
    weight_set_contiguous(w);
    return 0;
}

static int read_tensor(struct reader *r, struct weight *w, struct err *err)
{
    uint32_t rank = reader_u32(r), name_len = reader_u32(r), type = reader_u32(r);
    int rc;

    if (r->failed)
        return cut_off(err);
    if (rank < 1 || rank > MAX_RANK)
        return err_set(err, ERR_MODEL, "a tensor has %u dimensions, not 1 to %d", rank, MAX_RANK);
    rc = read_shape(r, w, rank, err);
    if (rc == 0)
        rc = read_name(r, name_len, w, err);
    return rc != 0 ? rc : read_data(r, w, type, err);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

/* A zeroed place at the end; NULL: no memory. */
static struct weight *next_place(struct ggml_file *g)
{
    size_t capacity = g->capacity ? 2 * g->capacity : 256;
    struct weight *more;

    if (g->count == g->capacity) {
        more = realloc(g->tensor, capacity * sizeof(*more));
        if (!more)
            return NULL;
        g->tensor = more;
        g->capacity = capacity;
    }
    g->tensor[g->count] = (struct weight){0};
    return &g->tensor[g->count++];
}

/* Tensors follow each other up to the end of the file. */
static int read_tensors(struct ggml_file *g, struct reader *r, struct err *err)
{
    while (r->pos < r->len) {
        struct weight *w = g->count < WEIGHT_INDEX_MAX_TENSORS ? next_place(g) : NULL;
        int rc;

        if (!w && g->count < WEIGHT_INDEX_MAX_TENSORS)
            return err_set(err, ERR_NOMEM, "out of memory for the list of tensors");
        if (!w)
            return err_set(err, ERR_MODEL, "it has over %d tensors", WEIGHT_INDEX_MAX_TENSORS);
        rc = read_tensor(r, w, err);
        if (rc != 0)
            return rc;
    }
    if (!g->count)
        return err_set(err, ERR_MODEL, "it has no tensors: it is a file for tests, or not whole");
    qsort(g->tensor, g->count, sizeof(*g->tensor), by_name);
    for (size_t i = 1; i < g->count; i++)
        if (strcmp(g->tensor[i - 1].name, g->tensor[i].name) == 0)
            return err_set(err, ERR_MODEL, "tensor '%.200s' is there twice", g->tensor[i].name);
    return 0;
}

int ggml_file_parse(const void *data, size_t len, struct ggml_file **ret, struct err *err)
{
    struct ggml_file *g = calloc(1, sizeof(*g));
    struct reader r = reader_of(data, len);
    int rc;

    if (!g)
        return err_set(err, ERR_NOMEM, "out of memory for a weight file");
    rc = read_head(g, &r, err);
    if (rc == 0)
        rc = skip_filters(&r, err);
    if (rc == 0)
        rc = read_tokens(g, &r, err);
    if (rc == 0)
        rc = read_tensors(g, &r, err);
    if (rc != 0) {
        utf8_display_err(err);
        ggml_file_close(g);
        return rc;
    }
    *ret = g;
    return 0;
}

int ggml_file_open(const char *path, struct ggml_file **ret, struct err *err)
{
    struct weights_map map = {0};
    int rc = weights_map_open(path, 4, "model of whisper.cpp's", &map, err);

    if (rc != 0)
        return rc;
    rc = ggml_file_parse(map.data, map.len, ret, err);
    return weights_map_give(&map, path, rc == 0 ? &(*ret)->map : NULL, err);
}

void ggml_file_close(struct ggml_file *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->count; i++)
        free((char *)g->tensor[i].name);
    free(g->tensor);
    free(g->token);
    weights_map_close(&g->map);
    free(g);
}

/* ---- what was read */

const struct ggml_sizes *ggml_file_sizes(const struct ggml_file *g) { return &g->sizes; }

const struct ggml_token *ggml_file_tokens(const struct ggml_file *g, size_t *n)
{
    *n = g->token_count;
    return g->token;
}

size_t ggml_file_count(const struct ggml_file *g) { return g->count; }

const char *ggml_file_name_at(const struct ggml_file *g, size_t i) { return g->tensor[i].name; }

const struct weight *ggml_file_find(const struct ggml_file *g, const char *name)
{
    const struct weight key = {.name = name};

    return bsearch(&key, g->tensor, g->count, sizeof(*g->tensor), by_name);
}
