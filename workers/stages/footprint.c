#include "workers/stages/footprint.h"

#include "workers/models/silero/silero.h"

uint64_t footprint_bytes(const struct footprint *f, const struct footprint_device *d,
                         enum precision precision, uint32_t slots, uint32_t windows)
{
    struct whisper_shape shape = f->shape;
    uint64_t bytes;

    shape.slots = slots;
    shape.windows = d->deterministic ? 1 : windows < slots ? windows : slots;
    bytes = whisper_predict_bytes(f->config, precision, cache_precision_settle(f->cache, precision),
                                  d->halves, shape);
    if (f->voice)
        bytes += silero_predict_bytes(d->gpu && !d->deterministic ? 0 : 1);
    if (d->gpu)
        bytes += FOOTPRINT_GPU_BYTES;
    return bytes;
}
