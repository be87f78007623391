#include "tools/export/formats.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "tools/export/names.h"

static const char *const names[] = {"txt", "srt", "vtt", "tsv", "json", "rttm"};

int format_from_name(const char *name)
{
    for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

const char *format_name(enum format format) { return names[format]; }

void format_values(const struct complete *c, int option, void *arg)
{
    (void)arg;
    for (size_t i = 0; option == 'f' && i < sizeof(names) / sizeof(names[0]); i++)
        complete_put(c, names[i]);
}

static void put(struct buf *out, const char *s) { buf_put(out, s, strlen(s)); }

/* A control character of two bytes (U+0080 to U+009F): terminals act on them, too. */
static bool is_c1(const char *s)
{
    return (unsigned char)s[0] == 0xC2 && (unsigned char)s[1] >= 0x80 && (unsigned char)s[1] < 0xA0;
}

/* One line of plain text; runs of blanks that stand for a line break stay one blank. */
static void put_line(struct buf *out, const char *s, enum format format)
{
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '\r' && s[1] == '\n')
            continue;
        if (c < 0x20 || c == 0x7F)
            put(out, " ");
        else if (is_c1(s)) {
            put(out, " ");
            s++;
        } else if (format == FORMAT_VTT && c == '&')
            put(out, "&amp;");
        else if (format == FORMAT_VTT && c == '<')
            put(out, "&lt;");
        else if (format == FORMAT_VTT && c == '>')
            put(out, "&gt;");
        else if (format == FORMAT_SRT && strncmp(s, "-->", 3) == 0) {
            put(out, "->"); /* SubRip has no escape, and some readers take it for a time */
            s += 2;
        } else
            buf_put(out, s, 1);
    }
}

/* HH:MM:SS and the milliseconds behind `point`; hours grow as they must. */
static void put_time(struct buf *out, int64_t ms, char point)
{
    if (ms < 0)
        ms = 0;
    buf_printf(out, "%02lld:%02d:%02d%c%03d", (long long)(ms / 3600000), (int)(ms / 60000 % 60),
               (int)(ms / 1000 % 60), point, (int)(ms % 1000));
}

/* Somebody may have corrected the text since. */
static bool words_are_text(const struct format_segment *s)
{
    const char *text = s->text;

    for (size_t i = 0; i < s->word_count; i++) {
        const char *word = s->words[i].text;

        word += i == 0 ? strspn(word, " ") : 0;
        if (strncmp(text, word, strlen(word)) != 0) {
            size_t n = strlen(text);

            /* The last word's trailing blanks are none of the text's. */
            return i + 1 == s->word_count && strncmp(text, word, n) == 0 &&
                   strspn(word + n, " ") == strlen(word + n);
        }
        text += strlen(word);
    }
    return s->word_count > 0 && *text == 0;
}

/* WebVTT's times inside a cue: each later than the one before, and inside the cue. */
static void put_timed_words(struct buf *out, const struct format_segment *s, int64_t start)
{
    int64_t last = start;

    for (size_t i = 0; i < s->word_count; i++) {
        const struct format_word *w = &s->words[i];
        const char *text = w->text + (i == 0 ? strspn(w->text, " ") : 0);
        const bool timed = w->start_ms > last && w->start_ms < s->end_ms;

        if (timed) {
            put(out, "<");
            put_time(out, w->start_ms, '.');
            put(out, ">");
            last = w->start_ms;
        }
        put(out, "<c>");
        put_line(out, text, FORMAT_VTT);
        put(out, "</c>");
    }
}

static void put_cue(struct buf *out, enum format format, uint64_t index,
                    const struct format_segment *s)
{
    char point = format == FORMAT_SRT ? ',' : '.';
    int64_t start = s->start_ms < 0 ? 0 : s->start_ms;

    if (format == FORMAT_SRT)
        buf_printf(out, "%llu\n", (unsigned long long)index + 1);
    put_time(out, start, point);
    put(out, " --> ");
    /* A cue must last, or readers drop it. */
    put_time(out, s->end_ms > start ? s->end_ms : start + 1, point);
    put(out, "\n");
    if (s->speaker[0] != 0) {
        put(out, format == FORMAT_VTT ? "<v " : "[");
        put_line(out, s->speaker, format);
        put(out, format == FORMAT_VTT ? ">" : "] ");
    }
    if (format == FORMAT_VTT && s->time_words && words_are_text(s))
        put_timed_words(out, s, start);
    else
        put_line(out, s->text, format);
    put(out, "\n\n");
}

void format_json_string(struct buf *out, const char *s)
{
    put(out, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else if (c == '\n')
            put(out, "\\n");
        else if (c == '\t')
            put(out, "\\t");
        else if (c < 0x20 || c == 0x7F)
            buf_printf(out, "\\u%04x", c);
        else if (is_c1(s)) /* its second byte is its number */
            buf_printf(out, "\\u%04x", (unsigned char)*++s);
        else
            buf_put(out, s, 1);
    }
    put(out, "\"");
}

static void put_key(struct buf *out, const char *key, const char *value)
{
    buf_printf(out, "  \"%s\": ", key);
    format_json_string(out, value);
    put(out, ",\n");
}

static void put_number(struct buf *out, const char *key, double v)
{
    if (isfinite(v))
        buf_printf(out, ", \"%s\": %.6g", key, v);
    else
        buf_printf(out, ", \"%s\": null", key);
}

static void json_begin(struct buf *out, const struct format_recording *r)
{
    put(out, "{\n");
    buf_printf(out, "  \"recording\": %lld,\n", (long long)r->id);
    put_key(out, "path", r->path);
    put_key(out, "member", r->member);
    put_key(out, "state", r->state);
    put_key(out, "title", r->title);
    put_key(out, "recorded_on", r->recorded_on);
    put_key(out, "language", r->language);
    put_key(out, "damage", r->damage);
    if (r->left_out && r->left_out[0])
        put_key(out, "left_out", r->left_out);
    if (r->duration_ms >= 0)
        buf_printf(out, "  \"duration_ms\": %lld,\n", (long long)r->duration_ms);
    else
        put(out, "  \"duration_ms\": null,\n");
    buf_printf(out, "  \"%s\": [", r->dropped ? "dropped" : "segments");
}

static void json_words(struct buf *out, const struct format_segment *s)
{
    put(out, ",\n     \"words\": [");
    for (size_t i = 0; i < s->word_count; i++) {
        const struct format_word *w = &s->words[i];

        buf_printf(out,
                   "%s\n      {\"start_ms\": %lld, \"end_ms\": %lld, \"word\": ", i > 0 ? "," : "",
                   (long long)w->start_ms, (long long)w->end_ms);
        format_json_string(out, w->text);
        put_number(out, "probability", w->probability);
        if (w->speaker && w->speaker[0] != 0) {
            put(out, ", \"speaker\": ");
            format_json_string(out, w->speaker);
        }
        put(out, "}");
    }
    put(out, "]");
}

static void json_segment(struct buf *out, uint64_t index, const struct format_segment *s)
{
    buf_printf(out, "%s\n    {\"start_ms\": %lld, \"end_ms\": %lld, \"text\": ", index ? "," : "",
               (long long)s->start_ms, (long long)s->end_ms);
    format_json_string(out, s->text);
    if (s->heard) {
        put(out, ", \"heard\": ");
        format_json_string(out, s->heard);
    }
    put(out, ", \"language\": ");
    format_json_string(out, s->language);
    put(out, ", \"speaker\": ");
    format_json_string(out, s->speaker);
    put_number(out, "avg_logprob", s->avg_logprob);
    put_number(out, "no_speech_prob", s->no_speech_prob);
    put_number(out, "compression_ratio", s->compression_ratio);
    put_number(out, "temperature", s->temperature);
    put_number(out, "attempts", s->attempts > 0 ? s->attempts : NAN);
    put_number(out, "speech_prob", s->speech_prob);
    put(out, ", \"reason\": ");
    format_json_string(out, s->reason);
    if (s->word_count > 0)
        json_words(out, s);
    put(out, "}");
}

void format_begin(struct buf *out, enum format format, const struct format_recording *r)
{
    if (format == FORMAT_VTT)
        put(out,
            r->dropped ? "WEBVTT\n\nNOTE What was not believed and left out.\n\n" : "WEBVTT\n\n");
    else if (format == FORMAT_TSV)
        put(out, "start\tend\ttext\n");
    else if (format == FORMAT_JSON)
        json_begin(out, r);
}

void format_segment(struct buf *out, enum format format, uint64_t index,
                    const struct format_segment *s)
{
    switch (format) {
    case FORMAT_TXT:
        if (s->speaker[0] != 0) {
            put_line(out, s->speaker, format);
            put(out, ": ");
        }
        put_line(out, s->text, format);
        put(out, "\n");
        break;
    case FORMAT_SRT:
    case FORMAT_VTT:
        put_cue(out, format, index, s);
        break;
    case FORMAT_TSV:
        buf_printf(out, "%lld\t%lld\t", (long long)s->start_ms, (long long)s->end_ms);
        put_line(out, s->text, format);
        put(out, "\n");
        break;
    case FORMAT_JSON:
        json_segment(out, index, s);
        break;
    case FORMAT_RTTM:
        break;
    }
}

/* Bytes of the blank or control character that s begins with; 0: none. Unicode's White_Space, by
 * which programs that read rttm part the fields, has U+00A0, U+1680, U+2000 to U+200A, U+2028,
 * U+2029, U+202F, U+205F and U+3000 beyond ASCII and C1. */
static size_t blank(const char *s, size_t n)
{
    const unsigned char *c = (const unsigned char *)s;

    if (c[0] <= 0x20 || c[0] == 0x7F)
        return 1;
    if (n >= 2 && (is_c1(s) || (c[0] == 0xC2 && c[1] == 0xA0)))
        return 2;
    if (n < 3)
        return 0;
    if (c[0] == 0xE2 && c[1] == 0x80)
        return c[2] <= 0x8A || c[2] == 0xA8 || c[2] == 0xA9 || c[2] == 0xAF ? 3 : 0;
    return (c[0] == 0xE2 && c[1] == 0x81 && c[2] == 0x9F) ||
                   (c[0] == 0xE1 && c[1] == 0x9A && c[2] == 0x80) ||
                   (c[0] == 0xE3 && c[1] == 0x80 && c[2] == 0x80)
               ? 3
               : 0;
}

/* A field of rttm: never empty, without blanks and control characters. */
static void put_field(struct buf *out, const char *s, size_t n)
{
    if (n == 0)
        put(out, "_");
    for (size_t i = 0; i < n;) {
        size_t skip = blank(s + i, n - i);

        buf_put(out, skip > 0 ? "_" : s + i, 1);
        i += skip > 0 ? skip : 1;
    }
}

static void rttm_turn(struct buf *out, const struct format_recording *r,
                      const struct format_turn *t)
{
    const char *name = r->member[0] != 0 ? r->member : r->path, *slash = strrchr(name, '/');

    if (slash)
        name = slash + 1;
    put(out, "SPEAKER ");
    put_field(out, name, names_stem(name));
    buf_printf(out, " 1 %lld.%03d %lld.%03d <NA> <NA> ", (long long)(t->start_ms / 1000),
               (int)(t->start_ms % 1000), (long long)((t->end_ms - t->start_ms) / 1000),
               (int)((t->end_ms - t->start_ms) % 1000));
    put_field(out, t->speaker, strlen(t->speaker));
    put(out, " <NA> <NA>\n");
}

static void json_span(struct buf *out, uint64_t index, int64_t start_ms, int64_t end_ms)
{
    buf_printf(out, "%s\n    {\"start_ms\": %lld, \"end_ms\": %lld", index ? "," : "",
               (long long)start_ms, (long long)end_ms);
}

void format_turn(struct buf *out, enum format format, const struct format_recording *r,
                 uint64_t index, const struct format_turn *t)
{
    if (format == FORMAT_RTTM)
        rttm_turn(out, r, t);
    if (format != FORMAT_JSON)
        return;
    json_span(out, index, t->start_ms, t->end_ms);
    put(out, ", \"speaker\": ");
    format_json_string(out, t->speaker);
    put(out, ", \"label\": ");
    format_json_string(out, t->label);
    put(out, "}");
}

void format_sound(struct buf *out, enum format format, uint64_t index, const struct format_sound *s)
{
    if (format != FORMAT_JSON)
        return;
    json_span(out, index, s->start_ms, s->end_ms);
    put(out, ", \"sound\": ");
    format_json_string(out, s->name);
    put_number(out, "score", s->score);
    put(out, "}");
}

void format_tag(struct buf *out, enum format format, uint64_t index, const struct format_tag *t)
{
    if (format != FORMAT_JSON)
        return;
    put(out, index ? ",\n    {\"key\": " : "\n    {\"key\": ");
    format_json_string(out, t->key);
    put(out, ", \"value\": ");
    format_json_string(out, t->value);
    put(out, ", \"source\": ");
    format_json_string(out, t->source);
    put(out, "}");
}

void format_chapter(struct buf *out, enum format format, uint64_t index,
                    const struct format_chapter *c)
{
    if (format != FORMAT_JSON)
        return;
    json_span(out, index, c->start_ms, c->end_ms);
    put(out, ", \"title\": ");
    format_json_string(out, c->title);
    put(out, "}");
}

void format_list(struct buf *out, enum format format, const char *name, uint64_t n)
{
    if (format == FORMAT_JSON)
        buf_printf(out, "%s],\n  \"%s\": [", n > 0 ? "\n  " : "", name);
}

void format_end(struct buf *out, enum format format, uint64_t n)
{
    if (format == FORMAT_JSON)
        put(out, n > 0 ? "\n  ]\n}\n" : "]\n}\n");
}
