#include "workers/text/languages.h"

#include <stdlib.h>
#include <string.h>

#include "workers/text/codepoints.h"

#define NAME_MAX_BYTES 64 /* longer words are no language */

/* First all codes in the order of their tokens. A code's first name is its English one; behind
 * those are other names, some of them their speakers' own. Lower case, composed (NFC). */
static const struct {
    const char *code, *name;
} table[] = {
    {"en", "english"},
    {"zh", "chinese"},
    {"de", "german"},
    {"es", "spanish"},
    {"ru", "russian"},
    {"ko", "korean"},
    {"fr", "french"},
    {"ja", "japanese"},
    {"pt", "portuguese"},
    {"tr", "turkish"},
    {"pl", "polish"},
    {"ca", "catalan"},
    {"nl", "dutch"},
    {"ar", "arabic"},
    {"sv", "swedish"},
    {"it", "italian"},
    {"id", "indonesian"},
    {"hi", "hindi"},
    {"fi", "finnish"},
    {"vi", "vietnamese"},
    {"he", "hebrew"},
    {"uk", "ukrainian"},
    {"el", "greek"},
    {"ms", "malay"},
    {"cs", "czech"},
    {"ro", "romanian"},
    {"da", "danish"},
    {"hu", "hungarian"},
    {"ta", "tamil"},
    {"no", "norwegian"},
    {"th", "thai"},
    {"ur", "urdu"},
    {"hr", "croatian"},
    {"bg", "bulgarian"},
    {"lt", "lithuanian"},
    {"la", "latin"},
    {"mi", "maori"},
    {"ml", "malayalam"},
    {"cy", "welsh"},
    {"sk", "slovak"},
    {"te", "telugu"},
    {"fa", "persian"},
    {"lv", "latvian"},
    {"bn", "bengali"},
    {"sr", "serbian"},
    {"az", "azerbaijani"},
    {"sl", "slovenian"},
    {"kn", "kannada"},
    {"et", "estonian"},
    {"mk", "macedonian"},
    {"br", "breton"},
    {"eu", "basque"},
    {"is", "icelandic"},
    {"hy", "armenian"},
    {"ne", "nepali"},
    {"mn", "mongolian"},
    {"bs", "bosnian"},
    {"kk", "kazakh"},
    {"sq", "albanian"},
    {"sw", "swahili"},
    {"gl", "galician"},
    {"mr", "marathi"},
    {"pa", "punjabi"},
    {"si", "sinhala"},
    {"km", "khmer"},
    {"sn", "shona"},
    {"yo", "yoruba"},
    {"so", "somali"},
    {"af", "afrikaans"},
    {"oc", "occitan"},
    {"ka", "georgian"},
    {"be", "belarusian"},
    {"tg", "tajik"},
    {"sd", "sindhi"},
    {"gu", "gujarati"},
    {"am", "amharic"},
    {"yi", "yiddish"},
    {"lo", "lao"},
    {"uz", "uzbek"},
    {"fo", "faroese"},
    {"ht", "haitian creole"},
    {"ps", "pashto"},
    {"tk", "turkmen"},
    {"nn", "nynorsk"},
    {"mt", "maltese"},
    {"sa", "sanskrit"},
    {"lb", "luxembourgish"},
    {"my", "myanmar"},
    {"bo", "tibetan"},
    {"tl", "tagalog"},
    {"mg", "malagasy"},
    {"as", "assamese"},
    {"tt", "tatar"},
    {"haw", "hawaiian"},
    {"ln", "lingala"},
    {"ha", "hausa"},
    {"ba", "bashkir"},
    {"jw", "javanese"},
    {"su", "sundanese"},
    {"yue", "cantonese"},

    {"my", "burmese"},
    {"ca", "valencian"},
    {"nl", "flemish"},
    {"ht", "haitian"},
    {"lb", "letzeburgesch"},
    {"ps", "pushto"},
    {"pa", "panjabi"},
    {"ro", "moldavian"},
    {"ro", "moldovan"},
    {"si", "sinhalese"},
    {"es", "castilian"},
    {"zh", "mandarin"},
    {"fa", "farsi"},
    {"tl", "filipino"},
    {"no", "bokmål"},
    {"jw", "jv"},
    {"no", "nb"},
    {"he", "iw"},
    {"sl", "slovene"},
    {"de", "deutsch"},
    {"es", "español"},
    {"fr", "français"},
    {"it", "italiano"},
    {"pt", "português"},
    {"nl", "nederlands"},
    {"pl", "polski"},
    {"ru", "русский"},
    {"uk", "українська"},
    {"cs", "čeština"},
    {"sk", "slovenčina"},
    {"sl", "slovenščina"},
    {"hr", "hrvatski"},
    {"sr", "српски"},
    {"bg", "български"},
    {"el", "ελληνικά"},
    {"tr", "türkçe"},
    {"sv", "svenska"},
    {"da", "dansk"},
    {"no", "norsk"},
    {"fi", "suomi"},
    {"is", "íslenska"},
    {"hu", "magyar"},
    {"ro", "română"},
    {"ca", "català"},
    {"eu", "euskara"},
    {"gl", "galego"},
    {"lv", "latviešu"},
    {"lt", "lietuvių"},
    {"cy", "cymraeg"},
    {"mt", "malti"},
    {"vi", "tiếng việt"},
    {"id", "bahasa indonesia"},
    {"ms", "bahasa melayu"},
    {"ar", "العربية"},
    {"he", "עברית"},
    {"fa", "فارسی"},
    {"hi", "हिन्दी"},
    {"ja", "日本語"},
    {"ko", "한국어"},
    {"zh", "中文"},
    {"th", "ไทย"},
};
#define COUNT (sizeof(table) / sizeof(table[0]))

/* In lower case and composed, as the names are. NULL: no memory. */
static char *fold_word(const char *word)
{
    struct codepoints as_is = {0}, composed = {0}, lower = {0};
    char *ret;

    codepoints_put_utf8(&as_is, word, strlen(word));
    codepoints_lower(&lower, &as_is);
    codepoints_canonical(&composed, &lower, true);
    ret = as_is.failed || lower.failed ? NULL : codepoints_utf8(&composed);
    codepoints_free(&as_is);
    codepoints_free(&lower);
    codepoints_free(&composed);
    return ret;
}

const char *language_code(const char *word)
{
    char *plain = strlen(word) <= NAME_MAX_BYTES ? fold_word(word) : NULL;
    const char *ret = NULL;

    for (size_t i = 0; plain && !ret && i < COUNT; i++)
        if (strcmp(table[i].code, plain) == 0 || strcmp(table[i].name, plain) == 0)
            ret = table[i].code;
    free(plain);
    return ret;
}

const char *language_name(const char *code)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(table[i].code, code) == 0)
            return table[i].name;
    return NULL;
}

const char *language_token(size_t i) { return i < LANGUAGE_TOKENS_MAX ? table[i].code : NULL; }

bool language_without_blanks(const char *code)
{
    static const char *const codes[] = {"zh", "ja", "th", "lo", "my", "yue"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return false;
}

size_t language_names(const char **ret, size_t capacity)
{
    const size_t n = COUNT < capacity ? COUNT : capacity;

    for (size_t i = 0; i < n; i++)
        ret[i] = table[i].name;
    return n;
}
