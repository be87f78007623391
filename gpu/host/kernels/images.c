/* A row of a depthwise convolution, activations, and what is taken over rows, column by column. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

/* --- a register, or fewer values at the end of a row ------------------------------------------ */

INLINE vreg load_some(const float *p, size_t n)
{
    float t[LANES] = {0};

    if (n >= LANES)
        return r_load(p);
    memcpy(t, p, n * sizeof(*p));
    return r_load(t);
}

INLINE void store_some(float *p, size_t n, vreg v)
{
    float t[LANES];

    if (n >= LANES) {
        r_store(p, v);
        return;
    }
    r_store(t, v);
    memcpy(p, t, n * sizeof(*p));
}

/* --- depthwise ------------------------------------------------------------------------------- */

/* Channels [c, c + n) of the output whose first column is x. */
INLINE vreg depthwise_sum(const struct depthwise_job *j, int64_t x, size_t c, size_t n)
{
    vreg sum = load_some(j->bias + c, n);

    for (int64_t a = 0; a < j->kernel_h; a++) {
        int64_t row = j->from + a;

        if (row < 0 || row >= j->height)
            continue;
        for (int64_t b = 0; b < j->kernel_w; b++) {
            size_t tap = (size_t)(a * j->kernel_w + b), at = (size_t)(row * j->width + x + b);

            if (x + b >= 0 && x + b < j->width)
                sum += load_some(j->x + at * j->channels + c, n) *
                       load_some(j->w + tap * j->channels + c, n);
        }
    }
    return sum;
}

void KERNEL(depthwise)(const struct depthwise_job *j)
{
    for (int64_t i = 0; i < j->columns; i++) {
        float *y = j->y + (size_t)i * j->channels;

        for (size_t c = 0; c < j->channels; c += LANES) {
            size_t n = j->channels - c;
            vreg r = depthwise_sum(j, i * j->stride_w - j->left, c, n);

            if (j->epilogue == EPILOGUE_GELU)
                r = r_gelu(r);
            if (epilogue_adds(j->epilogue))
                r += load_some(y + c, n);
            if (j->epilogue == EPILOGUE_RELU || j->epilogue == EPILOGUE_ADD_RELU)
                r = r_max(r_all(0.0f), r); /* a NaN stays one */
            store_some(y + c, n, r);
        }
    }
}

/* --- activations ----------------------------------------------------------------------------- */

INLINE vreg activated(vreg x, enum activation f)
{
    switch (f) {
    case ACTIVATION_RELU:
        return r_max(r_all(0.0f), x);
    case ACTIVATION_LEAKY_RELU:
        return r_pick(x < r_all(0.0f), x * r_all(0.01f), x);
    case ACTIVATION_ABS:
        return r_abs(x);
    case ACTIVATION_GELU:
        return r_gelu(x);
    case ACTIVATION_TANH:
        return r_tanh(x);
    case ACTIVATION_SIGMOID:
        return r_sigmoid(x);
    }
    return x;
}

INLINE void activate_all(enum activation f, const float *x, size_t n, void *y, bool bf16)
{
    for (size_t i = 0; i < n; i += LANES) {
        vreg r = activated(load_some(x + i, n - i), f);
        float t[LANES];

        if (!bf16) {
            store_some((float *)y + i, n - i, r);
            continue;
        }
        r_store(t, r);
        for (size_t k = 0; k < LANES && i + k < n; k++)
            ((uint16_t *)y)[i + k] = f32_to_bf16(t[k]);
    }
}

void KERNEL(activate)(enum activation f, const float *x, size_t n, void *y, bool bf16)
{
    switch (f) { /* a loop for each, without the question in it */
    case ACTIVATION_RELU:
        activate_all(ACTIVATION_RELU, x, n, y, bf16);
        break;
    case ACTIVATION_LEAKY_RELU:
        activate_all(ACTIVATION_LEAKY_RELU, x, n, y, bf16);
        break;
    case ACTIVATION_ABS:
        activate_all(ACTIVATION_ABS, x, n, y, bf16);
        break;
    case ACTIVATION_GELU:
        activate_all(ACTIVATION_GELU, x, n, y, bf16);
        break;
    case ACTIVATION_TANH:
        activate_all(ACTIVATION_TANH, x, n, y, bf16);
        break;
    case ACTIVATION_SIGMOID:
        activate_all(ACTIVATION_SIGMOID, x, n, y, bf16);
        break;
    }
}

/* --- over the rows --------------------------------------------------------------------------- */

#define HALF (LANES / 2)             /* doubles of a register */
#define HALVES (KERNEL_BLOCK / HALF) /* registers of doubles for all columns */

/* cols: a constant where they are all, so that nothing is asked in the loop. */
INLINE void sum_rows(const float *x, size_t stride, size_t rows, size_t cols, const float *weights,
                     const double *centre, double *sum)
{
    dreg acc[HALVES] = {{0}}, middle[HALVES] = {{0}};
    float t[KERNEL_BLOCK] = {0};

    if (centre)
        memcpy(middle, centre, cols * sizeof(double));
    for (size_t r = 0; r < rows; r++) {
        double weight = weights ? (double)weights[r] : 1.0;
        const float *row = x + r * stride;

        if (cols < KERNEL_BLOCK)
            row = memcpy(t, row, cols * sizeof(*row));
        for (int i = 0; i < HALVES; i++) {
            dreg d = d_load(row + i * HALF) - middle[i];

            acc[i] += weight * (centre ? d * d : d);
        }
    }
    memcpy(sum, acc, cols * sizeof(double));
}

void KERNEL(column_sums)(const float *x, size_t stride, size_t rows, size_t cols,
                         const float *weights, const double *centre, double *sum)
{
    if (cols == KERNEL_BLOCK)
        sum_rows(x, stride, rows, KERNEL_BLOCK, weights, centre, sum);
    else
        sum_rows(x, stride, rows, cols, weights, centre, sum);
}

INLINE void scale_some(const float *x, size_t x_stride, size_t rows, size_t cols,
                       const float *centre, const float *scale, const float *beta, float *y,
                       size_t y_stride)
{
    vreg c[PARTS], s[PARTS], b[PARTS];
    int parts = (int)((cols + LANES - 1) / LANES);

    for (int i = 0; i < parts; i++) {
        size_t at = (size_t)i * LANES;

        c[i] = load_some(centre + at, cols - at);
        s[i] = load_some(scale + at, cols - at);
        b[i] = load_some(beta + at, cols - at);
    }
    for (size_t r = 0; r < rows; r++) {
        for (int i = 0; i < parts; i++) {
            size_t at = (size_t)i * LANES;

            store_some(y + r * y_stride + at, cols - at,
                       (load_some(x + r * x_stride + at, cols - at) - c[i]) * s[i] + b[i]);
        }
    }
}

void KERNEL(scale_columns)(const float *x, size_t x_stride, size_t rows, size_t cols,
                           const float *centre, const float *scale, const float *beta, float *y,
                           size_t y_stride)
{
    if (cols == KERNEL_BLOCK)
        scale_some(x, x_stride, rows, KERNEL_BLOCK, centre, scale, beta, y, y_stride);
    else
        scale_some(x, x_stride, rows, cols, centre, scale, beta, y, y_stride);
}

void KERNEL(highest_rows)(const float *x, size_t stride, size_t rows, size_t cols, float *y)
{
    for (size_t c = 0; c < cols; c += LANES) {
        vreg high = load_some(x + c, cols - c);

        for (size_t r = 1; r < rows; r++) {
            vreg v = load_some(x + r * stride + c, cols - c);

            high = r_pick((high > v) | (high != high), high, v); /* a NaN stays */
        }
        store_some(y + c, cols - c, high);
    }
}

/* Registers whose sums grow beside each other: a multiply-add takes as many cycles. */
#define SUMS 4

void KERNEL(weigh_rows)(const float *const *x, const float *w, size_t taps, size_t n, float *y)
{
    size_t i = 0;

    for (; i + SUMS * LANES <= n; i += SUMS * LANES) {
        vreg sum[SUMS] = {{0}};

        for (size_t k = 0; k < taps; k++)
            for (int j = 0; j < SUMS; j++)
                sum[j] += w[k] * r_load(x[k] + i + j * LANES);
        for (int j = 0; j < SUMS; j++)
            r_store(y + i + j * LANES, sum[j]);
    }
    for (; i < n; i += LANES) {
        vreg sum = {0};

        for (size_t k = 0; k < taps; k++)
            sum += w[k] * load_some(x[k] + i, n - i);
        store_some(y + i, n - i, sum);
    }
}
