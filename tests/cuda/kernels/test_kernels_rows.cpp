/* Kernels that work on rows of matrices (elementwise, norm, quantize, bandwidth), each against a
 * plain computation in double: all types, one and many rows, aligned and not, lengths that are no
 * multiple of anything. What a tolerance allows is the rounding to the result's type and, where
 * there are sums, some units of float32's last place. */
#include "matrix.h"

#include <cuda_fp8.h>

/* Shapes that every kernel meets: gap and shift are elements. */
struct shape {
    int64_t rows, cols, gap, shift;
};

static const shape SHAPES[] = {
    {1, 1, 0, 0},    {1, 64, 0, 0},    {3, 5, 0, 0},     {9, 384, 0, 0}, {8, 520, 8, 0},
    {17, 65, 3, 1},  {2, 1280, 64, 8}, {1, 5120, 0, 0},  {33, 40, 0, 1}, {2, 1531, 0, 0},
    {5, 1536, 0, 0}, {2, 1544, 0, 0},  {1, 51866, 2, 0},
};

static std::vector<float> rounded_all(enum dtype type, std::vector<float> v)
{
    for (float &x : v)
        x = rounded(type, x);
    return v;
}

static void each_pair(const std::function<void(enum dtype, enum dtype, const shape &)> &f)
{
    for (enum dtype a : ALL_TYPES)
        for (enum dtype b : ALL_TYPES)
            for (const shape &s : SHAPES)
                f(a, b, s);
}

TEST(test_copy)
{
    each_pair([](enum dtype from, enum dtype to, const shape &s) {
        std::vector<float> x = rounded_all(from, normals((size_t)(s.rows * s.cols), 3.0f));
        matrix src(from, s.rows, s.cols, x, s.gap, s.shift), dst(to, s.rows, s.cols, 7, s.shift);

        WELL(k_copy(nullptr, dst.tensor(), src.tensor()));
        assert_true(dst.get() == rounded_all(to, x));
    });
}

TEST(test_copy_of_extremes)
{
    std::vector<float> x = {0.0f,     -0.0f,   INFINITY, -INFINITY, NAN,    65504.0f,
                            65520.0f, 1e-8f,   5.96e-8f, 1e38f,     -1e38f, 1.0f,
                            3e-5f,    2049.0f, 2051.0f,  257.0f};

    for (enum dtype to : ALL_TYPES) {
        matrix src(DTYPE_F32, 2, 8, x), dst(to, 2, 8);

        WELL(k_copy(nullptr, dst.tensor(), src.tensor()));
        std::vector<float> got = dst.get();
        for (size_t i = 0; i < x.size(); i++) {
            float want = rounded(to, x[i]);

            assert_true(std::isnan(want) ? std::isnan(got[i]) : memcmp(&want, &got[i], 4) == 0);
        }
    }
}

TEST(test_zero)
{
    for (enum dtype type : ALL_TYPES)
        for (const shape &s : SHAPES) {
            matrix x(type, s.rows, s.cols, s.gap, s.shift);

            WELL(k_zero(nullptr, x.tensor()));
            assert_true(x.get() == std::vector<float>((size_t)(s.rows * s.cols), 0.0f));
        }
}

TEST(test_add)
{
    for (enum dtype type : ALL_TYPES)
        for (const shape &s : SHAPES)
            for (int64_t times : {1, 3}) {
                std::vector<float> x = rounded_all(type, normals((size_t)(s.rows * s.cols)));
                std::vector<float> y = normals(x.size() * (size_t)times);
                matrix mx(type, s.rows, s.cols, x, s.gap, s.shift);
                matrix my(DTYPE_F32, s.rows * times, s.cols, y, s.gap);

                WELL(k_add(nullptr, my.tensor(), mx.tensor()));
                for (size_t i = 0; i < y.size(); i++)
                    y[i] += x[i % x.size()];
                assert_true(my.get() == y);
            }
}

TEST(test_magnitude)
{
    for (int64_t n : {1, 64, 129})
        for (int64_t rows : {1, 9}) {
            std::vector<float> x = normals((size_t)(rows * 2 * n), 3.0f);
            std::vector<double> want;

            x[0] = x[(size_t)n] = 0.0f;
            matrix mx(DTYPE_F32, rows, 2 * n, x, 3, 1), y(DTYPE_F32, rows, n, n % 2 ? 0 : 5);
            WELL(k_magnitude(nullptr, mx.tensor(), y.tensor()));
            for (int64_t i = 0; i < rows * n; i++) {
                size_t at = (size_t)(i / n * 2 * n + i % n);

                want.push_back(hypot((double)x[at], (double)x[at + (size_t)n]));
            }
            assert_near(y.get(), want, 0x1p-22, 0.0, "magnitude");
        }
}

TEST(test_embed)
{
    each_pair([](enum dtype table, enum dtype places, const shape &s) {
        const int64_t vocab = 11, most = 5;
        std::vector<float> t = rounded_all(table, normals((size_t)(vocab * s.cols)));
        std::vector<float> p = rounded_all(places, normals((size_t)(most * s.cols))), want;
        matrix mt(table, vocab, s.cols, t, s.gap), mp(places, most, s.cols, p, 0, s.shift);
        matrix y(DTYPE_F32, s.rows, s.cols, s.gap);
        std::vector<struct token_row> rows((size_t)s.rows);

        for (struct token_row &r : rows) {
            r = {-1, (int32_t)below(most), (int32_t)below(vocab), -1};
            for (int64_t c = 0; c < s.cols; c++)
                want.push_back(t[(size_t)(r.token * s.cols + c)] + p[(size_t)(r.pos * s.cols + c)]);
        }
        array<struct token_row> device(rows);
        WELL(k_embed(nullptr, mt.tensor(), mp.tensor(), device.p, y.tensor()));
        assert_true(y.get() == want);
    });
}

static double finished(double r, enum epilogue epilogue, double old)
{
    if (epilogue == EPILOGUE_RELU)
        return r < 0 ? 0 : r;
    return epilogue == EPILOGUE_GELU ? exact_gelu(r) : epilogue == EPILOGUE_ADD ? r + old : r;
}

TEST(test_epilogue)
{
    each_pair([](enum dtype from, enum dtype to, const shape &s) {
        for (enum epilogue e : {EPILOGUE_NONE, EPILOGUE_GELU, EPILOGUE_ADD, EPILOGUE_RELU}) {
            std::vector<float> x = rounded_all(from, normals((size_t)(s.rows * s.cols), 2.0f));
            std::vector<float> y = rounded_all(to, normals(x.size())), b = normals((size_t)s.cols);
            std::vector<double> want;
            array<float> bias(b);
            bool biased = s.rows % 2 == 1;
            matrix mx(from, s.rows, s.cols, x, s.gap, s.shift), my(to, s.rows, s.cols, y, s.gap);

            WELL(k_epilogue(nullptr, mx.tensor(), biased ? bias.p : nullptr, e, my.tensor()));
            for (size_t i = 0; i < x.size(); i++)
                want.push_back(
                    finished((double)x[i] + (biased ? (double)b[i % (size_t)s.cols] : 0.0), e,
                             (double)y[i]));
            assert_near(my.get(), want, precision_of(to), 1e-6, TYPE_NAMES[to]);
        }
    });
}

/* In place, over the range in which GELU is neither 0 nor the identity. */
TEST(test_gelu_in_place)
{
    for (enum dtype type : ALL_TYPES) {
        std::vector<float> x;
        std::vector<double> want;

        for (int i = -4096; i < 4096; i++)
            x.push_back(rounded(type, (float)i / 512.0f));
        for (float v : x)
            want.push_back(exact_gelu((double)v));
        matrix m(type, 8, 1024, x);
        WELL(k_epilogue(nullptr, m.tensor(), nullptr, EPILOGUE_GELU, m.tensor()));
        assert_near(m.get(), want, precision_of(type), 3e-7, TYPE_NAMES[type]);
    }
}

static std::vector<double> norm_of(const std::vector<float> &x, int64_t cols,
                                   const std::vector<float> &gamma, const std::vector<float> &beta)
{
    std::vector<double> y;

    for (size_t row = 0; row < x.size(); row += (size_t)cols) {
        double mean = 0, spread = 0;

        for (size_t c = 0; c < (size_t)cols; c++)
            mean += (double)x[row + c] / (double)cols;
        for (size_t c = 0; c < (size_t)cols; c++)
            spread += pow((double)x[row + c] - mean, 2) / (double)cols;
        for (size_t c = 0; c < (size_t)cols; c++)
            y.push_back(((double)x[row + c] - mean) / sqrt(spread + 1e-5) * (double)gamma[c] +
                        (double)beta[c]);
    }
    return y;
}

TEST(test_layer_norm)
{
    for (enum dtype to : ALL_TYPES)
        for (const shape &s : SHAPES) {
            std::vector<float> x = normals((size_t)(s.rows * s.cols)), g = normals((size_t)s.cols);
            std::vector<float> b = normals((size_t)s.cols);

            for (float &v : x)
                v += 30.0f; /* a mean that costs digits where the variance is taken in one pass */
            matrix mx(DTYPE_F32, s.rows, s.cols, x, s.gap, s.shift), my(to, s.rows, s.cols, s.gap);
            array<float> gamma(g), beta(b);
            WELL(k_layer_norm(nullptr, mx.tensor(), gamma.p, beta.p, 1e-5f, my.tensor()));
            assert_near(my.get(), norm_of(x, s.cols, g, b), precision_of(to), 4e-5, "layer norm");
            assert_true(mx.get() == x);
        }
}

TEST(test_add_layer_norm)
{
    each_pair([](enum dtype sum, enum dtype to, const shape &s) {
        std::vector<float> x = normals((size_t)(s.rows * s.cols)), g = normals((size_t)s.cols);
        std::vector<float> r = rounded_all(sum, normals(x.size())), b = normals((size_t)s.cols);
        matrix mx(DTYPE_F32, s.rows, s.cols, x, s.gap), mr(sum, s.rows, s.cols, r, s.gap, s.shift);
        matrix my(to, s.rows, s.cols, s.gap);
        array<float> gamma(g), beta(b);

        WELL(k_add_layer_norm(nullptr, mx.tensor(), mr.tensor(), gamma.p, beta.p, 1e-5f,
                              my.tensor()));
        for (size_t i = 0; i < x.size(); i++)
            x[i] += r[i];
        assert_true(mx.get() == x);
        assert_near(my.get(), norm_of(x, s.cols, g, b), precision_of(to), 1e-5, "sum and norm");
    });
}

/* A row's bits with others around it are those that it has alone. */
TEST(test_norm_of_one_row)
{
    std::vector<float> x = normals(9 * 1280), g = normals(1280), b = normals(1280);
    matrix all(DTYPE_F32, 9, 1280, x), one(DTYPE_F32, 1, 1280, {x.begin() + 5 * 1280, x.end()});
    matrix y(DTYPE_F32, 9, 1280), z(DTYPE_F32, 1, 1280);
    array<float> gamma(g), beta(b);

    WELL(k_layer_norm(nullptr, all.tensor(), gamma.p, beta.p, 1e-5f, y.tensor()));
    WELL(k_layer_norm(nullptr, one.tensor(), gamma.p, beta.p, 1e-5f, z.tensor()));
    assert_memory_equal(y.get().data() + 5 * 1280, z.get().data(), 1280 * sizeof(float));
}

static std::vector<double> softmax_of(const std::vector<float> &x, int64_t cols, double scale)
{
    std::vector<double> y;

    for (size_t row = 0; row < x.size(); row += (size_t)cols) {
        double high = -INFINITY, sum = 0;

        for (size_t c = 0; c < (size_t)cols; c++)
            high = fmax(high, scale * (double)x[row + c]);
        for (size_t c = 0; c < (size_t)cols; c++)
            sum += exp(scale * (double)x[row + c] - high);
        for (size_t c = 0; c < (size_t)cols; c++)
            y.push_back(exp(scale * (double)x[row + c] - high) / sum);
    }
    return y;
}

TEST(test_softmax)
{
    for (enum dtype to : ALL_TYPES)
        for (int64_t cols : {1, 3, 127, 128, 129, 448, 1500, 1536}) {
            std::vector<float> x = normals((size_t)(5 * cols), 20.0f);

            x[(size_t)cols - 1] = cols > 1 ? -INFINITY : 0.0f; /* a score that takes no part */
            matrix mx(DTYPE_F32, 5, cols, x, 4), my(to, 5, cols, 1);
            WELL(k_softmax(nullptr, mx.tensor(), 0.125f, my.tensor()));
            assert_near(my.get(), softmax_of(x, cols, 0.125), precision_of(to) + 2e-6, 1e-7,
                        TYPE_NAMES[to]);
            /* Into its own memory, row over row. */
            struct tensor over = {
                to, 5, cols, mx.stride * 4 / (int64_t)dtype_size(to), mx.tensor().data, nullptr};
            std::vector<float> apart = my.get();
            WELL(k_softmax(nullptr, mx.tensor(), 0.125f, over));
            matrix out(to, 5, cols);
            WELL(k_copy(nullptr, out.tensor(), over));
            assert_true(out.get() == apart);
        }
    matrix wide(DTYPE_F32, 1, 1537);
    assert_int_not_equal(k_softmax(nullptr, wide.tensor(), 1.0f, wide.tensor()), 0);
}

TEST(test_softmax_of_nothing)
{
    matrix x(DTYPE_F32, 2, 3, {-INFINITY, -INFINITY, -INFINITY, 0.0f, NAN, 1.0f}),
        y(DTYPE_F32, 2, 3);

    WELL(k_softmax(nullptr, x.tensor(), 1.0f, y.tensor()));
    for (float v : y.get())
        assert_true(std::isnan(v));
}

TEST(test_quantize)
{
    for (enum dtype type : ALL_TYPES)
        for (const shape &s : SHAPES)
            for (int64_t wide : {s.cols, (s.cols + 31) / 32 * 32}) {
                std::vector<float> x = rounded_all(type, normals((size_t)(s.rows * s.cols)));
                matrix m(type, s.rows, s.cols, x, s.gap, s.shift);
                array<int8_t> q((size_t)(s.rows * wide), 99);
                array<float> scales((size_t)s.rows, -1.0f);

                WELL(k_quantize_rows(nullptr, m.tensor(),
                                     {DTYPE_I8, s.rows, s.cols, wide, q.p, scales.p}));
                std::vector<int8_t> got = q.get();
                for (int64_t r = 0; r < s.rows; r++) {
                    float high = 0.0f;

                    for (int64_t c = 0; c < s.cols; c++)
                        high = fmaxf(high, fabsf(x[(size_t)(r * s.cols + c)]));
                    assert_true(fabsf(scales.get()[(size_t)r] - high / 127.0f) <= high * 1e-8f);
                    for (int64_t c = 0; c < wide; c++) {
                        double v = c < s.cols
                                       ? (double)x[(size_t)(r * s.cols + c)] * 127.0 / (double)high
                                       : 0.0;

                        assert_true(fabs((double)got[(size_t)(r * wide + c)] - v) <= 0.5 + 1e-4);
                    }
                }
            }
}

/* Halves go to the even neighbour; zeros stay; what is not finite cannot hide. */
TEST(test_quantize_corners)
{
    matrix m(DTYPE_F32, 5, 4,
             {127.0f, 0.5f, 1.5f,     -2.5f, 0.0f, -0.0f, 0.0f,   0.0f,    1.0f, NAN,
              2.0f,   3.0f, INFINITY, 1.0f,  1.0f, 1.0f,  1e-40f, -1e-40f, 0.0f, 0.0f});
    array<int8_t> q(20, 99);
    array<float> scales(5, -1.0f);
    const int8_t want[] = {127, 0, 2, -2, 0, 0, 0, 0};

    WELL(k_quantize_rows(nullptr, m.tensor(), {DTYPE_I8, 5, 4, 4, q.p, scales.p}));
    assert_memory_equal(q.get().data(), want, sizeof(want));
    std::vector<float> got = scales.get();
    assert_true(got[0] == 1.0f && got[1] == 0.0f && std::isnan(got[2]) && std::isnan(got[3]));
    for (size_t i = 16; i < 20; i++)
        assert_true(fabsf((float)q.get()[i] * got[4]) <= 1e-40f);
}

TEST(test_dequantize)
{
    for (enum dtype to : ALL_TYPES)
        for (const shape &s : SHAPES)
            for (enum epilogue e : {EPILOGUE_NONE, EPILOGUE_GELU, EPILOGUE_ADD}) {
                int64_t wide = s.cols + s.gap;
                std::vector<int32_t> sums((size_t)(s.rows * wide));
                std::vector<float> rows = normals((size_t)s.rows, 1e-3f),
                                   b = normals((size_t)s.cols);
                std::vector<float> columns = normals((size_t)s.cols, 1e-2f);
                std::vector<float> y = rounded_all(to, normals((size_t)(s.rows * s.cols)));
                std::vector<double> want;
                bool biased = s.cols % 2 == 0;

                for (int32_t &v : sums)
                    v = (int32_t)below(400000) - 200000;
                array<int32_t> acc(sums);
                array<float> floats(std::vector<float>(sums.begin(), sums.end()));
                array<float> row_scales(rows), column_scales(columns), bias(b);
                matrix my(to, s.rows, s.cols, y, s.gap, s.shift),
                    mf(to, s.rows, s.cols, y, s.gap, s.shift);
                WELL(k_dequantize(nullptr, acc.p, true, wide, row_scales.p, column_scales.p,
                                  biased ? bias.p : nullptr, e, my.tensor()));
                WELL(k_dequantize(nullptr, floats.p, false, wide, row_scales.p, column_scales.p,
                                  biased ? bias.p : nullptr, e, mf.tensor()));
                assert_true(mf.get() == my.get()); /* the sums are whole numbers below 2^24 */
                for (int64_t i = 0; i < s.rows * s.cols; i++) {
                    size_t r = (size_t)(i / s.cols), c = (size_t)(i % s.cols);
                    double v =
                        (double)sums[r * (size_t)wide + c] * (double)rows[r] * (double)columns[c] +
                        (biased ? (double)b[c] : 0.0);

                    want.push_back(finished(v, e, (double)y[(size_t)i]));
                }
                assert_near(my.get(), want, precision_of(to) + 1e-6, 3e-6, TYPE_NAMES[to]);
            }
}

/* e4m3 as its definition reads: sign, 4 bits of exponent (bias 7), 3 of fraction, no infinities. */
static double from_fp8(uint8_t b)
{
    int exponent = b >> 3 & 15, fraction = b & 7;
    double v = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);

    return (b & 0x7f) == 0x7f ? NAN : b & 0x80 ? -v : v;
}

/* Rows of e4m3 against what they were made of: half of the last place, below the smallest normal
 * number of half its step; and no scale but the row's. */
static void assert_e4m3(const std::vector<uint8_t> &q, const std::vector<float> &scales,
                        const std::vector<double> &x, int64_t rows, int64_t cols, int64_t stride,
                        double error)
{
    for (int64_t r = 0; r < rows; r++) {
        double high = 0.0, scale = (double)scales[(size_t)r];

        for (int64_t c = 0; c < cols; c++)
            high = fmax(high, fabs(x[(size_t)(r * cols + c)]));
        assert_true(fabs(scale - high / 448.0) <= high / 448.0 * 1e-6 + error / 448.0);
        for (int64_t c = 0; c < cols; c++) {
            double v = x[(size_t)(r * cols + c)];
            double w = from_fp8(q[(size_t)(r * stride + c)]) * scale;

            assert_true(fabs(w - v) <= fmax(fabs(v) * 0x1p-4, scale * 0x1p-10) * 1.001 + error);
        }
    }
}

static std::vector<double> doubles(const std::vector<float> &x)
{
    return std::vector<double>(x.begin(), x.end());
}

TEST(test_e4m3)
{
    for (enum dtype type : ALL_TYPES)
        for (const shape &s : SHAPES) {
            int64_t wide = (s.cols + 15) / 16 * 16;
            std::vector<float> x = rounded_all(type, normals((size_t)(s.rows * s.cols), 3.0f));
            matrix m(type, s.rows, s.cols, x, s.gap, s.shift);
            array<uint8_t> q((size_t)(s.rows * wide), 99);
            array<float> scales((size_t)s.rows, -1.0f);

            WELL(k_quantize_rows(nullptr, m.tensor(),
                                 {DTYPE_E4M3, s.rows, s.cols, wide, q.p, scales.p}));
            assert_e4m3(q.get(), scales.get(), doubles(x), s.rows, s.cols, wide, 0.0);
            for (int64_t r = 0; r < s.rows; r++)
                for (int64_t c = s.cols; c < wide; c++)
                    assert_int_equal(q.get()[(size_t)(r * wide + c)], 0);
        }
}

/* What is not finite does not hide behind a scale, and rows of (nearly) nothing are zeros. */
TEST(test_e4m3_corners)
{
    matrix m(DTYPE_F32, 5, 4,
             {448.0f, -0.5f, 17.0f, 0.0f, 1.0f, NAN,  2.0f, 3.0f,      1e-40f, -1e-40f,
              0.0f,   0.0f,  0.0f,  0.0f, 0.0f, 0.0f, 1.0f, -INFINITY, 2.0f,   3.0f});
    array<uint8_t> q(20, 99);
    array<float> scales(5, -1.0f);

    WELL(k_quantize_rows(nullptr, m.tensor(), {DTYPE_E4M3, 5, 4, 4, q.p, scales.p}));
    std::vector<float> got = scales.get();
    std::vector<uint8_t> b = q.get();
    assert_true(from_fp8(b[0]) == 448.0 && from_fp8(b[1]) == -0.5 && from_fp8(b[2]) == 16.0);
    assert_true(got[0] == 1.0f && std::isnan(from_fp8(b[5])) && got[3] == 0.0f);
    assert_true(got[1] == 3.0f / 448.0f && from_fp8(b[7]) == 448.0);
    assert_true(std::isnan(got[4]));
    for (size_t i = 8; i < 16; i++)
        assert_true(fabs(from_fp8(b[i]) * (double)got[i / 4]) <= 1e-40);
}

/* In place, as products use it: 8 bits where the row's 16 were. */
TEST(test_gelu_rows)
{
    for (enum dtype type : {DTYPE_BF16, DTYPE_F16})
        for (int64_t cols : {8, 16, 384, 2048, 2056, 5120, 6144}) {
            const int64_t rows = 5;
            std::vector<float> x = rounded_all(type, normals((size_t)(rows * cols), 2.0f));
            std::vector<double> want;
            array<float> scales((size_t)rows, -1.0f);
            matrix m(type, rows, cols, x);
            struct tensor q = {DTYPE_E4M3,      rows,    cols, 2 * m.tensor().stride,
                               m.tensor().data, scales.p};

            for (float v : x)
                want.push_back(finished((double)v, EPILOGUE_GELU, 0.0));
            WELL(k_gelu_rows(nullptr, m.tensor(), q));
            std::vector<uint8_t> bytes((size_t)(rows * q.stride));
            assert_int_equal(cudaMemcpy(bytes.data(), q.data,
                                        (size_t)((rows - 1) * q.stride + cols),
                                        cudaMemcpyDeviceToHost),
                             cudaSuccess);
            assert_e4m3(bytes, scales.get(), want, rows, cols, q.stride, 6e-4);
        }
    /* Too long, or not in packs. */
    matrix long_one(DTYPE_BF16, 1, BACKEND_MAX_E4M3 + 8), odd(DTYPE_BF16, 1, 12);
    array<float> scale(1, 0.0f);
    for (const matrix *m : {&long_one, &odd}) {
        struct tensor x = m->tensor(), q = x;

        q.type = DTYPE_E4M3;
        q.stride *= 2;
        q.scales = scale.p;
        assert_int_equal(k_gelu_rows(nullptr, x, q), cudaErrorInvalidValue);
    }
}

TEST(test_layer_norm_e4m3)
{
    for (int64_t cols : {4, 64, 384, 768, 772, 1280, 1536}) {
        const int64_t rows = 7;
        std::vector<float> x = normals((size_t)(rows * cols), 3.0f), g = normals((size_t)cols),
                           b = normals((size_t)cols);
        matrix m(DTYPE_F32, rows, cols, x), y(DTYPE_F32, rows, cols);
        array<float> gamma(g), beta(b), scales((size_t)rows, -1.0f);
        array<uint8_t> q((size_t)(rows * cols), 99);

        WELL(k_layer_norm(nullptr, m.tensor(), gamma.p, beta.p, 1e-5f, y.tensor()));
        WELL(k_layer_norm(nullptr, m.tensor(), gamma.p, beta.p, 1e-5f,
                          {DTYPE_E4M3, rows, cols, cols, q.p, scales.p}));
        assert_e4m3(q.get(), scales.get(), doubles(y.get()), rows, cols, cols, 0.0);
    }
    matrix wide(DTYPE_F32, 1, 1540);
    array<float> gamma(std::vector<float>(1540)), scale(1, 0.0f);
    array<uint8_t> q(1540, 0);
    assert_int_equal(k_layer_norm(nullptr, wide.tensor(), gamma.p, gamma.p, 1e-5f,
                                  {DTYPE_E4M3, 1, 1540, 1540, q.p, scale.p}),
                     cudaErrorInvalidValue);
}

/* A row's numbers do not show how many came with it: few are a block each, many a warp each. */
TEST(test_layer_norm_grouping)
{
    const int64_t many = 2050, few = 3;

    for (int64_t cols : {4, 384, 772, 1280, 1536}) {
        std::vector<float> g = normals((size_t)cols), b = normals((size_t)cols);
        matrix x(DTYPE_F32, many, cols, normals((size_t)(many * cols), 3.0f));
        matrix y(DTYPE_F32, many, cols), z(DTYPE_F32, few, cols);
        array<float> gamma(g), beta(b), s((size_t)many, -1.0f), t((size_t)few, -1.0f);
        array<uint8_t> q((size_t)(many * cols), 99), p((size_t)(few * cols), 98);
        struct tensor some = x.tensor();

        some.rows = few;
        WELL(k_layer_norm(nullptr, x.tensor(), gamma.p, beta.p, 1e-5f, y.tensor()));
        WELL(k_layer_norm(nullptr, some, gamma.p, beta.p, 1e-5f, z.tensor()));
        WELL(k_layer_norm(nullptr, x.tensor(), gamma.p, beta.p, 1e-5f,
                          {DTYPE_E4M3, many, cols, cols, q.p, s.p}));
        WELL(k_layer_norm(nullptr, some, gamma.p, beta.p, 1e-5f,
                          {DTYPE_E4M3, few, cols, cols, p.p, t.p}));
        const std::vector<float> all = y.get(), one = z.get(), from = s.get(), to = t.get();
        const std::vector<uint8_t> eights = q.get(), eight = p.get();
        assert_memory_equal(all.data(), one.data(), one.size() * sizeof(float));
        assert_memory_equal(from.data(), to.data(), to.size() * sizeof(float));
        assert_memory_equal(eights.data(), eight.data(), eight.size());
    }
}

TEST(test_read)
{
    for (size_t words : {(size_t)4, (size_t)4096, (size_t)2048 * 256 * 4 * 5 + 40}) {
        std::vector<uint32_t> v(words);
        uint32_t want = 0, got = 0;

        for (uint32_t &w : v)
            want += w = (uint32_t)next_random();
        array<uint32_t> p(v), ret(K_READ_BLOCKS, 1u);
        WELL(k_read(nullptr, p.p, words * 4, ret.p));
        for (uint32_t w : ret.get())
            got += w;
        assert_int_equal(got, want);
    }
}

/* The ReLU of a sum is nobody's here: refused, not forgotten. */
TEST(test_no_relu_of_a_sum)
{
    matrix x(DTYPE_F32, 2, 8);

    assert_int_equal(k_epilogue(nullptr, x.tensor(), nullptr, EPILOGUE_ADD_RELU, x.tensor()),
                     cudaErrorInvalidValue);
    assert_int_equal(k_dequantize(nullptr, x.tensor().data, false, 8, nullptr, nullptr, nullptr,
                                  EPILOGUE_ADD_RELU, x.tensor()),
                     cudaErrorInvalidValue);
}

/* Nothing to do is well, and no launch without blocks. */
TEST(test_empty)
{
    struct tensor none = {DTYPE_F32, 0, 8, 8, nullptr, nullptr};

    WELL(k_zero(nullptr, none));
    WELL(k_copy(nullptr, none, none));
    WELL(k_add(nullptr, none, none));
    WELL(k_magnitude(nullptr, none, none));
    WELL(k_embed(nullptr, none, none, nullptr, none));
    WELL(k_epilogue(nullptr, none, nullptr, EPILOGUE_NONE, none));
    WELL(k_layer_norm(nullptr, none, nullptr, nullptr, 1e-5f, none));
    WELL(k_softmax(nullptr, none, 1.0f, none));
    WELL(k_quantize_rows(nullptr, none, none));
    WELL(k_gelu_rows(nullptr, none, none));
}

TEST_MAIN(NULL, NULL)
