/* Finds the place of each correction in the current transcription. */

#include <stdlib.h>
#include <string.h>

#include "store/reading/place.h"

/* ---- what is read of a recording: its words with the corrections in them, and their times */

struct as_read { /* owned: as_read_free */
    struct match_word *words;
    size_t *segments; /* of each word: number in heard.segments */
    size_t count, capacity;
    struct place_parts of;   /* what the words' texts lie in; and */
    struct rebuilt *rebuilt; /* [rebuilt_count] */
    size_t rebuilt_count;
};

static void as_read_free(struct as_read *r)
{
    for (size_t i = 0; i < r->rebuilt_count; i++)
        rebuilt_free(&r->rebuilt[i]);
    free(r->rebuilt);
    free(r->words);
    free(r->segments);
    place_parts_free(&r->of);
    *r = (struct as_read){0};
}

static int append_read_word(struct as_read *r, struct match_word word, size_t segment,
                            struct err *err)
{
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? r->capacity * 2 : 256;
        struct match_word *words = realloc(r->words, capacity * sizeof(*words));
        size_t *segments;

        if (words)
            r->words = words;
        segments = words ? realloc(r->segments, capacity * sizeof(*segments)) : NULL;
        if (!segments)
            return err_no_memory(err, "corrections");
        r->segments = segments;
        r->capacity = capacity;
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

        rc = append_read_word(
            r, (struct match_word){w->text + blank, w->len - blank, w->start_ms, w->end_ms},
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
    int rc = rows && list ? 0 : err_no_memory(err, "corrections");

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

/* With the corrections that have a place. Some words are those of h. */
static int as_read_make(const struct heard *h, const struct places *p, struct as_read *ret,
                        struct err *err)
{
    struct as_read r = {.rebuilt = calloc(h->count + 1, sizeof(*r.rebuilt))};
    int rc = r.rebuilt ? place_parts_make(h, p, &r.of, err) : err_no_memory(err, "corrections");

    for (size_t i = 0; i < h->count && rc == 0; i++) {
        const struct heard_segment *g = &h->segments[i];
        size_t n = 0;
        const struct place_part *of = place_parts_of(&r.of, i, &n);

        if (n)
            rc = put_corrected(&r, h, i, of, n, err);
        for (size_t k = 0; !n && k < g->word_count && rc == 0; k++)
            rc = append_read_word(&r, h->words[g->first + k], i, err);
    }
    if (rc == 0)
        *ret = r;
    else
        as_read_free(&r);
    return rc;
}

/* ---- what has become of each correction in the transcription that is current */

struct finding {
    const struct heard *h;
    struct places *p;
    struct word_matcher *folded, *bare; /* of what was heard; NULL until somebody asks */
    bool *taken;                        /* [h->word_count] by corrections */
    /* The corrections that are searched for at once: [count]. */
    struct match_wanted *wanted;
    struct match_found *found;
    size_t *which; /* of p->list */
    size_t count;
};

static bool has_words(const char *text) { return text[strspn(text, " \t\r\n")] != 0; }

/* Makes the matcher when it is first needed. */
static int ensure_word_matcher(const struct finding *f, struct word_matcher **m,
                               enum match_kind kind, struct err *err)
{
    return *m ? 0 : match_make(f->h->words, f->h->word_count, kind, m, err);
}

static void mark_words_taken(struct finding *f, struct match_place at, bool taken)
{
    for (size_t i = 0; i < at.words; i++)
        f->taken[at.word + i] = taken;
}

/* ------------------------------------------------------------------------------------ searching */

static void add_wanted_place(struct finding *f, size_t i, const char *words)
{
    const struct place *p = &f->p->list[i];

    f->which[f->count] = i;
    f->wanted[f->count++] = (struct match_wanted){words, p->before, p->after, p->start_ms};
}

static bool place_needs_search(const struct place *p)
{
    return !p->confirms && !p->at.words && p->state != PLACE_AGREED;
}

/* A place for what the machine said before. But where it says now what was meant, and that is as
 * near or nearer, these words are others. */
static int find_said(struct finding *f, struct err *err)
{
    int rc;

    f->count = 0;
    for (size_t i = 0; i < f->p->count; i++)
        if (place_needs_search(&f->p->list[i]))
            add_wanted_place(f, i, f->p->list[i].said);
    if (!f->count)
        return 0;
    rc = ensure_word_matcher(f, &f->folded, MATCH_FOLDED, err);
    if (rc == 0)
        rc = ensure_word_matcher(f, &f->bare, MATCH_BARE, err);
    if (rc == 0)
        rc = match(f->folded, f->wanted, f->count, f->taken, f->found, err);
    for (size_t k = 0; rc == 0 && k < f->count; k++) {
        struct place *p = &f->p->list[f->which[k]];
        struct match_wanted meant = f->wanted[k];
        struct match_found right = {0};

        meant.words = p->meant;
        if (f->found[k].at.words)
            rc = match(f->bare, &meant, 1, NULL, &right, err);
        p->at = f->found[k].at;
        if (rc == 0 && p->at.words && match_better(&right, &f->found[k])) {
            mark_words_taken(f, p->at, false);
            p->at.words = 0;
        }
    }
    return rc;
}

/* Finds corrections whose new text is there already, except for accents: that is as good a
 * place. */
static int find_nearly_meant(struct finding *f, struct err *err)
{
    int rc;

    f->count = 0;
    for (size_t i = 0; i < f->p->count; i++)
        if (place_needs_search(&f->p->list[i]))
            add_wanted_place(f, i, f->p->list[i].meant);
    if (!f->count)
        return 0;
    rc = ensure_word_matcher(f, &f->folded, MATCH_FOLDED, err);
    if (rc == 0)
        rc = match(f->folded, f->wanted, f->count, f->taken, f->found, err);
    for (size_t k = 0; rc == 0 && k < f->count; k++)
        f->p->list[f->which[k]].at = f->found[k].at;
    return rc;
}

/* -------------------------------------------------------------------------------------- reading */

/* The last word before and the first behind, with a blank between; "" where there is none. */
static char *join_context_words(const struct place *p)
{
    struct hunk_word *before = NULL, *after = NULL;
    size_t n = 0, m = 0;
    struct err err;
    struct buf out = BUF_INIT;
    char *text = NULL;

    if (hunk_words(p->before, &before, &n, &err) == 0 &&
        hunk_words(p->after, &after, &m, &err) == 0) {
        if (n && m) {
            buf_put(&out, p->before + before[n - 1].at, before[n - 1].len);
            buf_put_u8(&out, ' ');
            buf_put(&out, p->after + after[0].at, after[0].len);
        }
        text = buf_cstr(&out) ? strdup((char *)out.data) : NULL;
    }
    free(before);
    free(after);
    buf_free(&out);
    return text;
}

static bool silent_near(const struct as_read *r, int64_t ms)
{
    for (size_t i = 0; i < r->count; i++)
        if (llabs(r->words[i].start_ms - ms) <= MATCH_NEAR_MS)
            return false;
    return r->count > 0;
}

/* Nothing is to be said there: what was around it stands together, or nothing is heard at all. */
static int agree_silent(const struct as_read *r, struct word_matcher *m, struct place *p, bool *ret,
                        struct err *err)
{
    char *text = join_context_words(p);
    struct match_found found = {0};
    int rc = 0;

    if (!text)
        return err_no_memory(err, "corrections");
    if (*text)
        rc = match(m, &(struct match_wanted){text, "", "", p->start_ms}, 1, NULL, &found, err);
    *ret = found.at.words || silent_near(r, p->start_ms);
    free(text);
    return rc;
}

/* Which of those that have no place is read already. */
static int find_agreed(struct finding *f, struct err *err)
{
    struct as_read r = {0};
    struct word_matcher *bare = NULL, *folded = NULL;
    size_t left = 0;
    int rc;

    for (size_t i = 0; i < f->p->count; i++)
        left += place_needs_search(&f->p->list[i]);
    if (!left)
        return 0;
    rc = as_read_make(f->h, f->p, &r, err);
    if (rc == 0)
        rc = match_make(r.words, r.count, MATCH_BARE, &bare, err);
    if (rc == 0)
        rc = match_make(r.words, r.count, MATCH_FOLDED, &folded, err);
    for (size_t i = 0; i < f->p->count && rc == 0; i++) {
        struct place *p = &f->p->list[i];
        struct match_found found = {0};
        bool agreed = false;

        if (!place_needs_search(p))
            continue;
        f->count = 0;
        add_wanted_place(f, i, p->meant);
        if (has_words(p->meant))
            rc = match(bare, f->wanted, 1, NULL, &found, err);
        else
            rc = agree_silent(&r, folded, p, &agreed, err);
        if (found.at.words || agreed)
            p->state = PLACE_AGREED;
    }
    match_free(bare);
    match_free(folded);
    as_read_free(&r);
    return rc;
}

/* Those that confirm: of the segments in which what they confirm is read. */
static int find_confirmed(struct finding *f, struct err *err)
{
    struct as_read r = {0};
    struct word_matcher *m = NULL;
    int rc;

    f->count = 0;
    for (size_t i = 0; i < f->p->count; i++)
        if (f->p->list[i].confirms)
            add_wanted_place(f, i, f->p->list[i].meant);
    if (!f->count)
        return 0;
    rc = as_read_make(f->h, f->p, &r, err);
    if (rc == 0)
        rc = match_make(r.words, r.count, MATCH_BARE, &m, err);
    if (rc == 0)
        rc = match(m, f->wanted, f->count, NULL, f->found, err);
    for (size_t k = 0; rc == 0 && k < f->count; k++) {
        struct place *p = &f->p->list[f->which[k]];
        struct match_place at = f->found[k].at;

        p->state = at.words ? PLACE_CONFIRMED : PLACE_CONFLICT;
        p->at = (struct match_place){0};
        if (at.words) {
            const struct heard_segment *first = &f->h->segments[r.segments[at.word]];
            const struct heard_segment *last = &f->h->segments[r.segments[at.word + at.words - 1]];

            p->at.word = first->first;
            p->at.words = last->first + last->word_count - first->first;
        }
    }
    match_free(m);
    as_read_free(&r);
    return rc;
}

static int locate_places(struct finding *f, struct err *err)
{
    int rc;

    for (size_t i = 0; i < f->p->count; i++) {
        f->p->list[i].at = (struct match_place){0};
        f->p->list[i].state = PLACE_CONFLICT;
    }
    rc = find_said(f, err);
    if (rc == 0)
        rc = find_agreed(f, err);
    if (rc == 0)
        rc = find_nearly_meant(f, err);
    for (size_t i = 0; i < f->p->count; i++)
        if (f->p->list[i].at.words)
            f->p->list[i].state = PLACE_APPLIED;
    return rc < 0 ? rc : find_confirmed(f, err);
}

int places_find(const struct heard *h, struct places *p, struct err *err)
{
    struct finding f = {.h = h,
                        .p = p,
                        .taken = calloc(h->word_count + 1, sizeof(*f.taken)),
                        .wanted = calloc(p->count + 1, sizeof(*f.wanted)),
                        .found = calloc(p->count + 1, sizeof(*f.found)),
                        .which = calloc(p->count + 1, sizeof(*f.which))};
    int rc = f.taken && f.wanted && f.found && f.which ? 0 : err_no_memory(err, "corrections");

    if (rc == 0)
        rc = locate_places(&f, err);
    match_free(f.folded);
    match_free(f.bare);
    free(f.taken);
    free(f.wanted);
    free(f.found);
    free(f.which);
    return rc;
}
