/* Sequences of different lengths: gathered rows, pools, weighted statistics and attention against
 * double precision, on the host or the device that NIGHTSHIFT_TEST_DEVICE names. */
#include "tests/common/test.h"

#include <math.h>

#include "tests/ops/check.h"
#include "tests/ops/reference_images.h"

/* Device memory with these numbers. */
static int32_t *indices_new(const int32_t *rows, size_t n)
{
    struct err e;
    void *p;

    assert_ok(be->ops->alloc(be, n * sizeof(*rows), &p, &e), e);
    assert_ok(be->ops->write(be, p, rows, n * sizeof(*rows), &e), e);
    return p;
}

static void one_gather(enum dtype type, size_t cols, size_t x_gap, size_t y_gap)
{
    static const int32_t rows[] = {3, -1, 0, 8, 8, 1, -1, 5, 7, 2, 4};
    enum { ROWS = 9, N = COUNT(rows) };
    size_t wide = cols + x_gap;
    float *x = values(ROWS * wide, type, 1.0f, (uint32_t)cols);
    double *want = calloc(N * cols, sizeof(*want));
    float *noise = values(N * (cols + y_gap), type, 1.0f, 77), *after;
    struct tensor tx = tensor_new(type, ROWS, wide, x);
    struct tensor ty = tensor_new(type, N, cols + y_gap, noise);
    int32_t *at = indices_new(rows, N);
    struct err e;

    for (size_t i = 0; i < N; i++)
        for (size_t c = 0; rows[i] >= 0 && c < cols; c++)
            want[i * cols + c] = (double)x[(size_t)rows[i] * wide + x_gap + c];
    assert_ok(be->ops->gather(be, tensor_columns(tx, (int64_t)x_gap, (int64_t)cols), at,
                              tensor_columns(ty, 0, (int64_t)cols), &e),
              e);
    compare("gather", PRECISION_F32, tensor_columns(ty, 0, (int64_t)cols), want, "",
            (uint32_t)cols);
    after = malloc(N * (cols + y_gap) * sizeof(*after)); /* what lies beside is left alone */
    assert_ok(be->ops->get(be, after, ty, &e), e);
    for (size_t i = 0; i < N; i++)
        assert_memory_equal(after + i * (cols + y_gap) + cols, noise + i * (cols + y_gap) + cols,
                            y_gap * sizeof(*after));
    be->ops->release(be, at);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    free(want);
    free(noise);
    free(after);
}

/* The host moves and attends in bf16 without hardware that multiplies it. */
static bool moves(enum dtype type)
{
    return have(type) || (be->info.processors == 0 && type == DTYPE_BF16);
}

TEST(gathers)
{
    for (size_t t = 0; t < COUNT(types); t++) {
        if (!moves(types[t]))
            continue;
        one_gather(types[t], 96, 0, 0);
        one_gather(types[t], 37, 3, 5);
        one_gather(types[t], 1, 0, 1);
        one_gather(types[t], 768, 0, 8);
    }
}

TEST(pools)
{
    static const uint32_t at[] = {0, 1, 8, 200, 202};
    static const size_t widths[] = {384, 61, 1, 2048};
    const struct spans spans = {at, COUNT(at) - 1};

    for (size_t s = 0; s < COUNT(widths); s++) {
        size_t cols = widths[s];
        float *x = values(202 * cols, DTYPE_F32, 2.0f, (uint32_t)s);
        double *want = malloc(spans.count * cols * sizeof(*want));
        struct tensor tx = tensor_new(DTYPE_F32, 202, cols, x);
        struct tensor ty = tensor_new(DTYPE_F32, spans.count, cols, NULL);
        struct err e;

        for (int kind = POOL_MEAN; kind <= POOL_FIRST; kind++) {
            for (uint32_t i = 0; i < spans.count; i++)
                reference_pool((enum pool)kind, x + at[i] * cols, at[i + 1] - at[i], cols,
                               want + i * cols);
            assert_ok(be->ops->pool(be, (enum pool)kind, spans, tx, ty, &e), e);
            compare("pool", PRECISION_F32, ty, want, "", (uint32_t)kind);
        }
        tensor_free(tx);
        tensor_free(ty);
        free(x);
        free(want);
    }
}

/* Weights of 0 and 1, between, a single 1, and none at all. */
TEST(weighted)
{
    enum { WINDOWS = 3, T = 57, SETS = 5 };
    static const uint32_t of[SETS] = {2, 0, 0, 1, 2};
    static const size_t widths[] = {256, 75, 3};

    for (size_t s = 0; s < COUNT(widths); s++) {
        size_t cols = widths[s];
        float *x = values(WINDOWS * T * cols, DTYPE_F32, 1.0f, 21);
        float *w = values(SETS * T, DTYPE_F32, 1.0f, 22);
        double *want = malloc(SETS * 2 * cols * sizeof(*want));
        struct tensor tx, tw, ty = tensor_new(DTYPE_F32, SETS, 2 * cols, NULL);
        struct err e;

        for (size_t i = 0; i < (size_t)SETS * T; i++)
            w[i] = i < T        ? (w[i] > 0 ? 1.0f : 0.0f)
                   : i < 3 * T  ? fabsf(w[i])
                   : i == 3 * T ? 1.0f
                                : 0.0f;
        for (size_t i = 0; i < SETS; i++)
            reference_weighted_stats(x + of[i] * T * cols, T, cols, w + i * T, want + i * 2 * cols);
        tx = tensor_new(DTYPE_F32, WINDOWS * T, cols, x);
        tw = tensor_new(DTYPE_F32, SETS, T, w);
        assert_ok(be->ops->weighted_stats(be, WINDOWS, tx, of, tw, ty, &e), e);
        compare("weighted_stats", PRECISION_F32, ty, want, "", (uint32_t)cols);
        tensor_free(tx);
        tensor_free(tw);
        tensor_free(ty);
        free(x);
        free(w);
        free(want);
    }
}

struct span_case {
    uint32_t heads, head;
    uint32_t length[6]; /* up to the first 0 */
    uint32_t sets;      /* of bias tables; 0: none */
};

static const struct span_case cases[] = {
    {2, 32, {7, 1, 100, 16, 33}, 0}, {3, 64, {12, 145, 2}, 0},
    {1, 128, {31, 13}, 0},           {2, 8, {5, 24}, 0},
    {4, 24, {64, 64, 64}, 2},        {3, 32, {64, 64}, 1},
    {1, 48, {18, 18, 18}, 3},        {2, 64, {600}, 0},
    {1, 120, {49, 49}, 2},
};

/* q, k and v lie side by side in one tensor, as a product leaves them. */
struct attended {
    uint32_t at[7], count;
    size_t rows, cols;
    float *qkv, *bias;
    double *want;
    struct tensor t, out, tables;
};

static const uint32_t sets_of[6] = {1, 0, 1, 2, 0, 1};

static struct attention_bias bias_of(const struct span_case *c, const struct attended *a,
                                     uint32_t *set)
{
    for (uint32_t i = 0; i < a->count; i++)
        set[i] = sets_of[i] % c->sets;
    return (struct attention_bias){a->tables, c->sets, set};
}

static void attended_new(const struct span_case *c, enum dtype type, struct attended *a)
{
    size_t n = c->length[0];

    *a = (struct attended){.cols = (size_t)c->heads * c->head};
    while (a->count < 6 && c->length[a->count]) {
        a->at[a->count + 1] = a->at[a->count] + c->length[a->count];
        a->count++;
    }
    a->rows = a->at[a->count];
    a->qkv = values(a->rows * 3 * a->cols, type, 1.0f, c->head + (uint32_t)a->rows);
    a->want = malloc(a->rows * a->cols * sizeof(*a->want));
    a->t = tensor_new(type, a->rows, 3 * a->cols, a->qkv);
    a->out = tensor_new(type, a->rows, a->cols, NULL);
    if (c->sets) {
        a->bias = values(c->sets * c->heads * n * n, DTYPE_F32, 2.0f, 5);
        for (size_t i = 3; i < c->sets * c->heads * n * n; i += 7)
            a->bias[i] = i % 2 ? -100.0f : -INFINITY; /* masks */
        a->tables = tensor_new(DTYPE_F32, c->sets * c->heads * n, n, a->bias);
    }
}

static void attended_free(struct attended *a)
{
    tensor_free(a->t);
    tensor_free(a->out);
    tensor_free(a->tables);
    free(a->qkv);
    free(a->bias);
    free(a->want);
}

static struct tensor third(const struct attended *a, int i)
{
    return tensor_columns(a->t, i * (int64_t)a->cols, (int64_t)a->cols);
}

static void expect(const struct span_case *c, struct attended *a, double scale)
{
    size_t wide = 3 * a->cols;

    for (uint32_t i = 0; i < a->count; i++) {
        size_t n = c->length[i], first = a->at[i];

        for (size_t h = 0; h < c->heads; h++) {
            for (size_t r = 0; r < n; r++) {
                const float *q = a->qkv + (first + r) * wide + h * c->head;
                const float *k = a->qkv + first * wide + a->cols + h * c->head;
                size_t table = c->sets ? sets_of[i] % c->sets * c->heads + h : 0;

                reference_attend_span(q, k, k + a->cols, wide, c->head, n, scale,
                                      c->sets ? a->bias + (table * n + r) * n : NULL,
                                      a->want + (first + r) * a->cols + h * c->head);
            }
        }
    }
}

static void one_attention(const struct span_case *c, enum dtype type)
{
    float scale = 1.0f / sqrtf((float)c->head);
    struct attention_bias bias = {0};
    struct attended a;
    uint32_t set[6];
    char shape[64];
    struct err e;

    attended_new(c, type, &a);
    expect(c, &a, (double)scale);
    if (c->sets)
        bias = bias_of(c, &a, set);
    snprintf(shape, sizeof(shape), "%u spans, %u heads of %u", a.count, c->heads, c->head);
    assert_ok(be->ops->attention_spans(be, (struct spans){a.at, a.count}, c->heads, c->head, scale,
                                       third(&a, 0), third(&a, 1), third(&a, 2),
                                       c->sets ? &bias : NULL, a.out, &e),
              e);
    compare("attention_spans", PRECISION_F32, a.out, a.want, shape, c->head);
    attended_free(&a);
}

TEST(attentions)
{
    for (size_t t = 0; t < COUNT(types); t++)
        for (size_t i = 0; i < COUNT(cases) && moves(types[t]); i++)
            one_attention(&cases[i], types[t]);
}

/* A sequence yields the same bits alone, whatever others were computed with it. */
static void one_alone(const struct span_case *c)
{
    struct attended a;
    float *got, *alone;
    struct err e;

    attended_new(c, DTYPE_F32, &a);
    got = malloc(a.rows * a.cols * sizeof(*got));
    alone = malloc(a.rows * a.cols * sizeof(*alone));
    assert_ok(be->ops->attention_spans(be, (struct spans){a.at, a.count}, c->heads, c->head, 0.2f,
                                       third(&a, 0), third(&a, 1), third(&a, 2), NULL, a.out, &e),
              e);
    assert_ok(be->ops->get(be, got, a.out, &e), e);
    for (uint32_t i = 0; i < a.count; i++) {
        int64_t first = a.at[i], n = c->length[i];
        const uint32_t at[2] = {0, (uint32_t)n};

        assert_ok(be->ops->attention_spans(
                      be, (struct spans){at, 1}, c->heads, c->head, 0.2f,
                      tensor_rows(third(&a, 0), first, n), tensor_rows(third(&a, 1), first, n),
                      tensor_rows(third(&a, 2), first, n), NULL, tensor_rows(a.out, 0, n), &e),
                  e);
        assert_ok(be->ops->get(be, alone, tensor_rows(a.out, 0, n), &e), e);
        for (size_t k = 0; k < (size_t)n * a.cols; k++)
            assert_true(fabsf(alone[k] - got[(size_t)first * a.cols + k]) <=
                        (be->info.deterministic ? 0.0f : 2e-5f));
    }
    free(got);
    free(alone);
    attended_free(&a);
}

TEST(alone)
{
    one_alone(&cases[0]);
    one_alone(&cases[1]);
}

/* Wrong shapes are refused before anything is touched. */
TEST(refusals)
{
    static const uint32_t at[] = {0, 2, 4}, down[] = {0, 5, 4}, late[] = {1, 2, 4},
                          none[] = {0, 0, 4};
    static const uint32_t uneven[] = {0, 1, 4}, of[2] = {0, 2}, set[2] = {0, 1};
    struct tensor x = tensor_new(DTYPE_F32, 4, 64, NULL), y = tensor_new(DTYPE_F32, 2, 64, NULL);
    struct tensor table = tensor_new(DTYPE_F32, 2 * 2 * 2, 2, NULL);
    struct tensor o = tensor_new(DTYPE_F32, 4, 64, NULL);
    struct tensor w = tensor_new(DTYPE_F32, 2, 2, NULL), z = tensor_new(DTYPE_F32, 2, 128, NULL);
    struct attention_bias bias = {table, 2, set};
    struct spans good = {at, 2};
    struct err e;

    assert_ok(be->ops->pool(be, POOL_MEAN, good, x, y, &e), e);
    assert_int_equal(be->ops->pool(be, POOL_MEAN, (struct spans){down, 2}, x, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->pool(be, POOL_MEAN, (struct spans){late, 2}, x, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->pool(be, POOL_MAX, (struct spans){none, 2}, x, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->pool(be, POOL_FIRST, (struct spans){at, 1}, x, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->weighted_stats(be, 2, x, of, w, z, &e), ERR_DEVICE); /* of[1] */
    assert_int_equal(be->ops->weighted_stats(be, 1, x, set, w, z, &e), ERR_DEVICE);
    assert_int_equal(be->ops->weighted_stats(be, 2, x, set, w, y, &e), ERR_DEVICE);
    assert_ok(be->ops->weighted_stats(be, 2, x, set, w, z, &e), e);
    assert_int_equal(be->ops->gather(be, x, NULL, z, &e), ERR_DEVICE);
#define SPANS(spans, heads, head, q, k, b) \
    be->ops->attention_spans(be, spans, heads, head, 1.0f, q, k, x, b, o, &e)
    assert_ok(SPANS(good, 2, 32, x, x, &bias), e);
    assert_int_equal(SPANS(good, 1, 32, x, x, NULL), ERR_DEVICE);
    assert_int_equal(SPANS(good, 16, 4, x, x, NULL), ERR_DEVICE);
    assert_int_equal(SPANS(good, 0, 64, x, x, NULL), ERR_DEVICE);
    assert_int_equal(SPANS(good, 2, 32, x, y, NULL), ERR_DEVICE);
    assert_int_equal(SPANS(good, 1, 64, x, x, &bias), ERR_DEVICE); /* tables of two heads */
    assert_int_equal(SPANS(((struct spans){uneven, 2}), 2, 32, x, x, &bias), ERR_DEVICE);
    bias.set = of;
    assert_int_equal(SPANS(good, 2, 32, x, x, &bias), ERR_DEVICE);
    tensor_free(x);
    tensor_free(y);
    tensor_free(z);
    tensor_free(w);
    tensor_free(o);
    tensor_free(table);
}

/* ---- rows at another rate */

struct rates {
    struct resample_spec spec;
    uint32_t windows, n, m, cols;
    bool lengths, scaled;
};

/* One value of y, of a window of which `length` rows count. */
static double resampled(const struct rates *c, const float *w, const float *x, uint32_t length,
                        uint32_t i, uint32_t col)
{
    const struct resample_spec *s = &c->spec;
    uint64_t place = (uint64_t)i * s->down;
    int64_t lies = (int64_t)(place / s->up);
    double sum = 0.0;

    if (lies >= length)
        return NAN; /* zeros, whatever gamma and beta are */
    for (uint32_t k = 0; k < s->taps; k++) {
        int64_t row = lies - s->before + k;
        float weight = w[place % s->up * s->taps + k];

        if (s->keep_ends)
            row = row < 0 ? 0 : row >= length ? length - 1 : row;
        if (weight != 0.0f && row >= 0 && row < length)
            sum += (double)weight * (double)x[(size_t)row * c->cols + col];
    }
    return sum;
}

static void one_rate(const struct rates *c, uint32_t seed)
{
    size_t in = (size_t)c->windows * c->n * c->cols, out = (size_t)c->windows * c->m * c->cols;
    float *x = values(in, DTYPE_F32, 2.0f, seed);
    float *w = values((size_t)c->spec.up * c->spec.taps, DTYPE_F32, 1.0f, seed + 1);
    float *gamma = values(c->cols, DTYPE_F32, 1.0f, seed + 2);
    float *beta = values(c->cols, DTYPE_F32, 1.0f, seed + 3);
    double *want = malloc(out * sizeof(*want)), *to = want;
    struct tensor tx, ty = tensor_new(DTYPE_F32, c->windows * (size_t)c->m, c->cols, NULL);
    struct tensor tg = tensor_new(DTYPE_F32, 1, c->cols, gamma);
    struct tensor tb = tensor_new(DTYPE_F32, 1, c->cols, beta);
    struct resampling *r = NULL;
    uint32_t lengths[8];
    struct err e;

    for (uint32_t k = 0; k < c->spec.taps; k++) /* the first phase takes one row as it is */
        w[k] = k == c->spec.before;
    for (uint32_t i = 0; i < c->windows; i++) {
        lengths[i] = c->lengths ? 1 + (c->n - 1) / (i + 1) : c->n;
        for (size_t k = lengths[i] * (size_t)c->cols; k < (size_t)c->n * c->cols; k++)
            x[i * (size_t)c->n * c->cols + k] = NAN; /* what does not count */
        for (uint32_t k = 0; k < c->m; k++)
            for (uint32_t col = 0; col < c->cols; col++) {
                double v = resampled(c, w, x + i * (size_t)c->n * c->cols, lengths[i], k, col);

                if (c->scaled)
                    v = v * (double)gamma[col] + (double)beta[col];
                *to++ = v == v ? v : 0.0;
            }
    }
    tx = tensor_new(DTYPE_F32, c->windows * (size_t)c->n, c->cols, x);
    assert_ok(be->ops->resample_new(be, &c->spec, w, &r, &e), e);
    for (int again = 0; again < 2; again++)
        assert_ok(be->ops->resample(be, r, c->windows, c->lengths ? lengths : NULL, tx,
                                    c->scaled ? &tg : NULL, c->scaled ? &tb : NULL, ty, &e),
                  e);
    compare("resample", PRECISION_F32, ty, want, c->scaled ? "scaled" : "", seed);
    be->ops->resample_free(be, r);
    tensor_free(tx);
    tensor_free(ty);
    tensor_free(tg);
    tensor_free(tb);
    free(x);
    free(w);
    free(gamma);
    free(beta);
    free(want);
}

TEST(rates)
{
    static const struct rates all[] = {
        /* samples three times as many, as CLAP has them; all, of several lengths, few */
        {{3, 1, 128, 63, false}, 2, 1600, 4800, 1, false, false},
        {{3, 1, 128, 63, false}, 4, 1701, 5103, 1, true, false},
        {{3, 1, 128, 63, true}, 2, 17, 60, 1, true, true},
        {{2, 1, 5, 0, false}, 3, 512, 1000, 1, false, true},
        /* its frames, stretched; fewer, too */
        {{1023, 1000, 4, 1, true}, 2, 1001, 1024, 64, false, true},
        {{2, 3, 7, 6, false}, 3, 50, 40, 33, true, true},
        {{1, 4, 1, 0, true}, 1, 9, 3, 1, false, false},
    };

    for (size_t i = 0; i < COUNT(all); i++)
        one_rate(&all[i], (uint32_t)i);
}

TEST(refused_rates)
{
    const struct resample_spec good = {3, 1, 4, 1, false};
    const float w[12] = {1.0f};
    struct tensor x = tensor_new(DTYPE_F32, 10, 2, NULL), y = tensor_new(DTYPE_F32, 30, 2, NULL);
    struct tensor g = tensor_new(DTYPE_F32, 1, 2, NULL), half = tensor_columns(y, 0, 1);
    const uint32_t none[] = {5, 0}, many[] = {6, 5};
    struct resample_spec bad;
    struct resampling *r;
    struct err e;

#define BAD_RATE(change) \
    bad = good;          \
    bad.change;          \
    assert_int_equal(be->ops->resample_new(be, &bad, w, &r, &e), ERR_DEVICE)
    BAD_RATE(up = 0);
    BAD_RATE(up = 65537);
    BAD_RATE(down = 0);
    BAD_RATE(down = 65537);
    BAD_RATE(taps = 0);
    BAD_RATE(taps = 1025);
    BAD_RATE(before = 4);
    assert_ok(be->ops->resample_new(be, &good, w, &r, &e), e);
#define BAD_CALL(windows, lengths, x, gamma, beta, y) \
    assert_int_equal(be->ops->resample(be, r, windows, lengths, x, gamma, beta, y, &e), ERR_DEVICE)
    assert_ok(be->ops->resample(be, r, 2, NULL, x, &g, &g, y, &e), e);
    BAD_CALL(0, NULL, x, NULL, NULL, y);
    BAD_CALL(3, NULL, x, NULL, NULL, y);
    BAD_CALL(10, NULL, x, NULL, NULL, tensor_rows(y, 0, 25));
    BAD_CALL(2, none, x, NULL, NULL, y);
    BAD_CALL(2, many, x, NULL, NULL, y);
    BAD_CALL(2, NULL, x, NULL, NULL, half);
    BAD_CALL(2, NULL, x, &g, NULL, y);
    BAD_CALL(2, NULL, x, &g, &x, y);
    be->ops->resample_free(be, r);
    be->ops->resample_free(be, NULL);
    tensor_free(x);
    tensor_free(y);
    tensor_free(g);
}

TEST_MAIN(open_backend, close_backend)
