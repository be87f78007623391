/* What voice activity and speakers need: LSTMs over many sequences, and magnitudes of spectra. */
#include "tests/ops/check.h"
#include "tests/ops/reference_lstm.h"

struct one {
    size_t in, hidden, sequences, steps;
    size_t directions;
    bool ragged, bias;
};

struct run {
    struct one o;
    uint32_t seed;
    float *x, *h, *c; /* as they were before */
    uint32_t *lengths;
    struct reference_lstm weights[2]; /* of the directions */
    float *owned[4];                  /* [directions][...] */
    struct lstm *l;
};

static struct run run_new(struct one o, uint32_t seed)
{
    struct run r = {.o = o, .seed = seed};
    struct lstm_weights w[2];
    size_t rows = 4 * o.hidden;
    struct err e;

    r.x = values(o.sequences * o.steps * o.in, DTYPE_F32, 2.0f, seed);
    r.h = values(o.directions * o.sequences * o.hidden, DTYPE_F32, 1.0f, seed + 1);
    r.c = values(o.directions * o.sequences * o.hidden, DTYPE_F32, 2.0f, seed + 2);
    r.owned[0] = values(o.directions * rows * o.in, DTYPE_F32, 0.3f, seed + 3);
    r.owned[1] = values(o.directions * rows * o.hidden, DTYPE_F32, 0.2f, seed + 4);
    r.owned[2] = o.bias ? values(o.directions * rows, DTYPE_F32, 0.5f, seed + 5) : NULL;
    r.owned[3] = o.bias ? values(o.directions * rows, DTYPE_F32, 0.5f, seed + 6) : NULL;
    for (size_t d = 0; d < o.directions; d++) {
        w[d] = (struct lstm_weights){r.owned[0] + d * rows * o.in, r.owned[1] + d * rows * o.hidden,
                                     o.bias ? r.owned[2] + d * rows : NULL,
                                     o.bias ? r.owned[3] + d * rows : NULL};
        r.weights[d] =
            (struct reference_lstm){o.in, o.hidden, w[d].w_ih, w[d].w_hh, w[d].b_ih, w[d].b_hh};
    }
    r.lengths = calloc(o.sequences, sizeof(*r.lengths));
    for (size_t i = 0; i < o.sequences; i++) /* none, all, and some between */
        r.lengths[i] = (uint32_t)((i * 7) % (o.steps + 1));
    assert_ok(be->ops->lstm_new(be, (int64_t)o.in, (int64_t)o.hidden, (uint32_t)o.directions, w,
                                &r.l, &e),
              e);
    return r;
}

static void run_free(struct run *r)
{
    be->ops->lstm_free(be, r->l);
    for (int i = 0; i < 4; i++)
        free(r->owned[i]);
    free(r->x);
    free(r->h);
    free(r->c);
    free(r->lengths);
}

/* The states of sequences [from, from + n) before, of each direction. */
static struct tensor state_new(const struct run *r, const float *all, size_t from, size_t n)
{
    size_t row = r->o.hidden, each = n * row;
    float *some = malloc(r->o.directions * each * sizeof(*some));
    struct tensor ret;

    for (size_t d = 0; d < r->o.directions; d++)
        memcpy(some + d * each, all + (d * r->o.sequences + from) * row, each * sizeof(*some));
    ret = tensor_new(DTYPE_F32, r->o.directions * n, row, some);
    free(some);
    return ret;
}

/* Sequences [from, from + n) in one call. ret: y, h and c. y is the middle of a wider tensor, which
 * stays as it was beside it. */
static void through(const struct run *r, size_t from, size_t n, struct tensor *ret)
{
    struct one o = r->o;
    size_t rows = n * o.steps, cols = o.directions * o.hidden;
    float *marks = values(rows * (cols + 8), DTYPE_F32, 1.0f, 9), *back;
    struct tensor wide = tensor_new(DTYPE_F32, rows, cols + 8, marks);
    struct tensor x = tensor_new(DTYPE_F32, rows, o.in, r->x + from * o.steps * o.in);
    struct tensor y = tensor_columns(wide, 4, (int64_t)cols);
    struct err e;

    ret[0] = tensor_new(DTYPE_F32, rows, cols, NULL);
    ret[1] = state_new(r, r->h, from, n);
    ret[2] = state_new(r, r->c, from, n);
    assert_ok(be->ops->lstm(be, r->l, (uint32_t)n, x, o.ragged ? r->lengths + from : NULL, ret[1],
                            ret[2], y, &e),
              e);
    assert_ok(be->ops->copy(be, ret[0], y, &e), e);
    back = malloc(rows * (cols + 8) * sizeof(*back));
    assert_ok(be->ops->get(be, back, wide, &e), e);
    for (size_t i = 0; i < rows * (cols + 8); i++)
        if (i % (cols + 8) < 4 || i % (cols + 8) >= cols + 4)
            assert_true(back[i] == marks[i]);
    tensor_free(wide);
    tensor_free(x);
    free(marks);
    free(back);
}

/* One sequence in one direction; y: of all of them. */
static void reference_direction(const struct run *r, size_t s, size_t d, double *h, double *c,
                                double *y)
{
    struct one o = r->o;
    double *own = malloc(o.steps * o.hidden * sizeof(*own));

    reference_lstm(&r->weights[d], r->x + s * o.steps * o.in, o.steps,
                   o.ragged ? r->lengths[s] : o.steps, d == 1, h, c, own);
    for (size_t t = 0; t < o.steps; t++)
        memcpy(y + ((s * o.steps + t) * o.directions + d) * o.hidden, own + t * o.hidden,
               o.hidden * sizeof(*own));
    free(own);
}

static void against_reference(struct one o)
{
    struct run r = run_new(o, (uint32_t)(o.in + o.hidden * 3 + o.sequences * 5 + o.steps * 11));
    size_t n = o.directions * o.sequences * o.hidden;
    double *h = malloc(n * sizeof(*h)), *c = malloc(n * sizeof(*c));
    double *y = malloc(n * o.steps * sizeof(*y));
    struct tensor got[3];
    char shape[128];

    snprintf(shape, sizeof(shape), "%zu sequences of %zu, %zu -> %zu x %zu%s", o.sequences, o.steps,
             o.in, o.directions, o.hidden, o.ragged ? ", ragged" : "");
    for (size_t i = 0; i < n; i++) {
        h[i] = (double)r.h[i];
        c[i] = (double)r.c[i];
    }
    for (size_t i = 0; i < o.directions * o.sequences; i++)
        reference_direction(&r, i % o.sequences, i / o.sequences, h + i * o.hidden,
                            c + i * o.hidden, y);
    through(&r, 0, o.sequences, got);
    compare("lstm", PRECISION_F32, got[0], y, shape, r.seed);
    compare("lstm h", PRECISION_F32, got[1], h, shape, r.seed);
    compare("lstm c", PRECISION_F32, got[2], c, shape, r.seed);
    for (int i = 0; i < 3; i++)
        tensor_free(got[i]);
    run_free(&r);
    free(h);
    free(c);
    free(y);
}

TEST(lstms)
{
    static const struct one shapes[] = {
        {1, 8, 1, 1, 1, false, true},      {3, 8, 1, 1, 2, false, false},
        {128, 128, 1, 20, 1, false, true}, {128, 128, 9, 11, 2, true, true},
        {60, 24, 17, 6, 2, true, true},    {5, 40, 3, 30, 2, false, false},
        {129, 32, 8, 3, 1, true, false},   {17, 512, 2, 4, 2, true, true},
        {7, 16, 40, 5, 1, false, true},    {256, 128, 37, 3, 2, true, true},
        {40, 256, 5, 4, 1, false, true},   {9, 120, 5, 6, 2, true, true},
        {64, 64, 20, 5, 2, true, true},    {16, 128, 24, 4, 1, true, true},
    };

    for (size_t i = 0; i < COUNT(shapes); i++)
        against_reference(shapes[i]);
}

/* Many sequences in one call, the same ones alone: equal bits on the host and with `deterministic`,
 * else nearly so. So many that the host takes them in several parts. */
static void group(size_t hidden)
{
    const struct one o = {16, hidden, (size_t)test_share(300), 12, 2, true, true};
    struct run r = run_new(o, 77);
    struct tensor all[3], some[3];
    size_t row = o.hidden, many = o.steps * o.directions * row;
    float *want = malloc(o.sequences * many * sizeof(*want)),
          *got = malloc(3 * many * sizeof(*got));
    struct err e;

    through(&r, 0, o.sequences, all);
    for (int part = 0; part < 3; part++) {
        size_t each = part == 0 ? many : row; /* of a sequence, in each of the directions' blocks */
        size_t blocks = part == 0 ? 1 : o.directions;

        assert_ok(be->ops->get(be, want, all[part], &e), e);
        for (size_t s = 0; s < o.sequences; s += o.sequences / 8) {
            size_t n = s % 2 ? 3 : 1;

            through(&r, s, n, some);
            assert_ok(be->ops->get(be, got, some[part], &e), e);
            for (size_t i = 0; i < blocks * n * each; i++) {
                size_t from = (i / (n * each) * o.sequences + s) * each + i % (n * each);

                assert_true(fabsf(got[i] - want[from]) <= (be->info.deterministic ? 0.0f : 5e-6f));
            }
            for (int i = 0; i < 3; i++)
                tensor_free(some[i]);
        }
    }
    for (int i = 0; i < 3; i++)
        tensor_free(all[i]);
    run_free(&r);
    free(want);
    free(got);
}

TEST(grouping)
{
    group(512);
    group(128);
}

/* A sequence in two calls is the sequence in one: the state is all there is. */
TEST(continuing)
{
    enum { IN = 16, HIDDEN = 128, STEPS = 50, SPLIT = 19 };
    struct run r = run_new((struct one){IN, HIDDEN, 1, STEPS, 1, false, true}, 5);
    struct tensor whole[3], x = tensor_new(DTYPE_F32, STEPS, IN, r.x), head = x, tail = x;
    struct tensor h = tensor_new(DTYPE_F32, 1, HIDDEN, r.h),
                  c = tensor_new(DTYPE_F32, 1, HIDDEN, r.c);
    struct tensor y = tensor_new(DTYPE_F32, STEPS, HIDDEN, NULL), yh = y, yt = y;
    float want[STEPS * HIDDEN], got[STEPS * HIDDEN];
    struct err e;

    through(&r, 0, 1, whole);
    head.rows = yh.rows = SPLIT;
    tail.rows = yt.rows = STEPS - SPLIT;
    tail.data = (float *)x.data + SPLIT * IN;
    yt.data = (float *)y.data + SPLIT * HIDDEN;
    assert_ok(be->ops->lstm(be, r.l, 1, head, NULL, h, c, yh, &e), e);
    assert_ok(be->ops->lstm(be, r.l, 1, tail, NULL, h, c, yt, &e), e);
    assert_ok(be->ops->get(be, want, whole[0], &e), e);
    assert_ok(be->ops->get(be, got, y, &e), e);
    for (size_t i = 0; i < STEPS * HIDDEN; i++)
        assert_true(fabsf(got[i] - want[i]) <= (be->info.deterministic ? 0.0f : 5e-6f));
    for (int i = 0; i < 3; i++)
        tensor_free(whole[i]);
    tensor_free(x);
    tensor_free(h);
    tensor_free(c);
    tensor_free(y);
    run_free(&r);
}

/* One unit whose gates are what x says, far out and near zero: each function by itself, relative to
 * its own value; and a NaN that is not made a number of. */
TEST(saturation)
{
    static const float sums[] = {0,    1e-6f, -1e-6f, 1e-3f, -0.3f,  0.9999f, 1.0001f, -1,
                                 3.5f, -7,    12,     -15,   -25.5f, 60,      -60,     200};
    enum { N = COUNT(sums), HIDDEN = 8 };
    float w_ih[4 * HIDDEN * 4] = {0}, w_hh[4 * HIDDEN * HIDDEN] = {0}, x[N * N * 4], *h, *c;
    struct lstm *l;
    struct err e;

    for (size_t u = 0; u < 4 * HIDDEN; u++)
        w_ih[u * 4 + u / HIDDEN] = 1; /* gate g is x[g] */
    for (size_t i = 0; i < N * N; i++) {
        x[i * 4] = sums[i / N];
        x[i * 4 + 1] = 0;
        x[i * 4 + 2] = sums[i % N];
        x[i * 4 + 3] = sums[(i + i / N) % N];
    }
    struct tensor tx = tensor_new(DTYPE_F32, N * N, 4, x);
    struct tensor th = tensor_new(DTYPE_F32, N * N, HIDDEN, NULL), tc, ty;
    tc = tensor_new(DTYPE_F32, N * N, HIDDEN, NULL);
    ty = tensor_new(DTYPE_F32, N * N, HIDDEN, NULL);
    assert_ok(
        be->ops->lstm_new(be, 4, HIDDEN, 1, &(struct lstm_weights){w_ih, w_hh, NULL, NULL}, &l, &e),
        e);
    assert_ok(be->ops->lstm(be, l, N * N, tx, NULL, th, tc, ty, &e), e);
    h = malloc(N * N * HIDDEN * sizeof(*h));
    c = malloc(N * N * HIDDEN * sizeof(*c));
    assert_ok(be->ops->get(be, h, th, &e), e);
    assert_ok(be->ops->get(be, c, tc, &e), e);
    for (size_t i = 0; i < N * N; i++) {
        double in = 1 / (1 + exp(-(double)x[i * 4])), out = 1 / (1 + exp(-(double)x[i * 4 + 3]));
        double cell = in * tanh((double)x[i * 4 + 2]), hidden = out * tanh(cell);

        for (size_t u = 0; u < HIDDEN; u++) { /* 3e-6: three functions and their products */
            assert_true(fabs((double)c[i * HIDDEN + u] - cell) <= 3e-6 * fabs(cell) + 1e-36);
            assert_true(fabs((double)h[i * HIDDEN + u] - hidden) <= 3e-6 * fabs(hidden) + 1e-36);
        }
    }
    x[2] = NAN;
    assert_ok(be->ops->put(be, tx, x, &e), e);
    assert_ok(be->ops->lstm(be, l, N * N, tx, NULL, th, tc, ty, &e), e);
    assert_ok(be->ops->get(be, h, ty, &e), e);
    assert_true(isnan(h[0]) && isnan(h[HIDDEN - 1]) && isfinite(h[HIDDEN]));
    be->ops->lstm_free(be, l);
    tensor_free(tx);
    tensor_free(th);
    tensor_free(tc);
    tensor_free(ty);
    free(h);
    free(c);
}

TEST(magnitudes)
{
    static const size_t shapes[][2] = {{1, 1}, {4, 129}, {700, 129}, {3, 200}};

    for (size_t i = 0; i < COUNT(shapes); i++) {
        size_t rows = shapes[i][0], n = shapes[i][1];
        float *x = values(rows * 2 * n, DTYPE_F32, 3.0f, (uint32_t)n);
        double *want = malloc(rows * n * sizeof(*want));
        struct tensor tx, ty = tensor_new(DTYPE_F32, rows, n, NULL);
        struct err e;

        x[0] = x[n] = 0; /* no NaN from a root of nothing */
        tx = tensor_new(DTYPE_F32, rows, 2 * n, x);
        for (size_t k = 0; k < rows * n; k++)
            want[k] = hypot((double)x[k / n * 2 * n + k % n], (double)x[k / n * 2 * n + n + k % n]);
        assert_ok(be->ops->magnitude(be, tx, ty, &e), e);
        compare("magnitude", PRECISION_F32, ty, want, "", (uint32_t)rows);
        tensor_free(tx);
        tensor_free(ty);
        free(x);
        free(want);
    }
}

TEST(refusals)
{
    float *w = values(4 * 16 * 16, DTYPE_F32, 1.0f, 1);
    struct tensor x = tensor_new(DTYPE_F32, 6, 16, NULL), y = tensor_new(DTYPE_F32, 6, 16, NULL);
    struct tensor h = tensor_new(DTYPE_F32, 2, 16, NULL), c = tensor_new(DTYPE_F32, 2, 16, NULL);
    struct tensor narrow = tensor_columns(y, 0, 8);
    const uint32_t too_long[] = {3, 4};
    const struct lstm_weights weights = {w, w, NULL, NULL};
    struct lstm *l = NULL;
    struct err e;

    assert_int_equal(be->ops->lstm_new(be, 16, 12, 1, &weights, &l, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm_new(be, 16, 520, 1, &weights, &l, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm_new(be, 0, 16, 1, &weights, &l, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm_new(be, 16, 16, 0, &weights, &l, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm_new(be, 16, 16, 3, &weights, &l, &e), ERR_DEVICE);
    assert_null(l);
    assert_ok(be->ops->lstm_new(be, 16, 16, 1, &weights, &l, &e), e);
    assert_int_equal(be->ops->lstm(be, l, 0, x, NULL, h, c, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm(be, l, 4, x, NULL, h, c, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm(be, l, 3, x, NULL, h, c, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm(be, l, 2, x, too_long, h, c, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm(be, l, 2, x, NULL, h, c, narrow, &e), ERR_DEVICE);
    assert_int_equal(be->ops->lstm(be, l, 2, narrow, NULL, h, c, y, &e), ERR_DEVICE);
    assert_ok(be->ops->lstm(be, l, 2, x, NULL, h, c, y, &e), e);
    assert_int_equal(be->ops->magnitude(be, x, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->magnitude(be, x, tensor_columns(h, 0, 8), &e), ERR_DEVICE);
    be->ops->lstm_free(be, l);
    be->ops->lstm_free(be, NULL);
    tensor_free(x);
    tensor_free(y);
    tensor_free(h);
    tensor_free(c);
    free(w);
}

TEST_MAIN(open_backend, close_backend)
