/* workers/stages/footprint.h - what a worker takes of a device's memory, before anything is loaded:
 * one prediction for the plan and for what a worker says when it is ready. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_FOOTPRINT_H
#define NIGHTSHIFT_WORKERS_STAGES_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/precision.h"
#include "workers/models/asr_model.h"

/* A GPU's backend and its fork allocate this beside models and sessions: a workspace for each of
 * their libraries, and scratch for convolutions and attention. */
#define FOOTPRINT_GPU_BYTES (UINT64_C(448) << 20)

struct footprint_device {
    bool gpu; /* its libraries want memory of their own */
    bool deterministic;
    bool halves; /* as of asr_family.predict */
};

/* A session's shape with so many slots (at least 1). The encoder never takes more windows at once
 * than there are slots, and one where it is deterministic. */
struct asr_shape footprint_shape(struct asr_shape shape, const struct footprint_device *d,
                                 uint32_t slots, uint32_t windows);
/* Bytes of a model with its session, the voice activity, and the backend's own memory. */
uint64_t footprint_bytes(uint64_t model, bool voice, const struct footprint_device *d);

#endif
