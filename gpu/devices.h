/* gpu/devices.h - the devices of this machine, and opening one of them.
 *
 * Names of devices: "cpu"; "cuda:0" or "cuda:GPU-<uuid>" (any unique beginning of it); "sim:0", the
 * i-th of NIGHTSHIFT_DEVICES, which stands for GPUs in tests and rehearsals. */
#ifndef NIGHTSHIFT_GPU_DEVICES_H
#define NIGHTSHIFT_GPU_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;

enum device_kind { DEVICE_CPU, DEVICE_CUDA, DEVICE_SIM };

struct device {
    enum device_kind kind;
    char name[64];  /* stable, what a worker is started with: "cpu", "cuda:GPU-8f3c...", "sim:0" */
    char label[24]; /* for people: "cpu", "cuda:0", "sim:0" */
    char model[64]; /* "NVIDIA H200" */
    char id[64];    /* what measurements are remembered by: UUID; "cpu"; "sim:24GiB" */
    char driver[32];               /* "580.95 (CUDA 13.0)"; "" */
    int major, minor;              /* compute capability; 0 elsewhere */
    uint64_t memory_total, memory_free; /* bytes, now */
    uint32_t precisions;           /* precision_set of gpu/precision.h */
    double speed;                  /* SIM: of the host's; 1 elsewhere */
};

#define DEVICES_MAX 64u

struct devices {
    struct device list[DEVICES_MAX];
    uint32_t count;    /* GPUs first (or what NIGHTSHIFT_DEVICES names), then the processor */
    struct err no_gpu; /* why no GPU is in it: code 0 when one is */
};

/* What is here. GPUs are asked in a process of their own (`program probe`, with a time limit), so
 * that a broken driver can neither crash nor hang the caller, nor hold memory on a card. program
 * NULL: this one. Fails only for lack of memory and for a NIGHTSHIFT_DEVICES that makes no sense
 * (ERR_USAGE). */
int devices_find(const char *program, struct devices *ret, struct err *err);

/* --devices: "auto" (every GPU; where there is none, the processor), "cpu", "cuda:0,cuda:2",
 * "cpu,cpu". Picked devices in the order of the list, a device may come twice only when it is the
 * processor. ERR_USAGE: names what does not exist and what does. ERR_MISSING: "auto", no GPU can be
 * used, and allow_cpu is false; the sentence says why. */
int devices_pick(const struct devices *all, const char *list, bool allow_cpu, struct devices *ret,
                 struct err *err);

struct device_options {
    uint32_t threads;   /* processor, simulated devices: 0 as many as may be used */
    uint64_t budget;    /* bytes of device memory; 0: 0.9 of what is free */
    bool deterministic; /* results do not depend on grouping; the host's never do */
};

/* Opens a device by its name (as in struct device), for a worker. */
int device_open(const char *name, const struct device_options *o, struct backend **ret,
                struct err *err);

#endif
