/* Layers of the CUDA module whose work goes in fixed pieces, and layers for which there is no room.
 * What they compute otherwise: tests/ops. */
#include "tests/cuda/operations.h"

#include <math.h>

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
    assert_ok(be->ops->lstm_new(be, WIDE, N, 1, &(struct lstm_weights){wi, wh, NULL, b}, &l, &e),
              e);
    assert_ok(be->ops->lstm(be, l, SEQUENCES, tx, NULL, h, c, ty, &e), e);
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
        assert_int_equal(
            be->ops->lstm_new(be, 16, 8, 1, &(struct lstm_weights){w, w, NULL, NULL}, &l, &e),
            more < 3 ? ERR_VRAM : 0);
        if (more < 3)
            assert_true(!l && be->allocated == before);
    }
    be->ops->lstm_free(be, l);
    assert_true(be->allocated == before);
    backend_close(be);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_windows),       cmocka_unit_test(test_long_sequences),
        cmocka_unit_test(test_large_images),        cmocka_unit_test(test_images_without_memory),
        cmocka_unit_test(test_lstm_without_memory), cmocka_unit_test(nothing_held),
    };

    return cmocka_run_group_tests_name("cuda pieces", tests, open_module, NULL);
}
