/* gpu/sight/nvml.h - NVIDIA's management library (libnvidia-ml.so.1, which comes with the driver),
 * opened at run time: nothing links to it. Has run on an H200.
 *
 * Any call may crash, hang or return nonsense, as the driver likes: use it where that may be
 * afforded, in the process that `nightshift probe --watch` is. One thread. */
#ifndef NIGHTSHIFT_GPU_SIGHT_NVML_H
#define NIGHTSHIFT_GPU_SIGHT_NVML_H

#include "base/err.h"
#include "gpu/sight/sight.h"

struct nvml;

/* ERR_MISSING: there is no such library, it cannot be used, or no driver answers it. */
int nvml_open(struct nvml **ret, struct err *err);
void nvml_close(struct nvml *n);         /* NULL is fine */
const char *nvml_driver(struct nvml *n); /* "580.95.05"; "" */
/* A GPU or MIG instance by its UUID, wherever it stands in whose order. What the library does not
 * know, does not have a function for or refuses is not known. *since_us: 0 at first, and else what
 * the last look at it has left there: shares of processes are of the time between two looks. */
void nvml_look(struct nvml *n, const char *uuid, uint64_t *since_us, struct gpu_sight *ret);

#endif
