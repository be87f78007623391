/* workers/models/pyannote/voiceprint_net.h - the two architectures behind voiceprint.h; for
 * voiceprint*.c alone. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_VOICEPRINT_NET_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_VOICEPRINT_NET_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/filter_bank.h"
#include "workers/models/pyannote/voiceprint.h"

#define VOICE_MAX_SAMPLES 160000
#define VOICE_RESNET_BINS 80
#define VOICE_GE2E_BINS 40

struct backend;
struct weights;
struct voice_resnet;
struct voice_ge2e;

/* The networks' inputs, at 16 kHz. */
extern const struct filter_bank_spec voice_resnet_bank, voice_ge2e_bank;

/* The checked arguments of voiceprint_run. */
struct voice_job {
    const float *pcm;
    const size_t *at; /* NULL: one behind another */
    size_t samples;
    uint32_t windows;
    const struct voice_mask *masks;
    uint32_t mask_count, frames;
    float *ret;
};

/* The first sample of a window in job->pcm. */
static inline size_t voice_begin(const struct voice_job *job, uint32_t window)
{
    return job->at ? job->at[window] : window * job->samples;
}

/* The frame of a mask that place i of `to` places takes: torch's "nearest", in float32 as there. */
static inline uint32_t voice_nearest(size_t i, size_t to, uint32_t frames)
{
    uint32_t at = (uint32_t)((float)i * ((float)frames / (float)to));

    return at < frames ? at : frames - 1;
}

/* group: windows of one call of the device. */
int voice_resnet_load(const struct weights *w, struct backend *be, uint32_t group,
                      struct voice_resnet **ret, struct err *err);
void voice_resnet_free(struct voice_resnet *r); /* NULL is fine */
uint32_t voice_resnet_size(const struct voice_resnet *r);
uint64_t voice_resnet_predict_bytes(uint32_t group);
int voice_resnet_run(struct voice_resnet *r, const struct voice_job *job, struct err *err);

int voice_ge2e_load(const struct weights *w, struct backend *be, struct voice_ge2e **ret,
                    struct err *err);
void voice_ge2e_free(struct voice_ge2e *g); /* NULL is fine */
uint32_t voice_ge2e_size(const struct voice_ge2e *g);
int voice_ge2e_run(struct voice_ge2e *g, const struct voice_job *job, struct err *err);

#endif
