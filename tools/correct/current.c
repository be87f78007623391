#include "tools/correct/current.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"

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

    if (!list_grow(&c->list, &c->room, c->count, sizeof(*c->list)))
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
