#include "workers/speakers/cluster/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "workers/speakers/cluster/ahc.h"
#include "workers/speakers/cluster/kmeans.h"
#include "workers/speakers/cluster/vbx.h"

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
