/* gpu/devices/cuda_load.h - finds the CUDA module and opens it.
 *
 * Opening runs code of NVIDIA's: call cuda_module_load where a crash may be afforded, in a worker
 * or in the process that `nightshift probe` is. */
#ifndef NIGHTSHIFT_GPU_DEVICES_CUDA_LOAD_H
#define NIGHTSHIFT_GPU_DEVICES_CUDA_LOAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "gpu/cuda_module.h"

#define CUDA_MODULE_ENV "NIGHTSHIFT_CUDA_MODULE"

/* The module's file: $NIGHTSHIFT_CUDA_MODULE; else beside this program, in the library folder that
 * it was installed with, and (run from a build) in ../lib. ERR_MISSING: there is none. */
int cuda_module_find(char *ret, size_t cap, struct err *err);
/* The table that the file gives; it is never closed again. ERR_MISSING: it cannot be opened, or is
 * no such module; ERR_VERSION: it is of another build. */
int cuda_module_load(const char *path, const struct cuda_module **ret, struct err *err);

#endif
