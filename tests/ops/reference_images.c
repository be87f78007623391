#include "tests/ops/reference_images.h"

#include <math.h>

size_t reference_outputs(size_t size, uint32_t before, uint32_t after, uint32_t kernel,
                         uint32_t stride)
{
    return (before + size + after - kernel) / stride + 1;
}

/* A pixel's channel, 0 outside of the image. */
static double pixel(const struct conv2d_spec *s, const float *x, size_t height, size_t width,
                    long row, long col, size_t channel)
{
    if (row < 0 || (size_t)row >= height || col < 0 || (size_t)col >= width)
        return 0.0;
    return (double)x[((size_t)row * width + (size_t)col) * (size_t)s->in + channel];
}

static double output(const struct conv2d_spec *s, const float *x, size_t height, size_t width,
                     const float *w, long top, long left, size_t o)
{
    size_t taps = (size_t)s->kernel_h * s->kernel_w, in = s->depthwise ? 1 : (size_t)s->in;
    double sum = 0.0;

    for (size_t i = 0; i < in; i++) {
        for (size_t t = 0; t < taps; t++)
            sum += (double)w[(o * in + i) * taps + t] *
                   pixel(s, x, height, width, top + (long)(t / s->kernel_w),
                         left + (long)(t % s->kernel_w), s->depthwise ? o : i);
    }
    return sum;
}

void reference_conv2d(const struct conv2d_spec *s, const float *x, size_t height, size_t width,
                      const float *w, const float *bias, double *y)
{
    size_t rows = reference_outputs(height, s->top, s->bottom, s->kernel_h, s->stride_h);
    size_t cols = reference_outputs(width, s->left, s->right, s->kernel_w, s->stride_w);

    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < cols; c++) {
            for (size_t o = 0; o < (size_t)s->out; o++)
                *y++ = (bias ? (double)bias[o] : 0.0) +
                       output(s, x, height, width, w, (long)(r * s->stride_h) - (long)s->top,
                              (long)(c * s->stride_w) - (long)s->left, o);
        }
    }
}

double reference_activation(enum activation f, double x)
{
    switch (f) {
    case ACTIVATION_RELU:
        return fmax(x, 0.0);
    case ACTIVATION_LEAKY_RELU:
        return x < 0.0 ? x / 100.0 : x;
    case ACTIVATION_ABS:
        return fabs(x);
    case ACTIVATION_GELU:
        return 0.5 * x * (1.0 + erf(x / sqrt(2.0)));
    case ACTIVATION_TANH:
        return tanh(x);
    case ACTIVATION_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    }
    return NAN;
}

void reference_instance_norm(const float *x, size_t rows, size_t cols, const float *gamma,
                             const float *beta, double epsilon, double *y)
{
    for (size_t c = 0; c < cols; c++) {
        double mean = 0.0, variance = 0.0;

        for (size_t r = 0; r < rows; r++)
            mean += (double)x[r * cols + c] / (double)rows;
        for (size_t r = 0; r < rows; r++)
            variance += pow((double)x[r * cols + c] - mean, 2.0) / (double)rows;
        for (size_t r = 0; r < rows; r++)
            y[r * cols + c] =
                ((double)x[r * cols + c] - mean) / sqrt(variance + epsilon) * (double)gamma[c] +
                (double)beta[c];
    }
}

void reference_pool(enum pool kind, const float *x, size_t rows, size_t cols, double *y)
{
    for (size_t c = 0; c < cols; c++) {
        double sum = 0.0, high = -INFINITY;

        for (size_t r = 0; r < rows; r++) {
            sum += (double)x[r * cols + c];
            high = fmax(high, (double)x[r * cols + c]);
        }
        y[c] = kind == POOL_MEAN ? sum / (double)rows : kind == POOL_MAX ? high : (double)x[c];
    }
}

void reference_weighted_stats(const float *x, size_t rows, size_t cols, const float *weights,
                              double *y)
{
    double v1 = 1e-8, v2 = 0.0;

    for (size_t r = 0; r < rows; r++) {
        v1 += (double)weights[r];
        v2 += pow((double)weights[r], 2.0);
    }
    for (size_t c = 0; c < cols; c++) {
        double mean = 0.0, spread = 0.0;

        for (size_t r = 0; r < rows; r++)
            mean += (double)weights[r] * (double)x[r * cols + c] / v1;
        for (size_t r = 0; r < rows; r++)
            spread += (double)weights[r] * pow((double)x[r * cols + c] - mean, 2.0);
        y[c] = mean;
        y[cols + c] = sqrt(spread / (v1 - v2 / v1 + 1e-8));
    }
}

void reference_attend_span(const float *q, const float *k, const float *v, size_t stride,
                           size_t head, size_t keys, double scale, const float *bias, double *y)
{
    double weights[BACKEND_MAX_KEYS], high = -INFINITY, sum = 0.0;

    for (size_t t = 0; t < keys; t++) {
        weights[t] = 0.0;
        for (size_t d = 0; d < head; d++)
            weights[t] += (double)q[d] * (double)k[t * stride + d];
        weights[t] = weights[t] * scale + (bias ? (double)bias[t] : 0.0);
        high = fmax(high, weights[t]);
    }
    for (size_t t = 0; t < keys; t++) {
        weights[t] = exp(weights[t] - high);
        sum += weights[t];
    }
    for (size_t d = 0; d < head; d++) {
        y[d] = 0.0;
        for (size_t t = 0; t < keys; t++)
            y[d] += weights[t] / sum * (double)v[t * stride + d];
    }
}
