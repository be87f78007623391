/* Convolutions by cuDNN (gpu/cuda/cudnn/convolve.c) on the emulated device: what they yield is what
 * the host's do, whatever their sizes; that it was cuDNN, in the precision that was asked for, and
 * how often it was asked; what it refuses goes another way. */
#include "tests/cuda/module.h"

#include <math.h>

static struct emulated cuda;
static struct backend *host;

static float *values(size_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof(*x));

    assert_non_null(x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

static struct backend *open_device(bool deterministic)
{
    struct cuda_options o = {.deterministic = deterministic};
    struct backend *be;
    struct err e;

    assert_ok(cuda.module->open("0", &o, &be, &e), e);
    return be;
}

static struct tensor tensor_of_type(struct backend *be, enum dtype type, int64_t rows, int64_t cols,
                                    const float *x)
{
    struct tensor t = tensor_of(type, NULL, rows, cols);
    struct err e;

    assert_ok(be->ops->alloc(be, (size_t)(rows * cols) * sizeof(float), &t.data, &e), e);
    assert_ok(be->ops->put(be, t, x, &e), e);
    return t;
}

static struct tensor tensor_new(struct backend *be, int64_t rows, int64_t cols, const float *x)
{
    return tensor_of_type(be, DTYPE_F32, rows, cols, x);
}

struct sample {
    struct conv2d_spec spec;
    uint32_t images, height, width;
};

#define KERNEL(h, w) .kernel_h = (h), .kernel_w = (w)
#define STRIDE(h, w) .stride_h = (h), .stride_w = (w)
#define AROUND(t, b, l, r) .top = (t), .bottom = (b), .left = (l), .right = (r)

static const struct sample samples[] = {
    {{.in = 1, .out = 32, KERNEL(3, 3), STRIDE(1, 1), AROUND(1, 1, 1, 1)}, 7, 8, 21},
    {{.in = 32, .out = 32, KERNEL(3, 3), STRIDE(1, 1), AROUND(1, 1, 1, 1)}, 3, 10, 13},
    {{.in = 32, .out = 64, KERNEL(3, 3), STRIDE(2, 2), AROUND(1, 1, 1, 1)}, 5, 11, 8},
    {{.in = 32, .out = 64, KERNEL(1, 1), STRIDE(2, 2)}, 2, 11, 8},
    {{.in = 1, .out = 80, KERNEL(1, 251), STRIDE(1, 10)}, 3, 1, 1501},
    {{.in = 80, .out = 60, KERNEL(1, 5), STRIDE(1, 1)}, 3, 2, 33},
    {{.in = 5, .out = 7, KERNEL(5, 2), STRIDE(3, 1), AROUND(2, 4, 1, 0)}, 6, 2, 5},
    {{.in = 3, .out = 6, KERNEL(3, 3), STRIDE(2, 2), AROUND(0, 1, 0, 1)}, 1, 9, 7},
};

/* y of one convolution, onto `before`. */
static float *convolved(struct backend *be, const struct sample *s, enum precision precision,
                        const float *bias, enum epilogue epilogue, const float *before)
{
    const struct conv2d_spec *p = &s->spec;
    int64_t pixels = (int64_t)s->images * s->height * s->width;
    int64_t tall = (p->top + s->height + p->bottom - p->kernel_h) / p->stride_h + 1;
    int64_t wide = (p->left + s->width + p->right - p->kernel_w) / p->stride_w + 1;
    int64_t rows = s->images * tall * wide;
    float *x = values((size_t)(pixels * p->in), 1), *y = malloc((size_t)(rows * p->out) * 4);
    float *w = values((size_t)(p->out * p->in * p->kernel_h * p->kernel_w), 2);
    enum dtype type = precision_type(precision);
    struct tensor tx = tensor_of_type(be, type, pixels, p->in, x);
    struct tensor ty = tensor_of_type(be, type, rows, p->out, before);
    struct conv2d *c;
    struct err e;

    assert_non_null(y);
    assert_ok(be->ops->conv2d_new(be, precision, p, w, bias, &c, &e), e);
    assert_ok(be->ops->conv2d(be, c, s->images, s->height, s->width, tx, epilogue, ty, &e), e);
    assert_ok(be->ops->get(be, y, ty, &e), e);
    be->ops->conv2d_free(be, c);
    be->ops->release(be, tx.data);
    be->ops->release(be, ty.data);
    free(x);
    free(w);
    return y;
}

static size_t count_of(const struct sample *s)
{
    const struct conv2d_spec *p = &s->spec;

    return (size_t)s->images * ((p->top + s->height + p->bottom - p->kernel_h) / p->stride_h + 1) *
           ((p->left + s->width + p->right - p->kernel_w) / p->stride_w + 1) * (size_t)p->out;
}

/* The largest difference to the host's float32, of its largest value. */
static double off(struct backend *be, const struct sample *s, enum precision precision, bool biased,
                  enum epilogue epilogue)
{
    size_t n = count_of(s);
    float *before = values(n, 3), *bias = values((size_t)s->spec.out, 4);
    float *got = convolved(be, s, precision, biased ? bias : NULL, epilogue, before);
    float *want = convolved(host, s, PRECISION_F32, biased ? bias : NULL, epilogue, before);
    double most = 0.0, largest = 0.0;

    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)got[i] - (double)want[i]));
        largest = fmax(largest, fabs((double)want[i]));
    }
    free(before);
    free(bias);
    free(got);
    free(want);
    return most / largest;
}

/* Pieces of n images: powers of two. */
static int64_t pieces(uint32_t n) { return __builtin_popcount(n); }

/* Every image with every epilogue, by cuDNN: off by more than `least` and less than `most`. */
static void hold_all(enum precision precision, double least, double most)
{
    struct backend *be = open_device(false);

    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        for (int biased = 0; biased < 2; biased++) {
            for (int e = EPILOGUE_NONE; e <= EPILOGUE_ADD_RELU; e++) {
                int64_t runs = cuda.count("cudnn runs");
                double d = off(be, &samples[i], precision, biased, (enum epilogue)e);

                assert_true(d > least && d < most);
                assert_int_equal(cuda.count("cudnn runs") - runs, pieces(samples[i].images));
            }
        }
    }
    backend_close(be);
}

/* In float32 nothing is rounded on the way: what TF32 does is a hundred times that. */
static void test_as_the_host(void **state)
{
    (void)state;
    hold_all(PRECISION_F32, -1.0, 2e-6);
}

static void test_tf32(void **state)
{
    struct backend *be = open_device(false);

    (void)state;
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        int64_t runs = cuda.count("cudnn runs");
        double d = off(be, &samples[i], PRECISION_TF32, true, EPILOGUE_RELU);

        assert_true(d > 2e-5 && d < 1e-3); /* what 8 bits of bf16 would do is 3e-3 */
        assert_int_equal(cuda.count("cudnn runs") - runs, pieces(samples[i].images));
    }
    backend_close(be);
}

/* Images, weights and results are rounded, sums are not; an engine of 16 bits would show as bf16
 * does. */
static void test_half(void **state)
{
    (void)state;
    hold_all(PRECISION_F16, 5e-5, 1.2e-3);
}

/* An image of 5 x 5 by weights that take each pixel times `by`, onto `before`. */
static void scaled(struct backend *be, enum precision precision, float by, const float *bias,
                   enum epilogue epilogue, const float *x, const float *before, float *y)
{
    const float w[9] = {[4] = by};
    const struct conv2d_spec spec = {
        .in = 1, .out = 1, KERNEL(3, 3), STRIDE(1, 1), AROUND(1, 1, 1, 1)};
    struct tensor tx = tensor_of_type(be, precision_type(precision), 25, 1, x);
    struct tensor ty = tensor_of_type(be, precision_type(precision), 25, 1, before);
    struct conv2d *c;
    struct err e;

    assert_ok(be->ops->conv2d_new(be, precision, &spec, w, bias, &c, &e), e);
    assert_ok(be->ops->conv2d(be, c, 1, 5, 5, tx, epilogue, ty, &e), e);
    assert_ok(be->ops->get(be, y, ty, &e), e);
    be->ops->conv2d_free(be, c);
    be->ops->release(be, tx.data);
    be->ops->release(be, ty.data);
}

static const enum epilogue with_relu[] = {EPILOGUE_RELU, EPILOGUE_ADD_RELU};

/* What is too large for 16 bits is infinite, and is not lost behind ReLU; so is a sum. */
static void test_half_overflows(void **state)
{
    static const float x[25] = {[3] = 66, [7] = 65, [12] = 60, [20] = -66};
    static const float before[25] = {[12] = 6000};
    struct backend *be = open_device(false);
    float y[25];

    (void)state;
    for (int i = 0; i < 2; i++) {
        scaled(be, PRECISION_F16, 1000.0f, NULL, with_relu[i], x, before, y);
        assert_true(isinf(y[3]) && y[3] > 0.0f);
        assert_true(y[7] > 64900.0f && y[7] < 65100.0f && y[20] == 0.0f);
        assert_int_equal(isinf(y[12]) != 0, epilogue_adds(with_relu[i]));
    }
    backend_close(be);
}

/* Few sizes are prepared, all when a shape is met first, and none again. */
static void test_plans(void **state)
{
    struct backend *be = open_device(false);
    struct sample s = samples[1];
    int64_t asked = cuda.count("cudnn heuristics");

    (void)state;
    s.images = 13; /* 8, 4, 1 */
    (void)off(be, &s, PRECISION_F32, true, EPILOGUE_RELU);
    assert_int_equal(cuda.count("cudnn heuristics") - asked, 4);
    for (s.images = 15; s.images > 0; s.images--)
        assert_true(off(be, &s, PRECISION_F32, true, EPILOGUE_RELU) < 2e-6);
    assert_int_equal(cuda.count("cudnn heuristics") - asked, 4);
    s.images = 33;
    (void)off(be, &s, PRECISION_F32, true, EPILOGUE_RELU);
    assert_int_equal(cuda.count("cudnn heuristics") - asked, 6);
    backend_close(be);
}

/* It goes as it went without cuDNN, and is not asked for again. */
static void test_refused(void **state)
{
    struct backend *be = open_device(false);
    int64_t runs = cuda.count("cudnn runs"), asked = cuda.count("cudnn heuristics");

    (void)state;
    setenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES", "all", 1);
    for (int e = EPILOGUE_NONE; e <= EPILOGUE_ADD_RELU; e++)
        assert_true(off(be, &samples[2], PRECISION_F32, true, (enum epilogue)e) < 2e-6);
    asked = cuda.count("cudnn heuristics") - asked;
    assert_true(asked > 0);
    asked = cuda.count("cudnn heuristics");
    for (int e = EPILOGUE_NONE; e <= EPILOGUE_ADD_RELU; e++)
        assert_true(off(be, &samples[2], PRECISION_F32, true, (enum epilogue)e) < 2e-6);
    assert_int_equal(cuda.count("cudnn heuristics"), asked);
    assert_int_equal(cuda.count("cudnn runs"), runs);
    unsetenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES");
    backend_close(be);
}

/* Too little memory is no refusal: fewer images would do. */
static void test_no_memory(void **state)
{
    const struct sample *s = &samples[1];
    struct backend *be = open_device(false);
    float *w = values((size_t)32 * 32 * 9, 1), *x = values((size_t)3 * 10 * 13 * 32, 2);
    struct tensor tx = tensor_new(be, 3 * 130, 32, x), ty = tensor_new(be, 3 * 130, 32, x);
    struct conv2d *c;
    struct err e;

    (void)state;
    assert_ok(be->ops->conv2d_new(be, PRECISION_F32, &s->spec, w, NULL, &c, &e), e);
    setenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES", "memory", 1);
    assert_int_equal(be->ops->conv2d(be, c, 3, 10, 13, tx, EPILOGUE_NONE, ty, &e), ERR_VRAM);
    assert_non_null(strstr(e.msg, "preparing a convolution"));
    unsetenv("NIGHTSHIFT_EMULATED_CUDNN_REFUSES");
    assert_ok(be->ops->conv2d(be, c, 3, 10, 13, tx, EPILOGUE_NONE, ty, &e), e);
    be->ops->conv2d_free(be, c);
    be->ops->release(be, tx.data);
    be->ops->release(be, ty.data);
    backend_close(be);
    free(w);
    free(x);
}

/* Pixel by pixel nothing is to be copied out: a product, as cuBLASLt does it. */
static void test_pixels(void **state)
{
    const struct sample s = {
        {.in = 32, .out = 64, KERNEL(1, 1), STRIDE(1, 1), AROUND(0, 0, 0, 0)}, 5, 3, 7};
    struct backend *be = open_device(false);
    int64_t asked = cuda.count("cudnn heuristics");

    (void)state;
    assert_true(off(be, &s, PRECISION_F32, true, EPILOGUE_RELU) < 2e-6);
    assert_true(off(be, &s, PRECISION_F32, true, EPILOGUE_ADD_RELU) < 2e-6);
    assert_int_equal(cuda.count("cudnn heuristics"), asked);
    backend_close(be);
}

/* Which engine cuDNN takes is its own affair, so that one shape for all is ours. */
static void test_deterministic(void **state)
{
    struct backend *be = open_device(true);
    int64_t asked = cuda.count("cudnn heuristics");

    (void)state;
    assert_true(off(be, &samples[1], PRECISION_F32, true, EPILOGUE_RELU) < 2e-6);
    assert_true(off(be, &samples[1], PRECISION_F32, true, EPILOGUE_ADD_RELU) < 2e-6);
    assert_int_equal(cuda.count("cudnn heuristics"), asked);
    backend_close(be);
}

/* A number that is none stays one behind ReLU, where it is found; what was there before counts in a
 * sum alone. */
static void test_nan_stays(void **state)
{
    static const enum precision in[] = {PRECISION_F32, PRECISION_F16};
    static const float x[25] = {[7] = NAN, [20] = -3.0f}, before[25] = {[22] = NAN}, bias = 0.5f;
    struct backend *be = open_device(false);
    float y[25];

    (void)state;
    for (int i = 0; i < 4; i++) {
        enum epilogue epilogue = with_relu[i % 2];

        scaled(be, in[i / 2], 1.0f, &bias, epilogue, x, before, y);
        assert_true(isnan(y[7]));
        assert_true(y[20] == 0.0f && y[24] == 0.5f);
        assert_int_equal(isnan(y[22]) != 0, epilogue_adds(epilogue));
    }
    backend_close(be);
}

/* --- the fastest way ------------------------------------------------------------------------ */

struct outcome {
    double off;
    int64_t runs; /* of cuDNN's */
};

/* A layer's second call; the first one was made in a rehearsal. cudnn: what engine 1 (TF32) and 5
 * (float32) take; product: what one by cuBLASLt takes, ms. */
static struct outcome chosen(enum precision precision, const char *cudnn, const char *product,
                             bool rehearsed)
{
    struct sample four = samples[2], *s = &four;
    struct backend *be = open_device(false);
    const struct conv2d_spec *p = &s->spec;
    size_t n, pixels = (size_t)4 * s->height * s->width;
    float *x = values(pixels * (size_t)p->in, 1), *bias = values((size_t)p->out, 4);
    float *w = values((size_t)(p->out * p->in) * p->kernel_h * p->kernel_w, 2);
    float *before, *y, *want;
    struct tensor tx, ty;
    struct outcome ret = {0};
    struct conv2d *c;
    struct err e;
    double most = 0.0, largest = 0.0;

    s->images = 4; /* one piece */
    n = count_of(s);
    before = values(n, 3);
    y = malloc(n * sizeof(*y));
    assert_non_null(y);
    want = convolved(host, s, PRECISION_F32, bias, EPILOGUE_ADD, before);
    tx = tensor_of_type(be, precision_type(precision), (int64_t)pixels, p->in, x);
    ty = tensor_of_type(be, precision_type(precision), (int64_t)n / p->out, p->out, before);
    setenv("NIGHTSHIFT_EMULATED_CUDNN_MS", cudnn, 1);
    setenv("NIGHTSHIFT_EMULATED_CUBLASLT_MS", product, 1);
    assert_ok(be->ops->conv2d_new(be, precision, p, w, bias, &c, &e), e);
    if (rehearsed)
        assert_ok(be->ops->rehearse(be, true, &e), e);
    assert_ok(be->ops->conv2d(be, c, s->images, s->height, s->width, tx, EPILOGUE_ADD, ty, &e), e);
    if (rehearsed)
        assert_ok(be->ops->rehearse(be, false, &e), e);
    unsetenv("NIGHTSHIFT_EMULATED_CUDNN_MS");
    unsetenv("NIGHTSHIFT_EMULATED_CUBLASLT_MS");
    assert_ok(be->ops->put(be, ty, before, &e), e);
    ret.runs = cuda.count("cudnn runs");
    assert_ok(be->ops->conv2d(be, c, s->images, s->height, s->width, tx, EPILOGUE_ADD, ty, &e), e);
    ret.runs = cuda.count("cudnn runs") - ret.runs;
    assert_ok(be->ops->get(be, y, ty, &e), e);
    for (size_t i = 0; i < n; i++) {
        most = fmax(most, fabs((double)y[i] - (double)want[i]));
        largest = fmax(largest, fabs((double)want[i]));
    }
    ret.off = most / largest;
    be->ops->conv2d_free(be, c);
    be->ops->release(be, tx.data);
    be->ops->release(be, ty.data);
    backend_close(be);
    free(x);
    free(w);
    free(bias);
    free(before);
    free(y);
    free(want);
    return ret;
}

/* Which engine ran is seen by what it rounds; that it was none, by their runs. */
static void test_fastest(void **state)
{
    struct outcome o = chosen(PRECISION_TF32, "0,4,0,0,0,2", "99", false);

    (void)state;
    assert_true(o.runs == 1 && o.off > 2e-5 && o.off < 1e-3);
    o = chosen(PRECISION_TF32, "0,4,0,0,0,2", "99", true);
    assert_true(o.runs == 1 && o.off < 2e-6);
    o = chosen(PRECISION_TF32, "0,4,0,0,0,3.95", "3.95", true); /* not clearly */
    assert_true(o.runs == 1 && o.off > 2e-5 && o.off < 1e-3);
    o = chosen(PRECISION_TF32, "0,4,0,0,0,2", "1", true);
    assert_true(o.runs == 0 && o.off > 2e-5 && o.off < 1e-3);
    /* in 16 bits neither one that sums in them, nor Winograd's */
    o = chosen(PRECISION_F16, "0,4,1,1,0,4", "99", true);
    assert_true(o.runs == 1 && o.off > 5e-5 && o.off < 1.2e-3);
}

/* For measuring, one way is asked for. */
static void test_asked_for(void **state)
{
    struct backend *be;
    struct outcome o;

    (void)state;
    setenv("NIGHTSHIFT_CUDA_CONVOLVE", "product", 1);
    assert_int_equal(chosen(PRECISION_TF32, "0,1", "9", true).runs, 0);
    be = open_device(false);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++)
        assert_true(off(be, &samples[i], PRECISION_F32, true, EPILOGUE_RELU) < 2e-6);
    backend_close(be);
    setenv("NIGHTSHIFT_CUDA_CONVOLVE", "cudnn", 1);
    o = chosen(PRECISION_TF32, "0,9,0,0,0,4", "1", true);
    assert_true(o.runs == 1 && o.off < 2e-6);
    setenv("NIGHTSHIFT_CUDA_CONVOLVE", "first", 1);
    o = chosen(PRECISION_TF32, "0,9,0,0,0,4", "1", true);
    assert_true(o.runs == 1 && o.off > 2e-5);
    unsetenv("NIGHTSHIFT_CUDA_CONVOLVE");
}

/* Nothing is left behind, plans and what was tried in vain among it. */
static void test_nothing_is_left(void **state)
{
    int64_t held = emulated_held(&cuda), descriptors = cuda.count("cudnn descriptors");
    struct backend *be = open_device(false), *fork;
    struct err e;

    (void)state;
    assert_ok(be->ops->fork(be, false, &fork, &e), e);
    assert_true(off(be, &samples[0], PRECISION_F32, true, EPILOGUE_ADD) < 2e-6);
    assert_true(off(fork, &samples[0], PRECISION_TF32, true, EPILOGUE_ADD) < 1e-3);
    assert_true(off(be, &samples[0], PRECISION_F16, true, EPILOGUE_ADD) < 1e-3);
    backend_close(fork);
    backend_close(be);
    assert_int_equal(emulated_held(&cuda), held);
    assert_int_equal(cuda.count("cudnn descriptors"), descriptors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_the_host),
        cmocka_unit_test(test_tf32),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_half_overflows),
        cmocka_unit_test(test_plans),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_pixels),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_nan_stays),
        cmocka_unit_test(test_fastest),
        cmocka_unit_test(test_asked_for),
        cmocka_unit_test(test_nothing_is_left),
    };
    struct err e;
    int rc;

    cuda = emulated_open();
    if (backend_open_host(2, &host, &e) != 0)
        return 1;
    rc = cmocka_run_group_tests_name("convolve", tests, NULL, NULL);
    backend_close(host);
    return rc;
}
