/* srt and vtt. */
#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

#include <string.h>

#include "workers/results.h"

/* WebVTT's times inside a cue: each later than the one before, and inside the cue. */
static void put_timed_words(struct buf *out, const struct document_segment *s, int64_t start)
{
    int64_t last = start;

    for (size_t i = 0; i < s->word_count; i++) {
        const struct document_word *w = &s->words[i];
        const char *text = w->text + (i == 0 ? strspn(w->text, " ") : 0);
        const bool timed = w->start_ms > last && w->start_ms < s->end_ms;

        if (timed) {
            escape_put(out, "<");
            escape_time(out, w->start_ms, '.');
            escape_put(out, ">");
            last = w->start_ms;
        }
        escape_put(out, "<c>");
        escape_line(out, text, ESCAPE_VTT);
        escape_put(out, "</c>");
    }
}

static void put_cue(struct buf *out, bool vtt, uint64_t number, const struct document_segment *s,
                    bool time_words)
{
    char point = vtt ? '.' : ',';
    int64_t start = s->start_ms < 0 ? 0 : s->start_ms;
    enum escape how = vtt ? ESCAPE_VTT : ESCAPE_SRT;

    if (!vtt)
        buf_printf(out, "%llu\n", (unsigned long long)number);
    escape_time(out, start, point);
    escape_put(out, " --> ");
    /* A cue must last, or readers drop it. */
    escape_time(out, s->end_ms > start ? s->end_ms : start + 1, point);
    escape_put(out, "\n");
    if (s->speaker[0] != 0) {
        escape_put(out, vtt ? "<v " : "[");
        escape_line(out, s->speaker, how);
        escape_put(out, vtt ? ">" : "] ");
    }
    if (vtt && time_words && document_words_are_text(s))
        put_timed_words(out, s, start);
    else
        escape_line(out, s->text[0] ? s->text : "[" RESULT_MISSING "]", how);
    escape_put(out, "\n\n");
}

static void put_segments(const struct document *d, bool vtt, bool time_words, struct buf *out)
{
    for (size_t i = 0; i < d->segment_count; i++)
        put_cue(out, vtt, i + 1, &d->segments[i], time_words);
}

/* ---- laid out */

static void put_times(struct buf *out, const struct subtitle *c, char point)
{
    escape_time(out, c->start_ms, point);
    escape_put(out, " --> ");
    escape_time(out, c->end_ms, point);
    escape_put(out, "\n");
}

static void put_escaped(struct buf *out, const char *s, size_t len, enum escape how)
{
    struct buf piece = BUF_INIT;

    buf_put(&piece, s, len);
    escape_line(out, buf_cstr(&piece) ? buf_cstr(&piece) : "", how);
    out->failed |= piece.failed;
    buf_free(&piece);
}

static void put_pieces(struct buf *out, const struct subtitles *s, const struct subtitle *c,
                       enum escape how, bool time_words)
{
    int64_t last = c->start_ms;
    bool open = false;

    for (size_t i = c->first; i < c->first + c->count; i++) {
        const struct subtitle_piece *p = &s->pieces[i];
        const char *gap = i == c->first ? "" : p->line ? "\n" : p->blank ? " " : "";
        bool word = time_words && p->timed;

        if (word && open)
            escape_put(out, "</c>");
        if (p->line || !word)
            escape_put(out, gap);
        if (word && p->start_ms > last && p->start_ms < c->end_ms) {
            escape_put(out, "<");
            escape_time(out, last = p->start_ms, '.');
            escape_put(out, ">");
        }
        if (word) {
            escape_put(out, "<c>");
            escape_put(out, p->line ? "" : gap);
            open = true;
        }
        put_escaped(out, (const char *)s->text.data + p->at, p->len, how);
    }
    escape_put(out, open ? "</c>" : "");
}

static void put_subtitle(struct buf *out, bool vtt, size_t number, const struct subtitles *s,
                         const struct subtitle *c, bool time_words)
{
    enum escape how = vtt ? ESCAPE_VTT : ESCAPE_SRT;

    if (!vtt)
        buf_printf(out, "%zu\n", number);
    put_times(out, c, vtt ? '.' : ',');
    if (c->speaker[0] && (vtt || c->turn)) {
        escape_put(out, vtt ? "<v " : "[");
        escape_line(out, c->speaker, how);
        escape_put(out, vtt ? ">" : c->label_line ? "]\n" : "] ");
    }
    if (c->sound) {
        escape_put(out, "[");
        escape_line(out, c->sound, how);
        escape_put(out, "]");
    }
    put_pieces(out, s, c, how, time_words);
    escape_put(out, "\n\n");
}

static int put_subtitles(const struct document *d, const struct format_options *o, bool vtt,
                         struct buf *out, struct err *err)
{
    struct subtitles s = {0};
    int rc = subtitles_make(d, &o->limits, !vtt, o->sounds, &s, err);

    for (size_t i = 0; rc == 0 && i < s.count; i++)
        put_subtitle(out, vtt, i + 1, &s, &s.list[i], vtt && o->words);
    subtitles_free(&s);
    return rc;
}

/* WebVTT has chapters in a file of their own; in that of subtitles they can be told to people. */
static void put_chapters(struct buf *out, const struct document *d)
{
    if (d->chapter_count == 0)
        return;
    escape_put(out, "NOTE Chapters\n");
    for (size_t i = 0; i < d->chapter_count; i++) {
        escape_time(out, d->chapters[i].start_ms, '.');
        escape_put(out, d->chapters[i].title[0] ? " " : "");
        escape_line(out, d->chapters[i].title, ESCAPE_VTT);
        escape_put(out, "\n");
    }
    escape_put(out, "\n");
}

static void put_made(struct buf *out, const struct document *d)
{
    if (d->made && d->made[0])
        buf_printf(out, "NOTE %s.\n\n", d->made);
}

WRITER(srt)
{
    if (!o->plain)
        return put_subtitles(d, o, false, out, err);
    put_segments(d, false, false, out);
    return 0;
}

WRITER(vtt)
{
    escape_put(out, "WEBVTT\n\n");
    put_made(out, d);
    if (d->dropped)
        escape_put(out, "NOTE What was not believed and left out.\n\n");
    if (!o->plain && !d->dropped) {
        put_chapters(out, d);
        return put_subtitles(d, o, true, out, err);
    }
    put_segments(d, true, o->words, out);
    return 0;
}

/* The transcript for an oral history player: a cue is a passage, not a subtitle. */
WRITER(ohms)
{
    (void)o;
    (void)err;
    escape_put(out, "WEBVTT\n\n");
    put_made(out, d);
    if (d->title[0] || d->language[0]) {
        escape_put(out, "NOTE\n");
        escape_put(out, d->title[0] ? "Title: " : "");
        escape_line(out, d->title, ESCAPE_VTT);
        escape_put(out, d->title[0] ? "\n" : "");
        escape_put(out, d->language[0] ? "Language: " : "");
        escape_line(out, d->language, ESCAPE_VTT);
        escape_put(out, d->language[0] ? "\n\n" : "\n");
    }
    put_segments(d, true, false, out);
    return 0;
}
