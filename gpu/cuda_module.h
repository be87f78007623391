/* gpu/cuda_module.h - what the CUDA module (gpu/cuda, nightshift-cuda.so) gives the program that
 * opens it with dlopen. The program itself links to nothing of NVIDIA's.
 *
 * The module finds cuBLASLt and cuDNN itself, by dlopen, and says which files it took; the CUDA run
 * time is inside it, and finds the driver. Everything may be called without a driver, without a
 * GPU, and with broken libraries: that is then what the sentence says. */
#ifndef NIGHTSHIFT_GPU_CUDA_MODULE_H
#define NIGHTSHIFT_GPU_CUDA_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/device.h"
#include "gpu/precision.h"

#define CUDA_MODULE_ABI 9
#define CUDA_MODULE_SYMBOL "nightshift_cuda_module"
#define CUDA_MODULE_FILE "nightshift-cuda.so"

struct backend;

struct cuda_device {
    uint32_t ordinal; /* as the CUDA run time counts, so after CUDA_VISIBLE_DEVICES */
    char name[64];
    char uuid[48]; /* "GPU-8f3c..." */
    int major, minor;
    uint64_t memory_total, memory_free; /* bytes; free is 0 when it could not be asked */
    uint32_t processors;
    precision_set have;
};

struct cuda_options {
    uint64_t cap;       /* bytes it may allocate, within device_budget of what is free; 0: no cap */
    bool deterministic; /* fixed shapes and kernels: results do not depend on grouping */
};

/* One finding of a check. state: 0 well, 1 a warning (it works, slower or with less), 2 broken. */
struct cuda_finding {
    int state;
    const char *name;   /* "driver", "cuBLASLt", "cuDNN ops" ... at most 14 characters */
    const char *found;  /* a sentence part, with version and file where there is one */
    const char *wanted; /* "" when all is well */
    const char *todo;   /* what the user should do; "" when all is well */
};
typedef void (*cuda_finding_fn)(void *arg, const struct cuda_finding *f);

struct cuda_module {
    uint32_t abi;          /* CUDA_MODULE_ABI, first */
    const char *built_for; /* "CUDA 13.0, cuDNN 9.19" */

    /* Devices that can be used, in the run time's order. At most cap; *n how many there are. None
     * is ERR_MISSING with a sentence that says why (no driver, no device, driver too old ...).
     * Makes a context on each device it asks for free memory: call it in a process of its own. */
    int (*devices)(struct cuda_device *ret, uint32_t cap, uint32_t *n, struct err *err);
    /* The backend of a device, by UUID or ordinal ("0"). ERR_MISSING: no such device, or libraries
     * are missing; ERR_VERSION: they do not fit together; ERR_DEVICE: it does not answer. */
    int (*open)(const char *device, const struct cuda_options *options, struct backend **ret,
                struct err *err);
    /* Looks at driver, run time, cuBLASLt and every part of cuDNN; `thorough` runs a real operation
     * of each kind on each device and compares its result. Findings come in order. Returns the
     * worst state. */
    int (*check)(bool thorough, cuda_finding_fn fn, void *arg);
};

#endif
