/* What people learn of a GPU's health: once, in words, and not of what is usual. */
#include <string.h>

#include "scheduler/plan/gpu_health.h"
#include "tests/common/test.h"

static struct gpu_health_told told;
static struct gpu_sample sample;
static struct gpu_health_news news[GPU_HEALTH_NEWS];

static void begin(void)
{
    memset(&told, 0, sizeof(told));
    memset(&sample, 0, sizeof(sample));
    sample.percent = 90;
    sample.celsius = 91;
    sample.health = (struct gpu_health){.ecc_uncorrected = -1, .rows_remapped = -1};
}

static size_t look(int64_t now_ms)
{
    return gpu_health_look(&told, "cuda:3", &sample, now_ms, news);
}

static void assert_one(size_t n, const char *kind, const char *part)
{
    assert_int_equal(n, 1);
    assert_string_equal(news[0].kind, kind);
    if (!strstr(news[0].text, part))
        fail_msg("'%s' lacks '%s'", news[0].text, part);
    assert_int_equal(strncmp(news[0].text, "cuda:3", 6), 0);
}

TEST(slowed_down_and_fast_again)
{
    begin();
    assert_int_equal(look(1000), 0);
    sample.health.slowed = GPU_SLOWED_HEAT;
    assert_int_equal(look(2000), 0); /* a moment of it is nothing */
    sample.health.slowed = 0;
    assert_int_equal(look(4000), 0);
    sample.health.slowed = GPU_SLOWED_HEAT | GPU_SLOWED_POWER_LIMIT;
    assert_one(look(12000), "device-slow",
               "is slowed down: it is too hot (91 \xC2\xB0"
               "C)");
    assert_false(news[0].good);
    assert_int_equal(look(14000), 0); /* told once */
    sample.health.slowed = GPU_SLOWED_POWER_LIMIT;
    assert_int_equal(look(60000), 0);
    assert_one(look(74000), "device-slow", "at full speed again: it was slowed down for 12 s");
    assert_true(news[0].good);
    assert_int_equal(look(200000), 0);
}

TEST(what_is_usual_is_not_told)
{
    begin();
    sample.health.slowed = GPU_SLOWED_POWER_LIMIT;
    sample.health.ecc_corrected = 5000;
    sample.health.ecc_uncorrected = 0;
    sample.health.rows_remapped = 2;
    sample.health.lanes = sample.health.lanes_most = 16;
    for (int64_t now = 1000; now < 100000; now += 1000)
        assert_int_equal(look(now), 0);
    /* Nothing is known of it. */
    sample.health.slowed = sample.health.ecc_uncorrected = -1;
    sample.health.lanes = sample.health.lanes_most = 0;
    assert_int_equal(look(200000), 0);
}

TEST(it_is_not_told_without_end)
{
    size_t n = 0;

    begin();
    for (int64_t now = 1000; now < 100000000; now += 5000) {
        sample.health.slowed = now / 100000 % 2 ? GPU_SLOWED_BRAKE : 0;
        n += look(now);
    }
    assert_int_equal(n, 2 * GPU_HEALTH_SLOW_MOST);
}

TEST(errors_of_memory)
{
    begin();
    sample.health.ecc_uncorrected = 2; /* of before the run */
    assert_int_equal(look(1), 0);
    assert_int_equal(look(2), 0);
    sample.health.ecc_uncorrected = -1;
    assert_int_equal(look(3), 0);
    sample.health.ecc_uncorrected = 3;
    assert_one(look(4), "device-memory",
               "1 error of its memory that ECC could not correct (3 since");
    sample.health.rows_pending = true;
    assert_one(look(5), "device-memory", "restart the machine");
    sample.health.rows_failed = true;
    assert_one(look(6), "device-memory", "no spare memory is left");
    assert_int_equal(look(7), 0);
}

TEST(lanes_count_at_work)
{
    begin();
    sample.health.lanes = 8;
    sample.health.lanes_most = 16;
    sample.percent = 0; /* an idle one saves power */
    for (int64_t now = 1; now < 20; now++)
        assert_int_equal(look(now), 0);
    sample.percent = 5;
    assert_int_equal(look(20), 0);
    assert_int_equal(look(21), 0);
    assert_one(look(22), "device-link", "uses 8 of 16 PCIe lanes");
    assert_int_equal(look(23), 0);
}

TEST(errors_that_the_driver_reports)
{
    begin();
    sample.health.xid_count = 3;
    sample.health.xid[0] = sample.health.xid[1] = 79;
    sample.health.xid[2] = 4711;
    assert_int_equal(look(1), 2);
    assert_string_equal(news[0].kind, "device-xid");
    assert_string_equal(
        news[0].text, "cuda:3: the driver reported error Xid 79: it fell off the bus; restart the "
                      "machine");
    assert_non_null(strstr(news[1].text, "Xid 4711: see NVIDIA's list"));
    assert_int_equal(look(2), 0);
    for (uint32_t xid = 1; xid < 100; xid++) { /* no more than there is room for */
        sample.health.xid[0] = sample.health.xid[1] = sample.health.xid[2] = xid;
        look(xid);
    }
    assert_int_equal(told.xid_count, GPU_HEALTH_XIDS);
}

TEST(all_at_once_fits)
{
    begin();
    sample.health.ecc_uncorrected = 0;
    assert_int_equal(look(1), 0);
    sample.health = (struct gpu_health){.slowed = GPU_SLOWED_ANY,
                                        .ecc_uncorrected = 1000000000,
                                        .rows_pending = true,
                                        .rows_failed = true,
                                        .lanes = 1,
                                        .lanes_most = 64,
                                        .xid = {1, 2, 3, 4, 5, 6, 7, 8},
                                        .xid_count = GPU_SAMPLE_XIDS};
    told.slow_since_ms = 1;
    told.narrow = GPU_HEALTH_NARROW;
    assert_int_equal(look(100000), GPU_SAMPLE_XIDS + 5);
}

TEST(words_for_now)
{
    char text[160], small[20];

    begin();
    gpu_health_say(&sample.health, text, sizeof(text));
    assert_string_equal(text, "");
    sample.health.slowed = GPU_SLOWED_POWER_LIMIT;
    gpu_health_say(&sample.health, text, sizeof(text));
    assert_string_equal(text, "at its power limit");
    sample.health = (struct gpu_health){.slowed = GPU_SLOWED_OVERHEATED,
                                        .ecc_uncorrected = 2,
                                        .rows_pending = true,
                                        .lanes = 8,
                                        .lanes_most = 16};
    gpu_health_say(&sample.health, text, sizeof(text));
    assert_string_equal(text,
                        "slowed down: it is too hot, 2 uncorrected memory errors, part of its "
                        "memory failed, 8 of 16 PCIe lanes");
    gpu_health_say(&sample.health, small, sizeof(small));
    assert_string_equal(small, "slowed down: it is ");
}

TEST_MAIN(NULL, NULL)
