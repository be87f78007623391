#include "tools/search/search_near.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "store/read/find.h"

int search_near_known(struct candidates *c, struct err *err)
{
    const struct scope scope = {.path = c->wish->path};

    return find_sound_heard(c->st, c->wish->sound, &scope, &c->has_class, err);
}

struct nearby {
    struct search_result *row;
    bool found, no_memory;
};

static int on_near(void *arg, const struct find_sound *s)
{
    struct nearby *x = arg;
    char *name = strdup(s->name);

    if (!name) {
        x->no_memory = true;
        return 1;
    }
    x->found = true;
    free(x->row->sound);
    x->row->sound = name;
    x->row->sound_score = s->score;
    x->row->sound_start_ms = s->start_ms;
    x->row->sound_end_ms = s->end_ms;
    x->row->by[SEARCH_CLASS] = true;
    return 0;
}

/* The stretch that sounds most like it, of those near the row. */
static bool near_by_vector(const struct candidates_list *heard, struct search_result *row)
{
    for (size_t i = 0; i < heard->count; i++) {
        const struct search_result *h = &heard->rows[i];

        if (h->media_id != row->media_id || h->start_ms > row->end_ms + SEARCH_NEAR_MS ||
            h->end_ms < row->start_ms - SEARCH_NEAR_MS)
            continue;
        row->by[SEARCH_SOUND] = true;
        row->sound_start_ms = h->start_ms;
        row->sound_end_ms = h->end_ms;
        if (isnan(row->likeness))
            row->likeness = h->likeness;
        return true;
    }
    return false;
}

/* Keeps of a list what is near such a sound, in its order. */
int search_near_keep(struct candidates *c, struct candidates_list *l, struct err *err)
{
    size_t kept = 0, n = l->count;
    int rc = 0;

    for (size_t i = 0; i < n; i++) {
        struct search_result *row = &l->rows[i];
        struct nearby x = {.row = row};

        if (rc == 0 && c->has_class)
            rc = find_sound_near(c->st, row->media_id, c->wish->sound,
                                 row->start_ms - SEARCH_NEAR_MS, row->end_ms + SEARCH_NEAR_MS,
                                 on_near, &x, err);
        if (x.no_memory)
            rc = err_set(err, ERR_NOMEM, "out of memory");
        if (rc == 0 && (x.found || near_by_vector(&c->lists[SEARCH_SOUND], row))) {
            struct search_result keep = *row;

            *row = (struct search_result){0};
            l->rows[kept++] = keep;
        } else {
            search_result_free(row);
        }
    }
    l->count = kept;
    return rc;
}
