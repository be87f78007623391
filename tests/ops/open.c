#include "tests/ops/ops.h"

#include <stdlib.h>
#include <string.h>

int test_backend_open(struct backend **ret, struct err *err)
{
    const char *device = getenv("NIGHTSHIFT_TEST_DEVICE");

    if (!device || strcmp(device, "") == 0 || strcmp(device, "cpu") == 0)
        return backend_open_host(0, ret, err);
    return err_set(err, ERR_USAGE, "no device '%.40s' is known to these tests", device);
}
