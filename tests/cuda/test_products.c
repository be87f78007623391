/* Products of the CUDA module: what cuBLASLt refuses, how exact GELU is in 16 bits, and which of
 * its algorithms is taken. What they compute: tests/ops. */
#include "tests/cuda/operations.h"

#include <math.h>

#include <cublasLt.h>

#include "base/buf.h"

enum { ROWS = 3, WIDTH = 64, SUMS = 48 };

/* y = epilogue(x w^T + b), y first 0.5 everywhere; refuses: what cuBLASLt is told to refuse, or
 * NULL. Returns how many searches of its heuristic a second and third product took. */
static int64_t multiply_once(struct backend *be, enum precision precision, enum dtype to,
                             enum epilogue epilogue, const char *refuses, float *ret)
{
    enum dtype type = precision_type(precision);
    struct tensor x = tensor_new(be, ROWS, WIDTH, NULL), y = tensor_new(be, ROWS, SUMS, NULL);
    float *w, *b, *data, before[ROWS * SUMS];
    int64_t searches = 0;
    struct linear *l;
    struct err e;

    operations_seed = 7;
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
                {PRECISION_FP8, DTYPE_BF16, 3e-2f},
                {PRECISION_FP8, DTYPE_F32, 2e-2f}}; /* its bias of bf16 otherwise */
    static const char *const told[] = {"epilogues", "mixed", "activations", "scales",
                                       "epilogues,silently"};

    (void)unused;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (enum epilogue f = EPILOGUE_NONE; f <= EPILOGUE_RELU; f++)
            for (size_t k = 0; k < sizeof(told) / sizeof(told[0]); k++)
                if (f != EPILOGUE_ADD || rows[i].to == DTYPE_F32)
                    refused_epilogue(told[k], rows[i].precision, rows[i].to, f, rows[i].tolerance);
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
 * that comes after the sums were rounded; in fp16 it shows, to one side. */
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
        gelu_errors(exact, PRECISION_F16, spreads[i], &before, &mean_before);
        print_message("  spread %g: fp16 %.2f (mean %.3f), exact kernel %.2f (mean %.3f)\n",
                      (double)spreads[i], rms, mean, before, mean_before);
        assert_true(rms < 1.5 && rms < before && mean < 0.5 && mean_before < 0.05);
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

/* Outputs that are no multiple of 8, of 16-bit weights: the product has the padded ones too where
 * y's rows have room for just those, and else touches nothing beside its own. */
enum { PADDED_OUT = 37 };

static void one_padded(enum precision precision, enum dtype to, enum epilogue epilogue, bool biased,
                       int64_t stride, bool deterministic)
{
    struct backend *be = open_device(deterministic);
    float *w = values(PADDED_OUT * WIDTH), *b = values(PADDED_OUT), *data = values(ROWS * WIDTH);
    float *got = malloc((size_t)(ROWS * stride) * sizeof(*got));
    struct tensor x = tensor_new(be, ROWS, WIDTH, NULL);
    struct tensor y = tensor_new(be, ROWS, (size_t)stride, NULL), whole;
    enum dtype type = precision_type(precision);
    bool padded = stride == 40 && !deterministic && epilogue != EPILOGUE_ADD;
    struct linear *l;
    struct err e;

    assert_non_null(got);
    x.type = type;
    y.type = to;
    whole = y;
    y.cols = PADDED_OUT;
    for (int64_t i = 0; i < ROWS * stride; i++)
        got[i] = 0.5f;
    for (int i = 0; i < ROWS * WIDTH; i++)
        data[i] = rounded(data[i], type);
    for (int i = 0; i < PADDED_OUT * WIDTH; i++)
        w[i] = rounded(w[i], type);
    assert_ok(be->ops->put(be, x, data, &e), e);
    assert_ok(be->ops->put(be, whole, got, &e), e);
    assert_ok(be->ops->linear_new(be, precision, LINEAR_ROWS, ROWS, PADDED_OUT, WIDTH, w,
                                  biased ? b : NULL, &l, &e),
              e);
    assert_ok(be->ops->linear(be, l, x, epilogue, y, &e), e);
    assert_ok(be->ops->get(be, got, whole, &e), e);
    for (int64_t i = 0; i < ROWS * stride; i++) {
        int64_t row = i / stride, col = i % stride;
        double want = biased && col < PADDED_OUT ? (double)b[col] : 0;

        if (col >= PADDED_OUT) { /* of padding rows of zeros, or as it was */
            assert_true(got[i] == (padded ? 0.0f : 0.5f));
            continue;
        }
        for (int k = 0; k < WIDTH; k++)
            want += (double)data[row * WIDTH + k] * (double)w[col * WIDTH + k];
        want = finished(want, epilogue, 0.5);
        assert_true(fabs((double)got[i] - want) <
                    (to == DTYPE_F32 ? 1e-4 : 0.02) * (1 + fabs(want)));
    }
    be->ops->linear_free(be, l);
    be->ops->release(be, x.data);
    be->ops->release(be, y.data);
    backend_close(be);
    free(w);
    free(b);
    free(data);
    free(got);
}

static void test_padded_outputs(void **unused)
{
    static const int64_t strides[] = {PADDED_OUT, 38, 40, 44, 48};
    static const enum precision precisions[] = {PRECISION_BF16, PRECISION_F16};

    (void)unused;
    for (size_t i = 0; i < sizeof(strides) / sizeof(strides[0]); i++)
        for (int n = 0; n < 32; n++)
            one_padded(precisions[n & 1], n & 2 ? precision_type(precisions[n & 1]) : DTYPE_F32,
                       (enum epilogue)(n >> 3), n & 4, strides[i], false);
    for (int n = 0; n < 4; n++)
        one_padded(PRECISION_BF16, n & 1 ? DTYPE_BF16 : DTYPE_F32, EPILOGUE_NONE, n & 2, 40, true);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refused_epilogues),
        cmocka_unit_test(test_refused_product),
        cmocka_unit_test(test_gelu_in_16_bits),
        cmocka_unit_test(test_fastest_algorithm),
        cmocka_unit_test(test_remembered_algorithm),
        cmocka_unit_test(test_padded_outputs),
        cmocka_unit_test(nothing_held),
    };

    return cmocka_run_group_tests_name("cuda products", tests, open_module, NULL);
}
