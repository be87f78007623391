/* Who says a stretch: chosen cases, and random ones against the definition itself. */
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "store/reading/overlap.h"
#include "tests/common/test.h"

static struct overlaps *made(const struct overlap_turn *turns, size_t n)
{
    struct overlaps *a = NULL;
    struct err e = {0};

    assert_ok(overlap_make(turns, n, &a, &e), e);
    return a;
}

TEST(chosen)
{
    static const struct overlap_turn turns[] = {
        {3000, 5000, 7}, {0, 1000, 5}, {900, 2000, 7}, {4000, 4400, 5}, {4500, 4900, 5}};
    struct overlaps *a = made(turns, 5);

    assert_int_equal(overlap_speaker(a, 0, 950, -1), 5);
    assert_int_equal(overlap_speaker(a, 950, 1500, -1), 7);
    assert_int_equal(overlap_speaker(a, 900, 1000, -1), 5);  /* as long: who begins first */
    assert_int_equal(overlap_speaker(a, 4000, 4900, -1), 7); /* 900 against 400 + 400 */
    assert_int_equal(overlap_speaker(a, 2000, 2400, -1), 7); /* between two of the same */
    assert_int_equal(overlap_speaker(a, 6000, 6000, -1), 7);
    assert_int_equal(overlap_speaker(a, 6001, 6001, -1), -1); /* too far */
    assert_int_equal(overlap_speaker(a, 950, 950, -1), 5);    /* a moment */
    overlap_free(a);
    a = made(turns + 1, 1);
    assert_int_equal(overlap_speaker(a, 1 << 20, 1 << 21, -1), -1);
    overlap_free(a);
    a = made(NULL, 0);
    assert_int_equal(overlap_speaker(a, 0, 10, -1), -1);
    overlap_free(a);
    overlap_free(NULL);
}

TEST(nearest)
{
    static const struct overlap_turn turns[] = {
        {0, 8000, 1}, {1000, 2000, 2}, {10000, 11000, 3}, {10000, 10500, 4}};
    struct overlaps *a = made(turns, 4);

    (void)state;
    assert_int_equal(overlap_speaker(a, 8600, 9000, -1), 1); /* the long one ends last */
    assert_int_equal(overlap_speaker(a, 8800, 9200, -1), 1); /* as far: the earlier */
    assert_int_equal(overlap_speaker(a, 8800, 9201, -1), 4);
    assert_int_equal(overlap_speaker(a, 10600, 10700, -1), 3);
    assert_int_equal(overlap_speaker(a, 8000, 8001, -1), 1);
    assert_int_equal(overlap_speaker(a, 12000, 60000, -1), 3);
    assert_int_equal(overlap_speaker(a, 12001, 60000, -1), -1); /* music, after a second */
    assert_int_equal(overlap_speaker(a, 9001, 60000, -1), 3);
    overlap_free(a);
    a = made(turns + 2, 2);
    assert_int_equal(overlap_speaker(a, 0, 8999, -1), -1);
    assert_int_equal(overlap_speaker(a, 0, 9000, -1), 4);
    overlap_free(a);
}

TEST(handing_over)
{
    static const struct overlap_turn turns[] = {{0, 8000, 1}, {1000, 2000, 2}, {1500, 1600, 3}};
    struct overlaps *a = made(turns, 3);

    (void)state;
    assert_true(overlap_changes(a, 1, 2, 900, 1000));
    assert_true(overlap_changes(a, 1, 2, 1000, 1100));
    assert_false(overlap_changes(a, 1, 2, 1001, 7999));
    assert_false(overlap_changes(a, 1, 2, 900, 999));
    assert_true(overlap_changes(a, 1, 4, 7000, 8000)); /* one falls silent */
    assert_false(overlap_changes(a, 2, 1, 7000, 8000));
    assert_true(overlap_changes(a, 2, 1, 2000, 2000));
    assert_true(overlap_changes(a, 3, 1, 1600, 1700));
    assert_false(overlap_changes(a, 3, 1, 1601, 1700));
    overlap_free(a);
    a = made(NULL, 0);
    assert_false(overlap_changes(a, 1, 2, 0, 9000));
    overlap_free(a);
}

static int by_begin(const void *a, const void *b)
{
    const struct overlap_turn *x = a, *y = b;

    if (x->start_ms != y->start_ms)
        return x->start_ms < y->start_ms ? -1 : 1;
    if (x->end_ms != y->end_ms)
        return x->end_ms < y->end_ms ? -1 : 1;
    return (x->speaker > y->speaker) - (x->speaker < y->speaker);
}

/* How far a turn is from a stretch; below 0: how long they overlap. */
static int64_t apart_ms(const struct overlap_turn *t, int64_t s, int64_t e)
{
    int64_t from = t->start_ms > s ? t->start_ms : s, to = t->end_ms < e ? t->end_ms : e;

    return from - to;
}

/* The definition, over turns sorted by their begin; -1 when none overlaps. */
static int64_t defined(const struct overlap_turn *t, size_t n, int64_t s, int64_t e)
{
    int64_t sum[8] = {0}, best = -1;

    for (size_t i = 0; i < n; i++)
        if (apart_ms(&t[i], s, e) < 0)
            sum[t[i].speaker] -= apart_ms(&t[i], s, e);
    for (size_t i = 0; i < n; i++)
        if (apart_ms(&t[i], s, e) < 0 && (best < 0 || sum[t[i].speaker] > sum[best]))
            best = t[i].speaker;
    return best;
}

/* Is one of the nearest turns the speaker's, or nobody's where none is near? */
static bool is_nearest(const struct overlap_turn *t, size_t n, int64_t s, int64_t e, int64_t who)
{
    int64_t least = INT64_MAX;
    bool found = false;

    for (size_t i = 0; i < n; i++)
        if (apart_ms(&t[i], s, e) < least)
            least = apart_ms(&t[i], s, e);
    for (size_t i = 0; i < n; i++)
        found |= apart_ms(&t[i], s, e) == least && t[i].speaker == who;
    return least > OVERLAP_NEAR_MS ? who == -1 : found;
}

TEST(random_ones)
{
    struct overlap_turn t[40];
    unsigned seed = 1;
    int overlapped = 0, apart = 0;

    for (int round = 0; round < 2000; round++) {
        size_t n = 1 + (size_t)rand_r(&seed) % 40;
        struct overlaps *a;

        for (size_t i = 0; i < n; i++) {
            t[i].start_ms = rand_r(&seed) % (round % 8 ? 400 : 40000);
            t[i].end_ms = t[i].start_ms + 1 + rand_r(&seed) % (round % 2 ? 60 : 6);
            t[i].speaker = rand_r(&seed) % 8;
        }
        a = made(t, n);
        qsort(t, n, sizeof(*t), by_begin);
        for (int k = 0; k < 20; k++) {
            int64_t s = rand_r(&seed) % (round % 8 ? 460 : 46000), e = s + 1 + rand_r(&seed) % 30;
            int64_t want = defined(t, n, s, e), got = overlap_speaker(a, s, e, -1);

            if (want >= 0)
                assert_int_equal(got, want);
            else
                assert_true(is_nearest(t, n, s, e, got));
            *(want >= 0 ? &overlapped : &apart) += 1;
        }
        overlap_free(a);
    }
    assert_true(overlapped > 1000 && apart > 1000);
}

/* One turn over all of it, and many short ones: a question reads what overlaps it, not what was
 * before. Reading all of them for each would be 2 * 10^10 steps. */
TEST(one_that_spans_it_all)
{
    enum { TURNS = 200000 };
    struct overlap_turn *t = calloc(TURNS + 1, sizeof(*t));
    struct timespec begin, end;
    struct overlaps *a;

    assert_non_null(t);
    t[0] = (struct overlap_turn){0, TURNS * 1000, 0};
    for (int i = 0; i < TURNS; i++)
        t[i + 1] = (struct overlap_turn){i * 1000 + 1, i * 1000 + 900, 1 + i % 5};
    a = made(t, TURNS + 1);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    for (int i = 0; i < TURNS; i++) {
        assert_int_equal(overlap_speaker(a, i * 1000 + 100, i * 1000 + 300, -1), 0);
        assert_int_equal(overlap_speaker(a, i * 1000 + 950, i * 1000 + 990, -1), 0);
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    assert_true(end.tv_sec - begin.tv_sec < 5);
    overlap_free(a);
    free(t);
}

TEST_MAIN(NULL, NULL)
