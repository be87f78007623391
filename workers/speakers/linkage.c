/* Every pair of clusters is somebody's: the one that was made later answers for it, and of two
 * vectors both. Each cluster has a key, never more than the distance of its nearest pair, and the
 * least key is looked at first:
 *
 *     key is exact, and the other one is still there  -> these two merge
 *     otherwise                                       -> its key is raised (refine)
 *
 * A cluster knows its pairs by a short list of the nearest, measured where it stood then (`ref`),
 * and a bound for the rest. Things that vanish only raise distances, and nothing moves but by a
 * merge: a merged cluster inherits the list of the larger one, and by the triangle inequality every
 * distance is off by no more than the way from `ref` to its own place (`drift`). So a cluster of
 * thousands, which a merge hardly moves, is not compared with everything each time. Clusters made
 * after the list are compared on demand. These searches are short and many, and one thread makes
 * them: with several, more time goes into waiting for each other than is won as soon as the
 * processor has other work. The float32 lists never overestimate a distance; float64 decides which
 * pair merges. */
#include "workers/speakers/linkage.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/speakers/points.h"

#define LIST_FIRST 16u
#define LIST_MOST 256u
/* Lists reach a little beyond the distance where merging stops: else drifts would make all lists
 * anew near the end. */
#define RADIUS 1.05
#define PACK 4u /* dead points are closed up when there is one for so many that are alive */

struct cluster {
    double *mean;         /* owned; NULL: the vector itself */
    float *ref;           /* owned: where its list was measured; NULL: where it stands */
    struct nearest *list; /* owned; NULL once it is part of another */
    double key, drift;
    uint32_t size, slot, heap_at;
    uint32_t upto;    /* the list answers for ids below this */
    uint32_t partner; /* with `exact`: the nearest */
    bool exact;
};

struct linkage {
    const float *vectors;   /* borrowed */
    uint32_t n, size, made; /* made: ids given */
    uint32_t threads;
    struct cluster *clusters; /* [2n - 1] */
    uint32_t *heap, alive;
    struct points *points;
    float radius; /* what is farther is not listed */
    double *here; /* [size]: the mean that distances are taken from */
    float *place; /* [points_stride]: of place_of */
};

/* ---- the heap: least key first, the older of equals */

static bool precedes_in_heap(const struct linkage *l, uint32_t a, uint32_t b)
{
    double x = l->clusters[a].key, y = l->clusters[b].key;

    return x < y || (x == y && a < b);
}

static void place_in_heap(struct linkage *l, uint32_t at, uint32_t id)
{
    l->heap[at] = id;
    l->clusters[id].heap_at = at;
}

static void sift_heap_down(struct linkage *l, uint32_t at)
{
    uint32_t id = l->heap[at];

    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < l->alive && precedes_in_heap(l, l->heap[child + 1], l->heap[child]))
            child++;
        if (child >= l->alive || !precedes_in_heap(l, l->heap[child], id))
            break;
        place_in_heap(l, at, l->heap[child]);
        at = child;
    }
    place_in_heap(l, at, id);
}

static void sift_heap_up(struct linkage *l, uint32_t at)
{
    uint32_t id = l->heap[at];

    for (; at > 0 && precedes_in_heap(l, id, l->heap[(at - 1) / 2]); at = (at - 1) / 2)
        place_in_heap(l, at, l->heap[(at - 1) / 2]);
    place_in_heap(l, at, id);
}

static void heap_remove(struct linkage *l, uint32_t at)
{
    uint32_t last = l->heap[--l->alive];

    if (at == l->alive)
        return;
    place_in_heap(l, at, last);
    sift_heap_down(l, at);
    sift_heap_up(l, l->clusters[last].heap_at);
}

/* ---- distances */

static bool is_alive(const struct linkage *l, uint32_t id) { return l->clusters[id].list != NULL; }

static void mean_of(const struct linkage *l, uint32_t id, double *ret)
{
    if (l->clusters[id].mean) {
        memcpy(ret, l->clusters[id].mean, l->size * sizeof(*ret));
        return;
    }
    for (uint32_t k = 0; k < l->size; k++)
        ret[k] = (double)l->vectors[(size_t)id * l->size + k];
}

static double distance_to(const struct linkage *l, uint32_t id)
{
    const double *mean = l->clusters[id].mean;
    double sum = 0.0;

    if (mean) {
        for (uint32_t k = 0; k < l->size; k++)
            sum += (mean[k] - l->here[k]) * (mean[k] - l->here[k]);
    } else {
        const float *x = l->vectors + (size_t)id * l->size;

        for (uint32_t k = 0; k < l->size; k++)
            sum += ((double)x[k] - l->here[k]) * ((double)x[k] - l->here[k]);
    }
    return sqrt(sum);
}

/* ---- the lists */

/* Until the next call. */
static const float *place_of(const struct linkage *l, uint32_t id)
{
    points_copy(l->points, l->clusters[id].slot, l->place);
    return l->place;
}

static int search_all(struct linkage *l, uint32_t id, struct err *err)
{
    struct cluster *c = &l->clusters[id];
    uint32_t cap = LIST_FIRST + c->size / 8;
    struct nearest *list = nearest_new(cap < LIST_MOST ? cap : LIST_MOST, l->radius);
    const float *query = place_of(l, id);
    bool first = id < l->n;
    uint32_t upto = first ? points_slot_from(l->points, l->n) : c->slot;

    if (!list)
        return err_set(err, ERR_NOMEM, "no memory for the neighbours of a cluster");
    points_search(l->points, query, id, 0, upto, list);
    free(c->list);
    free(c->ref);
    c->list = list;
    c->ref = NULL;
    c->drift = 0.0;
    c->upto = first ? l->n : id;
    return 0;
}

static void forget_dead(const struct linkage *l, struct nearest *list)
{
    uint32_t to = 0;

    for (uint32_t i = 0; i < list->n; i++)
        if (is_alive(l, list->items[i].id))
            list->items[to++] = list->items[i];
    list->n = to;
}

/* Adds clusters made after the list. */
static void search_new(struct linkage *l, uint32_t id)
{
    struct cluster *c = &l->clusters[id];
    const float *query = c->ref ? c->ref : place_of(l, id);

    if (c->upto < id) {
        forget_dead(l, c->list);
        points_search(l->points, query, id, points_slot_from(l->points, c->upto), c->slot, c->list);
        c->upto = id;
    }
}

/* The nearest of the list, measured. Returns its distance; INFINITY: none. */
static double nearest_listed(const struct linkage *l, const struct cluster *c, uint32_t *partner)
{
    double best = INFINITY;

    for (uint32_t i = 0; i < c->list->n; i++) {
        uint32_t other = c->list->items[i].id;
        double d;

        if ((double)c->list->items[i].distance - c->drift > best)
            break;
        if (!is_alive(l, other))
            continue;
        d = distance_to(l, other);
        if (d < best || (d == best && other < *partner)) {
            best = d;
            *partner = other;
        }
    }
    return best;
}

/* Raises the key on top of the heap. A new list decides in any case: of what float32 cannot tell
 * apart it holds some, and one of them is taken. */
static int refine_nearest_partner(struct linkage *l, uint32_t id, struct err *err)
{
    struct cluster *c = &l->clusters[id];
    bool fresh = false;
    double best, rest;

    search_new(l, id);
    mean_of(l, id, l->here);
    for (;;) {
        uint32_t partner = POINTS_NONE;

        best = nearest_listed(l, c, &partner);
        rest = fmax((double)c->list->rest - c->drift, 0.0);
        c->exact = best <= rest || fresh;
        c->partner = partner;
        if (c->exact || rest > c->key)
            break;
        if (search_all(l, id, err) != 0)
            return err->code;
        fresh = true;
    }
    c->key = c->exact ? best : rest;
    sift_heap_down(l, c->heap_at);
    sift_heap_up(l, c->heap_at);
    return 0;
}

/* ---- merging */

static double measure_drift(const struct linkage *l, const float *a, const float *b)
{
    double sum = 0.0;

    for (uint32_t k = 0; k < l->size; k++)
        sum += ((double)a[k] - (double)b[k]) * ((double)a[k] - (double)b[k]);
    return sqrt(sum) + (double)points_slack(l->points);
}

static void remove_cluster(struct linkage *l, uint32_t id)
{
    struct cluster *c = &l->clusters[id];

    points_drop(l->points, c->slot);
    heap_remove(l, c->heap_at);
    free(c->list);
    free(c->ref);
    free(c->mean);
    c->list = NULL;
    c->ref = NULL;
    c->mean = NULL;
}

static void compact_points(struct linkage *l)
{
    points_pack(l->points);
    for (uint32_t slot = 0; slot < points_used(l->points); slot++)
        l->clusters[points_id(l->points, slot)].slot = slot;
}

/* The merged cluster takes the larger one's list, and the place where it was measured. */
static int inherit_neighbour_list(struct linkage *l, uint32_t from, struct cluster *ret,
                                  struct err *err)
{
    struct cluster *c = &l->clusters[from];
    size_t bytes = points_stride(l->points) * sizeof(float);

    if (!c->ref) {
        c->ref = malloc(bytes);
        if (!c->ref)
            return err_set(err, ERR_NOMEM, "no memory for a cluster");
        memcpy(c->ref, place_of(l, from), bytes);
    }
    ret->list = c->list;
    ret->ref = c->ref;
    ret->upto = c->upto;
    c->ref = NULL;
    c->list = NULL;
    return 0;
}

static int merge_clusters(struct linkage *l, uint32_t a, uint32_t b, struct err *err)
{
    struct cluster *x = &l->clusters[a], *y = &l->clusters[b], *c = &l->clusters[l->made];
    uint32_t larger = x->size > y->size || (x->size == y->size && x->upto >= y->upto) ? a : b;
    double share = (double)x->size / (double)(x->size + y->size);

    c->size = x->size + y->size;
    c->mean = malloc(l->size * sizeof(*c->mean));
    if (!c->mean)
        return err_set(err, ERR_NOMEM, "no memory for the mean of a cluster");
    mean_of(l, a, l->here);
    for (uint32_t k = 0; k < l->size; k++)
        c->mean[k] = share * l->here[k];
    mean_of(l, b, l->here);
    for (uint32_t k = 0; k < l->size; k++)
        c->mean[k] += (1.0 - share) * l->here[k];
    if (inherit_neighbour_list(l, larger, c, err) != 0)
        return err->code;
    remove_cluster(l, a);
    remove_cluster(l, b);
    if (points_used(l->points) == points_room(l->points) ||
        points_used(l->points) - l->alive > l->alive / PACK + 64)
        compact_points(l);
    c->slot = points_add(l->points, l->made, c->mean);
    c->drift = measure_drift(l, place_of(l, l->made), c->ref);
    c->key = 0.0; /* looked at next */
    place_in_heap(l, l->alive++, l->made);
    sift_heap_up(l, l->alive - 1);
    l->made++;
    return 0;
}

/* ---- the whole */

/* Every vector's nearest others, both older and newer: half of them would do, but the lists are
 * handed on. */
static int search_vectors(struct linkage *l, struct err *err)
{
    struct nearest **list = malloc(l->n * sizeof(struct nearest *));
    int rc = 0;

    if (!list)
        return err_set(err, ERR_NOMEM, "no memory for the neighbours of %u vectors", l->n);
    for (uint32_t i = 0; i < l->n && rc == 0; i++) {
        list[i] = l->clusters[i].list = nearest_new(LIST_FIRST, l->radius);
        if (!list[i])
            rc = err_set(err, ERR_NOMEM, "no memory for the neighbours of %u vectors", l->n);
    }
    if (rc == 0)
        points_search_all(l->points, l->threads, list);
    free(list);
    return rc;
}

static int init_linkage(struct linkage *l, struct err *err)
{
    uint32_t capacity = l->n + l->n / 8 + 16;
    int rc;

    l->clusters = calloc(2 * (size_t)l->n, sizeof(*l->clusters));
    l->heap = malloc((size_t)l->n * sizeof(*l->heap));
    l->here = malloc(l->size * sizeof(*l->here));
    if (!l->clusters || !l->heap || !l->here)
        return err_set(err, ERR_NOMEM, "no memory to cluster %u vectors", l->n);
    rc = points_new(l->vectors, l->n, l->size, capacity, &l->points, err);
    if (rc != 0)
        return rc;
    l->place = malloc(points_stride(l->points) * sizeof(*l->place));
    if (!l->place)
        return err_set(err, ERR_NOMEM, "no memory to cluster %u vectors", l->n);
    l->made = l->alive = l->n;
    for (uint32_t i = 0; i < l->n; i++) {
        l->clusters[i].size = 1;
        l->clusters[i].slot = i;
        l->clusters[i].upto = l->n;
        place_in_heap(l, i, i);
    }
    rc = search_vectors(l, err);
    for (uint32_t i = 0; rc == 0 && i < l->n; i++)
        if (l->clusters[i].list->n > 0)
            l->clusters[i].key = (double)l->clusters[i].list->items[0].distance;
    for (uint32_t i = l->n / 2; rc == 0 && i-- > 0;)
        sift_heap_down(l, i);
    return rc;
}

static int run_merges(struct linkage *l, double stop, struct merge *ret, uint32_t *count,
                      struct err *err)
{
    int rc = 0;

    while (rc == 0 && l->alive > 1) {
        uint32_t id = l->heap[0];
        const struct cluster *c = &l->clusters[id];

        if (c->key > stop)
            break;
        if (!c->exact || !is_alive(l, c->partner)) {
            rc = refine_nearest_partner(l, id, err);
            continue;
        }
        ret[*count] = (struct merge){.a = id < c->partner ? id : c->partner,
                                     .b = id < c->partner ? c->partner : id,
                                     .size = c->size + l->clusters[c->partner].size,
                                     .distance = c->key};
        rc = merge_clusters(l, ret[*count].a, ret[*count].b, err);
        (*count)++;
    }
    return rc;
}

static void free_linkage(struct linkage *l)
{
    for (uint32_t i = 0; l->clusters && i < 2 * l->n; i++) {
        free(l->clusters[i].mean);
        free(l->clusters[i].ref);
        free(l->clusters[i].list);
    }
    points_free(l->points);
    free(l->clusters);
    free(l->heap);
    free(l->here);
    free(l->place);
}

int linkage_centroid(const float *vectors, uint32_t n, uint32_t size, double stop, uint32_t threads,
                     struct merge *ret, uint32_t *count, struct err *err)
{
    struct linkage l = {.vectors = vectors, .n = n, .size = size, .threads = threads};
    uint32_t made = 0;
    int rc;

    if (n == 0 || n > LINKAGE_MAX || size == 0 || size > 65536)
        return err_set(err, ERR_INPUT, "%u vectors of %u values cannot be clustered", n, size);
    for (size_t i = 0; i < (size_t)n * size; i++)
        if (!isfinite(vectors[i]) || fabsf(vectors[i]) > 1e15f)
            return err_set(err, ERR_INPUT, "vector %zu has a value that is no number", i / size);
    l.radius = nextafterf((float)(stop * RADIUS), INFINITY);
    rc = init_linkage(&l, err);
    if (rc == 0)
        rc = run_merges(&l, stop, ret, &made, err);
    free_linkage(&l);
    if (rc == 0)
        *count = made;
    return rc;
}

uint32_t linkage_labels(const struct merge *merges, uint32_t count, uint32_t n, uint32_t *parent,
                        uint32_t *labels)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < n + count; i++)
        parent[i] = i;
    for (uint32_t i = 0; i < count; i++)
        parent[merges[i].a] = parent[merges[i].b] = n + i;
    for (uint32_t i = n + count; i-- > 0;) /* a parent's id is the higher one */
        parent[i] = parent[parent[i]];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t root = parent[i];

        if (root < n) { /* alone */
            labels[i] = found++;
            continue;
        }
        if (parent[root] == root) /* its first vector: the label is kept behind the ids */
            parent[root] = n + count + found++;
        labels[i] = parent[root] - (n + count);
    }
    return found;
}
