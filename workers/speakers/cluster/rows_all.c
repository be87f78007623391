/* Every point among all. Tiles of points that stand together are compared with panels, and first
 * their boxes: where these are farther apart than what any point of the tile still looks for, the
 * panel is passed over. */
#include <math.h>
#include <stdlib.h>

#include "workers/speakers/cluster/rows_inside.h"
#include "workers/speakers/cluster/threads.h"

#define TILE 48u /* queries: whole panels, and whole groups of DOTS */
#define BLOCK                                                                           \
    48u /* panels of rows: with 256 values a point, 768 KiB, which a core's cache holds \
         */

_Static_assert(TILE % LANES == 0 && TILE % DOTS == 0, "a tile is of whole panels and groups");

struct search {
    const struct rows *rows;
    struct box *boxes; /* [panels]; NULL: without heads */
    struct nearest *const *list;
};

static uint32_t panels_of(const struct rows *r) { return (r->used + LANES - 1) / LANES; }

static void box_of_panel(const struct rows *r, uint32_t panel, struct box *ret)
{
    const struct panel *p = &r->panels[panel];
    uint32_t n = r->used - panel * LANES < LANES ? r->used - panel * LANES : LANES;

    for (uint32_t k = 0; k < HEAD; k++) {
        ret->low[k] = ret->high[k] = p->at[k][0];
        for (uint32_t i = 1; i < n; i++) {
            ret->low[k] = fminf(ret->low[k], p->at[k][i]);
            ret->high[k] = fmaxf(ret->high[k], p->at[k][i]);
        }
    }
}

static void box_of_tile(const struct search *s, uint32_t from, uint32_t to, struct box *ret)
{
    *ret = s->boxes[from / LANES];
    for (uint32_t panel = from / LANES + 1; panel * LANES < to; panel++)
        for (uint32_t k = 0; k < HEAD; k++) {
            ret->low[k] = fminf(ret->low[k], s->boxes[panel].low[k]);
            ret->high[k] = fmaxf(ret->high[k], s->boxes[panel].high[k]);
        }
}

/* The panels of [from, to) that may have something for one of the n queries; returns how many. */
static uint32_t near_panels(const struct search *s, const struct box *box,
                            const struct query *queries, uint32_t n, uint32_t from, uint32_t to,
                            uint32_t *ret)
{
    float limit = 0.0f;
    uint32_t found = 0;

    for (uint32_t q = 0; q < n; q++)
        limit = fmaxf(limit, queries[q].worst2 + s->rows->slack2);
    for (uint32_t panel = from; panel < to; panel++)
        if (s->rows->kernels->apart(box, &s->boxes[panel]) <= limit)
            ret[found++] = panel;
    return found;
}

static void search_block(const struct search *s, const struct box *box, struct query *queries,
                         uint32_t n, uint32_t from, uint32_t to)
{
    uint32_t near[BLOCK], count = near_panels(s, box, queries, n, from, to, near);

    for (uint32_t q = 0; q < n; q += DOTS)
        rows_search_panels(s->rows, queries + q, n - q < DOTS ? n - q : DOTS, near, count);
}

/* Its own panels first: what is nearest is mostly there, and then little else is wanted. */
static void search_tile(void *arg, uint32_t tile)
{
    const struct search *s = arg;
    const struct rows *r = s->rows;
    uint32_t from = tile * TILE, to = r->used - from < TILE ? r->used : from + TILE;
    uint32_t all = panels_of(r), first = from / LANES, last = (to + LANES - 1) / LANES;
    struct query queries[TILE];
    struct box box;

    for (uint32_t i = from; i < to; i++)
        rows_begin_query(r, rows_at(r, i), r->ids[i], s->list[r->ids[i]], &queries[i - from]);
    box_of_tile(s, from, to, &box);
    search_block(s, &box, queries, to - from, first, last);
    for (uint32_t block = 0; block < all; block += BLOCK) {
        uint32_t end = all - block < BLOCK ? all : block + BLOCK;

        if (block < last && end > first) { /* around its own */
            search_block(s, &box, queries, to - from, block, first > block ? first : block);
            search_block(s, &box, queries, to - from, last < end ? last : end, end);
        } else {
            search_block(s, &box, queries, to - from, block, end);
        }
    }
    for (uint32_t i = from; i < to; i++)
        rows_end_query(&queries[i - from]);
}

/* Without heads. */
static void search_plain_tile(void *arg, uint32_t tile)
{
    const struct search *s = arg;
    const struct rows *r = s->rows;

    for (uint32_t i = tile * TILE; i < r->used && i < (tile + 1) * TILE; i++) {
        const float *query = rows_at(r, i);

        rows_search(r, query, r->ids[i], 0, r->used, s->list[r->ids[i]]);
    }
}

int rows_search_all(const struct rows *r, uint32_t threads, struct nearest *const list[],
                    struct err *err)
{
    uint32_t panels = panels_of(r), tiles = (r->used + TILE - 1) / TILE;
    struct search s = {.rows = r, .list = list};

    if (r->axes == NULL) {
        threads_run(threads, tiles, search_plain_tile, &s);
        return 0;
    }
    s.boxes = malloc(panels * sizeof(*s.boxes));
    if (s.boxes == NULL)
        return err_set(err, ERR_NOMEM, "no memory to compare %u vectors", r->used);
    for (uint32_t i = 0; i < panels; i++)
        box_of_panel(r, i, &s.boxes[i]);
    threads_run(threads, tiles, search_tile, &s);
    free(s.boxes);
    return 0;
}
