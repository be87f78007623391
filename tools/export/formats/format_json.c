/* json: one object with all that is known. */
#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"

#include <math.h>

static void put_key(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, "  \"%s\": ", key);
    escape_json(out, value);
    escape_put(out, ",\n");
}

static void put_head(struct buf *out, const struct document *d)
{
    escape_put(out, "{\n");
    buf_printf(out, "  \"recording\": %lld,\n", (long long)d->id);
    put_key(out, "path", d->path);
    put_key(out, "member", d->member);
    put_key(out, "state", d->state);
    put_key(out, "title", d->title);
    put_key(out, "recorded_on", d->recorded_on);
    put_key(out, "language", d->language);
    put_key(out, "damage", d->damage);
    if (d->left_out && d->left_out[0])
        put_key(out, "left_out", d->left_out);
    if (d->made && d->made[0])
        put_key(out, "note", d->made);
    if (d->duration_ms >= 0)
        buf_printf(out, "  \"duration_ms\": %lld,\n", (long long)d->duration_ms);
    else
        escape_put(out, "  \"duration_ms\": null,\n");
}

static void put_words(struct buf *out, const struct document_segment *s)
{
    escape_put(out, ",\n     \"words\": [");
    for (size_t i = 0; i < s->word_count; i++) {
        const struct document_word *w = &s->words[i];

        buf_printf(out,
                   "%s\n      {\"start_ms\": %lld, \"end_ms\": %lld, \"word\": ", i > 0 ? "," : "",
                   (long long)w->start_ms, (long long)w->end_ms);
        escape_json(out, w->text);
        escape_json_number(out, "probability", w->probability);
        if (w->speaker && w->speaker[0] != 0)
            escape_json_text(out, "speaker", w->speaker);
        escape_put(out, "}");
    }
    escape_put(out, "]");
}

static void put_span(struct buf *out, size_t index, int64_t start_ms, int64_t end_ms)
{
    buf_printf(out, "%s\n    {\"start_ms\": %lld, \"end_ms\": %lld", index ? "," : "",
               (long long)start_ms, (long long)end_ms);
}

static void put_segment(struct buf *out, size_t index, const struct document_segment *s)
{
    put_span(out, index, s->start_ms, s->end_ms);
    escape_json_text(out, "text", s->text);
    if (s->heard)
        escape_json_text(out, "heard", s->heard);
    escape_json_text(out, "language", s->language);
    escape_json_text(out, "speaker", s->speaker);
    escape_json_number(out, "avg_logprob", s->avg_logprob);
    escape_json_number(out, "no_speech_prob", s->no_speech_prob);
    escape_json_number(out, "compression_ratio", s->compression_ratio);
    escape_json_number(out, "temperature", s->temperature);
    escape_json_number(out, "attempts", s->attempts > 0 ? s->attempts : NAN);
    escape_json_number(out, "speech_prob", s->speech_prob);
    escape_json_text(out, "reason", s->reason);
    if (s->word_count > 0)
        put_words(out, s);
    escape_put(out, "}");
}

/* Ends a list that had n entries, and begins another. */
static void next_list(struct buf *out, size_t n, const char *name)
{
    buf_printf(out, "%s],\n  \"%s\": [", n > 0 ? "\n  " : "", name);
}

static void put_turns(struct buf *out, const struct document *d)
{
    for (size_t i = 0; i < d->turn_count; i++) {
        put_span(out, i, d->turns[i].start_ms, d->turns[i].end_ms);
        escape_json_text(out, "speaker", d->turns[i].speaker);
        escape_json_text(out, "label", d->turns[i].label);
        escape_put(out, "}");
    }
}

static void put_sounds(struct buf *out, const struct document *d)
{
    for (size_t i = 0; i < d->sound_count; i++) {
        put_span(out, i, d->sounds[i].start_ms, d->sounds[i].end_ms);
        escape_json_text(out, "sound", d->sounds[i].name);
        escape_json_number(out, "score", d->sounds[i].score);
        escape_put(out, "}");
    }
}

static void put_tags(struct buf *out, const struct document *d)
{
    for (size_t i = 0; i < d->tag_count; i++) {
        escape_put(out, i ? ",\n    {\"key\": " : "\n    {\"key\": ");
        escape_json(out, d->tags[i].key);
        escape_json_text(out, "value", d->tags[i].value);
        escape_json_text(out, "source", d->tags[i].source);
        escape_put(out, "}");
    }
}

static void put_chapters(struct buf *out, const struct document *d)
{
    for (size_t i = 0; i < d->chapter_count; i++) {
        put_span(out, i, d->chapters[i].start_ms, d->chapters[i].end_ms);
        escape_json_text(out, "title", d->chapters[i].title);
        escape_put(out, "}");
    }
}

/* A number that is not known is below zero. */
static void put_number(struct buf *out, const char *key, int64_t n)
{
    if (n < 0)
        buf_printf(out, ", \"%s\": null", key);
    else
        buf_printf(out, ", \"%s\": %lld", key, (long long)n);
}

static void put_channels(struct buf *out, const struct document *d)
{
    for (size_t i = 0; i < d->channel_count; i++) {
        const struct result_channel *c = &d->channels[i];

        buf_printf(out, "%s\n    {\"track\": %u", i ? "," : "", c->track);
        put_number(out, "channel", c->channel ? (int64_t)c->channel : -1);
        put_number(out, "sound_ms", c->sound_ms);
        put_number(out, "length_ms", c->length_ms);
        buf_printf(out, ", \"heard\": %s}", c->heard ? "true" : "false");
    }
}

WRITER(json)
{
    size_t last = d->segment_count;

    (void)o;
    (void)err;
    put_head(out, d);
    buf_printf(out, "  \"%s\": [", d->dropped ? "dropped" : "segments");
    for (size_t i = 0; i < d->segment_count; i++)
        put_segment(out, i, &d->segments[i]);
    if (!d->dropped) { /* of what was not believed there is nothing more than that */
        next_list(out, d->segment_count, "turns");
        put_turns(out, d);
        next_list(out, d->turn_count, "sounds");
        put_sounds(out, d);
        next_list(out, d->sound_count, "tags");
        put_tags(out, d);
        next_list(out, d->tag_count, "chapters");
        put_chapters(out, d);
        next_list(out, d->chapter_count, "channels");
        put_channels(out, d);
        last = d->channel_count;
    }
    escape_put(out, last > 0 ? "\n  ]\n}\n" : "]\n}\n");
    return 0;
}
