/* Points stand in panels (points_kernels.h). A squared distance is that of the lengths less twice
 * the product; points are taken from their mean, so that little is lost by that. */
#include "workers/speakers/points.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "workers/speakers/points_kernels.h"

#define TILE 48u /* queries that a panel is read for at once: with 256 values a point, 48 KiB */

_Static_assert(TILE % LANES == 0 && TILE % QUERIES == 0, "a tile is of whole panels and groups");

struct points {
    uint32_t size, stride, capacity, used;
    float slack, slack2; /* of a distance, of a squared one */
    float *panels;       /* [room / LANES][stride][LANES], from `origin`; zeros behind size */
    float *norms;        /* [room]: squared length; INFINITY: nobody */
    uint32_t *ids;       /* [room] */
    double *origin;      /* [size] */
    const struct points_kernels *kernels;
};

/* ---- lists */

struct nearest *nearest_new(uint32_t cap, float radius)
{
    struct nearest *list = malloc(sizeof(*list) + cap * sizeof(*list->items));

    if (list)
        *list = (struct nearest){.cap = cap, .rest = radius};
    return list;
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

/* ---- points */

static float *panel_of(const struct points *all, uint32_t slot)
{
    return all->panels + (size_t)(slot / LANES) * all->stride * LANES;
}

/* A point's values, LANES apart. */
static float *lane_of(const struct points *all, uint32_t slot)
{
    return panel_of(all, slot) + slot % LANES;
}

void points_free(struct points *all)
{
    if (!all)
        return;
    free(all->panels);
    free(all->norms);
    free(all->ids);
    free(all->origin);
    free(all);
}

static int allocate_points(struct points *all, struct err *err)
{
    size_t bytes = (size_t)all->capacity * all->stride * sizeof(float);

    all->panels = aligned_alloc(64, bytes);
    all->norms = aligned_alloc(64, all->capacity * sizeof(*all->norms));
    all->ids = malloc(all->capacity * sizeof(*all->ids));
    all->origin = calloc(all->size, sizeof(*all->origin));
    if (!all->panels || !all->norms || !all->ids || !all->origin)
        return err_set(err, ERR_NOMEM, "no memory to compare %u vectors of %u values",
                       all->capacity, all->size);
    memset(all->panels, 0, bytes);
    for (uint32_t slot = 0; slot < all->capacity; slot++)
        all->norms[slot] = INFINITY;
    return 0;
}

static void find_origin(struct points *all, const float *points, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < all->size; k++)
            all->origin[k] += (double)points[(size_t)i * all->size + k];
    for (uint32_t k = 0; k < all->size; k++)
        all->origin[k] /= n;
}

/* The float32 error of a squared distance between points of the largest length: a sum of `stride`
 * products, twice, and the rounding of points and lengths. */
static void find_slack(struct points *all, uint32_t n)
{
    float longest = 0.0f;

    for (uint32_t i = 0; i < n; i++)
        longest = fmaxf(longest, all->norms[i]);
    all->slack2 = (float)(all->stride + 96) * 1.2e-7f * longest;
    all->slack = 1e-6f * sqrtf(longest);
}

uint32_t points_add(struct points *all, uint32_t id, const double *point)
{
    uint32_t slot = all->used++;
    float *x = lane_of(all, slot);
    double norm = 0.0;

    for (uint32_t k = 0; k < all->size; k++) {
        float value = (float)(point[k] - all->origin[k]);

        x[(size_t)k * LANES] = value;
        norm += (double)value * (double)value;
    }
    all->norms[slot] = (float)norm;
    all->ids[slot] = id;
    return slot;
}

int points_new(const float *points, uint32_t n, uint32_t size, uint32_t capacity,
               struct points **ret, struct err *err)
{
    struct points *all = calloc(1, sizeof(*all));
    double *point = malloc(size * sizeof(*point));
    int rc = 0;

    if (!all || !point)
        rc = err_set(err, ERR_NOMEM, "no memory to compare vectors");
    if (rc == 0) {
        all->size = size;
        all->stride = (size + 3) / 4 * 4;
        all->capacity = (capacity + LANES - 1) / LANES * LANES;
        all->kernels = points_kernels();
        rc = allocate_points(all, err);
    }
    if (rc == 0) {
        find_origin(all, points, n);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < size; k++)
                point[k] = (double)points[(size_t)i * size + k];
            points_add(all, i, point);
        }
        find_slack(all, n);
    }
    free(point);
    if (rc != 0)
        points_free(all);
    else
        *ret = all;
    return rc;
}

uint32_t points_used(const struct points *all) { return all->used; }

uint32_t points_room(const struct points *all) { return all->capacity; }

uint32_t points_stride(const struct points *all) { return all->stride; }

float points_slack(const struct points *all) { return all->slack; }

uint32_t points_id(const struct points *all, uint32_t slot) { return all->ids[slot]; }

uint32_t points_slot_from(const struct points *all, uint32_t id)
{
    uint32_t low = 0, high = all->used;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (all->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void points_copy(const struct points *all, uint32_t slot, float *ret)
{
    const float *x = lane_of(all, slot);

    for (uint32_t k = 0; k < all->stride; k++)
        ret[k] = x[(size_t)k * LANES];
}

void points_drop(struct points *all, uint32_t slot) { all->norms[slot] = INFINITY; }

static void move_point(struct points *all, uint32_t from, uint32_t to)
{
    const float *x = lane_of(all, from);
    float *y = lane_of(all, to);

    for (size_t k = 0; k < (size_t)all->stride * LANES; k += LANES)
        y[k] = x[k];
    all->norms[to] = all->norms[from];
    all->ids[to] = all->ids[from];
    all->norms[from] = INFINITY;
}

void points_pack(struct points *all)
{
    uint32_t to = 0;

    for (uint32_t from = 0; from < all->used; from++) {
        if (isinf(all->norms[from]))
            continue;
        if (from != to)
            move_point(all, from, to);
        to++;
    }
    all->used = to;
}

/* ---- searches */

struct query {
    struct nearest *list;
    float norm, worst2; /* worst2: squared; farther ones are not wanted */
    uint32_t skip;
};

static void set_worst(struct query *q)
{
    const struct nearest *l = q->list;
    float worst = l->n < l->cap ? l->rest : fminf(l->rest, l->items[l->n - 1].distance);

    q->worst2 = worst * worst;
}

static void finish_query(struct query *q)
{
    struct nearest *l = q->list;

    if (l->n == l->cap)
        l->rest = fminf(l->rest, l->items[l->n - 1].distance);
}

static void offer_measured_point(const struct points *all, struct query *q, uint32_t slot,
                                 float dot)
{
    float d2 = q->norm + all->norms[slot] - 2.0f * dot - all->slack2;

    if (d2 > q->worst2 || isinf(d2) || all->ids[slot] == q->skip)
        return;
    nearest_add(q->list, (struct near){d2 > 0.0f ? sqrtf(d2) : 0.0f, all->ids[slot]});
    set_worst(q);
}

/* The panel that begins at `slot` with n queries. */
static void search_panel(const struct points *all, points_kernel *multiply, struct query *queries,
                         uint32_t n, struct products *p, uint32_t slot, uint32_t from, uint32_t to)
{
    uint64_t halves[2];

    for (uint32_t q = 0; q < QUERIES; q++)
        p->limits[q] = q < n ? queries[q].worst2 + all->slack2 - queries[q].norm : -INFINITY;
    multiply(panel_of(all, slot), &all->norms[slot], all->stride, p);
    memcpy(halves, p->hits, sizeof(halves));
    if ((halves[0] | halves[1]) == 0)
        return;
    for (uint32_t i = 0; i < LANES; i++)
        for (uint32_t mask = p->hits[i]; mask != 0; mask &= mask - 1) {
            uint32_t q = (uint32_t)__builtin_ctz(mask);

            if (slot + i >= from && slot + i < to)
                offer_measured_point(all, &queries[q], slot + i, p->dots[q][i]);
        }
}

void points_search(const struct points *all, const float *query, uint32_t skip, uint32_t from,
                   uint32_t to, struct nearest *list)
{
    struct query q = {.list = list, .skip = skip};
    struct products p = {.query = {query}};
    double norm = 0.0;

    for (uint32_t i = 0; i < all->size; i++)
        norm += (double)query[i] * (double)query[i];
    q.norm = (float)norm;
    set_worst(&q);
    for (uint32_t slot = from / LANES * LANES; slot < to; slot += LANES)
        search_panel(all, all->kernels->one, &q, 1, &p, slot, from, to);
    finish_query(&q);
}

struct search {
    const struct points *points;
    struct nearest *const *list;
};

/* Searches its own panels first: points near in time are mostly near, and then little else is
 * needed. */
static void search_tile(void *arg, uint32_t tile)
{
    const struct search *s = arg;
    const struct points *all = s->points;
    uint32_t first = tile * TILE, n = all->used - first < TILE ? all->used - first : TILE;
    struct query queries[TILE];
    struct products groups[TILE / QUERIES];

    for (uint32_t i = 0; i < TILE; i++) /* those that are not there are computed, too */
        groups[i / QUERIES].query[i % QUERIES] = lane_of(all, first + (i < n ? i : 0));
    for (uint32_t i = 0; i < n; i++) {
        queries[i] = (struct query){
            .list = s->list[first + i], .norm = all->norms[first + i], .skip = first + i};
        set_worst(&queries[i]);
    }
    for (uint32_t done = 0, slot = first; done < all->used; done += LANES) {
        for (uint32_t q = 0; q < n; q += QUERIES)
            search_panel(all, all->kernels->some, queries + q, QUERIES < n - q ? QUERIES : n - q,
                         &groups[q / QUERIES], slot, 0, all->used);
        slot = slot + LANES < all->used ? slot + LANES : 0;
    }
    for (uint32_t i = 0; i < n; i++)
        finish_query(&queries[i]);
}

void points_search_all(const struct points *all, uint32_t threads, struct nearest *const list[])
{
    struct search s = {all, list};

    threads_run(threads, (all->used + TILE - 1) / TILE, search_tile, &s);
}
