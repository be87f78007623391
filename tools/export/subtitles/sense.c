#include "tools/export/subtitles/sense.h"

#include <string.h>
#include <strings.h>

#include <utf8proc.h>

#include "tools/export/subtitles/pieces.h"

#define SENSE_CLAUSE 10
#define SENSE_BEFORE_CONJUNCTION 20
#define SENSE_BEFORE_PREPOSITION 30
#define SENSE_NAME 120
#define SENSE_WORD 400 /* a word too long for a line, or letters without a blank between */

/* Each set is one text: a blank before and behind each word. */
struct words {
    const char *language, *holds, *conjunctions, *prepositions, *titles;
};
static const struct words tables[] = {
    {"en",
     " a an the this that these those my your his her its our their of to in on at by for from "
     "with "
     "without into onto upon under over between among through about against during before after "
     "behind beside near since until as than no not very so too every each some any "
     "is are was were be been am do does did have has had will would can could shall should may "
     "might must i'm you're we're they're don't didn't isn't wasn't ",
     " and but or nor so because that which who whom when where while if though although unless ",
     " of to in on at by for from with without into under over between among through about against "
     "during before after behind near since until ",
     " mr mrs ms dr prof st mt sr jr no "},
    {"es",
     " el la los las lo un una unos unas al del de a en con por para sin sobre entre hasta desde "
     "hacia "
     "según tras durante contra bajo ante mi mis tu tus su sus nuestro nuestra nuestros nuestras "
     "este esta estos estas ese esa esos esas aquel aquella aquellos aquellas que qué y o e u ni "
     "no muy más tan cada algún alguna ningún ninguna se me te le les nos os es son era eran fue "
     "ha han he hemos había habían está están ",
     " y e o u pero sino porque que cuando donde aunque si mientras como pues ",
     " de a en con por para sin sobre entre hasta desde hacia según tras durante contra bajo ante ",
     " sr sra srta dr dra d dª don doña ud uds "},
};

static bool is_word(const char *set, const char *word, size_t len)
{
    for (const char *at = set; len > 0 && *at; at++)
        if (*at == ' ' && strncasecmp(at + 1, word, len) == 0 && at[1 + len] == ' ')
            return true;
    return false;
}

static const struct words *table_of(const char *language)
{
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (strcmp(tables[i].language, language) == 0)
            return &tables[i];
    return NULL;
}

static const char *text_of(const struct subtitles *s, const struct subtitle_piece *p)
{
    return (const char *)s->text.data + p->at;
}

/* The word without quotes and marks of punctuation around it. */
static const char *bare(const struct subtitles *s, const struct subtitle_piece *p, size_t *len)
{
    const char *text = text_of(s, p);
    size_t from = 0, to = p->len;

    while (from < to && strchr("\"'([{-*", text[from]))
        from++;
    while (to > from && strchr("\"')]}.,;:!?-*", text[to - 1]))
        to--;
    *len = to - from;
    return text + from;
}

/* The last character but for closing quotes and brackets. */
static int32_t last_mark(const struct subtitles *s, const struct subtitle_piece *p)
{
    const char *text = text_of(s, p);
    int32_t last = 0;

    for (size_t i = 0; i < p->len;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                              (utf8proc_ssize_t)(p->len - i), &c);

        i += n > 0 ? (size_t)n : 1;
        if (n > 0 && !(c < 0x80 && strchr("\"')]", c)) && c != 0x201D && c != 0x2019 && c != 0xBB &&
            c != 0x300D && c != 0x300F)
            last = c;
    }
    return last;
}

static bool is_title(const struct subtitles *s, const struct subtitle_piece *p)
{
    size_t len;
    const char *word = bare(s, p, &len);

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (text_of(s, p)[p->len - 1] == '.' && is_word(tables[i].titles, word, len))
            return true;
    return false;
}

bool sense_ends_sentence(const struct subtitles *s, const struct subtitle_piece *a)
{
    int32_t mark = last_mark(s, a);

    return (mark == '.' || mark == '?' || mark == '!' || mark == 0x2026 || mark == 0x3002 ||
            mark == 0xFF1F || mark == 0xFF01 || mark == 0x0964 || mark == 0x061F ||
            mark == 0x06D4) &&
           !is_title(s, a);
}

static bool is_clause(int32_t mark)
{
    return mark == ',' || mark == ';' || mark == ':' || mark == 0x2014 || mark == 0x2013 ||
           mark == 0x3001 || mark == 0xFF0C || mark == 0xFF1B || mark == 0xFF1A || mark == 0x060C ||
           mark == 0x061B;
}

static bool is_capital(const char *s, size_t len)
{
    utf8proc_int32_t c;

    return len > 0 &&
           utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)len, &c) > 0 &&
           utf8proc_category(c) == UTF8PROC_CATEGORY_LU;
}

static int32_t first_of(const struct subtitles *s, const struct subtitle_piece *p)
{
    utf8proc_int32_t c;

    return utf8proc_iterate((const utf8proc_uint8_t *)text_of(s, p), (utf8proc_ssize_t)p->len, &c) >
                   0
               ? c
               : 0;
}

/* Without blanks: a Japanese phrase ends in hiragana, and the next one begins with what is none. */
static unsigned torn_characters(int32_t last, int32_t first)
{
    bool kana = last >= 0x3041 && last <= 0x309F, next = first >= 0x3041 && first <= 0x309F;

    if (!pieces_wide_script(last) && !pieces_wide_script(first))
        return SENSE_WORD;
    return kana && !next ? SENSE_BEFORE_PREPOSITION : next ? 100 : 70;
}

unsigned sense_torn(const struct subtitles *s, const struct subtitle_piece *a,
                    const struct subtitle_piece *b, const char *language)
{
    const struct words *table = table_of(language);
    size_t alen, blen;
    const char *one = bare(s, a, &alen), *other = bare(s, b, &blen);
    int32_t mark = last_mark(s, a);

    if (sense_ends_sentence(s, a))
        return SENSE_WHOLE;
    if (is_clause(mark))
        return SENSE_CLAUSE;
    if (!b->blank)
        return torn_characters(mark, first_of(s, b));
    if (is_title(s, a) || (table && is_word(table->holds, one, alen)))
        return SENSE_TORN;
    if (table && is_word(table->conjunctions, other, blen))
        return SENSE_BEFORE_CONJUNCTION;
    if (table && is_word(table->prepositions, other, blen))
        return SENSE_BEFORE_PREPOSITION;
    if ((is_capital(one, alen) && is_capital(other, blen)) ||
        (alen > 0 && one[alen - 1] >= '0' && one[alen - 1] <= '9'))
        return SENSE_NAME;
    return SENSE_PLAIN;
}
