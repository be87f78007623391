/* A row of a depthwise convolution, activations, and what is taken over rows, column by column. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

/* --- sixteen values, or fewer at the end of a row ----------------------------------------------
 */

INLINE v16 load_some(const float *p, size_t n)
{
    float t[16] = {0};

    if (n >= 16)
        return v_load(p);
    memcpy(t, p, n * sizeof(*p));
    return v_load(t);
}

INLINE void store_some(float *p, size_t n, v16 v)
{
    float t[16];

    if (n >= 16) {
        v_store(p, v);
        return;
    }
    v_store(t, v);
    memcpy(p, t, n * sizeof(*p));
}

/* --- depthwise ------------------------------------------------------------------------------- */

/* Channels [c, c + n) of the output whose first column is x. */
INLINE v16 depthwise_sum(const struct depthwise_job *j, int64_t x, size_t c, size_t n)
{
    v16 sum = load_some(j->bias + c, n);

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

        for (size_t c = 0; c < j->channels; c += 16) {
            size_t n = j->channels - c;
            v16 r = depthwise_sum(j, i * j->stride_w - j->left, c, n);

            if (j->epilogue == EPILOGUE_GELU)
                r = v_gelu(r);
            if (j->epilogue == EPILOGUE_RELU)
                r = v_max(v_all(0.0f), r); /* a NaN stays one */
            if (j->epilogue == EPILOGUE_ADD)
                r += load_some(y + c, n);
            store_some(y + c, n, r);
        }
    }
}

/* --- activations ----------------------------------------------------------------------------- */

INLINE v16 by_register(v16 x, enum activation f)
{
    vreg part[PARTS];

    memcpy(part, &x, sizeof(x));
    for (int i = 0; i < PARTS; i++)
        part[i] = f == ACTIVATION_TANH ? r_tanh(part[i]) : r_sigmoid(part[i]);
    memcpy(&x, part, sizeof(x));
    return x;
}

INLINE v16 activated(v16 x, enum activation f)
{
    switch (f) {
    case ACTIVATION_RELU:
        return v_max(v_all(0.0f), x);
    case ACTIVATION_LEAKY_RELU:
        return v_pick(v_more(v_all(0.0f), x), x * v_all(0.01f), x);
    case ACTIVATION_ABS:
        return v_abs(x);
    case ACTIVATION_GELU:
        return v_gelu(x);
    case ACTIVATION_TANH:
    case ACTIVATION_SIGMOID:
        return by_register(x, f);
    }
    return x;
}

INLINE void activate_all(enum activation f, const float *x, size_t n, void *y, bool bf16)
{
    for (size_t i = 0; i < n; i += 16) {
        v16 r = activated(load_some(x + i, n - i), f);
        float t[16];

        if (!bf16) {
            store_some((float *)y + i, n - i, r);
            continue;
        }
        v_store(t, r);
        for (size_t k = 0; k < 16 && i + k < n; k++)
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

void KERNEL(column_sums)(const float *x, size_t stride, size_t rows, size_t cols,
                         const float *weights, const double *centre, double *sum)
{
    d8 acc[2] = {{0}}, middle[2] = {{0}};

    if (centre)
        memcpy(middle, centre, cols * sizeof(double));
    for (size_t r = 0; r < rows; r++) {
        v16 row = load_some(x + r * stride, cols);
        double weight = weights ? (double)weights[r] : 1.0;

        for (int i = 0; i < 2; i++) {
            v8 half;
            d8 d;

            memcpy(&half, (const char *)&row + i * sizeof(half), sizeof(half));
            d = __builtin_convertvector(half, d8) - middle[i];
            acc[i] += weight * (centre ? d * d : d);
        }
    }
    memcpy(sum, acc, cols * sizeof(double));
}

void KERNEL(scale_columns)(const float *x, size_t x_stride, size_t rows, size_t cols,
                           const float *centre, const float *scale, const float *beta, float *y,
                           size_t y_stride)
{
    v16 c = load_some(centre, cols), s = load_some(scale, cols), b = load_some(beta, cols);

    for (size_t r = 0; r < rows; r++)
        store_some(y + r * y_stride, cols, (load_some(x + r * x_stride, cols) - c) * s + b);
}

void KERNEL(highest_rows)(const float *x, size_t stride, size_t rows, size_t cols, float *y)
{
    for (size_t c = 0; c < cols; c += 16) {
        v16 high = load_some(x + c, cols - c);

        for (size_t r = 1; r < rows; r++) {
            v16 v = load_some(x + r * stride + c, cols - c);

            high = v_pick(v_more(high, v) | v_unordered(high, high), high, v); /* a NaN stays */
        }
        store_some(y + c, cols - c, high);
    }
}
