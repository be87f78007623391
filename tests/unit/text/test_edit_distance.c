/* How far words are from each other. */
#include "tests/common/test.h"
#include "workers/text/edit_distance.h"

TEST(slips)
{
    static const struct {
        const char *a, *b;
        unsigned distance;
    } table[] = {
        {"", "", 0},
        {"", "abc", 3},
        {"same", "same", 0},
        {"harbr", "harbor", 1},
        {"harbor", "arbor", 1},
        {"harbor", "harber", 1},
        {"habror", "harbor", 1},
        {"harbor", "harbour", 1},
        {"fihs", "fish", 1},
        {"kitten", "sitting", 3},
        {"abc", "xyz", 3},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const char *a = table[i].a, *b = table[i].b;

        assert_int_equal(edit_distance(a, strlen(a), b, strlen(b)), table[i].distance);
        assert_int_equal(edit_distance(b, strlen(b), a, strlen(a)), table[i].distance);
    }
}

TEST(the_longest_words)
{
    char a[EDIT_DISTANCE_MAX], b[EDIT_DISTANCE_MAX];

    memset(a, 'a', sizeof(a));
    memset(b, 'b', sizeof(b));
    assert_int_equal(edit_distance(a, sizeof(a), b, sizeof(b)), EDIT_DISTANCE_MAX);
    assert_int_equal(edit_distance(a, sizeof(a), a, sizeof(a)), 0);
    assert_int_equal(edit_distance_most(5), 1);
    assert_int_equal(edit_distance_most(6), 2);
}

TEST_MAIN(NULL, NULL)
