#include "tools/correct/current.h"

#include <stdlib.h>
#include <string.h>

void current_free(struct current *c)
{
    for (size_t i = 0; i < c->count; i++) {
        free(c->list[i].text);
        free(c->list[i].heard);
    }
    free(c->list);
    *c = (struct current){0};
}

static int take(void *arg, const struct read_segment *row)
{
    struct current *c = arg;
    struct current_segment *s;

    if (c->count == c->room) {
        size_t room = c->room * 2 + 256;
        struct current_segment *list = realloc(c->list, room * sizeof(*list));

        if (!list)
            return ERR_NOMEM;
        c->list = list;
        c->room = room;
    }
    s = &c->list[c->count++];
    *s = (struct current_segment){row->segment_id, row->start_ms, row->end_ms, strdup(row->text),
                                  strdup(row->heard ? row->heard : row->text)};
    return s->text && s->heard ? 0 : ERR_NOMEM;
}

int current_read(struct store *st, int64_t media_id, struct current *ret, struct err *err)
{
    int rc = read_segments(st, media_id, 0, take, ret, err);

    return rc == ERR_NOMEM && err->code == 0 ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

const struct current_segment *current_at(const struct current *c, int64_t ms)
{
    const struct current_segment *best = NULL;

    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].start_ms <= ms && (ms < c->list[i].end_ms || ms == c->list[i].start_ms))
            best = &c->list[i];
    return best;
}
