/* Scores of single heads, and the matrix of how tokens follow the audio, each against a plain
 * computation in double. */
#include <algorithm>

#include "matrix.h"

static const size_t HEAD = BACKEND_HEAD_SIZE;

/* Three heads; what lies beyond the keys and in other slots is NaN. */
static void check_scores(enum dtype type, uint32_t capacity, uint32_t keys, int64_t gap)
{
    const uint32_t heads = 3, head = keys % 3, slots = 4;
    const size_t stride = k_kv_bytes(type, heads, capacity) / dtype_size(type) + 64;
    const std::vector<int32_t> cross = {2, 0, 2, 3, 0};
    std::vector<float> cache(slots * stride, NAN), q = normals(cross.size() * heads * HEAD);
    std::vector<struct token_row> rows;
    std::vector<double> want;

    for (int32_t c : cross) {
        rows.push_back({0, -1, -1, c});
        for (size_t i = 0; i < keys * HEAD; i++)
            cache[(size_t)c * stride + 2 * head * capacity * HEAD + i] = normal();
    }
    matrix device(type, slots, (int64_t)stride, cache), out(DTYPE_F32, 5, keys, gap, gap % 2);
    matrix mq(type, 5, heads * (int64_t)HEAD, q, gap, gap % 2);
    array<struct token_row> where(rows);
    struct kv kv = {type,   heads, capacity, slots, stride * dtype_size(type), device.tensor().data,
                    nullptr, nullptr};

    cache = device.get();
    q = mq.get();
    for (size_t r = 0; r < rows.size(); r++)
        for (size_t key = 0; key < keys; key++) {
            const float *k = &cache[(size_t)cross[r] * stride + (2 * head * capacity + key) * HEAD];
            double sum = 0;

            for (size_t d = 0; d < HEAD; d++)
                sum += (double)q[(r * heads + head) * HEAD + d] * (double)k[d] / 8.0;
            want.push_back(sum);
        }
    WELL(k_attention_scores(nullptr, mq.tensor(), kv, where.p, head, keys, out.tensor()));
    assert_near(out.get(), want, 0.0, 4e-6, TYPE_NAMES[type]);
}

TEST(test_scores)
{
    for (enum dtype type : ALL_TYPES) {
        check_scores(type, 7, 1, 0);
        check_scores(type, 130, 128, 3);
        check_scores(type, 130, 129, 0);
        check_scores(type, 1500, 1500, 4);
    }
}

/* --- alignment -------------------------------------------------------------------------------- */

struct problem {
    size_t heads, n, frames;
    std::vector<float> scores; /* [heads * n][frames] */

    problem(size_t heads_, size_t n_, size_t frames_, float spread)
        : heads(heads_), n(n_), frames(frames_), scores(normals(heads_ * n_ * frames_, spread))
    {
    }
    std::vector<float> run(int64_t more, int64_t gap) const
    {
        const int64_t cols = (int64_t)frames + more;
        std::vector<float> wide((size_t)cols * heads * n, NAN); /* what lies beside the frames */

        for (size_t r = 0; r < heads * n; r++)
            std::copy_n(&scores[r * frames], frames, &wide[r * (size_t)cols]);
        matrix m(DTYPE_F32, (int64_t)(heads * n), cols, wide, gap);
        matrix out(DTYPE_F32, (int64_t)n, (int64_t)frames, gap);
        const struct align_window window = {(uint32_t)n, (uint32_t)frames, 0, 0};
        array<double> statistics(k_align_statistics((uint32_t)heads, 1) + 1, -7.0);

        WELL(k_align(nullptr, m.tensor(), (uint32_t)heads, &window, 1, statistics.p, out.tensor()));
        m.get();
        assert_true(statistics.get().back() == -7.0);
        return out.get();
    }
    /* One head: softmax, then each column standardised. */
    std::vector<double> weights(size_t head) const
    {
        std::vector<double> w(n * frames);

        for (size_t r = 0; r < n; r++) {
            const float *x = &scores[(head * n + r) * frames];
            double high = (double)*std::max_element(x, x + frames), sum = 0;

            for (size_t f = 0; f < frames; f++)
                sum += w[r * frames + f] = exp((double)x[f] - high);
            for (size_t f = 0; f < frames; f++)
                w[r * frames + f] /= sum;
        }
        for (size_t f = 0; f < frames; f++) {
            double mean = 0, variance = 0;

            for (size_t r = 0; r < n; r++)
                mean += w[r * frames + f] / (double)n;
            for (size_t r = 0; r < n; r++)
                variance += pow(w[r * frames + f] - mean, 2) / (double)n;
            for (size_t r = 0; r < n; r++) /* equal ones, but for the last places */
                w[r * frames + f] = variance < 1e-30 * mean * mean
                                        ? 0.0
                                        : (w[r * frames + f] - mean) / sqrt(variance);
        }
        return w;
    }
    std::vector<double> expected(void) const
    {
        std::vector<double> out(n * frames);

        for (size_t head = 0; head < heads; head++) {
            std::vector<double> w = weights(head);

            for (size_t i = 0; i < n * frames; i++) {
                const int64_t f = (int64_t)(i % frames), last = (int64_t)frames - 1;
                std::vector<double> seven;

                for (int64_t at = f - 3; at <= f + 3; at++)
                    seven.push_back(
                        w[i - (size_t)f +
                          (size_t)(frames <= 3 ? f : last - std::abs(last - std::abs(at)))]);
                std::sort(seven.begin(), seven.end());
                out[i] += seven[3] / (double)heads;
            }
        }
        return out;
    }
};

/* Frames about the edges of blocks and of the median; one head and several; one row of each. */
TEST(test_align)
{
    for (size_t frames : {2u, 3u, 4u, 5u, 7u, 33u, 128u, 131u, 300u})
        for (size_t n : {2u, 9u, 20u}) {
            problem p(frames % 3 + 1, n, frames, 2.0f);

            assert_near(p.run(frames % 5, frames % 2 ? 0 : 3), p.expected(), 1e-5, 4e-5, "align");
        }
    problem longest(1, 3, BACKEND_MAX_KEYS, 2.0f);
    assert_near(longest.run(0, 0), longest.expected(), 1e-5, 4e-5, "the longest");
}

/* Columns that are equal in all rows become 0, whatever their number, and so does all of one row;
 * others beside them do not. */
TEST(test_equal_columns)
{
    for (size_t n : {1u, 3u, 7u, 10u}) {
        problem p(2, n, 40, 1.0f);

        for (size_t r = 1; r < n; r++)
            std::copy_n(&p.scores[0], 40, &p.scores[r * 40]);
        for (size_t r = n; r < 2 * n; r++)
            std::copy_n(&p.scores[40 * n], 40, &p.scores[r * 40]);
        for (float v : p.run(2, 0))
            assert_true(v == 0.0f);
    }
}

/* The median itself, by the zero-one principle: all patterns of two values. */
TEST(test_median)
{
    problem p(1, 2, 16 * 8, 0.0f);

    /* Row 0 holds each pattern of seven with one more in a row, row 1 the opposite: standardised
     * columns are then exactly +1 and -1. */
    for (size_t pattern = 0; pattern < 128; pattern += 16) {
        for (size_t i = 0; i < 16 * 8; i++) {
            bool high = (pattern + i / 8) >> (i % 8) & 1;

            p.scores[i] = high ? 2.0f : -2.0f;
            p.scores[16 * 8 + i] = high ? -2.0f : 2.0f;
        }
        /* The softmax of opposite rows: sums differ, the sign of the difference does not. */
        assert_near(p.run(0, 0), p.expected(), 1e-5, 1e-5, "median");
    }
}

/* A score that is no number shows in all of its head, not as a plausible alignment. */
TEST(test_not_a_number)
{
    problem p(2, 4, 50, 1.0f);

    p.scores[60] = NAN;
    for (float v : p.run(0, 0))
        assert_true(std::isnan(v));
}

TEST(test_empty)
{
    struct tensor none = {DTYPE_F32, 0, 8, 8, nullptr, nullptr},
                  many = {DTYPE_F32, 65536, 64, 64, nullptr, nullptr};
    struct kv kv = {DTYPE_F32, 1, 4, 1, 2048, nullptr, nullptr, nullptr};

    const struct align_window window = {65536, 8, 0, 0};

    WELL(k_align(nullptr, none, 1, nullptr, 0, nullptr, none));
    assert_int_not_equal(k_align(nullptr, many, 1, &window, 1, nullptr, many), 0);
    WELL(k_attention_scores(nullptr, none, kv, nullptr, 0, 4, none));
    assert_int_not_equal(k_attention_scores(nullptr, many, kv, nullptr, 0, 4, many), 0);
}

TEST_MAIN(NULL, NULL)
