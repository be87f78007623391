#include "tools/correct/place_cues.h"

#include <stdlib.h>
#include <string.h>

#include "tools/correct/align_words.h"

#define NONE SIZE_MAX
#define SHARE_MIN 0.3     /* of the file's words that must be the transcript's */
#define AROUND 64         /* words on each side that tell how late the file is there, ... */
#define CUES_MIN 4        /* ... of so many cues, ... */
#define SHIFT_MIN_MS 2000 /* ... and not for less */
#define MARGIN_MS 300     /* a word so far outside a cue's time is none of the cue's */

struct placer {
    const struct place_segment *segments;
    const struct cue *cues;
    size_t segment_count;
    struct word_list a, b; /* of the segments, of the cues */
    size_t *begin;         /* [segment_count + 1]: of each segment's words in a */
    size_t *match;         /* [b.count]: the word of a that it is, or NONE */
    size_t *owner;         /* [b.count]: its segment, or NONE */
};

/* Words of the file, side by side, that are none of the transcript's: of one cue, or `lines`. */
struct piece {
    size_t begin, end;      /* in b */
    size_t low, high;       /* segments it may belong to */
    size_t a_begin, a_end;  /* words that it may stand for */
    bool behind, before;    /* the cue goes on: behind a word that is known, before one */
    bool has_low, has_high; /* there is a known word before, behind, at all */
    bool lines;             /* cues without times, and without a known word */
};

static void placer_free(struct placer *x)
{
    word_list_free(&x->a);
    word_list_free(&x->b);
    free(x->begin);
    free(x->match);
    free(x->owner);
}

void placed_free(struct placed *p)
{
    for (size_t i = 0; p->texts && i < p->count; i++)
        free(p->texts[i]);
    free(p->texts);
    *p = (struct placed){0};
}

/* ------------------------------------------------------------------------------- times */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

/* How many ms later the file has the words around word j: the median of the matched ones. 0 with
 * few cues: their words may have been replaced within the same time. */
static int64_t shift_at(const struct placer *x, size_t j)
{
    int64_t late[2 * AROUND];
    size_t n = 0, parts = 0, last = NONE, low = j > AROUND ? j - AROUND : 0;
    size_t high = x->b.count - j > AROUND ? j + AROUND : x->b.count;

    for (size_t k = low; k < high; k++)
        if (x->match[k] != NONE && x->b.list[k].ms >= 0) {
            late[n++] = x->b.list[k].ms - x->a.list[x->match[k]].ms;
            parts += x->b.list[k].part != last;
            last = x->b.list[k].part;
        }
    if (parts < CUES_MIN)
        return 0;
    qsort(late, n, sizeof(late[0]), by_size);
    return llabs(late[n / 2]) < SHIFT_MIN_MS ? 0 : late[n / 2];
}

struct span {
    int64_t from, to;
};

/* A cue in the transcript's time. */
static struct span cue_span(const struct placer *x, size_t j)
{
    const struct cue *cue = &x->cues[x->b.list[j].part];
    int64_t shift = shift_at(x, j);

    return (struct span){cue->start_ms - shift, cue->end_ms - shift};
}

static bool is_timed(const struct placer *x, size_t j)
{
    return x->cues[x->b.list[j].part].start_ms >= 0;
}

/* Milliseconds that both have, at least one where they meet at all. */
static int64_t common_ms(struct span s, const struct place_segment *segment)
{
    int64_t from = s.from > segment->start_ms ? s.from : segment->start_ms;
    int64_t to = s.to < segment->end_ms ? s.to : segment->end_ms;

    return to > from ? to - from : 0;
}

/* Does the cue have most of the segment's time? */
static bool covers_segment(struct span s, const struct place_segment *segment)
{
    int64_t length = segment->end_ms - segment->start_ms;

    return length > 0 && common_ms(s, segment) * 2 >= length;
}

struct fit {
    size_t first, last; /* those that it covers; first > last: none */
    size_t best;        /* has most of its time, else is the nearest one */
};

static struct fit fit_time(const struct placer *x, struct span s, size_t low, size_t high)
{
    struct fit f = {low + 1, low, low};
    int64_t most = 0, near = INT64_MAX;
    bool any = false;

    for (size_t k = low; k <= high; k++) {
        const struct place_segment *segment = &x->segments[k];
        int64_t common = common_ms(s, segment), before = segment->start_ms - s.to;
        int64_t apart = before > 0 ? before : s.from - segment->end_ms;

        if (common > most || (most == 0 && apart < near)) {
            f.best = k;
            near = apart;
        }
        most = common > most ? common : most;
        if (covers_segment(s, segment)) {
            f.first = any ? f.first : k;
            f.last = k;
            any = true;
        }
        if (before > 0)
            break;
    }
    return f;
}

/* ------------------------------------------------------------------------------- pieces */

static void assign_cue_words(struct placer *x, size_t begin, size_t end, size_t segment)
{
    for (size_t j = begin; j < end; j++)
        x->owner[j] = segment;
}

/* Words of the segment that the piece may stand for. */
static size_t left_words(const struct placer *x, const struct piece *p, size_t segment)
{
    size_t from = x->begin[segment] > p->a_begin ? x->begin[segment] : p->a_begin;
    size_t to = x->begin[segment + 1] < p->a_end ? x->begin[segment + 1] : p->a_end;

    return to > from ? to - from : 0;
}

/* In the shares that these segments have of the words it stands for. */
static void share_out(struct placer *x, const struct piece *p, size_t low, size_t high)
{
    size_t all = 0, seen, n = p->end - p->begin, segment = low;

    for (size_t k = low; k <= high; k++)
        all += left_words(x, p, k);
    seen = left_words(x, p, low);
    for (size_t j = p->begin; j < p->end; j++) {
        while (segment < high && (2 * (j - p->begin) + 1) * all > 2 * seen * n)
            seen += left_words(x, p, ++segment);
        x->owner[j] = segment;
    }
}

/* A cue with known words on one side may have taken in whole segments on the other. */
static void put_at_edge(struct placer *x, const struct piece *p)
{
    size_t low = p->behind ? p->low : p->high, high = low;
    size_t bottom = p->low + p->has_low, top = p->high - (p->has_high && p->high > 0);
    struct span s = cue_span(x, p->begin);

    while (p->behind && is_timed(x, p->begin) && high < top &&
           covers_segment(s, &x->segments[high + 1]))
        high++;
    while (p->before && is_timed(x, p->begin) && low > bottom &&
           covers_segment(s, &x->segments[low - 1]))
        low--;
    share_out(x, p, low, high);
}

/* A cue without a known word, by its time. At an end of the file it stands for segments that it
 * covers, or is new. */
static void put_by_time(struct placer *x, const struct piece *p)
{
    struct fit f = fit_time(x, cue_span(x, p->begin), p->low, p->high);

    if (f.first < f.last)
        share_out(x, p, f.first, f.last);
    else if (f.first == f.last || (p->has_low && p->has_high))
        assign_cue_words(x, p->begin, p->end, f.best);
    else
        assign_cue_words(x, p->begin, p->end, p->has_low ? p->low : p->high);
}

static void put_piece(struct placer *x, const struct piece *p)
{
    if (p->low == p->high)
        assign_cue_words(x, p->begin, p->end, p->low);
    else if (p->behind && p->before)
        share_out(x, p, p->low, p->high);
    else if (p->behind || p->before)
        put_at_edge(x, p);
    else
        put_by_time(x, p);
}

/* ------------------------------------------------------------------------------- lines */

/* Segments with words, from low on and before high. */
static size_t count_spoken(const struct placer *x, size_t low, size_t high)
{
    size_t n = 0;

    for (size_t k = low; k < high; k++)
        n += x->begin[k + 1] > x->begin[k];
    return n;
}

static size_t count_parts(const struct placer *x, size_t begin, size_t end)
{
    size_t n = 0;

    for (size_t j = begin; j < end; j++)
        n += j == begin || x->b.list[j].part != x->b.list[j - 1].part;
    return n;
}

/* One line for each segment between, as they were exported: of those with words, or of all. */
static void put_lines_in_turn(struct placer *x, size_t begin, size_t end, size_t segment, bool all)
{
    for (size_t j = begin; j < end; j++) {
        if (j == begin || x->b.list[j].part != x->b.list[j - 1].part) {
            segment += j > begin;
            while (!all && x->begin[segment + 1] == x->begin[segment])
                segment++;
        }
        x->owner[j] = segment;
    }
}

/* Whole lines without a known word and without a time. */
static void put_lines(struct placer *x, const struct piece *p)
{
    size_t low = p->low + p->has_low, high = p->high + !p->has_high;
    size_t all = low < high ? high - low : 0, spoken = count_spoken(x, low, low + all);
    size_t lines = count_parts(x, p->begin, p->end);

    if (spoken == lines || all == lines)
        put_lines_in_turn(x, p->begin, p->end, low, spoken != lines);
    else if (!p->has_low || !p->has_high)
        assign_cue_words(x, p->begin, p->end, NONE);
    else if (spoken > 0)
        share_out(x, p, low, high - 1);
    else
        assign_cue_words(x, p->begin, p->end, p->low);
}

/* ------------------------------------------------------------------------------- words */

/* The end of the cues that have no known word. */
static size_t lines_end(const struct placer *x, size_t begin, size_t end)
{
    if (end < x->b.count)
        for (uint32_t part = x->b.list[end].part; end > begin && x->b.list[end - 1].part == part;)
            end--;
    return end;
}

/* Cuts the next piece off, or, without times, all cues that have no known word. */
static void next_piece(const struct placer *x, size_t end, struct piece *p)
{
    const struct word *b = x->b.list;
    size_t to = p->end + 1;

    p->begin = p->end;
    while (to < end && b[to].part == b[p->begin].part)
        to++;
    p->behind = p->begin > 0 && b[p->begin - 1].part == b[p->begin].part;
    p->before = to < x->b.count && b[to].part == b[p->begin].part;
    p->lines = !p->behind && !p->before && !is_timed(x, p->begin);
    p->end = p->lines ? lines_end(x, p->begin, end) : to;
}

/* All unknown words from begin to end, by what is known around them. */
static void put_unknown(struct placer *x, size_t begin, size_t end)
{
    struct piece p = {.end = begin, .has_low = begin > 0, .has_high = end < x->b.count};

    p.a_begin = p.has_low ? x->match[begin - 1] + 1 : 0;
    p.a_end = p.has_high ? x->match[end] : x->a.count;
    p.low = p.has_low ? x->a.list[p.a_begin - 1].part : 0;
    p.high = p.has_high ? x->a.list[p.a_end].part : x->segment_count - 1;
    while (p.end < end) {
        next_piece(x, end, &p);
        if (p.lines && p.low < p.high)
            put_lines(x, &p);
        else
            put_piece(x, &p);
        if (!p.lines && x->owner[p.end - 1] > p.low)
            p.low = x->owner[p.end - 1];
    }
}

/* Words stay in their order: none goes to a segment before that of the one in front of it. */
static void keep_order(struct placer *x)
{
    size_t least = 0;

    for (size_t j = 0; j < x->b.count; j++)
        if (x->owner[j] != NONE) {
            if (x->owner[j] < least)
                x->owner[j] = least;
            least = x->owner[j];
        }
}

static void put_words(struct placer *x)
{
    for (size_t j = 0, end; j < x->b.count; j = end) {
        end = j + 1;
        if (x->match[j] != NONE) {
            x->owner[j] = x->a.list[x->match[j]].part;
            continue;
        }
        while (end < x->b.count && x->match[end] == NONE)
            end++;
        put_unknown(x, j, end);
    }
    keep_order(x);
}

/* ------------------------------------------------------------------------------- texts */

static void put_word(struct buf *out, const struct word *before, const struct word *w)
{
    if (before && !(w->joined && (before->part == w->part || before->joined)))
        buf_put_u8(out, ' ');
    buf_put(out, w->s, w->len);
}

/* A file that begins within a segment says nothing of the segment's words before: where those that
 * it does speak of begin. j0: the first word of the file; it has no more than j1 there. */
static size_t skip_outside(const struct placer *x, size_t from, size_t j0, size_t j1)
{
    int64_t begins = cue_span(x, j0).from - MARGIN_MS;
    size_t j = j0;

    while (j < j1 && x->match[j] == NONE)
        j++;
    while (j < j1 && is_timed(x, j0) && from < x->match[j] && x->a.list[from].ms < begins)
        from++;
    return from;
}

/* The same at its end; j1 is behind the last word of the file. */
static size_t drop_outside(const struct placer *x, size_t to, size_t j0, size_t j1)
{
    int64_t ends = cue_span(x, j1 - 1).to + MARGIN_MS;
    size_t j = j1;

    while (j > j0 && x->match[j - 1] == NONE)
        j--;
    while (j > j0 && is_timed(x, j1 - 1) && to > x->match[j - 1] + 1 && x->a.list[to - 1].ms > ends)
        to--;
    return to;
}

/* Are words j0 to j1 what the segment has between its words from and to? */
static bool is_same(const struct placer *x, size_t from, size_t to, size_t j0, size_t j1)
{
    if (j1 - j0 != to - from)
        return false;
    for (size_t k = 0; k < to - from; k++)
        if (!word_equal(&x->a.list[from + k], &x->b.list[j0 + k]))
            return false;
    return true;
}

/* The segment's new text, from words j0 to j1 of the file; NULL: it does not change. */
static int make_text(const struct placer *x, size_t segment, size_t j0, size_t j1,
                     const struct placed *range, char **ret, struct err *err)
{
    const struct word *before = NULL;
    struct buf out = BUF_INIT;
    size_t from = x->begin[segment], to = x->begin[segment + 1];

    if (j1 > j0 && segment == range->first)
        from = skip_outside(x, from, j0, j1);
    if (j1 > j0 && segment == range->last)
        to = drop_outside(x, to, j0, j1);
    if (is_same(x, from, to, j0, j1))
        return 0;
    for (size_t i = x->begin[segment]; i < from; before = &x->a.list[i++])
        put_word(&out, before, &x->a.list[i]);
    for (size_t j = j0; j < j1; before = &x->b.list[j++])
        put_word(&out, before, &x->b.list[j]);
    for (size_t i = to; i < x->begin[segment + 1]; before = &x->a.list[i++])
        put_word(&out, before, &x->a.list[i]);
    *ret = buf_cstr(&out);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

static int make_texts(const struct placer *x, struct placed *p, struct err *err)
{
    int rc = 0;

    p->first = NONE;
    for (size_t j = 0; j < x->b.count; j++) {
        p->same += x->match[j] != NONE;
        p->nowhere += x->owner[j] == NONE;
        if (x->owner[j] == NONE)
            continue;
        p->first = p->first == NONE ? x->owner[j] : p->first;
        p->last = x->owner[j];
    }
    for (size_t k = p->first, j = 0, end; rc == 0 && k <= p->last; k++, j = end) {
        while (j < x->b.count && x->owner[j] == NONE)
            j++;
        for (end = j; end < x->b.count && x->owner[end] == k;)
            end++;
        rc = make_text(x, k, j, end, p, &p->texts[k], err);
    }
    return rc;
}

/* ------------------------------------------------------------------------------- all of it */

static int take_words(struct placer *x, const struct cues *cues, struct err *err)
{
    int rc = 0;

    for (size_t k = 0; rc == 0 && k < x->segment_count; k++) {
        const struct place_segment *s = &x->segments[k];

        x->begin[k] = x->a.count;
        rc = word_list_add(&x->a, (uint32_t)k, s->text, s->start_ms, s->end_ms, err);
    }
    x->begin[x->segment_count] = x->a.count;
    for (size_t k = 0; rc == 0 && k < cues->count; k++) {
        const struct cue *c = &cues->list[k];

        rc = word_list_add(&x->b, (uint32_t)k, (const char *)cues->text.data + c->at, c->start_ms,
                           c->end_ms, err);
    }
    return rc == 0 ? word_list_number(&x->a, &x->b, err) : rc;
}

static int check_share(const struct placer *x, size_t solid, struct err *err)
{
    if (x->b.count == 0)
        return err_set(err, ERR_INPUT, "there is no word in it");
    if ((double)solid >= SHARE_MIN * (double)x->b.count)
        return 0;
    return err_set(
        err, ERR_INPUT,
        "too few of its words (%zu) are said in that recording: is it a file of another one? Try "
        "--at for a segment in which nothing was right",
        x->b.count);
}

int place_cues(const struct place_segment *segments, size_t count, const struct cues *cues,
               struct placed *ret, struct err *err)
{
    struct placer x = {.segments = segments, .cues = cues->list, .segment_count = count};
    struct placed p = {.texts = calloc(count + 1, sizeof(*p.texts)), .count = count};
    size_t solid = 0;
    int rc;

    x.begin = calloc(count + 1, sizeof(*x.begin));
    rc = p.texts && x.begin ? take_words(&x, cues, err) : err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = align_words(&x.a, &x.b, &x.match, &solid, err);
    if (rc == 0)
        rc = check_share(&x, solid, err);
    if (rc == 0 && !(x.owner = calloc(x.b.count, sizeof(*x.owner))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0) {
        p.words = x.b.count;
        put_words(&x);
        rc = make_texts(&x, &p, err);
    }
    placer_free(&x);
    if (rc == 0)
        *ret = p;
    else
        placed_free(&p);
    return rc;
}
