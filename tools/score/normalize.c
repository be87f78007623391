#include "tools/score/normalize.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "tools/score/normalize_english.h"

static const char *const names[] = {"none", "basic", "english"};

int normalizer_from_name(const char *name)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return -1;
}

const char *normalizer_name(enum normalizer n) { return names[n]; }

bool normalize_wants_letters(const char *language)
{
    static const char *const without_blanks[] = {"zh", "ja", "th", "lo", "my", "yue"};

    for (size_t i = 0; i < sizeof(without_blanks) / sizeof(without_blanks[0]); i++)
        if (strcmp(language, without_blanks[i]) == 0)
            return true;
    return false;
}

static void drop_all_signs(struct codepoints *out, const struct codepoints *in)
{
    static const int32_t nothing[] = {0};

    normalize_drop_symbols_and_diacritics(out, in, nothing);
}

/* A blank between what a reader takes for characters (Unicode's grapheme clusters). */
static void part_letters(struct codepoints *out, const struct codepoints *in)
{
    utf8proc_int32_t state = 0;

    for (size_t i = 0; i < in->len && !out->failed; i++) {
        if (i > 0 && utf8proc_grapheme_break_stateful(in->at[i - 1], in->at[i], &state))
            codepoints_put(out, ' ');
        codepoints_put(out, in->at[i]);
    }
}

static void normalize_basic(struct codepoints *text, struct codepoints *spare,
                            const struct normalize_options *o)
{
    normalize_apply(o->remove_diacritics ? drop_all_signs : normalize_drop_symbols, text, spare);
    normalize_apply(codepoints_lower, text, spare);
    if (o->split_letters)
        normalize_apply(part_letters, text, spare);
    normalize_apply(normalize_one_blank, text, spare);
}

int normalize(const struct normalize_options *o, const char *text, size_t len, char **ret,
              struct err *err)
{
    struct codepoints t = {0}, spare = {0};
    char *result;

    codepoints_put_utf8(&t, text, len);
    if (o->normalizer != NORMALIZE_NONE) {
        normalize_apply(codepoints_lower, &t, &spare);
        normalize_apply(normalize_drop_bracketed, &t, &spare);
        normalize_apply(normalize_drop_parenthesised, &t, &spare);
    }
    if (o->normalizer == NORMALIZE_BASIC)
        normalize_basic(&t, &spare, o);
    else if (o->normalizer == NORMALIZE_ENGLISH)
        normalize_english(&t, &spare, o->spellings);
    result = codepoints_utf8(&t);
    codepoints_free(&t);
    codepoints_free(&spare);
    if (!result)
        return err_set(err, ERR_NOMEM, "out of memory");
    *ret = result;
    return 0;
}
