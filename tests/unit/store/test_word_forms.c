/* Other forms of a word, and its other spelling: what is the same word, and what only looks so. */
#include "store/search/word_forms.h"
#include "tests/common/test.h"

static bool has(const char *word, const char *form)
{
    struct word_forms f;

    word_forms(word, &f);
    for (size_t i = 0; i < f.count; i++)
        if (strcmp(f.list[i], form) == 0)
            return true;
    return false;
}

/* Each finds the other. */
static void same(const char *a, const char *b)
{
    if (!has(a, b) || !has(b, a))
        fail_msg("%s and %s are not the same word both ways", a, b);
}

static void apart(const char *a, const char *b)
{
    if (has(a, b) || has(b, a))
        fail_msg("%s and %s are taken for one word", a, b);
}

TEST(spellings)
{
    static const char *const table[][2] = {
        {"harbour", "harbor"},
        {"harbours", "harbors"},
        {"harbours", "harbor"},
        {"colourful", "colorful"},
        {"neighbourhood", "neighborhood"},
        {"favourite", "favorite"},
        {"centre", "center"},
        {"centres", "center"},
        {"centred", "centered"},
        {"theatres", "theaters"},
        {"organise", "organize"},
        {"organised", "organizing"},
        {"realisation", "realization"},
        {"analyse", "analyze"},
        {"analysing", "analyzed"},
        {"catalogue", "catalog"},
        {"dialogues", "dialogs"},
        {"travelled", "traveled"},
        {"travelling", "traveling"},
        {"jewellery", "jewelry"},
        {"defence", "defense"},
        {"grey", "gray"},
        {"plough", "plow"},
        {"ploughed", "plowed"},
        {"programme", "program"},
        {"aluminium", "aluminum"},
        {"aeroplanes", "airplanes"},
        {"paediatric", "pediatric"},
        {"manoeuvre", "maneuver"},
        {"learnt", "learned"},
        {"towards", "toward"},
        {"moustache", "mustache"},
        {"counsellor", "counselor"},
        {"labelled", "labeled"},
        {"skilful", "skillful"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        same(table[i][0], table[i][1]);
}

TEST(endings)
{
    static const char *const table[][2] = {
        {"strike", "strikes"},   {"strikes", "striking"},   {"city", "cities"},
        {"try", "tried"},        {"stop", "stopped"},       {"stopping", "stops"},
        {"hope", "hoping"},      {"box", "boxes"},          {"church", "churches"},
        {"bus", "buses"},        {"glass", "glasses"},      {"visit", "visited"},
        {"travel", "travelled"}, {"play", "played"},        {"agree", "agreed"},
        {"see", "seeing"},       {"building", "buildings"}, {"canvas", "canvases"},
        {"car", "cars"},         {"use", "used"},           {"mercado", "mercados"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        same(table[i][0], table[i][1]);
}

TEST(other_words)
{
    static const char *const table[][2] = {
        {"plan", "planes"},
        {"hop", "hoping"},
        {"filling", "filing"},
        {"new", "news"},
        {"even", "evening"},
        {"unit", "united"},
        {"see", "seed"},
        {"the", "thing"},
        {"glass", "glas"},
        {"bus", "bu"},
        {"sing", "s"},
        {"our", "hours"},
        {"four", "for"},
        {"tour", "tor"},
        {"hour", "hor"},
        {"organ", "organise"},
        {"universe", "university"},
        {"good", "goods"},
        {"star", "starry"},
        {"string", "str"},
    };

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        apart(table[i][0], table[i][1]);
}

/* Nothing of what has no rule, or of which every segment has one. */
TEST(words_without_forms)
{
    static const char *const table[] = {"",
                                        "a",
                                        "of",
                                        "the",
                                        "that",
                                        "Harbour",
                                        "caf\xc3\xa9",
                                        "x1y",
                                        "harbour!",
                                        "\xd0\xb4\xd0\xbe\xd0\xbc",
                                        "abcdefghijklmnopqrstuvwxyzabcdefghijklmnop"};
    struct word_forms f;

    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        word_forms(table[i], &f);
        assert_int_equal(f.count, 0);
    }
}

/* Of whatever word: each form once, none is the word, all are small letters, and none is cut. */
TEST(forms_are_whole)
{
    static const char *const parts[] = {"a",    "s",    "ing",  "ed", "our", "re",
                                        "ise",  "ll",   "y",    "e",  "ie",  "travel",
                                        "harb", "ogue", "cent", "z",  "ch",  "programm"};
    const size_t n = sizeof(parts) / sizeof(parts[0]);
    struct word_forms f;
    size_t most = 0;

    for (size_t i = 0; i < n * n * n; i++) {
        char word[64];

        snprintf(word, sizeof(word), "%s%s%s", parts[i % n], parts[i / n % n], parts[i / n / n]);
        word_forms(word, &f);
        most = f.count > most ? f.count : most;
        for (size_t k = 0; k < f.count; k++) {
            size_t len = strlen(f.list[k]);

            assert_true(len > 1 && len < SPELLING_BYTES);
            assert_int_equal(strspn(f.list[k], "abcdefghijklmnopqrstuvwxyz"), len);
            assert_string_not_equal(f.list[k], word);
            for (size_t other = 0; other < k; other++)
                assert_string_not_equal(f.list[k], f.list[other]);
        }
    }
    assert_true(most > 10 && most <= WORD_FORMS_MOST);
}

TEST_MAIN(NULL, NULL)
