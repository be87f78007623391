/* The module's interface for the program. */
#include "gpu/cuda/cuda.h"

/* Found by name with dlsym; `built_for` is filled in at compile time. */
extern const struct cuda_module nightshift_cuda_module;

static int module_devices(struct cuda_device *ret, uint32_t capacity, uint32_t *n, struct err *err)
{
    return cuda_devices(ret, capacity, n, err);
}

__attribute__((visibility("default"))) const struct cuda_module nightshift_cuda_module = {
    .abi = CUDA_MODULE_ABI,
    .built_for = libs_built_for,
    .devices = module_devices,
    .free_memory = cuda_free_memory,
    .open = cuda_open,
    .check = cuda_check,
};
