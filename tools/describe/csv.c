#include "tools/describe/csv.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/utf8.h"

static int report_csv_error(const struct csv *c, const char *what, struct err *err)
{
    return err_set(err, ERR_INPUT, "line %llu %s", (unsigned long long)c->line, what);
}

/* Whichever stands most often in the first line, outside of quotes. */
static char find_separator(const char *at, const char *end)
{
    static const char separators[] = ",;\t";
    size_t counts[3] = {0}, best = 0;
    bool quoted = false;

    for (; at < end && (quoted || (*at != '\n' && *at != '\r')); at++) {
        const char *is = *at ? strchr(separators, *at) : NULL;

        if (*at == '"')
            quoted = !quoted;
        else if (is && !quoted)
            counts[is - separators]++;
    }
    for (size_t i = 1; i < 3; i++)
        if (counts[i] > counts[best])
            best = i;
    return separators[best];
}

int csv_begin(struct csv *c, char *text, size_t len, struct err *err)
{
    *c = (struct csv){.at = text, .end = text + len, .line = 1};
    text[len] = '\0';
    if (len >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return err_set(err, ERR_INPUT, "it is UTF-16: save it as UTF-8");
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        c->at += 3;
    if (memchr(c->at, 0, (size_t)(c->end - c->at)))
        return err_set(err, ERR_INPUT, "it is not text: it contains zero bytes");
    c->separator = find_separator(c->at, c->end);
    return 0;
}

void csv_free(struct csv *c)
{
    free(c->columns);
    *c = (struct csv){0};
}

static bool ends_line(char c) { return c == '\n' || c == '\r'; }

/* Over the end of a line, "\r\n" as one. */
static void skip_line_end(struct csv *c)
{
    if (c->at[0] == '\r' && c->at[1] == '\n') /* the text ends with a NUL */
        c->at++;
    c->at++;
    c->line++;
}

/* A field in quotes, to the character behind it; what was read moves down over the quotes. */
static int take_quoted(struct csv *c, char **to, struct err *err)
{
    uint64_t began = c->line;

    for (c->at++; c->at < c->end; c->at++) {
        if (*c->at == '"' && c->at[1] != '"')
            break;
        if (*c->at == '"')
            c->at++;
        if (*c->at == '\n' || (*c->at == '\r' && c->at[1] != '\n'))
            c->line++;
        *(*to)++ = *c->at;
    }
    if (c->at >= c->end) {
        c->line = began;
        return report_csv_error(c, "begins a quote that is never closed", err);
    }
    c->at++;
    if (c->at < c->end && *c->at != c->separator && !ends_line(*c->at))
        return report_csv_error(c, "has something behind a closing quote", err);
    return 0;
}

static int put_column(struct csv *c, char *field, struct err *err)
{
    if (!list_grow(&c->columns, &c->capacity, c->count, sizeof(*c->columns)))
        return err_set(err, ERR_NOMEM, "out of memory");
    c->columns[c->count++] = field;
    return 0;
}

/* One field, and where it ends. *more: another one of the same row follows. */
static int take_field(struct csv *c, bool *more, struct err *err)
{
    char *field = c->at, *to = c->at;
    int rc = 0;

    if (*c->at == '"' && c->at < c->end) {
        rc = take_quoted(c, &to, err);
    } else {
        while (c->at < c->end && *c->at != c->separator && !ends_line(*c->at))
            c->at++;
        to = c->at;
    }
    if (rc != 0)
        return rc;
    if (c->count == CSV_COLUMNS_MAX)
        return report_csv_error(c, "has more than 1000 columns", err);
    if ((size_t)(to - field) > CSV_FIELD_MAX)
        return report_csv_error(c, "has a field of more than 1 MiB", err);
    if (!utf8_valid(field, (size_t)(to - field)))
        return report_csv_error(c, "is not UTF-8: save the table as UTF-8", err);
    *more = c->at < c->end && *c->at == c->separator;
    if (*more)
        c->at++;
    else if (c->at < c->end)
        skip_line_end(c);
    *to = '\0'; /* at the separator or before it, and that has been read */
    return put_column(c, field, err);
}

int csv_next(struct csv *c, struct err *err)
{
    while (c->at < c->end && ends_line(*c->at))
        skip_line_end(c);
    c->count = 0;
    c->row_line = c->line;
    if (c->at >= c->end)
        return 0;
    for (bool more = true; more;) {
        int rc = take_field(c, &more, err);

        if (rc != 0)
            return rc;
    }
    return 1;
}
