/* The recurrent kernel against the same in double: one and several sequences of a block, weights
 * that fit shared memory and that do not, lengths, both directions. */
#include "matrix.h"

struct problem {
    uint32_t hidden, sequences, steps;
    std::vector<uint32_t> lengths; /* empty: all are steps */
    bool reverse;
    std::vector<float> w, inputs, h, c; /* [4 hidden][hidden], [sequences * steps][4 hidden] ... */

    problem(uint32_t hidden_, uint32_t sequences_, uint32_t steps_, bool reverse_)
        : hidden(hidden_), sequences(sequences_), steps(steps_), reverse(reverse_),
          w(normals(4 * hidden_ * hidden_, 0.5f / sqrtf((float)hidden_))),
          inputs(normals(4 * hidden_ * sequences_ * steps_)),
          h(normals(hidden_ * sequences_, 0.5f)), c(normals(hidden_ * sequences_))
    {
    }
    uint32_t length(size_t s) const { return lengths.empty() ? steps : lengths[s]; }
};

struct answer {
    std::vector<float> y, h, c;
};

static answer run(const problem &p, uint32_t together, size_t shared)
{
    const int64_t hidden = p.hidden, all = (int64_t)p.sequences * p.steps;
    std::vector<float> packed;

    for (size_t k = 0; k < p.hidden; k += 4)
        for (size_t r = 0; r < 4 * p.hidden; r++)
            packed.insert(packed.end(), &p.w[r * p.hidden + k], &p.w[r * p.hidden + k] + 4);
    matrix y(DTYPE_F32, all, hidden, 5, 1); /* columns of a wider tensor */
    matrix h(DTYPE_F32, p.sequences, hidden, p.h, 3), c(DTYPE_F32, p.sequences, hidden, p.c, 0, 1);
    array<float> w(packed), inputs(p.inputs);
    array<uint32_t> lengths(p.lengths);
    struct lstm_device l = {p.hidden,    w.p,        inputs.p,
                            p.sequences, p.steps,    p.lengths.empty() ? nullptr : lengths.p,
                            p.reverse,   h.tensor(), c.tensor(),
                            y.tensor()};

    WELL(k_lstm(nullptr, &l, together, shared));
    return {y.get(), h.get(), c.get()};
}

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

struct expected {
    std::vector<double> y, h, c;
};

static expected compute(const problem &p)
{
    const size_t n = p.hidden;
    expected e = {std::vector<double>(p.sequences * p.steps * n),
                  {p.h.begin(), p.h.end()},
                  {p.c.begin(), p.c.end()}};

    for (size_t s = 0; s < p.sequences; s++)
        for (size_t step = 0; step < p.length(s); step++) {
            const size_t at = s * p.steps + (p.reverse ? p.length(s) - 1 - step : step);
            std::vector<double> gates(4 * n);

            for (size_t r = 0; r < 4 * n; r++) {
                gates[r] = (double)p.inputs[at * 4 * n + r];
                for (size_t k = 0; k < n; k++)
                    gates[r] += (double)p.w[r * n + k] * e.h[s * n + k];
            }
            for (size_t i = 0; i < n; i++) {
                double &c = e.c[s * n + i];

                c = sigmoid(gates[n + i]) * c + sigmoid(gates[i]) * tanh(gates[2 * n + i]);
                e.y[at * n + i] = e.h[s * n + i] = sigmoid(gates[3 * n + i]) * tanh(c);
            }
        }
    return e;
}

static void check(const problem &p, uint32_t together, size_t shared)
{
    const answer got = run(p, together, shared);
    const expected want = compute(p);

    assert_near(got.y, want.y, 1e-6, 2e-6, "y");
    assert_near(got.h, want.h, 1e-6, 2e-6, "h");
    assert_near(got.c, want.c, 1e-6, 4e-6, "c");
}

static const size_t MUCH = 227 << 10, LITTLE = 64 << 10;

TEST(test_sizes)
{
    for (uint32_t hidden : {8u, 24u, 128u, 136u}) /* of 512 threads and more rows than those */
        for (uint32_t sequences : {1u, 5u})
            for (bool reverse : {false, true})
                check(problem(hidden, sequences, hidden < 100 ? 9 : 3, reverse),
                      sequences == 1 ? 1 : K_LSTM_SEQUENCES, reverse ? LITTLE : MUCH);
    check(problem(512, 5, 2, false), K_LSTM_SEQUENCES, LITTLE);
    check(problem(512, 1, 2, true), 1, MUCH);
}

/* Zero, one, all; what lies in the steps that a sequence does not have is not looked at. */
TEST(test_lengths)
{
    for (bool reverse : {false, true})
        for (uint32_t together : {1u, (uint32_t)K_LSTM_SEQUENCES}) {
            problem p(16, 6, 7, reverse);

            p.lengths = {7, 0, 3, 1, 7, 5};
            for (size_t s = 0; s < 6; s++)
                for (size_t t = p.lengths[s]; t < 7; t++)
                    for (size_t i = 0; i < 64; i++)
                        p.inputs[(s * 7 + t) * 64 + i] = NAN;
            check(p, together, MUCH);
        }
}

static bool same(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/* The same bits whatever the others are, however many a block takes, and wherever the weights lie.
 */
TEST(test_alone)
{
    problem p(128, 5, 4, false), one(128, 1, 4, false);
    const answer all = run(p, K_LSTM_SEQUENCES, MUCH);

    p.lengths = {4, 4, 4, 4, 4};
    assert_true(same(all.y, run(p, 1, LITTLE).y));
    for (size_t s = 0; s < 5; s++) {
        one.w = p.w;
        one.inputs.assign(&p.inputs[s * 4 * 512], &p.inputs[s * 4 * 512] + 4 * 512);
        one.h.assign(&p.h[s * 128], &p.h[s * 128] + 128);
        one.c.assign(&p.c[s * 128], &p.c[s * 128] + 128);
        answer a = run(one, s % 2 ? 1 : K_LSTM_SEQUENCES, s < 2 ? LITTLE : MUCH);
        assert_memory_equal(a.y.data(), &all.y[s * 4 * 128], 4 * 128 * sizeof(float));
        assert_memory_equal(a.c.data(), &all.c[s * 128], 128 * sizeof(float));
    }
}

/* Gates that are full open or shut, and a sequence that is no number: it alone. */
TEST(test_extremes)
{
    problem p(8, 4, 3, false);

    for (size_t i = 0; i < p.inputs.size(); i++)
        p.inputs[i] = i / (3 * 32) == 1 ? NAN : i % 2 ? 1e4f : -1e4f;
    const answer got = run(p, K_LSTM_SEQUENCES, MUCH);
    const expected want = compute(p);
    assert_near(got.y, want.y, 1e-6, 1e-6, "y");
    assert_near(got.c, want.c, 1e-6, 1e-6, "c");
}

TEST(test_refused)
{
    struct lstm_device l = {};

    WELL(k_lstm(nullptr, &l, 1, MUCH)); /* no sequences */
    l.sequences = 1;
    for (uint32_t hidden : {0u, 4u, 12u, 520u}) {
        l.hidden = hidden;
        assert_int_not_equal(k_lstm(nullptr, &l, 1, MUCH), 0);
    }
    l.hidden = 512; /* no room for the state */
    assert_int_not_equal(k_lstm(nullptr, &l, K_LSTM_SEQUENCES, 48 << 10), 0);
}

TEST_MAIN(NULL, NULL)
