#include "tools/correct/changes.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/utf8.h"
#include "store/read/read.h"
#include "store/reading/hunks.h"
#include "tools/correct/labels.h"

/* ---- the segments of a recording as they read now, in memory */

void current_free(struct current *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->list[i].text);
        free(c->list[i].heard);
    }
    free(c->list);
    labels_free(&c->who);
    *c = (struct current){0};
}

struct taking {
    struct current *c;
    size_t next; /* what is read is this one, or one behind it */
    struct err *err;
};

static int take_heard(void *arg, const struct read_segment *row)
{
    struct taking *t = arg;
    struct current *c = t->c;
    struct current_segment *s;

    if (!list_grow(&c->list, &c->capacity, c->count, sizeof(*c->list)))
        return err_set(t->err, ERR_NOMEM, "out of memory");
    s = &c->list[c->count++];
    *s = (struct current_segment){row->segment_id, row->start_ms, row->end_ms, strdup(""),
                                  strdup(row->text)};
    return s->text && s->heard ? labels_add(&c->who, row->speaker, t->err)
                               : err_set(t->err, ERR_NOMEM, "out of memory");
}

static int take_text(void *arg, const struct read_segment *row)
{
    struct taking *t = arg;
    struct current *c = t->c;

    while (t->next < c->count && c->list[t->next].segment_id != row->segment_id)
        t->next++;
    if (t->next == c->count)
        return err_set(t->err, ERR_CHANGED, "it was transcribed again meanwhile: try again");
    free(c->list[t->next].text);
    c->list[t->next].text = strdup(row->text);
    return c->list[t->next].text ? 0 : err_set(t->err, ERR_NOMEM, "out of memory");
}

int current_read(struct store *st, int64_t media_id, struct current *ret, struct err *err)
{
    struct taking t = {ret, 0, err};
    int rc = read_heard(st, media_id, 0, take_heard, &t, err);

    return rc == 0 ? read_segments(st, media_id, 0, take_text, &t, err) : rc;
}

const struct current_segment *current_at(const struct current *c, int64_t ms)
{
    const struct current_segment *best = NULL;

    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].start_ms <= ms && (ms < c->list[i].end_ms || ms == c->list[i].start_ms))
            best = &c->list[i];
    return best;
}

/* ---- what segments are to read */

static void change_free(struct change *x)
{
    free(x->heard);
    free(x->was);
    free(x->now);
    free(x->text);
}

void changes_free(struct changes *c)
{
    for (size_t i = 0; i < c->count; i++)
        change_free(&c->list[i]);
    free(c->list);
    buf_free(&c->names);
    *c = (struct changes){0};
}

const char *change_name(const struct changes *c, const struct change *x)
{
    return (const char *)c->names.data + x->place;
}

int changes_begin(struct changes *c, int64_t media_id, const char *path, const char *member,
                  struct err *err)
{
    c->media_id = media_id;
    c->place = c->names.len;
    buf_printf(&c->names, "%s%s%s", path, member[0] ? "//" : "", member);
    buf_put_u8(&c->names, 0);
    return c->names.failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
}

static bool is_control(const char *s, size_t bytes)
{
    const unsigned char *c = (const unsigned char *)s;

    return (bytes == 1 && (c[0] < 0x20 || c[0] == 0x7F)) ||
           (bytes == 2 && c[0] == 0xC2 && c[1] < 0xA0);
}

/* One blank for each run of white space and control characters, none at the ends. Newly
 * allocated. */
static char *normalize_blanks(const char *s)
{
    struct buf out = BUF_INIT;
    bool blank = false;
    size_t n;

    for (; *s; s += n) {
        if (script_of(s, &n) == SCRIPT_BLANK || is_control(s, n)) {
            blank = out.len > 0;
            continue;
        }
        if (blank)
            buf_put_u8(&out, ' ');
        buf_put(&out, s, n);
        blank = false;
    }
    if (!buf_cstr(&out))
        buf_free(&out);
    return (char *)out.data;
}

int changes_alike(const char *a, const char *b, bool *ret, struct err *err)
{
    char *x = normalize_blanks(a), *y = normalize_blanks(b);
    int rc = x && y ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    *ret = rc == 0 && strcmp(x, y) == 0;
    free(x);
    free(y);
    return rc;
}

static int grow_changes(struct changes *c, struct err *err)
{
    return list_grow(&c->list, &c->capacity, c->count, sizeof(*c->list))
               ? 0
               : err_set(err, ERR_NOMEM, "out of memory");
}

static int check_text(const char *text, int64_t start_ms, struct err *err)
{
    char at[CLOCK_HMS_LEN];

    clock_hms(start_ms, at);
    if (!utf8_valid(text, strlen(text)))
        return err_set(err, ERR_INPUT, "what is to be said at %s is not UTF-8", at);
    if (strlen(text) > REQUEST_CORRECTION_MAX)
        return err_set(err, ERR_LIMIT,
                       "what is to be said at %s is longer than a segment may be (16 KiB): try "
                       "a shorter text",
                       at);
    return 0;
}

int changes_add(struct changes *c, const struct current_segment *s, const char *text,
                bool confirmed, struct err *err)
{
    struct change x = {.media_id = c->media_id,
                       .segment_id = s->segment_id,
                       .start_ms = s->start_ms,
                       .end_ms = s->end_ms,
                       .confirmed = confirmed,
                       .place = c->place};
    int rc = check_text(text, s->start_ms, err);

    if (rc == 0)
        rc = grow_changes(c, err);
    if (rc != 0)
        return rc;
    x.heard = strdup(s->heard);
    x.was = strdup(s->text);
    x.now = normalize_blanks(s->text);
    x.text = normalize_blanks(text);
    if (!x.heard || !x.was || !x.now || !x.text)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc != 0 || (strcmp(x.now, x.text) == 0 && !confirmed)) {
        change_free(&x);
        return rc;
    }
    c->recordings += c->count == 0 || c->list[c->count - 1].media_id != x.media_id;
    c->list[c->count++] = x;
    return 0;
}

int changes_apply(const struct changes *c, struct writer *writer, const char *made_by,
                  const char *source, uint64_t *affected, struct err *err)
{
    struct request_correction *list = calloc(REQUEST_MAX_FOUND, sizeof(*list));
    int rc = list ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    for (size_t i = 0; rc == 0 && i < c->count;) {
        struct request rq = {
            .type = REQUEST_CORRECT, .corrections = list, .made_by = made_by, .source = source};
        struct request_reply reply = {0};
        size_t bytes = 0;

        do {
            const struct change *x = &c->list[i++];

            list[rq.count++] =
                (struct request_correction){x->segment_id, x->heard, x->text, x->confirmed, x->was};
            bytes += strlen(x->heard) + strlen(x->was) + strlen(x->text) + 64;
        } while (rq.count < REQUEST_MAX_FOUND && i < c->count && bytes < REQUEST_SOFT_BYTES);
        rc = writer_request(writer, &rq, &reply, err);
        *affected += reply.affected;
    }
    free(list);
    return rc;
}
