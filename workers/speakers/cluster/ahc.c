#include "workers/speakers/cluster/ahc.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "workers/speakers/cluster/linkage.h"

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
