#include "tools/describe/describe.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/utf8.h"
#include "store/read/read.h"
#include "store/results/recorded.h"
#include "store/store.h"
#include "tools/pair_set.h"
#include "workers/results.h"

/* ---- the recording that a list of files means */

struct name {
    char *name; /* owned: the last part of a path or member */
    int64_t media_id;
};

struct lookup {
    struct store *store;
    const char *folder;
    struct name *names; /* of all places, sorted; read when the first bare name is looked for */
    size_t count, capacity;
    bool have_names;
};

int lookup_new(struct store *st, const char *folder, struct lookup **ret, struct err *err)
{
    struct lookup *w = calloc(1, sizeof(*w));

    if (!w)
        return err_set(err, ERR_NOMEM, "out of memory");
    w->store = st;
    w->folder = folder;
    *ret = w;
    return 0;
}

void lookup_free(struct lookup *w)
{
    if (!w)
        return;
    for (size_t i = 0; i < w->count; i++)
        free(w->names[i].name);
    free(w->names);
    free(w);
}

/* ---- bare names */

static int take_name(void *arg, int64_t media_id, const char *path, const char *member)
{
    const char *whole = member[0] ? member : path, *slash = strrchr(whole, '/');
    struct lookup *w = arg;

    if (!list_grow(&w->names, &w->capacity, w->count, sizeof(*w->names)))
        return ERR_NOMEM;
    w->names[w->count] = (struct name){strdup(slash ? slash + 1 : whole), media_id};
    return w->names[w->count++].name ? 0 : ERR_NOMEM;
}

static int by_name(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->media_id > y->media_id) - (x->media_id < y->media_id);
}

static int read_names(struct lookup *w, struct err *err)
{
    int rc = w->have_names ? 0 : read_places(w->store, take_name, w, err);

    if (rc == ERR_NOMEM)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && !w->have_names && w->count > 0)
        qsort(w->names, w->count, sizeof(*w->names), by_name);
    w->have_names |= rc == 0;
    return rc;
}

static int by_bare_name(struct lookup *w, const char *name, int64_t *ret, struct err *err)
{
    size_t low = 0, high;
    int rc = read_names(w, err);

    if (rc != 0)
        return rc;
    for (high = w->count; low < high;) {
        size_t middle = low + (high - low) / 2;

        if (strcmp(w->names[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == w->count || strcmp(w->names[low].name, name) != 0)
        return err_set(err, ERR_MISSING, "'%.300s' is not in the catalog", name);
    for (size_t i = low; i < w->count && strcmp(w->names[i].name, name) == 0; i++)
        if (w->names[i].media_id != w->names[low].media_id)
            return err_set(err, ERR_USAGE,
                           "'%.300s' is the name of several recordings: give the path", name);
    *ret = w->names[low].media_id;
    return 0;
}

/* ---- paths */

/* One more part, of n bytes, of a path that begins with a slash. */
static void put_part(struct buf *path, const char *part, size_t n)
{
    if (n == 0 || (n == 1 && part[0] == '.'))
        return;
    if (n == 2 && memcmp(part, "..", 2) == 0) {
        while (path->len > 0 && path->data[--path->len] != '/')
            ;
        return;
    }
    buf_put_u8(path, '/');
    buf_put(path, part, n);
}

static void put_parts(struct buf *path, const char *parts, size_t n)
{
    for (const char *end = parts + n; parts < end;) {
        const char *slash = memchr(parts, '/', (size_t)(end - parts));
        size_t len = (size_t)((slash ? slash : end) - parts);

        put_part(path, parts, len);
        parts += len + 1;
    }
}

/* The place whose path is the first n bytes. */
static int lookup_place_at(struct lookup *w, const char *path, size_t n, const char *member,
                           int64_t *ret, struct err *err)
{
    struct buf whole = BUF_INIT;
    const char *absolute;
    int rc;

    if (path[0] != '/')
        put_parts(&whole, w->folder, strlen(w->folder));
    put_parts(&whole, path, n);
    absolute = buf_cstr(&whole);
    rc = absolute ? read_place(w->store, absolute, member, ret, err)
                  : err_set(err, ERR_NOMEM, "out of memory");
    buf_free(&whole);
    return rc;
}

/* By an absolute path, one relative to the folder, or a bare name that one recording alone has;
 * "ARCHIVE//MEMBER", or the member by itself ("" none). ERR_MISSING, ERR_USAGE: none, or several,
 * with a sentence about it. */
static int lookup_place(struct lookup *w, const char *path, const char *member, int64_t *ret,
                        struct err *err)
{
    const char *inside = path[0] ? strstr(path + 1, "//") : NULL;
    int rc;

    if (!path[0])
        return err_set(err, ERR_MISSING, "no recording is named");
    rc = lookup_place_at(w, path, strlen(path), member, ret, err);
    if (rc == ERR_MISSING && inside && inside[2] && !member[0])
        rc = lookup_place_at(w, path, (size_t)(inside - path), inside + 2, ret, err);
    if (rc == ERR_MISSING && !strchr(path, '/') && !member[0])
        rc = by_bare_name(w, path, ret, err);
    if (rc == 0)
        *err = (struct err){0}; /* of what was tried before */
    return rc;
}

/* By its number in the catalog. */
static int lookup_number(struct lookup *w, const char *number, int64_t *ret, struct err *err)
{
    size_t n = strspn(number, "0123456789");
    int64_t id = n > 0 && n <= 18 && !number[n] ? strtoll(number, NULL, 10) : 0;
    int rc;

    if (id == 0)
        return err_set(err, ERR_USAGE, "'%.100s' is not the number of a recording", number);
    rc = read_recording_by_id(w->store, id, NULL, NULL, err);
    if (rc == 0)
        *ret = id;
    return rc;
}

/* ---- what the rows of a table say of recordings */

#define NONE SIZE_MAX

struct reading {
    struct lookup *lookup;
    describe_note_fn note;
    void *arg;
    char **keys; /* of the columns; NULL: it is none that is kept */
    size_t columns;
    size_t number, path, member; /* columns that name the recording; NONE */
    int last_year;
};

void described_free(struct described *d)
{
    for (size_t i = 0; i < d->count; i++)
        free((void *)(uintptr_t)d->list[i].values);
    free(d->list);
    *d = (struct described){0};
}

/* In place: without blanks around it, lines that end with a newline alone, and blanks for other
 * control characters. */
static char *clean_cell_text(char *text, bool keep_lines)
{
    char *to = text, *from = text;

    for (; *from; from++) {
        const unsigned char *p = (const unsigned char *)from;
        bool line = *p == '\n' || *p == '\t';

        if (*p == '\r' && p[1] == '\n')
            continue;
        if (*p == 0xC2 && p[1] >= 0x80 && p[1] < 0xA0)
            from++;
        if (*p == '\r' && keep_lines)
            *to++ = '\n';
        else if ((*p < 0x20 && !(line && keep_lines)) || *p == 0x7F || from > (const char *)p)
            *to++ = ' ';
        else
            *to++ = *from;
    }
    while (to > text && strchr(" \t\n", to[-1]))
        to--;
    *to = '\0';
    return text + strspn(text, " \t\n");
}

/* ---- the header */

static char fold(char c) { return c == ' ' || c == '-' ? '_' : (char)tolower((unsigned char)c); }

static bool is_called(const char *header, const char *name)
{
    while (*header && fold(*header) == fold(*name)) {
        header++;
        name++;
    }
    return *header == *name;
}

static size_t column_of(const struct reading *r, const char *const *names)
{
    for (; *names; names++)
        for (size_t i = 0; i < r->columns; i++)
            if (r->keys[i] && is_called(r->keys[i], *names))
                return i;
    return NONE;
}

/* Two columns may give one tag, and both are kept; but only one column can name the recording. */
static int check_once(const struct reading *r, size_t column, struct err *err)
{
    for (size_t i = column + 1; column != NONE && i < r->columns; i++)
        if (r->keys[i] && is_called(r->keys[i], r->keys[column]))
            return err_set(err, ERR_INPUT,
                           "its columns %zu and %zu are both called '%s', which names the "
                           "recording: leave one of them out, or give it another name",
                           column + 1, i + 1, r->keys[column]);
    return 0;
}

/* Which columns name the recording, and so are no tags. */
static int find_names(struct reading *r, struct err *err)
{
    static const char *const id[] = {"media_id", NULL}, *const member[] = {"member", NULL},
                             *const paths[] = {"path", "file", "filename", "file_name", NULL},
                             *const numbers[] = {"recording", "number", NULL};
    size_t used[] = {column_of(r, id), column_of(r, paths), NONE}, kept = 0;

    r->number = used[0];
    r->path = used[0] == NONE ? used[1] : NONE;
    used[2] = used[1] == NONE ? NONE : column_of(r, member);
    r->member = r->path == NONE ? NONE : used[2];
    if (r->number == NONE && r->path == NONE)
        used[0] = r->number = column_of(r, numbers);
    if (r->number == NONE && r->path == NONE)
        return err_set(err, ERR_INPUT,
                       "its first line names no column path, file, filename, media_id, recording "
                       "or number");
    if (check_once(r, r->number, err) != 0 || check_once(r, r->path, err) != 0 ||
        check_once(r, r->member, err) != 0)
        return err->code;
    for (size_t i = 0; i < 3; i++)
        if (used[i] != NONE)
            r->keys[used[i]] = NULL;
    for (size_t i = 0; i < r->columns; i++)
        kept += r->keys[i] != NULL;
    return kept ? 0 : err_set(err, ERR_INPUT, "it has no column beside the recordings' names");
}

static int read_header(struct csv *table, struct reading *r, struct err *err)
{
    int rc = csv_next(table, err);

    if (rc <= 0)
        return rc < 0 ? rc : err_set(err, ERR_INPUT, "it is empty");
    r->columns = table->count;
    r->keys = calloc(r->columns, sizeof(*r->keys));
    if (!r->keys)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; i < r->columns; i++) {
        char *key = clean_cell_text(table->columns[i], false);

        if (strlen(key) > RESULT_TAG_KEY_MAX)
            return err_set(err, ERR_INPUT, "a column's name has more than %u bytes",
                           RESULT_TAG_KEY_MAX);
        r->keys[i] = key[0] ? key : NULL;
    }
    return find_names(r, err);
}

/* ---- the rows */

/* The cleaned field of a column; "" where the row has none. */
static char *field_of(const struct csv *table, size_t column)
{
    static char none[1];

    return column < table->count ? clean_cell_text(table->columns[column], true) : none;
}

static int find_recording(const struct reading *r, const struct csv *table, int64_t *ret,
                          struct err *err)
{
    if (r->number != NONE)
        return lookup_number(r->lookup, field_of(table, r->number), ret, err);
    return lookup_place(r->lookup, field_of(table, r->path), field_of(table, r->member), ret, err);
}

/* A row that has more columns than there are names has moved: nothing of it can be believed. */
static int check_width(const struct reading *r, const struct csv *table, struct err *err)
{
    for (size_t i = r->columns; i < table->count; i++)
        if (table->columns[i][strspn(table->columns[i], " \t\r\n")])
            return err_set(err, ERR_USAGE, "it has %zu columns, and the first line %zu",
                           table->count, r->columns);
    return 0;
}

static void check_date(const struct reading *r, uint64_t line, const struct store_said *said)
{
    char on[RECORDED_LEN], shown[60], sentence[200];

    if (!said->value[0] || recorded_rank("csv", said->key) == 0 ||
        recorded_date(said->value, r->last_year, on))
        return;
    utf8_copy(shown, sizeof(shown), said->value);
    snprintf(sentence, sizeof(sentence),
             "'%s' is not a date such as 2003, 2003-05 or 2003-05-17: it is kept as text", shown);
    r->note(r->arg, line, false, sentence);
}

/* The values of a row; those that it ends before are not said. */
static int take_values(const struct reading *r, const struct csv *table,
                       struct request_description *ret, struct err *err)
{
    struct store_said *said = calloc(r->columns, sizeof(*said));

    if (!said)
        return err_set(err, ERR_NOMEM, "out of memory");
    ret->values = said;
    for (size_t i = 0; i < r->columns && i < table->count; i++) {
        struct store_said one = {r->keys[i], NULL};

        if (!r->keys[i])
            continue;
        one.value = field_of(table, i);
        if (strlen(one.value) > RESULT_TAG_VALUE_MAX)
            return err_set(err, ERR_USAGE, "column '%.100s' has more than %u bytes", one.key,
                           RESULT_TAG_VALUE_MAX);
        check_date(r, table->row_line, &one);
        said[ret->value_count++] = one;
    }
    return 0;
}

static int append_description(struct described *d, const struct request_description *one,
                              struct err *err)
{
    if (!list_grow(&d->list, &d->capacity, d->count, sizeof(*d->list)))
        return err_set(err, ERR_NOMEM, "out of memory");
    d->list[d->count++] = *one;
    return 0;
}

/* A row that cannot be taken is said, and the others are. */
static int take_row(const struct reading *r, const struct csv *table, struct described *d,
                    struct err *err)
{
    struct request_description one = {0};
    int rc = check_width(r, table, err);

    if (rc == 0)
        rc = find_recording(r, table, &one.media_id, err);
    if (rc == 0)
        rc = take_values(r, table, &one, err);
    if (rc == 0)
        rc = append_description(d, &one, err);
    if (rc != 0)
        free((void *)(uintptr_t)one.values);
    if (rc == ERR_MISSING || rc == ERR_USAGE) {
        r->note(r->arg, table->row_line, true, err->msg);
        *err = (struct err){0};
        d->left_out++;
        rc = 0;
    }
    return rc;
}

static bool is_blank(const struct csv *table)
{
    for (size_t i = 0; i < table->count; i++)
        if (table->columns[i][strspn(table->columns[i], " \t\r\n")])
            return false;
    return true;
}

/* A list may have several lines of one recording. */
static int count_recordings(struct described *d, struct err *err)
{
    struct pair_set seen = {0};
    int rc = 0;

    for (size_t i = 0; rc >= 0 && i < d->count; i++)
        rc = pair_set_add(&seen, 0, (uint64_t)d->list[i].media_id, err);
    d->recordings = seen.count;
    pair_set_free(&seen);
    return rc < 0 ? rc : 0;
}

int describe_read(struct csv *table, struct lookup *lookup, describe_note_fn note, void *arg,
                  struct described *ret, struct err *err)
{
    struct reading r = {.lookup = lookup, .note = note, .arg = arg};
    char now[CLOCK_ISO_LEN];
    int rc = read_header(table, &r, err);

    clock_iso8601(clock_wall_ms(), now);
    r.last_year = (int)strtol(now, NULL, 10) + 1;
    while (rc == 0 && (rc = csv_next(table, err)) == 1) {
        rc = 0;
        if (is_blank(table))
            continue;
        ret->lines++;
        rc = take_row(&r, table, ret, err);
    }
    free(r.keys);
    return rc == 0 ? count_recordings(ret, err) : rc;
}
