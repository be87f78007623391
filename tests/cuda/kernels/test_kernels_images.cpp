/* Unfolding, depthwise convolutions and activations against the same in double, for all types,
 * aligned rows and others. */
#include "matrix.h"

struct geometry {
    int64_t images;
    struct image_device g;
};

static int64_t outputs(int64_t size, int64_t padding, int64_t kernel, int64_t stride)
{
    return (size + padding - kernel) / stride + 1;
}

/* height, width, in; kernel, stride; zeros before and behind. */
static geometry make(int64_t images, int64_t height, int64_t width, int64_t in, int64_t kernel_h,
                     int64_t kernel_w, int64_t stride_h, int64_t stride_w, int64_t before,
                     int64_t behind)
{
    struct image_device g = {};

    g.height = height;
    g.width = width;
    g.in = in;
    g.kernel_h = kernel_h;
    g.kernel_w = kernel_w;
    g.stride_h = stride_h;
    g.stride_w = stride_w;
    g.top = kernel_h > before ? before : 0;
    g.left = kernel_w > before ? before : 0;
    g.out_height = outputs(height, g.top + (kernel_h > behind ? behind : 0), kernel_h, stride_h);
    g.out_width = outputs(width, g.left + (kernel_w > behind ? behind : 0), kernel_w, stride_w);
    return {images, g};
}

static const geometry GEOMETRIES[] = {
    make(2, 5, 7, 8, 3, 3, 1, 1, 1, 1),  make(1, 6, 5, 32, 3, 3, 2, 2, 1, 1),
    make(3, 4, 6, 1, 3, 3, 2, 2, 0, 1),  make(2, 1, 40, 1, 1, 11, 1, 3, 0, 0),
    make(2, 3, 5, 7, 2, 5, 1, 1, 1, 3),  make(1, 9, 8, 4, 4, 4, 4, 4, 0, 0),
    make(5, 2, 3, 16, 1, 1, 1, 1, 0, 0),
};

/* What output `output` sees at tap and channel. */
static float seen(const geometry &s, const std::vector<float> &x, int64_t output, int64_t tap,
                  int64_t channel)
{
    const struct image_device &g = s.g;
    const int64_t each = g.out_height * g.out_width, image = output / each;
    const int64_t h = output % each / g.out_width * g.stride_h - g.top + tap / g.kernel_w;
    const int64_t w = output % g.out_width * g.stride_w - g.left + tap % g.kernel_w;

    if (image >= s.images || h < 0 || h >= g.height || w < 0 || w >= g.width)
        return 0.0f;
    return x[(size_t)(((image * g.height + h) * g.width + w) * g.in + channel)];
}

static std::vector<float> image_values(const geometry &s, enum dtype type)
{
    std::vector<float> x = normals((size_t)(s.images * s.g.height * s.g.width * s.g.in));

    for (float &v : x)
        v = rounded(type, v);
    return x;
}

/* Pieces that begin in the midst of an image and end behind the last one; columns behind. */
static void check_unfold(const geometry &s, enum dtype type, int64_t more, int64_t shift)
{
    const int64_t taps = s.g.kernel_h * s.g.kernel_w, cols = taps * s.g.in + more;
    const int64_t all = s.images * s.g.out_height * s.g.out_width;
    const std::vector<float> x = image_values(s, type);
    matrix mx(type, s.images * s.g.height * s.g.width, s.g.in, x, 0, shift);

    for (int64_t first : {(int64_t)0, all / 2, all - 1}) {
        matrix dst(type, all / 2 + 3, cols, 0, shift);
        std::vector<double> want;

        WELL(k_unfold(nullptr, dst.tensor(), mx.tensor(), &s.g, first));
        for (int64_t r = 0; r < dst.rows; r++)
            for (int64_t c = 0; c < cols; c++)
                want.push_back(c / s.g.in < taps
                                   ? (double)seen(s, x, first + r, c / s.g.in, c % s.g.in)
                                   : 0.0);
        assert_near(dst.get(), want, 0, 0, "unfold");
    }
}

TEST(test_unfold)
{
    for (enum dtype type : ALL_TYPES)
        for (const geometry &s : GEOMETRIES)
            for (int64_t more : {0, 3, 8})
                for (int64_t shift : {0, 1})
                    check_unfold(s, type, more, shift);
}

static double finished(double r, enum epilogue epilogue, double old)
{
    return epilogue == EPILOGUE_GELU   ? exact_gelu(r)
           : epilogue == EPILOGUE_RELU ? fmax(r, 0.0)
           : epilogue == EPILOGUE_ADD  ? r + old
                                       : r;
}

static void check_depthwise(const geometry &s, enum epilogue epilogue, bool with_bias,
                            int64_t shift)
{
    const int64_t taps = s.g.kernel_h * s.g.kernel_w, in = s.g.in;
    const int64_t all = s.images * s.g.out_height * s.g.out_width;
    const std::vector<float> x = image_values(s, DTYPE_F32), w = normals((size_t)(taps * in), 0.3f);
    const std::vector<float> b = normals((size_t)in), old = normals((size_t)(all * in));
    matrix mx(DTYPE_F32, s.images * s.g.height * s.g.width, in, x, 0, shift);
    matrix y(DTYPE_F32, all, in, old);
    array<float> weights(w), bias(b);
    std::vector<double> want;

    WELL(k_depthwise(nullptr, mx.tensor(), weights.p, with_bias ? bias.p : nullptr, &s.g, epilogue,
                     y.tensor()));
    for (int64_t o = 0; o < all; o++)
        for (int64_t c = 0; c < in; c++) {
            double sum = with_bias ? (double)b[(size_t)c] : 0.0;

            for (int64_t t = 0; t < taps; t++)
                sum += (double)seen(s, x, o, t, c) * (double)w[(size_t)(t * in + c)];
            want.push_back(finished(sum, epilogue, (double)old[(size_t)(o * in + c)]));
        }
    assert_near(y.get(), want, 1e-6, 3e-6, "depthwise");
}

TEST(test_depthwise)
{
    for (const geometry &s : GEOMETRIES)
        for (enum epilogue e : {EPILOGUE_NONE, EPILOGUE_GELU, EPILOGUE_ADD, EPILOGUE_RELU})
            for (int64_t shift : {0, 1})
                check_depthwise(s, e, shift == 0, shift);
}

static double activated(enum activation f, double x)
{
    switch (f) {
    case ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case ACTIVATION_LEAKY_RELU:
        return x < 0 ? x / 100 : x;
    case ACTIVATION_ABS:
        return fabs(x);
    case ACTIVATION_GELU:
        return exact_gelu(x);
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_SIGMOID:
        return 1 / (1 + exp(-x));
    }
    return NAN;
}

static const enum activation ACTIVATIONS[] = {ACTIVATION_RELU, ACTIVATION_LEAKY_RELU,
                                              ACTIVATION_ABS,  ACTIVATION_GELU,
                                              ACTIVATION_TANH, ACTIVATION_SIGMOID};

/* Also what is no number, or none that is finite. */
TEST(test_activate)
{
    for (enum activation f : ACTIVATIONS)
        for (enum dtype type : ALL_TYPES)
            for (int64_t cols : {64, 300, 37}) {
                std::vector<float> x = normals((size_t)(11 * cols), 3.0f);
                std::vector<double> want;

                x[5] = NAN;
                x[6] = 100.0f;
                x[7] = -100.0f;
                matrix mx(DTYPE_F32, 11, cols, x, 2), y(type, 11, cols, 0, cols % 4);
                for (float v : x)
                    want.push_back(activated(f, (double)v));
                WELL(k_activate(nullptr, f, mx.tensor(), y.tensor()));
                assert_near(y.get(), want, 2 * precision_of(type) + 5e-7, 1e-6, "activate");
                if (type == DTYPE_F32) {
                    WELL(k_activate(nullptr, f, mx.tensor(), mx.tensor()));
                    assert_near(mx.get(), want, 1e-6, 1e-6, "activate in place");
                }
            }
}

TEST(test_nothing)
{
    struct tensor none = tensor_of(DTYPE_F32, nullptr, 0, 8);
    struct image_device g = GEOMETRIES[0].g;
    matrix x(DTYPE_F32, 35, 8), narrow(DTYPE_F32, 4, 71), other(DTYPE_F16, 4, 72);

    WELL(k_unfold(nullptr, none, none, &g, 0));
    WELL(k_depthwise(nullptr, none, nullptr, nullptr, &g, EPILOGUE_NONE, none));
    WELL(k_activate(nullptr, ACTIVATION_RELU, none, none));
    assert_int_not_equal(k_unfold(nullptr, narrow.tensor(), x.tensor(), &g, 0), 0);
    assert_int_not_equal(k_unfold(nullptr, other.tensor(), x.tensor(), &g, 0), 0);
}

TEST_MAIN(NULL, NULL)
