#include "tests/ops/reference.h"

#include <math.h>

#define HEAD 64
#define SAMPLES 480000
#define PI 3.14159265358979323846

void reference_linear(const float *x, const float *w, const float *bias, size_t rows, size_t in,
                      size_t out, double *y)
{
    for (size_t r = 0; r < rows; r++) {
        for (size_t o = 0; o < out; o++) {
            double sum = bias ? (double)bias[o] : 0.0;

            for (size_t i = 0; i < in; i++)
                sum += (double)x[r * in + i] * (double)w[o * in + i];
            y[r * out + o] = sum;
        }
    }
}

double reference_gelu(double x) { return 0.5 * x * (1.0 + erf(x / sqrt(2.0))); }

void reference_norm(const float *x, const float *gamma, const float *beta, size_t n, double *y)
{
    double mean = 0.0, variance = 0.0;

    for (size_t i = 0; i < n; i++)
        mean += (double)x[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        variance += ((double)x[i] - mean) * ((double)x[i] - mean) / (double)n;
    for (size_t i = 0; i < n; i++)
        y[i] = ((double)x[i] - mean) / sqrt(variance + 1e-5) * (double)gamma[i] + (double)beta[i];
}

void reference_attend(const float *q, const float *k, const float *v, size_t stride, size_t keys,
                      double *y)
{
    double weights[2048], high = -INFINITY, sum = 0.0;

    for (size_t t = 0; t < keys; t++) {
        weights[t] = 0.0;
        for (size_t d = 0; d < HEAD; d++)
            weights[t] += (double)q[d] * (double)k[t * stride + d] / 8.0;
        high = fmax(high, weights[t]);
    }
    for (size_t t = 0; t < keys; t++) {
        weights[t] = exp(weights[t] - high);
        sum += weights[t];
    }
    for (size_t d = 0; d < HEAD; d++) {
        y[d] = 0.0;
        for (size_t t = 0; t < keys; t++)
            y[d] += weights[t] / sum * (double)v[t * stride + d];
    }
}

static double sample(const float *pcm, size_t n, long at)
{
    at = at < 0 ? -at : at >= SAMPLES ? 2 * (SAMPLES - 1) - at : at;
    return (size_t)at < n ? (double)pcm[at] : 0.0;
}

static double to_mel(double f)
{
    return f < 1000.0 ? f * 3.0 / 200.0 : 15.0 + 27.0 * log(f / 1000.0) / log(6.4);
}

static double to_hz(double m)
{
    return m < 15.0 ? m * 200.0 / 3.0 : 1000.0 * pow(6.4, (m - 15.0) / 27.0);
}

void reference_mel(const float *pcm, size_t n, size_t frame, size_t bins, double *out)
{
    double power[201], top = to_mel(8000.0);

    for (size_t k = 0; k <= 200; k++) {
        double re = 0.0, im = 0.0;

        for (size_t i = 0; i < 400; i++) {
            double window = 0.5 - 0.5 * cos(2.0 * PI * (double)i / 400.0);
            double x = window * sample(pcm, n, (long)(frame * 160 + i) - 200);

            re += x * cos(2.0 * PI * (double)(k * i % 400) / 400.0);
            im -= x * sin(2.0 * PI * (double)(k * i % 400) / 400.0);
        }
        power[k] = re * re + im * im;
    }
    for (size_t b = 0; b < bins; b++) {
        double lo = to_hz(top * (double)b / (double)(bins + 1)), sum = 0.0;
        double mid = to_hz(top * (double)(b + 1) / (double)(bins + 1));
        double hi = to_hz(top * (double)(b + 2) / (double)(bins + 1));

        for (size_t k = 0; k <= 200; k++) {
            double f = 40.0 * (double)k;

            sum += fmax(0.0, fmin((f - lo) / (mid - lo), (hi - f) / (hi - mid))) * 2.0 / (hi - lo) *
                   power[k];
        }
        out[b] = log10(fmax(sum, 1e-10));
    }
}
