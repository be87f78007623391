/* tests/ops/reference_lstm.h - a long short-term memory as PyTorch's documentation has it. */
#ifndef NIGHTSHIFT_TESTS_OPS_REFERENCE_LSTM_H
#define NIGHTSHIFT_TESTS_OPS_REFERENCE_LSTM_H

#include <stdbool.h>
#include <stddef.h>

struct reference_lstm {
    size_t in, hidden; /* hidden <= 512 */
    const float *w_ih, *w_hh;
    const float *b_ih, *b_hh; /* or NULL */
};

/* One sequence: x[steps][in], of which `length` are; h, c[hidden] move on; y[steps][hidden]. */
void reference_lstm(const struct reference_lstm *l, const float *x, size_t steps, size_t length,
                    bool reverse, double *h, double *c, double *y);

#endif
