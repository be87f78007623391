#include "workers/speakers/vbx.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"

/* ---- small dense linear algebra */

#define SWEEPS 60
#define OFF_DIAGONAL_NOTHING 1e-28 /* of the squares' sum: what is off the diagonal is rounding */

static double off_diagonal(const double *a, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            sum += i == k ? 0.0 : a[(size_t)i * n + k] * a[(size_t)i * n + k];
    return sum;
}

static void turn_rows(double *a, uint32_t n, uint32_t p, uint32_t q, double c, double s)
{
    double *x = a + (size_t)p * n, *y = a + (size_t)q * n;

    for (uint32_t k = 0; k < n; k++) {
        double u = x[k], v = y[k];

        x[k] = c * u - s * v;
        y[k] = s * u + c * v;
    }
}

static void turn_columns(double *a, uint32_t n, uint32_t p, uint32_t q, double c, double s)
{
    for (uint32_t k = 0; k < n; k++) {
        double u = a[(size_t)k * n + p], v = a[(size_t)k * n + q];

        a[(size_t)k * n + p] = c * u - s * v;
        a[(size_t)k * n + q] = s * u + c * v;
    }
}

/* Makes a[p][q] nothing. */
static void rotate_to_zero(double *a, double *vectors, uint32_t n, uint32_t p, uint32_t q)
{
    double apq = a[(size_t)p * n + q], theta, t, c;

    if (apq == 0.0)
        return;
    theta = (a[(size_t)q * n + q] - a[(size_t)p * n + p]) / (2.0 * apq);
    t = (theta >= 0.0 ? 1.0 : -1.0) / (fabs(theta) + hypot(theta, 1.0));
    c = 1.0 / hypot(t, 1.0);
    turn_rows(a, n, p, q, c, t * c);
    turn_columns(a, n, p, q, c, t * c);
    turn_rows(vectors, n, p, q, c, t * c);
}

static void sort_eigenpairs(double *values, double *vectors, uint32_t n)
{
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t best = i;
        double value;

        for (uint32_t k = i + 1; k < n; k++)
            if (values[k] > values[best])
                best = k;
        value = values[i];
        values[i] = values[best];
        values[best] = value;
        for (uint32_t k = 0; best != i && k < n; k++) {
            double v = vectors[(size_t)i * n + k];

            vectors[(size_t)i * n + k] = vectors[(size_t)best * n + k];
            vectors[(size_t)best * n + k] = v;
        }
    }
}

int eigen_symmetric(double *a, uint32_t n, double *values, double *vectors, struct err *err)
{
    double size = 0.0, off, before = INFINITY;

    for (size_t i = 0; i < (size_t)n * n; i++)
        size += a[i] * a[i];
    if (!isfinite(size))
        return err_set(err, ERR_INPUT, "the matrix of a transform is not finite");
    memset(vectors, 0, (size_t)n * n * sizeof(*vectors));
    for (uint32_t i = 0; i < n; i++)
        vectors[(size_t)i * n + i] = 1.0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        off = off_diagonal(a, n);
        /* Each sweep has less to do, and far less at the end, until rounding is all: of a large
         * matrix that is more than OFF_DIAGONAL_NOTHING. */
        if (off <= OFF_DIAGONAL_NOTHING * size || !(off < before))
            break;
        before = off;
        for (uint32_t p = 0; p + 1 < n; p++)
            for (uint32_t q = p + 1; q < n; q++)
                rotate_to_zero(a, vectors, n, p, q);
    }
    for (uint32_t i = 0; i < n; i++)
        values[i] = a[(size_t)i * n + i];
    sort_eigenpairs(values, vectors, n);
    return 0;
}

static void swap_rows(double *a, double *b, uint32_t n)
{
    for (uint32_t k = 0; a != b && k < n; k++) {
        double v = a[k];

        a[k] = b[k];
        b[k] = v;
    }
}

/* One column of a becomes the unit's, and the same is done to b. */
static bool eliminate_column(double *a, double *b, uint32_t n, uint32_t column)
{
    uint32_t pivot = column;
    double scale;

    for (uint32_t r = column + 1; r < n; r++)
        if (fabs(a[(size_t)r * n + column]) > fabs(a[(size_t)pivot * n + column]))
            pivot = r;
    swap_rows(a + (size_t)pivot * n, a + (size_t)column * n, n);
    swap_rows(b + (size_t)pivot * n, b + (size_t)column * n, n);
    scale = a[(size_t)column * n + column];
    if (!isfinite(scale) || fabs(scale) < 1e-300)
        return false;
    for (uint32_t k = 0; k < n; k++) {
        a[(size_t)column * n + k] /= scale;
        b[(size_t)column * n + k] /= scale;
    }
    for (uint32_t r = 0; r < n; r++) {
        double factor = a[(size_t)r * n + column];

        for (uint32_t k = 0; r != column && k < n; k++) {
            a[(size_t)r * n + k] -= factor * a[(size_t)column * n + k];
            b[(size_t)r * n + k] -= factor * b[(size_t)column * n + k];
        }
    }
    return true;
}

int eigen_invert(double *a, uint32_t n, struct err *err)
{
    double *b = calloc((size_t)n * n, sizeof(*b));
    bool fine = true;

    if (!b)
        return err_set(err, ERR_NOMEM, "no memory to invert a matrix of %u rows", n);
    for (uint32_t i = 0; i < n; i++)
        b[(size_t)i * n + i] = 1.0;
    for (uint32_t i = 0; fine && i < n; i++)
        fine = eliminate_column(a, b, n, i);
    if (fine)
        memcpy(a, b, (size_t)n * n * sizeof(*a));
    free(b);
    return fine ? 0 : err_set(err, ERR_INPUT, "the matrix of a transform has no inverse");
}

/* ---- the two transforms */

#define PLDA_PARTS 32u /* of the vectors, side by side */

struct plda {
    uint32_t size, lda, dim;
    double *mean1, *mean2, *mu;
    double *first;  /* [lda][size]: LDA^T */
    double *second; /* [lda][lda]: T */
    double *phi;    /* [lda] */
};

void plda_free(struct plda *p)
{
    if (!p)
        return;
    free(p->mean1);
    free(p);
}

/* ret = x y, both [n][n]; of x the transpose when `turned`. */
static void multiply_matrices(const double *x, bool turned, const double *y, uint32_t n,
                              double *ret)
{
    memset(ret, 0, (size_t)n * n * sizeof(*ret));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++) {
            double factor = turned ? x[(size_t)k * n + i] : x[(size_t)i * n + k];

            for (uint32_t j = 0; j < n; j++)
                ret[(size_t)i * n + j] += factor * y[(size_t)k * n + j];
        }
}

static void make_symmetric(double *a, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            a[(size_t)i * n + k] = a[(size_t)k * n + i] =
                0.5 * (a[(size_t)i * n + k] + a[(size_t)k * n + i]);
}

/* B v = phi W v. With W^-1 = tr^T tr, the columns of tr^T whiten W: for v = tr^T u it is
 * (tr B tr^T) u = phi u, a symmetric problem, and rows u tr are of unit length in W as they must
 * be. work: [3][lda][lda]. */
static int solve_eigenproblem(const struct plda_arrays *a, struct plda *p, double *work,
                              struct err *err)
{
    uint32_t n = a->lda;
    double *x = work, *y = x + (size_t)n * n, *z = y + (size_t)n * n;
    int rc;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            y[(size_t)i * n + k] = a->tr[(size_t)i * n + k] / a->psi[i];
    multiply_matrices(a->tr, true, y, n, x);
    rc = eigen_invert(x, n, err); /* B */
    if (rc != 0)
        return rc;
    multiply_matrices(a->tr, false, x, n, y);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            z[(size_t)k * n + i] = a->tr[(size_t)i * n + k];
    multiply_matrices(y, false, z, n, x);
    make_symmetric(x, n);
    rc = eigen_symmetric(x, n, p->phi, y, err);
    if (rc == 0)
        multiply_matrices(y, false, a->tr, n, p->second);
    return rc;
}

static bool all_finite(const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

static int check_plda_arrays(const struct plda_arrays *a, struct err *err)
{
    if (a->size == 0 || a->size > PLDA_MAX || a->lda == 0 || a->lda > a->size)
        return err_set(err, ERR_MODEL, "the PLDA makes %u values of %u", a->lda, a->size);
    if (!all_finite(a->mean1, a->size) || !all_finite(a->mean2, a->lda) ||
        !all_finite(a->mu, a->lda) || !all_finite(a->matrix, (size_t)a->size * a->lda) ||
        !all_finite(a->tr, (size_t)a->lda * a->lda))
        return err_set(err, ERR_MODEL, "the PLDA has a value that is no number");
    for (uint32_t i = 0; i < a->lda; i++)
        if (!isfinite(a->psi[i]) || a->psi[i] <= 0.0)
            return err_set(err, ERR_MODEL, "the PLDA has a variance that is not above 0");
    return 0;
}

static void copy_plda_arrays(const struct plda_arrays *a, struct plda *p)
{
    p->mean2 = p->mean1 + a->size;
    p->mu = p->mean2 + a->lda;
    p->phi = p->mu + a->lda;
    p->first = p->phi + a->lda;
    p->second = p->first + (size_t)a->lda * a->size;
    memcpy(p->mean1, a->mean1, a->size * sizeof(double));
    memcpy(p->mean2, a->mean2, a->lda * sizeof(double));
    memcpy(p->mu, a->mu, a->lda * sizeof(double));
    for (uint32_t i = 0; i < a->size; i++)
        for (uint32_t k = 0; k < a->lda; k++)
            p->first[(size_t)k * a->size + i] = a->matrix[(size_t)i * a->lda + k];
}

int plda_new(const struct plda_arrays *a, uint32_t dim, struct plda **ret, struct err *err)
{
    size_t square = (size_t)a->lda * a->lda;
    struct plda *p;
    double *work;
    int rc = check_plda_arrays(a, err);

    if (rc != 0)
        return rc;
    p = calloc(1, sizeof(*p));
    work = malloc(3 * square * sizeof(*work));
    if (p)
        p->mean1 = malloc((a->size + 3 * (size_t)a->lda + (size_t)a->lda * a->size + square) *
                          sizeof(double));
    if (!p || !p->mean1 || !work) {
        plda_free(p);
        free(work);
        return err_set(err, ERR_NOMEM, "no memory for the PLDA");
    }
    p->size = a->size;
    p->lda = a->lda;
    p->dim = dim == 0 || dim > a->lda ? a->lda : dim;
    copy_plda_arrays(a, p);
    rc = solve_eigenproblem(a, p, work, err);
    if (rc == 0 && (!all_finite(p->phi, p->lda) || p->phi[p->lda - 1] < 0.0))
        rc = err_set(err, ERR_INPUT, "its speakers do not differ");
    free(work);
    if (rc != 0) {
        plda_free(p);
        return rc == ERR_NOMEM ? rc
                               : err_set(err, ERR_MODEL,
                                         "the PLDA cannot be used: its "
                                         "matrices are singular");
    }
    *ret = p;
    return 0;
}

uint32_t plda_size(const struct plda *p) { return p->size; }

uint32_t plda_dim(const struct plda *p) { return p->dim; }

const double *plda_phi(const struct plda *p) { return p->phi; }

/* Makes x as long as the root of its number of values; one that is 0 stays so. */
static void scale_to_root_length(double *x, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    for (uint32_t i = 0; sum > 0.0 && i < n; i++)
        x[i] *= sqrt((double)n / sum);
}

/* ret = matrix x - shift. */
static void project_and_shift(const double *matrix, const double *x, const double *shift,
                              uint32_t rows, uint32_t columns, double *ret)
{
    for (uint32_t r = 0; r < rows; r++) {
        const double *row = matrix + (size_t)r * columns;
        double sum = 0.0;

#pragma omp simd reduction(+ : sum)
        for (uint32_t c = 0; c < columns; c++)
            sum += row[c] * x[c];
        ret[r] = sum - (shift ? shift[r] : 0.0);
    }
}

/* work: [size + lda]. */
static void apply_one(const struct plda *p, const float *vector, double *work, double *ret)
{
    double *x = work, *y = work + p->size;

    for (uint32_t i = 0; i < p->size; i++)
        x[i] = (double)vector[i] - p->mean1[i];
    scale_to_root_length(x, p->size);
    project_and_shift(p->first, x, p->mean2, p->lda, p->size, y);
    scale_to_root_length(y, p->lda);
    for (uint32_t i = 0; i < p->lda; i++)
        y[i] -= p->mu[i];
    project_and_shift(p->second, y, NULL, p->dim, p->lda, ret);
}

struct applying {
    const struct plda *p;
    const float *vectors;
    uint32_t n;
    double *work; /* [PLDA_PARTS][size + lda] */
    double *ret;
};

static void apply_part(void *arg, uint32_t part)
{
    const struct applying *a = arg;
    double *work = a->work + (size_t)part * (a->p->size + a->p->lda);

    for (uint32_t i = part; i < a->n; i += PLDA_PARTS)
        apply_one(a->p, a->vectors + (size_t)i * a->p->size, work, a->ret + (size_t)i * a->p->dim);
}

int plda_apply(const struct plda *p, const float *vectors, uint32_t n, uint32_t threads,
               double *ret, struct err *err)
{
    size_t each = (size_t)p->size + p->lda;
    struct applying a = {p, vectors, n, malloc(PLDA_PARTS * each * sizeof(double)), ret};

    if (!a.work)
        return err_set(err, ERR_NOMEM, "no memory for the PLDA of %u vectors", n);
    threads_run(threads, PLDA_PARTS, apply_part, &a);
    free(a.work);
    return 0;
}

/* ---- variational Bayes */

#define GAIN_LEAST 1e-4
#define VBX_PARTS 16u /* of the vectors, summed one by one: the same for any number of threads */
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

static int new_parts(const struct vbx *v, struct part parts[VBX_PARTS], struct err *err)
{
    size_t each = (size_t)v->speakers * (v->dim + 2);
    double *all = calloc(VBX_PARTS * each, sizeof(*all));

    if (!all)
        return err_set(err, ERR_NOMEM, "no memory for %u speakers", v->speakers);
    for (uint32_t i = 0; i < VBX_PARTS; i++) {
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
static void sum_parts(const struct vbx *v, struct part parts[VBX_PARTS])
{
    size_t n = (size_t)v->speakers * v->dim;

    for (uint32_t i = 1; i < VBX_PARTS; i++) {
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
    uint32_t from = (uint32_t)((uint64_t)r->n * number / VBX_PARTS);
    uint32_t to = (uint32_t)((uint64_t)r->n * (number + 1) / VBX_PARTS);

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
                        struct part parts[VBX_PARTS])
{
    struct round r = {v, features, n, parts};

    threads_run(threads, VBX_PARTS, respond_part, &r);
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
    struct part parts[VBX_PARTS] = {{0}};
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
