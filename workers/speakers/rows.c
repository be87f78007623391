/* The heads stand in panels of 16 points, [panel][axis][16], so that one vector holds an axis of 16
 * points and no sum is taken across a vector; the whole points stand one behind the other, for the
 * few that the bound does not exclude. The kernels are written once over vectors of the compiler's
 * and compiled for three sets of instructions. */
#include "workers/speakers/rows.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/speakers/axes.h"

#define LANES 16u
#define HEAD 32u
#define HEAD_FROM 512u /* fewer points: every one is looked at */

typedef float v16 __attribute__((vector_size(64)));

struct panel {
    float at[HEAD][LANES];
    float norm[LANES], tail[LANES]; /* as of struct head */
};

/* What a panel of points is compared with. */
struct head {
    float at[HEAD];
    float norm, tail; /* squared length of `at`; length of the rest */
};

/* Squared bounds of a panel's points; least[q]: the least of query q's. */
typedef void bounds_fn(const struct panel *p, const struct head *const head[], uint32_t n,
                       float slack2, float bounds[][LANES], float least[]);
typedef float dot_fn(const float *a, const float *b, uint32_t stride);

struct rows {
    uint32_t size, stride, room, used;
    float slack, slack2;  /* of a distance, of a squared one */
    float *points;        /* [room][stride], from `origin`; zeros behind size */
    float *norms;         /* [room]: squared length; INFINITY: dropped */
    uint32_t *ids;        /* [room] */
    double *origin;       /* [size] */
    double *axes;         /* [HEAD][size], orthonormal; NULL: no heads */
    struct panel *panels; /* [room / LANES] */
    bounds_fn *bounds;
    dot_fn *dot;
};

/* ---- kernels */

#define INLINE static inline __attribute__((always_inline))

INLINE void bounds_body(const struct panel *p, const struct head *const head[], uint32_t n,
                        float slack2, float bounds[][LANES], float least[])
{
    v16 dot[ROWS_TOGETHER], norm, tail, at;

    memset(dot, 0, sizeof(dot));
    memcpy(&norm, p->norm, sizeof(norm));
    memcpy(&tail, p->tail, sizeof(tail));
    for (uint32_t k = 0; k < HEAD; k++) { /* six sums side by side, of one query or of six */
        memcpy(&at, p->at[k], sizeof(at));
        if (n == 1)
            dot[k % ROWS_TOGETHER] += head[0]->at[k] * at;
        else
            for (uint32_t q = 0; q < ROWS_TOGETHER; q++)
                dot[q] += head[q]->at[k] * at;
    }
    for (uint32_t q = 1; n == 1 && q < ROWS_TOGETHER; q++)
        dot[0] += dot[q];
    for (uint32_t q = 0; q < n; q++) {
        v16 apart = head[q]->tail - tail;
        v16 bound = norm - 2.0f * dot[q] + apart * apart + (head[q]->norm - slack2);
        float low[LANES];

        memcpy(bounds[q], &bound, sizeof(bound));
        memcpy(low, &bound, sizeof(low));
        for (uint32_t half = LANES / 2; half > 0; half /= 2)
            for (uint32_t i = 0; i < half; i++)
                low[i] = low[i] < low[i + half] ? low[i] : low[i + half];
        least[q] = low[0];
    }
}

INLINE float dot_body(const float *a, const float *b, uint32_t stride)
{
    v16 sum = {0}, x, y;
    float lanes[LANES], all = 0.0f;

    for (uint32_t i = 0; i < stride; i += LANES) {
        memcpy(&x, a + i, sizeof(x));
        memcpy(&y, b + i, sizeof(y));
        sum += x * y;
    }
    memcpy(lanes, &sum, sizeof(lanes));
    for (uint32_t half = LANES / 2; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    all = lanes[0];
    return all;
}

#define KERNELS(name, target)                                                                \
    target static void bounds_##name(const struct panel *p, const struct head *const head[], \
                                     uint32_t n, float slack2, float bounds[][LANES],        \
                                     float least[])                                          \
    {                                                                                        \
        bounds_body(p, head, n, slack2, bounds, least);                                      \
    }                                                                                        \
    target static float dot_##name(const float *a, const float *b, uint32_t stride)          \
    {                                                                                        \
        return dot_body(a, b, stride);                                                       \
    }

KERNELS(plain, )
#ifdef __x86_64__
KERNELS(avx2, __attribute__((target("avx2,fma"))))
KERNELS(avx512, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))))
#endif

static void choose_kernels(struct rows *r)
{
    r->bounds = bounds_plain;
    r->dot = dot_plain;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw")) {
        r->bounds = bounds_avx512;
        r->dot = dot_avx512;
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        r->bounds = bounds_avx2;
        r->dot = dot_avx2;
    }
#endif
}

/* ---- life */

struct nearest *nearest_new(uint32_t cap)
{
    struct nearest *list = malloc(sizeof(*list) + cap * sizeof(*list->items));

    if (list != NULL)
        *list = (struct nearest){.cap = cap, .rest = INFINITY};
    return list;
}

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
        r->axes = malloc((size_t)HEAD * r->size * sizeof(double));
        r->panels = calloc(r->room / LANES, sizeof(*r->panels));
    }
    if (r->points && r->norms && r->ids && r->origin && (!heads || (r->axes && r->panels)))
        return 0;
    return err_set(err, ERR_NOMEM, "no memory to compare %u vectors of %u values", r->room,
                   r->size);
}

int rows_new(const float *points, uint32_t n, uint32_t size, uint32_t room, struct rows **ret,
             struct err *err)
{
    struct rows *r = calloc(1, sizeof(*r));
    bool heads = n >= HEAD_FROM && size >= 2 * HEAD;
    double *point = malloc(size * sizeof(*point));
    int rc;

    if (r == NULL || point == NULL) {
        free(r);
        free(point);
        return err_set(err, ERR_NOMEM, "no memory to compare vectors");
    }
    r->size = size;
    r->stride = (size + LANES - 1) / LANES * LANES;
    r->room = (room + LANES - 1) / LANES * LANES;
    choose_kernels(r);
    rc = allocate(r, heads, err);
    if (rc == 0) {
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < size; k++)
                r->origin[k] += (double)points[(size_t)i * size + k];
        for (uint32_t k = 0; k < size; k++)
            r->origin[k] /= n;
        find_slack(r, points, n);
    }
    if (rc == 0 && heads)
        rc = axes_find(points, n, size, r->origin, HEAD, r->axes, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        for (uint32_t k = 0; k < size; k++)
            point[k] = (double)points[(size_t)i * size + k];
        rows_add(r, i, point);
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

static void find_head(const struct rows *r, const float *x, double norm, struct head *ret)
{
    double inside = 0.0;

    for (uint32_t k = 0; k < HEAD; k++) {
        const double *axis = r->axes + (size_t)k * r->size;
        double sum = 0.0;

#pragma omp simd reduction(+ : sum)
        for (uint32_t i = 0; i < r->size; i++)
            sum += axis[i] * (double)x[i];
        ret->at[k] = (float)sum;
        inside += sum * sum;
    }
    ret->norm = (float)inside;
    ret->tail = (float)sqrt(fmax(norm - inside, 0.0));
}

static void add_head(struct rows *r, uint32_t slot, double norm)
{
    struct panel *p = &r->panels[slot / LANES];
    struct head head;

    find_head(r, rows_at(r, slot), norm, &head);
    for (uint32_t k = 0; k < HEAD; k++)
        p->at[k][slot % LANES] = head.at[k];
    p->norm[slot % LANES] = head.norm;
    p->tail[slot % LANES] = head.tail;
}

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
    if (r->axes != NULL)
        add_head(r, slot, norm);
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

/* ---- search */

/* A query, and what it is compared by. */
struct query {
    const float *point;
    float norm, worst2; /* worst2: squared; farther ones are not wanted */
    struct head head;
    uint32_t skip;
    struct nearest *list;
};

static void set_worst(struct query *q)
{
    const struct nearest *l = q->list;
    float worst = l->n < l->cap ? INFINITY : l->items[l->n - 1].distance;

    q->worst2 = worst * worst;
}

/* The head of a point that stands in a slot. */
static void take_head(const struct rows *r, uint32_t slot, struct head *ret)
{
    const struct panel *p = &r->panels[slot / LANES];

    for (uint32_t k = 0; k < HEAD; k++)
        ret->at[k] = p->at[k][slot % LANES];
    ret->norm = p->norm[slot % LANES];
    ret->tail = p->tail[slot % LANES];
}

static void begin_query(const struct rows *r, const float *point, uint32_t skip,
                        struct nearest *list, struct query *q)
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
        find_head(r, point, norm, &q->head);
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

static void look_at(const struct rows *r, struct query *q, uint32_t slot)
{
    float d2;

    if (isinf(r->norms[slot]) || r->ids[slot] == q->skip)
        return;
    d2 =
        q->norm + r->norms[slot] - 2.0f * r->dot(q->point, rows_at(r, slot), r->stride) - r->slack2;
    if (d2 > q->worst2)
        return;
    nearest_add(q->list, (struct near){d2 > 0.0f ? sqrtf(d2) : 0.0f, r->ids[slot]});
    set_worst(q);
}

static void search_panel(const struct rows *r, struct query *queries,
                         const struct head *const heads[], uint32_t n, uint32_t first,
                         uint32_t from, uint32_t to)
{
    float bounds[ROWS_TOGETHER][LANES], least[ROWS_TOGETHER];
    uint32_t slots[LANES], found;

    r->bounds(&r->panels[first / LANES], heads, n, r->slack2, bounds, least);
    for (uint32_t q = 0; q < n; q++) {
        if (least[q] > queries[q].worst2)
            continue;
        found = 0;
        for (uint32_t i = 0; i < LANES; i++)
            if (bounds[q][i] <= queries[q].worst2 && first + i >= from && first + i < to) {
                __builtin_prefetch(rows_at(r, first + i));
                __builtin_prefetch(rows_at(r, first + i) + LANES);
                slots[found++] = first + i;
            }
        for (uint32_t i = 0; i < found; i++)
            look_at(r, &queries[q], slots[i]);
    }
}

void rows_search(const struct rows *r, const float *const query[], const uint32_t skip[],
                 uint32_t n, uint32_t from, uint32_t to, struct nearest *const list[])
{
    struct query queries[ROWS_TOGETHER];
    const struct head *heads[ROWS_TOGETHER];

    for (uint32_t q = 0; q < n; q++)
        begin_query(r, query[q], skip[q], list[q], &queries[q]);
    for (uint32_t q = 0; q < ROWS_TOGETHER; q++) /* those that are not there are computed, too */
        heads[q] = &queries[q < n ? q : 0].head;
    if (r->axes != NULL)
        for (uint32_t first = from / LANES * LANES; first < to; first += LANES)
            search_panel(r, queries, heads, n, first, from, to);
    else
        for (uint32_t q = 0; q < n; q++)
            for (uint32_t slot = from; slot < to; slot++)
                look_at(r, &queries[q], slot);
    for (uint32_t q = 0; q < n; q++)
        if (list[q]->n == list[q]->cap)
            list[q]->rest = fminf(list[q]->rest, list[q]->items[list[q]->n - 1].distance);
}
