/* Points stand in panels (rows_kernels.h). A squared distance is that of the lengths less twice the
 * product; points are taken from their mean, so that little is lost by that. */
#include "workers/speakers/cluster/rows.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/speakers/cluster/rows_kernels.h"
#include "workers/speakers/cluster/threads.h"

#define TILE 48u /* queries that a panel is read for at once: with 256 values a point, 48 KiB */

_Static_assert(TILE % LANES == 0 && TILE % QUERIES == 0, "a tile is of whole panels and groups");

struct rows {
    uint32_t size, stride, room, used;
    float slack, slack2; /* of a distance, of a squared one */
    float *panels;       /* [room / LANES][stride][LANES], from `origin`; zeros behind size */
    float *norms;        /* [room]: squared length; INFINITY: nobody */
    uint32_t *ids;       /* [room] */
    double *origin;      /* [size] */
    const struct rows_kernels *kernels;
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

static float *panel_of(const struct rows *r, uint32_t slot)
{
    return r->panels + (size_t)(slot / LANES) * r->stride * LANES;
}

/* A point's values, LANES apart. */
static float *lane_of(const struct rows *r, uint32_t slot)
{
    return panel_of(r, slot) + slot % LANES;
}

void rows_free(struct rows *r)
{
    if (!r)
        return;
    free(r->panels);
    free(r->norms);
    free(r->ids);
    free(r->origin);
    free(r);
}

static int allocate(struct rows *r, struct err *err)
{
    size_t bytes = (size_t)r->room * r->stride * sizeof(float);

    r->panels = aligned_alloc(64, bytes);
    r->norms = aligned_alloc(64, r->room * sizeof(*r->norms));
    r->ids = malloc(r->room * sizeof(*r->ids));
    r->origin = calloc(r->size, sizeof(*r->origin));
    if (!r->panels || !r->norms || !r->ids || !r->origin)
        return err_set(err, ERR_NOMEM, "no memory to compare %u vectors of %u values", r->room,
                       r->size);
    memset(r->panels, 0, bytes);
    for (uint32_t slot = 0; slot < r->room; slot++)
        r->norms[slot] = INFINITY;
    return 0;
}

static void find_origin(struct rows *r, const float *points, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < r->size; k++)
            r->origin[k] += (double)points[(size_t)i * r->size + k];
    for (uint32_t k = 0; k < r->size; k++)
        r->origin[k] /= n;
}

/* What float32 may lose of a squared distance of points as long as the longest: a sum of `stride`
 * products, twice, and the rounding of points and lengths. */
static void find_slack(struct rows *r, uint32_t n)
{
    float longest = 0.0f;

    for (uint32_t i = 0; i < n; i++)
        longest = fmaxf(longest, r->norms[i]);
    r->slack2 = (float)(r->stride + 96) * 1.2e-7f * longest;
    r->slack = 1e-6f * sqrtf(longest);
}

uint32_t rows_add(struct rows *r, uint32_t id, const double *point)
{
    uint32_t slot = r->used++;
    float *x = lane_of(r, slot);
    double norm = 0.0;

    for (uint32_t k = 0; k < r->size; k++) {
        float value = (float)(point[k] - r->origin[k]);

        x[(size_t)k * LANES] = value;
        norm += (double)value * (double)value;
    }
    r->norms[slot] = (float)norm;
    r->ids[slot] = id;
    return slot;
}

int rows_new(const float *points, uint32_t n, uint32_t size, uint32_t room, struct rows **ret,
             struct err *err)
{
    struct rows *r = calloc(1, sizeof(*r));
    double *point = malloc(size * sizeof(*point));
    int rc = 0;

    if (!r || !point)
        rc = err_set(err, ERR_NOMEM, "no memory to compare vectors");
    if (rc == 0) {
        r->size = size;
        r->stride = (size + 3) / 4 * 4;
        r->room = (room + LANES - 1) / LANES * LANES;
        r->kernels = rows_kernels();
        rc = allocate(r, err);
    }
    if (rc == 0) {
        find_origin(r, points, n);
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t k = 0; k < size; k++)
                point[k] = (double)points[(size_t)i * size + k];
            rows_add(r, i, point);
        }
        find_slack(r, n);
    }
    free(point);
    if (rc != 0)
        rows_free(r);
    else
        *ret = r;
    return rc;
}

uint32_t rows_used(const struct rows *r) { return r->used; }

uint32_t rows_room(const struct rows *r) { return r->room; }

uint32_t rows_stride(const struct rows *r) { return r->stride; }

float rows_slack(const struct rows *r) { return r->slack; }

uint32_t rows_id(const struct rows *r, uint32_t slot) { return r->ids[slot]; }

uint32_t rows_slot_from(const struct rows *r, uint32_t id)
{
    uint32_t low = 0, high = r->used;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (r->ids[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void rows_copy(const struct rows *r, uint32_t slot, float *ret)
{
    const float *x = lane_of(r, slot);

    for (uint32_t k = 0; k < r->stride; k++)
        ret[k] = x[(size_t)k * LANES];
}

void rows_drop(struct rows *r, uint32_t slot) { r->norms[slot] = INFINITY; }

static void move(struct rows *r, uint32_t from, uint32_t to)
{
    const float *x = lane_of(r, from);
    float *y = lane_of(r, to);

    for (size_t k = 0; k < (size_t)r->stride * LANES; k += LANES)
        y[k] = x[k];
    r->norms[to] = r->norms[from];
    r->ids[to] = r->ids[from];
    r->norms[from] = INFINITY;
}

void rows_pack(struct rows *r)
{
    uint32_t to = 0;

    for (uint32_t from = 0; from < r->used; from++) {
        if (isinf(r->norms[from]))
            continue;
        if (from != to)
            move(r, from, to);
        to++;
    }
    r->used = to;
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

static void end(struct query *q)
{
    struct nearest *l = q->list;

    if (l->n == l->cap)
        l->rest = fminf(l->rest, l->items[l->n - 1].distance);
}

static void measured(const struct rows *r, struct query *q, uint32_t slot, float dot)
{
    float d2 = q->norm + r->norms[slot] - 2.0f * dot - r->slack2;

    if (d2 > q->worst2 || isinf(d2) || r->ids[slot] == q->skip)
        return;
    nearest_add(q->list, (struct near){d2 > 0.0f ? sqrtf(d2) : 0.0f, r->ids[slot]});
    set_worst(q);
}

/* The panel that begins at `slot` with n queries. */
static void search_panel(const struct rows *r, rows_kernel *multiply, struct query *queries,
                         uint32_t n, struct products *p, uint32_t slot, uint32_t from, uint32_t to)
{
    uint64_t halves[2];

    for (uint32_t q = 0; q < QUERIES; q++)
        p->limits[q] = q < n ? queries[q].worst2 + r->slack2 - queries[q].norm : -INFINITY;
    multiply(panel_of(r, slot), &r->norms[slot], r->stride, p);
    memcpy(halves, p->hits, sizeof(halves));
    if ((halves[0] | halves[1]) == 0)
        return;
    for (uint32_t i = 0; i < LANES; i++)
        for (uint32_t mask = p->hits[i]; mask != 0; mask &= mask - 1) {
            uint32_t q = (uint32_t)__builtin_ctz(mask);

            if (slot + i >= from && slot + i < to)
                measured(r, &queries[q], slot + i, p->dots[q][i]);
        }
}

void rows_search(const struct rows *r, const float *query, uint32_t skip, uint32_t from,
                 uint32_t to, struct nearest *list)
{
    struct query q = {.list = list, .skip = skip};
    struct products p = {.query = {query}};
    double norm = 0.0;

    for (uint32_t i = 0; i < r->size; i++)
        norm += (double)query[i] * (double)query[i];
    q.norm = (float)norm;
    set_worst(&q);
    for (uint32_t slot = from / LANES * LANES; slot < to; slot += LANES)
        search_panel(r, r->kernels->one, &q, 1, &p, slot, from, to);
    end(&q);
}

struct search {
    const struct rows *rows;
    struct nearest *const *list;
};

/* Its own panels first: who is near in time is mostly near, and then little else is wanted. */
static void search_tile(void *arg, uint32_t tile)
{
    const struct search *s = arg;
    const struct rows *r = s->rows;
    uint32_t first = tile * TILE, n = r->used - first < TILE ? r->used - first : TILE;
    struct query queries[TILE];
    struct products groups[TILE / QUERIES];

    for (uint32_t i = 0; i < TILE; i++) /* those that are not there are computed, too */
        groups[i / QUERIES].query[i % QUERIES] = lane_of(r, first + (i < n ? i : 0));
    for (uint32_t i = 0; i < n; i++) {
        queries[i] = (struct query){
            .list = s->list[first + i], .norm = r->norms[first + i], .skip = first + i};
        set_worst(&queries[i]);
    }
    for (uint32_t done = 0, slot = first; done < r->used; done += LANES) {
        for (uint32_t q = 0; q < n; q += QUERIES)
            search_panel(r, r->kernels->some, queries + q, QUERIES < n - q ? QUERIES : n - q,
                         &groups[q / QUERIES], slot, 0, r->used);
        slot = slot + LANES < r->used ? slot + LANES : 0;
    }
    for (uint32_t i = 0; i < n; i++)
        end(&queries[i]);
}

void rows_search_all(const struct rows *r, uint32_t threads, struct nearest *const list[])
{
    struct search s = {r, list};

    threads_run(threads, (r->used + TILE - 1) / TILE, search_tile, &s);
}
