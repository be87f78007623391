/* tests/common/fft.h - spectra of real signals, in float64, one after the other: what the kernels
 * of gpu/host/kernels/stockham.h are held to, bit for bit.
 *
 * A plan is immutable: any thread may use it, each with a scratch of its own. */
#ifndef NIGHTSHIFT_TESTS_COMMON_FFT_H
#define NIGHTSHIFT_TESTS_COMMON_FFT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FFT_MAX 65536

struct fft;

/* For n real values; n even, 2 .. FFT_MAX, without a prime factor above 5. ERR_USAGE says so. */
int fft_new(uint32_t n, struct fft **ret, struct err *err);
void fft_free(struct fft *f); /* NULL is fine */
/* n / 2 + 1, the frequencies from 0 to half of the sampling rate. */
uint32_t fft_bins(const struct fft *f);
/* Values of the scratch that a transform wants. */
size_t fft_scratch(const struct fft *f);
/* X[k] = sum over i of x[i] e^(-2 pi i k / n), no scaling. x: [n]; re, im: [bins]. x may be re. */
void fft_real(const struct fft *f, const double *x, double *scratch, double *re, double *im);
/* |X[k]|^2. ret: [bins]. */
void fft_power(const struct fft *f, const double *x, double *scratch, double *ret);

#endif
