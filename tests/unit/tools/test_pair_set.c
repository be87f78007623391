/* A set of pairs of numbers: what was added is in it, and nothing else, however far it grows. */
#include "tests/common/test.h"

#include "tests/common/nomem.h"
#include "tools/pair_set.h"

TEST(what_was_added)
{
    struct pair_set s = {0};
    struct err e = {0};

    assert_false(pair_set_has(&s, 0, 1));
    for (uint64_t i = 1; i <= 5000; i++) {
        assert_int_equal(pair_set_add(&s, i % 3, i << 40, &e), 1);
        assert_int_equal(pair_set_add(&s, i % 3, i << 40, &e), 0);
    }
    assert_int_equal(s.count, 5000);
    for (uint64_t i = 1; i <= 5000; i++) {
        assert_true(pair_set_has(&s, i % 3, i << 40));
        assert_false(pair_set_has(&s, i % 3 + 1, i << 40));
        assert_false(pair_set_has(&s, i % 3, i));
    }
    pair_set_free(&s);
    assert_false(pair_set_has(&s, 1, (uint64_t)1 << 40));
}

static int fill(void *arg, struct err *err)
{
    struct pair_set s = {0};
    int rc = 0;

    (void)arg;
    for (uint64_t i = 1; rc >= 0 && i <= 2000; i++)
        rc = pair_set_add(&s, 7, i, err);
    for (uint64_t i = 1; rc < 0 && i <= s.count; i++)
        assert_true(pair_set_has(&s, 7, i));
    pair_set_free(&s);
    return rc < 0 ? rc : 0;
}

TEST(without_memory) { assert_true(nomem_each(fill, NULL) >= 2); }

TEST_MAIN(NULL, NULL)
