#include "tools/correct/preview.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
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
