/* Most points are excluded by their heads; the others are measured. What is asked for by a single
 * query is fetched from memory while the next panels are looked at. */
#include "workers/speakers/cluster/rows_inside.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WAITING 48u

struct nearest *nearest_new(uint32_t cap, float radius)
{
    struct nearest *list = malloc(sizeof(*list) + cap * sizeof(*list->items));

    if (list != NULL)
        *list = (struct nearest){.cap = cap, .rest = radius};
    return list;
}

static void take_head(const struct rows *r, uint32_t slot, struct head *ret)
{
    const struct panel *p = &r->panels[slot / LANES];

    for (uint32_t k = 0; k < HEAD; k++)
        ret->at[k] = p->at[k][slot % LANES];
    ret->norm = p->norm[slot % LANES];
    ret->tail = p->tail[slot % LANES];
}

/* Points that the bound does not exclude, on their way from memory. */
struct waiting {
    uint32_t slots[WAITING], n;
};

static void set_worst(struct query *q)
{
    const struct nearest *l = q->list;
    float worst = l->n < l->cap ? l->rest : fminf(l->rest, l->items[l->n - 1].distance);

    q->worst2 = worst * worst;
}

void rows_begin_query(const struct rows *r, const float *point, uint32_t skip, struct nearest *list,
                      struct query *q)
{
    size_t at = (uintptr_t)point - (uintptr_t)r->points, slot = at / (r->stride * sizeof(*point));
    double norm = 0.0;

    q->point = point;
    q->skip = skip;
    q->list = list;
    set_worst(q);
    if (slot < r->used && !isinf(r->norms[slot])) { /* known already */
        q->norm = r->norms[slot];
        if (r->axes != NULL)
            take_head(r, (uint32_t)slot, &q->head);
        return;
    }
    for (uint32_t i = 0; i < r->size; i++)
        norm += (double)point[i] * (double)point[i];
    q->norm = (float)norm;
    if (r->axes != NULL)
        rows_find_head(r, point, norm, &q->head);
}

/* Equally near ones in the order of their ids, so that the list does not depend on the search. */
static bool comes_before(struct near a, struct near b)
{
    return a.distance < b.distance || (a.distance == b.distance && a.id < b.id);
}

void nearest_add(struct nearest *l, struct near new)
{
    uint32_t at = l->n;

    if (l->n == l->cap && !comes_before(new, l->items[--at])) {
        l->rest = fminf(l->rest, new.distance);
        return;
    }
    if (l->n == l->cap)
        l->rest = fminf(l->rest, l->items[at].distance);
    else
        l->n++;
    for (; at > 0 && comes_before(new, l->items[at - 1]); at--)
        l->items[at] = l->items[at - 1];
    l->items[at] = new;
}

static void measured(const struct rows *r, struct query *q, uint32_t slot, float dot)
{
    float d2 = q->norm + r->norms[slot] - 2.0f * dot - r->slack2;

    if (d2 > q->worst2 || isinf(d2) || r->ids[slot] == q->skip)
        return;
    nearest_add(q->list, (struct near){d2 > 0.0f ? sqrtf(d2) : 0.0f, r->ids[slot]});
    set_worst(q);
}

/* Measures what waits, all of it or whole groups of DOTS. */
static void look_at_waiting(const struct rows *r, struct query *q, struct waiting *w, bool all)
{
    const float *points[DOTS];
    float dots[DOTS];
    uint32_t done = 0;

    for (; done + DOTS <= w->n || (all && done < w->n); done += DOTS) {
        uint32_t n = w->n - done < DOTS ? w->n - done : DOTS;

        for (uint32_t i = 0; i < DOTS; i++)
            points[i] = rows_at(r, w->slots[done + (i < n ? i : 0)]);
        r->kernels->dots(q->point, points, r->stride, dots);
        for (uint32_t i = 0; i < n; i++)
            measured(r, q, w->slots[done + i], dots[i]);
    }
    for (uint32_t i = 0; done + i < w->n; i++)
        w->slots[i] = w->slots[done + i];
    w->n = done < w->n ? w->n - done : 0;
}

static void wait_for(const struct rows *r, struct waiting *w, uint32_t slot)
{
    const float *point = rows_at(r, slot);

    for (uint32_t i = 0; i < r->stride; i += LANES)
        __builtin_prefetch(point + i);
    w->slots[w->n++] = slot;
}

/* One point with the queries of a mask that is not 0. */
static void look_from(const struct rows *r, struct query *queries, uint32_t mask, uint32_t slot)
{
    const float *points[DOTS];
    uint32_t of[DOTS] = {0}, n = 0;
    float dots[DOTS];

    for (; mask != 0; mask &= mask - 1)
        of[n++] = (uint32_t)__builtin_ctz(mask);
    for (uint32_t i = 0; i < DOTS; i++)
        points[i] = queries[of[i < n ? i : 0]].point;
    r->kernels->dots(rows_at(r, slot), points, r->stride, dots);
    for (uint32_t i = 0; i < n; i++)
        measured(r, &queries[of[i]], slot, dots[i]);
}

/* Which points of a panel are to be measured; false: none. */
static bool find_hits(const struct rows *r, const struct query *queries,
                      const struct head *const heads[], uint32_t n, uint32_t panel,
                      uint8_t hits[LANES])
{
    float limits[DOTS];
    uint64_t halves[2];

    for (uint32_t q = 0; q < DOTS; q++)
        limits[q] = q < n ? queries[q].worst2 + r->slack2 : -INFINITY;
    r->kernels->bounds(&r->panels[panel], heads, limits, n > 1 ? DOTS : 1, hits);
    memcpy(halves, hits, sizeof(halves));
    return (halves[0] | halves[1]) != 0;
}

static void search_one(const struct rows *r, struct query *q, uint32_t from, uint32_t to)
{
    const struct head *head = &q->head;
    struct waiting w = {.n = 0};
    uint8_t hits[LANES];

    for (uint32_t first = from / LANES * LANES; first < to; first += LANES) {
        if (!find_hits(r, q, &head, 1, first / LANES, hits))
            continue;
        for (uint32_t i = 0; i < LANES; i++)
            if (hits[i] != 0 && first + i >= from && first + i < to)
                wait_for(r, &w, first + i);
        if (w.n > WAITING - LANES)
            look_at_waiting(r, q, &w, false);
    }
    look_at_waiting(r, q, &w, true);
}

void rows_search_panels(const struct rows *r, struct query *queries, uint32_t n,
                        const uint32_t panels[], uint32_t count)
{
    const struct head *heads[DOTS];
    uint8_t hits[LANES];

    for (uint32_t q = 0; q < DOTS; q++) /* those that are not there are computed, too */
        heads[q] = &queries[q < n ? q : 0].head;
    for (uint32_t k = 0; k < count; k++)
        if (find_hits(r, queries, heads, n, panels[k], hits))
            for (uint32_t i = 0; i < LANES; i++)
                if (hits[i] != 0)
                    look_from(r, queries, hits[i], panels[k] * LANES + i);
}

/* Without heads. */
static void search_plainly(const struct rows *r, struct query *q, uint32_t from, uint32_t to)
{
    struct waiting w = {.n = 0};

    for (uint32_t slot = from; slot < to; slot++) {
        if (!isinf(r->norms[slot]))
            w.slots[w.n++] = slot;
        if (w.n == DOTS)
            look_at_waiting(r, q, &w, false);
    }
    look_at_waiting(r, q, &w, true);
}

void rows_end_query(struct query *q)
{
    struct nearest *l = q->list;

    if (l->n == l->cap)
        l->rest = fminf(l->rest, l->items[l->n - 1].distance);
}

void rows_search(const struct rows *r, const float *query, uint32_t skip, uint32_t from,
                 uint32_t to, struct nearest *list)
{
    struct query q;

    rows_begin_query(r, query, skip, list, &q);
    if (r->axes != NULL)
        search_one(r, &q, from, to);
    else
        search_plainly(r, &q, from, to);
    rows_end_query(&q);
}
