/* gpu/cuda/check_run.c - does this device compute, and rightly?
 *
 * Small operations through the module's own table, against sums in double precision made here:
 * matrix products of every precision that the device has (cuBLASLt, and our kernels that quantise),
 * layer norm (our kernels: is their code for this device in the module?), and the attention, fused
 * (cuDNN's graph, heuristic and engines) and not. */
#include "gpu/cuda/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 64
#define IN 64
#define OUT 32
#define HEADS 2
#define KEYS 128
#define WIDTH (HEADS * CUDA_HEAD)

struct sums {
    double worst; /* the largest difference, as a share of the largest value */
    double high;
};

static void sums_add(struct sums *s, double got, double want)
{
    double d = fabs(got - want);

    if (!(d <= s->worst)) /* also NaN */
        s->worst = d;
    s->high = fmax(s->high, fabs(want));
}

static double sums_share(const struct sums *s) { return s->worst / fmax(s->high, 1e-30); }

/* Whole eighths between -1 and 1: every precision holds them exactly, and their products. */
static float make_test_value(uint32_t i, uint32_t seed)
{
    uint32_t h = (i + 1) * 2654435761u ^ seed * 40503u;

    return (float)((int)((h >> 13) % 17u) - 8) / 8.0f;
}

static void fill_test_values(float *x, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = make_test_value((uint32_t)i, seed);
}

static int upload_tensor(struct backend *be, enum dtype type, int64_t rows, int64_t cols,
                         const float *x, struct tensor *ret, struct err *err)
{
    void *p = NULL;
    int rc = be->ops->alloc(be, (size_t)(rows * cols) * dtype_size(type), &p, err);

    *ret = tensor_of(type, p, rows, cols);
    if (rc == 0 && x)
        rc = be->ops->put(be, *ret, x, err);
    return rc;
}

/* Says how the operation went. rc: what it returned, with err. Returns rc when the device cannot be
 * used any more. */
static int report_operation(struct check *c, const char *label, const char *name, const char *what,
                            int rc, const struct err *err, double share, double allowed)
{
    if (rc == ERR_VRAM)
        check_say(c, CHECK_WARNING, name, "memory for a small operation",
                  "end the programs that use the card's memory (nvidia-smi lists them)", "%s: %s",
                  label, err->msg);
    else if (rc != 0)
        check_say(c, CHECK_BROKEN, name, "an operation that runs",
                  "reinstall the driver and the library named above, of the versions wanted; when "
                  "only this card fails, leave it out with --devices",
                  "%s: %s: %s", label, what, err->msg);
    else if (!(share <= allowed))
        check_say(c, CHECK_BROKEN, name, "the right result",
                  "leave this card out with --devices, and have it tested (nvidia-smi -q -d ECC, "
                  "dcgmi diag): it computes wrongly",
                  "%s: %s is wrong by %.1e of the largest value, %.1e is allowed", label, what,
                  share, allowed);
    return rc == ERR_DEVICE ? rc : 0;
}

/* ------------------------------------------------------------------------------- products */

/* Exact in all but int8 and fp8, whose inputs are rounded to 8 bits. */
static double product_allowed(enum precision p)
{
    return p == PRECISION_INT8 ? 0.02 : p == PRECISION_FP8 ? 0.05 : 1e-6;
}

static int measure_product_error(struct backend *be, enum precision p, double *share,
                                 struct err *err)
{
    float *x = malloc(sizeof(float) * (ROWS * IN + OUT * IN + ROWS * OUT));
    float *w = x + ROWS * IN, *y = w + OUT * IN, bias[OUT];
    struct tensor tx = {0}, ty = {0};
    struct linear *l = NULL;
    struct sums sums = {0};
    int rc;

    if (!x)
        return err_set(err, ERR_NOMEM, "out of memory for a check");
    fill_test_values(x, ROWS * IN, 1);
    fill_test_values(w, OUT * IN, 2);
    fill_test_values(bias, OUT, 3);
    rc = be->ops->linear_new(be, p, LINEAR_WIDE, ROWS, OUT, IN, w, bias, &l, err);
    if (rc == 0)
        rc = upload_tensor(be, precision_type(p), ROWS, IN, x, &tx, err);
    if (rc == 0)
        rc = upload_tensor(be, DTYPE_F32, ROWS, OUT, NULL, &ty, err);
    if (rc == 0)
        rc = be->ops->linear(be, l, tx, EPILOGUE_NONE, ty, err);
    if (rc == 0)
        rc = be->ops->get(be, y, ty, err);
    for (size_t r = 0; rc == 0 && r < ROWS; r++) {
        for (size_t o = 0; o < OUT; o++) {
            double want = (double)bias[o];

            for (size_t k = 0; k < IN; k++)
                want += (double)x[r * IN + k] * (double)w[o * IN + k];
            sums_add(&sums, (double)y[r * OUT + o], want);
        }
    }
    *share = sums_share(&sums);
    be->ops->release(be, tx.data);
    be->ops->release(be, ty.data);
    be->ops->linear_free(be, l);
    free(x);
    return rc;
}

static int check_products(struct check *c, struct backend *be, const char *label)
{
    char done[80] = "";
    int before = c->worst, rc = 0;

    c->worst = CHECK_WELL;
    for (int p = PRECISION_F32; rc == 0 && p < PRECISION_COUNT; p++) {
        const char *name = precision_name((enum precision)p);
        struct err err = {0};
        double share = 0.0;
        char what[32];
        int result;

        if (!(be->info.have & 1u << p))
            continue;
        snprintf(what, sizeof(what), "a product in %s", name);
        result = measure_product_error(be, (enum precision)p, &share, &err);
        rc = report_operation(c, label, "products", what, result, &err, share,
                              product_allowed((enum precision)p));
        if (result == 0)
            snprintf(done + strlen(done), sizeof(done) - strlen(done), "%s%s", done[0] ? ", " : "",
                     name);
    }
    if (c->worst == CHECK_WELL)
        check_say(c, CHECK_WELL, "products", "", "", "%s: %s", label, done);
    c->worst = before > c->worst ? before : c->worst;
    return rc;
}

/* ------------------------------------------------------------------------------- our kernels */

static int measure_norm_error(struct backend *be, double *share, struct err *err)
{
    float x[4 * IN], g[IN], b[IN], y[4 * IN];
    struct tensor tx = {0}, tg = {0}, tb = {0};
    struct sums sums = {0};
    int rc;

    fill_test_values(x, 4 * IN, 5);
    fill_test_values(g, IN, 6);
    fill_test_values(b, IN, 7);
    rc = upload_tensor(be, DTYPE_F32, 4, IN, x, &tx, err);
    if (rc == 0)
        rc = upload_tensor(be, DTYPE_F32, 1, IN, g, &tg, err);
    if (rc == 0)
        rc = upload_tensor(be, DTYPE_F32, 1, IN, b, &tb, err);
    if (rc == 0)
        rc = be->ops->layer_norm(be, tx, tg, tb, 1e-5f, tx, err);
    if (rc == 0)
        rc = be->ops->get(be, y, tx, err);
    for (size_t r = 0; rc == 0 && r < 4; r++) {
        double mean = 0.0, variance = 0.0;

        for (size_t i = 0; i < IN; i++)
            mean += (double)x[r * IN + i] / IN;
        for (size_t i = 0; i < IN; i++)
            variance += ((double)x[r * IN + i] - mean) * ((double)x[r * IN + i] - mean) / IN;
        for (size_t i = 0; i < IN; i++)
            sums_add(&sums, (double)y[r * IN + i],
                     ((double)x[r * IN + i] - mean) / sqrt(variance + 1e-5) * (double)g[i] +
                         (double)b[i]);
    }
    *share = sums_share(&sums);
    be->ops->release(be, tx.data);
    be->ops->release(be, tg.data);
    be->ops->release(be, tb.data);
    return rc;
}

static int check_kernels(struct check *c, struct backend *be, const char *label)
{
    struct err err = {0};
    double share = 0.0;
    int rc = measure_norm_error(be, &share, &err),
        lost = report_operation(c, label, "kernels", "a layer norm", rc, &err, share, 1e-5);

    if (rc == 0 && share <= 1e-5)
        check_say(c, CHECK_WELL, "kernels", "", "", "%s: the module's own run on %s", label,
                  be->info.features);
    return lost;
}

/* ------------------------------------------------------------------------------- attention */

struct attend {
    float q[KEYS * WIDTH], k[KEYS * WIDTH], v[KEYS * WIDTH], out[KEYS * WIDTH];
    double weights[KEYS];
};

/* Row r, head h of the result, by the definition. */
static void attend_row(struct attend *a, size_t r, size_t h, struct sums *sums)
{
    const float *q = a->q + r * WIDTH + h * CUDA_HEAD;
    double total = 0.0;

    for (size_t i = 0; i < KEYS; i++) {
        double dot = 0.0;

        for (size_t j = 0; j < CUDA_HEAD; j++)
            dot += (double)q[j] * (double)a->k[i * WIDTH + h * CUDA_HEAD + j];
        a->weights[i] = exp(dot / 8.0);
        total += a->weights[i];
    }
    for (size_t j = 0; j < CUDA_HEAD; j++) {
        double want = 0.0;

        for (size_t i = 0; i < KEYS; i++)
            want += a->weights[i] / total * (double)a->v[i * WIDTH + h * CUDA_HEAD + j];
        sums_add(sums, (double)a->out[r * WIDTH + h * CUDA_HEAD + j], want);
    }
}

/* fused: cuDNN's, else whichever the operation takes for float32. */
static int measure_attention_error(struct cuda *device, bool fused, double *share, struct err *err)
{
    struct backend *be = &device->base;
    enum dtype type = fused ? DTYPE_F16 : DTYPE_F32;
    struct tensor q = {0}, k = {0}, v = {0}, out = {0};
    struct attend *a = malloc(sizeof(*a));
    struct sums sums = {0};
    int rc;

    if (!a)
        return err_set(err, ERR_NOMEM, "out of memory for a check");
    fill_test_values(a->q, KEYS * WIDTH, 8);
    fill_test_values(a->k, KEYS * WIDTH, 9);
    fill_test_values(a->v, KEYS * WIDTH, 10);
    rc = upload_tensor(be, type, KEYS, WIDTH, a->q, &q, err);
    if (rc == 0)
        rc = upload_tensor(be, type, KEYS, WIDTH, a->k, &k, err);
    if (rc == 0)
        rc = upload_tensor(be, type, KEYS, WIDTH, a->v, &v, err);
    if (rc == 0)
        rc = upload_tensor(be, type, KEYS, WIDTH, NULL, &out, err);
    if (rc == 0)
        rc = fused ? cuda_sdpa(device, 1, q, k, v, out, err)
                   : be->ops->attention(be, 1, q, k, v, out, err);
    if (rc == 0)
        rc = be->ops->get(be, a->out, out, err);
    for (size_t r = 0; rc == 0 && r < KEYS; r++)
        for (size_t h = 0; h < HEADS; h++)
            attend_row(a, r, h, &sums);
    *share = sums_share(&sums);
    be->ops->release(be, q.data);
    be->ops->release(be, k.data);
    be->ops->release(be, v.data);
    be->ops->release(be, out.data);
    free(a);
    return rc;
}

static int check_attention(struct check *c, struct cuda *device, const char *label)
{
    struct err err = {0};
    double plain = 0.0, fused = 0.0;
    int rc = measure_attention_error(device, false, &plain, &err), lost;

    lost = report_operation(c, label, "attention", "attention in float32", rc, &err, plain, 1e-5);
    if (lost != 0 || rc != 0 || plain > 1e-5)
        return lost;
    rc = measure_attention_error(device, true, &fused, &err);
    if (rc == ERR_EMPTY) {
        check_say(c, CHECK_WARNING, "attention",
                  device->dnn ? "a cuDNN that has the fused attention for this device"
                              : "cuDNN, for the fused attention",
                  device->dnn ? "install a newer cuDNN 9; or leave it: results are the same"
                              : "what the lines about cuDNN say",
                  "%s: not fused, which is slower: %s", label, device->dnn_reason);
        return 0;
    }
    /* Values and result have 11 bits; the weights within are rounded to them too. */
    lost =
        report_operation(c, label, "attention", "fused attention in fp16", rc, &err, fused, 5e-3);
    if (rc == 0 && fused <= 5e-3)
        check_say(c, CHECK_WELL, "attention", "", "", "%s: fused (cuDNN) and by products agree",
                  label);
    return lost;
}

void check_run(struct check *c, struct cuda *device, const char *label)
{
    /* Nothing more is asked of a device that was lost. */
    if (check_products(c, &device->base, label) == 0 && check_kernels(c, &device->base, label) == 0)
        check_attention(c, device, label);
}
