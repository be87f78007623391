/* workers/stages/footprint.h - what a worker takes of a device's memory, before anything is loaded:
 * one prediction for the plan and for what a worker says when it is ready. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_FOOTPRINT_H
#define NIGHTSHIFT_WORKERS_STAGES_FOOTPRINT_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/precision.h"
#include "workers/models/whisper/whisper.h"

/* What a GPU's backend and its fork allocate beside models and sessions: a workspace each of their
 * libraries, and scratch of convolutions and attention. */
#define FOOTPRINT_GPU_BYTES (UINT64_C(448) << 20)

struct footprint {
    const struct whisper_config *config; /* borrowed */
    struct whisper_shape shape;          /* as transcribe_shape gives it */
    bool voice;                          /* a voice activity model beside it */
    enum cache_precision cache;
};

struct footprint_device {
    bool gpu; /* its libraries want memory of their own */
    bool deterministic;
    bool halves; /* as of whisper_predict_bytes */
};

/* Of the weights, a session of so many slots (at least 1), the voice activity, and what the backend
 * takes beside them. The encoder never takes more windows at once than there are slots, and one
 * where it is deterministic. */
uint64_t footprint_bytes(const struct footprint *f, const struct footprint_device *d,
                         enum precision precision, uint32_t slots, uint32_t windows);

#endif
