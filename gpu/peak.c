#include "gpu/peak.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/number.h"
#include "gpu/backend.h"

#define SMALL 2048 /* rows and columns of the product that is called the peak, */
#define LARGE 8192 /* and where that takes less than BRIEF_NS */
#define BRIEF_NS 1000000
#define TOTAL_NS 5000000 /* products of one measurement: waiting for them is part of it */
#define MOST 64
#define WARM 2
#define COPY_SMALL ((size_t)64 << 20) /* bytes, as above */
#define COPY_LARGE ((size_t)1 << 30)
#define COPY_COLUMNS 4096
#define COPIES 5

struct peak {
    struct backend *be; /* borrowed */
    struct linear *linear;
    void *x, *y;
    enum dtype type;
    int64_t size;
    int64_t ns;     /* that `times` of them took the last time */
    uint32_t times; /* in a row, before they are waited for */
};

/* ---- products */

void peak_free(struct peak *p)
{
    if (!p)
        return;
    p->be->ops->linear_free(p->be, p->linear);
    p->be->ops->release(p->be, p->x);
    p->be->ops->release(p->be, p->y);
    free(p);
}

static int time_multiplications(struct peak *p, struct err *err)
{
    struct tensor x = tensor_of(p->type, p->x, p->size, p->size);
    struct tensor y = tensor_of(p->type, p->y, p->size, p->size);
    int64_t start = clock_mono_ns();
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < p->times; i++)
        rc = p->be->ops->linear(p->be, p->linear, x, EPILOGUE_NONE, y, err);
    if (rc == 0)
        rc = p->be->ops->sync(p->be, err);
    p->ns = clock_mono_ns() - start;
    return rc;
}

static int prepare_peak_test(struct peak *p, enum precision precision, float *w, struct err *err)
{
    struct backend *be = p->be;
    size_t count = (size_t)(p->size * p->size), bytes = count * dtype_size(p->type);
    int rc;

    for (size_t i = 0; i < count; i++)
        w[i] = (float)number_uniform(1, i) * 0.2f - 0.1f;
    rc = be->ops->linear_new(be, precision, LINEAR_WIDE, p->size, p->size, p->size, w, NULL,
                             &p->linear, err);
    if (rc == 0)
        rc = be->ops->alloc(be, bytes, &p->x, err);
    if (rc == 0)
        rc = be->ops->alloc(be, bytes, &p->y, err);
    if (rc == 0)
        rc = be->ops->put(be, tensor_of(p->type, p->x, p->size, p->size), w, err);
    for (int i = 0; rc == 0 && i < WARM; i++)
        rc = time_multiplications(p, err);
    return rc;
}

static int new_sized(struct backend *be, enum precision precision, int64_t size, struct peak **ret,
                     struct err *err)
{
    struct peak *p = calloc(1, sizeof(*p));
    float *w = malloc((size_t)(size * size) * sizeof(*w));
    int rc;

    if (!p || !w) {
        free(p);
        free(w);
        return err_set(err, ERR_NOMEM, "out of memory for a measurement");
    }
    *p = (struct peak){.be = be, .type = precision_type(precision), .size = size, .times = 1};
    rc = prepare_peak_test(p, precision, w, err);
    free(w);
    if (rc != 0)
        peak_free(p);
    else
        *ret = p;
    return rc;
}

/* A product that takes long enough on this device for the wait not to count. */
int peak_new(struct backend *be, enum precision precision, struct peak **ret, struct err *err)
{
    struct peak *p = NULL, *large = NULL;
    struct err lack;
    int rc = backend_precision(be, precision, &precision, err);

    if (rc == 0)
        rc = new_sized(be, precision, SMALL, &p, err);
    if (rc != 0)
        return rc;
    if (p->ns < BRIEF_NS) {
        rc = new_sized(be, precision, LARGE, &large, &lack);
        if (rc != 0 && rc != ERR_VRAM && rc != ERR_NOMEM) { /* else the small one it is */
            peak_free(p);
            *err = lack;
            return rc;
        }
    }
    if (large) {
        peak_free(p);
        p = large;
    }
    p->times = p->ns >= TOTAL_NS ? 1 : (uint32_t)(TOTAL_NS / (p->ns > 0 ? p->ns : 1)) + 1;
    p->times = p->times > MOST ? MOST : p->times;
    *ret = p;
    return 0;
}

int peak_gflops_s(struct peak *p, double *ret, struct err *err)
{
    double size = (double)p->size;
    int rc = time_multiplications(p, err);

    if (rc == 0)
        *ret = 2.0 * size * size * size * p->times / (double)p->ns;
    return rc;
}

/* ---- memory */

/* Bytes read and written per second by a copy of so many, the best of COPIES; the first one warms
 * up. */
static int copy_rate(struct backend *be, size_t bytes, double *ret, struct err *err)
{
    int64_t rows = (int64_t)(bytes / COPY_COLUMNS / sizeof(float));
    void *a = NULL, *b = NULL;
    double best = 0.0;
    int rc = be->ops->alloc(be, bytes, &a, err);

    if (rc == 0)
        rc = be->ops->alloc(be, bytes, &b, err);
    for (uint32_t i = 0; rc == 0 && i <= COPIES; i++) {
        int64_t start = clock_mono_ns();
        double rate;

        rc = be->ops->copy(be, tensor_of(DTYPE_F32, b, rows, COPY_COLUMNS),
                           tensor_of(DTYPE_F32, a, rows, COPY_COLUMNS), err);
        if (rc == 0)
            rc = be->ops->sync(be, err);
        rate = 2.0 * (double)bytes / (double)(clock_mono_ns() - start);
        best = i > 0 && rate > best ? rate : best;
    }
    be->ops->release(be, a);
    be->ops->release(be, b);
    if (rc == 0)
        *ret = best;
    return rc;
}

int peak_gbytes_s(struct backend *be, double *ret, struct err *err)
{
    struct err lack;
    int rc = copy_rate(be, COPY_SMALL, ret, err);

    if (rc != 0 || 2.0 * COPY_SMALL / *ret > BRIEF_NS)
        return rc;
    rc = copy_rate(be, COPY_LARGE, ret, &lack);
    if (rc == 0 || rc == ERR_VRAM || rc == ERR_NOMEM)
        return 0;
    *err = lack;
    return rc;
}
