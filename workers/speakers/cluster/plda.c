#include "workers/speakers/cluster/plda.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/threads.h"
#include "workers/speakers/cluster/eigen.h"

#define PARTS 32u /* of the vectors, side by side */

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
    double *work; /* [PARTS][size + lda] */
    double *ret;
};

static void apply_part(void *arg, uint32_t part)
{
    const struct applying *a = arg;
    double *work = a->work + (size_t)part * (a->p->size + a->p->lda);

    for (uint32_t i = part; i < a->n; i += PARTS)
        apply_one(a->p, a->vectors + (size_t)i * a->p->size, work, a->ret + (size_t)i * a->p->dim);
}

int plda_apply(const struct plda *p, const float *vectors, uint32_t n, uint32_t threads,
               double *ret, struct err *err)
{
    size_t each = (size_t)p->size + p->lda;
    struct applying a = {p, vectors, n, malloc(PARTS * each * sizeof(double)), ret};

    if (!a.work)
        return err_set(err, ERR_NOMEM, "no memory for the PLDA of %u vectors", n);
    threads_run(threads, PARTS, apply_part, &a);
    free(a.work);
    return 0;
}
