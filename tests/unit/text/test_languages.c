/* Names of languages, and their codes. */
#include "tests/common/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "workers/text/languages.h"

TEST(test_codes)
{
    static const char *const wanted[][2] = {
        {"en", "en"},
        {"EN", "en"},
        {"English", "en"},
        {"german", "de"},
        {"Castilian", "es"},
        {"mandarin", "zh"},
        {"Flemish", "nl"},
        {"haitian creole", "ht"},
        {"Cantonese", "yue"},
        {"HAW", "haw"},
        {"Español", "es"},
        {"ESPAÑOL", "es"},
        {"Espan\xcc\x83ol", "es"}, /* n, and the tilde by itself */
        {"ΕΛΛΗΝΙΚΆ", "el"},
        {"日本語", "ja"},
    };

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        const char *code = language_code(wanted[i][0]);

        assert_non_null(code);
        assert_string_equal(code, wanted[i][1]);
    }
}

TEST(test_no_codes)
{
    static const char *const none[] = {"", " ", "xx", "engli", "english ", "en,de", "\xff", "auto"};
    char *lengthy = malloc(100001);

    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        assert_null(language_code(none[i]));
    memset(lengthy, 'e', 100000);
    lengthy[100000] = 0;
    assert_null(language_code(lengthy));
    free(lengthy);
}

/* Each name is its own lower case and one language's alone: each leads to a code, which a name that
 * stood twice, or in capitals, would not. */
TEST(test_table)
{
    const char *names[LANGUAGE_NAMES_MAX];
    size_t n = language_names(names, LANGUAGE_NAMES_MAX), english = 0;

    assert_in_range(n, 100, LANGUAGE_NAMES_MAX - 1); /* all of them fit */
    assert_int_equal(language_names(names, 3), 3);
    n = language_names(names, LANGUAGE_NAMES_MAX);
    for (size_t i = 0; i < n; i++) {
        const char *code = language_code(names[i]);

        assert_true(utf8_valid(names[i], strlen(names[i])));
        assert_non_null(code);
        assert_true(strspn(code, "abcdefghijklmnopqrstuvwxyz") == strlen(code));
        assert_string_equal(language_code(code), code);
        assert_non_null(language_name(code));
        assert_string_equal(language_code(language_name(code)), code);
        english += strcmp(language_name(code), names[i]) == 0;
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(names[k], names[i]);
    }
    assert_int_equal(english, 100); /* Whisper's, of large-v3 */
    assert_string_equal(language_name("es"), "spanish");
    assert_null(language_name("xx"));
}

TEST_MAIN(NULL, NULL)
