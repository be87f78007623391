#include "workers/speakers/cluster.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "workers/speakers/kmeans.h"
#include "workers/speakers/linkage.h"
#include "workers/speakers/vbx.h"

/* ---- agglomerative */

struct tree {
    struct merge *merges; /* [n - 1] */
    uint32_t *parent;     /* [2n] */
    uint32_t n, count;
};

void ahc_normalize(float *vectors, uint32_t n, uint32_t size)
{
    for (uint32_t i = 0; i < n; i++) {
        float *v = vectors + (size_t)i * size;
        double sum = 0.0;

        for (uint32_t k = 0; k < size; k++)
            sum += (double)v[k] * (double)v[k];
        for (uint32_t k = 0; sum > 0.0 && k < size; k++)
            v[k] = (float)((double)v[k] / sqrt(sum));
    }
}

static void tree_free(struct tree *t)
{
    free(t->merges);
    free(t->parent);
}

static int build_merge_tree(const float *unit, uint32_t n, uint32_t size, double stop,
                            uint32_t threads, struct tree *ret, struct err *err)
{
    struct tree t = {.n = n};
    int rc;

    t.merges = malloc((size_t)n * sizeof(*t.merges));
    t.parent = malloc(2 * (size_t)n * sizeof(*t.parent));
    rc = t.merges && t.parent
             ? linkage_centroid(unit, n, size, stop, threads, t.merges, &t.count, err)
             : err_set(err, ERR_NOMEM, "no memory to cluster %u vectors", n);
    if (rc != 0)
        tree_free(&t);
    else
        *ret = t;
    return rc;
}

int ahc_cut(const float *unit, uint32_t n, uint32_t size, double threshold, uint32_t threads,
            uint32_t *labels, uint32_t *clusters, struct err *err)
{
    struct tree t;
    int rc = build_merge_tree(unit, n, size, threshold, threads, &t, err);

    if (rc != 0)
        return rc;
    *clusters = linkage_labels(t.merges, t.count, n, t.parent, labels);
    tree_free(&t);
    return 0;
}

/* ---- the wanted number of large clusters */

/* How many merges a cut at the threshold makes: those before the first that is farther. */
static uint32_t cut_at(const struct tree *t, double threshold)
{
    uint32_t made = 0;

    while (made < t->count && t->merges[made].distance <= threshold)
        made++;
    return made;
}

static uint32_t size_of(const struct tree *t, uint32_t id)
{
    return id < t->n ? 1 : t->merges[id - t->n].size;
}

/* large[i]: how many clusters are large after i merges. */
static uint32_t *count_large(const struct tree *t, uint32_t min_size)
{
    uint32_t *large = malloc(((size_t)t->count + 1) * sizeof(*large));

    if (!large)
        return NULL;
    large[0] = min_size <= 1 ? t->n : 0;
    for (uint32_t i = 0; i < t->count; i++) {
        const struct merge *m = &t->merges[i];

        large[i + 1] = large[i] + (m->size >= min_size) - (size_of(t, m->a) >= min_size) -
                       (size_of(t, m->b) >= min_size);
    }
    return large;
}

struct nearness {
    double distance; /* from the threshold */
    uint32_t merge;
};

static int by_nearness(const void *a, const void *b)
{
    const struct nearness *x = a, *y = b;

    if (x->distance != y->distance)
        return x->distance < y->distance ? -1 : 1;
    return x->merge < y->merge ? -1 : x->merge > y->merge;
}

static uint32_t off_by(uint32_t a, uint32_t b) { return a > b ? a - b : b - a; }

/* The number of merges, of those that end with a large cluster, after which the number of large
 * ones is nearest to what is wanted; of equals the one whose distance is nearest to the threshold.
 */
static int find_cut(const struct tree *t, const struct ahc_params *p, const uint32_t *large,
                    uint32_t min_size, uint32_t wanted, uint32_t *ret, struct err *err)
{
    struct nearness *order = malloc((size_t)t->count * sizeof(*order));
    uint32_t best = t->count, best_large = 1;

    if (!order)
        return err_set(err, ERR_NOMEM, "no memory to cut a tree of %u merges", t->count);
    for (uint32_t i = 0; i < t->count; i++)
        order[i] = (struct nearness){fabs(t->merges[i].distance - p->threshold), i};
    qsort(order, t->count, sizeof(*order), by_nearness);
    for (uint32_t i = 0; i < t->count && best_large != wanted; i++) {
        uint32_t made = order[i].merge + 1;

        if (t->merges[made - 1].size >= min_size &&
            off_by(large[made], wanted) < off_by(best_large, wanted)) {
            best = made;
            best_large = large[made];
        }
    }
    free(order);
    *ret = best;
    return 0;
}

/* How many merges are made, and how many large clusters that gives. */
static int choose_cut(const float *unit, uint32_t size, const struct ahc_params *p,
                      uint32_t min_size, struct tree *t, uint32_t *made, uint32_t *large_found,
                      struct err *err)
{
    uint32_t *large = count_large(t, min_size), wanted;
    int rc = 0;

    if (!large)
        return err_set(err, ERR_NOMEM, "no memory for %u clusters", t->n);
    *made = cut_at(t, p->threshold);
    wanted = *large_found = large[*made];
    if (wanted < p->min_clusters)
        wanted = p->min_clusters;
    if (wanted > p->max_clusters)
        wanted = p->max_clusters;
    if (wanted != *large_found) { /* the rest of the tree is wanted, too */
        struct tree whole;

        free(large);
        large = NULL;
        rc = build_merge_tree(unit, t->n, size, INFINITY, p->threads, &whole, err);
        if (rc == 0) {
            tree_free(t);
            *t = whole;
            large = count_large(t, min_size);
            rc = large ? find_cut(t, p, large, min_size, wanted, made, err)
                       : err_set(err, ERR_NOMEM, "no memory for %u clusters", t->n);
        }
        if (rc == 0)
            *large_found = large[*made];
    }
    free(large);
    return rc;
}

/* ---- small clusters */

struct sums {
    double *of;       /* [clusters][size] */
    uint32_t *counts; /* [clusters] */
};

static double cosine_similarity(const double *a, const double *b, uint32_t size)
{
    double ab = 0.0, aa = 0.0, bb = 0.0;

    for (uint32_t k = 0; k < size; k++) {
        ab += a[k] * b[k];
        aa += a[k] * a[k];
        bb += b[k] * b[k];
    }
    return aa > 0.0 && bb > 0.0 ? ab / sqrt(aa * bb) : 0.0;
}

static int sum_up(const float *unit, uint32_t n, uint32_t size, const uint32_t *labels,
                  uint32_t clusters, struct sums *ret, struct err *err)
{
    ret->of = calloc((size_t)clusters * size, sizeof(double));
    ret->counts = calloc(clusters, sizeof(uint32_t));
    if (!ret->of || !ret->counts)
        return err_set(err, ERR_NOMEM, "no memory for %u clusters", clusters);
    for (uint32_t i = 0; i < n; i++) {
        double *sum = ret->of + (size_t)labels[i] * size;

        ret->counts[labels[i]]++;
        for (uint32_t k = 0; k < size; k++)
            sum[k] += (double)unit[(size_t)i * size + k];
    }
    return 0;
}

struct joining {
    struct sums s;
    uint32_t clusters, size, min_size;
    uint32_t *into; /* [clusters]: the large cluster that each goes to */
};

static void find_large(void *arg, uint32_t k)
{
    const struct joining *j = arg;
    const struct sums *s = &j->s;
    double best = -INFINITY;

    j->into[k] = k;
    for (uint32_t other = 0; s->counts[k] < j->min_size && other < j->clusters; other++) {
        double like;

        if (s->counts[other] < j->min_size)
            continue;
        like = cosine_similarity(s->of + (size_t)k * j->size, s->of + (size_t)other * j->size,
                                 j->size);
        if (like > best) {
            best = like;
            j->into[k] = other;
        }
    }
}

static uint32_t renumber_labels(uint32_t *labels, uint32_t n, const uint32_t *into,
                                uint32_t clusters, uint32_t *number)
{
    uint32_t found = 0;

    memset(number, 0xff, clusters * sizeof(*number));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = into[labels[i]];

        if (number[k] == UINT32_MAX)
            number[k] = found++;
        labels[i] = number[k];
    }
    return found;
}

static int join_small(const float *unit, uint32_t n, uint32_t size, uint32_t min_size,
                      uint32_t threads, uint32_t *labels, uint32_t *clusters, struct err *err)
{
    struct joining j = {.clusters = *clusters, .size = size, .min_size = min_size};
    int rc;

    j.into = malloc(2 * (size_t)*clusters * sizeof(*j.into));
    rc = j.into ? sum_up(unit, n, size, labels, *clusters, &j.s, err)
                : err_set(err, ERR_NOMEM, "no memory for %u clusters", *clusters);
    if (rc == 0) {
        threads_run(threads, *clusters, find_large, &j);
        *clusters = renumber_labels(labels, n, j.into, *clusters, j.into + *clusters);
    }
    free(j.s.of);
    free(j.s.counts);
    free(j.into);
    return rc;
}

int ahc_cluster(const float *unit, uint32_t n, uint32_t size, const struct ahc_params *p,
                uint32_t *labels, uint32_t *clusters, struct err *err)
{
    uint32_t tenth = (uint32_t)rint(0.1 * n), min_size = tenth > 1 ? tenth : 1, made = 0, large = 0;
    struct tree t;
    int rc;

    if (p->min_size < min_size)
        min_size = p->min_size > 0 ? p->min_size : 1;
    rc = build_merge_tree(unit, n, size, p->threshold, p->threads, &t, err);
    if (rc != 0)
        return rc;
    rc = choose_cut(unit, size, p, min_size, &t, &made, &large, err);
    if (rc == 0)
        *clusters = linkage_labels(t.merges, made, n, t.parent, labels);
    tree_free(&t);
    if (rc != 0)
        return rc;
    if (large == 0) {
        memset(labels, 0, n * sizeof(*labels));
        *clusters = 1;
        return 0;
    }
    return join_small(unit, n, size, min_size, p->threads, labels, clusters, err);
}

/* ---- either way */

#define SMOOTHING 7.0
#define MAX_ROUNDS 20u

void clusters_free(struct clusters *c)
{
    free(c->centroids);
    *c = (struct clusters){0};
}

static uint32_t clamp(uint32_t value, uint32_t low, uint32_t high)
{
    return value < low ? low : value > high ? high : value;
}

static uint32_t threads_of(const struct diarize_params *p)
{
    return p->threads ? p->threads : threads_available();
}

static void bounds_of(const struct diarize_params *p, uint32_t n, uint32_t *low, uint32_t *high)
{
    uint32_t least = p->num_speakers ? p->num_speakers : p->min_speakers;
    uint32_t most = p->num_speakers ? p->num_speakers : p->max_speakers;

    if (most == 0 || most > DIARIZE_MAX_SPEAKERS)
        most = DIARIZE_MAX_SPEAKERS;
    *low = clamp(least, 1, n > 1 ? n : 1);
    *high = clamp(most, 1, n > 1 ? n : 1);
}

/* The means of labelled vectors. */
static int compute_centroids(const float *vectors, uint32_t n, uint32_t size,
                             const uint32_t *labels, uint32_t count, struct clusters *ret,
                             struct err *err)
{
    double *sums = calloc((size_t)count * size, sizeof(*sums));
    uint32_t *sizes = calloc(count, sizeof(*sizes));
    float *centroids = malloc((size_t)count * size * sizeof(*centroids));

    if (!sums || !sizes || !centroids) {
        free(sums);
        free(sizes);
        free(centroids);
        return err_set(err, ERR_NOMEM, "no memory for %u speakers", count);
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = labels ? labels[i] : 0;

        sizes[k]++;
        for (uint32_t d = 0; d < size; d++)
            sums[(size_t)k * size + d] += (double)vectors[(size_t)i * size + d];
    }
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t d = 0; d < size; d++)
            centroids[(size_t)k * size + d] =
                sizes[k] > 0 ? (float)(sums[(size_t)k * size + d] / sizes[k]) : 0.0f;
    free(sums);
    free(sizes);
    *ret = (struct clusters){.centroids = centroids, .count = count};
    return 0;
}

static float *unit_copy(const float *vectors, uint32_t n, uint32_t size)
{
    float *unit = malloc((size_t)n * size * sizeof(*unit));

    if (unit) {
        memcpy(unit, vectors, (size_t)n * size * sizeof(*unit));
        ahc_normalize(unit, n, size);
    }
    return unit;
}

int cluster_ahc(const float *vectors, uint32_t n, uint32_t size, const struct diarize_params *p,
                struct clusters *ret, struct err *err)
{
    struct ahc_params ahc = {.threshold = (double)p->threshold,
                             .min_size = p->min_cluster_size,
                             .threads = threads_of(p)};
    uint32_t *labels, count;
    float *unit;
    int rc;

    bounds_of(p, n, &ahc.min_clusters, &ahc.max_clusters);
    if (ahc.max_clusters < 2)
        return compute_centroids(vectors, n, size, NULL, 1, ret, err);
    labels = malloc((size_t)n * sizeof(*labels));
    unit = unit_copy(vectors, n, size);
    rc = labels && unit ? ahc_cluster(unit, n, size, &ahc, labels, &count, err)
                        : err_set(err, ERR_NOMEM, "no memory to cluster %u vectors", n);
    free(unit);
    if (rc == 0)
        rc = compute_centroids(vectors, n, size, labels, count, ret, err);
    free(labels);
    return rc;
}

/* ---- VBx */

/* VBx begins with at most VBX_MAX_SPEAKERS clusters: the vectors of smaller ones begin
 * unlabelled. */
static int keep_largest(uint32_t *labels, uint32_t n, uint32_t *count, struct err *err)
{
    uint32_t *sizes, *number, kept = 0;

    if (*count <= VBX_MAX_SPEAKERS)
        return 0;
    sizes = calloc(2 * (size_t)*count, sizeof(*sizes));
    if (!sizes)
        return err_set(err, ERR_NOMEM, "no memory for %u clusters", *count);
    number = sizes + *count;
    for (uint32_t i = 0; i < n; i++)
        sizes[labels[i]]++;
    for (uint32_t size = n, next; size > 0 && kept < VBX_MAX_SPEAKERS; size = next) {
        next = 0;
        for (uint32_t k = 0; k < *count; k++)
            if (sizes[k] == size && kept < VBX_MAX_SPEAKERS)
                number[k] = ++kept;
            else if (sizes[k] < size && sizes[k] > next)
                next = sizes[k];
    }
    for (uint32_t i = 0; i < n; i++)
        labels[i] = number[labels[i]] > 0 ? number[labels[i]] - 1 : VBX_UNLABELLED;
    *count = kept;
    free(sizes);
    return 0;
}

/* Centroids of the speakers that are left, every vector weighted with how far it is theirs. */
static int centroids_of(const struct vbx *v, const float *vectors, uint32_t n, uint32_t size,
                        const double *features, uint32_t dim, uint32_t speakers,
                        struct clusters *ret, struct err *err)
{
    double *sums = calloc((size_t)speakers * (size + 2), sizeof(*sums)), *weight, *row;
    float *centroids = malloc((size_t)speakers * size * sizeof(*centroids));
    uint32_t kept = 0;

    if (!sums || !centroids) {
        free(sums);
        free(centroids);
        return err_set(err, ERR_NOMEM, "no memory for %u speakers", speakers);
    }
    weight = sums + (size_t)speakers * size;
    row = weight + speakers;
    for (uint32_t i = 0; i < n; i++) {
        vbx_responsibilities(v, features + (size_t)i * dim, 1, row);
        for (uint32_t s = 0; s < speakers; s++) {
            weight[s] += row[s];
            for (uint32_t d = 0; row[s] > 1e-20 && d < size; d++)
                sums[(size_t)s * size + d] += row[s] * (double)vectors[(size_t)i * size + d];
        }
    }
    for (uint32_t s = 0; s < speakers; s++) {
        if (vbx_shares(v)[s] <= VBX_ALIVE)
            continue;
        for (uint32_t d = 0; d < size; d++)
            centroids[(size_t)kept * size + d] = (float)(sums[(size_t)s * size + d] / weight[s]);
        kept++;
    }
    free(sums);
    *ret = (struct clusters){.centroids = centroids, .count = kept, .constrained = true};
    return 0;
}

static int find_speakers(const float *vectors, const float *unit, uint32_t n, uint32_t size,
                         const double *features, uint32_t dim, const double *phi,
                         const struct diarize_params *p, uint32_t *labels, struct clusters *ret,
                         struct err *err)
{
    const struct vbx_params vp = {.fa = (double)p->fa,
                                  .fb = (double)p->fb,
                                  .smoothing = SMOOTHING,
                                  .max_rounds = MAX_ROUNDS,
                                  .threads = threads_of(p)};
    struct vbx *v = NULL;
    uint32_t count;
    int rc = ahc_cut(unit, n, size, (double)p->threshold, threads_of(p), labels, &count, err);

    if (rc == 0)
        rc = keep_largest(labels, n, &count, err);
    if (rc == 0)
        rc = vbx_run(features, n, dim, phi, labels, count, &vp, &v, err);
    if (rc == 0)
        rc = centroids_of(v, vectors, n, size, features, dim, count, ret, err);
    vbx_free(v);
    return rc;
}

int cluster_vbx(const float *vectors, uint32_t n, uint32_t size, const double *features,
                uint32_t dim, const double *phi, const struct diarize_params *p,
                struct clusters *ret, struct err *err)
{
    uint32_t *labels, low, high, wanted;
    struct clusters found = {0};
    float *unit;
    int rc;

    if (n < 2)
        return compute_centroids(vectors, n, size, NULL, 1, ret, err);
    bounds_of(p, n, &low, &high);
    labels = malloc((size_t)n * sizeof(*labels));
    unit = unit_copy(vectors, n, size);
    rc = labels && unit
             ? find_speakers(vectors, unit, n, size, features, dim, phi, p, labels, &found, err)
             : err_set(err, ERR_NOMEM, "no memory to cluster %u vectors", n);
    wanted = clamp(found.count, low, high);
    if (rc == 0 && wanted != found.count) {
        clusters_free(&found);
        rc = kmeans(unit, n, size, wanted, threads_of(p), labels, err);
        if (rc == 0)
            rc = compute_centroids(vectors, n, size, labels, wanted, &found, err);
    }
    free(unit);
    free(labels);
    if (rc == 0)
        *ret = found;
    else
        clusters_free(&found);
    return rc;
}
