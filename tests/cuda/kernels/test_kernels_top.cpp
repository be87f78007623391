/* The likeliest tokens of rows, against sorting all of them in double: sizes about those at which
 * the work is divided, all numbers of candidates, and rows that are hard for a list that is kept in
 * order: rising, falling, equal, with next to nothing in them. */
#include <algorithm>
#include <numeric>

#include "matrix.h"

typedef std::vector<struct candidate> candidates;

static candidates top(const std::vector<float> &logits, int64_t vocab, uint32_t k, int64_t gap = 0)
{
    const int64_t rows = (int64_t)logits.size() / vocab;
    struct candidate nothing;

    memset(&nothing, 0xee, sizeof(nothing));
    matrix m(DTYPE_F32, rows, vocab, logits, gap, gap % 2);
    array<struct candidate> ret((size_t)rows * k + 1, nothing);

    WELL(k_top(nullptr, m.tensor(), k, ret.p));
    m.get(); /* nothing written around the logits */
    candidates got = ret.get();
    assert_memory_equal(&got.back(), &nothing, sizeof(nothing));
    got.pop_back();
    return got;
}

static void check_row(const float *row, int64_t vocab, uint32_t k, const struct candidate *got)
{
    std::vector<int32_t> ids;
    double sum = 0;

    for (int32_t i = 0; i < vocab; i++)
        if (row[i] > -INFINITY) /* a NaN is not */
            ids.push_back(i);
    std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    for (int32_t i : ids)
        sum += exp((double)row[i] - (double)row[ids[0]]);
    for (size_t i = 0; i < k; i++) {
        if (i >= ids.size()) {
            assert_true(got[i].token == -1 && got[i].logprob == -INFINITY);
            continue;
        }
        assert_int_equal(got[i].token, ids[i]);
        assert_true(fabs(got[i].logprob - ((double)row[ids[i]] - (double)row[ids[0]] - log(sum))) <
                    2e-6);
    }
}

static void check(const std::vector<float> &logits, int64_t vocab, uint32_t k, int64_t gap = 0)
{
    candidates got = top(logits, vocab, k, gap);

    for (size_t r = 0; r < logits.size() / (size_t)vocab; r++)
        check_row(&logits[r * (size_t)vocab], vocab, k, &got[r * k]);
}

TEST(test_random)
{
    for (int64_t vocab : {1, 31, 33, 1024, 1025, 2151, 4097})
        for (uint32_t k : {1u, 2u, 6u, 31u, 32u, 33u}) {
            std::vector<float> l = normals((size_t)(3 * vocab), 4.0f);

            for (int i = 0; i < 40; i++)
                l[(size_t)below(3 * vocab)] = i % 2 ? NAN : -INFINITY;
            check(l, vocab, k, k % 3);
        }
    check(normals(51866, 6.0f), 51866, 33);
}

/* Few values, so that most are equal to others: the lowest ids, in order. */
TEST(test_equals)
{
    for (int64_t vocab : {100, 3000}) {
        std::vector<float> l((size_t)(4 * vocab));

        for (size_t i = 0; i < l.size(); i++)
            l[i] = i < (size_t)vocab ? -3.0f : (float)below(i < 2 * (size_t)vocab ? 40 : 3);
        for (uint32_t k : {1u, 5u, 33u})
            check(l, vocab, k);
    }
}

TEST(test_orders)
{
    const int64_t vocab = 3300;
    std::vector<float> l;

    for (int64_t i = 0; i < vocab; i++)
        l.push_back((float)i * 0.01f);
    for (int64_t i = 0; i < vocab; i++)
        l.push_back((float)-i * 0.01f);
    for (int64_t i = 0; i < vocab; i++) /* all of the best in one warp's part */
        l.push_back(i >= 200 && i < 240 ? 5.0f + (float)(i % 7) : -(float)(i % 11));
    for (uint32_t k : {1u, 32u, 33u})
        check(l, vocab, k);
}

/* Fewer than k, none at all, and rows that are not usable. */
TEST(test_few)
{
    const int64_t vocab = 2100;
    std::vector<float> l((size_t)vocab, -INFINITY);

    l[3] = -7.0f;
    l[2099] = -6.5f;
    l[70] = NAN;
    check(l, vocab, 6);
    l[3] = l[2099] = -INFINITY;
    check(l, vocab, 6);
    l.assign(l.size(), NAN);
    check(l, vocab, 33);
    l[5] = 1.0f;
    l[9] = INFINITY;
    for (const struct candidate &c : top(l, vocab, 3))
        assert_true(c.token == -1 && c.logprob == -INFINITY);
    l.assign(l.size(), -3.4e38f); /* finite, and their differences are not */
    l[8] = 3.4e38f;
    candidates got = top(l, vocab, 2);
    assert_true(got[0].token == 8 && got[0].logprob == 0.0 && got[1].token == 0);
}

TEST(test_refused)
{
    struct tensor t = {DTYPE_F32, 1, 8, 8, nullptr, nullptr};

    assert_int_not_equal(k_top(nullptr, t, 0, nullptr), 0);
    assert_int_not_equal(k_top(nullptr, t, BACKEND_MAX_TOP + 1, nullptr), 0);
    t.rows = 0;
    WELL(k_top(nullptr, t, 1, nullptr));
}

TEST_MAIN(NULL, NULL)
