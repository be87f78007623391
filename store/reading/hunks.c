#include "store/reading/hunks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- which characters part words, and which are words */

struct range {
    uint32_t first, last;
};

static const struct range blanks[] = {
    {0x09, 0x0D},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
};

/* Thai, Lao, Tibetan, Burmese, Khmer; kana, their punctuation and extensions; Han; kana of half a
 * width. Hangul has blanks. */
static const struct range unparted[] = {
    {0x0E00, 0x0EFF}, {0x0F00, 0x0FFF},   {0x1000, 0x109F},   {0x1780, 0x17FF},
    {0x2E80, 0x2FDF}, {0x3001, 0x312F},   {0x31A0, 0x9FFF},   {0xF900, 0xFAFF},
    {0xFF66, 0xFF9F}, {0x1AFF0, 0x1B16F}, {0x20000, 0x3FFFF},
};

/* ASCII, Latin-1, Greek, Armenian, Hebrew, Arabic, Devanagari; general punctuation; Chinese and
 * Japanese, and their wide forms. */
static const struct range punctuation[] = {
    {0x00, 0x2F},     {0x3A, 0x40},     {0x5B, 0x60},     {0x7B, 0xA9},     {0xAB, 0xB1},
    {0xB4, 0xB4},     {0xB6, 0xB8},     {0xBB, 0xBB},     {0xBF, 0xBF},     {0x37E, 0x37E},
    {0x55A, 0x55F},   {0x589, 0x58A},   {0x5BE, 0x5BE},   {0x60C, 0x60D},   {0x61B, 0x61F},
    {0x6D4, 0x6D4},   {0x964, 0x965},   {0x2000, 0x206F}, {0x2E00, 0x2E7F}, {0x3000, 0x3003},
    {0x3008, 0x3020}, {0x3030, 0x3030}, {0xFE30, 0xFE6F}, {0xFF00, 0xFF0F}, {0xFF1A, 0xFF20},
    {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65}, {0xFFFD, 0xFFFD},
};

static bool is_in_ranges(uint32_t c, const struct range *list, size_t n)
{
    size_t i = 0;

    while (i < n && c > list[i].last)
        i++;
    return i < n && c >= list[i].first;
}

/* The bytes of the character, and the code point. */
static size_t decode_codepoint(const unsigned char *s, uint32_t *ret)
{
    size_t n = s[0] < 0xC2 ? 1 : s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : s[0] < 0xF5 ? 4 : 1;
    uint32_t c = n == 1 ? s[0] : s[0] & (0x7Fu >> n);

    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xC0) != 0x80) {
            *ret = 0xFFFD;
            return 1;
        }
        c = c << 6 | (s[i] & 0x3Fu);
    }
    *ret = n == 1 && c >= 0x80 ? 0xFFFD : c;
    return n;
}

enum script script_of(const char *s, size_t *bytes)
{
    uint32_t c;

    *bytes = decode_codepoint((const unsigned char *)s, &c);
    if (is_in_ranges(c, blanks, sizeof(blanks) / sizeof(blanks[0])))
        return SCRIPT_BLANK;
    if (is_in_ranges(c, unparted, sizeof(unparted) / sizeof(unparted[0])))
        return SCRIPT_UNPARTED;
    return SCRIPT_OTHER;
}

bool script_is_punctuation(const char *s, size_t *bytes)
{
    uint32_t c;

    *bytes = decode_codepoint((const unsigned char *)s, &c);
    return is_in_ranges(c, punctuation, sizeof(punctuation) / sizeof(punctuation[0]));
}

/* ---- what differs between two texts, in words */

/* Cells of the table of common words: 16 MiB. A segment has some hundred words, half a minute. */
#define CELLS_MOST (4u << 20)

/* ------------------------------------------------------------------------------------- words */

/* The bytes of the word that begins here. */
static size_t word_length(const char *s)
{
    size_t n = 0;

    for (size_t step; s[n]; n += step) {
        enum script script = script_of(s + n, &step);

        if (script == SCRIPT_BLANK)
            break;
        if (script == SCRIPT_UNPARTED)
            return n ? n : step;
    }
    return n;
}

/* Counts, and where there is a list, fills it. */
static size_t split_words(const char *text, struct hunk_word *list)
{
    size_t count = 0;

    for (size_t at = 0, step; text[at]; at += step) {
        if (script_of(text + at, &step) == SCRIPT_BLANK)
            continue;
        step = word_length(text + at);
        if (list)
            list[count] = (struct hunk_word){at, step};
        count++;
    }
    return count;
}

int hunk_words(const char *text, struct hunk_word **ret, size_t *count, struct err *err)
{
    size_t n = split_words(text, NULL);
    struct hunk_word *list = calloc(n + 1, sizeof(*list));

    if (!list)
        return err_no_memory(err, "comparing two texts");
    split_words(text, list);
    *ret = list;
    *count = n;
    return 0;
}

/* --------------------------------------------------------------------------------- difference */

struct diff {
    const char *said, *meant;
    struct hunks *to;
};

static bool words_equal(const struct diff *d, size_t i, size_t k)
{
    const struct hunk_word *a = &d->to->said[i], *b = &d->to->meant[k];

    return a->len == b->len && memcmp(d->said + a->at, d->meant + b->at, a->len) == 0;
}

/* Appends; what touches the hunk before and shares its word becomes one with it. */
static void append_hunk(struct hunks *h, struct hunk new)
{
    struct hunk *last = h->count ? &h->list[h->count - 1] : NULL;

    if (!last || last->said_at + last->said_count <= new.said_at) {
        h->list[h->count++] = new;
        return;
    }
    last->said_count = new.said_at + new.said_count - last->said_at;
    last->meant_count = new.meant_at + new.meant_count - last->meant_at;
}

/* A pure insertion takes the word before it along or, at the beginning, the word behind it. */
static void put_whole(struct hunks *h, struct hunk new)
{
    if (!new.said_count &&new.said_at) {
        new.said_at--;
        new.meant_at--;
        new.said_count++;
        new.meant_count++;
    } else if (!new.said_count && h->said_count) {
        new.said_count++;
        new.meant_count++;
    }
    append_hunk(h, new);
}

/* The middle, where lengths[i][k] is the longest run of common words of what is left. */
static void collect_hunks(const struct diff *d, const uint32_t *lengths, struct hunk middle)
{
    size_t i = 0, k = 0, row = middle.meant_count + 1;

    while (i < middle.said_count || k < middle.meant_count) {
        struct hunk h = {middle.said_at + i, 0, middle.meant_at + k, 0};

        while (i < middle.said_count || k < middle.meant_count) {
            bool both = i < middle.said_count && k < middle.meant_count;

            if (both && words_equal(d, middle.said_at + i, middle.meant_at + k) &&
                lengths[i * row + k] == lengths[(i + 1) * row + k + 1] + 1)
                break;
            if (i < middle.said_count &&
                (!both || lengths[(i + 1) * row + k] >= lengths[i * row + k + 1]))
                i++, h.said_count++;
            else
                k++, h.meant_count++;
        }
        if (h.said_count || h.meant_count)
            put_whole(d->to, h);
        for (; i < middle.said_count && k < middle.meant_count &&
               words_equal(d, middle.said_at + i, middle.meant_at + k) &&
               lengths[i * row + k] == lengths[(i + 1) * row + k + 1] + 1;
             i++, k++)
            ;
    }
}

static int diff_words(const struct diff *d, struct hunk middle, struct err *err)
{
    size_t rows = middle.said_count + 1, row = middle.meant_count + 1;
    uint32_t *lengths;

    if (rows > CELLS_MOST / row) {
        put_whole(d->to, middle);
        return 0;
    }
    lengths = calloc(rows * row, sizeof(*lengths));
    if (!lengths)
        return err_no_memory(err, "comparing two texts");
    for (size_t i = middle.said_count; i-- > 0;)
        for (size_t k = middle.meant_count; k-- > 0;) {
            uint32_t *at = &lengths[i * row + k];

            if (words_equal(d, middle.said_at + i, middle.meant_at + k))
                *at = at[row + 1] + 1;
            else
                *at = at[row] > at[1] ? at[row] : at[1];
        }
    collect_hunks(d, lengths, middle);
    free(lengths);
    return 0;
}

/* Between the words that both begin with and those that both end with. */
static struct hunk middle_of(const struct diff *d)
{
    size_t n = d->to->said_count, m = d->to->meant_count, at = 0;

    while (at < n && at < m && words_equal(d, at, at))
        at++;
    while (n > at && m > at && words_equal(d, n - 1, m - 1))
        n--, m--;
    return (struct hunk){at, n - at, at, m - at};
}

int hunks_make(const char *said, const char *meant, struct hunks *ret, struct err *err)
{
    struct hunks h = {0};
    struct diff d = {said, meant, &h};
    struct hunk middle;
    int rc = hunk_words(said, &h.said, &h.said_count, err);

    if (rc == 0)
        rc = hunk_words(meant, &h.meant, &h.meant_count, err);
    if (rc == 0) {
        h.list = calloc(h.said_count + h.meant_count + 1, sizeof(*h.list));
        rc = h.list ? 0 : err_no_memory(err, "comparing two texts");
    }
    if (rc == 0) {
        middle = middle_of(&d);
        if (middle.said_count || middle.meant_count)
            rc = diff_words(&d, middle, err);
    }
    if (rc == 0)
        *ret = h;
    else
        hunks_free(&h);
    return rc;
}

void hunks_free(struct hunks *h)
{
    free(h->said);
    free(h->meant);
    free(h->list);
    *h = (struct hunks){0};
}
