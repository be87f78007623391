/* What only the CUDA module's operations do: be recorded and run again on other data, refuse what
 * may not be recorded, and work in fixed pieces. What they compute: tests/ops. */
#include "tests/cuda/module.h"

#include <math.h>

#include <cublasLt.h>

#include "base/buf.h"

static struct emulated cuda;

static struct backend *open_device(bool deterministic)
{
    struct cuda_options o = {.deterministic = deterministic};
    struct backend *be;
    struct err e;

    assert_ok(cuda.module->open("0", &o, &be, &e), e);
    return be;
}

static uint32_t state = 1;

static float next(void)
{
    state = state * 1664525u + 1013904223u;
    return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static float *values(size_t n)
{
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = next();
    return x;
}

static void *device_new(struct backend *be, size_t bytes, const void *from)
{
    struct err e;
    void *p;

    assert_ok(be->ops->alloc(be, bytes, &p, &e), e);
    if (from)
        assert_ok(be->ops->write(be, p, from, bytes, &e), e);
    return p;
}

static struct tensor tensor_new(struct backend *be, size_t rows, size_t cols, const float *x)
{
    return tensor_of(DTYPE_F32, device_new(be, rows * cols * sizeof(float), x), (int64_t)rows,
                     (int64_t)cols);
}

/* --- recordings ----------------------------------------------------------------------------- */

enum { VOCAB = 300, ROWS = 3, TOP = 6, KEYS = 5, WIDTH = 64 };

/* A step of a beam search: cross-attention, choice, candidates. */
struct step {
    struct backend *be;
    struct rules *rules;
    struct kv kv;
    struct tensor q, out, logits;
    struct token_row *rows;
    struct choice_ask *asks;
    struct choice *choices;
    struct candidate *top;
};

static int run_step(struct step *s, struct err *err)
{
    const struct backend_ops *ops = s->be->ops;
    int rc = ops->attention_rows(s->be, s->q, s->kv, s->rows, KEYS, s->out, err);

    if (rc == 0)
        rc = ops->choose(s->be, s->rules, s->logits, s->asks, s->choices, err);
    return rc == 0 ? ops->top(s->be, s->logits, TOP, s->top, err) : rc;
}

static void open_step(struct step *s, bool deterministic)
{
    const struct rules_spec spec = {.vocab = VOCAB,
                                    .eot = 200,
                                    .no_speech = -1,
                                    .timestamp_begin = 210,
                                    .timestamp_end = 299,
                                    .max_initial = 240};
    float *k = values(2 * KEYS * WIDTH), *v = values(2 * KEYS * WIDTH);
    const uint32_t slots[] = {0, 1};
    struct err e;

    s->be = open_device(deterministic);
    assert_ok(s->be->ops->rules_new(s->be, &spec, &s->rules, &e), e);
    s->kv = (struct kv){DTYPE_F32, 1, KEYS, 2, s->be->ops->kv_bytes(DTYPE_F32, 1, KEYS), NULL};
    s->kv.data = device_new(s->be, 2 * s->kv.slot_stride, NULL);
    struct tensor tk = tensor_new(s->be, 2 * KEYS, WIDTH, k),
                  tv = tensor_new(s->be, 2 * KEYS, WIDTH, v);
    assert_ok(s->be->ops->kv_fill(s->be, s->kv, slots, 2, tk, tv, &e), e);
    s->q = tensor_new(s->be, ROWS, WIDTH, NULL);
    s->out = tensor_new(s->be, ROWS, WIDTH, NULL);
    s->logits = tensor_new(s->be, ROWS, VOCAB, NULL);
    s->rows = device_new(s->be, ROWS * sizeof(*s->rows), NULL);
    s->asks = device_new(s->be, ROWS * sizeof(*s->asks), NULL);
    s->choices = device_new(s->be, ROWS * sizeof(*s->choices), NULL);
    s->top = device_new(s->be, ROWS * TOP * sizeof(*s->top), NULL);
    free(k);
    free(v);
}

/* Other rows, queries and logits than before. */
static void fill_step(struct step *s, int round)
{
    float *q = values(ROWS * WIDTH), *logits = values(ROWS * VOCAB);
    struct token_row rows[ROWS];
    struct choice_ask asks[ROWS];
    struct err e;

    for (int i = 0; i < ROWS; i++) {
        rows[i] = (struct token_row){0, -1, -1, (i + round) % 2};
        asks[i] = (struct choice_ask){.count = 2,
                                      .last = 5,
                                      .before = 215,
                                      .last_time = 215,
                                      .what = (i + round) % 3 == 0 ? CHOOSE_TOKEN | CHOOSE_NO_TIMES
                                                                   : CHOOSE_TOKEN};
    }
    assert_ok(s->be->ops->write(s->be, s->q.data, q, ROWS * WIDTH * sizeof(*q), &e), e);
    assert_ok(s->be->ops->write(s->be, s->logits.data, logits, ROWS * VOCAB * sizeof(*logits), &e),
              e);
    assert_ok(s->be->ops->write(s->be, s->rows, rows, sizeof(rows), &e), e);
    assert_ok(s->be->ops->write(s->be, s->asks, asks, sizeof(asks), &e), e);
    free(q);
    free(logits);
}

struct result {
    float out[ROWS * WIDTH], logits[ROWS * VOCAB];
    struct choice choices[ROWS];
    struct candidate top[ROWS * TOP];
};

static void read_step(struct step *s, struct result *r)
{
    struct err e;

    memset(r, 0, sizeof(*r));
    assert_ok(s->be->ops->read(s->be, r->out, s->out.data, sizeof(r->out), &e), e);
    assert_ok(s->be->ops->read(s->be, r->logits, s->logits.data, sizeof(r->logits), &e), e);
    assert_ok(s->be->ops->read(s->be, r->choices, s->choices, sizeof(r->choices), &e), e);
    assert_ok(s->be->ops->read(s->be, r->top, s->top, sizeof(r->top), &e), e);
}

/* Recorded once and run on other data, as if the calls were made again. */
static void test_recording(void **unused)
{
    struct recording *recording;
    struct result direct, again, first = {0};
    struct step s = {0};
    struct err e;

    (void)unused;
    open_step(&s, false);
    fill_step(&s, 0);
    assert_ok(run_step(&s, &e), e); /* scratch memory grows at first use */
    assert_ok(s.be->ops->record_begin(s.be, &e), e);
    assert_ok(run_step(&s, &e), e);
    assert_ok(s.be->ops->record_end(s.be, &recording, &e), e);
    for (int round = 1; round < 4; round++) {
        const uint32_t before = state;

        fill_step(&s, round);
        assert_ok(run_step(&s, &e), e);
        read_step(&s, &direct);
        state = before;
        fill_step(&s, round);
        assert_ok(s.be->ops->record_run(s.be, recording, &e), e);
        read_step(&s, &again);
        assert_memory_equal(&direct, &again, sizeof(direct));
        assert_memory_not_equal(&direct, &first, sizeof(direct));
        for (int i = 0; i < ROWS; i++) /* the choice is the first candidate */
            assert_int_equal(direct.top[i * TOP].token, direct.choices[i].token);
        first = direct;
    }
    s.be->ops->record_free(s.be, recording);
    s.be->ops->rules_free(s.be, s.rules);
    backend_close(s.be);
}

/* Between record_begin and record_end. */
static void images_not_recorded(struct backend *be, const float *w)
{
    const struct conv2d_spec spec = {
        .in = 1, .out = 8, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1};
    static const uint32_t at[] = {0, 1}, of[] = {0};
    struct tensor x = tensor_of(DTYPE_F32, NULL, 1, 8);
    const struct spans one = {at, 1};
    struct conv2d *conv = NULL;
    struct err e;

    assert_int_equal(be->ops->conv2d_new(be, PRECISION_F32, &spec, w, NULL, &conv, &e), ERR_DEVICE);
    assert_null(conv);
    assert_int_equal(be->ops->pool(be, POOL_MEAN, one, x, x, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
    assert_int_equal(be->ops->weighted_stats(be, 1, x, of, x, x, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
    assert_int_equal(be->ops->attention_spans(be, one, 1, 8, 1.0f, x, x, x, NULL, x, &e),
                     ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
}

/* What takes host memory along cannot be recorded, says so, and spoils nothing. */
static void test_not_recorded(void **unused)
{
    const struct kv_move move = {0, 1};
    struct recording *recording;
    struct lstm *l, *other = NULL;
    float *w = values(32 * 8);
    struct step s = {0};
    struct err e;

    (void)unused;
    open_step(&s, false);
    fill_step(&s, 0);
    assert_ok(s.be->ops->lstm_new(s.be, 8, 8, w, w, NULL, NULL, &l, &e), e);
    struct tensor x = tensor_new(s.be, 2, 8, NULL), h = tensor_new(s.be, 1, 8, NULL);
    assert_ok(s.be->ops->record_begin(s.be, &e), e);
    assert_int_equal(s.be->ops->kv_copy(s.be, s.kv, &move, 1, KEYS, &e), ERR_DEVICE);
    assert_non_null(strstr(e.msg, "recording"));
    assert_int_equal(s.be->ops->lstm(s.be, l, 1, x, NULL, false, h, h, x, &e), ERR_DEVICE);
    assert_int_equal(s.be->ops->lstm_new(s.be, 8, 8, w, w, NULL, NULL, &other, &e), ERR_DEVICE);
    assert_null(other);
    images_not_recorded(s.be, w);
    assert_ok(run_step(&s, &e), e);
    assert_ok(s.be->ops->record_end(s.be, &recording, &e), e);
    assert_ok(s.be->ops->record_run(s.be, recording, &e), e);
    assert_ok(s.be->ops->kv_copy(s.be, s.kv, &move, 1, KEYS, &e), e);
    s.be->ops->record_free(s.be, recording);
    s.be->ops->lstm_free(s.be, l);
    s.be->ops->rules_free(s.be, s.rules);
    backend_close(s.be);
    free(w);
}

/* A budget that ends in the midst of making a layer: what was there before stays, and all that was
 * taken is given back. */
static void test_lstm_without_memory(void **unused)
{
    struct backend *be = open_device(false);
    uint64_t before = be->allocated;
    float *w = values(32 * 16);
    struct lstm *l = NULL;
    struct err e;

    (void)unused;
    for (uint64_t more = 0; more < 4; more++) { /* 2048, 1024 and 128 bytes */
        be->budget = before + (more == 0 ? 100 : more == 1 ? 2100 : more == 2 ? 3100 : 3200);
        assert_int_equal(be->ops->lstm_new(be, 16, 8, w, w, NULL, NULL, &l, &e),
                         more < 3 ? ERR_VRAM : 0);
        if (more < 3)
            assert_true(!l && be->allocated == before);
    }
    be->ops->lstm_free(be, l);
    assert_true(be->allocated == before);
    backend_close(be);
    free(w);
}

/* --- pieces --------------------------------------------------------------------------------- */

enum { WINDOWS = 700, TIME = 4, IN = 9, OUT = 8 };

static double conv_sum(const float *x, const float *w, const float *bias, int64_t row, int o)
{
    double sum = (double)bias[o];

    for (int k = 0; k < 3; k++) {
        int64_t t = row % TIME + k - 1;

        for (int i = 0; t >= 0 && t < TIME && i < IN; i++)
            sum += (double)x[(row - row % TIME + t) * IN + i] * (double)w[(o * IN + i) * 3 + k];
    }
    return sum;
}

static double finished(double r, enum epilogue epilogue, double old)
{
    return epilogue == EPILOGUE_RELU   ? fmax(r, 0)
           : epilogue == EPILOGUE_ADD  ? r + old
           : epilogue == EPILOGUE_GELU ? r * 0.5 * (1 + erf(r * sqrt(0.5)))
                                       : r;
}

/* Convolutions over time of many short windows, in pieces of 2048 outputs where it is deterministic
 * (the last one of 752): each window right, and with the same bits alone. */
static void one_conv(struct backend *be, const float *x, const float *w, const float *bias,
                     enum epilogue epilogue)
{
    float *old = values(WINDOWS * TIME * OUT), got[TIME * OUT];
    float *y = malloc(WINDOWS * TIME * OUT * sizeof(*y));
    struct tensor tx = tensor_new(be, WINDOWS * TIME, IN, x);
    struct tensor ty = tensor_new(be, WINDOWS * TIME, OUT, old), sx = tx, sy = ty;
    const struct conv2d_spec spec = {.in = IN,
                                     .out = OUT,
                                     .kernel_h = 1,
                                     .kernel_w = 3,
                                     .stride_h = 1,
                                     .stride_w = 1,
                                     .left = 1,
                                     .right = 1};
    struct conv2d *conv;
    struct err e;

    assert_ok(be->ops->conv2d_new(be, PRECISION_F32, &spec, w, bias, &conv, &e), e);
    assert_ok(be->ops->conv2d(be, conv, WINDOWS, 1, TIME, tx, epilogue, ty, &e), e);
    assert_ok(be->ops->get(be, y, ty, &e), e);
    for (int64_t i = 0; i < WINDOWS * TIME * OUT; i++) {
        double want = conv_sum(x, w, bias, i / OUT, (int)(i % OUT));

        assert_true(fabs((double)y[i] - finished(want, epilogue, (double)old[i])) < 5e-6);
    }
    for (int64_t at = 0; at < WINDOWS && be->info.deterministic; at += 233) {
        sx.rows = sy.rows = TIME;
        sx.data = (float *)tx.data + at * TIME * IN;
        sy.data = (float *)ty.data + at * TIME * OUT;
        assert_ok(be->ops->put(be, sy, old + at * TIME * OUT, &e), e);
        assert_ok(be->ops->conv2d(be, conv, 1, 1, TIME, sx, epilogue, sy, &e), e);
        assert_ok(be->ops->get(be, got, sy, &e), e);
        assert_memory_equal(got, y + at * TIME * OUT, sizeof(got));
    }
    be->ops->conv2d_free(be, conv);
    be->ops->release(be, tx.data);
    be->ops->release(be, ty.data);
    free(old);
    free(y);
}

static void test_short_windows(void **unused)
{
    float *x = values(WINDOWS * TIME * IN), *w = values(OUT * IN * 3), *bias = values(OUT);

    (void)unused;
    for (int round = 0; round < 3; round++) { /* deterministic; and where epilogues are refused */
        struct backend *be = open_device(round == 1);

        if (round == 2)
            setenv("NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES", "epilogues", 1);
        for (int ep = EPILOGUE_NONE; ep <= EPILOGUE_RELU; ep++)
            one_conv(be, x, w, bias, (enum epilogue)ep);
        unsetenv("NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES");
        backend_close(be);
    }
    free(x);
    free(w);
    free(bias);
}

static double sigmoid(double v) { return 1 / (1 + exp(-v)); }

/* More steps than a piece of the inputs' product has rows (2048), with inputs whose rows are not
 * aligned: one sequence after the other, in double. */
static void test_long_sequences(void **unused)
{
    enum { SEQUENCES = 3, STEPS = 700, N = 8, WIDE = 3 };
    struct backend *be = open_device(false);
    float *x = values(SEQUENCES * STEPS * WIDE), *wi = values(4 * N * WIDE);
    float *wh = values(4 * N * N), *b = values(4 * N), *zero = calloc(SEQUENCES * N, sizeof(*zero));
    float *got = malloc(SEQUENCES * STEPS * N * sizeof(*got));
    struct tensor tx = tensor_new(be, SEQUENCES * STEPS, WIDE, x);
    struct tensor ty = tensor_new(be, SEQUENCES * STEPS, N, NULL);
    struct tensor h = tensor_new(be, SEQUENCES, N, zero), c = tensor_new(be, SEQUENCES, N, zero);
    struct lstm *l;
    struct err e;

    (void)unused;
    assert_ok(be->ops->lstm_new(be, WIDE, N, wi, wh, NULL, b, &l, &e), e);
    assert_ok(be->ops->lstm(be, l, SEQUENCES, tx, NULL, false, h, c, ty, &e), e);
    assert_ok(be->ops->get(be, got, ty, &e), e);
    for (int s = 0; s < SEQUENCES; s++) {
        double hidden[N] = {0}, cell[N] = {0}, gates[4 * N];

        for (int t = 0; t < STEPS; t++) {
            for (int r = 0; r < 4 * N; r++) {
                gates[r] = (double)b[r];
                for (int i = 0; i < WIDE; i++)
                    gates[r] += (double)wi[r * WIDE + i] * (double)x[(s * STEPS + t) * WIDE + i];
                for (int i = 0; i < N; i++)
                    gates[r] += (double)wh[r * N + i] * hidden[i];
            }
            for (int i = 0; i < N; i++) {
                cell[i] =
                    sigmoid(gates[N + i]) * cell[i] + sigmoid(gates[i]) * tanh(gates[2 * N + i]);
                hidden[i] = sigmoid(gates[3 * N + i]) * tanh(cell[i]);
                assert_true(fabs((double)got[(s * STEPS + t) * N + i] - hidden[i]) < 2e-5);
            }
        }
    }
    be->ops->lstm_free(be, l);
    backend_close(be);
    free(x);
    free(wi);
    free(wh);
    free(b);
    free(zero);
    free(got);
}

/* A kernel so large that its outputs go in several pieces, in images that lie across them. */
enum { SIDE = 113, KERNEL = 64, OUTPUTS = (SIDE - KERNEL + 1) * (SIDE - KERNEL + 1), BANDS = 8 };

static double image_sum(const float *x, const float *w, const float *bias, int output, int band)
{
    const float *image = x + output / OUTPUTS * SIDE * SIDE;
    int row = output % OUTPUTS / (SIDE - KERNEL + 1), col = output % (SIDE - KERNEL + 1);
    double sum = (double)bias[band];

    for (int i = 0; i < KERNEL; i++) {
        for (int j = 0; j < KERNEL; j++)
            sum += (double)image[(row + i) * SIDE + col + j] *
                   (double)w[(band * KERNEL + i) * KERNEL + j];
    }
    return sum;
}

static void one_image_conv(struct backend *be, const float *x, const float *w, const float *bias)
{
    const struct conv2d_spec spec = {.in = 1,
                                     .out = BANDS,
                                     .kernel_h = KERNEL,
                                     .kernel_w = KERNEL,
                                     .stride_h = 1,
                                     .stride_w = 1};
    struct tensor tx = tensor_new(be, 2 * SIDE * SIDE, 1, x);
    struct tensor ty = tensor_new(be, 2 * OUTPUTS, BANDS, NULL), part = tensor_rows(ty, 0, OUTPUTS);
    float *y = malloc(2 * OUTPUTS * BANDS * sizeof(*y)), *alone = malloc(OUTPUTS * BANDS * 4);
    struct conv2d *conv;
    struct err e;

    assert_ok(be->ops->conv2d_new(be, PRECISION_F32, &spec, w, bias, &conv, &e), e);
    assert_ok(be->ops->conv2d(be, conv, 2, SIDE, SIDE, tx, EPILOGUE_NONE, ty, &e), e);
    assert_ok(be->ops->get(be, y, ty, &e), e);
    for (int i = 0; i < 2 * OUTPUTS; i += 61)
        assert_true(fabs((double)y[i * BANDS + i % BANDS] - image_sum(x, w, bias, i, i % BANDS)) <
                    1e-3);
    assert_ok(be->ops->conv2d(be, conv, 1, SIDE, SIDE, tensor_rows(tx, SIDE * SIDE, SIDE * SIDE),
                              EPILOGUE_NONE, part, &e),
              e);
    assert_ok(be->ops->get(be, alone, part, &e), e);
    if (be->info.deterministic)
        assert_memory_equal(alone, y + OUTPUTS * BANDS, OUTPUTS * BANDS * sizeof(*alone));
    be->ops->conv2d_free(be, conv);
    be->ops->release(be, tx.data);
    be->ops->release(be, ty.data);
    free(y);
    free(alone);
}

static void test_large_images(void **unused)
{
    float *x = values(2 * SIDE * SIDE), *w = values(BANDS * KERNEL * KERNEL), *b = values(BANDS);

    (void)unused;
    for (int deterministic = 0; deterministic < 2; deterministic++) {
        struct backend *be = open_device(deterministic != 0);

        one_image_conv(be, x, w, b);
        backend_close(be);
    }
    free(x);
    free(w);
    free(b);
}

/* As of the recurrent layer. */
static void test_images_without_memory(void **unused)
{
    const struct conv2d_spec spec = {
        .in = 64, .out = 64, .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1};
    struct backend *be = open_device(false);
    uint64_t before = be->allocated, bytes = 64 * 64 * 9 * sizeof(float);
    float *w = values(64 * 64 * 9);
    struct conv2d *conv = NULL;
    struct err e;

    (void)unused;
    be->budget = before + bytes + 16; /* the bias has no room */
    assert_int_equal(be->ops->conv2d_new(be, PRECISION_F32, &spec, w, w, &conv, &e), ERR_VRAM);
    assert_null(conv);
    assert_true(be->allocated == before);
    be->budget = 0;
    assert_ok(be->ops->conv2d_new(be, PRECISION_F32, &spec, w, w, &conv, &e), e);
    be->ops->conv2d_free(be, conv);
    assert_true(be->allocated == before);
    backend_close(be);
    free(w);
}

static int open_module(void **unused)
{
    (void)unused;
    cuda = emulated_open();
    return 0;
}

/* --- products ------------------------------------------------------------------------------- */

/* y = epilogue(x w^T + b), y first 0.5 everywhere; refuses: what cuBLASLt is told to refuse, or
 * NULL. Returns how many searches of its heuristic a second and third product took. */
enum { SUMS = 48 };

static int64_t multiply_once(struct backend *be, enum precision precision, enum dtype to,
                             enum epilogue epilogue, const char *refuses, float *ret)
{
    enum dtype type = precision_type(precision);
    struct tensor x = tensor_new(be, ROWS, WIDTH, NULL), y = tensor_new(be, ROWS, SUMS, NULL);
    float *w, *b, *data, before[ROWS * SUMS];
    int64_t searches = 0;
    struct linear *l;
    struct err e;

    state = 7;
    w = values(WIDTH * SUMS);
    b = values(SUMS);
    data = values(ROWS * WIDTH);
    x.type = type;
    y.type = to;
    for (int i = 0; i < ROWS * SUMS; i++)
        before[i] = 0.5f;
    if (refuses)
        setenv("NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES", refuses, 1);
    for (int again = 0; again < 3; again++) { /* the third by other weights of the same shape */
        if (again != 1)
            assert_ok(
                be->ops->linear_new(be, precision, LINEAR_WIDE, ROWS, SUMS, WIDTH, w, b, &l, &e),
                e);
        assert_ok(be->ops->put(be, x, data, &e), e);
        assert_ok(be->ops->put(be, y, before, &e), e);
        assert_ok(be->ops->linear(be, l, x, epilogue, y, &e), e);
        assert_ok(be->ops->get(be, ret, y, &e), e);
        if (again == 0)
            searches = cuda.count("heuristics");
        if (again > 0)
            be->ops->linear_free(be, l);
        /* Freed and made again, they lie where they lay: the key has their alignment. */
    }
    unsetenv("NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES");
    be->ops->release(be, x.data);
    be->ops->release(be, y.data);
    free(w);
    free(b);
    free(data);
    return cuda.count("heuristics") - searches;
}

static void refused_epilogue(const char *refuses, enum precision precision, enum dtype to,
                             enum epilogue epilogue, float tolerance)
{
    /* A device each: a product that was prepared is not prepared again. */
    struct backend *be = open_device(false), *other = open_device(false);
    float plain[ROWS * SUMS], bare[ROWS * SUMS];

    assert_int_equal(multiply_once(be, precision, to, epilogue, NULL, plain), 0);
    assert_int_equal(multiply_once(other, precision, to, epilogue, refuses, bare), 0);
    for (int k = 0; k < ROWS * SUMS; k++)
        if (fabsf(plain[k] - bare[k]) > tolerance * (1.0f + fabsf(plain[k])))
            fail_msg("%s, %s, epilogue %d: %g, not %g", refuses, precision_name(precision),
                     (int)epilogue, (double)bare[k], (double)plain[k]);
    backend_close(be);
    backend_close(other);
}

/* What cuBLASLt refuses, with words or without, is done by a plain product and a kernel; and it is
 * asked once for each shape, whoever's weights they are. */
static void test_refused_epilogues(void **unused)
{
    static const struct {
        enum precision precision;
        enum dtype to;
        float tolerance; /* of 16 bits: rounded before the bias, too */
    } rows[] = {{PRECISION_F32, DTYPE_F32, 1e-5f},
                {PRECISION_BF16, DTYPE_F32, 1e-5f},
                {PRECISION_F16, DTYPE_F16, 4e-3f},
                {PRECISION_BF16, DTYPE_BF16, 3e-2f},
                {PRECISION_FP8, DTYPE_BF16, 3e-2f}};
    static const char *const told[] = {"epilogues", "mixed", "activations", "epilogues,silently"};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (enum epilogue f = EPILOGUE_NONE; f <= EPILOGUE_RELU; f++)
            for (size_t k = 0; k < sizeof(told) / sizeof(told[0]); k++)
                if (f != EPILOGUE_ADD || rows[i].to == DTYPE_F32)
                    refused_epilogue(told[k], rows[i].precision, rows[i].to, f, rows[i].tolerance);
}

/* --- algorithms ----------------------------------------------------------------------------- */

/* A layer of the shape that the tests of algorithms have, and its input. */
struct layer {
    struct backend *be;
    struct linear *l;
    struct tensor x, y;
};

static struct layer layer_new(struct backend *be)
{
    struct layer a = {.be = be};
    float *w = values(WIDTH * SUMS), *x = values(ROWS * WIDTH);
    struct err e;

    a.x = tensor_new(be, ROWS, WIDTH, x);
    a.y = tensor_new(be, ROWS, SUMS, NULL);
    assert_ok(
        be->ops->linear_new(be, PRECISION_F32, LINEAR_WIDE, ROWS, SUMS, WIDTH, w, NULL, &a.l, &e),
        e);
    free(w);
    free(x);
    return a;
}

static void layer_free(struct layer *a)
{
    a->be->ops->linear_free(a->be, a->l);
    a->be->ops->release(a->be, a->x.data);
    a->be->ops->release(a->be, a->y.data);
}

/* Runs it `times` times; what one run takes by the emulator's clock, which moves as algorithms say
 * (in microseconds, for the products' own times are some milliseconds). */
static int64_t run_layer(struct layer *a, int times)
{
    int64_t before;
    struct err e;

    assert_ok(a->be->ops->sync(a->be, &e), e);
    before = cuda.count("clock us");
    for (int i = 0; i < times; i++)
        assert_ok(a->be->ops->linear(a->be, a->l, a->x, EPILOGUE_NONE, a->y, &e), e);
    assert_ok(a->be->ops->sync(a->be, &e), e);
    return (cuda.count("clock us") - before) / times;
}

/* What a product takes after it was first asked for in a rehearsal, or without one. */
static int64_t chosen_us(const char *proposals, bool deterministic, bool rehearsed)
{
    struct backend *be = open_device(deterministic);
    struct layer a = layer_new(be);
    struct err e;
    int64_t us;

    setenv("NIGHTSHIFT_EMULATED_CUBLASLT_MS", proposals, 1);
    if (rehearsed)
        assert_ok(be->ops->rehearse(be, true, &e), e);
    run_layer(&a, 1);
    if (rehearsed)
        assert_ok(be->ops->rehearse(be, false, &e), e);
    us = run_layer(&a, 1);
    unsetenv("NIGHTSHIFT_EMULATED_CUBLASLT_MS");
    layer_free(&a);
    backend_close(be);
    return us;
}

/* In a rehearsal the fastest of up to eight proposals is taken, and else the first; noise chooses
 * nothing, and where results must repeat themselves, time does not either. */
static void test_fastest_algorithm(void **unused)
{
    (void)unused;
    assert_int_equal(chosen_us("4,2,3", false, true), 2000);
    assert_int_equal(chosen_us("4,2,3", false, false), 4000);
    assert_int_equal(chosen_us("4,2,3", true, true), 4000);
    assert_int_equal(chosen_us("4,3.95,8", false, true), 4000);
    assert_int_equal(chosen_us("9,8,7,6,5,4,3,2,1", false, true), 2000);
}

/* Bytes of what the device has found, from a rehearsal of a layer. */
static struct buf found_by(struct backend *be)
{
    struct layer a = layer_new(be);
    struct buf b = BUF_INIT;
    struct err e;

    setenv("NIGHTSHIFT_EMULATED_CUBLASLT_MS", "4,2,3", 1);
    assert_ok(be->ops->rehearse(be, true, &e), e);
    run_layer(&a, 1);
    assert_ok(be->ops->rehearse(be, false, &e), e);
    unsetenv("NIGHTSHIFT_EMULATED_CUBLASLT_MS");
    assert_ok(be->ops->recall(be, &b, &e), e);
    layer_free(&a);
    return b;
}

static int64_t learned_us(const struct buf *b, int code)
{
    struct backend *be = open_device(false);
    struct layer a = layer_new(be);
    int64_t searches = cuda.count("heuristics"), checks = cuda.count("algorithm checks"), us;
    struct err e;

    assert_int_equal(be->ops->learn(be, b->data, b->len, &e), code);
    us = run_layer(&a, 2);
    /* What is remembered is asked about, and not searched. */
    if (us == 2000)
        assert_int_equal(cuda.count("heuristics") - searches, 0);
    assert_int_equal(cuda.count("algorithm checks") - checks, code == 0);
    layer_free(&a);
    backend_close(be);
    return us;
}

/* Another process's findings are taken after cuBLASLt has checked them; of bytes that are none, of
 * another library's, and of an algorithm that the library does not know, nothing is run. */
static void test_remembered_algorithm(void **unused)
{
    struct backend *be = open_device(false);
    struct buf b = found_by(be);
    size_t algorithm = b.len - sizeof(cublasLtMatmulAlgo_t);
    uint8_t kept;

    (void)unused;
    backend_close(be);
    assert_int_equal(learned_us(&b, 0), 2000);
    kept = b.data[algorithm];
    b.data[algorithm] ^= 0xff;
    assert_int_equal(learned_us(&b, 0), 1000); /* the emulator's own proposal */
    b.data[algorithm] = kept;
    b.data[8] ^= 1; /* the version */
    assert_int_equal(learned_us(&b, ERR_EMPTY), 1000);
    b.data[8] ^= 1;
    b.data[4] ^= 2; /* how many there are */
    assert_int_equal(learned_us(&b, ERR_INPUT), 1000);
    b.data[4] ^= 2;
    b.len = 40;
    assert_int_equal(learned_us(&b, ERR_INPUT), 1000);
    buf_free(&b);
}

/* --- steps ahead of the host ---------------------------------------------------------------- */

/* Rows that follow are what the host would have written, knowing the choices; and what two boxes
 * hold is what was there when it was posted. */
static void test_follow(void **unused)
{
    enum { N = 6 };
    const struct rules_spec spec = {.vocab = VOCAB,
                                    .eot = 200,
                                    .no_speech = -1,
                                    .timestamp_begin = 210,
                                    .timestamp_end = 299,
                                    .max_initial = 240};
    const struct token_row fed[N] = {{4, 3, 7, 4}, {1, 3, 7, 1},  {0, 3, 7, 0},
                                     {2, 3, 7, 2}, {-1, 0, 0, 0}, {3, 3, 7, 3}};
    const struct choice_ask asked[N] = {
        {.count = 0, .last = -1, .before = -1, .last_time = -1, .what = CHOOSE_TOKEN},
        {.count = 4, .last = 9, .before = 8, .last_time = 215, .what = CHOOSE_TOKEN},
        {.count = 4, .last = 9, .before = 8, .last_time = 215, .what = CHOOSE_TOKEN},
        {.count = 4, .last = 9, .before = 8, .last_time = 215, .what = CHOOSE_TOKEN},
        {.last = -1, .before = -1},
        {.count = 4, .last = 9, .before = 8, .last_time = 215, .what = 0}};
    const struct choice chosen[N] = {{.token = 11, .usable = 1},
                                     {.token = 220, .usable = 1},
                                     {.token = 200, .usable = 1},
                                     {.token = -1, .usable = 1},
                                     {.token = -1},
                                     {.token = 12, .usable = 1}};
    struct token_row next[N] = {{4, 4, TOKEN_FOLLOWS, 4}, {1, 4, TOKEN_FOLLOWS, 1},
                                {0, 4, TOKEN_FOLLOWS, 0}, {2, 4, TOKEN_FOLLOWS, 2},
                                {3, 4, TOKEN_FOLLOWS, 3}, {5, 4, 77, 5}};
    struct choice_ask questions[N];
    struct backend *be = open_device(false);
    struct token_row *rows = device_new(be, sizeof(fed), fed), got[N], posted[N];
    struct choice_ask *asks = device_new(be, sizeof(asked), asked), got_asks[N];
    struct choice *choices = device_new(be, sizeof(chosen), chosen);
    struct token_tail *tails = device_new(be, N * sizeof(*tails), NULL);
    struct rules *rules;
    struct err e;

    (void)unused;
    assert_ok(be->ops->rules_new(be, &spec, &rules, &e), e);
    assert_ok(be->ops->note(be, rules, rows, asks, choices, N, tails, &e), e);
    assert_ok(be->ops->post(be, 0, rows, sizeof(fed), &e), e);
    for (int i = 0; i < N; i++)
        questions[i] = (struct choice_ask){
            .last = -1, .before = -1, .last_time = -1, .what = CHOOSE_TOKEN, .uniform = 0.25};
    assert_ok(be->ops->write(be, rows, next, sizeof(next), &e), e);
    assert_ok(be->ops->write(be, asks, questions, sizeof(questions), &e), e);
    assert_ok(be->ops->follow(be, tails, rows, asks, N, &e), e);
    assert_ok(be->ops->post(be, 1, rows, sizeof(fed), &e), e);
    assert_ok(be->ops->read(be, got_asks, asks, sizeof(got_asks), &e), e);
    assert_ok(be->ops->collect(be, 0, posted, sizeof(posted), &e), e);
    assert_memory_equal(posted, fed, sizeof(fed));
    assert_ok(be->ops->collect(be, 1, got, sizeof(got), &e), e);
    assert_int_equal(got[0].token, 11);
    assert_int_equal(got[1].token, 220);
    for (int i = 0; i < N; i++) /* 2: ended; 3: nothing allowed; 4: asked for no token */
        assert_int_equal(got[i].slot, i < 2 || i == 5 ? next[i].slot : -1);
    assert_int_equal(got[5].token, 77);
    assert_true(got_asks[0].count == 1 && got_asks[0].last == 11 && got_asks[0].before == -1 &&
                got_asks[0].last_time == -1 && got_asks[0].what == CHOOSE_TOKEN &&
                got_asks[0].uniform == 0.25);
    assert_true(got_asks[1].count == 5 && got_asks[1].last == 220 && got_asks[1].before == 9 &&
                got_asks[1].last_time == 220);
    for (int i = 2; i < 5; i++)
        assert_int_equal(got_asks[i].what, 0);
    be->ops->rules_free(be, rules);
    backend_close(be);
}

/* GELU of sums as they are spread before it in a model, in 16 bits: root mean square and mean of
 * the errors against double precision, as shares of the RMS error of rounding the exact result
 * once. */
enum { GELU_ROWS = 512, GELU_OUT = 64 };

static float rounded(float v, enum dtype type)
{
    return type == DTYPE_BF16 ? bf16_to_f32(f32_to_bf16(v)) : (float)(_Float16)v;
}

static void gelu_errors(struct backend *be, enum precision precision, float spread, double *rms,
                        double *mean)
{
    enum dtype type = precision_type(precision);
    float *x = values(GELU_ROWS * WIDTH), *w = values(WIDTH * GELU_OUT), *b = values(GELU_OUT);
    float *y = malloc(GELU_ROWS * GELU_OUT * sizeof(*y));
    struct tensor tx = tensor_new(be, GELU_ROWS, WIDTH, NULL),
                  ty = tensor_new(be, GELU_ROWS, GELU_OUT, NULL);
    double squares = 0, sum = 0, once = 0;
    struct linear *l;
    struct err e;

    assert_non_null(y);
    tx.type = ty.type = type;
    for (int i = 0; i < GELU_ROWS * WIDTH; i++)
        x[i] = rounded(x[i], type);
    for (int i = 0; i < WIDTH * GELU_OUT; i++) /* uniform ones have a third of their square */
        w[i] = rounded(w[i] * spread * 3.0f / 8.0f, type);
    for (int i = 0; i < GELU_OUT; i++)
        b[i] = rounded(b[i] * 0.3f, type);
    assert_ok(
        be->ops->linear_new(be, precision, LINEAR_WIDE, GELU_ROWS, GELU_OUT, WIDTH, w, b, &l, &e),
        e);
    assert_ok(be->ops->put(be, tx, x, &e), e);
    assert_ok(be->ops->linear(be, l, tx, EPILOGUE_GELU, ty, &e), e);
    assert_ok(be->ops->get(be, y, ty, &e), e);
    for (int i = 0; i < GELU_ROWS * GELU_OUT; i++) {
        double want = (double)b[i % GELU_OUT], error, rounding;

        for (int k = 0; k < WIDTH; k++)
            want += (double)x[i / GELU_OUT * WIDTH + k] * (double)w[i % GELU_OUT * WIDTH + k];
        want = finished(want, EPILOGUE_GELU, 0);
        error = (double)y[i] - want;
        rounding = (double)rounded((float)want, type) - want;
        squares += error * error;
        sum += error;
        once += rounding * rounding;
    }
    *rms = sqrt(squares / once);
    *mean = fabs(sum) / sqrt(once * GELU_ROWS * GELU_OUT);
    be->ops->linear_free(be, l);
    be->ops->release(be, tx.data);
    be->ops->release(be, ty.data);
    free(x);
    free(w);
    free(b);
    free(y);
}

/* In bf16 the product's own GELU, an approximation, is hidden by rounding, and more exact than one
 * that comes after the sums were rounded; in fp16 it would show, and the exact one is taken. */
static void test_gelu_in_16_bits(void **unused)
{
    static const float spreads[] = {0.3f, 1.0f, 4.0f};
    struct backend *be = open_device(false), *exact;

    (void)unused;
    setenv("NIGHTSHIFT_CUDA_GELU", "exact", 1);
    exact = open_device(false);
    unsetenv("NIGHTSHIFT_CUDA_GELU");
    for (size_t i = 0; i < sizeof(spreads) / sizeof(spreads[0]); i++) {
        double rms, mean, before, mean_before;

        gelu_errors(be, PRECISION_BF16, spreads[i], &rms, &mean);
        gelu_errors(exact, PRECISION_BF16, spreads[i], &before, &mean_before);
        print_message("  spread %g: bf16 %.2f (mean %.3f), exact kernel %.2f (mean %.3f)\n",
                      (double)spreads[i], rms, mean, before, mean_before);
        assert_true(rms < 1.2 && rms < before && mean < 0.2);
        gelu_errors(be, PRECISION_F16, spreads[i], &rms, &mean);
        print_message("  spread %g: fp16 %.2f (mean %.3f)\n", (double)spreads[i], rms, mean);
        assert_true(mean < 0.05);
    }
    backend_close(be);
    backend_close(exact);
}

/* Where not even the plain product is to be had the call says so, each time, and the device is as
 * good as before. */
static void test_refused_product(void **unused)
{
    struct backend *be = open_device(false);
    struct tensor x = tensor_new(be, ROWS, WIDTH, NULL), y = tensor_new(be, ROWS, SUMS, NULL);
    float *w = values(WIDTH * SUMS);
    struct linear *l;
    struct err e;

    (void)unused;
    assert_ok(be->ops->linear_new(be, PRECISION_F32, LINEAR_WIDE, ROWS, SUMS, WIDTH, w, w, &l, &e),
              e);
    setenv("NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES", "products", 1);
    for (int again = 0; again < 2; again++) {
        assert_int_equal(be->ops->linear(be, l, x, EPILOGUE_NONE, y, &e), ERR_MODEL);
        assert_non_null(strstr(e.msg, "3 x 64 by 64 x 48"));
    }
    unsetenv("NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES");
    assert_ok(be->ops->linear(be, l, tensor_rows(x, 0, 2), EPILOGUE_NONE, tensor_rows(y, 0, 2), &e),
              e);
    be->ops->linear_free(be, l);
    be->ops->release(be, x.data);
    be->ops->release(be, y.data);
    backend_close(be);
    free(w);
}

static void test_nothing_held(void **unused)
{
    (void)unused;
    assert_int_equal(emulated_held(&cuda), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recording),
        cmocka_unit_test(test_not_recorded),
        cmocka_unit_test(test_lstm_without_memory),
        cmocka_unit_test(test_short_windows),
        cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_large_images),
        cmocka_unit_test(test_images_without_memory),
        cmocka_unit_test(test_refused_epilogues),
        cmocka_unit_test(test_refused_product),
        cmocka_unit_test(test_gelu_in_16_bits),
        cmocka_unit_test(test_fastest_algorithm),
        cmocka_unit_test(test_remembered_algorithm),
        cmocka_unit_test(test_follow),
        cmocka_unit_test(test_nothing_held),
    };

    return cmocka_run_group_tests_name("cuda operations", tests, open_module, NULL);
}
