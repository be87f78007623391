/* A model as it lies on its device. */
#include "workers/models/whisper/whisper.h"

#include <stdlib.h>

#include "workers/models/whisper/whisper_net.h"
#include "workers/text/tokenizer/vocabulary.h"

static void norm_free(struct backend *be, struct norm *n)
{
    be->ops->release(be, n->gamma.data);
    be->ops->release(be, n->beta.data);
}

void whisper_free(struct asr_model *m)
{
    struct whisper *w = whisper_of(m);
    struct backend *be;

    if (!w)
        return;
    be = w->be;
    if (w->encoder_be != be)
        backend_close(w->encoder_be);
    be->ops->conv2d_free(be, w->conv1);
    be->ops->conv2d_free(be, w->conv2);
    be->ops->release(be, w->encoder_positions.data);
    be->ops->release(be, w->decoder_positions.data);
    be->ops->release(be, w->embedding.data);
    be->ops->linear_free(be, w->logits);
    norm_free(be, &w->encoder_norm);
    norm_free(be, &w->decoder_norm);
    for (uint32_t i = 0; i < WHISPER_MAX_LAYERS; i++) {
        struct encoder_layer *e = &w->encoder[i];
        struct decoder_layer *d = &w->decoder[i];
        struct linear *all[] = {e->qkv, e->out, e->fc1,     e->fc2,      d->qkv,      d->out,
                                d->fc1, d->fc2, d->cross_q, d->cross_kv, d->cross_out};

        for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++)
            be->ops->linear_free(be, all[k]);
        norm_free(be, &e->attention_norm);
        norm_free(be, &e->ffn_norm);
        norm_free(be, &d->attention_norm);
        norm_free(be, &d->cross_norm);
        norm_free(be, &d->ffn_norm);
    }
    vocabulary_free(w->asr.vocab);
    free(w);
}

const struct whisper_config *whisper_config(const struct asr_model *m)
{
    return &whisper_of(m)->config;
}

void whisper_keep(struct asr_model *m, enum cache_precision cache)
{
    m->cache = cache_precision_resolve(cache, m->precision);
}
