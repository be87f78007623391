#include "store/reading/place.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

/* -------------------------------------------------------------------------------- as it is kept */

static int append_place(struct places *p, sqlite3_stmt *s, struct err *err)
{
    struct place new = {.correction_id = sqlite3_column_int64(s, 0),
                        .start_ms = sqlite3_column_int64(s, 1),
                        .end_ms = sqlite3_column_int64(s, 2),
                        .said = db_dup(s, 3),
                        .meant = db_dup(s, 4),
                        .before = db_dup(s, 5),
                        .after = db_dup(s, 6),
                        .confirms = sqlite3_column_int(s, 7) != 0};

    if (!list_grow(&p->list, &p->capacity, p->count, sizeof(*p->list))) {
        free(new.said), free(new.meant), free(new.before), free(new.after);
        return err_no_memory(err, "corrections");
    }
    p->list[p->count++] = new;
    return new.said &&new.meant &&new.before &&new.after ? 0 : err_no_memory(err, "corrections");
}

int places_load(struct store *st, const struct heard *h, struct places *ret, struct err *err)
{
    struct places p = {0};
    struct db_rows rows;
    int rc;

    db_rows_open(&rows, st, err,
                 "SELECT correction_id, start_ms, end_ms, said, meant, before, after, confirms "
                 "FROM correction WHERE media_id = ? AND state <> 'undone' "
                 "ORDER BY correction_id",
                 "i", h->media_id);
    while (db_rows_next(&rows))
        rows.rc = append_place(&p, rows.stmt, err);
    rc = db_rows_end(&rows);
    if (rc == 0)
        rc = places_find(h, &p, err);
    if (rc == 0)
        *ret = p;
    else
        places_free(&p);
    return rc;
}

void places_free(struct places *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->list[i].said);
        free(p->list[i].meant);
        free(p->list[i].before);
        free(p->list[i].after);
    }
    free(p->list);
    *p = (struct places){0};
}

/* --------------------------------------------------------------------------- what they put there
 */

static char *store_part_text(struct place_parts *to, const char *text, size_t len)
{
    char *copy;

    if (!list_grow(&to->texts, &to->text_cap, to->text_count, sizeof(*to->texts)))
        return NULL;
    copy = malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = 0;
    to->texts[to->text_count++] = copy;
    return copy;
}

static int put_part(struct place_parts *to, const struct place_part *new, struct err *err)
{
    if (!list_grow(&to->list, &to->capacity, to->count, sizeof(*to->list)))
        return err_no_memory(err, "corrections");
    to->list[to->count++] = *new;
    return 0;
}

/* `text` in place of the words; of several segments each gets its share of it. */
static int distribute_replacement(const struct heard *h, const struct places *p, size_t place,
                                  const char *text, const struct hunk_word *words, size_t n,
                                  struct place_parts *to, struct err *err)
{
    const struct match_place at = p->list[place].at;
    int rc = 0;

    for (size_t i = at.word, next; i < at.word + at.words && rc == 0; i = next) {
        const struct heard_segment *g = heard_segment_at(h, i);
        size_t end = g->first + g->word_count, from, until;
        const struct hunk_word *first = &g->words[i - g->first], *last;
        struct place_part part = {
            .segment = (size_t)(g - h->segments), .word = i - g->first, .place = place};

        next = end < at.word + at.words ? end : at.word + at.words;
        last = &g->words[next - 1 - g->first];
        from = (i - at.word) * n / at.words;
        until = (next - at.word) * n / at.words;
        part.words = next - i;
        part.part = (struct rebuild_part){first->at, last->at + last->len, "", 0};
        if (from < until) {
            part.part.len = words[until - 1].at + words[until - 1].len - words[from].at;
            part.part.text = text + words[from].at;
        }
        rc = put_part(to, &part, err);
    }
    return rc;
}

static int put_place(const struct heard *h, const struct places *places, size_t i,
                     struct place_parts *to, struct err *err)
{
    const struct place *p = &places->list[i];
    struct buf there = BUF_INIT, text = BUF_INIT;
    struct hunk_word *words = NULL;
    const char *kept = NULL;
    size_t n = 0;
    int rc;

    heard_put(h, p->at, &there);
    if (buf_cstr(&there)) {
        rebuild_fit(&text, (char *)there.data, there.len, p->said, p->meant);
        kept = buf_cstr(&text) ? store_part_text(to, (char *)text.data, text.len) : NULL;
    }
    rc = kept ? hunk_words(kept, &words, &n, err) : err_no_memory(err, "corrections");
    if (rc == 0)
        rc = distribute_replacement(h, places, i, kept, words, n, to, err);
    free(words);
    buf_free(&there);
    buf_free(&text);
    return rc;
}

static int in_order(const void *a, const void *b)
{
    const struct place_part *x = a, *y = b;

    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return (x->part.from > y->part.from) - (x->part.from < y->part.from);
}

int place_parts_make(const struct heard *h, const struct places *p, struct place_parts *ret,
                     struct err *err)
{
    struct place_parts to = {0};
    int rc = 0;

    for (size_t i = 0; i < p->count && rc == 0; i++)
        if (p->list[i].at.words && !p->list[i].confirms)
            rc = put_place(h, p, i, &to, err);
    if (rc == 0 && to.count)
        qsort(to.list, to.count, sizeof(*to.list), in_order);
    if (rc == 0)
        *ret = to;
    else
        place_parts_free(&to);
    return rc;
}

void place_parts_free(struct place_parts *parts)
{
    for (size_t i = 0; i < parts->text_count; i++)
        free(parts->texts[i]);
    free(parts->texts);
    free(parts->list);
    *parts = (struct place_parts){0};
}

const struct place_part *place_parts_of(const struct place_parts *parts, size_t segment,
                                        size_t *count)
{
    size_t low = 0, high = parts->count, end;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (parts->list[middle].segment < segment)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < parts->count && parts->list[end].segment == segment;)
        end++;
    *count = end - low;
    return parts->list + low;
}
