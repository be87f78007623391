#include "tools/export/transcript.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/utf8.h"

const char *const transcript_endings[] = {"txt", "json", "vtt", "srt", "tsv", NULL};

/* The whole file as a C string in b. */
static int read_file(const char *path, struct buf *b, struct err *err)
{
    FILE *f = fopen(path, "re");
    char chunk[16384];
    size_t n;
    int rc = 0;

    if (!f)
        return err_sys(err, errno, "read '%s'", path);
    while (rc == 0 && (n = fread(chunk, 1, sizeof(chunk), f)) > 0) {
        buf_put(b, chunk, n);
        if (b->failed)
            rc = err_set(err, ERR_NOMEM, "out of memory");
        else if (b->len > TRANSCRIPT_FILE_MAX)
            rc = err_set(err, ERR_LIMIT,
                         "'%s' is larger than 16 MiB, weeks of talking: score it in parts", path);
    }
    if (rc == 0 && ferror(f))
        rc = err_sys(err, errno, "read '%s'", path);
    fclose(f);
    if (rc == 0 && !buf_cstr(b))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && memchr(b->data, 0, b->len))
        rc = err_set(err, ERR_INPUT, "'%s' is no text: there are NUL bytes in it", path);
    if (rc == 0 && !utf8_valid(b->data, b->len))
        rc =
            err_set(err, ERR_INPUT,
                    "'%s' is not UTF-8. Try `iconv -f LATIN1 -t UTF-8` on it, or name the encoding "
                    "that it has",
                    path);
    return rc;
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
    line->len = strcspn(*text, "\n");
    *text += line->len + ((*text)[line->len] == '\n');
    if (line->len > 0 && line->s[line->len - 1] == '\r')
        line->len--;
    return true;
}

static bool has(struct line line, const char *what)
{
    return memmem(line.s, line.len, what, strlen(what)) != NULL;
}

static bool is_empty(struct line line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.s[i] != ' ' && line.s[i] != '\t')
            return false;
    return true;
}

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

/* An escaped character at i: its bytes, and what it stands for; 0: none. */
static size_t entity(struct line line, size_t i, const char **meant)
{
    static const char *const entities[][2] = {{"&amp;", "&"},  {"&lt;", "<"}, {"&gt;", ">"},
                                              {"&nbsp;", " "}, {"&lrm;", ""}, {"&rlm;", ""}};

    for (size_t k = 0; k < sizeof(entities) / sizeof(entities[0]); k++) {
        size_t len = strlen(entities[k][0]);

        if (line.len - i >= len && memcmp(line.s + i, entities[k][0], len) == 0) {
            *meant = entities[k][1];
            return len;
        }
    }
    return 0;
}

static void put_cue_line(struct buf *out, struct line line, bool vtt)
{
    const char *last = memrchr(line.s, '>', line.len);

    for (size_t i = 0; i < line.len;) {
        size_t skip = tag_length(line, i, last);
        const char *meant = "";

        if (skip == 0 && vtt)
            skip = entity(line, i, &meant);
        if (skip > 0)
            buf_put(out, meant, strlen(meant));
        else
            buf_put(out, line.s + i, 1);
        i += skip > 0 ? skip : 1;
    }
    buf_put_u8(out, '\n');
}

/* Cues begin at a line with an arrow and end at an empty one; whatever else there is (numbers,
 * notes, styles) is none of the text. */
static int from_cues(const char *path, const char *text, bool vtt, struct buf *out, struct err *err)
{
    struct line line;
    bool inside = false, any = false, other = false;

    while (next_line(&text, &line))
        if (is_empty(line))
            inside = false;
        else if (has(line, "-->"))
            inside = any = true;
        else if (inside)
            put_cue_line(out, line, vtt);
        else if (line.len < 6 || memcmp(line.s, "WEBVTT", 6) != 0)
            other = true;
    if (other && !any)
        return err_set(err, ERR_INPUT, "'%s' has no subtitles in it: no line with a time", path);
    return 0;
}

static int from_tsv(const char *path, const char *text, struct buf *out, struct err *err)
{
    struct line line;

    if (next_line(&text, &line) && (line.len != 14 || memcmp(line.s, "start\tend\ttext", 14) != 0))
        return err_set(err, ERR_INPUT,
                       "'%s' does not begin with a line of \"start\", \"end\" and \"text\"", path);
    for (unsigned long number = 2; next_line(&text, &line); number++) {
        const char *end = line.s + line.len, *tab = memchr(line.s, '\t', line.len);

        if (is_empty(line))
            continue;
        tab = tab ? memchr(tab + 1, '\t', (size_t)(end - (tab + 1))) : NULL;
        if (!tab)
            return err_set(err, ERR_INPUT, "line %lu of '%s' has less than three columns", number,
                           path);
        buf_put(out, tab + 1, (size_t)(end - (tab + 1)));
        buf_put_u8(out, '\n');
    }
    return 0;
}

/* ------------------------------------------------------------------------------- json */

static void take_language(const json_t *o, char language[TRANSCRIPT_LANGUAGE_LEN])
{
    const char *said = json_string_value(json_object_get(o, "language"));

    if (said && strcasecmp(said, "english") == 0)
        said = "en"; /* as services with Whisper's interface say it */
    if (said && strlen(said) < TRANSCRIPT_LANGUAGE_LEN)
        utf8_copy(language, TRANSCRIPT_LANGUAGE_LEN, said);
}

static int from_segments(const char *path, const json_t *o, struct buf *out, struct err *err)
{
    const json_t *segments = json_object_get(o, "segments"), *segment, *text;
    size_t i;

    text = json_object_get(o, "text");
    if (!json_is_array(segments) && json_is_string(text)) {
        buf_put(out, json_string_value(text), strlen(json_string_value(text)));
        return 0;
    }
    if (!json_is_array(segments))
        return err_set(err, ERR_INPUT, "'%s' has neither \"segments\" nor \"text\"", path);
    json_array_foreach(segments, i, segment)
    {
        text = json_object_get(segment, "text");
        if (!json_is_string(text))
            return err_set(err, ERR_INPUT, "segment %zu of '%s' has no \"text\"", i, path);
        buf_put(out, json_string_value(text), strlen(json_string_value(text)));
        buf_put_u8(out, '\n');
    }
    return 0;
}

static int from_json(const char *path, const char *text, struct buf *out,
                     char language[TRANSCRIPT_LANGUAGE_LEN], struct err *err)
{
    json_error_t why;
    json_t *o = json_loads(text, 0, &why);
    int rc;

    if (!o)
        return err_set(err, ERR_INPUT, "'%s' is no JSON: line %d: %.120s", path, why.line,
                       why.text);
    take_language(o, language);
    rc = from_segments(path, o, out, err);
    json_decref(o);
    return rc;
}

int transcript_read(const char *path, char **ret, char language[TRANSCRIPT_LANGUAGE_LEN],
                    struct err *err)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const char *ending = dot ? dot + 1 : "txt", *text;
    struct buf file = BUF_INIT, out = BUF_INIT;
    int rc = read_file(path, &file, err);

    language[0] = 0;
    text = (const char *)file.data;
    if (rc == 0 && strncmp(text, "\xEF\xBB\xBF", 3) == 0)
        text += 3;
    if (rc == 0 && strcasecmp(ending, "srt") == 0)
        rc = from_cues(path, text, false, &out, err);
    else if (rc == 0 && strcasecmp(ending, "vtt") == 0)
        rc = from_cues(path, text, true, &out, err);
    else if (rc == 0 && strcasecmp(ending, "tsv") == 0)
        rc = from_tsv(path, text, &out, err);
    else if (rc == 0 && strcasecmp(ending, "json") == 0)
        rc = from_json(path, text, &out, language, err);
    else if (rc == 0)
        buf_put(&out, text, strlen(text));
    buf_free(&file);
    if (rc == 0 && !buf_cstr(&out))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc != 0) {
        buf_free(&out);
        return rc;
    }
    *ret = (char *)out.data;
    return 0;
}
