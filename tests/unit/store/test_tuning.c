/* What is remembered of devices: by which key, what a second note changes, which values are
 * refused. */
#include <math.h>

#include "store/tuning.h"
#include "tests/unit/store/fixture.h"

static const struct store_tuning_key key = {"GPU-8f3c", "580.95 (CUDA 13.0)", "aa", "fp16", ""};

/* Slots, windows, rate, predicted bytes, peak, out of memory; without ways. */
#define TUNING(...) ((struct store_tuning){__VA_ARGS__, NULL, 0})

static struct store_tuning get(struct store *st, const struct store_tuning_key *k)
{
    struct store_tuning t;
    struct err e = {0};

    assert_ok(store_tuning_get(st, k, &t, &e), e);
    return t;
}

static void note(struct store *st, const struct store_tuning_key *k, struct store_tuning t)
{
    struct err e = {0};

    assert_ok(store_tuning_note(st, k, &t, &e), e);
}

TEST(every_part_of_the_key_counts)
{
    const struct store_tuning_key others[] = {
        {"GPU-0000", key.driver, key.model_hash, key.precision, ""},
        {key.device_id, "", key.model_hash, key.precision, ""},
        {key.device_id, key.driver, "bb", key.precision, ""},
        {key.device_id, key.driver, key.model_hash, "bf16", ""},
        {key.device_id, key.driver, key.model_hash, key.precision, "beam_size=5"},
    };
    struct store *st = catalog_new();
    struct store_tuning t;
    struct err e = {0};

    assert_int_equal(store_tuning_get(st, &key, &t, &e), ERR_EMPTY);
    note(st, &key, TUNING(64, 16, 812.5, 9000, 8000, 0));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(store_tuning_get(st, &others[i], &t, &e), ERR_EMPTY);
    for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        note(st, &others[i], TUNING(i + 1, 1, 1, 1, 1, 0));
    for (uint32_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_int_equal(get(st, &others[i]).slots, i + 1);
    t = get(st, &key);
    assert_int_equal(t.slots, 64);
    assert_int_equal(t.windows, 16);
    assert_true(t.rate == 812.5);
    assert_int_equal(t.predicted_bytes, 9000);
    assert_int_equal(t.peak_bytes, 8000);
    assert_int_equal(t.oom_count, 0);
    catalog_close(st);
}

TEST(a_second_note_adds_to_the_first)
{
    struct store *st = catalog_new();
    struct store_tuning t;

    note(st, &key, TUNING(64, 16, 800, 9000, 8000, 0));
    note(st, &key, TUNING(64, 16, 0, 0, 7000, 0)); /* a smaller peak, all else known */
    t = get(st, &key);
    assert_true(t.rate == 800);
    assert_int_equal(t.predicted_bytes, 9000);
    assert_int_equal(t.peak_bytes, 8000);
    note(st, &key, TUNING(64, 16, 0, 0, 8500, 0));
    assert_int_equal(get(st, &key).peak_bytes, 8500);
    note(st, &key, TUNING(64, 8, 0, 0, 6000, 1)); /* lowered: another peak */
    note(st, &key, TUNING(32, 8, 0, 0, 5000, 1));
    t = get(st, &key);
    assert_int_equal(t.slots, 32);
    assert_int_equal(t.windows, 8);
    assert_int_equal(t.peak_bytes, 5000);
    assert_int_equal(t.oom_count, 2);
    assert_true(t.rate == 800);
    catalog_close(st);
}

static void ways_are(struct store *st, const char *want)
{
    struct store_tuning t = get(st, &key);

    assert_int_equal(t.algorithms_bytes, strlen(want));
    assert_memory_equal(t.algorithms_bytes ? t.algorithms : "", want, strlen(want));
    free(t.algorithms);
}

TEST(ways_stay_until_there_are_others)
{
    struct store *st = catalog_new();
    struct store_tuning t = {64, 16, 800, 9000, 8000, 0, (char[]){"first"}, 5};

    note(st, &key, TUNING(64, 16, 800, 9000, 8000, 0));
    ways_are(st, "");
    note(st, &key, t);
    ways_are(st, "first");
    note(st, &key, TUNING(32, 16, 0, 0, 7000, 1));
    ways_are(st, "first");
    memcpy(t.algorithms, "other", 5);
    note(st, &key, t);
    ways_are(st, "other");
    catalog_close(st);
}

TEST(impossible_values_are_refused)
{
    const struct store_tuning bad[] = {
        TUNING(0, 1, 1, 1, 1, 0),          TUNING(1, 0, 1, 1, 1, 0),
        TUNING(4097, 1, 1, 1, 1, 0),       TUNING(1, 5000, 1, 1, 1, 0),
        TUNING(1, 1, -1, 1, 1, 0),         TUNING(1, 1, NAN, 1, 1, 0),
        TUNING(1, 1, 1, UINT64_MAX, 1, 0), TUNING(1, 1, 1, 1, UINT64_MAX, 0),
    };
    struct store *st = catalog_new();
    struct err e = {0};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(store_tuning_note(st, &key, &bad[i], &e), ERR_INPUT);
    assert_int_equal(count_of("SELECT count(*) FROM tuning"), 0);
    catalog_close(st);
}

static int list(void *arg, const struct store_tuning_row *row)
{
    char *out = arg;
    size_t n = strlen(out);

    assert_int_equal(strlen(row->at), 24);
    snprintf(out + n, 256 - n, "%s/%s/%u ", row->key.device_id, row->key.precision,
             row->tuning.slots);
    return 0;
}

static int stop(void *arg, const struct store_tuning_row *row)
{
    (void)row;
    return ++*(int *)arg;
}

TEST(rows_can_be_read)
{
    struct store *st = catalog_new();
    struct err e = {0};
    char text[256] = "";
    int calls = 0;

    note(st, &key, TUNING(64, 16, 0, 0, 0, 0));
    note(st, &(struct store_tuning_key){"cpu", "", "aa", "fp32", ""}, TUNING(16, 1, 0, 0, 0, 0));
    assert_ok(store_tuning_each(st, list, text, &e), e);
    assert_string_equal(text, "GPU-8f3c/fp16/64 cpu/fp32/16 ");
    assert_int_equal(store_tuning_each(st, stop, &calls, &e), 1);
    assert_int_equal(calls, 1);
    catalog_close(st);
}

TEST(a_batch_that_is_undone_leaves_nothing)
{
    struct store *st = catalog_new();
    struct err e = {0};

    assert_ok(store_begin(st, &e), e);
    note(st, &key, TUNING(64, 16, 0, 0, 0, 0));
    store_rollback(st);
    assert_int_equal(count_of("SELECT count(*) FROM tuning"), 0);
    catalog_close(st);
}

TEST_MAIN(NULL, NULL)
