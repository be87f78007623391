/* The normalisers against the answers of Whisper's own, and what a hostile text may cost. */
#include "tests/common/test.h"

#include <time.h>

#include "tests/common/files.h"
#include "tools/score/normalize.h"

static const char table[] = "{\"colour\": \"color\", \"centre\": \"center\", \"grey\": \"gray\","
                            " \"realise\": \"realize\", \"th\\u00e9\\u00e2tre\": \"theater\","
                            " \"two\": \"never reached: it is a number by then\"}";

static struct spellings *some_spellings(const char *json)
{
    struct spellings *s = NULL;
    struct err err = {0};

    file_text("spellings.json", json);
    assert_ok(spellings_open("spellings.json", &s, &err), err);
    return s;
}

static struct normalize_options options_of(const char *name, const struct spellings *spellings)
{
    struct normalize_options o = {.normalizer = NORMALIZE_BASIC};

    if (strcmp(name, "english") == 0 || strcmp(name, "spelled") == 0)
        o.normalizer = NORMALIZE_ENGLISH;
    if (strcmp(name, "spelled") == 0)
        o.spellings = spellings;
    o.remove_diacritics = strcmp(name, "plain") == 0;
    o.split_letters = strcmp(name, "letters") == 0;
    return o;
}

/* All lines agree: there is no list of known differences. */
TEST(agrees_with_whisper)
{
    struct spellings *spellings = some_spellings(table);
    FILE *f = fopen(test_source_path("tests/unit/score/normalize.tsv"), "r");
    char line[4096];
    unsigned lines = 0, wrong = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        char *text = strchr(line, '\t'), *want = text ? strchr(text + 1, '\t') : NULL, *got = NULL;
        struct normalize_options o;
        struct err err = {0};

        assert_non_null(want);
        *text++ = 0;
        *want++ = 0;
        want[strcspn(want, "\n")] = 0;
        o = options_of(line, spellings);
        assert_ok(normalize(&o, text, strlen(text), &got, &err), err);
        if (strcmp(got, want) != 0) {
            print_error("%s: '%s'\n  want '%s'\n  got  '%s'\n", line, text, want, got);
            wrong++;
        }
        free(got);
        lines++;
    }
    fclose(f);
    spellings_free(spellings);
    assert_true(lines >= 600);
    assert_int_equal(wrong, 0);
}

static char *normalized(enum normalizer n, const char *text, size_t len)
{
    const struct normalize_options o = {.normalizer = n};
    struct err err = {0};
    char *ret = NULL;

    assert_ok(normalize(&o, text, len, &ret, &err), err);
    return ret;
}

TEST(bytes_that_are_no_text)
{
    char *s;

    s = normalized(NORMALIZE_BASIC, "a\xFF\x80 b\0c", 7);
    assert_string_equal(s, "a b c"); /* U+FFFD is a symbol */
    free(s);
    s = normalized(NORMALIZE_NONE, "A\xFF(b)", 5);
    assert_string_equal(s, "A\xEF\xBF\xBD(b)");
    free(s);
    s = normalized(NORMALIZE_ENGLISH, "", 0);
    assert_string_equal(s, "");
    free(s);
}

/* A million of whatever might take the square of its length. */
TEST(time_grows_with_the_length)
{
    static const char *const pieces[] = {"(",   "[",  " ",        "'",           "\xCC\x81\xCC\xA3",
                                         "1,",  "..", "million ", "and a half ", "oh ",
                                         "$1 ", "9",  "\xCE\xA3'"};
    size_t room = (size_t)1 << 20;
    char *text = malloc(room);

    assert_non_null(text);
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        size_t len = 0, n = strlen(pieces[i]);
        clock_t began = clock();
        double seconds;

        while (len + n <= room / 4) {
            memcpy(text + len, pieces[i], n);
            len += n;
        }
        free(normalized(NORMALIZE_BASIC, text, len));
        free(normalized(NORMALIZE_ENGLISH, text, len));
        seconds = (double)(clock() - began) / CLOCKS_PER_SEC;
        print_message("'%s': %.2f s\n", pieces[i], seconds);
        assert_true(seconds < 20);
    }
    free(text);
}

/* Blanks between two words: what looks behind them must not do so from each of them. */
TEST(long_runs_of_blanks)
{
    size_t len = (size_t)1 << 19;
    char *text = malloc(len), *s;
    clock_t began = clock();

    assert_non_null(text);
    memset(text, ' ', len);
    memcpy(text, "1960", 4);
    memcpy(text + len - 6, "s word", 6);
    s = normalized(NORMALIZE_ENGLISH, text, len);
    assert_string_equal(s, "1960s word");
    free(s);
    memcpy(text, "here", 4);
    s = normalized(NORMALIZE_ENGLISH, text, len);
    assert_string_equal(s, "here s word");
    free(s);
    assert_true((double)(clock() - began) / CLOCKS_PER_SEC < 20);
    free(text);
}

/* 64 bytes and no more, on both sides. */
TEST(words_of_spellings_are_short)
{
    char json[200], word[66];

    memset(word, 'w', 64);
    word[64] = 0;
    snprintf(json, sizeof(json), "{\"%s\": \"%s\"}", word, word);
    spellings_free(some_spellings(json));
    for (int side = 0; side < 2; side++) {
        struct spellings *s = NULL;
        struct err err = {0};
        FILE *f = fopen("long.json", "w");

        assert_non_null(f);
        fprintf(f, "{\"%s%s\": \"%s%s\"}", word, side ? "" : "w", word, side ? "w" : "");
        fclose(f);
        assert_int_equal(spellings_open("long.json", &s, &err), ERR_INPUT);
        assert_non_null(strstr(err.msg, "more than a word"));
        assert_null(s);
    }
}

TEST(tables_of_spellings)
{
    static const char *const bad[] = {"", "[]", "{\"a\": 1}", "{\"a\"", "\xFF"};
    struct spellings *s = some_spellings(table);

    assert_int_equal(spellings_count(s), 6);
    assert_string_equal(spellings_find(s, "grey", 4), "gray");
    assert_null(spellings_find(s, "gre", 3));
    assert_null(spellings_find(s, "greys", 5));
    spellings_free(s);
    s = NULL;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {0};

        file_text("bad.json", bad[i]);
        assert_int_equal(spellings_open("bad.json", &s, &err), ERR_INPUT);
        assert_non_null(strstr(err.msg, "bad.json"));
        assert_null(s);
    }
    s = some_spellings("{}");
    assert_null(spellings_find(s, "a", 1));
    spellings_free(s);
}

TEST(names)
{
    assert_int_equal(normalizer_from_name("english"), NORMALIZE_ENGLISH);
    assert_int_equal(normalizer_from_name("English"), -1);
    assert_string_equal(normalizer_name(NORMALIZE_BASIC), "basic");
    assert_true(normalize_wants_letters("ja") && !normalize_wants_letters("de"));
}

TEST_MAIN(NULL, NULL)
