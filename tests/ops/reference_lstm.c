#include "tests/ops/reference_lstm.h"

#include <math.h>

static double sigmoid(double x) { return 1.0 / (1.0 + exp(-x)); }

/* The gate's sum of unit u: its row of the weights is gate * hidden + u. */
static double gate_sum(const struct reference_lstm *l, size_t row, const float *x, const double *h)
{
    double sum = (l->b_ih ? (double)l->b_ih[row] : 0.0) + (l->b_hh ? (double)l->b_hh[row] : 0.0);

    for (size_t i = 0; i < l->in; i++)
        sum += (double)l->w_ih[row * l->in + i] * (double)x[i];
    for (size_t i = 0; i < l->hidden; i++)
        sum += (double)l->w_hh[row * l->hidden + i] * h[i];
    return sum;
}

void reference_lstm(const struct reference_lstm *l, const float *x, size_t steps, size_t length,
                    bool reverse, double *h, double *c, double *y)
{
    size_t n = l->hidden;
    double before[512];

    for (size_t i = 0; i < steps * n; i++)
        y[i] = 0.0;
    for (size_t s = 0; s < length; s++) {
        size_t t = reverse ? length - 1 - s : s;

        for (size_t u = 0; u < n; u++)
            before[u] = h[u];
        for (size_t u = 0; u < n; u++) {
            double in = sigmoid(gate_sum(l, u, x + t * l->in, before));
            double forget = sigmoid(gate_sum(l, n + u, x + t * l->in, before));
            double cell = tanh(gate_sum(l, 2 * n + u, x + t * l->in, before));
            double out = sigmoid(gate_sum(l, 3 * n + u, x + t * l->in, before));

            c[u] = forget * c[u] + in * cell;
            h[u] = y[t * n + u] = out * tanh(c[u]);
        }
    }
}
