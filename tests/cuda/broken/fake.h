/* tests/cuda/broken/fake.h - functions that must never be called. */
#ifndef NIGHTSHIFT_TESTS_CUDA_BROKEN_FAKE_H
#define NIGHTSHIFT_TESTS_CUDA_BROKEN_FAKE_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static inline void never(const char *name)
{
    fprintf(stderr, "called %s in a library that does not fit\n", name);
    abort();
}

#define NEVER(name)  \
    void name(void); \
    void name(void) { never(#name); }

#endif
