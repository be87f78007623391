#include "workers/stages/footprint.h"

#include "workers/models/silero/silero.h"

struct asr_shape footprint_shape(struct asr_shape shape, const struct footprint_device *d,
                                 uint32_t slots, uint32_t windows)
{
    shape.slots = slots;
    shape.windows = d->deterministic ? 1 : windows < slots ? windows : slots;
    shape.align_windows = !d->gpu || d->deterministic ? 1 : ASR_ALIGN_WINDOWS;
    if (shape.align_windows > slots)
        shape.align_windows = slots;
    return shape;
}

uint64_t footprint_bytes(uint64_t model, bool voice, const struct footprint_device *d)
{
    uint64_t bytes = model;

    if (voice)
        bytes += silero_predict_bytes(d->gpu && !d->deterministic ? 0 : 1);
    if (d->gpu)
        bytes += FOOTPRINT_GPU_BYTES;
    return bytes;
}
