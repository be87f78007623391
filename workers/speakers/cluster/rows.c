/* The heads stand in panels (rows_kernels.h), the whole points one behind the other, for the few
 * that the bound does not exclude. Those that are there from the beginning stand in the order in
 * which near ones are together, so that panels are near or far as a whole. */
#include "workers/speakers/cluster/rows_inside.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/speakers/cluster/axes.h"
#include "workers/speakers/cluster/order.h"

#define HEAD_FROM 512u /* fewer points: every one is looked at */

/* ---- heads */

void rows_find_head(const struct rows *r, const float *x, double norm, struct head *ret)
{
    double at[HEAD], inside = 0.0;

    r->kernels->along(r->axes, x, r->stride, at);
    for (uint32_t k = 0; k < HEAD; k++) {
        ret->at[k] = (float)at[k];
        inside += at[k] * at[k];
    }
    ret->norm = (float)inside;
    ret->tail = (float)sqrt(fmax(norm - inside, 0.0));
}

static void put_head(struct rows *r, uint32_t slot, const struct head *head)
{
    struct panel *p = &r->panels[slot / LANES];

    for (uint32_t k = 0; k < HEAD; k++)
        p->at[k][slot % LANES] = head->at[k];
    p->norm[slot % LANES] = head->norm;
    p->tail[slot % LANES] = head->tail;
}

/* ---- life */

void rows_free(struct rows *r)
{
    if (r == NULL)
        return;
    free(r->points);
    free(r->norms);
    free(r->ids);
    free(r->origin);
    free(r->axes);
    free(r->panels);
    free(r);
}

/* What float32 may lose of a squared distance of points as long as the longest: a sum of `stride`
 * products in 32 lanes, twice, and the rounding of points, heads and lengths. */
static void find_slack(struct rows *r, const float *points, uint32_t n)
{
    double longest = 0.0;

    for (uint32_t i = 0; i < n; i++) {
        double sum = 0.0;

        for (uint32_t k = 0; k < r->size; k++) {
            double x = (double)points[(size_t)i * r->size + k] - r->origin[k];

            sum += x * x;
        }
        longest = fmax(longest, sum);
    }
    r->slack2 = (float)((r->stride / 16 + 48) * 2.4e-7 * longest);
    r->slack = (float)(1e-6 * sqrt(longest));
}

static int allocate(struct rows *r, bool heads, struct err *err)
{
    r->points = calloc((size_t)r->room, r->stride * sizeof(float));
    r->norms = malloc((size_t)r->room * sizeof(float));
    r->ids = malloc((size_t)r->room * sizeof(uint32_t));
    r->origin = calloc(r->size, sizeof(double));
    if (heads) {
        r->axes = calloc((size_t)HEAD * r->stride, sizeof(double));
        r->panels = calloc(r->room / LANES, sizeof(*r->panels));
    }
    if (r->points && r->norms && r->ids && r->origin && (!heads || (r->axes && r->panels)))
        return 0;
    return err_set(err, ERR_NOMEM, "no memory to compare %u vectors of %u values", r->room,
                   r->size);
}

static void find_origin(struct rows *r, const float *points, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < r->size; k++)
            r->origin[k] += (double)points[(size_t)i * r->size + k];
    for (uint32_t k = 0; k < r->size; k++)
        r->origin[k] /= n;
}

static int find_axes(struct rows *r, const float *points, uint32_t n, struct err *err)
{
    double *axes = malloc((size_t)HEAD * r->size * sizeof(*axes));
    int rc = axes ? axes_find(points, n, r->size, r->origin, HEAD, axes, err)
                  : err_set(err, ERR_NOMEM, "no memory for the axes of %u values", r->size);

    for (uint32_t k = 0; rc == 0 && k < HEAD; k++)
        memcpy(r->axes + (size_t)k * r->stride, axes + (size_t)k * r->size,
               r->size * sizeof(*axes));
    free(axes);
    return rc;
}

static void put_point(struct rows *r, uint32_t slot, uint32_t id, const float *point)
{
    float *x = r->points + (size_t)slot * r->stride;
    double norm = 0.0;

    for (uint32_t k = 0; k < r->size; k++) {
        x[k] = (float)((double)point[k] - r->origin[k]);
        norm += (double)x[k] * (double)x[k];
    }
    r->norms[slot] = (float)norm;
    r->ids[slot] = id;
}

/* Every point's head, from its place in `points`: it is not in a slot yet. */
static void find_heads(struct rows *r, const float *points, uint32_t n, struct head *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        put_point(r, 0, i, points + (size_t)i * r->size);
        rows_find_head(r, rows_at(r, 0), (double)r->norms[0], &ret[i]);
    }
}

static int put_all(struct rows *r, const float *points, uint32_t n, struct err *err)
{
    struct head *heads = NULL;
    uint32_t *order = NULL;

    r->used = n;
    if (r->axes == NULL) {
        for (uint32_t i = 0; i < n; i++)
            put_point(r, i, i, points + (size_t)i * r->size);
        return 0;
    }
    heads = malloc(n * sizeof(*heads));
    order = malloc(n * sizeof(*order));
    if (heads == NULL || order == NULL) {
        free(heads);
        free(order);
        return err_set(err, ERR_NOMEM, "no memory to compare %u vectors", n);
    }
    find_heads(r, points, n, heads);
    order_near(heads[0].at, n, sizeof(*heads) / sizeof(float), HEAD, LANES, order);
    for (uint32_t slot = 0; slot < n; slot++) {
        put_point(r, slot, order[slot], points + (size_t)order[slot] * r->size);
        put_head(r, slot, &heads[order[slot]]);
    }
    for (uint32_t slot = n; slot % LANES != 0; slot++) /* the last panel's others are nobody */
        rows_drop(r, slot);
    free(heads);
    free(order);
    return 0;
}

int rows_new(const float *points, uint32_t n, uint32_t size, uint32_t room, struct rows **ret,
             struct err *err)
{
    struct rows *r = calloc(1, sizeof(*r));
    bool heads = n >= HEAD_FROM && size >= 2 * HEAD;
    int rc;

    if (r == NULL)
        return err_set(err, ERR_NOMEM, "no memory to compare vectors");
    r->size = size;
    r->stride = (size + LANES - 1) / LANES * LANES;
    r->room = (room + LANES - 1) / LANES * LANES;
    r->kernels = rows_kernels();
    rc = allocate(r, heads, err);
    if (rc == 0) {
        find_origin(r, points, n);
        find_slack(r, points, n);
    }
    if (rc == 0 && heads)
        rc = find_axes(r, points, n, err);
    if (rc == 0)
        rc = put_all(r, points, n, err);
    if (rc != 0)
        rows_free(r);
    else
        *ret = r;
    return rc;
}

uint32_t rows_used(const struct rows *r) { return r->used; }

uint32_t rows_room(const struct rows *r) { return r->room; }

const float *rows_at(const struct rows *r, uint32_t slot)
{
    return r->points + (size_t)slot * r->stride;
}

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

/* ---- change */

uint32_t rows_add(struct rows *r, uint32_t id, const double *point)
{
    uint32_t slot = r->used++;
    float *x = r->points + (size_t)slot * r->stride;
    double norm = 0.0;

    for (uint32_t k = 0; k < r->size; k++) {
        x[k] = (float)(point[k] - r->origin[k]);
        norm += (double)x[k] * (double)x[k];
    }
    r->norms[slot] = (float)norm;
    r->ids[slot] = id;
    if (r->axes != NULL) {
        struct head head;

        rows_find_head(r, x, norm, &head);
        put_head(r, slot, &head);
    }
    return slot;
}

void rows_drop(struct rows *r, uint32_t slot)
{
    r->norms[slot] = INFINITY;
    if (r->axes != NULL)
        r->panels[slot / LANES].norm[slot % LANES] = INFINITY;
}

static void move(struct rows *r, uint32_t from, uint32_t to)
{
    memcpy(r->points + (size_t)to * r->stride, rows_at(r, from), r->stride * sizeof(float));
    r->norms[to] = r->norms[from];
    r->ids[to] = r->ids[from];
    if (r->axes == NULL)
        return;
    for (uint32_t k = 0; k < HEAD; k++)
        r->panels[to / LANES].at[k][to % LANES] = r->panels[from / LANES].at[k][from % LANES];
    r->panels[to / LANES].norm[to % LANES] = r->panels[from / LANES].norm[from % LANES];
    r->panels[to / LANES].tail[to % LANES] = r->panels[from / LANES].tail[from % LANES];
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
