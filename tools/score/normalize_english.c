/* Fillers, contractions, titles, and the text around numbers; the numbers themselves are
 * normalize_numbers.c's. */

#include "tools/score/normalize_english.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/buf.h"
#include "tools/score/normalize_numbers.h"
#include "workers/text/codepoints.h"

/* ---- the steps that normalisers are made of */

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

/* ---- the English normaliser */

#define POUND 0xA3
#define EURO 0x20AC
#define CENT 0xA2

static bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }
static bool is_letter(int32_t c) { return c >= 'a' && c <= 'z'; }
static bool is_money(int32_t c) { return c == '$' || c == POUND || c == EURO; }

/* Code point i, -1 past the end. */
static int32_t at(const struct codepoints *t, size_t i) { return i < t->len ? t->at[i] : -1; }

/* Does ASCII s stand at i? */
static bool matches_ascii_at(const struct codepoints *t, size_t i, const char *s)
{
    for (; *s; s++, i++)
        if (at(t, i) != (unsigned char)*s)
            return false;
    return true;
}

/* Does a word begin or end between i - 1 and i? */
static bool is_edge(const struct codepoints *t, size_t i)
{
    return (i > 0 && codepoint_is_word(t->at[i - 1])) !=
           (i < t->len && codepoint_is_word(t->at[i]));
}

static size_t past_blanks(const struct codepoints *t, size_t i)
{
    while (i < t->len && codepoint_is_blank(t->at[i]))
        i++;
    return i;
}

/* ------------------------------------------------------------------------------- words */

/* Forms and their replacements. The order matters: a longer form stands before one that is its end.
 * A form that begins with an apostrophe or "n't" is an ending, the others are whole words. */
static const struct {
    const char *said, *meant;
} forms[] = {
    {"won't", "will not"},
    {"can't", "can not"},
    {"let's", "let us"},
    {"ain't", "aint"},
    {"y'all", "you all"},
    {"wanna", "want to"},
    {"kinda", "kind of"},
    {"sorta", "sort of"},
    {"dunno", "do not know"},
    {"gotta", "got to"},
    {"gonna", "going to"},
    {"i'ma", "i am going to"},
    {"imma", "i am going to"},
    {"woulda", "would have"},
    {"coulda", "could have"},
    {"shoulda", "should have"},
    {"cause", "because"},
    {"ma'am", "madam"},
    {"mr", "mister "},
    {"mrs", "missus "},
    {"jr", "junior "},
    {"sr", "senior "},
    {"esq", "esquire "},
    {"st", "saint "},
    {"dr", "doctor "},
    {"prof", "professor "},
    {"rev", "reverend "},
    {"hon", "honorable "},
    {"asst", "assistant "},
    {"assoc", "associate "},
    {"capt", "captain "},
    {"lt", "lieutenant "},
    {"col", "colonel "},
    {"gen", "general "},
    {"gov", "governor "},
    {"ald", "alderman "},
    {"sen", "senator "},
    {"rep", "representative "},
    {"pres", "president "},
    {"'d been", " had been"},
    {"'s been", " has been"},
    {"'d gone", " had gone"},
    {"'s gone", " has gone"},
    {"'d done", " had done"},
    {"'s got", " has got"},
    {"n't", " not"},
    {"'re", " are"},
    {"'s", " is"},
    {"'d", " would"},
    {"'ll", " will"},
    {"'t", " not"},
    {"'ve", " have"},
    {"'m", " am"},
};

static void replace_phrase(struct codepoints *out, const struct codepoints *in, const char *said,
                           const char *meant, bool whole)
{
    size_t len = strlen(said);

    for (size_t i = 0; i < in->len && !out->failed;) {
        if (in->at[i] == said[0] && matches_ascii_at(in, i, said) && is_edge(in, i + len) &&
            (!whole || is_edge(in, i))) {
            codepoints_put_ascii(out, meant);
            i += len;
        } else {
            codepoints_put(out, in->at[i++]);
        }
    }
}

static void write_in_full(struct codepoints *text, struct codepoints *spare)
{
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        bool ending = forms[i].said[0] == '\'' || strcmp(forms[i].said, "n't") == 0;
        struct codepoints was = *text;

        spare->len = 0;
        replace_phrase(spare, text, forms[i].said, forms[i].meant, !ending);
        spare->failed |= text->failed;
        *text = *spare;
        *spare = was;
    }
}

static void drop_fillers(struct codepoints *out, const struct codepoints *in)
{
    static const char *const fillers[] = {"hmm", "mm", "mhm", "mmm", "uh", "um"};

    for (size_t i = 0; i < in->len && !out->failed;) {
        size_t end = i;
        bool filler = false;

        while (end < in->len && codepoint_is_word(in->at[end]))
            end++;
        for (size_t k = 0; k < sizeof(fillers) / sizeof(fillers[0]); k++)
            filler |= end - i == strlen(fillers[k]) && matches_ascii_at(in, i, fillers[k]);
        if (end == i)
            end++;
        for (size_t k = i; k < end && !filler; k++)
            codepoints_put(out, in->at[k]);
        i = end;
    }
}

/* "it 's" is "it's". */
static void close_apostrophes(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed;) {
        size_t end = past_blanks(in, i);

        if (end == i)
            end++;
        else if (at(in, end) == '\'')
            i = end++;
        for (; i < end; i++)
            codepoints_put(out, in->at[i]);
    }
}

/* ------------------------------------------------------------------------------- signs */

static void drop_commas_in_numbers(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        codepoints_put(out, in->at[i]);
        /* The digit behind is used up with the comma: of "1,2,3" the second comma stays. */
        if (at(in, i + 1) == ',' && codepoint_digit(in->at[i]) >= 0 && i + 2 < in->len &&
            codepoint_digit(in->at[i + 2]) >= 0) {
            codepoints_put(out, in->at[i + 2]);
            i += 2;
        }
    }
}

/* A period stays before a digit. So does one behind another, which is looked at with it. */
static void drop_periods(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        bool drop = in->at[i] == '.' && !is_digit(at(in, i + 1));

        codepoints_put(out, drop ? ' ' : in->at[i]);
        if (drop && ++i < in->len)
            codepoints_put(out, in->at[i]);
    }
}

static void drop_signs(struct codepoints *out, const struct codepoints *in)
{
    static const int32_t numeric[] = {'.', '%', '$', CENT, EURO, POUND, 0};

    normalize_drop_symbols_and_diacritics(out, in, numeric);
}

static void drop_lone_prefixes(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        int32_t c = in->at[i];
        bool drop =
            (c == '.' || c == CENT || is_money(c)) && i + 1 < in->len && !is_digit(in->at[i + 1]);

        codepoints_put(out, drop ? ' ' : c);
        if (drop)
            codepoints_put(out, in->at[++i]);
    }
}

static void drop_lone_percents(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        codepoints_put(out, in->at[i]);
        if (!is_digit(in->at[i]) && at(in, i + 1) == '%') {
            codepoints_put(out, ' ');
            i++;
        }
    }
}

/* ------------------------------------------------------------------------------- around numbers */

/* The end of "and a half" at i; 0 when it does not stand there. */
static size_t past_and_a_half(const struct codepoints *t, size_t i)
{
    static const char *const words[] = {"and", "a", "half"};

    for (size_t k = 0; k < 3; k++) {
        size_t from = k > 0 ? past_blanks(t, i) : i;

        if ((k > 0 && from == i) || !matches_ascii_at(t, from, words[k]) || !is_edge(t, from))
            return 0;
        i = from + strlen(words[k]);
    }
    return is_edge(t, i) ? i : 0;
}

/* Is the last word of what is between begin and end an amount? */
static bool ends_in_amount(const struct codepoints *t, size_t begin, size_t end)
{
    char word[16];
    size_t from, len = 0;

    while (end > begin && codepoint_is_blank(t->at[end - 1]))
        end--;
    for (from = end; from > begin && !codepoint_is_blank(t->at[from - 1]);)
        from--;
    for (; from < end; from++) {
        if (t->at[from] < 0x20 || t->at[from] >= 0x7F || len == sizeof(word))
            return false;
        word[len++] = (char)t->at[from];
    }
    return normalize_is_amount(word, len);
}

/* "two and a half" is "two point five". Without anything before it it is left out. */
static void resolve_halves(struct codepoints *out, const struct codepoints *in)
{
    size_t from = 0; /* what is not yet written */

    for (size_t i = 0; i <= in->len && !out->failed; i++) {
        size_t end = i < in->len && in->at[i] == 'a' ? past_and_a_half(in, i) : 0;

        if (i < in->len && end == 0)
            continue;
        if (past_blanks(in, from) < i) {
            if (out->len > 0)
                codepoints_put(out, ' ');
            for (size_t k = from; k < i; k++)
                codepoints_put(out, in->at[k]);
            if (end > 0)
                codepoints_put_ascii(out,
                                     ends_in_amount(in, from, i) ? " point five" : " and a half");
        }
        from = end;
        if (end > 0)
            i = end - 1;
    }
}

static void part_letters_from_digits(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        int32_t c = in->at[i], next = at(in, i + 1);

        codepoints_put(out, c);
        if ((is_letter(c) && is_digit(next)) || (is_digit(c) && is_letter(next)))
            codepoints_put(out, ' ');
    }
}

/* "1960 s" is "1960s". */
static void join_endings(struct codepoints *out, const struct codepoints *in)
{
    static const char *const endings[] = {"st", "nd", "rd", "th", "s"};

    for (size_t i = 0; i < in->len && !out->failed; i++) {
        size_t end = is_digit(in->at[i]) ? past_blanks(in, i + 1) : i + 1;

        codepoints_put(out, in->at[i]);
        for (size_t k = 0; end > i + 1 && k < 5; k++)
            if (matches_ascii_at(in, end, endings[k]) && is_edge(in, end + strlen(endings[k]))) {
                codepoints_put_ascii(out, endings[k]);
                i = end + strlen(endings[k]) - 1;
                break;
            }
    }
}

/* Digits at i, at most max: how many, so that a word ends behind them; else 0. */
static size_t closing_digits(const struct codepoints *t, size_t i, size_t max)
{
    size_t n = 0;

    while (n < max && is_digit(at(t, i + n)))
        n++;
    return n > 0 && is_edge(t, i + n) ? n : 0;
}

/* "$2 and ¢7" is "$2.07". */
static void join_cents(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        size_t whole = i + 1, cents, n = 0;

        codepoints_put(out, in->at[i]);
        if (!is_money(in->at[i]))
            continue;
        while (is_digit(at(in, whole)))
            whole++;
        cents = whole + 1 + (matches_ascii_at(in, whole, " and ") ? 4 : 0);
        if (whole > i + 1 && at(in, whole) == ' ' && at(in, cents) == CENT)
            n = closing_digits(in, cents + 1, 2);
        if (n == 0)
            continue;
        while (++i < whole)
            codepoints_put(out, in->at[i]);
        codepoints_put_ascii(out, n == 1 ? ".0" : ".");
        for (size_t k = 1; k <= n; k++)
            codepoints_put(out, in->at[cents + k]);
        i = cents + n;
    }
}

/* "$0.07" is "¢7"; so is "$0 07", as any character will do for the point. */
static void write_as_cents(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        size_t n =
            is_money(in->at[i]) && at(in, i + 1) == '0' && i + 2 < in->len && in->at[i + 2] != '\n'
                ? closing_digits(in, i + 3, 2)
                : 0;

        codepoints_put(out, n > 0 ? CENT : in->at[i]);
        if (n == 0)
            continue;
        if (n == 1 || in->at[i + 3] != '0')
            codepoints_put(out, in->at[i + 3]);
        if (n == 2)
            codepoints_put(out, in->at[i + 4]);
        i += 2 + n;
    }
}

static void write_one(struct codepoints *out, const struct codepoints *in)
{
    for (size_t i = 0; i < in->len && !out->failed; i++) {
        bool one = in->at[i] == '1' && is_edge(in, i) &&
                   (is_edge(in, i + 1) || (at(in, i + 1) == 's' && is_edge(in, i + 2)));

        if (one)
            codepoints_put_ascii(out, "one");
        else
            codepoints_put(out, in->at[i]);
    }
}

/* Numbers and spellings look at words as bytes; both leave one blank between two words. */
static void put_numbers(struct codepoints *out, const struct codepoints *in)
{
    char *text = codepoints_utf8(in);
    struct buf words = BUF_INIT;

    if (text)
        normalize_numbers(text, &words);
    if (!text || words.failed)
        out->failed = true;
    else if (words.len > 0)
        codepoints_put_utf8(out, (const char *)words.data, words.len);
    buf_free(&words);
    free(text);
}

static void put_spellings(struct codepoints *out, const struct codepoints *in,
                          const struct spellings *spellings)
{
    char *text = codepoints_utf8(in), *s = text;

    out->failed |= text == NULL;
    while (s && *s && !out->failed) {
        size_t len = strcspn(s, " ");
        const char *other = len > 0 && spellings ? spellings_find(spellings, s, len) : NULL;

        if (len > 0 && out->len > 0)
            codepoints_put(out, ' ');
        codepoints_put_utf8(out, other ? other : s, other ? strlen(other) : len);
        s += len + (s[len] == ' ');
    }
    free(text);
}

void normalize_english(struct codepoints *text, struct codepoints *spare,
                       const struct spellings *spellings)
{
    static const normalize_step before[] = {drop_commas_in_numbers,
                                            drop_periods,
                                            drop_signs,
                                            resolve_halves,
                                            part_letters_from_digits,
                                            join_endings,
                                            normalize_one_blank,
                                            put_numbers,
                                            join_cents,
                                            write_as_cents,
                                            write_one};
    struct codepoints was;

    normalize_apply(drop_fillers, text, spare);
    normalize_apply(close_apostrophes, text, spare);
    write_in_full(text, spare);
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
        normalize_apply(before[i], text, spare);
    was = *text;
    spare->len = 0;
    put_spellings(spare, text, spellings);
    spare->failed |= text->failed;
    *text = *spare;
    *spare = was;
    normalize_apply(drop_lone_prefixes, text, spare);
    normalize_apply(drop_lone_percents, text, spare);
    normalize_apply(normalize_one_blank, text, spare);
}
