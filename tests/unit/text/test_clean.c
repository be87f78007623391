/* Compression ratio and the cleaning of recognised text. */
#include "tests/common/test.h"

#include <math.h>

#include "base/err.h"
#include "workers/text/doubtful_text.h"
#include "workers/text/codepoints.h"

static void ratio_is(const char *unit, int times, double expected)
{
    char text[1024] = "";
    struct err e;
    float got = -1;

    for (int i = 0; i < times; i++)
        strcat(text, unit);
    assert_ok(compression_ratio(text, strlen(text), &got, &e), e);
    assert_true(fabs((double)got - expected) < 1e-6);
}

/* Expected: Python's len(text) / len(zlib.compress(text)). */
TEST(test_ratio)
{
    ratio_is("a", 1, 1.0 / 9);
    ratio_is(" the", 60, 240.0 / 15);
    ratio_is("one two three four five six seven eight nine ten", 1, 48.0 / 50);
    ratio_is("uno ", 100, 400.0 / 17);
    ratio_is("", 1, 0);
}

static void clean_is(const char *in, const char *expected)
{
    char text[256];

    strcpy(text, in);
    assert_int_equal(clean_text(text), strlen(expected));
    assert_string_equal(text, expected);
}

TEST(test_clean)
{
    clean_is("", "");
    clean_is("   ", "");
    clean_is(" a word. ", "a word.");
    clean_is("a  b", "a  b");
    clean_is("\n a\nb\tc \r\n", "a b c");
    clean_is("\xC2\xA0x\xE3\x80\x80y\xE3\x80\x80", "x\xE3\x80\x80y");
    clean_is("x\xE2\x80\xA8y\xE2\x80\xA9", "x y");
    clean_is("\x1B[31mred\x7F", "[31mred");
    clean_is("a\xC2\x9B"
             "b",
             "a b");
    clean_is("\xEF\xBF\xBD", "\xEF\xBF\xBD");
}

TEST_MAIN(NULL, NULL)
