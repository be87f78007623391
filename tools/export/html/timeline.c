#include "tools/export/html/timeline.h"

#include <math.h>
#include <string.h>

#include "tools/export/escape_html.h"
#include "tools/cli/text.h"

#define WIDTH 10000 /* units, however long it is */
#define LANE 12
#define LEAST 8 /* units: less could not be seen */

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

int64_t timeline_length_ms(const struct document *d)
{
    int64_t ms = later(d->duration_ms, 1);

    for (size_t i = 0; i < d->segment_count; i++)
        ms = later(ms, d->segments[i].end_ms);
    for (size_t i = 0; i < d->turn_count; i++)
        ms = later(ms, d->turns[i].end_ms);
    for (size_t i = 0; i < d->sound_count; i++)
        ms = later(ms, d->sounds[i].end_ms);
    return ms;
}

int timeline_colour(const struct tally *speakers, const char *name)
{
    for (size_t i = 0; i < speakers->keys.count; i++)
        if (strcmp(keys_text(&speakers->keys, i), name) == 0)
            return (int)(i % TIMELINE_COLOURS);
    return -1;
}

struct drawing {
    struct buf *out;
    int64_t length_ms;
};

static void put_span(const struct drawing *g, int64_t start_ms, int64_t end_ms, size_t y,
                     int height)
{
    /* In floating point: a catalog may have any times. */
    const double unit = (double)WIDTH / (double)g->length_ms;
    const int64_t from = (int64_t)fmin((double)later(start_ms, 0) * unit, WIDTH);
    int64_t width = (int64_t)fmin((double)later(end_ms, 0) * unit, WIDTH) - from;

    width = width < LEAST ? LEAST : width;
    buf_printf(g->out, "M%lld %zuh%lldv%dh-%lldz", (long long)from, y, (long long)width, height,
               (long long)width);
}

static void begin_path(const struct drawing *g, const char *class)
{
    buf_printf(g->out, "<path class=\"%s\" d=\"", class);
}

static size_t lanes_of(const struct tally *t)
{
    return t->keys.count < TIMELINE_COLOURS ? t->keys.count : TIMELINE_COLOURS;
}

/* Each of the first speakers has a lane of its own; those beyond share them, as they share colours.
 */
static void put_turns(const struct drawing *g, const struct document *d,
                      const struct tally *speakers, size_t y)
{
    for (size_t lane = 0; lane < lanes_of(speakers); lane++) {
        buf_printf(g->out, "<path class=\"s%zu\" d=\"", lane);
        for (size_t i = 0; i < d->turn_count; i++)
            if (timeline_colour(speakers, d->turns[i].speaker) == (int)lane)
                put_span(g, d->turns[i].start_ms, d->turns[i].end_ms, y + lane * LANE, LANE - 3);
        buf_printf(g->out, "\"/>\n");
    }
}

static void put_doubts(const struct drawing *g, const struct document *d, size_t y)
{
    begin_path(g, "doubts");
    for (size_t i = 0; i < d->segment_count; i++)
        if (document_doubted(d->segments[i].reason))
            put_span(g, d->segments[i].start_ms, d->segments[i].end_ms, y, LANE - 6);
    buf_printf(g->out, "\"/>\n");
}

static void put_sounds(const struct drawing *g, const struct document *d, size_t y)
{
    begin_path(g, "sounds");
    for (size_t i = 0; i < d->sound_count; i++)
        put_span(g, d->sounds[i].start_ms, d->sounds[i].end_ms, y, LANE - 6);
    buf_printf(g->out, "\"/>\n");
}

static void put_chapters(const struct drawing *g, const struct document *d, size_t height)
{
    begin_path(g, "chapters");
    for (size_t i = 0; i < d->chapter_count; i++)
        put_span(g, d->chapters[i].start_ms, 0, 0, (int)height);
    buf_printf(g->out, "\"/>\n");
}

static size_t doubts_of(const struct document *d)
{
    size_t n = 0;

    for (size_t i = 0; i < d->segment_count; i++)
        n += document_doubted(d->segments[i].reason);
    return n;
}

void timeline_put(const struct document *d, const struct tally *speakers,
                  const struct tally *sounds, struct buf *out)
{
    const struct drawing g = {out, timeline_length_ms(d)};
    const size_t doubts = doubts_of(d), spoken = lanes_of(speakers) * LANE;
    const size_t height = spoken + (d->sound_count > 0) * LANE + (doubts > 0) * LANE;
    char length[TEXT_LEN];

    if (height == 0 && d->chapter_count == 0)
        return;
    buf_printf(out,
               "<svg class=\"lanes\" viewBox=\"0 0 %d %zu\" height=\"%zu\" "
               "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Of %s: %zu turns of %zu "
               "speakers, %zu sounds of %zu kinds, %zu chapters, %zu passages in doubt\">\n",
               WIDTH, height + 4, height + 4, text_length(g.length_ms, length), d->turn_count,
               speakers->keys.count, d->sound_count, sounds->keys.count, d->chapter_count, doubts);
    put_turns(&g, d, speakers, 2);
    if (d->sound_count > 0)
        put_sounds(&g, d, spoken + 4);
    if (doubts > 0)
        put_doubts(&g, d, spoken + (d->sound_count > 0) * LANE + 4);
    if (d->chapter_count > 0)
        put_chapters(&g, d, height + 4);
    buf_printf(out, "</svg>\n");
}
