/* A model as it lies on its device. */
#include "workers/models/whisper/whisper.h"

#include <stdlib.h>

#include "workers/models/whisper/whisper_net.h"

static void norm_free(struct backend *be, struct norm *n)
{
    be->ops->release(be, n->gamma.data);
    be->ops->release(be, n->beta.data);
}

void whisper_free(struct whisper *w)
{
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
    free(w);
}

const struct whisper_config *whisper_config(const struct whisper *w) { return &w->config; }

enum precision whisper_precision(const struct whisper *w) { return w->precision; }

void whisper_keep(struct whisper *w, enum cache_precision cache)
{
    w->cache = cache_precision_settle(cache, w->precision);
}

enum cache_precision whisper_kept(const struct whisper *w) { return w->cache; }

uint64_t whisper_weight_bytes(const struct whisper *w) { return w->weight_bytes; }
