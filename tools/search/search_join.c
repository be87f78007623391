#include "tools/search/search_join.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/search/fuse.h"

/* What was found of a moment by one way more. */
static void adopt(struct search_result *r, enum search_way way, struct search_result *from)
{
    r->by[way] = true;
    if (isnan(r->likeness))
        r->likeness = from->likeness;
    if (isnan(r->sound_score))
        r->sound_score = from->sound_score;
    if (r->sound_end_ms == 0) {
        r->sound_start_ms = from->sound_start_ms;
        r->sound_end_ms = from->sound_end_ms;
    }
    if (r->sound[0] == 0) {
        char *was = r->sound;

        r->sound = from->sound;
        from->sound = was;
    }
}

static int join(struct candidates *c, struct search_results *ret, struct err *err)
{
    const struct fuse_item *lists[SEARCH_WAYS];
    struct fuse_item *items[SEARCH_WAYS] = {NULL};
    size_t counts[SEARCH_WAYS], n = 0;
    struct fuse_hit *hits = NULL;
    int rc = 0;

    for (int k = 0; k < SEARCH_WAYS && rc == 0; k++) {
        const struct candidates_list *l = &c->lists[k];

        counts[k] = l->count;
        lists[k] = items[k] = calloc(l->count + 1, sizeof(*items[k]));
        if (!items[k])
            rc = err_set(err, ERR_NOMEM, "out of memory");
        for (size_t i = 0; rc == 0 && i < l->count; i++)
            items[k][i] =
                (struct fuse_item){l->rows[i].media_id, l->rows[i].start_ms, l->rows[i].end_ms};
    }
    if (rc == 0)
        rc = fuse(lists, counts, SEARCH_WAYS, &hits, &n, err);
    if (rc == 0 && !(ret->list = calloc(n + 1, sizeof(*ret->list))))
        rc = err_set(err, ERR_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        struct search_result *r = &ret->list[ret->count++];

        for (int k = SEARCH_WAYS; k-- > 0;) { /* the first way's row is what is shown */
            size_t at = hits[i].at[k];
            struct search_result was = *r;

            if (at == FUSE_NONE)
                continue;
            *r = c->lists[k].rows[at];
            memset(&c->lists[k].rows[at], 0, sizeof(*r));
            if (was.path) {
                for (int j = k + 1; j < SEARCH_WAYS; j++)
                    if (was.by[j])
                        adopt(r, (enum search_way)j, &was);
                search_result_free(&was);
            }
        }
        r->score = hits[i].score;
    }
    for (int k = 0; k < SEARCH_WAYS; k++)
        free(items[k]);
    free(hits);
    return rc;
}

/* What has the words, or the class, before what is like it; each in its order. */
static int part(const struct search_wish *wish, struct search_results *r, struct err *err)
{
    enum search_way way = wish->text ? SEARCH_WORDS : SEARCH_CLASS;
    struct search_result *list = calloc(r->count + 1, sizeof(*list));
    size_t n = 0;

    if (!list)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (int named = 1; named >= 0; named--) {
        for (size_t i = 0; i < r->count; i++)
            if (r->list[i].by[way] == (named == 1))
                list[n++] = r->list[i];
        if (named)
            r->named = n;
    }
    free(r->list);
    r->list = list;
    return 0;
}

int search_join(struct candidates *c, struct search_results *ret, struct err *err)
{
    int rc = join(c, ret, err);

    return rc == 0 ? part(c->wish, ret, err) : rc;
}
