/* Dynamic programming over a band around the diagonal: an alignment with e errors never leaves it
 * by more than e, so a band of width e is enough once the distance found is at most e. The width is
 * doubled until that is so; the work is then proportional to length x errors, not length x length.
 * Cells carry their counts along, so that one row is all the memory needed. */
#include "tools/score/score.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/text/codepoints.h"

#define FIRST_BAND 32u
#define FAR UINT32_MAX
#define MOST_CELLS ((uint64_t)1 << 37) /* of one filling: some minutes */

struct cell {
    uint32_t distance, substitutions, deletions;
};

struct band {
    const uint32_t *ref, *hyp;
    size_t n, m;
    size_t width;   /* cells with |i - j| <= width are looked at */
    uint8_t *steps; /* NULL, or two bits for each cell: (2 * width + 1) cells a row, rows 1 to n */
};

uint64_t score_errors(const struct score *s)
{
    return s->substitutions + s->deletions + s->insertions;
}

double score_rate(const struct score *s)
{
    return s->reference > 0 ? (double)score_errors(s) / (double)s->reference : NAN;
}

void score_add(struct score *sum, const struct score *s)
{
    sum->reference += s->reference;
    sum->hypothesis += s->hypothesis;
    sum->substitutions += s->substitutions;
    sum->deletions += s->deletions;
    sum->insertions += s->insertions;
}

/* ------------------------------------------------------------------------------- the band */

static size_t first_column(const struct band *b, size_t i)
{
    return i > b->width ? i - b->width : 0;
}

static size_t last_column(const struct band *b, size_t i)
{
    return b->m - (i < b->m ? i : b->m) > b->width ? i + b->width : b->m;
}

static size_t cell_number(const struct band *b, size_t i, size_t j)
{
    return (i - 1) * (2 * b->width + 1) + (j + b->width - i);
}

static void note_step(const struct band *b, size_t i, size_t j, enum score_step step)
{
    size_t k;

    if (!b->steps)
        return;
    k = cell_number(b, i, j);
    b->steps[k / 4] |= (uint8_t)((unsigned)step << (k % 4 * 2));
}

static enum score_step step_at(const struct band *b, size_t i, size_t j)
{
    size_t k = cell_number(b, i, j);

    return (enum score_step)(b->steps[k / 4] >> (k % 4 * 2) & 3);
}

static struct cell one_more(struct cell c)
{
    if (c.distance != FAR)
        c.distance++;
    return c;
}

/* Fewer errors; among as many, fewer substitutions, which is to say more units that are right. */
static bool is_better(struct cell a, struct cell b)
{
    return a.distance < b.distance ||
           (a.distance == b.distance && a.substitutions < b.substitutions);
}

/* row: that of i - 1, becomes that of i. Cells outside the band are far. */
static void next_row(const struct band *b, size_t i, struct cell *row)
{
    size_t first = first_column(b, i), last = last_column(b, i);
    struct cell corner = first > 0 ? row[first - 1] : (struct cell){FAR, 0, 0};
    struct cell left = {FAR, 0, 0};

    if (first > 0)
        row[first - 1].distance = FAR;
    for (size_t j = first; j <= last; j++) {
        struct cell above = one_more(row[j]), best = corner;
        enum score_step step = SCORE_SAME;

        corner = row[j];
        if (j > 0 && b->ref[i - 1] != b->hyp[j - 1]) {
            best = one_more(best);
            best.substitutions++;
            step = SCORE_SUBSTITUTED;
        }
        if (is_better(above, best)) {
            best = above;
            best.deletions++;
            step = SCORE_DELETED;
        }
        if (is_better(left, best)) {
            best = left;
            step = SCORE_INSERTED;
        }
        row[j] = best;
        left = one_more(best);
        note_step(b, i, j, step);
    }
}

/* The last cell: exact when its distance is at most the width. row: m + 1 cells. */
static struct cell fill_band(const struct band *b, struct cell *row)
{
    for (size_t j = 0; j <= b->m; j++)
        row[j] = (struct cell){j <= b->width ? (uint32_t)j : FAR, 0, 0};
    for (size_t i = 1; i <= b->n; i++)
        next_row(b, i, row);
    return row[b->m];
}

/* Leaves out what is the same at both ends. Returns how many units at the beginning are. */
static size_t trim_equal_ends(struct band *b)
{
    size_t same = 0;

    while (same < b->n && same < b->m && b->ref[same] == b->hyp[same])
        same++;
    b->ref += same;
    b->hyp += same;
    b->n -= same;
    b->m -= same;
    while (b->n > 0 && b->m > 0 && b->ref[b->n - 1] == b->hyp[b->m - 1]) {
        b->n--;
        b->m--;
    }
    return same;
}

/* Widens the band until the alignment is surely inside. */
static int find_distance(struct band *b, struct cell *ret, struct err *err)
{
    size_t apart = b->n > b->m ? b->n - b->m : b->m - b->n, most = b->n > b->m ? b->n : b->m;
    struct cell *row = malloc((b->m + 1) * sizeof(*row));

    if (!row)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (b->width = apart + FIRST_BAND;; b->width *= 2) {
        if ((uint64_t)(b->width < b->m ? b->width : b->m) * b->n > MOST_CELLS) {
            free(row);
            return err_set(err, ERR_LIMIT,
                           "the texts are too long, and too different, to be compared: see that "
                           "they belong together, or compare them in parts");
        }
        *ret = fill_band(b, row);
        if (ret->distance <= b->width || b->width >= most)
            break;
    }
    free(row);
    return 0;
}

int score_units(const uint32_t *reference, size_t n, const uint32_t *hypothesis, size_t m,
                struct score *ret, struct err *err)
{
    struct band b = {.ref = reference, .hyp = hypothesis, .n = n, .m = m};
    struct cell c = {0};
    int rc;

    if (n > INT32_MAX || m > INT32_MAX)
        return err_set(err, ERR_LIMIT, "the text is too long to be compared");
    trim_equal_ends(&b);
    rc = find_distance(&b, &c, err);
    if (rc != 0)
        return rc;
    *ret = (struct score){n, m, c.substitutions, c.deletions,
                          c.distance - c.substitutions - c.deletions};
    return 0;
}

/* ------------------------------------------------------------------------------- words */

struct words {
    struct score_word *list;
    uint32_t *ids;
    size_t n, capacity;
};

static void words_free(struct words *w)
{
    free(w->list);
    free(w->ids);
}

static int words_split(struct words *w, const char *text, struct err *err)
{
    struct codepoints t = {0};
    const char *s = text;
    bool inside = false;
    int rc = 0;

    codepoints_put_utf8(&t, text, strlen(text));
    if (t.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < t.len; i++) {
        size_t bytes = t.at[i] < 0x80 ? 1 : t.at[i] < 0x800 ? 2 : t.at[i] < 0x10000 ? 3 : 4;
        bool blank = codepoint_is_blank(t.at[i]);

        if (!blank && !inside && w->n == w->capacity) {
            size_t capacity = w->capacity * 2 + 256;
            struct score_word *list = realloc(w->list, capacity * sizeof(*list));

            if (!list) {
                rc = err_set(err, ERR_NOMEM, "out of memory");
                break;
            }
            w->list = list;
            w->capacity = capacity;
        }
        if (!blank && !inside)
            w->list[w->n++] = (struct score_word){s, 0};
        if (!blank)
            w->list[w->n - 1].len += bytes;
        inside = !blank;
        s += bytes;
    }
    codepoints_free(&t);
    if (rc == 0 && !(w->ids = calloc(w->n + 1, sizeof(*w->ids))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    return rc;
}

struct labelled {
    struct score_word word;
    uint32_t *id;
};

static int by_word(const void *a, const void *b)
{
    const struct score_word *x = &((const struct labelled *)a)->word;
    const struct score_word *y = &((const struct labelled *)b)->word;
    int c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);

    return c != 0 ? c : (x->len > y->len) - (x->len < y->len);
}

/* Equal words get equal numbers. Sorted, not hashed: no text can make it slow. */
static int words_number(struct words *a, struct words *b, struct err *err)
{
    size_t n = a->n + b->n;
    struct labelled *all = calloc(n + 1, sizeof(*all));
    uint32_t id = 0;

    if (!all)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < a->n; i++)
        all[i] = (struct labelled){a->list[i], &a->ids[i]};
    for (size_t i = 0; i < b->n; i++)
        all[a->n + i] = (struct labelled){b->list[i], &b->ids[i]};
    qsort(all, n, sizeof(*all), by_word);
    for (size_t i = 0; i < n; i++) {
        id += i > 0 && by_word(&all[i - 1], &all[i]) != 0;
        *all[i].id = id;
    }
    free(all);
    return 0;
}

static int words_of_both(struct words *a, const char *reference, struct words *b,
                         const char *hypothesis, struct err *err)
{
    int rc = words_split(a, reference, err);

    if (rc == 0)
        rc = words_split(b, hypothesis, err);
    return rc == 0 ? words_number(a, b, err) : rc;
}

int score_words(const char *reference, const char *hypothesis, struct score *ret, struct err *err)
{
    struct words a = {0}, b = {0};
    int rc = words_of_both(&a, reference, &b, hypothesis, err);

    if (rc == 0)
        rc = score_units(a.ids, a.n, b.ids, b.n, ret, err);
    words_free(&a);
    words_free(&b);
    return rc;
}

/* ------------------------------------------------------------------------------- characters */

static void put_characters(struct codepoints *out, const char *text)
{
    struct codepoints t = {0};
    bool blank = false;

    codepoints_put_utf8(&t, text, strlen(text));
    for (size_t i = 0; i < t.len; i++) {
        if (codepoint_is_blank(t.at[i])) {
            blank = out->len > 0;
            continue;
        }
        if (blank)
            codepoints_put(out, ' ');
        blank = false;
        codepoints_put(out, t.at[i]);
    }
    out->failed |= t.failed;
    codepoints_free(&t);
}

int score_characters(const char *reference, const char *hypothesis, struct score *ret,
                     struct err *err)
{
    static const uint32_t none[1];
    struct codepoints a = {0}, b = {0};
    int rc;

    put_characters(&a, reference);
    put_characters(&b, hypothesis);
    if (a.failed || b.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    else
        rc = score_units(a.at ? (const uint32_t *)a.at : none, a.len,
                         b.at ? (const uint32_t *)b.at : none, b.len, ret, err);
    codepoints_free(&a);
    codepoints_free(&b);
    return rc;
}

/* ------------------------------------------------------------------------------- alignment */

/* From the last cell back to the first; then told forwards. path: n + m steps. */
static size_t trace_step_path(const struct band *b, uint8_t *path)
{
    size_t i = b->n, j = b->m, len = 0;

    while (i > 0 || j > 0) {
        enum score_step step = i == 0 ? SCORE_INSERTED : j == 0 ? SCORE_DELETED : step_at(b, i, j);

        path[len++] = (uint8_t)step;
        i -= step != SCORE_INSERTED;
        j -= step != SCORE_DELETED;
    }
    for (size_t k = 0; k < len / 2; k++) {
        uint8_t other = path[k];

        path[k] = path[len - 1 - k];
        path[len - 1 - k] = other;
    }
    return len;
}

static int report_steps(const struct words *a, const struct words *b, size_t same,
                        const uint8_t *path, size_t len, score_step_fn fn, void *arg)
{
    const struct score_word none = {"", 0};
    size_t i = 0, j = 0;
    int rc = 0;

    for (; rc == 0 && i < same; i++, j++)
        rc = fn(arg, SCORE_SAME, a->list[i], b->list[j]);
    for (size_t k = 0; rc == 0 && k < len; k++) {
        enum score_step step = path[k];
        struct score_word ref = step == SCORE_INSERTED ? none : a->list[i++];
        struct score_word hyp = step == SCORE_DELETED ? none : b->list[j++];

        rc = fn(arg, step, ref, hyp);
    }
    for (; rc == 0 && i < a->n && j < b->n; i++, j++)
        rc = fn(arg, SCORE_SAME, a->list[i], b->list[j]);
    return rc;
}

/* Fills the band once more, as narrow as the distance allows, and keeps its steps. */
static int align_in_band(struct band *b, struct cell found, uint8_t **path, size_t *len,
                         struct err *err)
{
    struct cell *row;
    size_t cells;

    b->width = (size_t)found.distance + 1;
    cells = 2 * b->width + 1;
    if (b->n > 0 && cells > SCORE_DIFF_BYTES * 4 / b->n)
        return err_set(err, ERR_LIMIT,
                       "the texts are too long, or too different, to show how they differ");
    row = malloc((b->m + 1) * sizeof(*row));
    b->steps = calloc(cells * b->n / 4 + 1, 1);
    *path = malloc(b->n + b->m + 1);
    if (!row || !b->steps || !*path) {
        free(row);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    fill_band(b, row);
    free(row);
    *len = trace_step_path(b, *path);
    return 0;
}

int score_diff(const char *reference, const char *hypothesis, score_step_fn fn, void *arg,
               struct err *err)
{
    struct words x = {0}, y = {0};
    struct band b = {0};
    struct cell found = {0};
    uint8_t *path = NULL;
    size_t same = 0, len = 0;
    int rc = words_of_both(&x, reference, &y, hypothesis, err);

    if (rc == 0 && (x.n > INT32_MAX || y.n > INT32_MAX))
        rc = err_set(err, ERR_LIMIT, "the text is too long to be compared");
    if (rc == 0) {
        b = (struct band){.ref = x.ids, .hyp = y.ids, .n = x.n, .m = y.n};
        same = trim_equal_ends(&b);
        rc = find_distance(&b, &found, err);
    }
    if (rc == 0)
        rc = align_in_band(&b, found, &path, &len, err);
    if (rc == 0)
        rc = report_steps(&x, &y, same, path, len, fn, arg);
    free(b.steps);
    free(path);
    words_free(&x);
    words_free(&y);
    return rc;
}
