#include "tools/correct/listing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tools/cli/cli.h"
#include "tools/correct/preview.h"
#include "tools/cli/highlight.h"

#define HEAD_COLUMNS 22 /* the number and the time */

struct listing {
    json_t *json; /* NULL: for people */
    int64_t media_id;
    uint64_t count;
    struct err *err;
};

static int add_json(struct listing *l, const struct read_correction *row)
{
    json_t *o =
        json_pack("{s:I, s:I, s:s, s:s, s:I, s:I}", "correction", (json_int_t)row->correction_id,
                  "recording", (json_int_t)row->media_id, "path", row->path, "member", row->member,
                  "start_ms", (json_int_t)row->start_ms, "end_ms", (json_int_t)row->end_ms);
    const char *const texts[][2] = {{"said", row->said},
                                    {"meant", row->meant},
                                    {"before", row->before},
                                    {"after", row->after},
                                    {"by", row->made_by},
                                    {"at", row->made_at},
                                    {"source", row->source},
                                    {"state", row->state},
                                    {"heard_now", row->heard_now},
                                    {"decided_by", row->decided_by},
                                    {"decided_at", row->decided_at}};

    for (size_t i = 0; o && i < sizeof(texts) / sizeof(texts[0]); i++)
        json_object_set_new(o, texts[i][0], json_string(texts[i][1]));
    return o && json_array_append_new(l->json, o) == 0
               ? 0
               : err_set(l->err, ERR_NOMEM, "out of memory");
}

/* The words with those around them, so that one sees what they are about. */
static char *in_context(const struct read_correction *row, const char *words)
{
    struct buf b = BUF_INIT;

    buf_printf(&b, "%s%s%s%s%s", row->before, row->before[0] && words[0] ? " " : "", words,
               row->after[0] && (words[0] || row->before[0]) ? " " : "", row->after);
    if (!buf_cstr(&b))
        buf_free(&b);
    return (char *)b.data;
}

/* LABEL, and the rest wrapped behind it. */
static void print_line(const char *label, const char *text)
{
    printf("%*s%s", HEAD_COLUMNS, "", label);
    highlight_print(text, HEAD_COLUMNS + strlen(label));
}

static void print_origin(const struct read_correction *row)
{
    struct buf b = BUF_INIT;

    buf_printf(&b, "%s: %s, %.10s%s%s", row->state, row->made_by, row->made_at,
               row->source[0] ? ", " : "", row->source);
    if (row->decided_by[0] && strcmp(row->state, "applied") != 0)
        buf_printf(&b, "; decided by %s, %.10s", row->decided_by, row->decided_at);
    print_line("", buf_cstr(&b) ? buf_cstr(&b) : "");
    buf_free(&b);
}

static int print_row(const struct read_correction *row, struct err *err)
{
    char at[CLOCK_HMS_LEN], *said = in_context(row, row->said),
                            *meant = in_context(row, row->meant);
    int rc = said && meant ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    clock_hms(row->start_ms, at);
    printf("%8lld%12s  ", (long long)row->correction_id, at);
    if (rc == 0 && strcmp(row->said, row->meant) != 0) {
        rc = preview_pair(said, meant, HEAD_COLUMNS, err);
    } else if (rc == 0) {
        printf("= ");
        highlight_print(row->meant, HEAD_COLUMNS + 2);
    }
    free(said);
    free(meant);
    if (rc != 0)
        return rc;
    if (strcmp(row->state, "conflict") == 0)
        print_line("now ", row->heard_now[0] ? row->heard_now : "(nothing)");
    print_origin(row);
    if (strcmp(row->state, "conflict") == 0)
        printf("%*s`nightshift correct --keep %lld` or `--undo %lld`\n", HEAD_COLUMNS, "",
               (long long)row->correction_id, (long long)row->correction_id);
    return 0;
}

static int on_row(void *arg, const struct read_correction *row)
{
    struct listing *l = arg;

    l->count++;
    if (l->json)
        return add_json(l, row);
    if (row->media_id != l->media_id) {
        cli_paint(stdout, "1", row->path);
        printf("%s%s\n", row->member[0] ? "//" : "", row->member);
        l->media_id = row->media_id;
    }
    return print_row(row, l->err);
}

int listing_print(struct store *st, const struct read_corrections *which, bool json,
                  uint64_t *count, struct err *err)
{
    struct listing l = {.json = json ? json_array() : NULL, .err = err};
    int rc = read_corrections(st, which, on_row, &l, err);

    if (rc == 0 && l.json) {
        json_dumpf(l.json, stdout, JSON_INDENT(2));
        putchar('\n');
    }
    json_decref(l.json);
    *count = l.count;
    return rc;
}
