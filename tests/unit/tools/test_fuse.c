/* Rankings as one: the score by hand, which moments are the same, and what order equals have. */
#include <math.h>
#include <stdlib.h>

#include "tests/common/test.h"
#include "tools/search/fuse.h"

static struct fuse_hit *fused(const struct fuse_item *const *lists, const size_t *counts, size_t n,
                              size_t *count)
{
    struct fuse_hit *hits = NULL;
    struct err e = {0};

    assert_ok(fuse(lists, counts, n, &hits, count, &e), e);
    return hits;
}

TEST(scores_by_hand)
{
    static const struct fuse_item words[] = {{1, 0, 1000}, {2, 0, 1000}, {1, 1000, 2000}};
    static const struct fuse_item meaning[] = {{2, 500, 5000}, {3, 0, 10}, {1, 900, 1100}};
    static const struct fuse_item sound[] = {{9, 0, 1}};
    const struct fuse_item *const lists[] = {words, meaning, sound};
    const size_t counts[] = {3, 3, 1};
    size_t n = 0;
    struct fuse_hit *h = fused(lists, counts, 3, &n);

    assert_int_equal(n, 5);
    /* Second of one and first of the other; first and third; then single ones: 1, 2, 3. */
    assert_int_equal(h[0].media_id, 2);
    assert_int_equal(h[0].end_ms, 1000);
    assert_true(fabs(h[0].score - (1.0 / 62 + 1.0 / 61)) < 1e-15);
    assert_int_equal(h[0].at[0], 1);
    assert_int_equal(h[0].at[1], 0);
    assert_true(h[0].at[2] == FUSE_NONE && h[0].at[3] == FUSE_NONE);
    assert_int_equal(h[1].media_id, 1);
    assert_int_equal(h[1].start_ms, 0);
    assert_true(fabs(h[1].score - (1.0 / 61 + 1.0 / 63)) < 1e-15);
    assert_int_equal(h[2].media_id, 9);
    assert_int_equal(h[3].media_id, 3);
    assert_int_equal(h[4].media_id, 1);
    assert_int_equal(h[4].start_ms, 1000);
    free(h);
}

TEST(what_touches_is_not_the_same)
{
    static const struct fuse_item a[] = {{1, 0, 1000}, {1, 5000, 5000}};
    static const struct fuse_item b[] = {
        {1, 1000, 2000}, {2, 0, 1000}, {1, 5000, 5000}, {1, 4000, 5000}};
    static const struct fuse_item *const lists[] = {a, b};
    const size_t counts[] = {2, 4};
    size_t n = 0;
    struct fuse_hit *h = fused(lists, counts, 2, &n);

    assert_int_equal(n, 5);
    assert_int_equal(h[0].start_ms, 5000); /* moments without length meet */
    assert_true(h[0].at[0] == 1 && h[0].at[1] == 2);
    for (size_t i = 1; i < n; i++)
        assert_true((h[i].at[0] == FUSE_NONE) != (h[i].at[1] == FUSE_NONE));
    free(h);
}

/* Two items of a list never make one hit, even where they overlap; each takes another's. */
TEST(one_of_each_list)
{
    static const struct fuse_item a[] = {{1, 0, 9000}, {1, 0, 8000}};
    static const struct fuse_item b[] = {{1, 10, 20}, {1, 30, 40}, {1, 50, 60}};
    static const struct fuse_item *const lists[] = {a, b};
    const size_t counts[] = {2, 3};
    size_t n = 0;
    struct fuse_hit *h = fused(lists, counts, 2, &n);

    assert_int_equal(n, 3);
    assert_true(h[0].at[0] == 0 && h[0].at[1] == 0);
    assert_true(h[1].at[0] == 1 && h[1].at[1] == 1);
    assert_true(h[2].at[0] == FUSE_NONE && h[2].at[1] == 2);
    free(h);
}

TEST(nothing)
{
    const struct fuse_item *const lists[] = {NULL, NULL};
    const size_t counts[] = {0, 0};
    size_t n = 7;

    free(fused(lists, counts, 2, &n));
    assert_int_equal(n, 0);
}

TEST_MAIN(NULL, NULL)
