/* workers/models/files/npy.h - an array of numpy's .npy format, versions 1 and 2, of float32 or
 * float64, little-endian, of at most two dimensions. The header is checked against the file's
 * length. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_NPY_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_NPY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define NPY_MAX_DIM 65536u

struct npy {
    uint32_t rank;   /* 1 or 2 */
    uint32_t dim[2]; /* dim[1] is 1 where there is one dimension */
};

/* *values: [dim[0]][dim[1]], the last index first in memory whatever the file's order; the caller's
 * to free. ERR_MODEL says what it is instead. */
int npy_read(const uint8_t *data, size_t len, struct npy *ret, double **values, struct err *err);

#endif
