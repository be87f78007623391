#include "tools/export/cues.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/utf8.h"

#define TIME_MAX_S ((int64_t)100000 * 3600)

const char *cues_format_name(enum cues_format format)
{
    static const char *const names[] = {"txt", "srt", "vtt", "tsv", "json"};

    return names[format];
}

void cues_free(struct cues *c)
{
    free(c->list);
    buf_free(&c->text);
    *c = (struct cues){0};
}

/* One without a text yet; NULL: no memory. */
static struct cue *append_empty_cue(struct cues *c, int64_t start_ms, int64_t end_ms, uint64_t line)
{
    struct cue *list = c->list;
    bool timed = start_ms >= 0 && end_ms >= start_ms;

    if (c->count > 0)
        buf_put_u8(&c->text, 0);
    if (c->count == c->capacity) {
        size_t capacity = c->capacity * 2 + 64;

        list = realloc(list, capacity * sizeof(*list));
        if (!list) {
            c->text.failed = true;
            return NULL;
        }
        c->list = list;
        c->capacity = capacity;
    }
    list[c->count] = (struct cue){.start_ms = timed ? start_ms : -1,
                                  .end_ms = timed ? end_ms : -1,
                                  .at = c->text.len,
                                  .line = line};
    return &list[c->count++];
}

/* Behind the text of the last one. */
static void append_cue_text(struct cues *c, const char *s, size_t len)
{
    struct cue *last = &c->list[c->count - 1];

    if (last->len > 0)
        buf_put_u8(&c->text, '\n');
    buf_put(&c->text, s, len);
    last->len = c->text.failed ? 0 : c->text.len - last->at;
}

/* ------------------------------------------------------------------------------- lines */

struct line {
    const char *s;
    size_t len;
};

static bool next_line(const char **text, struct line *line)
{
    if (**text == 0)
        return false;
    line->s = *text;
    line->len = strcspn(*text, "\r\n");
    *text += line->len;
    *text += strncmp(*text, "\r\n", 2) == 0 ? 2 : **text != 0;
    return true;
}

static bool is_made_of(struct line line, const char *set)
{
    for (size_t i = 0; i < line.len; i++)
        if (!strchr(set, line.s[i]))
            return false;
    return true;
}

static bool is_empty(struct line line) { return is_made_of(line, " \t"); }

static bool is_number(struct line line)
{
    return !is_empty(line) && is_made_of(line, " \t0123456789");
}

static bool has_line_prefix(struct line line, const char *what)
{
    size_t n = strlen(what);

    return line.len >= n && memcmp(line.s, what, n) == 0;
}

/* ------------------------------------------------------------------------------- times */

int64_t cues_time(const char *s, const char **end)
{
    int64_t total = 0, ms = 0, scale = 100;

    for (int parts = 1;; parts++, s++) {
        int64_t part = 0;

        if (*s < '0' || *s > '9')
            return -1;
        for (; *s >= '0' && *s <= '9'; s++)
            if ((part = part * 10 + (*s - '0')) > TIME_MAX_S)
                return -1;
        total = total * 60 + part;
        if (total > TIME_MAX_S || parts > 3)
            return -1;
        if (*s != ':')
            break;
    }
    if ((*s == '.' || *s == ',') && s[1] >= '0' && s[1] <= '9')
        for (s++; *s >= '0' && *s <= '9'; s++, scale /= 10)
            ms += (*s - '0') * scale;
    *end = s;
    return total * 1000 + ms;
}

int64_t cues_time_whole(const char *s)
{
    const char *end = s;
    int64_t ms = cues_time(s, &end);

    for (const char *colon = s; ms >= 0 && (colon = strchr(colon, ':')); colon++)
        if (strtol(colon + 1, NULL, 10) >= 60)
            return -1;
    return ms >= 0 && *end == 0 ? ms : -1;
}

/* "BEGIN --> END", with whatever else behind it. */
static struct cue *add_timed(struct cues *c, struct line line, const char *arrow, uint64_t number)
{
    const char *s = line.s + strspn(line.s, " \t"), *end;
    int64_t from = cues_time(s, &end), to = -1;

    if (from >= 0 && end + strspn(end, " \t") != arrow)
        from = -1;
    if (from >= 0)
        to = cues_time(arrow + 3 + strspn(arrow + 3, " \t"), &end);
    return append_empty_cue(c, from, to, number);
}

/* ------------------------------------------------------------------------------- markup */

/* How many bytes of a tag such as <i>, </v> or <00:01.000> stand at i; 0: none. last: the line's
 * last '>', NULL without one: nothing is looked for in vain, which would take the square. */
static size_t tag_length(struct line line, size_t i, const char *last)
{
    const char *end;
    unsigned char next = i + 1 < line.len ? (unsigned char)line.s[i + 1] : 0;

    if (line.s[i] != '<' || !last || last < line.s + i ||
        !(next == '/' || (next >= '0' && next <= '9') || (next >= 'a' && next <= 'z') ||
          (next >= 'A' && next <= 'Z')))
        return 0;
    end = memchr(line.s + i, '>', line.len - i);
    return end ? (size_t)(end - (line.s + i)) + 1 : 0;
}

/* The same of "{\an8}", as SubRip's files have it from others. */
static size_t override_length(struct line line, size_t i, const char *last)
{
    const char *end;

    if (line.s[i] != '{' || !last || last < line.s + i || i + 1 >= line.len ||
        line.s[i + 1] != '\\')
        return 0;
    end = memchr(line.s + i, '}', line.len - i);
    return end ? (size_t)(end - (line.s + i)) + 1 : 0;
}

/* An escaped character at i: its bytes, and what it stands for; 0: none. */
static size_t decode_entity(struct line line, size_t i, const char **meant)
{
    static const char *const entities[][2] = {{"&amp;", "&"},  {"&lt;", "<"}, {"&gt;", ">"},
                                              {"&nbsp;", " "}, {"&lrm;", ""}, {"&rlm;", ""}};

    for (size_t k = 0; line.s[i] == '&' && k < sizeof(entities) / sizeof(entities[0]); k++) {
        size_t len = strlen(entities[k][0]);

        if (line.len - i >= len && memcmp(line.s + i, entities[k][0], len) == 0) {
            *meant = entities[k][1];
            return len;
        }
    }
    return 0;
}

static void append_cue_line(struct cues *c, struct line line, bool vtt)
{
    const char *last = memrchr(line.s, '>', line.len), *brace = memrchr(line.s, '}', line.len);

    append_cue_text(c, "", 0);
    for (size_t i = 0; i < line.len;) {
        size_t skip = tag_length(line, i, last);
        const char *meant = "";

        if (skip == 0)
            skip = vtt ? decode_entity(line, i, &meant) : override_length(line, i, brace);
        if (skip > 0)
            buf_put(&c->text, meant, strlen(meant));
        else
            buf_put(&c->text, line.s + i, 1);
        i += skip > 0 ? skip : 1;
    }
    if (!c->text.failed)
        c->list[c->count - 1].len = c->text.len - c->list[c->count - 1].at;
}

/* ------------------------------------------------------------------------------- cues */

/* A block is what stands between empty lines before it is known what it is: a cue's number or name
 * in front of its times, a note or a style, or what an empty line cut off a text. */
struct scan {
    struct cues *c;
    bool vtt, inside; /* inside: of a cue's text */
    bool other;       /* there was something before the first cue */
    uint64_t number;
    struct line first, last; /* of the block; first.s NULL: there is none */
    bool last_is_number;     /* the last line of the text, which may be the next one's number */
    size_t before_last;      /* bytes of the cue's text without it */
};

static bool is_apart(const struct scan *x)
{
    return x->vtt && (has_line_prefix(x->first, "NOTE") || has_line_prefix(x->first, "STYLE") ||
                      has_line_prefix(x->first, "REGION") || has_line_prefix(x->first, "WEBVTT"));
}

/* The block is no head of a cue: text, unless it is something else. `end`: of its text. */
static void take_block(struct scan *x, const char *end)
{
    const char *s = x->first.s;
    bool lone = s && !x->vtt && x->first.s == x->last.s && is_number(x->first);
    struct line line;

    if (s && !lone && !is_apart(x)) {
        x->other |= x->c->count == 0;
        while (x->c->count > 0 && s < end && next_line(&s, &line))
            append_cue_line(x->c, line, x->vtt);
    }
    x->first.s = NULL;
}

/* The line before the times is the cue's number, or its name. */
static void take_head(struct scan *x)
{
    bool named = x->first.s && (is_number(x->last) || x->vtt);
    struct cue *cue = x->c->count > 0 ? &x->c->list[x->c->count - 1] : NULL;

    if (x->first.s)
        take_block(x, named ? x->last.s : x->last.s + x->last.len);
    else if (x->inside && cue && x->last_is_number && !x->vtt)
        x->c->text.len = cue->at + (cue->len = x->before_last);
}

static void take_line(struct scan *x, struct line line)
{
    const char *arrow = memmem(line.s, line.len, "-->", 3);

    x->number++;
    if (is_empty(line)) {
        take_block(x, line.s);
        x->inside = false;
    } else if (arrow) {
        take_head(x);
        x->inside = add_timed(x->c, line, arrow, x->number) != NULL;
        x->last_is_number = false;
    } else if (x->inside) {
        x->before_last = x->c->list[x->c->count - 1].len;
        x->last_is_number = is_number(line);
        append_cue_line(x->c, line, x->vtt);
    } else {
        if (!x->first.s)
            x->first = line;
        x->last = line;
    }
}

static int from_cues(const char *text, bool vtt, struct cues *ret, struct err *err)
{
    struct scan x = {.c = ret, .vtt = vtt};
    struct line line;

    while (!ret->text.failed && next_line(&text, &line))
        take_line(&x, line);
    take_block(&x, text);
    if (x.other && ret->count == 0)
        return err_set(err, ERR_INPUT, "there are no subtitles in it: no line with a time");
    return 0;
}

static int from_lines(const char *text, struct cues *ret)
{
    struct line line;

    for (uint64_t number = 1; next_line(&text, &line); number++)
        if (!is_empty(line) && append_empty_cue(ret, -1, -1, number))
            append_cue_text(ret, line.s, line.len);
    return 0;
}

static int64_t tsv_time(const char *s)
{
    char *rest;
    long long ms = strtoll(s, &rest, 10);

    return ms >= 0 && ms <= TIME_MAX_S * 1000 ? ms : -1;
}

/* Is it Whisper's header, or that with a column for the speaker behind the text? */
static bool is_tsv_head(struct line line, bool *speakers)
{
    static const char head[] = "start\tend\ttext\tspeaker";

    *speakers = line.len == sizeof(head) - 1;
    return (line.len == 14 || *speakers) && memcmp(line.s, head, line.len) == 0;
}

static int from_tsv(const char *text, struct cues *ret, struct err *err)
{
    struct line line;
    bool speakers = false;

    if (next_line(&text, &line) && !is_tsv_head(line, &speakers))
        return err_set(err, ERR_INPUT,
                       "it does not begin with a line of \"start\", \"end\" and \"text\"");
    for (uint64_t number = 2; next_line(&text, &line); number++) {
        const char *end = line.s + line.len, *tab = memchr(line.s, '\t', line.len), *second = tab;

        if (is_empty(line))
            continue;
        if (tab)
            tab = memchr(second + 1, '\t', (size_t)(end - (second + 1)));
        if (!tab)
            return err_set(err, ERR_INPUT, "line %llu of it has less than three columns",
                           (unsigned long long)number);
        if (speakers && memchr(tab + 1, '\t', (size_t)(end - (tab + 1))))
            end = memchr(tab + 1, '\t', (size_t)(end - (tab + 1)));
        if (append_empty_cue(ret, tsv_time(line.s), tsv_time(second + 1), number))
            append_cue_text(ret, tab + 1, (size_t)(end - (tab + 1)));
    }
    return 0;
}

/* ------------------------------------------------------------------------------- json */

static void take_language(const json_t *o, char language[CUES_LANGUAGE_LEN])
{
    const char *said = json_string_value(json_object_get(o, "language"));

    if (said && strcasecmp(said, "english") == 0)
        said = "en"; /* as services with Whisper's interface say it */
    if (said && strlen(said) < CUES_LANGUAGE_LEN)
        utf8_copy(language, CUES_LANGUAGE_LEN, said);
}

/* Behind the last one's text: what that replaces. */
static void append_guard_text(struct cues *c, const char *was)
{
    struct cue *last = &c->list[c->count - 1];

    buf_put_u8(&c->text, 0);
    last->guarded = true;
    last->was_at = c->text.len;
    buf_put(&c->text, was, strlen(was));
}

/* In milliseconds, or, by the other name, as Whisper has it, in seconds. */
static int64_t json_time(const json_t *segment, const char *ms, const char *s)
{
    const json_t *value = json_object_get(segment, ms);
    double v = NAN;

    if (json_is_number(value))
        v = json_number_value(value);
    else if (json_is_number(json_object_get(segment, s)))
        v = json_number_value(json_object_get(segment, s)) * 1000;
    return v >= 0 && v <= (double)TIME_MAX_S * 1000 ? (int64_t)(v + 0.5) : -1;
}

static int from_segment(const json_t *segment, size_t i, struct cues *ret, struct err *err)
{
    const json_t *text = json_object_get(segment, "text"), *was = json_object_get(segment, "was");

    if (!json_is_string(text))
        return err_set(err, ERR_INPUT, "segment %zu of it has no \"text\"", i);
    if (was && !json_is_string(was))
        return err_set(err, ERR_INPUT, "\"was\" of segment %zu of it is not text", i);
    if (!append_empty_cue(ret, json_time(segment, "start_ms", "start"),
                          json_time(segment, "end_ms", "end"), i + 1))
        return 0; /* the buffer has failed */
    append_cue_text(ret, json_string_value(text), strlen(json_string_value(text)));
    if (was)
        append_guard_text(ret, json_string_value(was));
    return 0;
}

static int from_segments(const json_t *o, struct cues *ret, struct err *err)
{
    const json_t *segments = json_object_get(o, "segments"), *segment, *text;
    size_t i;
    int rc = 0;

    text = json_object_get(o, "text");
    if (!json_is_array(segments) && json_is_string(text)) {
        if (append_empty_cue(ret, -1, -1, 1))
            append_cue_text(ret, json_string_value(text), strlen(json_string_value(text)));
        return 0;
    }
    if (!json_is_array(segments))
        return err_set(err, ERR_INPUT, "it has neither \"segments\" nor \"text\"");
    json_array_foreach(segments, i, segment)
    {
        rc = from_segment(segment, i, ret, err);
        if (rc != 0)
            break;
    }
    return rc;
}

static int from_json(const char *text, struct cues *ret, struct err *err)
{
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    int rc;

    if (!o && json_error_code(&why) == json_error_out_of_memory)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (!o) {
        err_set(err, ERR_INPUT, "it is not JSON: line %d: %.120s", why.line, why.text);
        utf8_display_err(err);
        return err->code;
    }
    take_language(o, ret->language);
    ret->recording = (int64_t)json_integer_value(json_object_get(o, "recording"));
    rc = from_segments(o, ret, err);
    json_decref(o);
    return rc;
}

int cues_parse(enum cues_format format, const char *text, struct cues *ret, struct err *err)
{
    int rc = 0;

    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0)
        text += 3;
    if (format == CUES_SRT || format == CUES_VTT)
        rc = from_cues(text, format == CUES_VTT, ret, err);
    else if (format == CUES_TSV)
        rc = from_tsv(text, ret, err);
    else if (format == CUES_JSON)
        rc = from_json(text, ret, err);
    else
        rc = from_lines(text, ret);
    buf_put_u8(&ret->text, 0);
    if (rc == 0 && ret->text.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    return rc;
}
