/* How much of the speech has a text, in words: never more than there is. */
#include "tests/common/test.h"
#include "tools/cli/account.h"

static const char *said(int64_t speech, int64_t dropped, int64_t missing)
{
    static char ret[200];
    const struct result_account a = {speech, dropped, missing};
    struct buf b = BUF_INIT;

    account_say(&a, "doubts --missing", &b);
    snprintf(ret, sizeof(ret), "%s", buf_cstr(&b));
    buf_free(&b);
    return ret;
}

TEST(all_of_it_is_all_of_it)
{
    assert_string_equal(said(45296000, 0, 0), "100 % of 12 h 34 min of speech has text");
    assert_string_equal(said(45296000, 0, 1),
                        "99.9 % of 12 h 34 min of speech has text; 0.0 s has none "
                        "(nightshift doubts --missing)");
    assert_string_equal(said(INT64_MAX / 4, 1, 0),
                        "99.9 % of 640,511,947,003 h 48 min of speech has text; the text of 0.0 s "
                        "was rejected");
    assert_string_equal(said(10000, 2499, 5001),
                        "25.0 % of 10 s of speech has text; 5.0 s has none "
                        "(nightshift doubts --missing), and the text of 2.5 s was rejected");
    assert_string_equal(said(1000, 0, 1000), "0.0 % of 1.0 s of speech has text; 1.0 s has none "
                                             "(nightshift doubts --missing)");
}

TEST(shares)
{
    static const struct {
        struct result_account a;
        double share;
    } cases[] = {{{1000, 0, 0}, 1},
                 {{36000000, 1, 0}, 0.9999},
                 {{3, 1, 1}, 0.3333},
                 {{5, 2, 3}, 0},
                 {{0, 0, 0}, -1},
                 {{-1, 0, 0}, -1},
                 {{INT64_MAX, 0, 1}, 0.9999},
                 {{10000, 0, 100}, 0.99}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_float_equal(account_share(&cases[i].a), cases[i].share, 1e-12);
}

TEST_MAIN(NULL, NULL)
