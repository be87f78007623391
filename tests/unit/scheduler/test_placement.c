/* Placement of models on devices that do not exist. */
#include "tests/common/test.h"

#include "scheduler/plan/placement.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define SIXTEEN \
    (1u << PRECISION_F32 | 1u << PRECISION_TF32 | 1u << PRECISION_F16 | 1u << PRECISION_BF16)
#define PROCESSOR \
    (1u << PRECISION_F32 | 1u << PRECISION_BF16 | 1u << PRECISION_INT16 | 1u << PRECISION_INT8_BF16)

/* Weights in 16 bits at arg bytes, 10 MiB a slot, 40 MiB a window; and more on a GPU. */
static uint64_t size(const void *arg, const struct device *d, enum precision p, uint32_t slots,
                     uint32_t windows)
{
    uint64_t weights = *(const uint64_t *)arg / 2 * precision_weight_bytes(p);

    return weights + slots * (10 * MIB) + windows * (40 * MIB) +
           (d->kind == DEVICE_CUDA ? 394 * MIB : 0);
}

static const uint64_t large = 3 * GIB, small = 200 * MIB;

static struct placement_model model(const uint64_t *weights)
{
    return (struct placement_model){.name = "m",
                                    .hash = "abc",
                                    .decoding = "",
                                    .bytes = size,
                                    .arg = weights,
                                    .encoder_flop = 2.27e12,
                                    .token_flop = 1e9,
                                    .decoder_weights = 1.6e8,
                                    .token_values = 15e6};
}

static struct device gpu(uint64_t free_bytes)
{
    struct device d = {.kind = DEVICE_CUDA,
                       .name = "cuda:GPU-1",
                       .label = "cuda:0",
                       .model = "NVIDIA H200",
                       .id = "GPU-1",
                       .driver = "580.95",
                       .major = 9,
                       .memory_total = 141 * GIB,
                       .memory_free = free_bytes,
                       .precisions = SIXTEEN | 1u << PRECISION_INT8 | 1u << PRECISION_FP8,
                       .speed = 1};

    return d;
}

static struct placement place(struct device d, const uint64_t *weights, enum precision p,
                              uint32_t slots)
{
    struct placement_model m = model(weights);
    struct placement_wish wish = {.precision = p, .slots = slots, .threads = 4};
    struct placement ret;

    placement_decide(&d, &m, &wish, NULL, 0, &ret);
    return ret;
}

TEST(a_large_card_takes_it_as_it_is)
{
    struct placement p = place(gpu(100 * GIB), &large, PRECISION_AUTO, 0);

    assert_true(p.fits);
    assert_int_equal(p.precision, PRECISION_F16);
    assert_int_equal(p.slots, 96);
    assert_int_equal(p.windows, 8);
    assert_int_equal(p.bytes, 3 * GIB + 96 * 10 * MIB + 8 * 40 * MIB + 394 * MIB);
    assert_int_equal(p.budget, 90 * GIB);
    assert_int_equal(p.source, PLACEMENT_ESTIMATED);
    assert_in_range(p.speed, 500, 8000); /* large-v3's part of an H200; the record is 2040 */
    assert_string_equal(p.why, "");
    assert_string_equal(p.note, "");
}

/* --device-memory: of what is free at most so much, and never more than nine tenths of it. */
TEST(a_cap_bounds_the_batch)
{
    struct device d = gpu(100 * GIB);
    struct placement p;

    d.memory_limit = 4 * GIB;
    p = place(d, &large, PRECISION_AUTO, 0);
    assert_true(p.fits && p.bytes <= 4 * GIB && p.slots < 96);
    assert_int_equal(p.budget, 4 * GIB);
    d.memory_limit = 2 * GIB;
    p = place(d, &large, PRECISION_AUTO, 0);
    assert_false(p.fits);
    assert_non_null(strstr(p.why, "and --device-memory allows 2.0 GiB"));
    d.memory_limit = 95 * GIB;
    assert_int_equal(place(d, &large, PRECISION_AUTO, 0).budget, 90 * GIB);
}

TEST(the_batch_shrinks_to_what_is_free)
{
    uint64_t free_mib;

    for (free_mib = 1; free_mib < 8000; free_mib += 13) {
        struct device d = gpu(free_mib * MIB);
        struct placement p = place(d, &large, PRECISION_AUTO, 0);

        assert_int_equal(p.fits, 3 * GIB + 444 * MIB <= free_mib * MIB * 9 / 10);
        if (p.fits) {
            assert_true(p.bytes <= p.budget);
            assert_true(p.slots >= 1 && p.windows >= 1);
            assert_int_equal(p.bytes, size(&large, &d, p.precision, p.slots, p.windows));
            assert_true(p.windows <= p.slots);
        } else {
            assert_non_null(strstr(p.why, "free"));
            assert_true(p.speed == 0 && p.source == PLACEMENT_UNKNOWN);
        }
    }
}

/* What other programs hold is not ours: the total does not matter. */
TEST(what_is_free_counts)
{
    struct placement p = place(gpu(2 * GIB + 300 * MIB), &large, PRECISION_AUTO, 0);

    assert_false(p.fits);
    assert_string_equal(p.why, "needs 3.4 GiB, 90 % of 2.3 GiB free are for use; it would fit with "
                               "--precision int8");
    p = place(gpu(2 * GIB + 300 * MIB), &large, PRECISION_INT8, 0);
    assert_true(p.fits);
    p = place(gpu(500 * MIB), &large, PRECISION_AUTO, 0);
    assert_string_equal(p.why, "needs 3.4 GiB, 90 % of 500 MiB free are for use");
    p = place(gpu(0), &small, PRECISION_AUTO, 0);
    assert_false(p.fits);
    assert_string_equal(p.why, "none of its memory is free");
}

TEST(the_precision_is_one_that_the_device_has)
{
    static const struct {
        precision_set have;
        enum precision wish, is;
        const char *why; /* NULL: it fits */
    } table[] = {
        {SIXTEEN, PRECISION_AUTO, PRECISION_F16, NULL},
        {1u << PRECISION_F32 | 1u << PRECISION_BF16, PRECISION_AUTO, PRECISION_BF16, NULL},
        {1u << PRECISION_F32 | 1u << PRECISION_F16, PRECISION_AUTO, PRECISION_F16, NULL},
        {1u << PRECISION_F32, PRECISION_AUTO, PRECISION_F32, NULL},
        {SIXTEEN, PRECISION_F32, PRECISION_F32, NULL},
        {1u << PRECISION_F32, PRECISION_F16, PRECISION_F16, "it has no fp16; it has fp32"},
        {SIXTEEN, PRECISION_FP8, PRECISION_FP8, "it has no fp8; it has fp32, tf32, fp16, bf16"},
        {SIXTEEN | 1u << PRECISION_INT8, PRECISION_INT8, PRECISION_INT8, NULL},
        {1u << PRECISION_F32 | 1u << PRECISION_INT8_F32, PRECISION_INT8, PRECISION_INT8_F32, NULL},
        {SIXTEEN | 1u << PRECISION_INT8_BF16, PRECISION_INT8, PRECISION_INT8_BF16, NULL},
        {PROCESSOR, PRECISION_AUTO, PRECISION_BF16, NULL},
        {SIXTEEN, PRECISION_INT8, PRECISION_INT8, "it has no int8; it has fp32, tf32, fp16, bf16"},
        {0, PRECISION_AUTO, PRECISION_F32, "it has no precision that this program knows"},
    };
    size_t i;

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct device d = gpu(50 * GIB);
        struct placement p;

        d.precisions = table[i].have;
        p = place(d, &small, table[i].wish, 0);
        assert_int_equal(p.fits, table[i].why == NULL);
        assert_string_equal(p.why, table[i].why ? table[i].why : "");
        if (p.fits)
            assert_int_equal(p.precision, table[i].is);
    }
}

TEST(wished_slots_are_kept_where_they_fit)
{
    struct placement p = place(gpu(100 * GIB), &large, PRECISION_AUTO, 7);

    assert_int_equal(p.slots, 7);
    assert_int_equal(p.windows, 7); /* not more than there is to encode */
    p = place(gpu(4 * GIB), &large, PRECISION_AUTO, 400);
    assert_true(p.fits && p.slots < 400 && p.bytes <= p.budget);
    assert_non_null(strstr(p.note, "slots instead of 400, for want of memory"));
    p = place(gpu(722 * MIB), &small, PRECISION_AUTO, 400);
    assert_string_equal(p.note, "1 slot instead of 400, for want of memory");
    p = place(gpu(100 * GIB), &small, PRECISION_AUTO, UINT32_MAX);
    assert_true(p.fits);
    assert_in_range(p.slots, 1, 4096);
}

TEST(what_was_measured_is_remembered)
{
    struct placement_tuning t[] = {
        {"GPU-1", "580.95", "abc", "", PRECISION_F16, 64, 4, 2000},
        {"GPU-2", "580.95", "abc", "", PRECISION_F16, 11, 2, 100},
        {"GPU-1", "575.00", "abc", "", PRECISION_F16, 12, 2, 200},
        {"GPU-1", "580.95", "other", "", PRECISION_F16, 13, 2, 300},
        {"GPU-1", "580.95", "abc", "beam_size=5", PRECISION_F16, 14, 2, 350},
        {"GPU-1", "580.95", "abc", "", PRECISION_BF16, 15, 2, 400},
    };
    const size_t n = sizeof(t) / sizeof(t[0]);
    struct device d = gpu(100 * GIB);
    struct placement_model m = model(&large);
    struct placement_wish wish = {0};
    struct placement p;

    placement_decide(&d, &m, &wish, t, n, &p);
    assert_true(p.remembered);
    assert_int_equal(p.slots, 64);
    assert_int_equal(p.windows, 4);
    assert_int_equal(p.source, PLACEMENT_MEASURED);
    assert_true(p.speed == 2000);
    /* Another card, driver, model, way of decoding, precision. */
    placement_decide(&d, &m, &wish, t + 1, n - 1, &p);
    assert_false(p.remembered);
    assert_int_equal(p.source, PLACEMENT_ESTIMATED);
    /* More is remembered than fits today. */
    d.memory_free = 4 * GIB;
    placement_decide(&d, &m, &wish, t, n, &p);
    assert_true(p.fits && p.bytes <= p.budget && p.slots < 64);
    assert_int_equal(p.source, PLACEMENT_ESTIMATED);
    assert_true(p.speed > 0 && p.speed < 2000);
    assert_non_null(strstr(p.note, "instead of 64 as remembered"));
    /* A measurement without a speed, and one without windows. */
    t[0].rate = 0;
    t[0].windows = 0;
    d.memory_free = 100 * GIB;
    placement_decide(&d, &m, &wish, t, n, &p);
    assert_true(p.remembered && p.windows == 1 && p.source == PLACEMENT_ESTIMATED);
    t[0].slots = 0; /* makes no sense, so it is nothing */
    placement_decide(&d, &m, &wish, t, n, &p);
    assert_false(p.remembered);
}

/* Beams: other measurements, and fewer slots where there are none. */
TEST(branches_take_the_place_of_slots)
{
    static const struct {
        uint32_t branches, gpu, host;
    } table[] = {{0, 96, 16}, {1, 96, 16}, {2, 48, 8}, {5, 32, 4}, {16, 32, 4}};
    const struct placement_tuning t = {"GPU-1",       "580.95", "abc", "beam_size=5",
                                       PRECISION_F16, 14,       2,     350};
    struct placement_model m = model(&large);
    struct device on[2] = {gpu(100 * GIB), gpu(100 * GIB)};
    struct placement_wish wish = {0};
    struct placement p;

    on[1].kind = DEVICE_CPU;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        m.branches = table[i].branches;
        placement_decide(&on[0], &m, &wish, &t, 1, &p);
        assert_false(p.remembered);
        assert_int_equal(p.slots, table[i].gpu);
        placement_decide(&on[1], &m, &wish, &t, 1, &p);
        assert_int_equal(p.slots, table[i].host);
    }
    wish.slots = 4096; /* of 16 branches: as many as a session can number */
    placement_decide(&on[0], &m, &wish, &t, 1, &p);
    assert_int_equal(p.slots, 4096);
    m.branches = 32;
    placement_decide(&on[0], &m, &wish, &t, 1, &p);
    assert_int_equal(p.slots, 2048);
    wish.slots = 0;
    m.decoding = "beam_size=5";
    placement_decide(&on[0], &m, &wish, &t, 1, &p);
    assert_true(p.remembered && p.slots == 14);
}

TEST(workers_on_one_memory_share_it)
{
    struct device d = {.kind = DEVICE_CPU,
                       .id = "cpu",
                       .memory_free = 6 * GIB,
                       .precisions = 1u << PRECISION_F32 | 1u << PRECISION_BF16,
                       .speed = 1};
    struct placement_model m = model(&large);
    struct placement_wish wish = {.threads = 2};
    struct placement one, two;

    placement_decide(&d, &m, &wish, NULL, 0, &one);
    wish.sharers = 2;
    placement_decide(&d, &m, &wish, NULL, 0, &two);
    assert_true(one.fits);
    assert_false(two.fits);
    assert_int_equal(two.free, 3 * GIB);
    assert_int_equal(one.windows, 1);
    assert_int_equal(one.bytes, size(&large, &d, one.precision, one.slots, 1));
    wish.threads = 0; /* nobody says how many it has */
    placement_decide(&d, &m, &(struct placement_wish){0}, NULL, 0, &one);
    assert_true(one.fits && one.speed == 0);
    assert_int_equal(one.source, PLACEMENT_UNKNOWN);
}

TEST(the_largest_that_fits_is_named)
{
    static const uint64_t sizes[] = {100 * MIB, 3 * GIB, 1 * GIB, 10 * GIB};
    struct placement_model models[4];
    struct placement_wish wish = {0};
    struct device d = gpu(4 * GIB);
    int i;

    for (i = 0; i < 4; i++)
        models[i] = model(&sizes[i]);
    assert_int_equal(placement_largest(&d, models, 4, &wish), 1);
    d.memory_free = 2 * GIB;
    assert_int_equal(placement_largest(&d, models, 4, &wish), 2);
    d.memory_free = 10 * MIB;
    assert_int_equal(placement_largest(&d, models, 4, &wish), -1);
    assert_int_equal(placement_largest(&d, models, 0, &wish), -1);
    d.memory_free = 90 * GIB;
    d.unusable = true;
    assert_int_equal(placement_largest(&d, models, 4, &wish), -1);
}

/* Placing words costs a window more, and the more the slower the device is. */
TEST(words_slow_a_window)
{
    static const struct placement_wish wish = {.threads = 4};
    struct placement_model m = model(&small);
    struct device d = gpu(100 * GIB);
    struct placement plain, words;

    placement_decide(&d, &m, &wish, NULL, 0, &plain);
    m.align_flop = 100 * 2 * m.decoder_weights;
    placement_decide(&d, &m, &wish, NULL, 0, &words);
    assert_true(words.speed < plain.speed && words.speed > 0.8 * plain.speed);
    assert_int_equal(words.slots, plain.slots);
}

/* Other stages by what they take of a known card, or of a core. */
TEST(other_stages_by_their_costs)
{
    struct device d = gpu(100 * GIB);

    assert_true(placement_other_speed(&d, 0.5, 300, 4) == 7200);
    snprintf(d.model, sizeof(d.model), "NVIDIA L4");
    assert_true(placement_other_speed(&d, 0.5, 300, 4) < 1000);
    assert_true(placement_other_speed(&d, 0, 300, 4) == 0);
    d = (struct device){.kind = DEVICE_CPU, .speed = 1};
    assert_true(placement_other_speed(&d, 0.5, 300, 4) == 48);
    assert_true(placement_other_speed(&d, 0.5, 0, 4) == 0);
    d = (struct device){.kind = DEVICE_CUDA, .model = "of another make"};
    assert_true(placement_other_speed(&d, 0.5, 300, 4) == 0);
}

TEST(peaks_are_of_the_right_card)
{
    static const struct {
        const char *name;
        int major, minor;
        double tflops; /* 0: nothing is known */
    } table[] = {
        {"NVIDIA H200", 9, 0, 989},
        {"NVIDIA H100 PCIe", 9, 0, 756},
        {"NVIDIA H100 80GB HBM3", 9, 0, 989},
        {"NVIDIA L4", 8, 9, 121},
        {"NVIDIA L40S", 8, 9, 362},
        {"NVIDIA A100-SXM4-80GB", 8, 0, 312},
        {"NVIDIA GeForce RTX 4090", 8, 9, 165},
        {"NVIDIA RTX 6000 Ada Generation", 8, 9, 364},
        {"Tesla T4", 7, 5, 65},
        {"NVIDIA of tomorrow", 13, 0, 100},
        {"GeForce GTX 1080", 6, 1, 0},
    };
    size_t i;

    for (i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct device d = gpu(GIB);
        double flop = 0, bytes = 0;

        snprintf(d.model, sizeof(d.model), "%s", table[i].name);
        d.major = table[i].major;
        d.minor = table[i].minor;
        assert_int_equal(placement_peaks(&d, PRECISION_BF16, 0, &flop, &bytes),
                         table[i].tflops > 0);
        if (flop != table[i].tflops * 1e12)
            fail_msg("%s: %.0f TFLOP/s", table[i].name, flop / 1e12);
    }
}

TEST_MAIN(NULL, NULL)
