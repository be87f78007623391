/* The rule that chooses a batch, on made-up devices: plateaus, cliffs, noise, too little memory. */
#include <math.h>

#include "tests/common/test.h"
#include "workers/process/worker_tune.h"

/* A device: throughput by batch, and the largest that fits. */
struct device {
    double (*rate)(double size);
    uint32_t fits;
    double noise; /* +- this share, from `seed` on */
    uint64_t seed;
    uint32_t tried, largest;
};

/* Rises as 1 / (fixed + size * each) does: half of the peak at `half`. */
static double saturating(double size) { return 100 * size / (size + 6); }
static double flat(double size) { return 50 + 0 * size; }
static double linear(double size) { return 3 * size; }
/* Full at 32; beyond that caches overflow. */
static double cliff(double size) { return size <= 32 ? 10 * size : 200; }
/* A stair: nothing gained from 8 to 16, all of it at 24 (tiles of a kernel). */
static double stair(double size) { return size < 8 ? 10 * size : size < 24 ? 80 : 160; }

static double uniform(uint64_t *x)
{
    *x ^= *x >> 12;
    *x ^= *x << 25;
    *x ^= *x >> 27;
    return (double)(*x * UINT64_C(2685821657736338717) >> 11) / (double)(UINT64_C(1) << 53);
}

static uint32_t choose(struct device *d, uint32_t most, double *rate)
{
    struct tune t = {0};
    uint32_t size;

    while ((size = tune_next(&t, most)) != 0) {
        double noise = 1 + d->noise * (2 * uniform(&d->seed) - 1);

        assert_true(size <= most && size > d->largest);
        d->largest = size;
        d->tried++;
        assert_true(d->tried <= TUNE_STEPS_MAX);
        tune_add(&t, size, size <= d->fits ? d->rate(size) * noise : 0);
    }
    *rate = -1;
    return tune_pick(&t, rate);
}

TEST(the_ladder_is_as_written)
{
    static const uint32_t steps[] = {1,   2,   4,   8,   16,  24,   32,   48,   64,   96,  128,
                                     192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096};
    struct tune t = {0};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(tune_next(&t, 4096), steps[i]);
        tune_add(&t, steps[i], steps[i]);
    }
    assert_int_equal(tune_next(&t, 4096), 0);
}

TEST(it_begins_where_it_is_told)
{
    static const uint32_t steps[] = {24, 32, 48, 64};
    struct tune t = {.first = 24};

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(tune_next(&t, 64), steps[i]);
        tune_add(&t, steps[i], steps[i]);
    }
    assert_int_equal(tune_next(&t, 64), 0);
    t = (struct tune){.first = 64};
    assert_int_equal(tune_next(&t, 48), 48);
    assert_int_equal(tune_next(&t, 0), 0);
}

TEST(the_smallest_on_the_plateau_is_taken)
{
    struct device flat_one = {flat, 4096, 0, 1, 0, 0};
    struct device linear_one = {linear, 4096, 0, 1, 0, 0};
    struct device curve = {saturating, 4096, 0, 1, 0, 0};
    uint32_t size;
    double rate;

    assert_int_equal(choose(&flat_one, 64, &rate), 1);
    assert_int_equal(flat_one.tried, 3); /* 2 and 4 gave nothing */
    assert_true(rate == 50);
    assert_int_equal(choose(&linear_one, 4096, &rate), 4096);
    assert_int_equal(linear_one.tried, 21);
    /* The plateau is that of what was seen: it went on for as long as two steps gave 3 %. */
    size = choose(&curve, 4096, &rate);
    assert_true(rate >= 0.97 * saturating(curve.largest));
    assert_true(saturating(size / 2) < 0.97 * saturating(curve.largest));
    assert_true(curve.largest < 1024);
}

TEST(beyond_a_cliff_nothing_is_taken)
{
    struct device d = {cliff, 4096, 0, 1, 0, 0};
    double rate;

    assert_int_equal(choose(&d, 4096, &rate), 32);
    assert_int_equal(d.largest, 64); /* 48 and 64 are worse: enough is known */
    assert_true(rate == 320);
}

TEST(one_flat_step_is_not_the_end)
{
    struct device d = {stair, 4096, 0, 1, 0, 0};
    double rate;

    assert_int_equal(choose(&d, 4096, &rate), 24);
    assert_true(rate == 160);
}

TEST(what_does_not_fit_ends_the_search)
{
    struct device small = {linear, 40, 0, 1, 0, 0}, none = {linear, 0, 0, 1, 0, 0};
    double rate;

    assert_int_equal(choose(&small, 4096, &rate), 32);
    assert_int_equal(small.largest, 48); /* tried, and nothing above it */
    assert_int_equal(choose(&none, 4096, &rate), 0);
    assert_int_equal(none.tried, 1);
    assert_true(rate == -1);
}

TEST(the_bound_is_kept_and_tried)
{
    struct device a = {linear, 4096, 0, 1, 0, 0}, b = a, c = a;
    double rate;

    assert_int_equal(choose(&a, 20, &rate), 20);
    assert_int_equal(choose(&b, 1, &rate), 1);
    assert_int_equal(choose(&c, 0, &rate), 0);
    assert_int_equal(c.tried, 0);
}

/* Measurements that lie by 1 % each way choose at most a step beside the true one, and never lose
 * more than 3 % and twice the noise. */
TEST(noise_costs_little)
{
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct device d = {saturating, 4096, 0.01, seed * 7919, 0, 0};
        double rate;
        uint32_t size = choose(&d, 4096, &rate);

        if (saturating(size) < (0.97 - 0.02) * saturating(d.largest) || d.largest > 1024 ||
            d.largest < 48)
            fail_msg("seed %llu: %u of %u", (unsigned long long)seed, size, d.largest);
    }
}

TEST(nonsense_counts_as_not_fitting)
{
    const double bad[] = {NAN, INFINITY, -1, 0};
    double rate;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tune t = {0};

        tune_add(&t, 1, 10);
        tune_add(&t, 2, bad[i]);
        assert_int_equal(tune_next(&t, 4096), 0);
        assert_int_equal(tune_pick(&t, &rate), 1);
        assert_true(rate == 10);
    }
}

TEST_MAIN(NULL, NULL)
