/* tests/ops/reference_images.h - convolutions over images, activations, and what is taken over rows
 * of windows and sequences, in double precision and as plainly as can be. */
#ifndef NIGHTSHIFT_TESTS_OPS_REFERENCE_IMAGES_H
#define NIGHTSHIFT_TESTS_OPS_REFERENCE_IMAGES_H

#include <stddef.h>

#include "gpu/backend.h"

/* One image: x[height][width][in] -> y[out_height][out_width][out]; w as conv2d_new has it. */
void reference_conv2d(const struct conv2d_spec *s, const float *x, size_t height, size_t width,
                      const float *w, const float *bias, double *y);
size_t reference_outputs(size_t size, uint32_t before, uint32_t after, uint32_t kernel,
                         uint32_t stride);
double reference_activation(enum activation f, double x);
/* One window: x, y [rows][cols]. */
void reference_instance_norm(const float *x, size_t rows, size_t cols, const float *gamma,
                             const float *beta, double epsilon, double *y);
/* One sequence: x[rows][cols] -> y[cols]. */
void reference_pool(enum pool kind, const float *x, size_t rows, size_t cols, double *y);
/* One set of weights: x[rows][cols], y[2 cols]. */
void reference_weighted_stats(const float *x, size_t rows, size_t cols, const float *weights,
                              double *y);
/* One query of one head: keys and values are rows of `stride` floats; bias[keys] or NULL. */
void reference_attend_span(const float *q, const float *k, const float *v, size_t stride,
                           size_t head, size_t keys, double scale, const float *bias, double *y);

#endif
