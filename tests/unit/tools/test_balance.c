/* What goes into which part: nothing twice, nothing left out, none much longer than another. */
#include "tests/common/random.h"
#include "tests/common/test.h"
#include "tools/parts/balance.h"

#define SHARD 300000u
#define HOUR UINT64_C(3600000)

static struct balance made(const struct balance_recording *list, size_t n, uint32_t parts)
{
    const struct balance_rule rule = {.parts = parts, .shard_ms = SHARD};
    struct balance b;
    struct err e = {0};

    assert_int_equal(balance_make(list, n, &rule, &b, &e), 0);
    return b;
}

/* Each recording whole once, or its shards without gap up to the end; each part at most once. */
static void check_all(const struct balance *b, const struct balance_recording *list, size_t n)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < b->count; i++) {
        assert_true(b->pieces[i].part < b->parts);
        sum += b->pieces[i].cost_ms;
        if (i)
            assert_false(b->pieces[i].part == b->pieces[i - 1].part &&
                         b->pieces[i].recording <= b->pieces[i - 1].recording);
    }
    assert_true(sum <= b->total_ms && b->total_ms - sum <= 64 * n);
    for (size_t r = 0; r < n; r++) {
        uint32_t at = list[r].first;
        bool over = false;

        for (bool found = true; found && !over;) {
            found = false;
            for (size_t i = 0; i < b->count && !found; i++)
                if (b->pieces[i].recording == r && b->pieces[i].first == at) {
                    found = true;
                    at = b->pieces[i].end;
                    over = at == list[r].end;
                }
        }
        assert_true(over);
    }
}

TEST(long_ones_are_cut)
{
    const struct balance_recording one = {.cost_ms = 100 * HOUR, .length_ms = 100 * HOUR};
    struct balance b = made(&one, 1, 7);

    check_all(&b, &one, 1);
    assert_int_equal(b.parts, 7);
    assert_int_equal(b.count, 7);
    assert_int_equal(b.cut, 1);
    for (uint32_t i = 0; i < b.parts; i++)
        assert_true(b.loads[i] < b.total_ms / 7 * 11 / 10);
    balance_free(&b);
}

TEST(unknown_lengths_stay_whole)
{
    const struct balance_recording list[] = {{50 * HOUR, -1, 0, 0}, {HOUR, HOUR, 0, 0}};
    struct balance b = made(list, 2, 4);

    check_all(&b, list, 2);
    assert_int_equal(b.parts, 2);
    assert_int_equal(b.cut, 0);
    balance_free(&b);
}

TEST(a_share_is_cut_within_itself)
{
    const struct balance_recording one = {20 * HOUR, 40 * HOUR, 100, 340};
    struct balance b = made(&one, 1, 3);

    check_all(&b, &one, 1);
    assert_int_equal(b.pieces[0].first, 100);
    assert_int_equal(b.count, 3);
    for (size_t i = 0; i < b.count; i++)
        assert_true(b.pieces[i].cut && b.pieces[i].end <= 340);
    balance_free(&b);
    b = made(&one, 1, 1);
    assert_true(b.count == 1 && b.pieces[0].cut && b.pieces[0].first == 100 &&
                b.pieces[0].end == 340);
    balance_free(&b);
}

TEST(whatever_comes)
{
    static struct balance_recording list[400];
    uint64_t r = 17;

    for (int round = 0; round < 200; round++) {
        size_t n = 1 + random_below(&r, 400);
        uint32_t parts = 1 + random_below(&r, 60);
        uint64_t most = 0;
        struct balance b;

        for (size_t i = 0; i < n; i++) {
            uint64_t ms = 1000 + random_below(&r, random_below(&r, 20) ? 3600000 : 216000000);

            list[i] = (struct balance_recording){ms * 2, (int64_t)ms, 0, 0};
        }
        b = made(list, n, parts);
        check_all(&b, list, n);
        for (size_t i = 0; i < b.count; i++)
            most = b.pieces[i].cost_ms > most ? b.pieces[i].cost_ms : most;
        for (uint32_t i = 0; i < b.parts && b.parts == parts; i++)
            assert_true(b.loads[i] <= b.total_ms / parts + most + 2 * SHARD);
        balance_free(&b);
    }
}

TEST(by_hours)
{
    const struct balance_rule rule = {.part_ms = 8 * HOUR, .shard_ms = SHARD};
    static struct balance_recording list[100];
    struct balance b;
    struct err e = {0};

    for (size_t i = 0; i < 100; i++)
        list[i] = (struct balance_recording){HOUR, -1, 0, 0};
    assert_int_equal(balance_make(list, 100, &rule, &b, &e), 0);
    assert_int_equal(b.parts, 13);
    check_all(&b, list, 100);
    balance_free(&b);
    assert_int_equal(balance_make(list, 0, &rule, &b, &e), 0);
    assert_int_equal(b.parts, 0);
    balance_free(&b);
}

TEST_MAIN(NULL, NULL)
