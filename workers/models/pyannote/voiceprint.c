#include "workers/models/pyannote/voiceprint.h"

#include <stdlib.h>

#include "gpu/backend.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/pyannote/voiceprint_net.h"
#include "workers/models/files/weights.h"
#include "workers/models/files/weights_take.h"

#define GROUP_MOST 32 /* whose images are there at once: 31 MB each, and enough for a device */

struct voiceprint {
    struct backend *be; /* borrowed */
    uint32_t windows;   /* a call of ours takes */
    uint32_t size;
    struct voice_resnet *resnet; /* one of the two */
    struct voice_ge2e *ge2e;
};

static int load_speaker_encoder(struct voiceprint *v, const struct weights *w, uint32_t group,
                                struct err *err)
{
    int rc;

    if (weights_has(w, "resnet.conv1.weight")) {
        rc = voice_resnet_load(w, v->be, group, &v->resnet, err);
        v->size = rc == 0 ? voice_resnet_size(v->resnet) : 0;
        return rc;
    }
    if (weights_has(w, "lstm.weight_ih_l0") && weights_has(w, "linear.weight")) {
        rc = voice_ge2e_load(w, v->be, &v->ge2e, err);
        v->size = rc == 0 ? voice_ge2e_size(v->ge2e) : 0;
        return rc;
    }
    return err_set(err, ERR_MODEL,
                   "no speaker encoder that is known here: neither 'resnet.conv1.weight' "
                   "(WeSpeaker's ResNet) nor 'lstm.weight_ih_l0' and 'linear.weight' (GE2E) is in "
                   "it");
}

int voiceprint_load(const char *file, struct backend *be, uint32_t windows, struct voiceprint **ret,
                    struct err *err)
{
    bool wide = be->info.wide_batches && !be->info.deterministic;
    struct voiceprint *v = calloc(1, sizeof(*v));
    struct weights *w = NULL;
    uint32_t group;
    int rc;

    if (!v)
        return err_set(err, ERR_NOMEM, "no memory for the speaker encoder");
    v->be = be;
    v->windows = windows ? windows : wide ? PYANNET_WIDE : 1;
    group = !wide ? 1 : v->windows < GROUP_MOST ? v->windows : GROUP_MOST;
    rc = weights_open_file(file, &w, err);
    if (rc == 0) {
        rc = load_speaker_encoder(v, w, group, err);
        if (rc != 0)
            err_prefix(err, "%.200s", file);
    }
    weights_close(w);
    if (rc != 0) {
        voiceprint_free(v);
        return rc;
    }
    *ret = v;
    return 0;
}

void voiceprint_free(struct voiceprint *v)
{
    if (!v)
        return;
    voice_resnet_free(v->resnet);
    voice_ge2e_free(v->ge2e);
    free(v);
}

uint32_t voiceprint_windows(const struct voiceprint *v) { return v->windows; }
uint32_t voiceprint_size(const struct voiceprint *v) { return v->size; }

uint64_t voiceprint_predict_bytes(uint32_t windows)
{
    return voice_resnet_predict_bytes(windows && windows < GROUP_MOST ? windows : GROUP_MOST);
}

int voiceprint_run(struct voiceprint *v, const float *pcm, const size_t *at, size_t samples,
                   uint32_t n, const struct voice_mask *masks, uint32_t mask_count, uint32_t frames,
                   float *ret, struct err *err)
{
    const struct voice_job job = {pcm, at, samples, n, masks, mask_count, frames, ret};

    if (n > v->windows || samples > VOICE_MAX_SAMPLES || (mask_count && frames < 1))
        return err_set(err, ERR_DEVICE,
                       "voices of %u windows of %zu samples in a call for %u of %d", n, samples,
                       v->windows, VOICE_MAX_SAMPLES);
    for (uint32_t i = 0; i < mask_count; i++)
        if (masks[i].window >= n)
            return err_set(err, ERR_DEVICE, "a voice in window %u of %u", masks[i].window, n);
    return v->resnet ? voice_resnet_run(v->resnet, &job, err) : voice_ge2e_run(v->ge2e, &job, err);
}
