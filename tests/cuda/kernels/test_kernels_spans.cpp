/* Norms, pools and statistics over rows, gathered rows, and attention within sequences, against the
 * same in double: all types, rows that are not aligned, masks, and what is no number. */
#include "matrix.h"

static std::vector<float> column(const std::vector<float> &x, int64_t cols, int64_t c,
                                 int64_t first, int64_t n)
{
    std::vector<float> v;

    for (int64_t r = first; r < first + n; r++)
        v.push_back(x[(size_t)(r * cols + c)]);
    return v;
}

static double mean_of(const std::vector<float> &v)
{
    double sum = 0;

    for (float x : v)
        sum += (double)x / (double)v.size();
    return sum;
}

static double highest_of(const std::vector<float> &v)
{
    double high = -INFINITY;

    for (float x : v)
        high = std::isnan(x) || std::isnan(high) ? NAN : fmax(high, (double)x);
    return high;
}

/* A large mean, which costs digits where the variance is taken in one pass of float32, and the
 * first value far off, from which differences are taken. */
static void check_norm(uint32_t windows, int64_t n, int64_t cols, int64_t gap, bool in_place)
{
    std::vector<float> x = normals(windows * (size_t)(n * cols)), g = normals((size_t)cols);
    std::vector<float> b = normals((size_t)cols);
    std::vector<double> want(x.size());

    for (float &v : x)
        v += 20.0f;
    for (int64_t c = 0; c < cols && n > 1; c++)
        x[(size_t)c] -= 1000.0f;
    matrix mx(DTYPE_F32, windows * n, cols, x, gap), my(DTYPE_F32, windows * n, cols, 0, gap);
    array<float> gamma(g), beta(b);
    const matrix &y = in_place ? mx : my;

    for (int64_t w = 0; w < windows; w++)
        for (int64_t c = 0; c < cols; c++) {
            const std::vector<float> v = column(x, cols, c, w * n, n);
            const double mean = mean_of(v);
            double variance = 0;

            for (float value : v)
                variance += ((double)value - mean) * ((double)value - mean) / (double)n;
            for (int64_t r = 0; r < n; r++)
                want[(size_t)((w * n + r) * cols + c)] =
                    ((double)v[(size_t)r] - mean) / sqrt(variance + 1e-3) * (double)g[(size_t)c] +
                    (double)b[(size_t)c];
        }
    array<char> scratch(std::vector<char>(k_norm_bytes(windows, mx.tensor())));

    WELL(k_instance_norm(nullptr, windows, mx.tensor(), gamma.p, beta.p, 1e-3f, scratch.p,
                         y.tensor()));
    assert_near(y.get(), want, 1e-6, 1e-5, "instance norm");
}

TEST(test_instance_norm)
{
    for (bool in_place : {false, true}) {
        check_norm(1, 70, 80, 0, in_place);
        check_norm(3, 33, 61, 3, in_place);
        check_norm(2, 1, 5, 1, in_place);
        check_norm(2, 31, 1, 0, in_place);
        check_norm(2, 31, 1, 2, in_place);
        check_norm(2, 700, 35, 0, in_place); /* parts */
        check_norm(2, 17000, 1, 0, in_place);
    }
}

TEST(test_max_pool)
{
    const int64_t windows = 3, n = 11;

    for (int64_t size : {1, 2, 3, 11}) {
        const int64_t cols = size == 3 ? 40 : 37; /* four at once, and one */
        std::vector<float> x = normals((size_t)(windows * n * cols));
        std::vector<double> want;

        x[5] = x[(size_t)(n * cols) + 1] = NAN;
        matrix mx(DTYPE_F32, windows * n, cols, x, size == 3 ? 4 : 2);
        matrix y(DTYPE_F32, windows * (n / size), cols, size == 3 ? 4 : 1);
        for (int64_t w = 0; w < windows; w++)
            for (int64_t r = 0; r < n / size; r++)
                for (int64_t c = 0; c < cols; c++)
                    want.push_back(highest_of(column(x, cols, c, w * n + r * size, size)));
        WELL(
            k_max_pool(nullptr, (uint32_t)windows, (uint32_t)size, false, mx.tensor(), y.tensor()));
        assert_near(y.get(), want, 0, 0, "max pool");
        for (float &v : x)
            v = fabsf(v);
        want.clear();
        for (int64_t w = 0; w < windows; w++)
            for (int64_t r = 0; r < n / size; r++)
                for (int64_t c = 0; c < cols; c++)
                    want.push_back(highest_of(column(x, cols, c, w * n + r * size, size)));
        WELL(k_max_pool(nullptr, (uint32_t)windows, (uint32_t)size, true, mx.tensor(), y.tensor()));
        assert_near(y.get(), want, 0, 0, "max pool of magnitudes");
    }
}

/* Against sums in double precision, with gaps between the rows. */
static void check_resample(struct resample_device d, int64_t windows, int64_t n, int64_t m,
                           int64_t cols, const std::vector<uint32_t> &lengths)
{
    std::vector<float> x = normals((size_t)(windows * n * cols)), gamma, beta;
    std::vector<float> w = normals((size_t)d.up * d.taps);
    std::vector<double> want;

    gamma = normals((size_t)cols);
    beta = normals((size_t)cols);
    for (uint32_t k = 0; k < d.taps; k++)
        w[(size_t)k * d.up] = k == d.before ? 1.0f : 0.0f;
    for (int64_t i = 0; i < windows * m; i++) {
        const int64_t window = i / m, place = i % m * d.down, lies = place / d.up;
        const int64_t length = lengths.empty() ? n : lengths[(size_t)window];

        for (int64_t c = 0; c < cols; c++) {
            double sum = 0;

            for (int64_t k = 0; k < d.taps; k++) {
                const int64_t row = lies - d.before + k;
                const int64_t held = row < 0 ? 0 : row >= length ? length - 1 : row;

                if (row == held || d.keep_ends)
                    sum += (double)w[(size_t)(k * d.up + place % d.up)] *
                           (double)x[(size_t)((window * n + held) * cols + c)];
            }
            sum = sum * (double)gamma[(size_t)c] + (double)beta[(size_t)c];
            want.push_back(lies < length ? sum : 0);
        }
    }
    for (int64_t window = 0; window < windows && !lengths.empty(); window++)
        for (int64_t i = lengths[(size_t)window] * cols; i < n * cols; i++)
            x[(size_t)(window * n * cols + i)] = NAN;
    matrix mx(DTYPE_F32, windows * n, cols, x, 3), y(DTYPE_F32, windows * m, cols, 5);
    array<float> aw(w), ag(gamma), ab(beta);
    array<uint32_t> al(lengths);

    d.w = aw.p;
    d.gamma = ag.p;
    d.beta = ab.p;
    d.lengths = lengths.empty() ? nullptr : al.p;
    WELL(k_resample(nullptr, &d, (uint32_t)windows, mx.tensor(), y.tensor()));
    assert_near(y.get(), want, 1e-5, 1e-4, "resample");
}

TEST(test_resample)
{
    struct resample_device d = {};

    d.up = 3;
    d.down = 1;
    d.taps = 128;
    d.before = 63;
    check_resample(d, 2, 300, 900, 1, {});
    check_resample(d, 3, 200, 600, 1, {200, 1, 77});
    d.up = 7;
    d.down = 5;
    d.taps = 4;
    d.before = 1;
    d.keep_ends = true;
    check_resample(d, 2, 31, 42, 64, {});
    check_resample(d, 2, 31, 50, 3, {30, 31});
}

TEST(test_pool)
{
    const std::vector<uint32_t> at = {0, 3, 4, 40};

    for (enum pool kind : {POOL_MEAN, POOL_MAX, POOL_FIRST})
        for (int64_t cols : {300, 7}) {
            std::vector<float> x = normals((size_t)(40 * cols));
            std::vector<double> want;

            x[(size_t)(5 * cols)] = NAN;
            matrix mx(DTYPE_F32, 40, cols, x, 1), y(DTYPE_F32, 3, cols, 5);
            array<uint32_t> bounds(at);
            for (size_t i = 0; i < 3; i++)
                for (int64_t c = 0; c < cols; c++) {
                    const std::vector<float> v = column(x, cols, c, at[i], at[i + 1] - at[i]);

                    want.push_back(kind == POOL_MEAN  ? mean_of(v)
                                   : kind == POOL_MAX ? highest_of(v)
                                                      : (double)v[0]);
                }
            WELL(k_pool(nullptr, kind, bounds.p, mx.tensor(), y.tensor()));
            assert_near(y.get(), want, 1e-6, 0, "pool");
        }
}

/* Some weights, one alone, and none. */
static void check_stats(int64_t t)
{
    const int64_t cols = 70;
    const std::vector<uint32_t> of = {1, 1, 0, 2};
    std::vector<float> x = normals((size_t)(3 * t * cols)), w = normals((size_t)(4 * t));
    std::vector<double> want((size_t)(8 * cols));

    for (size_t i = 0; i < w.size(); i++)
        w[i] = i < (size_t)(2 * t) ? fabsf(w[i]) : i == (size_t)(2 * t + 9) ? 1.0f : 0.0f;
    matrix mx(DTYPE_F32, 3 * t, cols, x, 3), mw(DTYPE_F32, 4, t, w, 1),
        y(DTYPE_F32, 4, 2 * cols, 1);
    array<uint32_t> windows(of);

    for (size_t i = 0; i < 4; i++)
        for (int64_t c = 0; c < cols; c++) {
            const std::vector<float> v = column(x, cols, c, of[i] * t, t);
            double v1 = 1e-8, v2 = 0, mean = 0, spread = 0;

            for (size_t r = 0; r < (size_t)t; r++) {
                const double weight = (double)w[i * (size_t)t + r];

                v1 += weight;
                v2 += weight * weight;
                mean += weight * (double)v[r];
            }
            mean /= v1;
            for (size_t r = 0; r < (size_t)t; r++)
                spread +=
                    (double)w[i * (size_t)t + r] * ((double)v[r] - mean) * ((double)v[r] - mean);
            want[i * 2 * (size_t)cols + (size_t)c] = mean;
            want[(i * 2 + 1) * (size_t)cols + (size_t)c] = sqrt(spread / (v1 - v2 / v1 + 1e-8));
        }
    WELL(k_weighted_stats(nullptr, 3, mx.tensor(), windows.p, mw.tensor(), y.tensor()));
    assert_near(y.get(), want, 2e-6, 1e-6, "weighted statistics");
}

TEST(test_weighted_stats)
{
    check_stats(45);
    check_stats(128);
    check_stats(301); /* more than stay in registers */
}

/* Numbers that are no row count as none. */
TEST(test_gather)
{
    const std::vector<int32_t> rows = {2, -1, 0, 4, 4, 5, INT32_MIN, 1, 3};

    for (enum dtype type : ALL_TYPES)
        for (int64_t cols : {64, 65, 8})
            for (int64_t gap : {0, 8, 3}) {
                std::vector<float> x = normals((size_t)(5 * cols));
                std::vector<double> want;

                for (float &v : x)
                    v = rounded(type, v);
                matrix mx(type, 5, cols, x, gap), y(type, (int64_t)rows.size(), cols, 0, gap % 8);
                array<int32_t> at(rows);
                for (int32_t r : rows)
                    for (int64_t c = 0; c < cols; c++)
                        want.push_back(r >= 0 && r < 5 ? (double)x[(size_t)(r * cols + c)] : 0.0);
                WELL(k_gather(nullptr, mx.tensor(), at.p, y.tensor()));
                assert_near(y.get(), want, 0, 0, "gather");
            }
}

/* --- attention ------------------------------------------------------------------------------ */

struct sequences {
    std::vector<uint32_t> at, set;
    uint32_t heads, head;
    uint32_t sets; /* 0: no bias */
};

/* q, k and v beside each other, as a product leaves them. */
struct inputs {
    std::vector<float> qkv, tables;
    int64_t cols, rows;
};

static void attend_one(const sequences &s, const inputs &in, size_t i, size_t h, double scale,
                       std::vector<double> &want)
{
    const size_t first = s.at[i], n = s.at[i + 1] - first, wide = 3 * (size_t)in.cols;

    for (size_t r = 0; r < n; r++) {
        std::vector<double> weights(n);
        double high = -INFINITY, sum = 0;

        for (size_t t = 0; t < n; t++) {
            for (size_t d = 0; d < s.head; d++)
                weights[t] += (double)in.qkv[(first + r) * wide + h * s.head + d] *
                              (double)in.qkv[(first + t) * wide + (size_t)in.cols + h * s.head + d];
            weights[t] *= scale;
            if (s.sets)
                weights[t] += (double)in.tables[((s.set[i] * s.heads + h) * n + r) * n + t];
            high = fmax(high, weights[t]);
        }
        for (double &v : weights)
            sum += v = exp(v - high);
        for (size_t d = 0; d < s.head; d++) {
            double &out = want[(first + r) * (size_t)in.cols + h * s.head + d];

            out = 0;
            for (size_t t = 0; t < n; t++)
                out += weights[t] / sum *
                       (double)in.qkv[(first + t) * wide + 2 * (size_t)in.cols + h * s.head + d];
        }
    }
}

/* Biases as they are, of masks, and minus infinity for all of the first tile's keys, or for all
 * keys at all. */
static std::vector<float> tables_of(const sequences &s)
{
    const size_t n = s.at[1], rows = s.sets * s.heads * n;
    std::vector<float> t = normals(rows * n, 2.0f);

    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < n; c++)
            if (r % 5 == 1 && c % 3 == 0)
                t[r * n + c] = -100.0f;
            else if ((r % 5 == 2 && c < 32 && n > 32) || r == 3)
                t[r * n + c] = -INFINITY;
    return t;
}

static void check_attention(const sequences &s, enum dtype type, int64_t gap, int64_t shift)
{
    const float scale = 0.9f / sqrtf((float)s.head);
    inputs in;

    in.cols = (int64_t)s.heads * s.head;
    in.rows = s.at.back();
    in.qkv = normals((size_t)(in.rows * 3 * in.cols));
    for (float &v : in.qkv)
        v = rounded(type, v);
    matrix qkv(type, in.rows, 3 * in.cols, in.qkv, gap, shift), y(type, in.rows, in.cols, gap);
    array<uint32_t> at(s.at), set(s.set);
    struct spans_device d = {};
    uint32_t longest = 0;

    d.at = at.p;
    d.heads = s.heads;
    d.head_size = s.head;
    d.scale = scale;
    d.q = tensor_columns(qkv.tensor(), 0, in.cols);
    d.k = tensor_columns(qkv.tensor(), in.cols, in.cols);
    d.v = tensor_columns(qkv.tensor(), 2 * in.cols, in.cols);
    d.out = y.tensor();
    if (s.sets)
        in.tables = tables_of(s);
    matrix tables(DTYPE_F32, s.sets ? (int64_t)(s.sets * s.heads * s.at[1]) : 1,
                  s.sets ? (int64_t)s.at[1] : 1, s.sets ? in.tables : std::vector<float>{0.0f}, 1);
    if (s.sets) {
        d.set = set.p;
        d.tables = tables.tensor();
    }
    std::vector<double> want((size_t)(in.rows * in.cols));
    for (size_t i = 0; i + 1 < s.at.size(); i++) {
        longest = s.at[i + 1] - s.at[i] > longest ? s.at[i + 1] - s.at[i] : longest;
        for (size_t h = 0; h < s.heads; h++)
            attend_one(s, in, i, h, (double)scale, want);
    }
    WELL(k_attend_spans(nullptr, &d, (uint32_t)s.at.size() - 1, longest));
    assert_near(y.get(), want, 2 * precision_of(type) + 2e-6, 2e-6, "attention");
}

static const sequences SEQUENCES[] = {
    {{0, 7, 7, 8, 73, 105}, {}, 2, 32, 0},
    {{0, 33, 66}, {1, 0}, 2, 24, 2},
    {{0, 70}, {}, 1, 64, 0},
    {{0, 49, 98, 147}, {0, 2, 1}, 1, 40, 3},
    {{0, 20, 37}, {}, 1, 128, 0},
    {{0, 5, 40}, {}, 3, 8, 0},
    {{0, 64, 128}, {0, 0}, 2, 96, 1},
    {{0, 1, 2}, {}, 1, 16, 0},
};

TEST(test_attention)
{
    for (enum dtype type : ALL_TYPES)
        for (const sequences &s : SEQUENCES) {
            check_attention(s, type, 0, 0);
            check_attention(s, type, 3, 1);
        }
}

TEST(test_nothing)
{
    struct tensor none = tensor_of(DTYPE_F32, nullptr, 0, 8);
    struct spans_device d = {};
    struct resample_device resample = {};
    matrix x(DTYPE_F32, 2, 12);

    d.q = none;
    WELL(k_instance_norm(nullptr, 1, none, nullptr, nullptr, 1e-5f, nullptr, none));
    WELL(k_max_pool(nullptr, 1, 2, false, none, none));
    WELL(k_resample(nullptr, &resample, 1, none, none));
    WELL(k_pool(nullptr, POOL_MEAN, nullptr, none, none));
    WELL(k_weighted_stats(nullptr, 1, none, nullptr, none, none));
    WELL(k_gather(nullptr, none, nullptr, none));
    WELL(k_attend_spans(nullptr, &d, 1, 1));
    d.q = d.k = d.v = d.out = x.tensor();
    d.heads = 1;
    d.head_size = 12;
    assert_int_not_equal(k_attend_spans(nullptr, &d, 1, 2), 0);
}

TEST_MAIN(NULL, NULL)
