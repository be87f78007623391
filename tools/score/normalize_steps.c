#include "tools/score/normalize_steps.h"

#include <string.h>
#include <utf8proc.h>

void normalize_apply(normalize_step step, struct codepoints *text, struct codepoints *spare)
{
    struct codepoints was = *text;

    spare->len = 0;
    step(spare, text);
    spare->failed |= text->failed;
    *text = *spare;
    *spare = was;
}

/* Leaves out from an opening sign to the next closing one. An opening sign that nothing closes
 * stays. Looks for a closing one only once when there is none: time grows with the length alone. */
static void drop_between(struct codepoints *out, const struct codepoints *in, const char *open,
                         const char *close, size_t inside_min)
{
    size_t end = 0; /* the first closing sign that may end what opens here */

    for (size_t i = 0; i < in->len && !out->failed; i++) {
        int32_t c = in->at[i];

        if (c <= 0 || c >= 128 || !strchr(open, c)) {
            codepoints_put(out, c);
            continue;
        }
        if (end < i + 1)
            end = i + 1;
        while (end < in->len &&
               (in->at[end] <= 0 || in->at[end] >= 128 || !strchr(close, in->at[end])))
            end++;
        if (end < in->len && end - i - 1 >= inside_min)
            i = end;
        else
            codepoints_put(out, c);
    }
}

void normalize_drop_bracketed(struct codepoints *out, const struct codepoints *in)
{
    drop_between(out, in, "<[", ">]", 0);
}

void normalize_drop_parenthesised(struct codepoints *out, const struct codepoints *in)
{
    drop_between(out, in, "(", ")", 1);
}

void normalize_one_blank(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++)
        if (!codepoint_is_blank(in->at[i]))
            codepoints_put(out, in->at[i]);
        else if (i == 0 || !codepoint_is_blank(in->at[i - 1]))
            codepoints_put(out, ' ');
}

/* Mark, punctuation or symbol. */
static bool is_sign(int32_t c)
{
    utf8proc_category_t k = utf8proc_category(c);

    return (k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME) ||
           (k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_SO);
}

void normalize_drop_symbols(struct codepoints *out, const struct codepoints *in)
{
    struct codepoints parts = {0};

    codepoints_decompose(&parts, in, true);
    for (size_t i = 0; i < parts.len; i++)
        codepoints_put(out, is_sign(parts.at[i]) ? ' ' : parts.at[i]);
    out->failed |= parts.failed;
    codepoints_free(&parts);
}

/* Letters whose mark is no part that Unicode takes off. */
static const char *plain_latin(int32_t c)
{
    static const struct {
        int32_t c;
        const char *plain;
    } letters[] = {
        {0xC6, "AE"}, {0xD0, "D"},   {0xD8, "O"},   {0xDE, "th"},   {0xDF, "ss"}, {0xE6, "ae"},
        {0xF0, "d"},  {0xF8, "o"},   {0xFE, "th"},  {0x110, "D"},   {0x111, "d"}, {0x141, "L"},
        {0x142, "l"}, {0x152, "OE"}, {0x153, "oe"}, {0x1E9E, "SS"},
    };

    for (size_t i = 0; c >= 0xC6 && i < sizeof(letters) / sizeof(letters[0]); i++)
        if (letters[i].c == c)
            return letters[i].plain;
    return NULL;
}

static bool is_one_of(int32_t c, const int32_t *list)
{
    for (; *list; list++)
        if (*list == c)
            return true;
    return false;
}

void normalize_drop_symbols_and_diacritics(struct codepoints *out, const struct codepoints *in,
                                           const int32_t *keep)
{
    struct codepoints parts = {0};

    codepoints_decompose(&parts, in, false);
    for (size_t i = 0; i < parts.len; i++) {
        int32_t c = parts.at[i];
        const char *plain = plain_latin(c);

        if (plain)
            codepoints_put_ascii(out, plain);
        else if (!is_sign(c) || is_one_of(c, keep))
            codepoints_put(out, c);
        else if (utf8proc_category(c) != UTF8PROC_CATEGORY_MN)
            codepoints_put(out, ' ');
    }
    out->failed |= parts.failed;
    codepoints_free(&parts);
}
