/* tests/ops/ops.h - which backend the operations are tested on. */
#ifndef NIGHTSHIFT_TESTS_OPS_OPS_H
#define NIGHTSHIFT_TESTS_OPS_OPS_H

#include <stdlib.h>

#include "gpu/backend.h"

/* The host, or what NIGHTSHIFT_TEST_DEVICE names: "cpu", or "cuda", "cuda:1" by the module in
 * NIGHTSHIFT_CUDA_MODULE (deterministic with NIGHTSHIFT_TEST_EXACT=1). Closed with backend_close.
 */
int test_backend_open(struct backend **ret, struct err *err);

/* A part of n, 1 / NIGHTSHIFT_TEST_SHARE: for devices on which many repetitions take too long. */
static inline int test_share(int n)
{
    const char *s = getenv("NIGHTSHIFT_TEST_SHARE");
    int share = s ? atoi(s) : 1;

    return share > 1 && n > share ? n / share : n;
}

#endif
