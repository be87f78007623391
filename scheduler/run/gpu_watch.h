/* scheduler/run/gpu_watch.h - what the driver sees of the run's GPUs, every other second
 * (gpu/gpu_sample.h): a process of its own looks, which may crash or hang as it likes. Then
 * nothing is known for a while, and the run goes on. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_GPU_WATCH_H
#define NIGHTSHIFT_SCHEDULER_RUN_GPU_WATCH_H

#include "scheduler/run/run.h"

/* Starts it, where a device is a GPU. With run --idle it waits for the first look, and fails where
 * there is none: ERR_USAGE, no device is a GPU; ERR_DEVICE, NVML is missing, hangs, or does not
 * tell who uses it. Else it fails for lack of memory alone. */
int gpu_watch_start(struct run *run, struct err *err);
void gpu_watch_tick(struct run *run, int64_t now_ms);
void gpu_watch_end(struct run *run);
/* The last sample of a worker's device, if it is recent; NULL: none. Valid until the next tick. */
const struct gpu_sample *gpu_watch_sample(const struct run_worker *w, int64_t now_ms);

#endif
