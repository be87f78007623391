#include "tools/fuse.h"

#include <stdbool.h>
#include <stdlib.h>

/* A stretch without length is a moment of a millisecond. */
static bool overlap(const struct fuse_hit *h, const struct fuse_item *i)
{
    int64_t h_end = h->end_ms > h->start_ms ? h->end_ms : h->start_ms + 1;
    int64_t i_end = i->end_ms > i->start_ms ? i->end_ms : i->start_ms + 1;

    return h->media_id == i->media_id && h->start_ms < i_end && i->start_ms < h_end;
}

static struct fuse_hit *same_moment(struct fuse_hit *hits, size_t n, const struct fuse_item *item,
                                    size_t list)
{
    for (size_t i = 0; i < n; i++)
        if (hits[i].at[list] == FUSE_NONE && overlap(&hits[i], item))
            return &hits[i];
    return NULL;
}

static int best_first(const void *a, const void *b)
{
    const struct fuse_hit *x = a, *y = b;

    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    if (x->media_id != y->media_id)
        return x->media_id < y->media_id ? -1 : 1;
    return (x->start_ms > y->start_ms) - (x->start_ms < y->start_ms);
}

int fuse(const struct fuse_item *const *lists, const size_t *counts, size_t n,
         struct fuse_hit **ret, size_t *ret_count, struct err *err)
{
    struct fuse_hit *hits;
    size_t all = 0, made = 0, before;

    for (size_t k = 0; k < n; k++)
        all += counts[k];
    hits = calloc(all + 1, sizeof(*hits));
    if (hits == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    for (size_t k = 0; k < n; k++) {
        before = made; /* items of one list are moments of their own */
        for (size_t i = 0; i < counts[k]; i++) {
            const struct fuse_item *item = &lists[k][i];
            struct fuse_hit *hit = same_moment(hits, before, item, k);

            if (hit == NULL) {
                hit = &hits[made++];
                *hit = (struct fuse_hit){item->media_id, item->start_ms, item->end_ms, 0, {0}};
                for (size_t j = 0; j < FUSE_LISTS; j++)
                    hit->at[j] = FUSE_NONE;
            }
            hit->at[k] = i;
            hit->score += 1.0 / (FUSE_K + 1 + (double)i);
        }
    }
    if (made > 0)
        qsort(hits, made, sizeof(*hits), best_first);
    *ret = hits;
    *ret_count = made;
    return 0;
}
