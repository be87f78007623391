/* tests/ops/ops.h - which backend the operations are tested on. */
#ifndef NIGHTSHIFT_TESTS_OPS_OPS_H
#define NIGHTSHIFT_TESTS_OPS_OPS_H

#include "gpu/backend.h"

/* The host, or what NIGHTSHIFT_TEST_DEVICE names ("cpu"). Closed with backend_close. */
int test_backend_open(struct backend **ret, struct err *err);

#endif
