#include "tools/score/rttm.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/utf8.h"

#define FIELDS 8 /* that are looked at */

struct line {
    double start_s, end_s;
    char *file, *speaker;
};

struct parsing {
    struct line *lines;
    size_t count, capacity;
};

void rttm_free(struct rttm *r)
{
    free(r->turns);
    free(r->files);
    free(r->speakers);
    free(r->text);
    *r = (struct rttm){0};
}

/* ---- lines */

/* Parts a line into fields where it stands; returns how many of `max` there are. */
static unsigned split_fields(char *line, char *field[], unsigned max)
{
    unsigned n = 0;

    for (char *at = line; n < max;) {
        at += strspn(at, " \t\r\v\f");
        if (*at == 0)
            break;
        field[n++] = at;
        at += strcspn(at, " \t\r\v\f");
        if (*at != 0)
            *at++ = 0;
    }
    return n;
}

/* A decimal number; hexadecimal ones, "inf" and "nan" are none. */
static bool parse_seconds(const char *text, double *ret)
{
    char *end;

    if (strspn(text, "+-.0123456789eE") != strlen(text))
        return false;
    *ret = strtod(text, &end);
    return end != text && *end == 0 && isfinite(*ret) && fabs(*ret) <= RTTM_MAX_S;
}

static bool is_valid_name(const char *text)
{
    size_t len = strlen(text);

    return len <= RTTM_MAX_NAME && utf8_valid(text, len);
}

static int take_line(struct parsing *p, char *text, size_t number, struct err *err)
{
    char *field[FIELDS];
    unsigned n = split_fields(text, field, FIELDS);
    double start, length;

    if (n == 0 || strcmp(field[0], "SPEAKER") != 0)
        return 0;
    if (n < FIELDS)
        return err_set(err, ERR_INPUT, "line %zu has no speaker", number);
    if (!parse_seconds(field[3], &start) || !parse_seconds(field[4], &length) || length < 0.0)
        return err_set(err, ERR_INPUT, "line %zu has a time that is none", number);
    if (!is_valid_name(field[1]) || !is_valid_name(field[7]))
        return err_set(err, ERR_INPUT, "line %zu has a name that is none", number);
    if (length == 0.0)
        return 0;
    if (!list_grow(&p->lines, &p->capacity, p->count, sizeof(*p->lines)))
        return err_set(err, ERR_NOMEM, "no memory for %zu turns", p->count + 1);
    p->lines[p->count++] = (struct line){start, start + length, field[1], field[7]};
    return 0;
}

static int take_lines(struct parsing *p, char *text, size_t len, struct err *err)
{
    size_t number = 0;
    int rc = 0;

    for (char *at = text; rc == 0 && at < text + len;) {
        char *end = memchr(at, '\n', (size_t)(text + len - at));

        if (!end)
            end = text + len;
        number++;
        if (memchr(at, 0, (size_t)(end - at)))
            return err_set(err, ERR_INPUT, "line %zu is not text", number);
        *end = 0;
        rc = take_line(p, at, number, err);
        at = end + 1;
    }
    return rc;
}

/* ---- names */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names of `count` lines, sorted, each once. */
static int collect_names(const struct parsing *p, bool speakers, char ***ret, uint32_t *count,
                         struct err *err)
{
    char **list = malloc((p->count + 1) * sizeof(*list));
    uint32_t n = 0;

    if (!list)
        return err_set(err, ERR_NOMEM, "no memory for the names of %zu turns", p->count);
    for (size_t i = 0; i < p->count; i++)
        list[i] = speakers ? p->lines[i].speaker : p->lines[i].file;
    qsort(list, p->count, sizeof(*list), by_name);
    for (size_t i = 0; i < p->count; i++)
        if (n == 0 || strcmp(list[n - 1], list[i]) != 0)
            list[n++] = list[i];
    *ret = list;
    *count = n;
    return 0;
}

static uint32_t index_of(char **list, uint32_t count, const char *text)
{
    char **found = bsearch(&text, list, count, sizeof(*list), by_name);

    return (uint32_t)(found - list);
}

/* Turns by file, the order of the text kept: counted, then placed. */
static int group_turns_by_file(const struct parsing *p, struct rttm *r, struct err *err)
{
    size_t *at = calloc((size_t)r->file_count + 1, sizeof(*at));

    r->turns = malloc((p->count + 1) * sizeof(*r->turns));
    if (!at || !r->turns) {
        free(at);
        return err_set(err, ERR_NOMEM, "no memory for %zu turns", p->count);
    }
    for (size_t i = 0; i < p->count; i++)
        at[index_of(r->files, r->file_count, p->lines[i].file) + 1]++;
    for (uint32_t f = 0; f < r->file_count; f++)
        at[f + 1] += at[f];
    for (size_t i = 0; i < p->count; i++) {
        const struct line *l = &p->lines[i];
        uint32_t file = index_of(r->files, r->file_count, l->file);

        r->turns[at[file]++] = (struct rttm_turn){
            l->start_s, l->end_s, file, index_of(r->speakers, r->speaker_count, l->speaker)};
    }
    r->turn_count = p->count;
    free(at);
    return 0;
}

int rttm_parse(const char *text, size_t len, struct rttm *ret, struct err *err)
{
    struct parsing p = {0};
    struct rttm r = {0};
    int rc;

    if (len > RTTM_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "it is longer than %u MiB", RTTM_MAX_BYTES >> 20);
    r.text = malloc(len + 1);
    if (!r.text)
        return err_set(err, ERR_NOMEM, "no memory for %zu bytes of text", len);
    memcpy(r.text, text, len);
    r.text[len] = 0;
    r.text_len = len;
    rc = take_lines(&p, r.text, len, err);
    if (rc == 0)
        rc = collect_names(&p, false, &r.files, &r.file_count, err);
    if (rc == 0)
        rc = collect_names(&p, true, &r.speakers, &r.speaker_count, err);
    if (rc == 0)
        rc = group_turns_by_file(&p, &r, err);
    free(p.lines);
    if (rc != 0)
        rttm_free(&r);
    else
        *ret = r;
    return rc;
}

int rttm_read(const char *path, struct rttm *ret, struct err *err)
{
    struct buf text = BUF_INIT;
    FILE *f = fopen(path, "rbe");
    int rc = 0;

    if (!f)
        return err_sys(err, errno, "%s", path);
    for (;;) {
        uint8_t *to = buf_reserve(&text, 65536);
        size_t got = to ? fread(to, 1, 65536, f) : 0;

        text.len += got;
        if (got == 0 || text.len > RTTM_MAX_BYTES)
            break;
    }
    if (text.failed)
        rc = err_set(err, ERR_NOMEM, "no memory for %zu bytes of text", text.len);
    else if (ferror(f))
        rc = err_sys(err, errno, "%s", path);
    fclose(f);
    if (rc == 0 && (rc = rttm_parse((const char *)text.data, text.len, ret, err)) != 0)
        err_prefix(err, "%s", path);
    buf_free(&text);
    return rc;
}

/* ---- writing */

static void put_name(struct buf *out, const char *text)
{
    if (*text == 0)
        buf_put_u8(out, '-');
    for (; *text != 0; text++) {
        unsigned char c = (unsigned char)*text;

        buf_put_u8(out, c <= ' ' || c == 0x7f ? '_' : c);
    }
}

void rttm_put(struct buf *out, const char *file, double start_s, double end_s, const char *speaker)
{
    buf_printf(out, "SPEAKER ");
    put_name(out, file);
    buf_printf(out, " 1 %.6f %.6f <NA> <NA> ", start_s, end_s - start_s);
    put_name(out, speaker);
    buf_printf(out, " <NA> <NA>\n");
}
