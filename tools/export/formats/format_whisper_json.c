/* whisper-json: one object as openai-whisper writes it, with what WhisperX has beside that.
 *
 *   text                  all segments' texts, one behind the other
 *   segments[]            id, seek, start, end, text, tokens, temperature, avg_logprob,
 *                         compression_ratio, no_speech_prob; WhisperX: speaker
 *     words[]             word, start, end, probability; WhisperX: score, speaker
 *   word_segments[]       WhisperX: the words of all segments in one list
 *   language
 *
 * Times are seconds. Texts and words begin with the blank that parts them from the ones before,
 * except in languages that are written without blanks. Tokens are not kept in the catalog: the list
 * is empty. Nor is the window's position: seek is the segment's own start in hundredths of a
 * second. If no word has a time there are no lists of words, as without Whisper's
 * --word_timestamps; if some have, every segment has a list. */
#include <string.h>

#include "tools/export/escape.h"
#include "tools/export/formats/writers.h"
#include "workers/text/languages.h"

/* The blank, or nothing, in front of the segment's text. */
static const char *blank_before(const struct document_segment *s)
{
    return s->text[0] == 0 || s->text[0] == ' ' || language_without_blanks(s->language) ? "" : " ";
}

/* One string of both; n: bytes of text. */
static void put_string(struct buf *out, const char *blank, const char *text, size_t n)
{
    struct buf whole = BUF_INIT;

    escape_put(&whole, blank);
    buf_put(&whole, text, n);
    escape_json(out, buf_cstr(&whole) ? buf_cstr(&whole) : "");
    out->failed |= whole.failed;
    buf_free(&whole);
}

static void put_text(struct buf *out, const struct document *d)
{
    struct buf all = BUF_INIT;

    for (size_t i = 0; i < d->segment_count; i++) {
        escape_put(&all, blank_before(&d->segments[i]));
        escape_put(&all, d->segments[i].text);
    }
    put_string(out, "", (const char *)all.data, all.len);
    out->failed |= all.failed;
    buf_free(&all);
}

static void put_seconds(struct buf *out, const char *key, int64_t ms)
{
    buf_printf(out, ", \"%s\": %lld.%03d", key, (long long)(ms / 1000), (int)(ms % 1000));
}

static void put_speaker(struct buf *out, const char *speaker)
{
    if (speaker && speaker[0] != 0)
        escape_json_text(out, "speaker", speaker);
}

/* Everything behind its text. */
static void put_word_end(struct buf *out, const struct document_word *w)
{
    put_seconds(out, "start", w->start_ms);
    put_seconds(out, "end", w->end_ms);
    escape_json_number(out, "probability", w->probability);
    escape_json_number(out, "score", w->probability);
    put_speaker(out, w->speaker);
    escape_put(out, "}");
}

/* A text that its words no longer spell has none. */
static size_t words_of(const struct document_segment *s)
{
    return document_words_are_text(s) ? s->word_count : 0;
}

static void put_words(struct buf *out, const struct document_segment *s)
{
    const size_t n = words_of(s);

    escape_put(out, ",\n     \"words\": [");
    for (size_t i = 0; i < n; i++) {
        const char *text = s->words[i].text;

        escape_put(out, i > 0 ? ",\n      {\"word\": " : "\n      {\"word\": ");
        put_string(out, i > 0 || text[0] == ' ' ? "" : blank_before(s), text, strlen(text));
        put_word_end(out, &s->words[i]);
    }
    escape_put(out, "]");
}

static void put_segment(struct buf *out, size_t id, const struct document_segment *s, bool words)
{
    buf_printf(out, "%s\n    {\"id\": %zu, \"seek\": %lld", id > 0 ? "," : "", id,
               (long long)(s->start_ms / 10));
    put_seconds(out, "start", s->start_ms);
    put_seconds(out, "end", s->end_ms);
    escape_put(out, ", \"text\": ");
    put_string(out, blank_before(s), s->text, strlen(s->text));
    escape_put(out, ", \"tokens\": []");
    escape_json_number(out, "temperature", s->temperature);
    escape_json_number(out, "avg_logprob", s->avg_logprob);
    escape_json_number(out, "compression_ratio", s->compression_ratio);
    escape_json_number(out, "no_speech_prob", s->no_speech_prob);
    put_speaker(out, s->speaker);
    if (words)
        put_words(out, s);
    escape_put(out, "}");
}

/* Without blanks around it, as WhisperX has them. */
static void put_bare_word(struct buf *out, const struct document_word *w)
{
    const char *text = w->text + strspn(w->text, " ");
    size_t n = strlen(text);

    while (n > 0 && text[n - 1] == ' ')
        n--;
    escape_put(out, "\n    {\"word\": ");
    put_string(out, "", text, n);
    put_word_end(out, w);
}

static void put_word_segments(struct buf *out, const struct document *d)
{
    bool any = false;

    escape_put(out, ",\n  \"word_segments\": [");
    for (size_t i = 0; i < d->segment_count; i++) {
        const size_t n = words_of(&d->segments[i]);

        for (size_t k = 0; k < n; k++) {
            escape_put(out, any ? "," : "");
            put_bare_word(out, &d->segments[i].words[k]);
            any = true;
        }
    }
    escape_put(out, "\n  ]");
}

WRITER(whisper_json)
{
    bool words = false;

    (void)o;
    (void)err;
    for (size_t i = 0; !words && i < d->segment_count; i++)
        words = words_of(&d->segments[i]) > 0;
    escape_put(out, "{\n  \"text\": ");
    put_text(out, d);
    escape_put(out, ",\n  \"segments\": [");
    for (size_t i = 0; i < d->segment_count; i++)
        put_segment(out, i, &d->segments[i], words);
    escape_put(out, d->segment_count > 0 ? "\n  ]" : "]");
    if (words)
        put_word_segments(out, d);
    escape_put(out, ",\n  \"language\": ");
    if (d->language[0] != 0)
        escape_json(out, d->language);
    else
        escape_put(out, "null");
    escape_put(out, "\n}\n");
    return 0;
}
