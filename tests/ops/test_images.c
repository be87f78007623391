/* Convolutions over images, activations, instance norm and pooling against double precision, on the
 * host or the device that NIGHTSHIFT_TEST_DEVICE names. Inputs are rounded to the type first. */
#include "tests/common/test.h"

#include <math.h>

#include "tests/ops/check.h"
#include "tests/ops/reference_images.h"

struct image_case {
    struct conv2d_spec spec;
    uint32_t images, height, width;
    enum epilogue epilogue;
    bool bias;
};

#define SAME3 .top = 1, .bottom = 1, .left = 1, .right = 1

static const struct image_case cases[] = {
    /* ResNet's first layer, its others, with a stride, and its short cuts */
    {{.in = 1, .out = 32, .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, SAME3},
     2,
     8,
     21,
     EPILOGUE_RELU,
     true},
    {{.in = 32, .out = 32, .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, SAME3},
     3,
     10,
     13,
     EPILOGUE_ADD,
     true},
    {{.in = 32, .out = 32, .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, SAME3},
     3,
     20,
     13,
     EPILOGUE_ADD_RELU,
     true},
    {{.in = 32, .out = 64, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, SAME3},
     2,
     10,
     13,
     EPILOGUE_RELU,
     true},
    {{.in = 32, .out = 64, .kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 2},
     2,
     10,
     13,
     EPILOGUE_NONE,
     true},
    /* SincNet: one dimension, long filters, without a bias */
    {{.in = 1, .out = 80, .kernel_h = 1, .kernel_w = 251, .stride_h = 1, .stride_w = 10},
     2,
     1,
     3001,
     EPILOGUE_NONE,
     false},
    {{.in = 80, .out = 60, .kernel_h = 1, .kernel_w = 5, .stride_h = 1, .stride_w = 1},
     3,
     1,
     40,
     EPILOGUE_NONE,
     true},
    /* Whisper's front: the host gathers what outputs see in several pieces, the last one shorter */
    {{.in = 48,
      .out = 32,
      .kernel_h = 1,
      .kernel_w = 3,
      .stride_h = 1,
      .stride_w = 1,
      .left = 1,
      .right = 1},
     2,
     1,
     601,
     EPILOGUE_GELU,
     true},
    {{.in = 48,
      .out = 32,
      .kernel_h = 1,
      .kernel_w = 3,
      .stride_h = 1,
      .stride_w = 2,
      .left = 1,
      .right = 1},
     2,
     1,
     1024,
     EPILOGUE_ADD,
     true},
    /* TensorFlow's "same" pads behind more than before; patches of a transformer */
    {{.in = 1,
      .out = 32,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 2,
      .stride_w = 2,
      .bottom = 1,
      .right = 1},
     3,
     96,
     64,
     EPILOGUE_RELU,
     true},
    {{.in = 1, .out = 96, .kernel_h = 4, .kernel_w = 4, .stride_h = 4, .stride_w = 4},
     1,
     32,
     24,
     EPILOGUE_NONE,
     true},
    /* odd channels of a large image; pixels by themselves */
    {{.in = 33,
      .out = 21,
      .kernel_h = 5,
      .kernel_w = 3,
      .stride_h = 1,
      .stride_w = 2,
      .top = 2,
      .bottom = 2,
      .left = 1,
      .right = 1},
     2,
     24,
     31,
     EPILOGUE_ADD,
     true},
    {{.in = 64, .out = 40, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1},
     3,
     6,
     7,
     EPILOGUE_RELU,
     true},
    {{.in = 64, .out = 64, .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1},
     3,
     6,
     7,
     EPILOGUE_ADD_RELU,
     false},
    {{.in = 7, .out = 9, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 1, SAME3},
     2,
     5,
     9,
     EPILOGUE_ADD_RELU,
     true},
    /* nothing even, padding on three sides, an image smaller than the kernel */
    {{.in = 3,
      .out = 7,
      .kernel_h = 5,
      .kernel_w = 2,
      .stride_h = 3,
      .stride_w = 1,
      .top = 2,
      .bottom = 4,
      .left = 1},
     4,
     2,
     5,
     EPILOGUE_GELU,
     true},
};

static const struct image_case depthwise[] = {
    {{.in = 32,
      .out = 32,
      .depthwise = true,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 1,
      .stride_w = 1,
      SAME3},
     3,
     12,
     8,
     EPILOGUE_RELU,
     true},
    {{.in = 64,
      .out = 64,
      .depthwise = true,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 2,
      .stride_w = 2,
      .bottom = 1,
      .right = 1},
     2,
     12,
     8,
     EPILOGUE_NONE,
     false},
    {{.in = 21,
      .out = 21,
      .depthwise = true,
      .kernel_h = 2,
      .kernel_w = 5,
      .stride_h = 1,
      .stride_w = 3,
      .top = 1,
      .left = 4,
      .right = 2},
     2,
     7,
     11,
     EPILOGUE_ADD,
     true},
    {{.in = 24,
      .out = 24,
      .depthwise = true,
      .kernel_h = 3,
      .kernel_w = 3,
      .stride_h = 1,
      .stride_w = 1,
      SAME3},
     2,
     7,
     9,
     EPILOGUE_ADD_RELU,
     true},
    {{.in = 1,
      .out = 1,
      .depthwise = true,
      .kernel_h = 1,
      .kernel_w = 7,
      .stride_h = 1,
      .stride_w = 1},
     2,
     1,
     50,
     EPILOGUE_GELU,
     true},
};

static double with_epilogue(enum epilogue epilogue, double r, double before)
{
    if (epilogue_adds(epilogue))
        r += before;
    if (epilogue == EPILOGUE_RELU || epilogue == EPILOGUE_ADD_RELU)
        return fmax(r, 0.0);
    return epilogue == EPILOGUE_GELU ? reference_activation(ACTIVATION_GELU, r) : r;
}

static void one_image_case(enum precision p, enum dtype out_type, const struct image_case *i)
{
    const struct conv2d_spec *s = &i->spec;
    enum dtype type = s->depthwise ? DTYPE_F32 : precision_type(p);
    size_t pixels = (size_t)i->height * i->width, in = (size_t)s->in, out = (size_t)s->out;
    size_t outputs = reference_outputs(i->height, s->top, s->bottom, s->kernel_h, s->stride_h) *
                     reference_outputs(i->width, s->left, s->right, s->kernel_w, s->stride_w);
    size_t weights = out * (s->depthwise ? 1 : in) * s->kernel_h * s->kernel_w;
    size_t n = i->images * outputs * out;
    uint32_t seed = (uint32_t)(pixels + in * 3 + out);
    float *x = values(i->images * pixels * in, type, 1.0f, seed);
    float *w = values(weights, type, 0.2f, seed + 1),
          *bias = values(out, DTYPE_F32, 1.0f, seed + 2);
    float *before = values(n, out_type, 1.0f, seed + 3);
    double *want = malloc(n * sizeof(*want));
    struct tensor tx = tensor_new(type, i->images * pixels, in, x);
    struct tensor ty = tensor_new(out_type, i->images * outputs, out, before);
    struct conv2d *c;
    char shape[96];
    struct err e;

    snprintf(shape, sizeof(shape), "%u of %ux%ux%zu -> %zu, kernel %ux%u, epilogue %d", i->images,
             i->height, i->width, in, out, s->kernel_h, s->kernel_w, i->epilogue);
    for (size_t k = 0; k < i->images; k++)
        reference_conv2d(s, x + k * pixels * in, i->height, i->width, w, i->bias ? bias : NULL,
                         want + k * outputs * out);
    for (size_t k = 0; k < n; k++)
        want[k] = with_epilogue(i->epilogue, want[k], (double)before[k]);
    assert_ok(be->ops->conv2d_new(be, p, s, w, i->bias ? bias : NULL, &c, &e), e);
    for (int again = 0; again < (epilogue_adds(i->epilogue) ? 1 : 2); again++)
        assert_ok(be->ops->conv2d(be, c, i->images, i->height, i->width, tx, i->epilogue, ty, &e),
                  e);
    compare("conv2d", p, ty, want, shape, seed);
    be->ops->conv2d_free(be, c);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    free(w);
    free(bias);
    free(before);
    free(want);
}

/* What is no number stays so behind the ReLU of a sum, wherever it came from, whichever way the
 * convolution goes. */
static void sum_of_nan(int64_t channels, uint32_t height, uint32_t width, bool apart)
{
    const struct conv2d_spec s = {.in = channels,
                                  .out = channels,
                                  .depthwise = apart,
                                  .kernel_h = 3,
                                  .kernel_w = 3,
                                  .stride_h = 1,
                                  .stride_w = 1,
                                  SAME3};
    size_t pixels = (size_t)height * width, n = pixels * (size_t)channels;
    float *x = calloc(n, sizeof(*x)), *before = calloc(n, sizeof(*before)), *y;
    float *w = values((size_t)(channels * channels) * 9, DTYPE_F32, 1.0f, 5);
    struct tensor tx, ty;
    struct conv2d *c;
    struct err e;

    assert_true(x && before);
    x[0] = NAN; /* seen by the first four pixels */
    before[n - 2] = NAN;
    before[n - 1] = -1.0f;
    tx = tensor_new(DTYPE_F32, pixels, (size_t)channels, x);
    ty = tensor_new(DTYPE_F32, pixels, (size_t)channels, before);
    assert_ok(be->ops->conv2d_new(be, PRECISION_F32, &s, w, NULL, &c, &e), e);
    assert_ok(be->ops->conv2d(be, c, 1, height, width, tx, EPILOGUE_ADD_RELU, ty, &e), e);
    y = calloc(n, sizeof(*y));
    assert_non_null(y);
    assert_ok(be->ops->get(be, y, ty, &e), e);
    assert_true(isnan(y[0]) && isnan(y[n - 2]));
    assert_true(y[n - 1] == 0.0f && y[n - 3] == 0.0f);
    be->ops->conv2d_free(be, c);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    free(before);
    free(w);
    free(y);
}

TEST(sums_of_nan)
{
    sum_of_nan(32, 40, 40, false);
    sum_of_nan(3, 2, 5, false);
    sum_of_nan(32, 6, 7, true);
    sum_of_nan(5, 6, 7, true);
}

TEST(convolutions)
{
    for (int p = PRECISION_F32; p <= PRECISION_BF16; p++) { /* 8 bits are not for these */
        enum dtype type = precision_type((enum precision)p);

        for (size_t i = 0; i < COUNT(cases) && computes((enum precision)p); i++) {
            one_image_case((enum precision)p, type, &cases[i]);
            if (type != DTYPE_F32)
                one_image_case((enum precision)p, DTYPE_F32, &cases[i]);
        }
    }
    for (size_t i = 0; i < COUNT(depthwise); i++)
        one_image_case(PRECISION_F32, DTYPE_F32, &depthwise[i]);
    if (computes(PRECISION_BF16)) /* float32 all the same */
        one_image_case(PRECISION_BF16, DTYPE_F32, &depthwise[0]);
}

static struct conv2d_spec over_time(int64_t in, int64_t out, uint32_t stride)
{
    return (struct conv2d_spec){.in = in,
                                .out = out,
                                .kernel_h = 1,
                                .kernel_w = 3,
                                .stride_h = 1,
                                .stride_w = stride,
                                .left = 1,
                                .right = 1};
}

/* As Whisper's; windows of a few steps; one that has fewer than the kernel. */
TEST(convolutions_over_time)
{
    static const struct {
        uint32_t windows, steps, in, out, stride;
        enum epilogue epilogue;
    } shapes[] = {
        {1, 30, 80, 64, 1, EPILOGUE_GELU},   {1, 30, 128, 64, 1, EPILOGUE_GELU},
        {1, 30, 64, 64, 2, EPILOGUE_GELU},   {1, 300, 192, 192, 2, EPILOGUE_GELU},
        {3, 2, 80, 192, 1, EPILOGUE_GELU},   {3, 30, 64, 64, 2, EPILOGUE_GELU},
        {3, 100, 80, 64, 1, EPILOGUE_RELU},  {2, 65, 64, 64, 2, EPILOGUE_NONE},
        {67, 4, 128, 64, 1, EPILOGUE_RELU},  {67, 4, 128, 64, 2, EPILOGUE_RELU},
        {67, 2, 64, 64, 2, EPILOGUE_NONE},   {67, 1, 64, 128, 1, EPILOGUE_RELU},
        {33, 4, 129, 128, 1, EPILOGUE_RELU}, {5, 4, 129, 64, 1, EPILOGUE_NONE},
    };

    for (int p = PRECISION_F32; p <= PRECISION_BF16; p++) {
        for (size_t i = 0; i < COUNT(shapes) && computes((enum precision)p); i++) {
            const struct image_case c = {over_time(shapes[i].in, shapes[i].out, shapes[i].stride),
                                         shapes[i].windows,
                                         1,
                                         shapes[i].steps,
                                         shapes[i].epilogue,
                                         true};

            one_image_case((enum precision)p, precision_type((enum precision)p), &c);
        }
    }
}

/* What an image yields does not depend on the others, and not on what was computed before. */
static void images_alone(const struct conv2d_spec *s, uint32_t images, uint32_t height,
                         uint32_t width)
{
    size_t x_each = (size_t)height * width * (size_t)s->in, y_each;
    size_t rows = reference_outputs(height, s->top, s->bottom, s->kernel_h, s->stride_h) *
                  reference_outputs(width, s->left, s->right, s->kernel_w, s->stride_w);
    float *x = values(images * x_each, DTYPE_F32, 1.0f, 3), *got, *alone;
    float *w = values((size_t)(s->depthwise ? s->out : s->out * s->in) * s->kernel_h * s->kernel_w,
                      DTYPE_F32, 0.1f, 4);
    struct tensor tx = tensor_new(DTYPE_F32, images * x_each / (size_t)s->in, (size_t)s->in, x);
    struct tensor ty = tensor_new(DTYPE_F32, images * rows, (size_t)s->out, NULL);
    struct conv2d *c;
    struct err e;

    y_each = rows * (size_t)s->out;
    got = malloc(images * y_each * sizeof(*got));
    alone = malloc(y_each * sizeof(*alone));
    assert_ok(be->ops->conv2d_new(be, PRECISION_F32, s, w, NULL, &c, &e), e);
    assert_ok(be->ops->conv2d(be, c, images, height, width, tx, EPILOGUE_RELU, ty, &e), e);
    assert_ok(be->ops->get(be, got, ty, &e), e);
    for (int64_t i = images - 1; i >= 0; i -= images / 18 + 2) {
        struct tensor part = tensor_rows(tx, i * (int64_t)height * width, (int64_t)height * width);
        struct tensor to = tensor_rows(ty, 0, (int64_t)rows);

        assert_ok(be->ops->conv2d(be, c, 1, height, width, part, EPILOGUE_RELU, to, &e), e);
        assert_ok(be->ops->get(be, alone, to, &e), e);
        for (size_t k = 0; k < y_each; k++)
            assert_true(fabsf(alone[k] - got[(size_t)i * y_each + k]) <=
                        (be->info.deterministic ? 0.0f : 2e-5f));
    }
    be->ops->conv2d_free(be, c);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    free(w);
    free(got);
    free(alone);
}

TEST(many_images)
{
    const struct conv2d_spec odd = over_time(129, 128, 1);

    images_alone(&cases[1].spec, 5, 11, 9);
    images_alone(&cases[4].spec, 5, 1, 1501);
    images_alone(&depthwise[0].spec, 5, 12, 8);
    images_alone(&odd, 1500, 1, 4);
}

/* y of one image so wide, by c. */
static float *over_time_once(struct conv2d *c, enum dtype type, uint32_t steps)
{
    float *x = values((size_t)steps * 128, type, 1.0f, steps);
    float *y = malloc((size_t)steps * 256 * sizeof(*y));
    struct tensor tx = tensor_new(type, steps, 128, x), ty = tensor_new(type, steps, 256, NULL);
    struct err e;

    assert_ok(be->ops->conv2d(be, c, 1, 1, steps, tx, EPILOGUE_NONE, ty, &e), e);
    assert_ok(be->ops->get(be, y, ty, &e), e);
    tensor_free(tx);
    tensor_free(ty);
    free(x);
    return y;
}

/* A long image and a short one may want them laid out differently: each result is that of weights
 * which saw no other image, and after a long one alone they are there once. */
TEST(weights_are_kept_once)
{
    static const uint32_t orders[][3] = {{3000, 4, 600}, {4, 3000, 4}, {600, 3000, 4}};
    const struct conv2d_spec spec = over_time(128, 256, 1);
    const size_t count = (size_t)128 * 256 * 3;
    float *w = values(count, DTYPE_F32, 0.1f, 5);

    for (int p = PRECISION_F32; p <= PRECISION_BF16; p++) {
        enum dtype type = precision_type((enum precision)p);

        for (size_t i = 0; i < COUNT(orders) && computes((enum precision)p); i++) {
            uint64_t before = 0;
            struct conv2d *c;
            struct err e;

            for (size_t k = 0; k < 3; k++) {
                float *have, *want;
                struct conv2d *fresh;

                assert_ok(be->ops->conv2d_new(be, (enum precision)p, &spec, w, NULL, &fresh, &e),
                          e);
                want = over_time_once(fresh, type, orders[i][k]);
                be->ops->conv2d_free(be, fresh);
                if (k == 0) { /* scratch memory is there by now, and stays */
                    before = be->allocated;
                    assert_ok(be->ops->conv2d_new(be, (enum precision)p, &spec, w, NULL, &c, &e),
                              e);
                }
                have = over_time_once(c, type, orders[i][k]);
                if (p == PRECISION_F32 && k == 0 && orders[i][k] == 3000)
                    assert_in_range(be->allocated - before, count * sizeof(*w),
                                    count * sizeof(*w) / 4 * 5);
                assert_memory_equal(have, want, (size_t)orders[i][k] * 256 * sizeof(*want));
                free(have);
                free(want);
            }
            be->ops->conv2d_free(be, c);
        }
    }
    free(w);
}

TEST(activations)
{
    enum { ROWS = 5, COLS = 37, WIDE = 40 };
    float *x = values(ROWS * WIDE, DTYPE_F32, 6.0f, 8);
    double *want = malloc(ROWS * COLS * sizeof(*want));

    for (int f = ACTIVATION_RELU; f <= ACTIVATION_SIGMOID; f++) {
        for (size_t t = 0; t < COUNT(types); t++) {
            struct tensor tx = tensor_new(DTYPE_F32, ROWS, WIDE, x), ty, view;
            struct err e;

            view = tensor_columns(tx, 2, COLS);
            for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
                want[i] = reference_activation((enum activation)f,
                                               (double)x[i / COLS * WIDE + 2 + i % COLS]);
            if (have(types[t]) || (be->info.processors == 0 && types[t] == DTYPE_BF16)) {
                ty = tensor_new(types[t], ROWS, COLS, NULL);
                assert_ok(be->ops->activate(be, (enum activation)f, view, ty, &e), e);
                compare("activate", PRECISION_F32, ty, want, "", (uint32_t)f);
                tensor_free(ty);
            }
            if (types[t] == DTYPE_F32) { /* in place */
                assert_ok(be->ops->activate(be, (enum activation)f, view, view, &e), e);
                compare("activate", PRECISION_F32, view, want, "in place", (uint32_t)f);
            }
            tensor_free(tx);
        }
    }
    free(x);
    free(want);
}

static void one_instance_norm(uint32_t windows, size_t rows, size_t cols, float shift)
{
    size_t n = windows * rows * cols;
    float *x = values(n, DTYPE_F32, 2.0f, 9), *g = values(cols, DTYPE_F32, 1.0f, 10);
    float *b = values(cols, DTYPE_F32, 1.0f, 11);
    double *want = malloc(n * sizeof(*want));
    struct tensor tx, ty = tensor_new(DTYPE_F32, windows * rows, cols, NULL);
    struct tensor tg = tensor_new(DTYPE_F32, 1, cols, g), tb = tensor_new(DTYPE_F32, 1, cols, b);
    struct err e;

    for (size_t i = 0; i < n; i++)
        x[i] += shift * (float)(i / (rows * cols)); /* each window has a mean of its own */
    tx = tensor_new(DTYPE_F32, windows * rows, cols, x);
    for (size_t i = 0; i < windows; i++)
        reference_instance_norm(x + i * rows * cols, rows, cols, g, b, 1e-5,
                                want + i * rows * cols);
    assert_ok(be->ops->instance_norm(be, windows, tx, tg, tb, 1e-5f, ty, &e), e);
    compare("instance_norm", PRECISION_F32, ty, want, "", (uint32_t)cols);
    assert_ok(be->ops->instance_norm(be, windows, tx, tg, tb, 1e-5f, tx, &e), e);
    compare("instance_norm", PRECISION_F32, tx, want, "in place", (uint32_t)cols);
    tensor_free(tx);
    tensor_free(ty);
    tensor_free(tg);
    tensor_free(tb);
    free(x);
    free(g);
    free(b);
    free(want);
}

/* More values than go through a loop at once, in rows that lie together. */
TEST(activations_of_many)
{
    enum { ROWS = 251, COLS = 37 };
    float *x = values((size_t)ROWS * COLS, DTYPE_F32, 6.0f, 8);
    double *want = malloc((size_t)ROWS * COLS * sizeof(*want));
    struct err e;

    for (size_t t = 0; t < COUNT(types); t++) {
        struct tensor tx, ty;

        if (!have(types[t]))
            continue;
        tx = tensor_new(DTYPE_F32, ROWS, COLS, x);
        ty = tensor_new(types[t], ROWS, COLS, NULL);
        for (size_t i = 0; i < (size_t)ROWS * COLS; i++)
            want[i] = reference_activation(ACTIVATION_LEAKY_RELU, (double)x[i]);
        assert_ok(be->ops->activate(be, ACTIVATION_LEAKY_RELU, tx, ty, &e), e);
        compare("activate", PRECISION_F32, ty, want, "many", 0);
        tensor_free(tx);
        tensor_free(ty);
    }
    free(x);
    free(want);
}

TEST(instance_norms)
{
    one_instance_norm(1, 1000, 1, 0.0f);
    one_instance_norm(3, 2077, 1, 3.0f); /* more rows than threads, and not a multiple */
    one_instance_norm(2, 20001, 1, 3.0f);
    one_instance_norm(3, 331, 80, 3.0f);
    one_instance_norm(2, 1025, 33, 1.0f);
    one_instance_norm(2, 77, 61, 3.0f);
    one_instance_norm(2, 5, 16, 1.0f);
}

TEST(max_pools)
{
    static const uint32_t shapes[][4] = {
        {2, 31, 80, 3}, {3, 7, 61, 2}, {1, 5, 1, 5}, {2, 4, 33, 1}};

    for (size_t s = 0; s < COUNT(shapes); s++) {
        size_t windows = shapes[s][0], n = shapes[s][1], cols = shapes[s][2], size = shapes[s][3];
        float *x = values(windows * n * cols, DTYPE_F32, 2.0f, (uint32_t)n);
        double *want = malloc(windows * (n / size) * cols * sizeof(*want)), *to = want;
        struct tensor tx = tensor_new(DTYPE_F32, windows * n, cols, x);
        struct tensor ty = tensor_new(DTYPE_F32, windows * (n / size), cols, NULL);
        struct err e;

        for (size_t w = 0; w < windows; w++)
            for (size_t r = 0; r < n / size; r++, to += cols)
                reference_pool(POOL_MAX, x + (w * n + r * size) * cols, size, cols, to);
        assert_ok(be->ops->max_pool(be, (uint32_t)windows, (uint32_t)size, false, tx, ty, &e), e);
        compare("max_pool", PRECISION_F32, ty, want, "", (uint32_t)n);
        for (size_t i = 0; i < windows * n * cols; i++)
            x[i] = fabsf(x[i]);
        to = want;
        for (size_t w = 0; w < windows; w++)
            for (size_t r = 0; r < n / size; r++, to += cols)
                reference_pool(POOL_MAX, x + (w * n + r * size) * cols, size, cols, to);
        assert_ok(be->ops->max_pool(be, (uint32_t)windows, (uint32_t)size, true, tx, ty, &e), e);
        compare("max_pool", PRECISION_F32, ty, want, "magnitudes", (uint32_t)n);
        tensor_free(tx);
        tensor_free(ty);
        free(x);
        free(want);
    }
}

/* Wrong shapes are refused before anything is touched. */
TEST(refusals)
{
    struct conv2d_spec good = cases[0].spec, bad;
    float *w = values(32 * 9, DTYPE_F32, 1.0f, 1);
    struct tensor x = tensor_new(DTYPE_F32, 20, 1, NULL), y = tensor_new(DTYPE_F32, 20, 32, NULL);
    struct tensor g = tensor_new(DTYPE_F32, 1, 32, NULL);
    struct conv2d *c;
    struct err e;

#define BAD(change) \
    bad = good;     \
    bad.change;     \
    assert_int_equal(be->ops->conv2d_new(be, PRECISION_F32, &bad, w, NULL, &c, &e), ERR_DEVICE)
    BAD(in = 0);
    BAD(out = -1);
    BAD(in = (1 << 20) + 1);
    BAD(out = (1 << 20) + 1);
    BAD(kernel_h = 0);
    BAD(kernel_w = 256);
    BAD(stride_h = 0);
    BAD(stride_w = 256);
    BAD(top = 3);
    BAD(right = 3);
    BAD(depthwise = true); /* 1 -> 32 */
    assert_ok(be->ops->conv2d_new(be, PRECISION_F32, &good, w, NULL, &c, &e), e);
    assert_ok(be->ops->conv2d(be, c, 1, 4, 5, x, EPILOGUE_NONE, y, &e), e);
    assert_int_equal(be->ops->conv2d(be, c, 0, 4, 5, x, EPILOGUE_NONE, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->conv2d(be, c, 3, 4, 5, x, EPILOGUE_NONE, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->conv2d(be, c, 1, 4, 4, x, EPILOGUE_NONE, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->conv2d(be, c, 1, 4, 5, y, EPILOGUE_NONE, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->conv2d(be, c, 1, 4, 5, x, EPILOGUE_NONE, x, &e), ERR_DEVICE);
    be->ops->conv2d_free(be, c);
    be->ops->conv2d_free(be, NULL);
    assert_int_equal(be->ops->activate(be, ACTIVATION_RELU, x, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->instance_norm(be, 3, y, g, g, 1e-5f, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->instance_norm(be, 0, y, g, g, 1e-5f, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->instance_norm(be, 2, y, g, x, 1e-5f, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->instance_norm(be, 2, y, g, g, 0.0f, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->max_pool(be, 1, 0, false, y, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->max_pool(be, 1, 2, false, y, y, &e), ERR_DEVICE);
    assert_int_equal(be->ops->max_pool(be, 1, 21, true, y, y, &e), ERR_DEVICE);
    tensor_free(x);
    tensor_free(y);
    tensor_free(g);
    free(w);
}

TEST_MAIN(open_backend, close_backend)
