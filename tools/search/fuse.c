#include "tools/search/fuse.h"

#include <stdbool.h>
#include <stdlib.h>

/* A stretch without length is a moment of a millisecond. */
static bool hit_overlaps_item(const struct fuse_hit *h, const struct fuse_item *i)
{
    int64_t h_end = h->end_ms > h->start_ms ? h->end_ms : h->start_ms + 1;
    int64_t i_end = i->end_ms > i->start_ms ? i->end_ms : i->start_ms + 1;

    return h->media_id == i->media_id && h->start_ms < i_end && i->start_ms < h_end;
}

/* Hits by recording, so that an item is compared with those of its own alone. */
struct by_media {
    int64_t media_id;
    size_t hit;
};

static int by_media_order(const void *a, const void *b)
{
    const struct by_media *x = a, *y = b;

    if (x->media_id != y->media_id)
        return x->media_id < y->media_id ? -1 : 1;
    return (x->hit > y->hit) - (x->hit < y->hit);
}

static void sort_by_media(const struct fuse_hit *hits, size_t n, struct by_media *ret)
{
    for (size_t i = 0; i < n; i++)
        ret[i] = (struct by_media){hits[i].media_id, i};
    if (n > 0)
        qsort(ret, n, sizeof(*ret), by_media_order);
}

static size_t first_of(const struct by_media *list, size_t n, int64_t media_id)
{
    size_t low = 0;

    while (low < n) {
        size_t mid = low + (n - low) / 2;

        if (list[mid].media_id < media_id)
            low = mid + 1;
        else
            n = mid;
    }
    return low;
}

static struct fuse_hit *same_moment(struct fuse_hit *hits, const struct by_media *known, size_t n,
                                    const struct fuse_item *item, size_t list)
{
    for (size_t i = first_of(known, n, item->media_id);
         i < n && known[i].media_id == item->media_id; i++)
        if (hits[known[i].hit].at[list] == FUSE_NONE &&
            hit_overlaps_item(&hits[known[i].hit], item))
            return &hits[known[i].hit];
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
    struct by_media *known;
    size_t all = 0, made = 0, before;

    for (size_t k = 0; k < n; k++)
        all += counts[k];
    hits = calloc(all + 1, sizeof(*hits));
    known = calloc(all + 1, sizeof(*known));
    if (!hits || !known) {
        free(hits);
        free(known);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    for (size_t k = 0; k < n; k++) {
        before = made; /* items of one list are moments of their own */
        sort_by_media(hits, before, known);
        for (size_t i = 0; i < counts[k]; i++) {
            const struct fuse_item *item = &lists[k][i];
            struct fuse_hit *hit = same_moment(hits, known, before, item, k);

            if (!hit) {
                hit = &hits[made++];
                *hit = (struct fuse_hit){item->media_id, item->start_ms, item->end_ms, 0, {0}};
                for (size_t j = 0; j < FUSE_LISTS; j++)
                    hit->at[j] = FUSE_NONE;
            }
            hit->at[k] = i;
            hit->score += 1.0 / (FUSE_K + 1 + (double)i);
        }
    }
    free(known);
    if (made > 0)
        qsort(hits, made, sizeof(*hits), best_first);
    *ret = hits;
    *ret_count = made;
    return 0;
}
