#include "tools/export/subtitles.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "tools/export/subtitles/lines.h"
#include "tools/export/subtitles/pieces.h"
#include "tools/export/subtitles/sounds.h"

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
static void settle_times(struct subtitle *list, size_t count, const uint32_t *characters,
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
    size_t run_count, run_room, room, list_room;
    uint32_t *characters; /* of the cues */
    size_t characters_room;
    struct err *err;
};

static struct subtitle_limits limits_of(const struct making *m, const char *language)
{
    return subtitle_usual(m->limits, language[0] ? language : m->d->language);
}

static int no_memory(struct making *m) { return err_set(m->err, ERR_NOMEM, "out of memory"); }

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
        return no_memory(m);
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
    int rc = pieces_put(m->s, &m->room, s, limits_of(m, s->language).line_columns, m->err);

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
        size_t room = m->list_room * 2 + 64;
        struct subtitle *list = realloc(s->list, room * sizeof(*list));
        uint32_t *numbers = list ? realloc(m->characters, room * sizeof(*numbers)) : NULL;

        s->list = list ? list : s->list;
        m->characters = numbers ? numbers : m->characters;
        if (!list || !numbers)
            return no_memory(m);
        m->list_room = room;
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

/* Where a name does not fit beside the text and there is one line alone, there is no name. */
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
    int rc = ends ? 0 : no_memory(m);

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
        settle_times(s.list, s.count, m.characters, &l);
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
