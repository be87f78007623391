#include "tests/ops/ops.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda_module.h"

/* "cuda" or "cuda:1" of the module in NIGHTSHIFT_CUDA_MODULE, which stays open. */
static int open_cuda(const char *ordinal, struct backend **ret, struct err *err)
{
    const char *path = getenv("NIGHTSHIFT_CUDA_MODULE"), *exact = getenv("NIGHTSHIFT_TEST_EXACT");
    struct cuda_options options = {.deterministic = exact && *exact == '1'};
    void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    const struct cuda_module *module = handle ? dlsym(handle, CUDA_MODULE_SYMBOL) : NULL;

    if (!module)
        return err_set(err, ERR_MISSING, "NIGHTSHIFT_CUDA_MODULE: %.200s",
                       path ? dlerror() : "is not set");
    if (module->abi != CUDA_MODULE_ABI)
        return err_set(err, ERR_VERSION, "%.200s is of another version", path);
    return module->open(ordinal, &options, ret, err);
}

int test_backend_open(struct backend **ret, struct err *err)
{
    const char *device = getenv("NIGHTSHIFT_TEST_DEVICE");

    if (!device || strcmp(device, "") == 0 || strcmp(device, "cpu") == 0)
        return backend_open_host(0, ret, err);
    if (strcmp(device, "cuda") == 0)
        return open_cuda("0", ret, err);
    if (strncmp(device, "cuda:", 5) == 0)
        return open_cuda(device + 5, ret, err);
    return err_set(err, ERR_USAGE, "no device '%.40s' is known to these tests", device);
}
