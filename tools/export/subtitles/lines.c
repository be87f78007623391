#include "tools/export/subtitles/lines.h"

#include <math.h>
#include <stdlib.h>

#include "tools/export/subtitles/sense.h"

/* Costs of a cue, in the units of sense_torn. */
#define COST_CUE 40.0    /* each: few are read more easily than many */
#define COST_PAUSE 300.0 /* a pause of a second within, in which its end is read too early */
#define COST_SHORT 250.0 /* less time than the least */
#define COST_FAST 30.0   /* a character a second too fast */
#define COST_MIDDLE 60.0 /* a sentence ends within, and the cue's end is none */
#define PAUSE_MS 400     /* from here on a pause is one */
#define LINGER_MS 1000   /* so much longer than speech a cue may be seen, into a pause */

struct fit { /* of the pieces from a cue's first on */
    uint32_t lines, columns;
};

/* Does the piece still fit? */
static bool add_piece(struct fit *f, const struct subtitle_piece *p, const struct lines_run *run)
{
    uint32_t blank = f->columns > 0 && p->blank;

    if (f->columns > 0 && f->columns + blank + p->columns > run->limits.line_columns) {
        f->lines++;
        f->columns = 0;
        blank = 0;
    }
    f->columns += blank + p->columns;
    return f->lines <= run->limits.lines;
}

static struct fit fit_begin(const struct lines_run *run, bool first)
{
    if (first && run->label_line)
        return (struct fit){2, 0};
    return (struct fit){1, first ? run->label_columns : 0};
}

struct search {
    struct subtitles *s;
    const struct lines_run *run;
    const struct subtitle_piece *p; /* of the run */
    double *cost;                   /* of all cues that end before a piece */
    size_t *from;                   /* where the last of them begins */
    unsigned *torn;                 /* by a break behind a piece */
};

/* The least that is torn between two lines, of which both have room. */
static double line_cost(const struct search *x, size_t from, size_t to, uint32_t begin)
{
    uint32_t room = x->run->limits.line_columns, total = begin, left = begin;
    double least = 4.0 * SENSE_TORN;

    for (size_t i = from; i < to; i++)
        total += x->p[i].columns + (i > from && x->p[i].blank);
    for (size_t i = from; i + 1 < to; i++) {
        left += x->p[i].columns + (i > from && x->p[i].blank);
        if (left > room)
            break;
        if (total - left - x->p[i + 1].blank <= room && x->torn[i] < least)
            least = x->torn[i];
    }
    return least;
}

static double cue_cost(const struct search *x, size_t from, size_t to, const struct fit *f,
                       uint32_t characters, double inner)
{
    const struct subtitle_limits *l = &x->run->limits;
    int64_t start = x->p[from].start_ms, spoken = x->p[to - 1].end_ms;
    int64_t next = to < x->run->count ? x->p[to].start_ms : x->run->next_ms;
    int64_t end = spoken + LINGER_MS < next - l->gap_ms ? spoken + LINGER_MS : next - l->gap_ms;
    double ms = (double)(end > start ? end - start : 1), cost = COST_CUE + inner;
    double cps = characters * 1000.0 / ms;

    if (to < x->run->count)
        cost += x->torn[to - 1];
    if (ms < (double)l->min_ms)
        cost += COST_SHORT;
    if (cps > l->cps)
        cost += COST_FAST * fmin(cps - l->cps, 50);
    if (f->lines == 2 && !(from == 0 && x->run->label_line))
        cost += 0.5 * line_cost(x, from, to, fit_begin(x->run, from == 0).columns);
    return cost;
}

/* What stands in the middle of a cue, behind its piece i. */
static double inner_cost(const struct search *x, size_t i)
{
    int64_t pause = x->p[i + 1].start_ms - x->p[i].end_ms;

    return (pause > PAUSE_MS ? COST_PAUSE * (double)pause / 1000 : 0) +
           (x->torn[i] == SENSE_WHOLE ? COST_MIDDLE : 0);
}

static void extend(const struct search *x, size_t from)
{
    struct fit f = fit_begin(x->run, from == 0);
    uint32_t characters = from == 0 ? x->run->label_columns : 0;
    double inner = 0;

    for (size_t to = from + 1; to <= x->run->count; to++) {
        const struct subtitle_piece *last = &x->p[to - 1];
        double cost;

        if (to > from + 1)
            inner += inner_cost(x, to - 2);
        characters += last->characters + (to > from + 1 && last->blank);
        if ((!add_piece(&f, last, x->run) ||
             last->end_ms - x->p[from].start_ms > x->run->limits.max_ms) &&
            to > from + 1)
            return;
        cost = x->cost[from] + cue_cost(x, from, to, &f, characters, inner);
        if (cost < x->cost[to]) {
            x->cost[to] = cost;
            x->from[to] = from;
        }
    }
}

/* ---- the lines of a cue that is found: none too wide, alike in length, broken where it tears
 * least. Of all ways, by the line's end, as for cues. */

#define LINES_MOST 8

/* Of a line of so many columns where they would be `even` each. */
static double uneven(uint32_t columns, double even)
{
    double d = (double)columns - even;

    return d * d * 0.4;
}

static void break_cue(const struct search *x, size_t from, size_t to)
{
    struct fit f = fit_begin(x->run, from == 0);
    uint32_t begin = f.columns, total = begin, lines;
    struct subtitle_piece *p = &x->s->pieces[x->run->first];
    size_t at = from;
    double even;

    f.lines = 1; /* the text's own */
    for (size_t i = from; i < to; i++) {
        add_piece(&f, &p[i], x->run);
        total += p[i].columns + (i > from && p[i].blank);
    }
    lines = f.lines;
    even = (double)total / lines;
    /* Line by line: the rest must still fit into the lines that are left. */
    for (uint32_t line = 1; line < lines; line++) {
        uint32_t columns = line == 1 ? begin : 0;
        size_t best = 0;
        double least = HUGE_VAL;

        for (size_t i = at; i + 1 < to; i++) {
            struct fit rest = {1, 0};
            double cost;

            columns += p[i].columns + (i > at && p[i].blank);
            if (columns > x->run->limits.line_columns && i > at)
                break;
            for (size_t k = i + 1; k < to; k++)
                add_piece(&rest, &p[k], x->run);
            if (rest.lines > lines - line)
                continue;
            cost = 2.0 * x->torn[i] + uneven(columns, even) + (columns > even ? 4 : 0);
            if (cost < least) {
                least = cost;
                best = i + 1;
            }
        }
        if (best == 0)
            return;
        p[best].line = true;
        at = best;
    }
}

static int begin_search(struct search *x, struct err *err)
{
    size_t n = x->run->count;

    x->cost = malloc((n + 1) * sizeof(*x->cost));
    x->from = calloc(n + 1, sizeof(*x->from));
    x->torn = calloc(n + 1, sizeof(*x->torn));
    if (!x->cost || !x->from || !x->torn)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i <= n; i++)
        x->cost[i] = i == 0 ? 0 : HUGE_VAL;
    for (size_t i = 0; i + 1 < n; i++)
        x->torn[i] = sense_torn(x->s, &x->p[i], &x->p[i + 1], x->run->language);
    return 0;
}

int lines_break(struct subtitles *s, const struct lines_run *run, size_t *ends, size_t *ret,
                struct err *err)
{
    struct search x = {.s = s, .run = run, .p = &s->pieces[run->first]};
    size_t count = 0;
    int rc = begin_search(&x, err);

    for (size_t i = 0; rc == 0 && i < run->count; i++)
        extend(&x, i);
    for (size_t to = run->count; rc == 0 && to > 0; to = x.from[to])
        ends[count++] = to;
    for (size_t i = 0; i < count / 2; i++) {
        size_t other = ends[i];

        ends[i] = ends[count - 1 - i];
        ends[count - 1 - i] = other;
    }
    for (size_t i = 0; i < count; i++)
        break_cue(&x, i == 0 ? 0 : ends[i - 1], ends[i]);
    free(x.cost);
    free(x.from);
    free(x.torn);
    *ret = count;
    return rc;
}
