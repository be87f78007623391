/* The recurrent kernels against the same in double: one and several sequences of a block, weights
 * that fit registers and shared memory and that do not, lengths, one direction and both. */
#include "matrix.h"

struct problem {
    uint32_t hidden, sequences, steps, directions;
    std::vector<uint32_t> lengths; /* empty: all are steps */
    /* [directions][4 hidden][hidden], [sequences * steps][directions][4 hidden],
     * [directions * sequences][hidden] */
    std::vector<float> w, inputs, h, c;

    problem(uint32_t hidden_, uint32_t sequences_, uint32_t steps_, uint32_t directions_)
        : hidden(hidden_), sequences(sequences_), steps(steps_), directions(directions_),
          w(normals(directions_ * 4 * hidden_ * hidden_, 0.5f / sqrtf((float)hidden_))),
          inputs(normals(directions_ * 4 * hidden_ * sequences_ * steps_)),
          h(normals(directions_ * hidden_ * sequences_, 0.5f)),
          c(normals(directions_ * hidden_ * sequences_))
    {
    }
    uint32_t length(size_t s) const { return lengths.empty() ? steps : lengths[s]; }
};

struct answer {
    std::vector<float> y, h, c;
};

static answer run(const problem &p, uint32_t together, size_t shared)
{
    const int64_t hidden = p.hidden, all = (int64_t)p.sequences * p.steps, both = p.directions;
    std::vector<float> packed;

    for (size_t d = 0; d < p.directions; d++)
        for (size_t k = 0; k < p.hidden; k += 4)
            for (size_t r = 0; r < 4 * p.hidden; r++) {
                const float *from = &p.w[(d * 4 * p.hidden + r) * p.hidden + k];

                packed.insert(packed.end(), from, from + 4);
            }
    matrix y(DTYPE_F32, all, both * hidden, 5, 1); /* columns of a wider tensor */
    matrix h(DTYPE_F32, both * p.sequences, hidden, p.h, 3);
    matrix c(DTYPE_F32, both * p.sequences, hidden, p.c, 0, 1);
    array<float> w(packed), inputs(p.inputs);
    array<uint32_t> lengths(p.lengths);
    struct lstm_device l = {};

    l.hidden = p.hidden;
    l.directions = p.directions;
    l.w = w.p;
    l.inputs = inputs.p;
    l.sequences = p.sequences;
    l.steps = p.steps;
    l.lengths = p.lengths.empty() ? nullptr : lengths.p;
    l.h = h.tensor();
    l.c = c.tensor();
    l.y = y.tensor();
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
    expected e = {std::vector<double>(p.sequences * p.steps * p.directions * n),
                  {p.h.begin(), p.h.end()},
                  {p.c.begin(), p.c.end()}};

    for (size_t of = 0; of < p.directions * p.sequences; of++) {
        const size_t d = of / p.sequences, s = of % p.sequences;

        for (size_t step = 0; step < p.length(s); step++) {
            const size_t at = s * p.steps + (d ? p.length(s) - 1 - step : step);
            std::vector<double> gates(4 * n);

            for (size_t r = 0; r < 4 * n; r++) {
                gates[r] = (double)p.inputs[(at * p.directions + d) * 4 * n + r];
                for (size_t k = 0; k < n; k++)
                    gates[r] += (double)p.w[(d * 4 * n + r) * n + k] * e.h[of * n + k];
            }
            for (size_t i = 0; i < n; i++) {
                double &c = e.c[of * n + i];

                c = sigmoid(gates[n + i]) * c + sigmoid(gates[i]) * tanh(gates[2 * n + i]);
                e.h[of * n + i] = sigmoid(gates[3 * n + i]) * tanh(c);
                e.y[(at * p.directions + d) * n + i] = e.h[of * n + i];
            }
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
static const uint32_t TOGETHER[] = {1, 2, 4};

TEST(test_sizes)
{
    /* Of up to 512 threads and more rows than those, once not twice as many. */
    for (uint32_t hidden : {8u, 64u, 120u, 128u, 136u})
        for (uint32_t together : TOGETHER)
            for (uint32_t directions : {1u, 2u})
                check(problem(hidden, 2 * together - 1, hidden < 100 ? 9 : 3, directions), together,
                      directions == together ? LITTLE : MUCH);
    check(problem(256, 5, 3, 1), 2, MUCH);
    check(problem(256, 5, 3, 2), 4, LITTLE);
    check(problem(512, 5, 2, 1), 4, LITTLE);
    check(problem(512, 1, 2, 2), 1, MUCH);
}

/* Zero, one, all; what lies in the steps that a sequence does not have is not looked at. */
TEST(test_lengths)
{
    for (uint32_t hidden : {16u, 128u})
        for (uint32_t together : TOGETHER) {
            problem p(hidden, 7, 7, 2);

            p.lengths = {7, 0, 3, 1, 7, 5, 0};
            for (size_t s = 0; s < 7; s++)
                for (size_t t = p.lengths[s]; t < 7; t++)
                    for (size_t i = 0; i < 8 * hidden; i++)
                        p.inputs[(s * 7 + t) * 8 * hidden + i] = NAN;
            check(p, together, MUCH);
        }
}

static bool same(const std::vector<float> &a, const std::vector<float> &b)
{
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/* The same bits whatever the others are and however many a block takes, in both kernels, and
 * wherever the weights lie in one of them. */
static void alone(uint32_t hidden, size_t shared, size_t other)
{
    const size_t n = hidden, steps = 4, row = 8 * n; /* of inputs */
    problem p(hidden, 5, steps, 2), one(hidden, 1, steps, 2);
    const answer all = run(p, 4, shared);

    p.lengths = {4, 4, 4, 4, 4};
    for (uint32_t together : TOGETHER)
        assert_true(same(all.y, run(p, together, together == 1 ? other : shared).y));
    one.w = p.w;
    for (size_t s = 0; s < 5; s++) {
        one.inputs.assign(&p.inputs[s * steps * row], &p.inputs[s * steps * row] + steps * row);
        for (size_t d = 0; d < 2; d++) {
            memcpy(&one.h[d * n], &p.h[(d * 5 + s) * n], n * sizeof(float));
            memcpy(&one.c[d * n], &p.c[(d * 5 + s) * n], n * sizeof(float));
        }
        answer a = run(one, TOGETHER[s % 3], s < 2 ? other : shared);
        assert_memory_equal(a.y.data(), &all.y[s * steps * 2 * n], steps * 2 * n * sizeof(float));
        for (size_t d = 0; d < 2; d++)
            assert_memory_equal(&a.c[d * n], &all.c[(d * 5 + s) * n], n * sizeof(float));
    }
}

TEST(test_alone)
{
    alone(128, MUCH, MUCH); /* of which W_hh is in the block */
    alone(128, LITTLE, 99 << 10);
    alone(256, LITTLE, MUCH);
}

/* Gates that are full open or shut, and a sequence that is no number: it alone. */
TEST(test_extremes)
{
    for (uint32_t hidden : {8u, 128u})
        for (uint32_t together : TOGETHER) {
            problem p(hidden, 4, 3, 1);

            for (size_t i = 0; i < p.inputs.size(); i++)
                p.inputs[i] = i / (3 * 4 * hidden) == 1 ? NAN : i % 2 ? 1e4f : -1e4f;
            const answer got = run(p, together, MUCH);
            const expected want = compute(p);
            assert_near(got.y, want.y, 1e-6, 1e-6, "y");
            assert_near(got.c, want.c, 1e-6, 1e-6, "c");
        }
}

/* One wave of blocks, rather of few sequences each. */
TEST(test_together)
{
    static const struct {
        uint32_t hidden, directions, sequences, together;
    } asks[] = {{128, 2, 1, 2},   {128, 2, 66, 2},  {128, 2, 128, 2}, {128, 2, 132, 2},
                {128, 2, 133, 4}, {128, 1, 528, 4}, {128, 1, 264, 2}, {256, 1, 64, 1},
                {256, 1, 132, 1}, {256, 1, 133, 2}, {256, 1, 256, 2}, {256, 1, 384, 4}};

    for (const auto &ask : asks) {
        struct lstm_device l = {};

        l.hidden = ask.hidden;
        l.directions = ask.directions;
        l.sequences = ask.sequences;
        assert_int_equal(k_lstm_together(&l, 132, MUCH), ask.together);
    }
}

TEST(test_refused)
{
    struct lstm_device l = {};

    WELL(k_lstm(nullptr, &l, 1, MUCH)); /* no sequences */
    l.sequences = 1;
    l.directions = 1;
    for (uint32_t hidden : {0u, 4u, 12u, 520u}) {
        l.hidden = hidden;
        assert_int_not_equal(k_lstm(nullptr, &l, 1, MUCH), 0);
    }
    l.hidden = 8;
    for (uint32_t directions : {0u, 3u}) {
        l.directions = directions;
        assert_int_not_equal(k_lstm(nullptr, &l, 1, MUCH), 0);
    }
    l.directions = 1;
    assert_int_not_equal(k_lstm(nullptr, &l, 3, MUCH), 0);
    l.hidden = 512; /* no room for the state */
    assert_int_not_equal(k_lstm(nullptr, &l, 4, 48 << 10), 0);
}

TEST_MAIN(NULL, NULL)
