#include "tools/correct/preview.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "store/read/corrections.h"
#include "store/reading/hunks.h"
#include "tools/cli/cli.h"
#include "tools/cli/highlight.h"

#define TIME_COLUMNS 12

/* One side of the difference. */
struct side {
    const char *text;
    const struct hunk_word *words;
    size_t count;
    bool is_meant;
};

static size_t hunk_at(const struct side *s, const struct hunk *h, size_t *count)
{
    *count = s->is_meant ? h->meant_count : h->said_count;
    return s->is_meant ? h->meant_at : h->said_at;
}

/* The text with marks around its words that the other one has not. */
static void put_marked(struct buf *out, const struct side *s, const struct hunks *h)
{
    size_t done = 0;

    for (size_t i = 0; i < h->count; i++) {
        size_t count, at = hunk_at(s, &h->list[i], &count), from, to;

        if (count == 0)
            continue;
        from = s->words[at].at;
        to = s->words[at + count - 1].at + s->words[at + count - 1].len;
        buf_put(out, s->text + done, from - done);
        buf_put(out, MARK_BEGIN, 1);
        buf_put(out, s->text + from, to - from);
        buf_put(out, MARK_END, 1);
        done = to;
    }
    buf_put(out, s->text + done, strlen(s->text + done));
}

static int print_side(const char *sign, const struct side *s, const struct hunks *h, size_t column,
                      struct err *err)
{
    struct buf out = BUF_INIT;
    int rc = 0;

    if (s->count == 0)
        buf_printf(&out, "(nothing)");
    else
        put_marked(&out, s, h);
    if (buf_cstr(&out)) {
        printf("%s ", sign);
        highlight_print(buf_cstr(&out), column + 2);
    } else
        rc = err_set(err, ERR_NOMEM, "out of memory");
    buf_free(&out);
    return rc;
}

int preview_pair(const char *was, const char *is, size_t column, struct err *err)
{
    struct hunks h = {0};
    int rc = hunks_make(was, is, &h, err);

    if (rc == 0)
        rc = print_side("-", &(struct side){was, h.said, h.said_count, false}, &h, column, err);
    if (rc == 0) {
        printf("%*s", (int)column, "");
        rc = print_side("+", &(struct side){is, h.meant, h.meant_count, true}, &h, column, err);
    }
    hunks_free(&h);
    return rc;
}

static int preview_change(const struct change *x, struct err *err)
{
    char at[CLOCK_HMS_LEN];

    clock_hms(x->start_ms, at);
    printf("%*s  ", TIME_COLUMNS, at);
    if (strcmp(x->now, x->text) != 0)
        return preview_pair(x->now, x->text, TIME_COLUMNS + 2, err);
    printf("= ");
    highlight_print(x->text, TIME_COLUMNS + 4);
    return 0;
}

int preview_changes(const struct changes *c, bool named, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < c->count; i++) {
        const struct change *x = &c->list[i];

        if (named && (i == 0 || c->list[i - 1].media_id != x->media_id)) {
            cli_paint(stdout, "1", change_name(c, x));
            putchar('\n');
        }
        rc = preview_change(x, err);
    }
    return rc;
}

json_t *preview_json(const struct changes *c)
{
    json_t *all = json_array();

    for (size_t i = 0; all && i < c->count; i++) {
        const struct change *x = &c->list[i];
        json_t *o = json_pack("{s:I, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:b}", "recording",
                              (json_int_t)x->media_id, "name", change_name(c, x), "segment",
                              (json_int_t)x->segment_id, "start_ms", (json_int_t)x->start_ms,
                              "end_ms", (json_int_t)x->end_ms, "heard", x->heard, "reads", x->now,
                              "text", x->text, "confirmed", (int)x->confirmed);

        if (!o || json_array_append_new(all, o) != 0) {
            json_decref(all);
            all = NULL;
        }
    }
    return all;
}

/* ---- what people corrected, and what of it is to be decided */

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
