/* gpu/devices/devices.h - the devices of this machine, and opening one of them.
 *
 * Names of devices: "cpu"; "cuda:0" or "cuda:GPU-<uuid>" (any unique beginning of it); "sim:0", the
 * i-th of NIGHTSHIFT_DEVICES, which stands for GPUs in tests and rehearsals. Numbers of CUDA
 * devices are the run time's, so after CUDA_VISIBLE_DEVICES; their names hold the UUID. */
#ifndef NIGHTSHIFT_GPU_DEVICES_DEVICES_H
#define NIGHTSHIFT_GPU_DEVICES_DEVICES_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "gpu/device.h"

struct backend;

/* Finds the devices of this machine. GPUs are asked in a process of their own (`program probe`,
 * with a time limit of $NIGHTSHIFT_PROBE_SECONDS, else 60), so that a broken driver can neither
 * crash nor hang the caller, nor hold memory on a card. program NULL: this one. A machine without
 * NVIDIA hardware starts no process. A broken finding makes all CUDA devices unusable. Fails only
 * for lack of memory or processes and for a NIGHTSHIFT_DEVICES that makes no sense (ERR_USAGE);
 * "cpu" there leaves GPUs out. */
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
/* --device-memory: "80%" of each device's memory, "20G", or by name as above: "cuda:0=20G,cpu=50%".
 * Units are G or GiB, and GB = 10^9 bytes; likewise M and T. Sets memory_limit of picked devices;
 * what is the processor's is shared by those of its workers that are picked. NULL and "" set
 * nothing. ERR_USAGE: no such size, more than the device has, or no such device. */
int devices_cap(struct devices *picked, const char *list, struct err *err);
/* Does this list name anything but the processor, so that devices_find is needed? */
bool devices_list_wants_gpus(const char *list);

/* The NUMA node that the worker of picked->list[i] is to be bound to; NUMA_NONE (base/numa.h):
 * none. Only where every node with processors has one of the picked GPUs: else processors would
 * idle that can decode. */
int device_node(const struct devices *picked, uint32_t i);
/* How many threads compute in that worker: its part of the processors that it may run on. */
uint32_t device_threads(const struct devices *picked, uint32_t i);
/* Binds this process to a node: see numa_bind. */
bool device_bind_node(int node);

/* Opens a device by its name (as in struct device), for a worker. ERR_USAGE: no device has such a
 * name. */
int device_open(const char *name, const struct device_options *o, struct backend **ret,
                struct err *err);

#endif
