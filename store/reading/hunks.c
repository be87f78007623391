#include "store/reading/hunks.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "store/reading/script.h"

/* Cells of the table of common words: 16 MiB. A segment has some hundred words, half a minute. */
#define CELLS_MOST (4u << 20)

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "comparing two texts: out of memory");
}

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
static size_t part(const char *text, struct hunk_word *list)
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
    size_t n = part(text, NULL);
    struct hunk_word *list = calloc(n + 1, sizeof(*list));

    if (!list)
        return no_memory(err);
    part(text, list);
    *ret = list;
    *count = n;
    return 0;
}

/* --------------------------------------------------------------------------------- difference */

struct diff {
    const char *said, *meant;
    struct hunks *to;
};

static bool same(const struct diff *d, size_t i, size_t k)
{
    const struct hunk_word *a = &d->to->said[i], *b = &d->to->meant[k];

    return a->len == b->len && memcmp(d->said + a->at, d->meant + b->at, a->len) == 0;
}

/* Appends; what touches the hunk before and shares its word becomes one with it. */
static void put(struct hunks *h, struct hunk new)
{
    struct hunk *last = h->count ? &h->list[h->count - 1] : NULL;

    if (!last || last->said_at + last->said_count <= new.said_at) {
        h->list[h->count++] = new;
        return;
    }
    last->said_count = new.said_at + new.said_count - last->said_at;
    last->meant_count = new.meant_at + new.meant_count - last->meant_at;
}

/* What was only put in takes the word before it along, at the beginning the one behind it. */
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
    put(h, new);
}

/* The middle, where lengths[i][k] is the longest run of common words of what is left. */
static void walk(const struct diff *d, const uint32_t *lengths, struct hunk middle)
{
    size_t i = 0, k = 0, row = middle.meant_count + 1;

    while (i < middle.said_count || k < middle.meant_count) {
        struct hunk h = {middle.said_at + i, 0, middle.meant_at + k, 0};

        while (i < middle.said_count || k < middle.meant_count) {
            bool both = i < middle.said_count && k < middle.meant_count;

            if (both && same(d, middle.said_at + i, middle.meant_at + k) &&
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
               same(d, middle.said_at + i, middle.meant_at + k) &&
               lengths[i * row + k] == lengths[(i + 1) * row + k + 1] + 1;
             i++, k++)
            ;
    }
}

static int compare(const struct diff *d, struct hunk middle, struct err *err)
{
    size_t rows = middle.said_count + 1, row = middle.meant_count + 1;
    uint32_t *lengths;

    if (rows > CELLS_MOST / row) {
        put_whole(d->to, middle);
        return 0;
    }
    lengths = calloc(rows * row, sizeof(*lengths));
    if (!lengths)
        return no_memory(err);
    for (size_t i = middle.said_count; i-- > 0;)
        for (size_t k = middle.meant_count; k-- > 0;) {
            uint32_t *at = &lengths[i * row + k];

            if (same(d, middle.said_at + i, middle.meant_at + k))
                *at = at[row + 1] + 1;
            else
                *at = at[row] > at[1] ? at[row] : at[1];
        }
    walk(d, lengths, middle);
    free(lengths);
    return 0;
}

/* Between the words that both begin with and those that both end with. */
static struct hunk middle_of(const struct diff *d)
{
    size_t n = d->to->said_count, m = d->to->meant_count, at = 0;

    while (at < n && at < m && same(d, at, at))
        at++;
    while (n > at && m > at && same(d, n - 1, m - 1))
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
        rc = h.list ? 0 : no_memory(err);
    }
    if (rc == 0) {
        middle = middle_of(&d);
        if (middle.said_count || middle.meant_count)
            rc = compare(&d, middle, err);
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
