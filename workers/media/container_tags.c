#include "workers/media/container_tags.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/utf8.h"
#include "workers/media/ffmpeg.h"
#include "workers/media/open_media.h"

/* ---- iXML */

#define DEPTH_MAX 8

struct scan {
    char path[IXML_KEY_MAX + 1]; /* of the elements that are open, below the outermost */
    size_t ends[DEPTH_MAX];      /* the length of path when each was opened */
    unsigned depth;
    bool leaf; /* the last thing seen was the beginning of an element */
    const char *content;
    char value[IXML_VALUE_MAX + 1];
};

/* The character of an entity between & and ;, 0 for one that is not known. Beyond ASCII a number
 * gives a question mark: texts in UTF-8 need none. */
static char decode_entity(const char *name, size_t n)
{
    static const struct {
        const char *name;
        char is;
    } known[] = {{"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    long code;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strlen(known[i].name) == n && memcmp(known[i].name, name, n) == 0)
            return known[i].is;
    if (n < 2 || name[0] != '#')
        return 0;
    code = name[1] == 'x' ? strtol(name + 2, NULL, 16) : strtol(name + 1, NULL, 10);
    return code > 0 && code < 128 ? (char)code : '?';
}

static void decode_text_value(struct scan *s, const char *from, const char *to)
{
    size_t n = 0;

    while (from < to && n < IXML_VALUE_MAX) {
        size_t near = to - from < 9 ? (size_t)(to - from) : 9;
        const char *end = *from == '&' ? memchr(from, ';', near) : NULL;
        char c = end ? decode_entity(from + 1, (size_t)(end - from) - 1) : 0;

        s->value[n++] = c ? c : *from;
        from = c ? end + 1 : from + 1;
    }
    s->value[n] = '\0';
}

/* "<name ...>": false when it is no name, or too deep or long to go on with. */
static bool open_element(struct scan *s, const char *name, size_t n)
{
    size_t at = strlen(s->path);
    bool below = s->depth > 0;

    if (n == 0 || s->depth == DEPTH_MAX || at + n + 1 > IXML_KEY_MAX)
        return false;
    s->ends[s->depth++] = at;
    if (below)
        snprintf(s->path + at, sizeof(s->path) - at, "%s%.*s", at > 0 ? "/" : "", (int)n, name);
    return true;
}

/* "</name>" of the element that is open. */
static bool close_element(struct scan *s, const char *name, size_t n)
{
    size_t len = strlen(s->path);
    bool fits =
        s->depth > 0 && (s->depth == 1 || (len >= n && memcmp(s->path + len - n, name, n) == 0 &&
                                           (len == n || s->path[len - n - 1] == '/')));

    return fits;
}

static void pop_element(struct scan *s)
{
    s->path[s->ends[--s->depth]] = '\0';
    s->leaf = false;
}

/* Handles the text between < and >. False at the end. */
static bool consume_tag(struct scan *s, const char *tag, size_t n,
                        void (*fn)(void *arg, const char *key, const char *value), void *arg)
{
    bool closes = n > 0 && tag[0] == '/', empty = n > 1 && tag[n - 1] == '/';
    const char *name = tag + closes;
    size_t len = strcspn(name, " \t\r\n/>");

    if (n == 0 || tag[0] == '?' || tag[0] == '!')
        return true;
    if (!closes && !open_element(s, name, len))
        return false;
    if (closes && !close_element(s, name, len))
        return false;
    if (closes && s->leaf && s->depth > 1) {
        decode_text_value(s, s->content, tag - 1);
        fn(arg, s->path, s->value);
    }
    if (closes || empty)
        pop_element(s);
    else
        s->leaf = true;
    s->content = tag + n + 1;
    return s->depth > 0;
}

void ixml_scan(const char *text, void (*fn)(void *arg, const char *key, const char *value),
               void *arg)
{
    struct scan s = {0};
    const char *p = text;

    while ((p = strchr(p, '<'))) {
        bool comment = strncmp(p, "<!--", 4) == 0;
        const char *end = comment ? strstr(p, "-->") : strchr(p, '>');

        if (!end)
            return;
        if (comment)
            s.leaf = false;
        else if (!consume_tag(&s, p + 1, (size_t)(end - p) - 1, fn, arg))
            return;
        p = end + 1;
    }
}

/* Tags of the file's making, not of the recording: brands, names of handlers, ID3's private frames,
 * which hold anything, and the counts that Matroska's tools leave behind. */
static const char *const skipped[] = {
    "major_brand",     "minor_version", "compatible_brands",     "handler_name",
    "vendor_id",       "id3v2_priv.",   "_STATISTICS_",          "NUMBER_OF_FRAMES",
    "NUMBER_OF_BYTES", "DURATION",      "METADATA_BLOCK_PICTURE"};

/* ---- one value */

static void drop_controls(char *text, bool keep_lines)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++) {
        bool line = *p == '\n' || *p == '\t';

        if ((*p < 0x20 && !(line && keep_lines)) || *p == 0x7F)
            *p = ' ';
        if (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0)
            p[0] = p[1] = ' ';
    }
}

static void trim_blanks(char *text)
{
    size_t from = strspn(text, " \t\n"), n = strlen(text);

    while (n > from && strchr(" \t\n", text[n - 1]))
        n--;
    memmove(text, text + from, n - from);
    text[n - from] = '\0';
}

/* A newly allocated copy as container_tags.h promises; NULL when out of memory. */
static char *clean_tag_text(const char *raw, size_t most, bool keep_lines)
{
    /* More than the bound by a character, so that one that is cut here lies behind the cut below.*/
    char *text = utf8_repair(raw, strnlen(raw, most + 4)), *cut = text ? malloc(most + 1) : NULL;

    if (cut) {
        utf8_copy(cut, most + 1, text);
        drop_controls(cut, keep_lines);
        trim_blanks(cut);
    }
    free(text);
    return cut;
}

/* ---- the list */

static bool has_room(struct tag_list *l)
{
    uint32_t capacity = l->capacity ? l->capacity * 2 : 16;
    struct result_tag *list;

    if (l->failed || l->count == RESULT_TAGS_MAX)
        return false;
    if (l->count < l->capacity)
        return true;
    list = realloc(l->list, capacity * sizeof(*list));
    if (!list) {
        l->failed = true;
        return false;
    }
    l->list = list;
    l->capacity = capacity;
    return true;
}

/* Takes key and value over. */
static void add_media_tag(struct tag_list *l, const struct result_tag *tag)
{
    size_t n = tag->key && tag->value ? strlen(tag->key) + strlen(tag->value) : 0;

    if (!tag->key || !tag->value)
        l->failed = true;
    if (n == 0 || !*tag->key || n > TAGS_BYTES - l->bytes || !has_room(l)) {
        free((void *)(uintptr_t)tag->key);
        free((void *)(uintptr_t)tag->value);
        return;
    }
    l->bytes += n;
    l->list[l->count++] = *tag;
}

void tag_list_put(struct tag_list *l, const char *source, const char *key, const char *value)
{
    struct result_tag tag = {.source = source};

    if (l->failed || l->count == RESULT_TAGS_MAX || !value[strspn(value, " \t\r\n")])
        return;
    tag.key = clean_tag_text(key, RESULT_TAG_KEY_MAX, false);
    tag.value = clean_tag_text(value, RESULT_TAG_VALUE_MAX, true);
    if (tag.value && !tag.value[0]) { /* of control characters */
        free((void *)(uintptr_t)tag.key);
        free((void *)(uintptr_t)tag.value);
        return;
    }
    add_media_tag(l, &tag);
}

static int64_t clamp_tag_time(int64_t ms, int64_t least)
{
    return ms < least ? least : ms > RESULT_TAG_MS_MAX ? RESULT_TAG_MS_MAX : ms;
}

void tag_list_chapter(struct tag_list *l, int64_t start_ms, int64_t end_ms, const char *title)
{
    struct result_tag tag = {.source = "chapter", .start_ms = clamp_tag_time(start_ms, 0)};

    if (l->failed || l->count == RESULT_TAGS_MAX)
        return;
    tag.end_ms = clamp_tag_time(end_ms, tag.start_ms);
    tag.key = strdup("title");
    tag.value = clean_tag_text(title ? title : "", RESULT_TAG_VALUE_MAX, false);
    add_media_tag(l, &tag);
}

void tag_list_free(struct tag_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) {
        free((void *)(uintptr_t)l->list[i].key);
        free((void *)(uintptr_t)l->list[i].value);
    }
    free(l->list);
    *l = (struct tag_list){0};
}

/* ---- what libavformat found */

static bool is_skipped(const char *key)
{
    for (size_t i = 0; i < sizeof(skipped) / sizeof(skipped[0]); i++)
        if (strncasecmp(key, skipped[i], strlen(skipped[i])) == 0)
            return true;
    return false;
}

/* libavformat tells some fields of a bext chunk under other names, unless a LIST chunk has them. */
static bool is_of_bext(const struct tag_list *l, const char *key, const char *value)
{
    static const char *const keys[] = {"originator_reference", "time_reference", "umid",
                                       "coding_history"};

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    for (uint32_t i = 0; i < l->count; i++)
        if (strcmp(l->list[i].source, "bext") == 0 && strcmp(l->list[i].value, value) == 0)
            return true;
    return false;
}

static void put_all(struct tag_list *l, const char *source, const AVDictionary *tags, bool bext)
{
    const AVDictionaryEntry *t = NULL;

    while ((t = av_dict_get(tags, "", t, AV_DICT_IGNORE_SUFFIX)))
        if (!is_skipped(t->key) && !(bext && is_of_bext(l, t->key, t->value)))
            tag_list_put(l, source, t->key, t->value);
}

/* ---- Broadcast WAV */

/* A field of a fixed width, which need not end with a NUL. */
static void put_field(struct tag_list *l, const char *key, const char *field, size_t width)
{
    char *value = strndup(field, width);

    if (value)
        tag_list_put(l, "bext", key, value);
    else
        l->failed = true;
    free(value);
}

/* EBU Tech 3285: fields of fixed widths, then the coding history. */
static void put_bext(struct tag_list *l, const struct riff_chunk *bext)
{
    const char *p = bext->data;
    char reference[24];

    if (!p || bext->len < 602)
        return;
    put_field(l, "description", p, 256);
    put_field(l, "originator", p + 256, 32);
    put_field(l, "originator_reference", p + 288, 32);
    put_field(l, "origination_date", p + 320, 10);
    put_field(l, "origination_time", p + 330, 8);
    if (AV_RL64(p + 338) > 0) {
        snprintf(reference, sizeof(reference), "%llu", (unsigned long long)AV_RL64(p + 338));
        tag_list_put(l, "bext", "time_reference", reference);
    }
    put_field(l, "coding_history", p + 602, bext->len - 602);
}

static void put_ixml(void *arg, const char *key, const char *value)
{
    tag_list_put(arg, "ixml", key, value);
}

void tags_of_media(const struct media *m, struct tag_list *ret)
{
    const AVRational ms = {1, 1000};

    put_bext(ret, &m->bext);
    put_all(ret, "container", m->fmt->metadata, m->bext.data != NULL);
    if (m->track)
        put_all(ret, "stream", m->track->metadata, false);
    if (m->ixml.data)
        ixml_scan(m->ixml.data, put_ixml, ret);
    for (unsigned i = 0; i < m->fmt->nb_chapters; i++) {
        const AVChapter *c = m->fmt->chapters[i];
        const AVDictionaryEntry *title = av_dict_get(c->metadata, "title", NULL, 0);

        if (c->time_base.num > 0 && c->time_base.den > 0)
            tag_list_chapter(ret, av_rescale_q(c->start, c->time_base, ms),
                             av_rescale_q(c->end, c->time_base, ms), title ? title->value : NULL);
    }
}
