/* gpu/peak.h - what a device can: the rates that work on it is held against.
 *
 * Measured in turn with that work, so that other load on the machine falls on both alike. The
 * thread of the backend. */
#ifndef NIGHTSHIFT_GPU_PEAK_H
#define NIGHTSHIFT_GPU_PEAK_H

#include "base/err.h"
#include "gpu/precision.h"

struct backend;
struct peak; /* a matrix product, ready to be taken again */

/* 2048 x 2048 x 2048; where that takes less than a millisecond and there is memory,
 * 8192 x 8192 x 8192, several in a row. Warmed up. be is borrowed. ERR_MODEL: the device does not
 * compute in that precision. */
int peak_new(struct backend *be, enum precision precision, struct peak **ret, struct err *err);
void peak_free(struct peak *p); /* NULL is fine */
/* GFLOP/s, once. */
int peak_gflops_s(struct peak *p, double *ret, struct err *err);

/* GB/s, read and written, of copying 64 MiB (1 GiB where that is brief) on the device: the best of
 * five. */
int peak_gbytes_s(struct backend *be, double *ret, struct err *err);

#endif
