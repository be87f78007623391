#include "store/reading/as_read.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "corrections: out of memory");
}

static int put(struct as_read *r, struct match_word word, size_t segment, struct err *err)
{
    if (r->count == r->cap) {
        size_t cap = r->cap ? r->cap * 2 : 256;
        struct match_word *words = realloc(r->words, cap * sizeof(*words));
        size_t *segments;

        if (words)
            r->words = words;
        segments = words ? realloc(r->segments, cap * sizeof(*segments)) : NULL;
        if (!segments)
            return no_memory(err);
        r->segments = segments;
        r->cap = cap;
    }
    r->words[r->count] = word;
    r->segments[r->count++] = segment;
    return 0;
}

static int put_rows(struct as_read *r, const struct rebuilt *rows, size_t segment, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; i < rows->count && rc == 0; i++) {
        const struct rebuild_row *w = &rows->rows[i];
        size_t blank = w->len && w->text[0] == ' ';

        rc = put(r, (struct match_word){w->text + blank, w->len - blank, w->start_ms, w->end_ms},
                 segment, err);
    }
    return rc;
}

/* The machine's words are rows of themselves. */
static int put_corrected(struct as_read *r, const struct heard *h, size_t segment,
                         const struct place_part *parts, size_t n, struct err *err)
{
    const struct heard_segment *g = &h->segments[segment];
    struct rebuild_row *rows = calloc(g->word_count + 1, sizeof(*rows));
    struct rebuild_part *list = calloc(n + 1, sizeof(*list));
    struct rebuilt *to = &r->rebuilt[r->rebuilt_count++];
    int rc = rows && list ? 0 : no_memory(err);

    for (size_t i = 0; rc == 0 && i < g->word_count; i++) {
        const struct match_word *w = &h->words[g->first + i];

        rows[i] = (struct rebuild_row){w->start_ms, w->end_ms, w->text, w->len, 0, 0};
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        list[i] = parts[i].part;
    if (rc == 0)
        rc = rebuild_rows(g->machine.text, rows, g->word_count, list, n, to, err);
    if (rc == 0)
        rc = put_rows(r, to, segment, err);
    free(rows);
    free(list);
    return rc;
}

int as_read_make(const struct heard *h, const struct places *p, struct as_read *ret,
                 struct err *err)
{
    struct as_read r = {.rebuilt = calloc(h->count + 1, sizeof(*r.rebuilt))};
    int rc = r.rebuilt ? place_parts_make(h, p, &r.of, err) : no_memory(err);

    for (size_t i = 0; i < h->count && rc == 0; i++) {
        const struct heard_segment *g = &h->segments[i];
        size_t n = 0;
        const struct place_part *of = place_parts_of(&r.of, i, &n);

        if (n)
            rc = put_corrected(&r, h, i, of, n, err);
        for (size_t k = 0; !n && k < g->word_count && rc == 0; k++)
            rc = put(&r, h->words[g->first + k], i, err);
    }
    if (rc == 0)
        *ret = r;
    else
        as_read_free(&r);
    return rc;
}

void as_read_free(struct as_read *r)
{
    for (size_t i = 0; i < r->rebuilt_count; i++)
        rebuilt_free(&r->rebuilt[i]);
    free(r->rebuilt);
    free(r->words);
    free(r->segments);
    place_parts_free(&r->of);
    *r = (struct as_read){0};
}
