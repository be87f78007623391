/* workers/models/pyannote/voiceprint_net.h - what the two architectures behind voiceprint.h share,
 * and the ResNet one; for voiceprint*.c alone. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_VOICEPRINT_NET_H
#define NIGHTSHIFT_WORKERS_MODELS_PYANNOTE_VOICEPRINT_NET_H

#include <stddef.h>
#include <stdint.h>

#include "gpu/filter_bank.h"
#include "workers/models/files/weights.h"
#include "workers/models/pyannote/voiceprint.h"

#define VOICE_RESNET_BINS 80
#define VOICE_GE2E_BINS 40

struct backend;
struct weights;
struct voice_resnet;

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

/* The samples that a mask covers. */
static inline size_t voice_length(const struct voice_job *job, const struct voice_mask *m)
{
    return m->length ? m->length : job->samples;
}

/* The frame of a mask that lies at `place` of `to` places: torch's "nearest", in float32 as
 * there. */
static inline uint32_t voice_nearest(float place, size_t to, uint32_t frames)
{
    uint32_t at = (uint32_t)(place * ((float)frames / (float)to));

    return at < frames ? at : frames - 1;
}

/* group: windows of one call of the device. samples: of the longest window. */
int voice_resnet_load(const struct weights *w, struct backend *be, uint32_t group, size_t samples,
                      struct voice_resnet **ret, struct err *err);
void voice_resnet_free(struct voice_resnet *r); /* NULL is fine */
uint32_t voice_resnet_size(const struct voice_resnet *r);
uint64_t voice_resnet_predict_bytes(uint32_t group);
int voice_resnet_run(struct voice_resnet *r, const struct voice_job *job, struct err *err);

/* ---- its values, from its file */

#define RESNET_LAYERS 4
#define RESNET_MAX_BLOCKS 64 /* of a layer */

/* A convolution with the batch norm behind it. */
struct resnet_conv {
    uint32_t in, out, kernel, stride;
    float *w;    /* [out][in][frames][frequencies] */
    float *bias; /* [out] */
};

struct resnet_block {
    struct resnet_conv first, second, shortcut; /* shortcut.w NULL: there is none */
};

struct resnet_weights {
    struct resnet_conv begin;
    uint32_t block_count;
    struct resnet_block block[RESNET_LAYERS * RESNET_MAX_BLOCKS];
    uint32_t size;   /* of a vector */
    uint32_t pooled; /* of a frame behind the last block: frequencies x channels */
    float *last;     /* [size][2 pooled]: means, then deviations, frequency by channel */
    float *last_bias;
    struct weights_pool pool;
};

/* ERR_MODEL when a tensor is missing, of a shape that cannot be, or holds a value that is not
 * finite. */
int resnet_weights_read(const struct weights *file, struct resnet_weights **ret, struct err *err);
void resnet_weights_free(struct resnet_weights *w); /* NULL is fine */

#endif
