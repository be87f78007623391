#include "tools/export/html/page.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "tools/cli/account.h"
#include "tools/cli/text.h"
#include "tools/export/document.h"
#include "tools/export/escape.h"
#include "tools/export/html/tally.h"
#include "workers/stages/transcribe/outcome/doubt.h"

/* ---- a recording from its beginning to its end as inline SVG: who speaks, what is heard,
 * chapters, doubts */

#define TIMELINE_COLOURS 8 /* classes s0 to s7 of style.css */

#define WIDTH 10000 /* units, however long it is */
#define LANE 12
#define LEAST 8 /* units: less could not be seen */

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

/* How long it is: what is known, or where its last segment, turn or sound ends; at least 1. */
static int64_t timeline_length_ms(const struct document *d)
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

/* The number of a speaker's colour; -1: nobody that the tally has. */
static int timeline_colour(const struct tally *speakers, const char *name)
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

static void draw_chapters(const struct drawing *g, const struct document *d, size_t height)
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

/* speakers: its turns' names, summed up; sounds: of its sounds. */
static void timeline_put(const struct document *d, const struct tally *speakers,
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
        draw_chapters(&g, d, height + 4);
    buf_printf(out, "</svg>\n");
}

/* Less probable words are shaded: 10 % and 22 % of the samples' 488 words with whisper-nano. */
#define DOUBTFUL 0.5
#define UNSURE 0.75

static void put(struct buf *out, const char *s) { buf_put(out, s, strlen(s)); }

static void put_seconds(struct buf *out, int64_t ms)
{
    ms = ms < 0 ? 0 : ms;
    buf_printf(out, "%lld.%lld", (long long)(ms / 1000), (long long)(ms % 1000 / 100));
}

/* "1:02:03", without hours where there are none. */
static void put_time(struct buf *out, int64_t ms)
{
    const long long s = ms < 0 ? 0 : ms / 1000;

    if (s >= 3600)
        buf_printf(out, "%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
    else
        buf_printf(out, "%lld:%02lld", s / 60, s % 60);
}

static void put_link(struct buf *out, int64_t ms)
{
    put(out, "<a class=\"time\" href=\"#t=");
    put_seconds(out, ms);
    put(out, "\">");
    put_time(out, ms);
    put(out, "</a>");
}

/* ------------------------------------------------------------------------------------- head */

static void put_fact(struct buf *out, const char *name, const char *value)
{
    if (!value[0])
        return;
    buf_printf(out, "<div><dt>%s</dt><dd dir=\"auto\">", name);
    html_text(out, value);
    put(out, "</dd></div>\n");
}

static void put_facts(const struct page *p, struct buf *out)
{
    const struct document *d = p->document;
    char length[TEXT_LEN] = "", number[32];

    if (d->duration_ms >= 0)
        text_length(d->duration_ms, length);
    snprintf(number, sizeof(number), "%lld", (long long)d->id);
    put(out, "<dl class=\"facts\">\n");
    put_fact(out, "Length", d->no_sound ? "no sound" : length);
    put_fact(out, "Language", d->language);
    put_fact(out, "Recorded", d->recorded_on);
    put_fact(out, "Title", d->title);
    put_fact(out, "File", p->where);
    put_fact(out, "Damage", d->damage);
    put_fact(out, "Not heard", d->left_out);
    put_fact(out, "Number in the catalog", number);
    put(out, "</dl>\n");
    if (d->made && d->made[0])
        buf_printf(out, "<p class=\"note\">%s.</p>\n", d->made);
    if (p->unfinished)
        put(out, "<p class=\"note\">This recording is not transcribed to its end yet.</p>\n");
}

static void put_head(const struct page *p, struct buf *out)
{
    html_begin(out, html_policy_folder, p->name);
    put(out, "<link rel=\"stylesheet\" href=\"../pages/style.css\">\n"
             "<script src=\"../pages/recording.js\" defer></script>\n</head>\n<body");
    buf_printf(out, " data-media=\"%s\" data-id=\"%lld\" data-ms=\"%lld\" data-name=\"", p->media,
               (long long)p->document->id, (long long)timeline_length_ms(p->document));
    html_text(out, p->name);
    put(out, "\">\n<a class=\"skip\" href=\"#text\">To the text</a>\n<header>\n"
             "<nav><a href=\"../index.html\">All recordings</a></nav>\n<h1 dir=\"auto\">");
    html_text(out, p->name);
    put(out, "</h1>\n");
    put_facts(p, out);
    put(out, "</header>\n<main>\n");
}

/* ----------------------------------------------------------------------------------- player */

static void put_source(struct buf *out, const char *href)
{
    if (!href[0])
        return;
    put(out, "<source src=\"");
    html_text(out, href);
    put(out, "\">");
}

static void put_player(const struct page *p, struct buf *out)
{
    const char *element = p->film ? "video" : "audio";

    put(out, "<section class=\"player\" aria-label=\"Player\">\n");
    if (p->source[0]) {
        buf_printf(out, "<%s id=\"player\" controls preload=\"metadata\">", element);
        put_source(out, p->source);
        put_source(out, p->second);
        buf_printf(out, "</%s>\n", element);
    } else {
        put(out, "<p class=\"note\">");
        html_text(out, p->silent);
        put(out, "</p>\n");
    }
    /* Filled by the script: without it, its buttons would do nothing. */
    put(out, "<div class=\"tools\" id=\"tools\" hidden></div>\n</section>\n");
}

static void put_legend(const char *title, const char *class, const struct tally *t, struct buf *out)
{
    char length[TEXT_LEN];

    if (t->keys.count == 0)
        return;
    buf_printf(out, "<h2>%s</h2>\n<ul class=\"legend\">\n", title);
    for (size_t i = 0; i < t->keys.count; i++) {
        buf_printf(out, "<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect class=\"");
        if (class)
            put(out, class);
        else
            buf_printf(out, "s%zu", i % TIMELINE_COLOURS);
        put(out, "\" width=\"12\" height=\"12\" rx=\"2\"/></svg> ");
        html_text(out, keys_text(&t->keys, i));
        buf_printf(out, " <span class=\"quiet\">%s</span></li>\n", text_length(t->sum[i], length));
    }
    put(out, "</ul>\n");
}

static void put_tags(const struct document *d, struct buf *out)
{
    if (d->tag_count == 0)
        return;
    put(out, "<h2>What the file says of itself</h2>\n<table class=\"tags\">\n"
             "<tr><th scope=\"col\">Tag</th><th scope=\"col\">Value</th>"
             "<th scope=\"col\">From</th></tr>\n");
    for (size_t i = 0; i < d->tag_count; i++) {
        put(out, "<tr><th scope=\"row\">");
        html_text(out, d->tags[i].key);
        put(out, "</th><td dir=\"auto\">");
        html_text(out, d->tags[i].value);
        put(out, "</td><td>");
        html_text(out, d->tags[i].source);
        put(out, "</td></tr>\n");
    }
    put(out, "</table>\n");
}

static void put_sound_list(const struct document *d, struct buf *out)
{
    if (d->sound_count == 0)
        return;
    put(out, "<details><summary>Each sound with its time</summary>\n<ul class=\"sounds\">\n");
    for (size_t i = 0; i < d->sound_count; i++) {
        put(out, "<li>");
        put_link(out, d->sounds[i].start_ms);
        put(out, " ");
        html_text(out, d->sounds[i].name);
        put(out, "</li>\n");
    }
    put(out, "</ul></details>\n");
}

static void put_timeline(const struct page *p, const struct tally *speakers,
                         const struct tally *sounds, struct buf *out)
{
    put(out, "<div class=\"timeline\" id=\"timeline\">\n");
    if (p->waveform)
        buf_printf(out, "<img class=\"wave\" src=\"../media/%s.svg\" alt=\"Waveform\">\n", p->id);
    timeline_put(p->document, speakers, sounds, out);
    put(out, "</div>\n");
}

/* ------------------------------------------------------------------------------------- text */

/* Units of UTF-16, in which the script counts. */
static size_t utf16_len(const char *s)
{
    size_t n = 0;

    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;

        n += (c < 0x80 || c >= 0xC0) + (c >= 0xF0);
    }
    return n;
}

/* Puts for each word its units of text, the hundredths of a second since the previous word's end
 * (for the first: since the segment's beginning), its length in hundredths, and its probability in
 * percent. That takes ten bytes a word, where an element for each would take fifty. */
static void put_word_times(const struct document_segment *s, struct buf *out)
{
    int64_t last = s->start_ms / 10;

    put(out, " data-w=\"");
    for (size_t i = 0; i < s->word_count; i++) {
        const struct document_word *w = &s->words[i];
        const char *text = w->text + (i == 0 ? strspn(w->text, " ") : 0);
        const int64_t from = w->start_ms / 10, to = w->end_ms / 10;

        buf_printf(out, "%s%zu,%lld,%lld", i > 0 ? " " : "", utf16_len(text),
                   (long long)(from - last), (long long)(to - from));
        if (isfinite(w->probability))
            buf_printf(out, ",%d", (int)(w->probability * 100));
        last = to;
    }
    put(out, "\"");
}

/* The text, its uncertain words marked. */
static void put_words(const struct document_segment *s, struct buf *out)
{
    for (size_t i = 0; i < s->word_count; i++) {
        const struct document_word *w = &s->words[i];
        const char *text = w->text + (i == 0 ? strspn(w->text, " ") : 0);
        const size_t blanks = strspn(text, " ");
        const char *class = !(w->probability < UNSURE)  ? NULL
                            : w->probability < DOUBTFUL ? "u2"
                                                        : "u1";

        html_text_bytes(out, text, blanks);
        if (class)
            buf_printf(out, "<span class=\"%s\">", class);
        html_text(out, text + blanks);
        if (class)
            put(out, "</span>");
    }
}

/* A language's code as an attribute, if it looks like one. */
static void put_lang(const char *language, struct buf *out)
{
    const size_t n = strlen(language);

    if (n >= 2 && n <= 3 && strspn(language, "abcdefghijklmnopqrstuvwxyz") == n)
        buf_printf(out, " lang=\"%s\"", language);
}

static void put_reason(void *out, const char *sentence)
{
    put(out, " ");
    html_text(out, sentence);
}

struct texting {
    const struct document *d;
    const struct tally *speakers;
    struct buf *out;
    size_t chapter;   /* the next one */
    const char *last; /* whose segment was before */
};

static void put_segment(struct texting *t, size_t index, const struct document_segment *s)
{
    const int colour = timeline_colour(t->speakers, s->speaker);
    const bool doubted = document_doubted(s->reason), words = document_words_are_text(s);
    struct buf *out = t->out;

    buf_printf(out, "<li id=\"s%zu\" data-s=\"%lld\" data-e=\"%lld\"", index + 1,
               (long long)s->start_ms, (long long)s->end_ms);
    if (doubted)
        put(out, " class=\"doubt\"");
    put(out, ">");
    if (s->speaker[0] && strcmp(s->speaker, t->last) != 0) {
        buf_printf(out, "<b class=\"who%s", colour >= 0 ? " s" : "");
        if (colour >= 0)
            buf_printf(out, "%d", colour);
        put(out, "\" dir=\"auto\">");
        html_text(out, s->speaker);
        put(out, "</b> ");
    }
    t->last = s->speaker;
    put_link(out, s->start_ms);
    put(out, " <p dir=\"auto\"");
    put_lang(s->language, out);
    if (words)
        put_word_times(s, out);
    put(out, ">");
    if (words)
        put_words(s, out);
    else
        html_text(out, s->text);
    put(out, "</p>");
    if (doubted) {
        put(out, " <small class=\"why\">In doubt:");
        doubt_say(s->reason, put_reason, out);
        put(out, "</small>");
    }
    put(out, "</li>\n");
}

/* Chapters that begin before the time, as headings. */
static void put_chapters(struct texting *t, int64_t ms)
{
    for (; t->chapter < t->d->chapter_count && t->d->chapters[t->chapter].start_ms <= ms;
         t->chapter++) {
        const struct document_chapter *c = &t->d->chapters[t->chapter];

        put(t->out, "</ol>\n<h2 dir=\"auto\">");
        put_link(t->out, c->start_ms);
        put(t->out, " ");
        html_text(t->out, c->title[0] ? c->title : "Chapter");
        put(t->out, "</h2>\n<ol class=\"text\">\n");
    }
}

static void put_text(const struct document *d, const struct tally *speakers, struct buf *out)
{
    struct texting t = {.d = d, .speakers = speakers, .out = out, .last = ""};

    put(out, "<section id=\"text\" tabindex=\"-1\" aria-label=\"Text\">\n<ol class=\"text\">\n");
    for (size_t i = 0; i < d->segment_count; i++) {
        put_chapters(&t, d->segments[i].start_ms);
        put_segment(&t, i, &d->segments[i]);
    }
    put_chapters(&t, INT64_MAX);
    put(out, "</ol>\n");
    if (d->segment_count == 0) {
        put(out, "<p class=\"note\">");
        put(out, d->no_sound                    ? "It has no sound."
                 : d->textless < TEXTLESS_KINDS ? textless_why(d->textless)
                                                : "It has no text yet.");
        put(out, "</p>\n");
    }
    put(out, "</section>\n");
}

/* ------------------------------------------------------------------------------------- page */

static int sum_up(const struct document *d, struct tally *speakers, struct tally *sounds,
                  struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < d->turn_count; i++)
        rc = tally_add(speakers, d->turns[i].speaker, d->turns[i].end_ms - d->turns[i].start_ms,
                       err);
    for (size_t i = 0; rc == 0 && i < d->sound_count; i++)
        rc = tally_add(sounds, d->sounds[i].name, d->sounds[i].end_ms - d->sounds[i].start_ms, err);
    return rc;
}

int page_put(const struct page *p, struct buf *out, struct err *err)
{
    struct tally speakers = {0}, sounds = {0};
    int rc = sum_up(p->document, &speakers, &sounds, err);

    if (rc == 0) {
        put_head(p, out);
        put_player(p, out);
        put_timeline(p, &speakers, &sounds, out);
        put_text(p->document, &speakers, out);
        put(out, "<section class=\"about\" aria-label=\"About this recording\">\n");
        put_legend("Speakers", NULL, &speakers, out);
        put_legend("Sounds", "sounds", &sounds, out);
        put_sound_list(p->document, out);
        put_tags(p->document, out);
        put(out, "</section>\n</main>\n</body>\n</html>\n");
    }
    tally_free(&speakers);
    tally_free(&sounds);
    return rc == 0 && out->failed ? err_set(err, ERR_LIMIT, "its page is too large") : rc;
}

void page_put_texts(const struct page *p, struct buf *out)
{
    buf_printf(out, "texts(\"%s\",[", p->id);
    for (size_t i = 0; i < p->document->segment_count; i++) {
        const struct document_segment *s = &p->document->segments[i];

        put(out, i > 0 ? ",\n[" : "[");
        put_seconds(out, s->start_ms);
        put(out, ",");
        html_json(out, s->text);
        put(out, "]");
    }
    put(out, "]);\n");
}
