#include "workers/media/ixml.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
