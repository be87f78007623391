#include "tools/export/subtitles.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <utf8proc.h>

#include "base/list.h"
#include "tools/export/subtitles/pieces.h"
#include "tools/export/subtitles/sounds.h"

struct lines_run {       /* what one speaker says without a long pause, in one language */
    size_t first, count; /* pieces */
    const char *language;
    struct subtitle_limits limits; /* none of them 0 */
    uint32_t label_columns;        /* in front of the first cue, with a blank; 0: none */
    bool label_line;               /* that has a line of its own; there are two at least then */
    int64_t next_ms;               /* when the next run begins */
};

/* ---- how much sense is torn where a text is broken */

/* The cost of a break between the adjacent pieces a and b: 0 at the end of a sentence, up to
 * SENSE_TORN where no break should be. In English and Spanish, articles, prepositions, possessives
 * and titles stay with what follows, and breaks come before conjunctions. language "": unknown. */
#define SENSE_WHOLE 0
#define SENSE_PLAIN 50
#define SENSE_TORN 200

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
static const char *strip_punctuation(const struct subtitles *s, const struct subtitle_piece *p,
                                     size_t *len)
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
    const char *word = strip_punctuation(s, p, &len);

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        if (text_of(s, p)[p->len - 1] == '.' && is_word(tables[i].titles, word, len))
            return true;
    return false;
}

static bool sense_ends_sentence(const struct subtitles *s, const struct subtitle_piece *a)
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

static unsigned sense_torn(const struct subtitles *s, const struct subtitle_piece *a,
                           const struct subtitle_piece *b, const char *language)
{
    const struct words *table = table_of(language);
    size_t alen, blen;
    const char *one = strip_punctuation(s, a, &alen), *other = strip_punctuation(s, b, &blen);
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

/* ---- which pieces are a cue, and which of them a line */

/* Costs of a cue, in the units of sense_torn. */
#define COST_CUE 40.0     /* each: few are read more easily than many */
#define COST_PAUSE 300.0  /* a pause of a second within, in which its end is read too early */
#define COST_SHORT 250.0  /* less time than the least */
#define COST_FAST 30.0    /* a character a second too fast */
#define COST_MIDDLE 60.0  /* a sentence ends within, and the cue's end is none */
#define LONG_PAUSE_MS 400 /* from here on a pause is one */
#define LINGER_MS 1000    /* so much longer than speech a cue may be seen, into a pause */

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
    uint32_t capacity = x->run->limits.line_columns, total = begin, left = begin;
    double least = 4.0 * SENSE_TORN;

    for (size_t i = from; i < to; i++)
        total += x->p[i].columns + (i > from && x->p[i].blank);
    for (size_t i = from; i + 1 < to; i++) {
        left += x->p[i].columns + (i > from && x->p[i].blank);
        if (left > capacity)
            break;
        if (total - left - x->p[i + 1].blank <= capacity && x->torn[i] < least)
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

/* The cost of a pause or of a sentence's end within a cue, behind its piece i. */
static double inner_cost(const struct search *x, size_t i)
{
    int64_t pause = x->p[i + 1].start_ms - x->p[i].end_ms;

    return (pause > LONG_PAUSE_MS ? COST_PAUSE * (double)pause / 1000 : 0) +
           (x->torn[i] == SENSE_WHOLE ? COST_MIDDLE : 0);
}

static void extend_cues_from(const struct search *x, size_t from)
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
 * least. Each line ends where that costs least and the rest still fits. */

#define LINES_MOST 8

/* The cost of a line of so many columns if `even` columns are best. */
static double compute_unevenness(uint32_t columns, double even)
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
            cost = 2.0 * x->torn[i] + compute_unevenness(columns, even) + (columns > even ? 4 : 0);
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

/* The cues of a run: ends[k] is one past the last piece of the k-th, counted from the run's first.
 * ends has room for `count`. Sets `line` of the pieces. */
static int lines_break(struct subtitles *s, const struct lines_run *run, size_t *ends, size_t *ret,
                       struct err *err)
{
    struct search x = {.s = s, .run = run, .p = &s->pieces[run->first]};
    size_t count = 0;
    int rc = begin_search(&x, err);

    for (size_t i = 0; rc == 0 && i < run->count; i++)
        extend_cues_from(&x, i);
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

/* ---- from when to when a cue is seen */

#define CHAIN_MS 500 /* a pause shorter than that flickers: the cue stays until the next one */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* How long a cue has to be seen to be read. */
static int64_t reading_ms(uint32_t characters, const struct subtitle_limits *l)
{
    int64_t ms = (int64_t)(characters * 1000.0 / l->cps + 0.999);

    return least(most(ms, l->min_ms), l->max_ms);
}

/* In order; each has, at first, the times in which it is spoken. characters: of each. A cue begins
 * when it is spoken, or when the one before it is over; that may use up to SUBTITLE_LATE_MS of
 * this one's time to be read, and more to have the least duration at all. */
static void finalize_times(struct subtitle *list, size_t count, const uint32_t *characters,
                           const struct subtitle_limits *l)
{
    int64_t over = 0; /* when the next one may begin */

    for (size_t i = 0; i < count; i++) {
        struct subtitle *c = &list[i];
        int64_t spoken = c->start_ms, start = most(most(spoken, 0), over);
        int64_t next = i + 1 < count ? most(list[i + 1].start_ms, 0) : INT64_MAX / 2;
        int64_t read = start + reading_ms(characters[i], l), end = most(c->end_ms, read);

        /* The words' own end gives way to the next cue; reading may push that a little. */
        if (end > next - l->gap_ms)
            end = most(next - l->gap_ms, least(read, next + SUBTITLE_LATE_MS - l->gap_ms));
        else if (next - l->gap_ms - end < CHAIN_MS)
            end = next - l->gap_ms;
        end = least(most(end, start + l->min_ms), start + l->max_ms);
        c->start_ms = start;
        c->end_ms = end;
        over = end + l->gap_ms;
    }
}

/* ---- subtitles */

#define PAUSE_MS 2000   /* what is said behind it is another cue */
#define RUN_PIECES 1500 /* a run is no longer: the search's memory */

void subtitles_free(struct subtitles *s)
{
    free(s->list);
    free(s->pieces);
    buf_free(&s->text);
    *s = (struct subtitles){0};
}

/* ---- limits */

static const struct {
    const char *language;
    uint32_t line_columns;
    double cps;
} usual[] = {
    {"en", 42, 20}, {"ja", 26, 7}, {"ko", 32, 14}, {"zh", 32, 11}, {"yue", 32, 11}, {"ru", 39, 17},
};

struct subtitle_limits subtitle_usual(struct subtitle_limits l, const char *language)
{
    struct subtitle_limits all = {42, 2, 17, 833, 7000, 83};

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        if (strcmp(usual[i].language, language) == 0) {
            all.line_columns = usual[i].line_columns;
            all.cps = usual[i].cps;
        }
    all.line_columns = l.line_columns > 0 ? l.line_columns : all.line_columns;
    all.lines = l.lines > 0 ? l.lines : all.lines;
    all.cps = l.cps > 0 ? l.cps : all.cps;
    all.max_ms = l.max_ms > 0 ? l.max_ms : all.max_ms;
    all.min_ms = l.min_ms > 0 ? l.min_ms : all.min_ms;
    all.gap_ms = l.gap_ms == 0 ? all.gap_ms : l.gap_ms < 0 ? 0 : l.gap_ms;
    if (all.min_ms > all.max_ms)
        all.min_ms = all.max_ms;
    return all;
}

/* ---- runs */

struct run {
    size_t first, count;
    int64_t start_ms;
    const char *speaker, *language;
};

struct making {
    const struct document *d;
    struct subtitle_limits limits; /* as asked for */
    struct subtitles *s;
    struct run *runs;
    size_t run_count, run_room, capacity, list_room;
    uint32_t *characters; /* of the cues */
    size_t characters_room;
    struct err *err;
};

static struct subtitle_limits limits_of(const struct making *m, const char *language)
{
    return subtitle_usual(m->limits, language[0] ? language : m->d->language);
}

static bool begins_run(const struct making *m, size_t segment, const struct subtitle_piece *p)
{
    const struct run *r = m->run_count > 0 ? &m->runs[m->run_count - 1] : NULL;
    const struct subtitle_piece *before = p - 1;

    return !r || strcmp(r->speaker, p->speaker) != 0 ||
           strcmp(r->language, m->d->segments[segment].language) != 0 || r->count == RUN_PIECES ||
           p->start_ms - before->end_ms >= PAUSE_MS || p->start_ms < before->start_ms;
}

static int add_run(struct making *m, size_t segment, size_t piece)
{
    const struct subtitle_piece *p = &m->s->pieces[piece];

    if (!list_grow(&m->runs, &m->run_room, m->run_count, sizeof(*m->runs)))
        return err_no_memory(m->err, NULL);
    m->runs[m->run_count] = (struct run){.first = piece,
                                         .start_ms = p->start_ms,
                                         .speaker = p->speaker,
                                         .language = m->d->segments[segment].language};
    m->run_count++;
    return 0;
}

static int add_segment(struct making *m, size_t segment)
{
    const struct document_segment *s = &m->d->segments[segment];
    size_t from = m->s->piece_count;
    int rc = pieces_put(m->s, &m->capacity, s, limits_of(m, s->language).line_columns, m->err);

    for (size_t i = from; rc == 0 && i < m->s->piece_count; i++) {
        if (begins_run(m, segment, &m->s->pieces[i]))
            rc = add_run(m, segment, i);
        if (rc == 0)
            m->runs[m->run_count - 1].count++;
    }
    return rc;
}

/* ---- cues */

static int add_cue(struct making *m, struct subtitle c, uint32_t characters)
{
    struct subtitles *s = m->s;

    if (s->count == m->list_room) {
        size_t capacity = m->list_room * 2 + 64;
        struct subtitle *list = realloc(s->list, capacity * sizeof(*list));
        uint32_t *numbers = list ? realloc(m->characters, capacity * sizeof(*numbers)) : NULL;

        s->list = list ? list : s->list;
        m->characters = numbers ? numbers : m->characters;
        if (!list || !numbers)
            return err_no_memory(m->err, NULL);
        m->list_room = capacity;
    }
    m->characters[s->count] = characters;
    s->list[s->count++] = c;
    return 0;
}

static int add_cues(struct making *m, const struct lines_run *run, const struct run *r, bool turn,
                    const size_t *ends, size_t count)
{
    int rc = 0;

    for (size_t k = 0, from = 0; rc == 0 && k < count; from = ends[k++]) {
        const struct subtitle_piece *p = &m->s->pieces[run->first];
        struct subtitle c = {.start_ms = p[from].start_ms,
                             .end_ms = p[ends[k] - 1].end_ms,
                             .speaker = r->speaker,
                             .turn = turn && k == 0,
                             .label_line = k == 0 && run->label_line,
                             .first = run->first + from,
                             .count = ends[k] - from};
        uint32_t characters = k == 0 ? run->label_columns : 0;

        for (size_t i = from; i < ends[k]; i++)
            characters += p[i].characters + (i > from && (p[i].blank || p[i].line));
        rc = add_cue(m, c, characters);
    }
    return rc;
}

/* A name that does not fit beside the text is left out if a cue has only one line. */
static void place_label(struct lines_run *run, const struct subtitle_piece *first, const char *name)
{
    uint32_t columns, characters;

    pieces_measure(name, strlen(name), &columns, &characters);
    run->label_columns = columns + 3; /* "[NAME] " */
    run->label_line = run->label_columns > run->limits.line_columns / 2 ||
                      run->label_columns + first->columns > run->limits.line_columns;
    if (columns + 2 > run->limits.line_columns || (run->label_line && run->limits.lines < 2)) {
        run->label_columns = 0;
        run->label_line = false;
    }
}

static int make_cues(struct making *m, bool labels)
{
    size_t *ends = malloc((RUN_PIECES + 1) * sizeof(*ends)), count = 0;
    int rc = ends ? 0 : err_no_memory(m->err, NULL);

    for (size_t i = 0; rc == 0 && i < m->run_count; i++) {
        const struct run *r = &m->runs[i];
        bool turn = r->speaker[0] != 0 && (i == 0 || strcmp(r->speaker, r[-1].speaker) != 0);
        struct lines_run run = {.first = r->first,
                                .count = r->count,
                                .language = r->language[0] ? r->language : m->d->language,
                                .limits = limits_of(m, r->language),
                                .next_ms = i + 1 < m->run_count ? r[1].start_ms : INT64_MAX / 2};

        if (turn && labels)
            place_label(&run, &m->s->pieces[r->first], r->speaker);
        rc = lines_break(m->s, &run, ends, &count, m->err);
        if (rc == 0)
            rc = add_cues(m, &run, r, turn && (!labels || run.label_columns > 0), ends, count);
    }
    free(ends);
    return rc;
}

int subtitles_make(const struct document *d, const struct subtitle_limits *limits, bool labels,
                   bool sounds, struct subtitles *ret, struct err *err)
{
    struct subtitles s = {0};
    struct making m = {.d = d, .limits = *limits, .s = &s, .err = err};
    struct subtitle_limits l = limits_of(&m, "");
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < d->segment_count; i++)
        rc = add_segment(&m, i);
    if (rc == 0)
        rc = make_cues(&m, labels);
    if (rc == 0)
        finalize_times(s.list, s.count, m.characters, &l);
    if (rc == 0 && sounds)
        rc = sounds_put(d, &l, &s, err);
    free(m.runs);
    free(m.characters);
    if (rc != 0)
        subtitles_free(&s);
    else
        *ret = s;
    return rc;
}
