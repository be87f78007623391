/* Where a search is wrong: the text, and a caret below the place. */
#include "tools/search/search_place.h"

#include "base/err.h"
#include "base/utf8.h"
#include "tests/common/nomem.h"
#include "tests/common/test.h"
#include "tools/cli/text.h"

static void shows(const char *text, size_t at, const char *lines)
{
    char *got = search_place(text, at, 40);

    assert_non_null(got);
    assert_string_equal(got, lines);
    free(got);
}

TEST(short_ones)
{
    shows("a OR", 2, "  a OR\n    ^\n");
    shows("a OR", 4, "  a OR\n      ^\n");
    shows("(", 0, "  (\n  ^\n");
    /* Wide characters, such as have no width, and such as cannot be printed. */
    shows("\xe6\x9d\xb1\xe4\xba\xac )", 7, "  \xe6\x9d\xb1\xe4\xba\xac )\n       ^\n");
    shows("a\xcc\x81 )", 4, "  a\xcc\x81 )\n    ^\n");
    shows("a\n\xff)", 3, "  a\\n\\xFF)\n         ^\n");
}

TEST(long_ones)
{
    char text[400];

    memset(text, 'a', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    text[0] = '(';
    shows(text, 0, "  (aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\n  ^\n");
    text[200] = '(';
    shows(text, 200, "  ...aaaaaaaaaaaaaaaa(aaaaaaaaaaaaaaa...\n                     ^\n");
    shows(text, 398, "  ...aaaaaaaaaaaaaaaaa\n                     ^\n");
}

/* Whatever it is, it fits, and the caret stands below the place. */
TEST(every_place_fits)
{
    char text[200] = "";

    for (int i = 0; i < 12; i++)
        strcat(text, i % 3 == 0   ? "ab\xe6\x9d\xb1"
                     : i % 3 == 1 ? "o\xcc\x88 \xc3\xa4"
                                  : "\t(\xe4\xba\xac)");
    for (size_t at = 0; at <= strlen(text); at++) {
        char *got, *end;

        if (!utf8_valid(text, at))
            continue;
        got = search_place(text, at, 40);
        end = strchr(got, '\n');
        assert_int_equal(end[strlen(end) - 2], '^');
        end[strlen(end) - 1] = 0;
        *end = 0;
        assert_true(text_width(got) <= 40);
        assert_true(strlen(end + 1) <= 40);
        free(got);
    }
}

static int place(void *arg, struct err *err)
{
    char *got = search_place(arg, 2, 40);

    free(got);
    return got ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

TEST(without_memory)
{
    char text[] = "a (b";

    assert_true(nomem_each(place, text) > 2);
}

TEST_MAIN(NULL, NULL)
