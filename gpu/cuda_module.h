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

#define CUDA_MODULE_ABI 12
#define CUDA_MODULE_SYMBOL "nightshift_cuda_module"
#define CUDA_MODULE_FILE "nightshift-cuda.so"

struct backend;

struct cuda_device {
    uint32_t ordinal; /* as the CUDA run time counts, so after CUDA_VISIBLE_DEVICES */
    char name[64];
    char uuid[48];  /* "GPU-8f3c..." */
    char place[16]; /* on the PCI bus: "0000:3b:00.0" */
    int major, minor;
    uint64_t memory_total; /* bytes */
    uint32_t processors;
    precision_set have;
    char trouble[200]; /* "", or why it cannot be used: then only what is above may be known */
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
/* What a check looks at; together. */
enum cuda_check_part {
    CUDA_CHECK_LIBRARIES = 1,  /* driver, run time, cuBLASLt, every part of cuDNN */
    CUDA_CHECK_DEVICES = 2,    /* does each device answer? */
    CUDA_CHECK_OPERATIONS = 4, /* a real operation of each kind on each device: is it right? */
    CUDA_CHECK_QUICK = CUDA_CHECK_LIBRARIES | CUDA_CHECK_DEVICES,
    CUDA_CHECK_ALL = CUDA_CHECK_QUICK | CUDA_CHECK_OPERATIONS,
};
typedef void (*cuda_finding_fn)(void *arg, const struct cuda_finding *f);

struct cuda_module {
    uint32_t abi;          /* CUDA_MODULE_ABI, first */
    const char *built_for; /* "CUDA 13.0, cuDNN 9.19" */

    /* Devices that can be used, and those that do not answer, in the run time's order. At most cap;
     * *n how many there are. None is ERR_MISSING with a sentence that says why (no driver, no
     * device, driver too old ...). */
    int (*devices)(struct cuda_device *ret, uint32_t cap, uint32_t *n, struct err *err);
    /* Bytes of a device, by ordinal, that are free now; 0 where it cannot be asked. Makes a context
     * on it: call it in a process of its own. */
    uint64_t (*free_memory)(uint32_t ordinal);
    /* The backend of a device, by UUID or ordinal ("0"). ERR_MISSING: no such device, or libraries
     * are missing; ERR_VERSION: they do not fit together; ERR_DEVICE: it does not answer. */
    int (*open)(const char *device, const struct cuda_options *options, struct backend **ret,
                struct err *err);
    /* parts: of cuda_check_part. Findings come in order. Returns the worst state. */
    int (*check)(unsigned parts, cuda_finding_fn fn, void *arg);
};

#endif
