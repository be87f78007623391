/* tests/unit/speakers/npy.h - numpy's .npy files of what the goldens hold, as double. */
#ifndef NIGHTSHIFT_TESTS_UNIT_SPEAKERS_NPY_H
#define NIGHTSHIFT_TESTS_UNIT_SPEAKERS_NPY_H

#include <stddef.h>

struct npy {
    size_t dim[4], count;
    unsigned rank;
    double *data; /* [count], in C order; owned: free() */
};

/* 0, or -1 with a line on stderr: not there, not little-endian f4, f8, i8, i1 or u1. Rank 0 .. 4,
 * either order of axes. */
int npy_read(const char *path, struct npy *ret);

#endif
