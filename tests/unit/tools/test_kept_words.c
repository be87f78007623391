/* How much of what was said a transcript has. */
#include "tests/common/test.h"
#include "tools/doctor/kept_words.h"

TEST(test_words_that_are_kept)
{
    static const struct {
        const char *said, *heard;
        unsigned kept, count;
    } cases[] = {
        {"one two three", "one two three", 3, 3},
        {"one two three", " One, TWO... three! ", 3, 3},
        {"one two three", "three two one", 1, 3},
        {"one two three", "one four three", 2, 3},
        {"one two three", "well one and two and three then", 3, 3},
        {"one two three", "onetwothree", 0, 3},
        {"one two three", "", 0, 3},
        {"", "one", 0, 0},
        {"a a a", "a", 1, 3},
        {"a", "a a a", 1, 1},
        {"tuesday station may wednesday tuesday", "tuesday tuesday station wednesday tuesday", 4,
         5},
        {"one", "\xff\xfe one \x80", 1, 1},
    };
    unsigned count;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(kept_words(cases[i].said, cases[i].heard, &count), cases[i].kept);
        assert_int_equal(count, cases[i].count);
    }
}

TEST(test_more_words_than_count)
{
    char many[4 * WORDS_MAX + 1];
    unsigned count;

    for (size_t i = 0; i < 2 * WORDS_MAX; i++)
        memcpy(many + 2 * i, "x ", 2);
    many[4 * WORDS_MAX] = 0;
    assert_int_equal(kept_words(many, many, &count), WORDS_MAX);
    assert_int_equal(count, WORDS_MAX);
}

TEST_MAIN(NULL, NULL)
