/* tests/ops/reference.h - the operations once more, in double precision and as plainly as can be.
 */
#ifndef NIGHTSHIFT_TESTS_OPS_REFERENCE_H
#define NIGHTSHIFT_TESTS_OPS_REFERENCE_H

#include <stddef.h>

/* y[rows][out] = x[rows][in] w[out][in]^T + bias */
void reference_linear(const float *x, const float *w, const float *bias, size_t rows, size_t in,
                      size_t out, double *y);
double reference_gelu(double x);
void reference_norm(const float *x, const float *gamma, const float *beta, size_t n, double *y);
/* One query of one head; k, v: rows of `stride` floats. */
void reference_attend(const float *q, const float *k, const float *v, size_t stride, size_t keys,
                      double *y);
/* Whisper's log-mel of one frame before the clamp, by the definition: out[bins]. */
void reference_mel(const float *pcm, size_t n, size_t frame, size_t bins, double *out);

#endif
