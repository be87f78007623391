/* gpu/devices.h - the devices of this machine, and opening one of them.
 *
 * Names of devices: "cpu"; "cuda:0" or "cuda:GPU-<uuid>" (any unique beginning of it); "sim:0", the
 * i-th of NIGHTSHIFT_DEVICES, which stands for GPUs in tests and rehearsals. Numbers of CUDA
 * devices are the run time's, so after CUDA_VISIBLE_DEVICES; their names hold the UUID. */
#ifndef NIGHTSHIFT_GPU_DEVICES_H
#define NIGHTSHIFT_GPU_DEVICES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;

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
    double speed;                       /* SIM: of the host's; 1 elsewhere */
    bool unusable; /* it is there, but must not be used: devices.no_gpu says why */
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

/* Some 90 kB: not for small stacks. */
struct devices {
    struct device list[DEVICES_MAX];
    uint32_t count;    /* GPUs first (or what NIGHTSHIFT_DEVICES names), then the processor */
    struct err no_gpu; /* why no GPU of it can be used: code 0 when one can */
    bool expects_gpu;  /* this machine has NVIDIA hardware, so that no_gpu is a fault */
    struct device_finding findings[DEVICES_FINDINGS]; /* of the CUDA libraries; in order */
    uint32_t finding_count;
};

/* What is here. GPUs are asked in a process of their own (`program probe`, with a time limit of
 * $NIGHTSHIFT_PROBE_SECONDS, else 60), so that a broken driver can neither crash nor hang the
 * caller, nor hold memory on a card. program NULL: this one. A machine without NVIDIA hardware
 * starts no process. A broken finding makes all CUDA devices unusable. Fails only for lack of
 * memory or processes and for a NIGHTSHIFT_DEVICES that makes no sense (ERR_USAGE); "cpu" there
 * leaves GPUs out. */
int devices_find(const char *program, struct devices *ret, struct err *err);
/* The same, and an operation of each kind is run on every GPU, which takes a while (the limit is
 * five times as long). stop: NULL, or what ends it early when it is set. */
int devices_examine(const char *program, const volatile sig_atomic_t *stop, struct devices *ret,
                    struct err *err);
/* The processor alone, at no cost: for a list that names nothing else. */
void devices_processor(struct devices *ret);

/* Whether the processor may do the work when "auto" finds no GPU. */
enum allow_cpu {
    ALLOW_CPU_WITHOUT_HARDWARE, /* only where there is nothing that should be repaired */
    ALLOW_CPU_ALWAYS,
    ALLOW_CPU_NEVER,
};

/* --devices: "auto" (every GPU; where there is none, the processor), "cpu", "cuda:0,cuda:2",
 * "cpu,cpu". Picked devices in the order of the list; a device may come twice only when it is the
 * processor. ERR_USAGE: names what does not exist and what does. ERR_DEVICE: a GPU that is named
 * cannot be used, or "auto", none can be used, and the processor is not allowed; the sentence says
 * why. NULL and "" are "auto". */
int devices_pick(const struct devices *all, const char *list, enum allow_cpu allow,
                 struct devices *ret, struct err *err);
/* Does this list name anything but the processor, so that devices_find is needed? */
bool devices_list_wants_gpus(const char *list);

struct device_options {
    uint32_t threads;   /* processor, simulated devices: 0 as many as may be used */
    uint64_t budget;    /* bytes of device memory; 0: 0.9 of what is free */
    bool deterministic; /* results do not depend on grouping; the host's never do */
};

/* Opens a device by its name (as in struct device), for a worker. ERR_USAGE: no device has such a
 * name. */
int device_open(const char *name, const struct device_options *o, struct backend **ret,
                struct err *err);

#endif
