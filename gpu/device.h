/* gpu/device.h - a device, what is known of all of them, and what one is opened with: values. */
#ifndef NIGHTSHIFT_GPU_DEVICE_H
#define NIGHTSHIFT_GPU_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum device_kind { DEVICE_CPU, DEVICE_CUDA, DEVICE_SIM };

struct device {
    enum device_kind kind;
    char name[64];   /* stable, what a worker is started with: "cpu", "cuda:GPU-8f3c...", "sim:0" */
    char label[24];  /* for people: "cpu", "cuda:0", "sim:0" */
    char model[64];  /* "NVIDIA H200" */
    char id[64];     /* what measurements are remembered by: UUID; "cpu"; "sim:24GiB" */
    char driver[32]; /* "580.95.05"; "" */
    int major, minor;                   /* compute capability; 0 elsewhere */
    uint64_t memory_total, memory_free; /* bytes, now; free is 0 when it could not be asked */
    uint32_t precisions;                /* precision_set of gpu/precision.h */
    uint64_t memory_limit;              /* bytes that may be used (devices_cap); 0: no cap */
    double speed;                       /* SIM: of the host's; 1 elsewhere */
    bool unusable; /* it is there, but must not be used: trouble says why, else devices.no_gpu */
    char trouble[240]; /* this one alone cannot be used: what was said */
    char place[16];    /* CUDA: on the PCI bus, "0000:3b:00.0"; "" not known */
    char visible[64];  /* CUDA: the value of CUDA_VISIBLE_DEVICES that shows it alone; "": none */
};

#define DEVICES_MAX 64u
#define DEVICES_FINDINGS 80u

enum finding_state { FINDING_WELL, FINDING_WARNING, FINDING_BROKEN };

/* One thing that was looked at. Printable text, whoever said it. */
struct device_finding {
    enum finding_state state;
    char name[16];                           /* "driver", "cuDNN ops" */
    char found[256], wanted[192], todo[256]; /* wanted, todo: "" when all is well */
};

/* Some 120 kB: not for small stacks. */
struct devices {
    struct device list[DEVICES_MAX];
    uint32_t count;    /* GPUs first (or what NIGHTSHIFT_DEVICES names), then the processor */
    struct err no_gpu; /* why no GPU of it can be used: code 0 when one can */
    bool expects_gpu;  /* this machine has NVIDIA hardware, so that no_gpu is a fault */
    struct device_finding findings[DEVICES_FINDINGS]; /* of the CUDA libraries; in order */
    uint32_t finding_count;
};

/* The most bytes to use of a GPU's free memory: nine tenths, since the driver and the libraries may
 * take more at any time, and never more than `cap`. */
static inline uint64_t device_budget(uint64_t free_bytes, uint64_t cap)
{
    const uint64_t most = free_bytes / 10 * 9;

    return cap != 0 && cap < most ? cap : most;
}

struct device_options {
    uint32_t threads;   /* of the processor that compute, also beside a GPU; 0: as many as may */
    uint64_t cap;       /* bytes of device memory, at most; 0: no cap */
    bool deterministic; /* results do not depend on grouping; the host's never do */
};

#endif
