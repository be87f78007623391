/* Numbers, lengths and names as people read them. */
#include "tests/common/test.h"

#include "base/buf.h"
#include "tools/cli/text.h"

TEST(counts_have_separators)
{
    char out[TEXT_LEN];

    assert_string_equal(text_count(0, out), "0");
    assert_string_equal(text_count(999, out), "999");
    assert_string_equal(text_count(1000, out), "1,000");
    assert_string_equal(text_count(1234567, out), "1,234,567");
    assert_string_equal(text_speed(0.04, out), "0.0");
    assert_string_equal(text_speed(9.94, out), "9.9");
    assert_string_equal(text_speed(9.96, out), "10");
    assert_string_equal(text_speed(25278.3, out), "25,278");
    assert_string_equal(text_count(UINT64_MAX, out), "18,446,744,073,709,551,615");
}

TEST(lengths_are_readable)
{
    char out[TEXT_LEN];

    assert_string_equal(text_length(-5, out), "0.0 s");
    assert_string_equal(text_length(2500, out), "2.5 s");
    assert_string_equal(text_length(9949, out), "9.9 s");
    assert_string_equal(text_length(9999, out), "10 s");
    assert_string_equal(text_length(59600, out), "1 min 00 s");
    assert_string_equal(text_length(249000, out), "4 min 09 s");
    assert_string_equal(text_length(11100000, out), "3 h 05 min");
    assert_string_equal(text_length(INT64_MAX / 2, out), "1,281,023,894,007 h 36 min");
}

TEST(sizes_are_those_on_the_box)
{
    char out[TEXT_LEN];

    assert_string_equal(text_bytes(0, out), "0 B");
    assert_string_equal(text_bytes(999, out), "999 B");
    assert_string_equal(text_bytes(7832504, out), "7.8 MB");
    assert_string_equal(text_bytes(999999, out), "1.0 MB");
    assert_string_equal(text_bytes(UINT64_MAX, out), "18.4 EB");
}

TEST(typed_lengths)
{
    static const struct {
        const char *s;
        int64_t ms;
    } cases[] = {
        {"90", 90000},      {"90s", 90000},     {"5m", 300000}, {"5min", 300000},
        {"1h30m", 5400000}, {"1.5h", 5400000},  {"250ms", 250}, {"0", 0},
        {"2d", 172800000},  {"", -1},           {"-5", -1},     {"5x", -1},
        {"h", -1},          {"1h-5m", -1},      {"0x10", -1},   {"nan", -1},
        {"1e999", -1},      {"999999999h", -1}, {" 5", -1},     {"5 ", -1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (text_parse_length(cases[i].s, 86400000 * 7) != cases[i].ms)
            print_error("'%s'\n", cases[i].s);
        assert_int_equal(text_parse_length(cases[i].s, 86400000 * 7), cases[i].ms);
    }
}

TEST(widths_are_columns)
{
    assert_int_equal(text_width(""), 0);
    assert_int_equal(text_width("abc"), 3);
    assert_int_equal(text_width("mi\xC3\xA9rcoles"), 9);
    assert_int_equal(text_width("e\xCC\x81"), 1);                /* e and a combining acute */
    assert_int_equal(text_width("\xE6\x97\xA5\xE6\x9C\xAC"), 4); /* two wide characters */
    assert_int_equal(text_width("\xF0\x9F\x8E\xA4"), 2);
}

TEST(long_names_lose_their_middle)
{
    static const char name[] = "/archive/1990/\xE6\x97\xA5\xE6\x9C\xAC/a very long name indeed.wav";
    char *fit;

    fit = text_fit(name, 200);
    assert_string_equal(fit, name);
    free(fit);
    for (size_t width = 8; width < 40; width++) {
        fit = text_fit(name, width);
        assert_non_null(fit);
        assert_true(text_width(fit) <= width);
        assert_non_null(strstr(fit, "..."));
        free(fit);
    }
    for (size_t width = 0; width <= 8; width++) {
        fit = text_fit(name, width);
        assert_true(text_width(fit) <= 8);
        free(fit);
    }
    fit = text_fit(name, 20);
    assert_string_equal(fit, "/arch...e indeed.wav");
    free(fit);
}

static void lines_are(const char *s, size_t width, const char *want)
{
    char *lines = text_fit_lines(s, width);

    assert_non_null(lines);
    assert_string_equal(lines, want);
    free(lines);
}

TEST(words_take_two_lines_at_most)
{
    lines_are("", 20, "");
    lines_are("/night", 20, "/night");
    lines_are("--diarize -- /a /b", 18, "--diarize -- /a /b");
    lines_are("--diarize -- /a /b", 17, "--diarize -- /a\n/b");
    lines_are("--diarize /recordings/1999 /b", 20, "--diarize\n/recordings/1999 /b");
    lines_are("--diarize /recordings/1999 /recordings/2000 /b", 20,
              "--diarize\n... /b"); /* the last ones, whole */
    lines_are("--diarize /a /recordings/1999 /recordings/2000", 20,
              "--diarize /a\n... /recordings/2000");
    lines_are("-q /recordings/a-very-long-folder/indeed/1999", 20, "-q\n/reco.../indeed/1999");
    lines_are("/recordings/a-very-long-folder/indeed/1999 -q", 20, "/reco.../indeed/1999\n-q");
    lines_are("-q /a /recordings/a-very-long-folder/indeed/1999", 20,
              "-q /a\n/reco.../indeed/1999");
    lines_are("-q /a /recordings/a-very-long-folder/indeed /recordings/a-very-long-folder", 20,
              "-q /a\n... /rec...ng-folder");
    lines_are("a  b", 20, "a  b");
}

TEST(two_lines_are_never_wider)
{
    static const char command[] = "--include *.\xE6\x97\xA5\xE6\x9C\xAC -- /archive/1990 "
                                  "/archive/mi\xC3\xA9rcoles-y-jueves-por-la-noche /a /b /c";

    for (size_t width = 0; width < 90; width++) {
        char *lines = text_fit_lines(command, width), *second;

        assert_non_null(lines);
        second = strchr(lines, '\n');
        if (second)
            *second++ = 0;
        assert_true(text_width(lines) <= (width < 13 ? 13 : width));
        assert_true(!second || text_width(second) <= (width < 13 ? 13 : width));
        assert_true(!second || !strchr(second, '\n'));
        assert_int_equal(
            strcmp((second ? second : lines) + strlen(second ? second : lines) - 2, "/c"), 0);
        free(lines);
    }
}

static void to_buf(void *arg, const char *bytes, size_t n) { buf_put(arg, bytes, n); }

TEST(wrapping_breaks_at_blanks)
{
    struct buf out = BUF_INIT;

    text_wrap(to_buf, &out, "one two three four", 4, 4, 12);
    assert_string_equal(buf_cstr(&out), "one two\n    three\n    four");
    buf_clear(&out);
    text_wrap(to_buf, &out, "unbreakable-and-far-too-long", 0, 0, 10);
    assert_string_equal(buf_cstr(&out), "unbreakable-and-far-too-long");
    buf_clear(&out);
    text_wrap(to_buf, &out, "a b cde fgh", 0, 4, 8); /* words shorter than the indent */
    assert_string_equal(buf_cstr(&out), "a b cde\n    fgh");
    buf_clear(&out);
    text_wrap(to_buf, &out, "  a   b  ", 0, 0, 10);
    assert_string_equal(buf_cstr(&out), "a b");
    buf_free(&out);
}

TEST_MAIN(NULL, NULL)
