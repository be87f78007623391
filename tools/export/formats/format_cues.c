/* srt and vtt. */
#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

#include <string.h>

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
        escape_line(out, s->text, how);
    escape_put(out, "\n\n");
}

static int write_cues(const struct document *d, bool vtt, bool time_words, struct buf *out)
{
    for (size_t i = 0; i < d->segment_count; i++)
        put_cue(out, vtt, i + 1, &d->segments[i], time_words);
    return 0;
}

WRITER(srt)
{
    (void)o;
    (void)err;
    return write_cues(d, false, false, out);
}

WRITER(vtt)
{
    (void)err;
    escape_put(out, "WEBVTT\n\n");
    if (d->dropped)
        escape_put(out, "NOTE What was not believed and left out.\n\n");
    return write_cues(d, true, o->words, out);
}
