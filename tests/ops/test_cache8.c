/* Caches of 8 bits: what kv_fill leaves in them is held by what attention and scores make of it,
 * against double precision over numbers that were rounded here by the rule of gpu/backend.h; and
 * how far that is from numbers that were not. */
#include "tests/ops/check.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/distance.h"
#include "tests/ops/reference.h"

enum { SLOTS = 4, MOST_ROWS = 21 };

static enum precision precision_of(enum dtype type)
{
    return type == DTYPE_F32 ? PRECISION_F32 : PRECISION_BF16;
}

/* x: [n][stride], d columns of it; each becomes what the cache holds. */
static void round_columns(float *x, size_t n, size_t stride, size_t d)
{
    for (size_t c = 0; c < d; c++) {
        float high = 0.0f, scale, factor;

        for (size_t i = 0; i < n; i++)
            high = fmaxf(high, fabsf(x[i * stride + c]));
        scale = high / 127.0f;
        factor = high >= 1e-36f ? 127.0f / high : 0.0f;
        for (size_t i = 0; i < n; i++)
            x[i * stride + c] = rintf(x[i * stride + c] * factor) * scale;
    }
}

/* Keys and values of some windows in slots out of order, and queries that look at them. */
struct scene {
    enum dtype type;
    uint32_t n, windows, heads, count;
    size_t d;
    float *k, *v, *q; /* as they were given */
    struct tensor tk, tv, tq, to;
    struct kv kv;
    struct token_row rows[MOST_ROWS], *on_device;
};

/* Runs of one window, of several lengths, also over a multiple of eight; nobody's between them. */
static const int32_t looks[MOST_ROWS] = {1, 1, 0, 2, 2, 2, 2, -1, 2, 2, 2,
                                         2, 2, 2, 2, 2, 1, 0, 1,  1, 1};

static struct scene scene_new(enum dtype type, uint32_t n, uint32_t windows, uint32_t heads,
                              uint32_t count)
{
    static const uint32_t slots[] = {3, 0, 1};
    struct scene s = {.type = type, .n = n, .windows = windows, .heads = heads, .count = count};
    size_t total;
    struct err e;

    s.d = (size_t)heads * HEAD;
    total = windows * n * s.d;
    s.k = values(total, type, 1.0f, n);
    s.v = values(total, type, 1.0f, n + 7);
    s.q = values(count * s.d, type, 1.0f, n + 9);
    for (size_t i = 0; i < total; i++) { /* dimensions of different sizes */
        s.k[i] *= i % 5 ? 1.0f : 0.125f;
        s.v[i] *= i % 7 ? 0.25f : 1.0f;
    }
    s.tk = tensor_new(type, (size_t)windows * n, s.d, s.k);
    s.tv = tensor_new(type, (size_t)windows * n, s.d, s.v);
    s.tq = tensor_new(type, count, s.d, s.q);
    s.to = tensor_new(type, count, s.d, NULL);
    s.kv = kv_new(DTYPE_I8, heads, n + 3, SLOTS);
    for (uint32_t r = 0; r < count; r++) {
        int32_t w = looks[r % MOST_ROWS];

        s.rows[r] = w < 0 ? (struct token_row){-1, 0, 0, INT32_MAX}
                          : (struct token_row){.cross = (int32_t)slots[(uint32_t)w % windows]};
    }
    s.on_device = rows_new(s.rows, count);
    assert_ok(be->ops->kv_fill(be, s.kv, slots, windows, s.tk, s.tv, &e), e);
    return s;
}

static size_t window_of(const struct scene *s, uint32_t row)
{
    return (uint32_t)looks[row % MOST_ROWS] % s->windows;
}

static void scene_free(struct scene *s)
{
    be->ops->release(be, s->on_device);
    be->ops->release(be, s->kv.data);
    tensor_free(s->tk);
    tensor_free(s->tv);
    tensor_free(s->tq);
    tensor_free(s->to);
    free(s->k);
    free(s->v);
    free(s->q);
}

/* What every row but nobody's gets; of those it is what is there. */
static double *expected(const struct scene *s, const float *k, const float *v)
{
    double *want = malloc(s->count * s->d * sizeof(*want));
    float *have = malloc(s->count * s->d * sizeof(*have));
    struct err e;

    assert_ok(be->ops->get(be, have, s->to, &e), e);
    for (uint32_t r = 0; r < s->count; r++)
        for (uint32_t h = 0; h < s->heads; h++) {
            size_t at = r * s->d + h * HEAD, from;

            if (s->rows[r].slot < 0) {
                for (size_t i = 0; i < HEAD; i++)
                    want[at + i] = (double)have[at + i];
                continue;
            }
            from = window_of(s, r) * s->n * s->d + h * HEAD;
            reference_attend(s->q + at, k + from, v + from, s->d, s->n, want + at);
        }
    free(have);
    return want;
}

static void round_scene(struct scene *s)
{
    for (uint32_t w = 0; w < s->windows; w++) {
        round_columns(s->k + (size_t)w * s->n * s->d, s->n, s->d, s->d);
        round_columns(s->v + (size_t)w * s->n * s->d, s->n, s->d, s->d);
    }
}

static void check_scores(const struct scene *s, const char *shape)
{
    struct tensor out = tensor_new(DTYPE_F32, s->count, s->n, NULL);
    double *want = calloc((size_t)s->count * s->n, sizeof(*want));
    struct err e;

    for (uint32_t h = 0; h < s->heads; h++) {
        for (size_t i = 0; i < (size_t)s->count * s->n; i++) {
            size_t r = i / s->n, from;

            want[i] = 0.0;
            if (s->rows[r].slot < 0)
                continue; /* stays as it was: zeros */
            from = (window_of(s, (uint32_t)r) * s->n + i % s->n) * s->d + h * HEAD;
            for (size_t c = 0; c < HEAD; c++)
                want[i] += (double)s->q[r * s->d + h * HEAD + c] * (double)s->k[from + c] / 8.0;
        }
        assert_ok(be->ops->attention_scores(be, s->tq, s->kv, s->on_device, h, s->n, out, &e), e);
        compare("scores", precision_of(s->type), out, want, shape, h);
    }
    tensor_free(out);
    free(want);
}

static void one_case(enum dtype type, uint32_t n, uint32_t windows, uint32_t heads, uint32_t count)
{
    struct scene s = scene_new(type, n, windows, heads, count);
    char shape[96];
    double *want;
    struct err e;

    snprintf(shape, sizeof(shape), "8 bits, %u windows of %u, %u heads, %u rows", windows, n, heads,
             count);
    round_scene(&s);
    assert_ok(be->ops->attention_rows(be, s.tq, s.kv, s.on_device, n, s.to, &e), e);
    want = expected(&s, s.k, s.v);
    compare("attention_rows", precision_of(type), s.to, want, shape, n);
    check_scores(&s, shape);
    free(want);
    scene_free(&s);
}

TEST(against_double)
{
    static const uint32_t keys[] = {1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 449};

    for (size_t t = 0; t < COUNT(types); t++) {
        for (size_t i = 0; have(types[t]) && i < COUNT(keys); i++)
            one_case(types[t], keys[i], 3, 1 + (uint32_t)i % 3, i % 2 ? MOST_ROWS : 9);
        if (have(types[t]))
            one_case(types[t], 1500, 3, 2, MOST_ROWS);
    }
}

/* Rows of a scene, every so many of them, have the bits that they have alone. */
static void in_company(enum dtype type, uint32_t n, uint32_t windows, uint32_t heads,
                       uint32_t every)
{
    struct scene s = scene_new(type, n, windows, heads, MOST_ROWS);
    float *all = malloc(MOST_ROWS * s.d * sizeof(*all)), *one = malloc(s.d * sizeof(*one));
    struct err e;

    assert_ok(be->ops->attention_rows(be, s.tq, s.kv, s.on_device, n, s.to, &e), e);
    assert_ok(be->ops->get(be, all, s.to, &e), e);
    for (uint32_t r = 0; r < MOST_ROWS; r += every) {
        struct token_row *alone = rows_new(&s.rows[r], 1);

        if (s.rows[r].slot >= 0) {
            assert_ok(be->ops->attention_rows(be, tensor_rows(s.tq, r, 1), s.kv, alone, n,
                                              tensor_rows(s.to, 0, 1), &e),
                      e);
            assert_ok(be->ops->get(be, one, tensor_rows(s.to, 0, 1), &e), e);
            assert_memory_equal(one, all + r * s.d, s.d * sizeof(*one));
        }
        be->ops->release(be, alone);
    }
    free(all);
    free(one);
    scene_free(&s);
}

/* Wherever a row stands and whoever shares its window; and a second time. */
TEST(in_any_company)
{
    for (size_t t = 0; t < COUNT(types); t++)
        if (have(types[t]))
            in_company(types[t], 700, 3, 2, 1);
}

/* So many heads that a GPU's blocks have several pieces of a window each, and the last one less. */
TEST(in_much_company)
{
    enum dtype type = have(DTYPE_BF16) ? DTYPE_BF16 : DTYPE_F32;

    in_company(type, 770, 2, 115, 4);
}

/* Against numbers that were not rounded: a step is 1/127 of a dimension's largest value, so its
 * error is 0.29/127 = 0.0023 of that on average, at random. The mean of so many keys has as much of
 * it as of its own size; the largest of 2,700 errors is some four times the usual one. */
TEST(near_what_was_given)
{
    struct scene s = scene_new(DTYPE_F32, 1500, 3, 2, MOST_ROWS);
    float *got = malloc(MOST_ROWS * s.d * sizeof(*got));
    double *want, high = 0.0, worst = 0.0;
    struct err e;

    assert_ok(be->ops->attention_rows(be, s.tq, s.kv, s.on_device, 1500, s.to, &e), e);
    assert_ok(be->ops->get(be, got, s.to, &e), e);
    want = expected(&s, s.k, s.v);
    for (size_t i = 0; i < MOST_ROWS * s.d; i++) {
        high = fmax(high, fabs(want[i]));
        worst = distance_larger(worst, fabs((double)got[i] - want[i]));
    }
    assert_true(worst > 0.0 && worst <= 0.01 * high);
    free(got);
    free(want);
    scene_free(&s);
}

/* A dimension of zeros, or of next to nothing, is zeros; one with a value that is no number shows
 * in its own head and window, and nowhere else; and what a former window left is not seen. */
TEST(odd_values)
{
    enum { N = 40, D = 2 * HEAD };
    static const uint32_t slots[] = {2, 1};
    static const struct token_row two[] = {{.cross = 2}, {.cross = 1}};

    for (size_t t = 0; t < COUNT(types); t++) {
        float *x, *got = malloc(2 * D * sizeof(*got));
        struct kv kv = kv_new(DTYPE_I8, 2, N + 1, 3);
        struct token_row *rows = rows_new(two, 2);
        struct tensor tx, tq, to;
        struct err e;

        if (have(types[t])) {
            x = values(2 * N * D, types[t], 1.0f, 3);
            tq = tensor_new(types[t], 2, D, x);
            to = tensor_new(types[t], 2, D, NULL);
            for (float bad = NAN;; bad = INFINITY) {
                x[5 * D + HEAD + 3] = bad; /* window 0, head 1 */
                tx = tensor_new(types[t], 2 * N, D, x);
                assert_ok(be->ops->kv_fill(be, kv, slots, 2, tx, tx, &e), e);
                assert_ok(be->ops->attention_rows(be, tq, kv, rows, N, to, &e), e);
                assert_ok(be->ops->get(be, got, to, &e), e);
                for (int i = 0; i < 2 * D; i++)
                    assert_true(i / HEAD == 1 ? !isfinite(got[i]) : isfinite(got[i]));
                tensor_free(tx);
                if (isinf(bad))
                    break;
            }
            for (int i = 0; i < 2 * N * D; i++)
                x[i] = i % 2 ? 0.0f : types[t] == DTYPE_F16 ? 0.0f : 1e-37f;
            tx = tensor_new(types[t], 2 * N, D, x);
            assert_ok(be->ops->kv_fill(be, kv, slots, 2, tx, tx, &e), e);
            assert_ok(be->ops->attention_rows(be, tq, kv, rows, N, to, &e), e);
            assert_ok(be->ops->get(be, got, to, &e), e);
            for (int i = 0; i < 2 * D; i++)
                assert_true(got[i] == 0.0f);
            tensor_free(tx);
            tensor_free(tq);
            tensor_free(to);
            free(x);
        }
        be->ops->release(be, rows);
        be->ops->release(be, kv.data);
        free(got);
    }
}

/* Nothing but whole windows goes in, and only what asks for a window looks. */
TEST(refusals)
{
    struct tensor x = tensor_new(DTYPE_F32, 4, 2 * HEAD, NULL);
    struct tensor wrong = tensor_new(DTYPE_F32, 4, HEAD, NULL);
    struct kv kv = kv_new(DTYPE_I8, 2, 4, 2);
    const struct token_row row[4] = {{0}};
    struct token_row *rows = rows_new(row, 4);
    const uint32_t slot = 0, outside = 2;
    struct err e;

    assert_int_equal(be->ops->kv_append(be, kv, rows, x, x, &e), ERR_DEVICE);
    assert_int_equal(be->ops->attention_rows(be, x, kv, rows, 0, x, &e), ERR_DEVICE);
    assert_int_equal(be->ops->attention_rows(be, x, kv, rows, 5, x, &e), ERR_DEVICE);
    assert_int_equal(be->ops->kv_fill(be, kv, &slot, 1, wrong, wrong, &e), ERR_DEVICE);
    assert_int_equal(be->ops->kv_fill(be, kv, &outside, 1, x, x, &e), ERR_DEVICE);
    assert_ok(be->ops->kv_fill(be, kv, &slot, 1, x, x, &e), e);
    assert_ok(be->ops->attention_rows(be, x, kv, rows, 4, x, &e), e);
    be->ops->release(be, rows);
    be->ops->release(be, kv.data);
    tensor_free(x);
    tensor_free(wrong);
}

/* A little more than half of what 16 bits take, and what they do not: the scales. */
TEST(sizes)
{
    size_t eight = be->ops->kv_bytes(DTYPE_I8, 20, 1500);

    assert_int_equal(eight % 64, 0);
    assert_true(eight >= (size_t)20 * 2 * HEAD * (1500 + sizeof(float)));
    assert_true(eight <= (size_t)20 * 2 * HEAD * (1504 + sizeof(float)));
}

TEST(names)
{
    static const char *const said[] = {"", "auto", "16", "16bit", "8", "8bit"};
    static const enum cache_precision meant[] = {CACHE_AUTO, CACHE_AUTO, CACHE_16,
                                                 CACHE_16,   CACHE_8,    CACHE_8};
    static const char *const not_said[] = {"autobit", "8bits", "1", "4", "int8", "16 "};
    enum cache_precision c;
    struct err e;

    for (size_t i = 0; i < COUNT(said); i++) {
        assert_ok(cache_precision_parse(said[i], &c, &e), e);
        assert_int_equal(c, meant[i]);
    }
    for (size_t i = 0; i < COUNT(not_said); i++)
        assert_int_equal(cache_precision_parse(not_said[i], &c, &e), ERR_USAGE);
    for (int p = PRECISION_F32; p < PRECISION_COUNT; p++) {
        bool whole = p == PRECISION_F32 || p == PRECISION_TF32;

        assert_int_equal(cache_precision_resolve(CACHE_AUTO, (enum precision)p),
                         whole ? CACHE_16 : CACHE_8);
        assert_int_equal(cache_precision_resolve(CACHE_8, (enum precision)p), CACHE_8);
        assert_int_equal(cache_precision_resolve(CACHE_16, (enum precision)p), CACHE_16);
    }
    assert_int_equal(cache_precision_type(CACHE_8, PRECISION_F32), DTYPE_I8);
    assert_int_equal(cache_precision_type(CACHE_16, PRECISION_FP8), DTYPE_BF16);
}

TEST_MAIN(open_backend, close_backend)
