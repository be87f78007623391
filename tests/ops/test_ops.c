/* Every operation of a backend against double precision, over shapes and precisions: the host, or
 * the device that NIGHTSHIFT_TEST_DEVICE names (open.c).
 *
 * Inputs are rounded to the type first, so that only the operation's own error is seen. Tolerances
 * are relative to the largest reference value of the case; see check.c. A wrong sign, index,
 * scale or missing term is far outside of any. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>

#include "tests/common/distance.h"
#include "tests/ops/check.h"
#include "tests/ops/reference.h"

static double reference_epilogue(enum epilogue epilogue, double r, double before)
{
    switch (epilogue) {
    case EPILOGUE_GELU:
        return reference_gelu(r);
    case EPILOGUE_ADD:
        return before + r;
    case EPILOGUE_RELU:
        return fmax(r, 0.0);
    case EPILOGUE_ADD_RELU: /* conv2d's */
    case EPILOGUE_NONE:
        break;
    }
    return r;
}

static void one_linear(enum precision p, enum dtype out_type, enum linear_use use, size_t rows,
                       size_t in, size_t out, enum epilogue epilogue, bool with_bias)
{
    enum dtype type = precision_type(p);
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
        want[i] = reference_epilogue(epilogue, want[i], (double)before[i]);
    assert_ok(
        be->ops->linear_new(be, p, use, (int64_t)rows, (int64_t)out, (int64_t)in, w, bias, &l, &e),
        e);
    assert_ok(be->ops->linear(be, l, tx, epilogue, ty, &e), e);
    compare(epilogue == EPILOGUE_GELU  ? "linear with GELU"
            : epilogue == EPILOGUE_ADD ? "linear with a sum"
                                       : "linear",
            p, ty, want, shape, seed);
    be->ops->linear_free(be, l);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    free(w);
    free(bias);
    free(before);
    free(want);
}

/* A processor's products of integers: a row has its bits whatever comes with it, however many that
 * is, and what is no number in one stays in that one. */
static void check_rows_are_their_own(enum precision wish)
{
    enum { ROWS = 27, IN = 100, OUT = 70, BAD = 5 };
    enum precision p = precision_resolve(wish, be->info.have);
    float *x, *w, *bias, y[ROWS * OUT], alone[OUT];
    struct tensor tx, ty;
    struct linear *l = NULL;
    struct err e;

    if (!be->info.threads || !computes(p))
        skip();
    x = values(ROWS * IN, DTYPE_F32, 1.0f, 1);
    w = values(OUT * IN, DTYPE_F32, 0.2f, 2);
    bias = values(OUT, DTYPE_F32, 1.0f, 3);
    ty = tensor_new(DTYPE_F32, ROWS, OUT, NULL);
    memset(x, 0, IN * sizeof(*x)); /* a row of zeros, and one that is too small to see */
    for (int i = 0; i < IN; i++)
        x[IN + i] = 1e-39f;
    x[BAD * IN + 3] = NAN;
    x[(BAD + 1) * IN + IN - 1] = -INFINITY;
    tx = tensor_new(precision_type(p), ROWS, IN, x);
    assert_ok(be->ops->linear_new(be, wish, LINEAR_WIDE, ROWS, OUT, IN, w, bias, &l, &e),
              e); /* as it is asked for: what lies between is the processor's */
    assert_ok(be->ops->linear(be, l, tx, EPILOGUE_NONE, ty, &e), e);
    assert_ok(be->ops->get(be, y, ty, &e), e);
    for (int n = 1; n <= 13; n++) { /* each number of rows that the kernel has a way for */
        for (int r = 0; r + n <= ROWS; r += n) {
            struct tensor part = tensor_rows(ty, 0, n);

            assert_ok(be->ops->linear(be, l, tensor_rows(tx, r, n), EPILOGUE_NONE, part, &e), e);
            assert_ok(be->ops->get(be, alone, tensor_rows(part, n - 1, 1), &e), e);
            assert_memory_equal(alone, y + (r + n - 1) * OUT, sizeof(alone));
        }
    }
    for (int i = 0; i < ROWS * OUT; i++)
        assert_int_equal(isnan(y[i]), i / OUT == BAD || i / OUT == BAD + 1);
    assert_memory_equal(y, bias, OUT * sizeof(*bias));
    assert_memory_equal(y + OUT, bias, OUT * sizeof(*bias));
    be->ops->linear_free(be, l);
    w[OUT * IN - 1] = NAN;
    assert_int_equal(be->ops->linear_new(be, p, LINEAR_WIDE, 1, OUT, IN, w, NULL, &l, &e),
                     ERR_MODEL);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    free(w);
    free(bias);
}

TEST(rows_of_8_bits_are_their_own) { check_rows_are_their_own(PRECISION_INT8); }

TEST(rows_of_16_bits_are_their_own) { check_rows_are_their_own(PRECISION_INT16); }

TEST(linears)
{
    static const size_t shapes[][3] = {{1, 64, 32},   {2, 64, 33},    {5, 192, 40},  {8, 384, 64},
                                       {9, 64, 2151}, {17, 1536, 48}, {31, 128, 96}, {3, 50, 70}};
    static const size_t wide[][3] = {{70, 192, 96}, {33, 1536, 64}, {1500, 64, 32}};

    for (int p = PRECISION_F32; p < PRECISION_COUNT; p++) {
        for (int out = 0; out < 2 && computes((enum precision)p); out++) {
            enum dtype type = out ? precision_type((enum precision)p) : DTYPE_F32;

            for (int ep = EPILOGUE_NONE; ep <= EPILOGUE_RELU; ep++) {
                for (size_t i = 0; i < COUNT(shapes); i++)
                    one_linear((enum precision)p, type, LINEAR_ROWS, shapes[i][0], shapes[i][1],
                               shapes[i][2], (enum epilogue)ep, i % 2 == 0);
                for (size_t i = 0; i < COUNT(wide); i++)
                    one_linear((enum precision)p, type, LINEAR_WIDE, wide[i][0], wide[i][1],
                               wide[i][2], (enum epilogue)ep, i % 2 == 0);
            }
        }
    }
}

/* The first `out` outputs of x by these weights. Returns what they take of the device's memory. */
static uint64_t half_linear(struct tensor x, const float *w, int64_t out, struct tensor y)
{
    uint64_t before = be->allocated, took;
    struct linear *l;
    struct err e;

    assert_ok(
        be->ops->linear_new(be, PRECISION_F32, LINEAR_ROWS, x.rows, out, x.cols, w, NULL, &l, &e),
        e);
    took = be->allocated - before;
    assert_ok(be->ops->linear(be, l, x, EPILOGUE_NONE, y, &e), e);
    assert_int_equal(be->ops->linear(be, l, x, EPILOGUE_ADD_RELU, y, &e), ERR_DEVICE);
    be->ops->linear_free(be, l);
    return took;
}

/* Weights that are float16 numbers may be kept as such, where one more that is none keeps all of
 * them as they are: a row's products have the same bits, whatever rows come with it. */
TEST(weights_of_float16)
{
    static const float edges[] = {65504.0f, -65504.0f,   0x1p-14f, -0x1.ff8p-15f,
                                  0x1p-24f, -0x1.8p-23f, 0.0f,     -0.0f};
    const size_t in = 320, out = 64, rows = 27;
    float *w = values((out + 1) * in, DTYPE_F16, 0.2f, 3);
    float *x = values(rows * in, DTYPE_F32, 1.0f, 4), *got[2];
    bool narrows = strstr(be->info.features, "avx") != NULL;

    memcpy(w + 5 * in, edges, sizeof(edges));
    w[out * in] = 0.1f;
    for (size_t i = 0; i < 2; i++)
        got[i] = malloc(rows * (out + 1) * sizeof(float));
    for (size_t n = 1; n <= rows; n++) {
        struct tensor tx = tensor_new(DTYPE_F32, n, in, x);
        struct tensor half = tensor_new(DTYPE_F32, n, out, NULL);
        struct tensor whole = tensor_new(DTYPE_F32, n, out + 1, NULL);
        uint64_t little = half_linear(tx, w, (int64_t)out, half);
        uint64_t much = half_linear(tx, w, (int64_t)out + 1, whole);
        struct err e;

        assert_true(!narrows || little < (out * in + out) * sizeof(float));
        assert_true(!narrows || much > out * in * sizeof(float));
        assert_ok(be->ops->get(be, got[0], half, &e), e);
        assert_ok(be->ops->get(be, got[1], whole, &e), e);
        for (size_t r = 0; strcmp(be->info.id, "cpu") == 0 && r < n; r++)
            assert_memory_equal(got[0] + r * out, got[1] + r * (out + 1), out * sizeof(float));
        tensor_free(tx);
        tensor_free(half);
        tensor_free(whole);
    }
    free(w);
    free(x);
    free(got[0]);
    free(got[1]);
}

/* One weight that is none, wherever it stands in a whole block. */
TEST(weights_of_almost_float16)
{
    static const float none[] = {0.1f,     65536.0f,   -65536.0f,     INFINITY,   -INFINITY, NAN,
                                 0x1p-25f, 0x1.8p-24f, -0x1.ffcp-15f, 0x1.002p0f, 0x1p-149f};
    const size_t in = 24, out = 32;
    const int64_t least = (int64_t)(in * out * sizeof(float));
    bool narrows = strstr(be->info.features, "avx") != NULL;
    struct tensor tx = tensor_new(DTYPE_F32, 1, in, NULL), y = tensor_new(DTYPE_F32, 1, out, NULL);

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        float *w = values(out * in, DTYPE_F16, 0.2f, 3);
        size_t at = (i * 97 + 5) % (out * in);

        assert_true(!narrows || (int64_t)half_linear(tx, w, (int64_t)out, y) < least);
        w[at] = none[i];
        assert_true((int64_t)half_linear(tx, w, (int64_t)out, y) >= least ||
                    strcmp(be->info.id, "cpu") != 0);
        free(w);
    }
    tensor_free(tx);
    tensor_free(y);
}

TEST(norms)
{
    static const size_t shapes[][2] = {{1, 64}, {3, 192}, {100, 384}, {7, 1280}, {2, 70}};

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
        for (size_t t = 0; t < COUNT(types); t++) {
            if (!have(types[t]))
                continue;
            struct tensor ty = tensor_new(types[t], rows, n, NULL);

            assert_ok(be->ops->layer_norm(be, tx, tg, tb, 1e-5f, ty, &e), e);
            compare("layer_norm", PRECISION_F32, ty, want, "", (uint32_t)n);
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

/* One call of windows of n rows: attention within each, keys and queries being columns of one
 * tensor as in the models; then every row once more as a single query over a cache that was filled
 * in slots out of order. */
static void one_attention(enum dtype type, uint32_t windows, size_t n, uint32_t heads, float sharp)
{
    size_t d = (size_t)heads * HEAD, total = windows * n;
    uint32_t seed = (uint32_t)(windows * 100 + n), slots[8];
    enum precision p = type == DTYPE_F32 ? PRECISION_F32 : PRECISION_BF16;
    float *qkv = values(total * 3 * d, type, sharp, seed);
    double *want = malloc(total * d * sizeof(*want));
    struct tensor t = tensor_new(type, total, 3 * d, qkv), to = tensor_new(type, total, d, NULL);
    struct tensor q = tensor_columns(t, 0, (int64_t)d),
                  k = tensor_columns(t, (int64_t)d, (int64_t)d);
    struct tensor v = tensor_columns(t, 2 * (int64_t)d, (int64_t)d);
    struct kv kv = kv_new(type, heads, (uint32_t)n, windows + 2);
    struct token_row *rows = calloc(total, sizeof(*rows)), *on_device;
    char shape[96];
    struct err e;

    snprintf(shape, sizeof(shape), "%u windows of %zu, %u heads", windows, n, heads);
    for (size_t r = 0; r < total; r++) {
        const float *first = qkv + r / n * n * 3 * d;

        for (uint32_t h = 0; h < heads; h++)
            reference_attend(qkv + r * 3 * d + h * HEAD, first + d + h * HEAD,
                             first + 2 * d + h * HEAD, 3 * d, n, want + r * d + h * HEAD);
    }
    assert_ok(be->ops->attention(be, windows, q, k, v, to, &e), e);
    compare("attention", p, to, want, shape, seed);
    for (uint32_t i = 0; i < windows; i++)
        slots[i] = (i * 2 + 1) % (windows + 2);
    assert_ok(be->ops->kv_fill(be, kv, slots, windows, k, v, &e), e);
    for (size_t r = 0; r < total; r++)
        rows[r] = (struct token_row){0, -1, 0, (int32_t)slots[r / n]};
    on_device = rows_new(rows, total);
    assert_ok(be->ops->attention_rows(be, q, kv, on_device, (uint32_t)n, to, &e), e);
    compare("attention_rows", p, to, want, shape, seed);
    be->ops->release(be, on_device);
    tensor_free(t);
    tensor_free(to);
    be->ops->release(be, kv.data);
    free(rows);
    free(qkv);
    free(want);
}

TEST(attentions)
{
    static const size_t keys[] = {1, 2, 12, 13, 15, 16, 17, 31, 33, 48, 100};

    for (size_t t = 0; t < COUNT(types); t++) {
        if (!have(types[t]))
            continue;
        for (size_t i = 0; i < COUNT(keys); i++) {
            one_attention(types[t], 1, keys[i], 3, 1.0f);
            one_attention(types[t], 3, keys[i], 2, 1.0f);
        }
        one_attention(types[t], 2, 449, 1, 1.0f);
        one_attention(types[t], 1, 1500, 1, 1.0f);
    }
}

/* Caches of 8 bits round keys and values to 1/127 of their largest: test_cache8.c holds the bound,
 * here a few hundredths tell a tail from none. */
static void near_eight_bits(struct tensor t, const double *want, size_t n)
{
    float *got = malloc(n * sizeof(*got));
    struct err e;

    assert_ok(be->ops->get(be, got, t, &e), e);
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) < 0.02))
            fail_msg("value %zu is %g, not %g", i, (double)got[i], want[i]);
    free(got);
}

/* Rows of x as often as a tail counts them; returns how many that are. */
static uint32_t repeat_rows(struct key_tail tail, const float *x, size_t columns, float *ret)
{
    uint32_t n = 0;

    for (uint32_t j = 0; j < tail.keys; j++)
        for (uint32_t c = 0; c < (j < tail.dense ? 1 : tail.times); c++, n++)
            memcpy(ret + n * columns, x + j * columns, columns * sizeof(*x));
    return n;
}

/* Keys of a tail count as if they were repeated. Two windows in a cache of 3 slots, each with its
 * own tail, and the third whole. type: of what is stored, cache: of what is looked at. */
static void one_tail(enum dtype type, enum dtype cache, uint32_t keys, uint32_t dense,
                     uint32_t times)
{
    enum { HEADS = 2, D = HEADS * HEAD, SLOTS = 3 };
    const struct key_tail tails[SLOTS] = {
        {keys, dense, times}, {keys, keys, 1}, {keys, 1, times + 1}};
    static const uint32_t slots[] = {0, 1, 2};
    enum precision p = type == DTYPE_F32 ? PRECISION_F32 : PRECISION_BF16;
    float *k = values(keys * D, type, 1.0f, keys), *v = values(keys * D, type, 1.0f, keys + 1);
    float *q = values(keys * D, type, 2.0f, keys + 2);
    double *want = malloc(sizeof(*want) * SLOTS * keys * D);
    struct tensor tk = tensor_new(type, keys, D, k), tv = tensor_new(type, keys, D, v);
    struct tensor tq = tensor_new(type, keys, D, q), to = tensor_new(type, keys, D, NULL);
    struct kv kv = kv_new(cache, HEADS, keys, SLOTS);
    struct token_row *rows = calloc(keys, sizeof(*rows)), *on_device;
    uint32_t longest = keys * (times + 1);
    float *lk = malloc(sizeof(*lk) * longest * D), *lv = malloc(sizeof(*lv) * longest * D);
    char shape[96];
    struct err e;

    snprintf(shape, sizeof(shape), "%u keys, from %u on %u times", keys, dense, times);
    for (uint32_t i = 0; i < SLOTS; i++) {
        uint32_t n = repeat_rows(tails[i], k, D, lk);

        repeat_rows(tails[i], v, D, lv);
        for (uint32_t r = 0; r < keys; r++)
            for (uint32_t h = 0; h < HEADS; h++)
                reference_attend(q + r * D + h * HEAD, lk + h * HEAD, lv + h * HEAD, D, n,
                                 want + (i * keys + r) * D + h * HEAD);
    }
    if (cache != DTYPE_I8)
        for (uint32_t i = 0; i < SLOTS; i++) {
            assert_ok(be->ops->attention_tail(be, tq, tk, tv, tails[i], to, &e), e);
            compare("attention", p, to, want + i * keys * D, shape, i);
        }
    for (uint32_t i = 0; i < SLOTS; i++)
        assert_ok(be->ops->kv_fill(be, kv, slots + i, 1, tk, tv, &e), e);
    kv.tails = tails;
    for (uint32_t r = 0; r < keys; r++)
        rows[r] = (struct token_row){.cross = (int32_t)(r % SLOTS)};
    on_device = rows_new(rows, keys);
    for (uint32_t r = 0; r < keys; r++)
        memmove(want + r * D, want + (r % SLOTS * keys + r) * D, sizeof(*want) * D);
    assert_ok(be->ops->attention_rows(be, tq, kv, on_device, keys, to, &e), e);
    if (cache != DTYPE_I8)
        compare("attention_rows", p, to, want, shape, keys);
    else
        near_eight_bits(to, want, (size_t)keys * D);
    be->ops->release(be, on_device);
    be->ops->release(be, kv.data);
    tensor_free(tk);
    tensor_free(tv);
    tensor_free(tq);
    tensor_free(to);
    free(rows);
    free(lk);
    free(lv);
    free(want);
    free(k);
    free(v);
    free(q);
}

/* A slot has as many keys as the window that it holds: what a longer one left there, which was no
 * number, is not seen. */
static void tails_after_others(enum dtype type, enum dtype cache)
{
    enum { D = 2 * HEAD, LONG = 203, SLOTS = 3, ROWS = 6 };
    static const uint32_t slots[SLOTS] = {2, 0, 1};
    static const struct key_tail tails[SLOTS] = {{51, 20, 8}, {LONG, LONG, 1}, {97, 96, 3}};
    static const struct token_row rows[ROWS] = {{.cross = 1}, {.cross = 0}, {.cross = 0},
                                                {.cross = 2}, {.cross = 2}, {.cross = 1}};
    float *q = values(ROWS * D, type, 2.0f, 1), *poison = malloc(sizeof(*poison) * LONG * D);
    struct tensor tq = tensor_new(type, ROWS, D, q), to = tensor_new(type, ROWS, D, NULL);
    struct tensor bad;
    struct kv kv = kv_new(cache, 2, LONG + 2, SLOTS);
    struct token_row *on_device = rows_new(rows, ROWS);
    double want[ROWS * D];
    struct err e;

    for (size_t i = 0; i < (size_t)LONG * D; i++)
        poison[i] = NAN;
    bad = tensor_new(type, LONG, D, poison);
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct key_tail *t = &tails[slots[i]];
        uint32_t n = t->dense + (t->keys - t->dense) * t->times;
        float *k = values(t->keys * D, type, 1.0f, i + 5), *v = values(t->keys * D, type, 1.0f, i);
        float *lk = malloc(sizeof(*lk) * n * D), *lv = malloc(sizeof(*lv) * n * D);
        struct tensor tk = tensor_new(type, t->keys, D, k), tv = tensor_new(type, t->keys, D, v);

        repeat_rows(*t, k, D, lk);
        repeat_rows(*t, v, D, lv);
        for (uint32_t r = 0; r < ROWS; r++)
            for (uint32_t h = 0; h < 2 && rows[r].cross == (int32_t)slots[i]; h++)
                reference_attend(q + r * D + h * HEAD, lk + h * HEAD, lv + h * HEAD, D, n,
                                 want + r * D + h * HEAD);
        assert_ok(be->ops->kv_fill(be, kv, slots + i, 1, bad, bad, &e), e);
        assert_ok(be->ops->kv_fill(be, kv, slots + i, 1, tk, tv, &e), e);
        tensor_free(tk);
        tensor_free(tv);
        free(k);
        free(v);
        free(lk);
        free(lv);
    }
    kv.tails = tails;
    assert_ok(be->ops->attention_rows(be, tq, kv, on_device, LONG, to, &e), e);
    if (cache != DTYPE_I8)
        compare("attention_rows", type == DTYPE_F32 ? PRECISION_F32 : PRECISION_BF16, to, want,
                "tails after others", 0);
    else
        near_eight_bits(to, want, ROWS * D);
    be->ops->release(be, on_device);
    be->ops->release(be, kv.data);
    tensor_free(bad);
    tensor_free(tq);
    tensor_free(to);
    free(poison);
    free(q);
}

TEST(tails)
{
    struct tensor x;
    struct err e;

    if (!be->ops->attention_tail) {
        print_message("SKIPPED: this device takes whole windows alone\n");
        skip();
    }
    for (size_t t = 0; t < COUNT(types); t++) {
        if (!have(types[t]))
            continue;
        one_tail(types[t], types[t], 5, 2, 3);
        one_tail(types[t], types[t], 37, 16, 8);
        one_tail(types[t], types[t], 100, 99, 2);
        one_tail(types[t], types[t], 61, 30, 8);
        one_tail(types[t], DTYPE_I8, 61, 30, 8);
        tails_after_others(types[t], types[t]);
        tails_after_others(types[t], DTYPE_I8);
    }
    x = tensor_new(DTYPE_F32, 3, HEAD, NULL);
    for (uint32_t i = 0; i < 4; i++) {
        static const struct key_tail wrong[] = {{2, 1, 2}, {3, 0, 2}, {3, 4, 2}, {3, 1, 0}};

        assert_int_equal(be->ops->attention_tail(be, x, x, x, wrong[i], x, &e), ERR_DEVICE);
    }
    tensor_free(x);
}

/* Keys that come one by one are as good as keys that come together, at the same time in two slots
 * of three; and what lay in the cache before does not come through. Padding rows, all for the spare
 * slot, change nothing. */
TEST(appending)
{
    enum { KEYS = 37, HEADS = 2, D = HEADS * HEAD };
    static const uint32_t all[] = {0, 1, 2};

    for (size_t t = 0; t < COUNT(types); t++) {
        enum dtype type = types[t];
        float *k, *v, *q, *poison, got[4 * D];
        double want[D];
        struct err e;

        if (!have(type))
            continue;
        k = values(KEYS * D, type, 1.0f, 1);
        v = values(KEYS * D, type, 1.0f, 2);
        q = values(D, type, 1.0f, 3);
        poison = malloc(3 * KEYS * D * sizeof(*poison));
        for (int i = 0; i < 3 * KEYS * D; i++)
            poison[i] = NAN;
        struct tensor bad = tensor_new(type, 3 * KEYS, D, poison);
        struct tensor tq = tensor_new(type, 4, D, NULL), to = tensor_new(type, 4, D, NULL);
        struct tensor tk = tensor_new(type, 4, D, NULL), tv = tensor_new(type, 4, D, NULL);
        struct kv kv = kv_new(type, HEADS, KEYS, 3);
        struct token_row *rows = rows_new((const struct token_row[4]){{0}}, 4);

        assert_ok(be->ops->kv_fill(be, kv, all, 3, bad, bad, &e), e);
        for (int i = 0; i < KEYS; i++) {
            /* Slot 2, slot 0, a row for slot 1, and nobody's, which may look nowhere. */
            const struct token_row now[4] = {
                {2, i, 0, 0}, {0, i, 0, 0}, {1, 0, 0, 0}, {-1, INT32_MAX, 0, INT32_MAX}};
            float four[4 * D];

            for (int r = 0; r < 4; r++)
                memcpy(four + r * D, k + (r < 2 ? i : 0) * D, sizeof(float) * D);
            assert_ok(be->ops->put(be, tk, four, &e), e);
            for (int r = 0; r < 4; r++)
                memcpy(four + r * D, v + (r < 2 ? i : 0) * D, sizeof(float) * D);
            assert_ok(be->ops->put(be, tv, four, &e), e);
            for (int r = 0; r < 4; r++)
                memcpy(four + r * D, q, sizeof(float) * D);
            assert_ok(be->ops->put(be, tq, four, &e), e);
            assert_ok(be->ops->write(be, rows, now, sizeof(now), &e), e);
            assert_ok(be->ops->kv_append(be, kv, rows, tk, tv, &e), e);
            assert_ok(be->ops->attention_rows(be, tq, kv, rows, 0, to, &e), e);
            assert_ok(be->ops->get(be, got, to, &e), e);
            assert_memory_equal(got, got + D, sizeof(float) * D);
            for (int h = 0; h < HEADS; h++)
                reference_attend(q + h * HEAD, k + h * HEAD, v + h * HEAD, D, (size_t)i + 1,
                                 want + h * HEAD);
            compare("attention_rows", type == DTYPE_F32 ? PRECISION_F32 : PRECISION_BF16,
                    tensor_of(type, to.data, 1, D), want, "grown", (uint32_t)i);
        }
        tensor_free(bad);
        tensor_free(tq);
        tensor_free(to);
        tensor_free(tk);
        tensor_free(tv);
        be->ops->release(be, rows);
        be->ops->release(be, kv.data);
        free(k);
        free(v);
        free(q);
        free(poison);
    }
}

TEST(embeddings)
{
    const struct token_row rows[] = {{0, 8, 49, 0}, {1, 0, 0, 0}, {2, 3, 7, 0}};
    double want[3 * 64];
    struct err e;

    for (size_t t = 0; t < COUNT(types); t++) {
        if (!have(types[t]))
            continue;
        float *table = values(50 * 64, types[t], 1.0f, 1),
              *places = values(9 * 64, DTYPE_F32, 1, 2);
        struct tensor tt = tensor_new(types[t], 50, 64, table);
        struct tensor tp = tensor_new(DTYPE_F32, 9, 64, places);
        struct tensor ty = tensor_new(DTYPE_F32, 3, 64, NULL);
        struct token_row *on_device = rows_new(rows, 3);

        for (size_t r = 0; r < 3; r++) {
            for (size_t c = 0; c < 64; c++)
                want[r * 64 + c] = (double)table[(size_t)rows[r].token * 64 + c] +
                                   (double)places[(size_t)rows[r].pos * 64 + c];
        }
        assert_ok(be->ops->embed(be, tt, tp, on_device, ty, &e), e);
        compare("embed", PRECISION_F32, ty, want, "", 0);
        be->ops->release(be, on_device);
        tensor_free(tt);
        tensor_free(tp);
        tensor_free(ty);
        free(table);
        free(places);
    }
}

/* Positions are added to every window; bytes and values go to the device and back. */
TEST(adding_and_moving)
{
    float *y = values(9 * 64, DTYPE_F32, 1.0f, 1), *x = values(3 * 64, DTYPE_F32, 1.0f, 2);
    float back[9 * 64];
    double want[9 * 64];
    struct err e;

    struct tensor ty = tensor_new(DTYPE_F32, 9, 64, y), tx = tensor_new(DTYPE_F32, 3, 64, x);
    for (size_t i = 0; i < 9 * 64; i++)
        want[i] = (double)y[i] + (double)x[i % (3 * 64)];
    assert_ok(be->ops->add(be, ty, tx, &e), e);
    compare("add", PRECISION_F32, ty, want, "9 rows and 3", 1);
    assert_ok(be->ops->write(be, ty.data, y, sizeof(back), &e), e);
    assert_ok(be->ops->read(be, back, ty.data, sizeof(back), &e), e);
    assert_memory_equal(back, y, sizeof(back));
    for (size_t t = 0; t < COUNT(types); t++) {
        if (!have(types[t]))
            continue;
        struct tensor to = tensor_new(types[t], 9, 64, NULL);

        assert_ok(be->ops->copy(be, to, ty, &e), e);
        for (size_t i = 0; i < 9 * 64; i++)
            want[i] = (double)y[i];
        compare("copy", PRECISION_F32, to, want, "", 1);
        assert_ok(be->ops->copy(be, tx, tensor_of(types[t], to.data, 3, 64), &e), e);
        compare("copy", PRECISION_F32, tensor_of(types[t], to.data, 9, 64), want, "", 1);
        tensor_free(to);
    }
    /* Rows that lie over each other, aligned and not. */
    for (int64_t stride = 16; stride > 14; stride--) {
        struct tensor from = tensor_of(DTYPE_F32, ty.data, 3, 64);

        from.stride = stride;
        assert_ok(be->ops->copy(be, tx, from, &e), e);
        for (size_t i = 0; i < 3 * 64; i++)
            want[i] = (double)y[i / 64 * (size_t)stride + i % 64];
        compare("copy", PRECISION_F32, tx, want, "over each other", 1);
    }
    tensor_free(ty);
    tensor_free(tx);
    free(x);
    free(y);
}

static void check_mel(const float *pcm, size_t n, const float *got, uint32_t bins)
{
    static const size_t frames[] = {0, 1, 2, 15, 16, 499, 1000, 2000, 2991, 2992, 2998, 2999};
    double want[128], high = -1e9, worst = 0.0;

    for (size_t i = 0; i < (size_t)3000 * bins; i++)
        high = fmax(high, 4.0 * (double)got[i] - 4.0);
    for (size_t f = 0; f < COUNT(frames); f++) {
        reference_mel(pcm, n, frames[f], bins, want);
        for (size_t b = 0; b < bins; b++)
            worst = distance_larger(worst, fabs((fmax(want[b], high - 8.0) + 4.0) / 4.0 -
                                                (double)got[frames[f] * bins + b]));
    }
    print_message("  %u bins, %zu samples: %.1e\n", bins, n, worst);
    assert_true(worst < 1e-5);
}

/* Some frames in full, and the clamp, which is each window's own: quiet and loud parts, a length
 * that ends inside a frame; two windows of three at once. */
TEST(mels)
{
    size_t n = 479990;
    float *pcm = values(n, DTYPE_F32, 0.5f, 11), *got = malloc(2 * 3000 * 128 * sizeof(*got));

    for (size_t i = 0; i < n; i++)
        pcm[i] *= i < 160000 ? 1e-3f : 0.5f + 0.5f * sinf((float)i * 0.05f);
    for (uint32_t bins = 80; bins <= 128; bins += 48) {
        const struct audio audio[2] = {{pcm, 150000}, {pcm, n}};
        struct tensor out = tensor_new(DTYPE_F32, 2 * 3000, bins, NULL);
        struct mel *m;
        struct err e;

        assert_ok(be->ops->mel_new(be, bins, 3, &m, &e), e);
        assert_ok(be->ops->mel(be, m, audio, 2, out, &e), e);
        assert_ok(be->ops->get(be, got, out, &e), e);
        for (size_t i = 0; i < 2; i++)
            check_mel(audio[i].pcm, audio[i].n, got + i * 3000 * bins, bins);
        be->ops->mel_free(be, m);
        tensor_free(out);
    }
    free(pcm);
    free(got);
}

/* Wrong shapes are refused before anything is touched. */
TEST(refusals)
{
    float *w = values(64 * 64, DTYPE_F32, 1.0f, 1);
    struct tensor x = tensor_new(DTYPE_F32, 3, 64, NULL), y = tensor_new(DTYPE_F32, 3, 32, NULL);
    struct kv kv = kv_new(DTYPE_F32, 1, 8, 2);
    const uint32_t outside = 2;
    enum precision chosen = PRECISION_AUTO;
    struct linear *l;
    struct err e;

    assert_int_equal(be->ops->linear_new(be, PRECISION_F32, LINEAR_ROWS, 1, 64, 0, w, NULL, &l, &e),
                     ERR_DEVICE);
    assert_ok(be->ops->linear_new(be, PRECISION_F32, LINEAR_ROWS, 1, 64, 64, w, NULL, &l, &e), e);
    assert_int_equal(be->ops->linear(be, l, x, EPILOGUE_NONE, y, &e), ERR_DEVICE);
    be->ops->linear_free(be, l);
    assert_int_equal(be->ops->attention(be, 2, x, x, x, x, &e), ERR_DEVICE); /* 3 rows of 2 */
    assert_int_equal(be->ops->attention(be, 0, x, x, x, x, &e), ERR_DEVICE);
    assert_int_equal(be->ops->attention(be, 1, x, x, y, x, &e), ERR_DEVICE);
    assert_int_equal(be->ops->add(be, x, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->kv_fill(be, kv, &outside, 1, x, x, &e), ERR_DEVICE);
    for (int p = PRECISION_F32; p < PRECISION_COUNT; p++) {
        enum precision finalized = precision_resolve((enum precision)p, be->info.have);
        int rc = be->ops->linear_new(be, finalized, LINEAR_WIDE, 64, 64, 64, w, NULL, &l, &e);

        assert_int_equal(rc, computes(finalized) ? 0 : ERR_MODEL);
        assert_int_equal(backend_precision(be, (enum precision)p, &chosen, &e), rc);
        if (rc == 0)
            be->ops->linear_free(be, l);
        else
            assert_non_null(strstr(e.msg, "fp32"));
        if (rc != 0 && be->info.threads && p == PRECISION_INT8)
            assert_non_null(strstr(e.msg, "not in int8, which wants VNNI: take"));
    }
    assert_ok(backend_precision(be, PRECISION_AUTO, &chosen, &e), e);
    assert_true(computes(chosen));
    be->ops->release(be, kv.data);
    tensor_free(x);
    tensor_free(y);
    free(w);
}

/* A budget holds, and what was there before it was reached still is. */
TEST(budgets)
{
    float *w = values(64 * 64, DTYPE_F32, 1.0f, 1);
    uint64_t before = be->allocated;
    struct linear *l = NULL;
    void *a = NULL, *b = NULL;
    char kept[3] = {0};
    struct err e;

    be->budget = before + (1u << 20);
    assert_ok(be->ops->alloc(be, 1u << 19, &a, &e), e);
    assert_ok(be->ops->write(be, a, "ab", 3, &e), e);
    assert_int_equal(be->ops->alloc(be, (1u << 19) + 4096, &b, &e), ERR_VRAM);
    assert_null(b);
    assert_true(be->allocated >= before + (1u << 19) && be->allocated <= be->budget);
    be->budget = be->allocated;
    assert_int_equal(
        be->ops->linear_new(be, PRECISION_F32, LINEAR_ROWS, 8, 64, 64, w, NULL, &l, &e), ERR_VRAM);
    assert_true(be->allocated == be->budget);
    assert_ok(be->ops->read(be, kept, a, 3, &e), e);
    assert_string_equal(kept, "ab");
    be->budget = 0;
    assert_true(be->peak >= before + (1u << 19));
    be->ops->release(be, a);
    assert_true(be->allocated == before);
    free(w);
}

TEST_MAIN(open_backend, close_backend)
