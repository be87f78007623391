#include "tools/correct/align_words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/list.h"
#include "store/reading/hunks.h"
#include "workers/text/codepoints.h"

/* ---- the words of a transcript, or of a file, as they are aligned.
 *
 * They are those of store/reading/hunks.h. Words that differ in case, marks and punctuation alone
 * have one number. Pure; any thread. */

#define WORD_LIST_MAX 2000000 /* of one side: a week of talking has some 1,500,000 */

void word_list_free(struct word_list *w)
{
    free(w->list);
    buf_free(&w->folded);
    *w = (struct word_list){0};
}

bool word_equal(const struct word *a, const struct word *b)
{
    return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
}

/* ------------------------------------------------------------------------------- folding */

struct folding {
    struct codepoints word, lower, plain;
};

static void folding_free(struct folding *f)
{
    codepoints_free(&f->word);
    codepoints_free(&f->lower);
    codepoints_free(&f->plain);
}

/* Behind `out`: lower case, without marks and punctuation; what is nothing else, as it is. */
static size_t fold_word(struct folding *f, const struct word *w, struct buf *out)
{
    size_t before = out->len;
    char *s;

    f->word.len = f->lower.len = f->plain.len = 0;
    codepoints_put_utf8(&f->word, w->s, w->len);
    codepoints_lower(&f->lower, &f->word);
    codepoints_decompose(&f->plain, &f->lower, false);
    f->word.len = 0;
    for (size_t i = 0; i < f->plain.len; i++)
        if (codepoint_is_word(f->plain.at[i]))
            codepoints_put(&f->word, f->plain.at[i]);
    s = f->plain.failed || f->lower.failed ? NULL : codepoints_utf8(&f->word);
    if (!s)
        out->failed = true;
    else if (s[0] != 0)
        buf_put(out, s, strlen(s));
    else
        buf_put(out, w->s, w->len);
    free(s);
    return out->failed ? 0 : out->len - before;
}

/* ------------------------------------------------------------------------------- splitting */

static int append_word(struct word_list *w, struct word word, struct err *err)
{
    if (w->count == WORD_LIST_MAX)
        return err_set(err, ERR_LIMIT, "it has more than %d words: try it in parts", WORD_LIST_MAX);
    if (!list_grow(&w->list, &w->capacity, w->count, sizeof(*w->list)))
        return err_set(err, ERR_NOMEM, "out of memory");
    w->list[w->count++] = word;
    return 0;
}

/* The first word of a part is joined where its script has no blanks. */
static bool is_joined(const char *text, const struct hunk_word *list, size_t i)
{
    size_t bytes;

    return i > 0 ? list[i - 1].at + list[i - 1].len == list[i].at
                 : script_of(text + list[i].at, &bytes) == SCRIPT_UNPARTED;
}

static int split_into_words(struct word_list *w, uint32_t part, const char *text, struct err *err)
{
    struct hunk_word *list = NULL;
    size_t n = 0;
    int rc = hunk_words(text, &list, &n, err);

    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = append_word(w,
                         (struct word){.s = text + list[i].at,
                                       .len = (uint32_t)list[i].len,
                                       .part = part,
                                       .joined = is_joined(text, list, i)},
                         err);
    free(list);
    return rc;
}

/* Words are said one after the other, each as long as the next. */
static void set_times(struct word_list *w, size_t first, int64_t start_ms, int64_t end_ms)
{
    int64_t n = (int64_t)(w->count - first);
    bool timed = start_ms >= 0 && end_ms >= start_ms;

    for (int64_t i = 0; i < n; i++)
        w->list[first + (size_t)i].ms =
            timed ? start_ms + (end_ms - start_ms) * (2 * i + 1) / (2 * n) : -1;
}

int word_list_add(struct word_list *w, uint32_t part, const char *text, int64_t start_ms,
                  int64_t end_ms, struct err *err)
{
    struct folding f = {0};
    size_t first = w->count;
    int rc = split_into_words(w, part, text, err);

    set_times(w, first, start_ms, end_ms);
    for (size_t i = first; rc == 0 && i < w->count; i++) {
        w->list[i].folded = w->folded.len;
        w->list[i].folded_len = fold_word(&f, &w->list[i], &w->folded);
        if (w->folded.failed)
            rc = err_set(err, ERR_NOMEM, "out of memory");
    }
    folding_free(&f);
    return rc;
}

/* ------------------------------------------------------------------------------- numbers */

struct labelled {
    const uint8_t *s;
    size_t len;
    uint32_t *id;
};

static int by_text(const void *a, const void *b)
{
    const struct labelled *x = a, *y = b;
    int c = memcmp(x->s, y->s, x->len < y->len ? x->len : y->len);

    return c != 0 ? c : (x->len > y->len) - (x->len < y->len);
}

static void label_words(struct word_list *w, struct labelled *all)
{
    for (size_t i = 0; i < w->count; i++)
        all[i] = (struct labelled){w->folded.data + w->list[i].folded, w->list[i].folded_len,
                                   &w->list[i].id};
}

/* Sorted, not hashed: no text can make it slow. */
int word_list_number(struct word_list *a, struct word_list *b, struct err *err)
{
    size_t n = a->count + b->count;
    struct labelled *all = calloc(n + 1, sizeof(*all));
    uint32_t id = 0;

    if (!all)
        return err_set(err, ERR_NOMEM, "out of memory");
    label_words(a, all);
    label_words(b, all + a->count);
    qsort(all, n, sizeof(*all), by_text);
    for (size_t i = 0; i < n; i++) {
        id += i > 0 && by_text(&all[i - 1], &all[i]) != 0;
        *all[i].id = id;
    }
    free(all);
    return 0;
}

/* ---- where two sequences surely belong together: what stands in each of them exactly once */

struct anchor {
    size_t a, b; /* where `gram` words begin that are the same on both sides */
};

struct run {
    const struct word *at;
    size_t gram;
    bool in_b;
};

static int by_words(const struct run *x, const struct run *y)
{
    for (size_t i = 0; i < x->gram; i++)
        if (x->at[i].id != y->at[i].id)
            return x->at[i].id < y->at[i].id ? -1 : 1;
    return 0;
}

static int by_words_and_side(const void *a, const void *b)
{
    const struct run *x = a, *y = b;
    int c = by_words(x, y);

    return c != 0 ? c : x->in_b - y->in_b;
}

static size_t put_runs(struct run *all, const struct word *w, size_t n, size_t gram, bool in_b)
{
    size_t count = n >= gram ? n - gram + 1 : 0;

    for (size_t i = 0; i < count; i++)
        all[i] = (struct run){w + i, gram, in_b};
    return count;
}

static int by_a(const void *x, const void *y)
{
    size_t a = ((const struct anchor *)x)->a, b = ((const struct anchor *)y)->a;

    return (a > b) - (a < b);
}

/* Pairs of runs that each side has once, in the order of a. */
static size_t pair_up(const struct run *all, size_t n, const struct word *a, const struct word *b,
                      struct anchor *ret)
{
    size_t count = 0;

    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && by_words(&all[i], &all[end]) == 0;)
            end++;
        if (end - i == 2 && !all[i].in_b && all[i + 1].in_b)
            ret[count++] = (struct anchor){(size_t)(all[i].at - a), (size_t)(all[i + 1].at - b)};
    }
    if (count > 0)
        qsort(ret, count, sizeof(*ret), by_a);
    return count;
}

/* Keeps the longest chain in which b rises, too (patience sorting). tails, before: [count]. */
static size_t keep_longest(struct anchor *list, size_t count, size_t *tails, size_t *before)
{
    size_t length = 0, at;

    for (size_t i = 0; i < count; i++) {
        size_t low = 0, high = length;

        while (low < high) {
            size_t mid = (low + high) / 2;

            if (list[tails[mid]].b < list[i].b)
                low = mid + 1;
            else
                high = mid;
        }
        before[i] = low > 0 ? tails[low - 1] : SIZE_MAX;
        tails[low] = i;
        length += low == length;
    }
    at = length > 0 ? tails[length - 1] : SIZE_MAX;
    for (size_t i = length; i > 0; i--, at = before[at])
        tails[i - 1] = at;
    for (size_t i = 0; i < length; i++)
        list[i] = list[tails[i]];
    return length;
}

/* Finds runs of `gram` words that occur once in a (n words) and once in b (m words), and keeps the
 * longest series that has the same order in both. *ret is newly allocated; NULL: there is none.
 * Time grows as (n + m) log (n + m). ERR_NOMEM. */
static int anchors_find(const struct word *a, size_t n, const struct word *b, size_t m, size_t gram,
                        struct anchor **ret, size_t *count, struct err *err)
{
    struct run *all = malloc((n + m + 1) * sizeof(*all));
    struct anchor *list = malloc((n + 1) * sizeof(*list));
    size_t *tails = malloc((n + 1) * sizeof(*tails)), *before = malloc((n + 1) * sizeof(*before));
    size_t runs, found = 0;
    int rc = 0;

    if (!all || !list || !tails || !before)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        runs = put_runs(all, a, n, gram, false);
        runs += put_runs(all + runs, b, m, gram, true);
        qsort(all, runs, sizeof(*all), by_words_and_side);
        found = keep_longest(list, pair_up(all, runs, a, b, list), tails, before);
    }
    free(all);
    free(tails);
    free(before);
    if (rc != 0 || found == 0) {
        free(list);
        list = NULL;
    }
    *ret = list;
    *count = found;
    return rc;
}

/* ---- which words of a file are which words of a transcript */

#define SMALL_CELLS ((size_t)1 << 20) /* aligned exactly at once */
#define MOST_CELLS ((size_t)1 << 24)  /* of one gap */
#define ALL_CELLS ((uint64_t)1 << 31) /* of all: some seconds */
#define MOST_DEEP 64                  /* gaps within gaps */
#define SAME 1000                     /* what a word that is the same counts, ... */
#define NEIGHBOURS 200                /* ... with the one before it, ... */
#define EXACTLY 50                    /* ... and in case and punctuation */
#define LATE_MOST 400                 /* taken off for a word said at another time: ... */
#define LATE_MS 25                    /* ... one for each so many milliseconds */
#define FEW_WORDS 3                   /* less than these side by side may be chance */
#define SKEW_WORDS 25                 /* a jump of so many wants one more to be believed */
#define SURE_WORDS 12
#define ON_TIME_MS 2000

struct aligner {
    const struct word *a, *b;
    size_t n, m;
    size_t *match; /* [m] */
    uint64_t cells;
};

struct gap {
    size_t a0, a1, b0, b1;
};

/* ------------------------------------------------------------------------------- exactly */

/* How much later the file says what is around the gap. */
static int64_t shift_at(const struct aligner *x, const struct gap *g)
{
    int64_t sum = 0, n = 0;
    size_t at[2] = {g->b0 > 0 ? g->b0 - 1 : SIZE_MAX, g->b1};

    for (int i = 0; i < 2; i++)
        if (at[i] < x->m && x->match[at[i]] != ALIGN_NONE && x->b[at[i]].ms >= 0) {
            sum += x->b[at[i]].ms - x->a[x->match[at[i]]].ms;
            n++;
        }
    return n > 0 ? sum / n : 0;
}

static int32_t score_word_pair(const struct aligner *x, size_t i, size_t j, bool first,
                               int64_t shift)
{
    const struct word *a = &x->a[i], *b = &x->b[j];
    int64_t late = b->ms >= 0 && a->ms >= 0 ? llabs(b->ms - shift - a->ms) / LATE_MS : 0;

    return SAME + (word_equal(a, b) ? EXACTLY : 0) +
           (!first && a[-1].id == b[-1].id ? NEIGHBOURS : 0) -
           (int32_t)(late < LATE_MOST ? late : LATE_MOST);
}

enum step { STEP_A, STEP_B, STEP_BOTH }; /* over a word of a, of b, of both */

static void trace_gap_path(struct aligner *x, const struct gap *g, const uint8_t *steps)
{
    size_t width = g->b1 - g->b0, i = g->a1, j = g->b1;

    while (i > g->a0 && j > g->b0) {
        uint8_t step = steps[(i - g->a0 - 1) * width + (j - g->b0 - 1)];

        i -= step != STEP_B;
        j -= step != STEP_A;
        if (step == STEP_BOTH)
            x->match[j] = i;
    }
}

/* row: best scores of the words before; becomes those with word i. */
static void next_row(const struct aligner *x, const struct gap *g, size_t i, int64_t shift,
                     int32_t *row, uint8_t *steps)
{
    int32_t corner = 0;

    for (size_t j = g->b0; j < g->b1; j++) {
        size_t k = j - g->b0 + 1;
        int32_t best = row[k], above = row[k];

        steps[k - 1] = STEP_A;
        if (row[k - 1] > best) {
            best = row[k - 1];
            steps[k - 1] = STEP_B;
        }
        if (x->a[i].id == x->b[j].id) {
            int32_t both = corner + score_word_pair(x, i, j, i == g->a0 || j == g->b0, shift);

            if (both >= best) {
                best = both;
                steps[k - 1] = STEP_BOTH;
            }
        }
        corner = above;
        row[k] = best;
    }
}

static int align_exactly(struct aligner *x, const struct gap *g, struct err *err)
{
    size_t width = g->b1 - g->b0, height = g->a1 - g->a0;
    int32_t *row = calloc(width + 1, sizeof(*row));
    uint8_t *steps = malloc(width * height);
    int64_t shift = shift_at(x, g);
    int rc = row && steps ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    for (size_t i = 0; rc == 0 && i < height; i++)
        next_row(x, g, g->a0 + i, shift, row, steps + i * width);
    if (rc == 0)
        trace_gap_path(x, g, steps);
    x->cells += (uint64_t)width * height;
    free(row);
    free(steps);
    return rc;
}

/* ------------------------------------------------------------------------------- gaps */

static int align_gap(struct aligner *x, const struct gap *g, unsigned deep, struct err *err);

/* Notes what the anchors say. */
static void take_anchors(struct aligner *x, const struct gap *g, const struct anchor *list,
                         size_t count, size_t gram)
{
    size_t next_a = g->a0, next_b = g->b0;

    for (size_t k = 0; k < count; k++)
        for (size_t w = 0; w < gram; w++) {
            size_t i = g->a0 + list[k].a + w, j = g->b0 + list[k].b + w;

            if (i < next_a || j < next_b)
                continue;
            x->match[j] = i;
            next_a = i + 1;
            next_b = j + 1;
        }
}

static int align_between(struct aligner *x, const struct gap *g, unsigned deep, struct err *err)
{
    struct gap part = {g->a0, g->a0, g->b0, g->b0};
    int rc = 0;

    for (size_t j = g->b0; rc == 0 && j < g->b1; j++) {
        if (x->match[j] == ALIGN_NONE)
            continue;
        part.a1 = x->match[j];
        part.b1 = j;
        rc = align_gap(x, &part, deep + 1, err);
        part.a0 = x->match[j] + 1;
        part.b0 = j + 1;
    }
    part.a1 = g->a1;
    part.b1 = g->b1;
    return rc == 0 ? align_gap(x, &part, deep + 1, err) : rc;
}

/* Cuts a large gap without anchors into halves, by time. */
static int align_halves(struct aligner *x, const struct gap *g, unsigned deep, struct err *err)
{
    struct gap first = *g, second = *g;
    size_t mid = g->b0 + (g->b1 - g->b0) / 2, low = g->a0, high = g->a1;
    int64_t ms = x->b[mid].ms - shift_at(x, g);
    int rc;

    if (x->b[mid].ms < 0 || g->b1 - g->b0 < 2)
        return 0;
    while (low < high) {
        size_t k = low + (high - low) / 2;

        if (x->a[k].ms < ms)
            low = k + 1;
        else
            high = k;
    }
    first.a1 = second.a0 = low;
    first.b1 = second.b0 = mid;
    rc = align_gap(x, &first, deep + 1, err);
    return rc == 0 ? align_gap(x, &second, deep + 1, err) : rc;
}

static int align_gap(struct aligner *x, const struct gap *g, unsigned deep, struct err *err)
{
    static const size_t grams[] = {6, 4, 3, 2, 1};
    size_t width = g->b1 - g->b0, height = g->a1 - g->a0, count = 0;
    bool large;

    if (width == 0 || height == 0 || deep > MOST_DEEP)
        return 0;
    if (width <= SMALL_CELLS / height)
        return x->cells < ALL_CELLS ? align_exactly(x, g, err) : 0;
    large = width > MOST_CELLS / height || x->cells >= ALL_CELLS;
    for (size_t k = 0; k < (large ? 5 : 3); k++) {
        struct anchor *list;
        int rc =
            anchors_find(x->a + g->a0, height, x->b + g->b0, width, grams[k], &list, &count, err);

        if (rc != 0)
            return rc;
        take_anchors(x, g, list, count, grams[k]);
        free(list);
        if (count > 0)
            return align_between(x, g, deep, err);
    }
    return large ? align_halves(x, g, deep, err) : align_exactly(x, g, err);
}

/* ------------------------------------------------------------------------------- chance */

/* Words that are side by side on both sides, of one run of the matches. */
struct stretch {
    size_t a, b, len;
};

static size_t find_stretches(const struct aligner *x, struct stretch *list)
{
    size_t count = 0;

    for (size_t j = 0; j < x->m; j++) {
        struct stretch *last = count > 0 ? &list[count - 1] : NULL;

        if (x->match[j] == ALIGN_NONE)
            continue;
        if (last && last->b + last->len == j && last->a + last->len == x->match[j])
            last->len++;
        else
            list[count++] = (struct stretch){x->match[j], j, 1};
    }
    return count;
}

/* How many words more lie between two on one side than on the other. */
static size_t compute_skew(const struct stretch *first, const struct stretch *second)
{
    size_t a = second->a - (first->a + first->len), b = second->b - (first->b + first->len);

    return a > b ? a - b : b - a;
}

static bool is_chance(const struct stretch *s, size_t jump)
{
    size_t wanted = FEW_WORDS + jump / SKEW_WORDS;

    return jump > SKEW_WORDS && s->len < (wanted < SURE_WORDS ? wanted : SURE_WORDS);
}

static void clear_matches(struct aligner *x, const struct stretch *s)
{
    for (size_t k = 0; k < s->len; k++)
        x->match[s->b + k] = ALIGN_NONE;
}

/* Words that every text has are found anywhere; far from all else they mean nothing, and at the
 * ends of a file that is a part they would make it a larger one. */
static void forget_chance(struct aligner *x, struct stretch *list, size_t count)
{
    size_t kept = 0, first = 0;

    while (count > 1 &&
           is_chance(&list[count - 1], compute_skew(&list[count - 2], &list[count - 1])))
        clear_matches(x, &list[--count]);
    while (first + 1 < count &&
           is_chance(&list[first], compute_skew(&list[first], &list[first + 1])))
        clear_matches(x, &list[first++]);
    for (size_t i = first; i < count; i++) {
        size_t before = kept > 0 ? compute_skew(&list[kept - 1], &list[i]) : SIZE_MAX;
        size_t behind = i + 1 < count ? compute_skew(&list[i], &list[i + 1]) : SIZE_MAX;

        if (kept > 0 && i + 1 < count && is_chance(&list[i], before < behind ? before : behind))
            clear_matches(x, &list[i]);
        else
            list[kept++] = list[i];
    }
}

static bool is_whole_part(const struct word *w, size_t count, size_t at, size_t len)
{
    return (at == 0 || w[at - 1].part != w[at].part) &&
           (at + len == count || w[at + len].part != w[at].part);
}

static bool is_on_time(const struct aligner *x, const struct stretch *s)
{
    int64_t a = x->a[s->a].ms, b = x->b[s->b].ms;

    return a >= 0 && b >= 0 && llabs(a - b) <= ON_TIME_MS;
}

static size_t count_solid(const struct aligner *x, const struct stretch *list, size_t count)
{
    size_t solid = 0;

    for (size_t i = 0; i < count; i++)
        if (list[i].len >= FEW_WORDS || (list[i].len > 1 && is_on_time(x, &list[i])) ||
            is_whole_part(x->b, x->m, list[i].b, list[i].len) ||
            is_whole_part(x->a, x->n, list[i].a, list[i].len))
            solid += list[i].len;
    return solid;
}

int align_words(const struct word_list *a, const struct word_list *b, size_t **ret, size_t *solid,
                struct err *err)
{
    struct aligner x = {a->list, b->list, a->count, b->count, NULL, 0};
    struct gap all = {0, x.n, 0, x.m};
    struct stretch *list = malloc((x.m + 1) * sizeof(*list));
    int rc = 0;

    x.match = malloc((x.m + 1) * sizeof(*x.match));
    if (!x.match || !list)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    for (size_t j = 0; rc == 0 && j < x.m; j++)
        x.match[j] = ALIGN_NONE;
    if (rc == 0)
        rc = align_gap(&x, &all, 0, err);
    if (rc == 0) {
        forget_chance(&x, list, find_stretches(&x, list));
        *solid = count_solid(&x, list, find_stretches(&x, list));
        *ret = x.match;
        x.match = NULL;
    }
    free(x.match);
    free(list);
    return rc;
}
