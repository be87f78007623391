/* Every operation of the host backend against double precision, over shapes and number types.
 *
 * Inputs are rounded to the type first, so that only the operation's own error is seen. Tolerances
 * are relative to the largest reference value of the case:
 *   float32 results: 5e-6. Chains of up to 1536 products round 2^-24 each, at random: about 3e-6;
 *   bf16 results: 2^-8, twice what rounding the result itself may cost; attention 2^-7, since it
 *   rounds its weights too, and what they weigh partly cancels.
 * A wrong sign, index, scale or missing term is far outside of either. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "gpu/backend.h"
#include "tests/ops/reference.h"

#define TOLERANCE_F32 5e-6
#define TOLERANCE_BF16 0x1p-8
#define TOLERANCE_ATTENTION_BF16 0x1p-7
#define HEAD BACKEND_HEAD_SIZE

static struct backend *be;
static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16};

static bool have(enum dtype type) { return type == DTYPE_F32 || be->info.bf16; }

static const char *type_name(enum dtype type) { return type == DTYPE_F32 ? "float32" : "bf16"; }

/* n values in [-scale, scale], as the type can hold them. */
static float *values(size_t n, enum dtype type, float scale, uint32_t seed)
{
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * scale;
        if (type == DTYPE_BF16)
            x[i] = bf16_to_f32(f32_to_bf16(x[i]));
    }
    return x;
}

/* A tensor on the device with these values (zeros for NULL). */
static struct tensor tensor_new(enum dtype type, size_t rows, size_t cols, const float *x)
{
    struct err e;
    void *p;

    assert_ok(be->ops->alloc(be, rows * cols * dtype_size(type), &p, &e), e);
    struct tensor t = tensor_of(type, p, (int64_t)rows, (int64_t)cols);
    if (x)
        assert_ok(be->ops->put(be, t, x, &e), e);
    return t;
}

static void tensor_free(struct tensor t) { be->ops->release(be, t.data); }

/* Compares a tensor with its reference and prints the case. */
static void compare(const char *what, struct tensor have_t, const double *want, enum dtype input,
                    const char *shape, uint32_t seed)
{
    size_t n = (size_t)(have_t.rows * have_t.cols);
    float *got = malloc(n * sizeof(*got));
    double high = 1e-30, worst = 0.0, bound;
    struct err e;

    assert_non_null(got);
    assert_ok(be->ops->get(be, got, have_t, &e), e);
    for (size_t i = 0; i < n; i++)
        high = fmax(high, fabs(want[i]));
    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)got[i] - want[i]) / high;

        if (!(d <= worst))
            worst = d;
    }
    bound = have_t.type == DTYPE_F32             ? TOLERANCE_F32
            : strncmp(what, "attention", 9) == 0 ? TOLERANCE_ATTENTION_BF16
                                                 : TOLERANCE_BF16;
    if (!(worst <= bound))
        print_error("%s %s -> %s %s seed %u: %.2e, allowed %.2e\n", what, type_name(input),
                    type_name(have_t.type), shape, seed, worst, bound);
    assert_true(worst <= bound);
    free(got);
}

static void one_linear(enum dtype type, enum dtype out_type, enum linear_use use, size_t rows,
                       size_t in, size_t out, enum epilogue epilogue, bool with_bias)
{
    uint32_t seed = (uint32_t)(rows * 31 + in * 7 + out);
    float *x = values(rows * in, type, 1.0f, seed), *w = values(out * in, type, 0.2f, seed + 1);
    float *bias = with_bias ? values(out, DTYPE_F32, 1.0f, seed + 2) : NULL;
    float *before = values(rows * out, out_type, 1.0f, seed + 3);
    double *want = malloc(rows * out * sizeof(*want));
    struct tensor tx = tensor_new(type, rows, in, x), ty = tensor_new(out_type, rows, out, before);
    struct linear *l;
    char shape[96];
    struct err e;

    snprintf(shape, sizeof(shape), "%zu x %zu -> %zu, epilogue %d, use %d", rows, in, out, epilogue,
             use);
    reference_linear(x, w, bias, rows, in, out, want);
    for (size_t i = 0; i < rows * out; i++)
        want[i] = epilogue == EPILOGUE_GELU  ? reference_gelu(want[i])
                  : epilogue == EPILOGUE_ADD ? want[i] + (double)before[i]
                                             : want[i];
    assert_ok(be->ops->linear_new(be, type, use, (int64_t)rows, (int64_t)out, (int64_t)in, w, bias,
                                  &l, &e),
              e);
    assert_ok(be->ops->linear(be, l, tx, epilogue, ty, &e), e);
    compare("linear", ty, want, type, shape, seed);
    be->ops->linear_free(be, l);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    free(w);
    free(bias);
    free(before);
    free(want);
}

static void linears(void **state)
{
    static const size_t shapes[][3] = {{1, 64, 32},   {2, 64, 33},    {5, 192, 40}, {8, 384, 64},
                                       {9, 64, 2151}, {17, 1536, 48}, {31, 128, 96}};
    static const size_t wide[][3] = {{70, 192, 96}, {33, 1536, 64}, {1500, 64, 32}};

    (void)state;
    for (size_t t = 0; t < 2; t++) {
        for (int out = 0; out < 2 && have(types[t]); out++) {
            enum dtype out_type = out ? types[t] : DTYPE_F32;

            for (int ep = EPILOGUE_NONE; ep <= EPILOGUE_ADD; ep++) {
                for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
                    one_linear(types[t], out_type, LINEAR_ROWS, shapes[i][0], shapes[i][1],
                               shapes[i][2], (enum epilogue)ep, i % 2 == 0);
                for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++)
                    one_linear(types[t], out_type, LINEAR_WIDE, wide[i][0], wide[i][1], wide[i][2],
                               (enum epilogue)ep, i % 2 == 0);
            }
        }
    }
}

static void one_conv(enum dtype type, size_t rows, size_t in, size_t out, size_t stride)
{
    uint32_t seed = (uint32_t)(rows + in + out + stride);
    size_t length = (rows - 1) / stride + 1;
    float *x = values(rows * in, type, 1.0f, seed), *w = values(out * in * 3, type, 0.1f, seed + 1);
    float *bias = values(out, DTYPE_F32, 1.0f, seed + 2);
    double *want = malloc(length * out * sizeof(*want));
    struct tensor tx = tensor_new(type, rows, in, x), ty = tensor_new(type, length, out, NULL);
    struct conv1d *c;
    char shape[96];
    struct err e;

    snprintf(shape, sizeof(shape), "%zu x %zu -> %zu, stride %zu", rows, in, out, stride);
    reference_conv(x, w, bias, rows, in, out, stride, want);
    for (size_t i = 0; i < length * out; i++)
        want[i] = reference_gelu(want[i]);
    assert_ok(
        be->ops->conv1d_new(be, type, (int64_t)out, (int64_t)in, (int64_t)stride, w, bias, &c, &e),
        e);
    for (int again = 0; again < 2; again++)
        assert_ok(be->ops->conv1d(be, c, tx, EPILOGUE_GELU, ty, &e), e);
    compare("conv1d", ty, want, type, shape, seed);
    be->ops->conv1d_free(be, c);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    free(w);
    free(bias);
    free(want);
}

static void convolutions(void **state)
{
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        if (!have(types[t]))
            continue;
        one_conv(types[t], 30, 80, 64, 1);
        one_conv(types[t], 31, 128, 64, 1);
        one_conv(types[t], 30, 64, 64, 2);
        one_conv(types[t], 301, 192, 192, 2);
        one_conv(types[t], 2, 80, 192, 1);
    }
}

static void norms(void **state)
{
    static const size_t shapes[][2] = {{1, 64}, {3, 192}, {100, 384}, {7, 1280}, {2, 70}};

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        size_t rows = shapes[i][0], n = shapes[i][1];
        float *x = values(rows * n, DTYPE_F32, 3.0f, 5), *g = values(n, DTYPE_F32, 1.0f, 6);
        float *b = values(n, DTYPE_F32, 1.0f, 7);
        double *want = malloc(rows * n * sizeof(*want));
        struct tensor tx = tensor_new(DTYPE_F32, rows, n, x), tg = tensor_new(DTYPE_F32, 1, n, g);
        struct tensor tb = tensor_new(DTYPE_F32, 1, n, b);
        struct err e;

        for (size_t r = 0; r < rows; r++)
            reference_norm(x + r * n, g, b, n, want + r * n);
        for (size_t t = 0; t < 2; t++) { /* bf16 results need no bf16 instructions */
            struct tensor ty = tensor_new(types[t], rows, n, NULL);

            assert_ok(be->ops->layer_norm(be, tx, tg, tb, ty, &e), e);
            compare("layer_norm", ty, want, DTYPE_F32, "", (uint32_t)n);
            tensor_free(ty);
        }
        tensor_free(tx);
        tensor_free(tg);
        tensor_free(tb);
        free(x);
        free(g);
        free(b);
        free(want);
    }
}

static struct kv kv_new(enum dtype type, uint32_t heads, uint32_t capacity)
{
    struct kv kv = {type, heads, capacity, NULL};
    struct err e;

    assert_ok(be->ops->alloc(be, be->ops->kv_bytes(type, heads, capacity), &kv.data, &e), e);
    return kv;
}

static void one_attention(enum dtype type, size_t queries, size_t keys, uint32_t heads, float sharp)
{
    size_t d = (size_t)heads * HEAD;
    uint32_t seed = (uint32_t)(queries * 100 + keys);
    float *q = values(queries * d, type, sharp, seed), *k = values(keys * d, type, sharp, seed + 1);
    float *v = values(keys * d, type, 1.0f, seed + 2);
    double *want = malloc(queries * d * sizeof(*want));
    struct tensor tq = tensor_new(type, queries, d, q), tk = tensor_new(type, keys, d, k);
    struct tensor tv = tensor_new(type, keys, d, v), to = tensor_new(type, queries, d, NULL);
    struct kv kv = kv_new(type, heads, (uint32_t)keys), *all = calloc(queries, sizeof(*all));
    uint32_t *counts = calloc(queries, sizeof(*counts));
    char shape[96];
    struct err e;

    snprintf(shape, sizeof(shape), "%zu queries, %zu keys, %u heads", queries, keys, heads);
    for (size_t r = 0; r < queries; r++) {
        for (uint32_t h = 0; h < heads; h++)
            reference_attend(q + r * d + h * HEAD, k + h * HEAD, v + h * HEAD, d, keys,
                             want + r * d + h * HEAD);
    }
    assert_ok(be->ops->kv_fill(be, kv, tk, tv, &e), e);
    assert_ok(be->ops->attention(be, tq, kv, (uint32_t)keys, to, &e), e);
    compare("attention", to, want, type, shape, seed);
    for (size_t r = 0; r < queries; r++) {
        all[r] = kv;
        counts[r] = (uint32_t)keys;
    }
    memset(to.data, 0, queries * d * dtype_size(type));
    assert_ok(be->ops->attention_rows(be, tq, all, counts, to, &e), e);
    compare("attention_rows", to, want, type, shape, seed);
    tensor_free(tq);
    tensor_free(tk);
    tensor_free(tv);
    tensor_free(to);
    be->ops->release(be, kv.data);
    free(all);
    free(counts);
    free(q);
    free(k);
    free(v);
    free(want);
}

static void attentions(void **state)
{
    static const size_t keys[] = {1, 2, 15, 16, 17, 31, 33, 48, 449, 1500};
    static const size_t queries[] = {1, 5, 12, 13, 30};

    (void)state;
    for (size_t t = 0; t < 2; t++) {
        for (size_t i = 0; have(types[t]) && i < sizeof(keys) / sizeof(keys[0]); i++) {
            for (size_t j = 0; j < sizeof(queries) / sizeof(queries[0]); j++)
                one_attention(types[t], queries[j], keys[i], keys[i] > 500 ? 1 : 3, 1.0f);
            one_attention(types[t], 12, keys[i], 1, 4.0f); /* nearly one key takes all */
        }
    }
}

/* Keys that come one by one are as good as keys that come together, and what lay in the cache
 * before does not come through. */
static void appending(void **state)
{
    enum { KEYS = 37, HEADS = 2, D = HEADS * HEAD };

    (void)state;
    for (size_t t = 0; t < 2; t++) {
        enum dtype type = types[t];
        float *k, *v, *q, together[D], alone[D], *poison;
        struct err e;

        if (!have(type))
            continue;
        k = values(KEYS * D, type, 1.0f, 1);
        v = values(KEYS * D, type, 1.0f, 2);
        q = values(D, type, 1.0f, 3);
        poison = malloc(KEYS * D * sizeof(*poison));
        for (int i = 0; i < KEYS * D; i++)
            poison[i] = NAN;
        struct tensor tk = tensor_new(type, KEYS, D, k), tv = tensor_new(type, KEYS, D, v);
        struct tensor tq = tensor_new(type, 1, D, q), to = tensor_new(type, 1, D, NULL);
        struct tensor bad = tensor_new(type, KEYS, D, poison);
        struct kv whole = kv_new(type, HEADS, KEYS), grown = kv_new(type, HEADS, KEYS);

        assert_ok(be->ops->kv_fill(be, grown, bad, bad, &e), e);
        for (uint32_t i = 0; i < KEYS; i++) {
            struct tensor one_k = tensor_of(type, (char *)tk.data + i * D * dtype_size(type), 1, D);
            struct tensor one_v = tensor_of(type, (char *)tv.data + i * D * dtype_size(type), 1, D);
            struct tensor some_k = tensor_of(type, tk.data, i + 1, D);
            struct tensor some_v = tensor_of(type, tv.data, i + 1, D);
            uint32_t keys = i + 1;

            memset(whole.data, 0, be->ops->kv_bytes(type, HEADS, KEYS));
            assert_ok(be->ops->kv_fill(be, whole, some_k, some_v, &e), e);
            assert_ok(be->ops->attention_rows(be, tq, &whole, &keys, to, &e), e);
            assert_ok(be->ops->get(be, together, to, &e), e);
            assert_ok(be->ops->kv_append(be, &grown, &i, one_k, one_v, &e), e);
            assert_ok(be->ops->attention_rows(be, tq, &grown, &keys, to, &e), e);
            assert_ok(be->ops->get(be, alone, to, &e), e);
            assert_memory_equal(together, alone, sizeof(alone));
        }
        tensor_free(tk);
        tensor_free(tv);
        tensor_free(tq);
        tensor_free(to);
        tensor_free(bad);
        be->ops->release(be, whole.data);
        be->ops->release(be, grown.data);
        free(k);
        free(v);
        free(q);
        free(poison);
    }
}

static void embeddings(void **state)
{
    float *table = values(50 * 64, DTYPE_F32, 1.0f, 1),
          *places = values(9 * 64, DTYPE_F32, 1.0f, 2);
    struct tensor tt = tensor_new(DTYPE_F32, 50, 64, table),
                  tp = tensor_new(DTYPE_F32, 9, 64, places);
    struct tensor ty = tensor_new(DTYPE_F32, 3, 64, NULL);
    const int32_t ids[] = {49, 0, 7};
    const uint32_t pos[] = {8, 0, 3};
    double want[3 * 64];
    struct err e;

    (void)state;
    for (size_t r = 0; r < 3; r++) {
        for (size_t c = 0; c < 64; c++)
            want[r * 64 + c] =
                (double)table[(size_t)ids[r] * 64 + c] + (double)places[pos[r] * 64 + c];
    }
    assert_ok(be->ops->embed(be, tt, tp, ids, pos, ty, &e), e);
    compare("embed", ty, want, DTYPE_F32, "", 0);
    assert_int_equal(be->ops->embed(be, tt, tp, (const int32_t[]){50, 0, 0}, pos, ty, &e),
                     ERR_DEVICE);
    assert_int_equal(be->ops->embed(be, tt, tp, (const int32_t[]){-1, 0, 0}, pos, ty, &e),
                     ERR_DEVICE);
    tensor_free(tt);
    tensor_free(tp);
    tensor_free(ty);
    free(table);
    free(places);
}

/* Some frames in full, and the clamp: quiet and loud parts, a length that ends inside a frame. */
static void mels(void **state)
{
    static const size_t frames[] = {0, 1, 2, 15, 16, 499, 1000, 2000, 2991, 2992, 2998, 2999};
    size_t n = 479990;
    float *pcm = values(n, DTYPE_F32, 0.5f, 11), *got = malloc(3000 * 128 * sizeof(*got));

    (void)state;
    for (size_t i = 0; i < n; i++)
        pcm[i] *= i < 160000 ? 1e-3f : 0.5f + 0.5f * sinf((float)i * 0.05f);
    for (uint32_t bins = 80; bins <= 128; bins += 48) {
        struct tensor out = tensor_new(DTYPE_F32, 3000, bins, NULL);
        double want[128], high = -1e9, worst = 0.0;
        struct mel *m;
        struct err e;

        assert_ok(be->ops->mel_new(be, bins, &m, &e), e);
        assert_ok(be->ops->mel(be, m, pcm, n, out, &e), e);
        assert_ok(be->ops->get(be, got, out, &e), e);
        for (size_t i = 0; i < (size_t)3000 * bins; i++)
            high = fmax(high, 4.0 * (double)got[i] - 4.0);
        for (size_t f = 0; f < sizeof(frames) / sizeof(frames[0]); f++) {
            reference_mel(pcm, n, frames[f], bins, want);
            for (size_t b = 0; b < bins; b++)
                worst = fmax(worst, fabs((fmax(want[b], high - 8.0) + 4.0) / 4.0 -
                                         (double)got[frames[f] * bins + b]));
        }
        print_message("  %u bins: %.1e\n", bins, worst);
        assert_true(worst < 1e-5);
        be->ops->mel_free(be, m);
        tensor_free(out);
    }
    free(pcm);
    free(got);
}

/* Wrong shapes are refused before anything is touched. */
static void refusals(void **state)
{
    float *w = values(64 * 64, DTYPE_F32, 1.0f, 1);
    struct tensor x = tensor_new(DTYPE_F32, 3, 64, NULL), y = tensor_new(DTYPE_F32, 3, 32, NULL);
    struct kv kv = kv_new(DTYPE_F32, 1, 8);
    struct linear *l;
    uint32_t pos = 8;
    struct err e;

    (void)state;
    assert_int_equal(be->ops->linear_new(be, DTYPE_F32, LINEAR_ROWS, 1, 64, 63, w, NULL, &l, &e),
                     ERR_DEVICE);
    assert_ok(be->ops->linear_new(be, DTYPE_F32, LINEAR_ROWS, 1, 64, 64, w, NULL, &l, &e), e);
    assert_int_equal(be->ops->linear(be, l, x, EPILOGUE_NONE, y, &e), ERR_DEVICE);
    be->ops->linear_free(be, l);
    x.rows = 1;
    assert_int_equal(be->ops->kv_append(be, &kv, &pos, x, x, &e), ERR_DEVICE);
    assert_int_equal(be->ops->attention(be, x, kv, 9, x, &e), ERR_DEVICE);
    assert_int_equal(be->ops->attention(be, x, kv, 0, x, &e), ERR_DEVICE);
    be->ops->release(be, kv.data);
    tensor_free(x);
    tensor_free(y);
    free(w);
}

static int open_backend(void **state)
{
    struct err e;

    (void)state;
    return backend_open_host(0, &be, &e);
}

static int close_backend(void **state)
{
    uint64_t left = be->allocated;

    (void)state;
    backend_close(be);
    if (left > 64u << 20) /* oneDNN's scratch memory stays until the end */
        print_error("%llu bytes were not released\n", (unsigned long long)left);
    return left > 64u << 20;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linears),    cmocka_unit_test(convolutions), cmocka_unit_test(norms),
        cmocka_unit_test(attentions), cmocka_unit_test(appending),    cmocka_unit_test(embeddings),
        cmocka_unit_test(mels),       cmocka_unit_test(refusals),
    };

    return cmocka_run_group_tests(tests, open_backend, close_backend);
}
