#include "workers/speakers/cluster/vbx.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"

#define GAIN_LEAST 1e-4
#define PARTS 16u     /* of the vectors, summed one by one: the same for any number of threads */
#define NOTHING 1e-25 /* a responsibility that adds nothing to a sum */

struct vbx {
    uint32_t speakers, dim;
    double fa, fb;
    const double *phi; /* borrowed, during vbx_run */
    double *root;      /* [dim]: sqrt(phi) */
    double *precision; /* [speakers][dim]: invL, (17) */
    double *mean;      /* [speakers][dim]: alpha, (16) */
    double *weight;    /* [speakers][dim]: alpha sqrt(phi), what a feature is multiplied with */
    double *bias;      /* [speakers]: what (23) adds for a speaker, and the log of its share */
    double *share;     /* [speakers]: pi */
};

/* The sums over one part of the vectors. */
struct part {
    double *sum;      /* [speakers]: of responsibilities */
    double *features; /* [speakers][dim]: of features, weighted with them */
    double *row;      /* [speakers] to work in */
    double likelihood;
};

void vbx_free(struct vbx *v)
{
    if (v)
        free(v->root);
    free(v);
}

static int create_vbx(uint32_t dim, uint32_t speakers, const struct vbx_params *p,
                      const double *phi, struct vbx **ret, struct err *err)
{
    size_t square = (size_t)speakers * dim;
    struct vbx *v = calloc(1, sizeof(*v));

    if (v)
        v->root = calloc(dim + 3 * square + 2 * (size_t)speakers, sizeof(double));
    if (!v || !v->root) {
        free(v);
        return err_set(err, ERR_NOMEM, "no memory for %u speakers", speakers);
    }
    v->precision = v->root + dim;
    v->mean = v->precision + square;
    v->weight = v->mean + square;
    v->bias = v->weight + square;
    v->share = v->bias + speakers;
    v->speakers = speakers;
    v->dim = dim;
    v->fa = p->fa;
    v->fb = p->fb;
    v->phi = phi;
    for (uint32_t d = 0; d < dim; d++)
        v->root[d] = sqrt(phi[d]);
    *ret = v;
    return 0;
}

static void free_parts(struct part *parts) { free(parts[0].sum); }

static int new_parts(const struct vbx *v, struct part parts[PARTS], struct err *err)
{
    size_t each = (size_t)v->speakers * (v->dim + 2);
    double *all = calloc(PARTS * each, sizeof(*all));

    if (!all)
        return err_set(err, ERR_NOMEM, "no memory for %u speakers", v->speakers);
    for (uint32_t i = 0; i < PARTS; i++) {
        parts[i].sum = all + i * each;
        parts[i].row = parts[i].sum + v->speakers;
        parts[i].features = parts[i].row + v->speakers;
    }
    return 0;
}

/* Responsibilities of one vector, (23) and its softmax; returns the log of its likelihood without
 * what is the same for all speakers. */
static double compute_responsibilities(const struct vbx *v, const double *x, double *row)
{
    double most = -INFINITY, sum = 0.0;

    for (uint32_t s = 0; s < v->speakers; s++) {
        const double *w = v->weight + (size_t)s * v->dim;
        double along = 0.0;

#pragma omp simd reduction(+ : along)
        for (uint32_t d = 0; d < v->dim; d++)
            along += w[d] * x[d];
        row[s] = v->fa * along + v->bias[s];
        most = row[s] > most ? row[s] : most;
    }
    for (uint32_t s = 0; s < v->speakers; s++) {
        row[s] = exp(row[s] - most);
        sum += row[s];
    }
    for (uint32_t s = 0; s < v->speakers; s++)
        row[s] /= sum;
    return most + log(sum);
}

static void add_row(const struct vbx *v, struct part *p, const double *x)
{
    for (uint32_t s = 0; s < v->speakers; s++) {
        double *to = p->features + (size_t)s * v->dim, gamma = p->row[s];

        p->sum[s] += gamma;
        for (uint32_t d = 0; gamma > NOTHING && d < v->dim; d++)
            to[d] += gamma * x[d];
    }
}

/* Sums in the order of the parts. */
static void sum_parts(const struct vbx *v, struct part parts[PARTS])
{
    size_t n = (size_t)v->speakers * v->dim;

    for (uint32_t i = 1; i < PARTS; i++) {
        parts[0].likelihood += parts[i].likelihood;
        for (uint32_t s = 0; s < v->speakers; s++)
            parts[0].sum[s] += parts[i].sum[s];
        for (size_t k = 0; k < n; k++)
            parts[0].features[k] += parts[i].features[k];
    }
}

static void clear_part(const struct vbx *v, struct part *p)
{
    p->likelihood = 0.0;
    memset(p->sum, 0, v->speakers * sizeof(double));
    memset(p->features, 0, (size_t)v->speakers * v->dim * sizeof(double));
}

/* The sums under the responsibilities that it begins with. */
static void init_part_from_labels(const struct vbx *v, const double *features, uint32_t n,
                                  const uint32_t *labels, double smoothing, struct part *p)
{
    double labelled = exp(smoothing), all = labelled + (double)v->speakers - 1.0;

    clear_part(v, p);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t s = 0; s < v->speakers; s++)
            p->row[s] = labels[i] == VBX_UNLABELLED ? 1.0 / (double)v->speakers
                                                    : (labels[i] == s ? labelled : 1.0) / all;
        add_row(v, p, features + (size_t)i * v->dim);
    }
}

struct round {
    const struct vbx *v;
    const double *features;
    uint32_t n;
    struct part *parts;
};

static void respond_part(void *arg, uint32_t number)
{
    const struct round *r = arg;
    const struct vbx *v = r->v;
    struct part *p = &r->parts[number];
    uint32_t from = (uint32_t)((uint64_t)r->n * number / PARTS);
    uint32_t to = (uint32_t)((uint64_t)r->n * (number + 1) / PARTS);

    clear_part(v, p);
    for (uint32_t k = from; k < to; k++) {
        const double *x = r->features + (size_t)k * v->dim;
        double square = 0.0;

        for (uint32_t d = 0; d < v->dim; d++)
            square += x[d] * x[d];
        p->likelihood += compute_responsibilities(v, x, p->row) -
                         0.5 * v->fa * (square + v->dim * 1.8378770664093453 /* ln 2pi */);
        add_row(v, p, x);
    }
}

static void respond_all(const struct vbx *v, const double *features, uint32_t n, uint32_t threads,
                        struct part parts[PARTS])
{
    struct round r = {v, features, n, parts};

    threads_run(threads, PARTS, respond_part, &r);
    sum_parts(v, parts);
}

/* (16), (17), and of (25) what is not the likelihood. */
static double estimate_speaker_models(struct vbx *v, const struct part *p)
{
    double ratio = v->fa / v->fb, prior = 0.0;

    for (uint32_t s = 0; s < v->speakers; s++) {
        double bias = 0.0;

        for (uint32_t d = 0; d < v->dim; d++) {
            size_t k = (size_t)s * v->dim + d;
            double inverse = 1.0 / (1.0 + ratio * p->sum[s] * v->phi[d]);
            double mean = ratio * inverse * p->features[k] * v->root[d];

            v->precision[k] = inverse;
            v->mean[k] = mean;
            v->weight[k] = mean * v->root[d];
            bias += (inverse + mean * mean) * v->phi[d];
            prior += log(inverse) - inverse - mean * mean + 1.0;
        }
        v->bias[s] = -0.5 * v->fa * bias + log(v->share[s] + 1e-8);
    }
    return 0.5 * v->fb * prior;
}

static void set_shares(struct vbx *v, const struct part *p)
{
    double all = 0.0;

    for (uint32_t s = 0; s < v->speakers; s++)
        all += p->sum[s];
    for (uint32_t s = 0; s < v->speakers; s++)
        v->share[s] = p->sum[s] / all;
}

static int iterate_vbx(struct vbx *v, const double *features, uint32_t n, const uint32_t *labels,
                       const struct vbx_params *p, struct err *err)
{
    struct part parts[PARTS] = {{0}};
    double before = -INFINITY;
    int rc = new_parts(v, parts, err);

    if (rc != 0)
        return rc;
    for (uint32_t s = 0; s < v->speakers; s++)
        v->share[s] = 1.0 / (double)v->speakers;
    init_part_from_labels(v, features, n, labels, p->smoothing, &parts[0]);
    for (uint32_t round = 0; rc == 0 && round < p->max_rounds; round++) {
        double bound = estimate_speaker_models(v, &parts[0]);

        respond_all(v, features, n, p->threads, parts);
        bound += parts[0].likelihood;
        set_shares(v, &parts[0]);
        if (!isfinite(bound))
            rc = err_set(err, ERR_INPUT, "the voices' features are no numbers");
        if (bound - before < GAIN_LEAST)
            break;
        before = bound;
    }
    free_parts(parts);
    return rc;
}

int vbx_run(const double *features, uint32_t n, uint32_t dim, const double *phi,
            const uint32_t *labels, uint32_t speakers, const struct vbx_params *p, struct vbx **ret,
            struct err *err)
{
    struct vbx *v = NULL;
    int rc;

    if (n == 0 || dim == 0 || speakers == 0 || speakers > VBX_MAX_SPEAKERS || p->max_rounds == 0 ||
        !(p->fa > 0.0) || !(p->fb > 0.0))
        return err_set(err, ERR_INPUT, "%u voices of %u values, %u speakers: impossible", n, dim,
                       speakers);
    for (uint32_t d = 0; d < dim; d++)
        if (!(phi[d] >= 0.0))
            return err_set(err, ERR_INPUT, "a variance below 0");
    for (uint32_t i = 0; i < n; i++)
        if (labels[i] >= speakers && labels[i] != VBX_UNLABELLED)
            return err_set(err, ERR_INPUT, "voice %u begins with a speaker that is none", i);
    rc = create_vbx(dim, speakers, p, phi, &v, err);
    if (rc == 0)
        rc = iterate_vbx(v, features, n, labels, p, err);
    if (rc != 0)
        vbx_free(v);
    else
        *ret = v;
    return rc;
}

const double *vbx_shares(const struct vbx *v) { return v->share; }

void vbx_responsibilities(const struct vbx *v, const double *features, uint32_t n, double *ret)
{
    for (uint32_t i = 0; i < n; i++)
        compute_responsibilities(v, features + (size_t)i * v->dim, ret + (size_t)i * v->speakers);
}
