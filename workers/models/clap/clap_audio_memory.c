/* The audio tower's memory, but for its weights. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/clap/clap_audio.h"
#include "workers/models/clap/clap_mel.h"

static int take_host(struct clap_audio_tower *t, struct err *err)
{
    const struct clap_config *c = &t->config;
    size_t image = (size_t)c->image * c->image, frames = clap_mel_frames(c);
    uint32_t side = clap_grid(c, 0) / c->window, each = c->window * c->window;
    uint32_t last = clap_grid(c, c->stages - 1);

    t->factor = malloc(c->mel_bins * sizeof(float));
    t->addend = malloc(c->mel_bins * sizeof(float));
    t->frames = calloc(t->group * frames * c->mel_bins, sizeof(float));
    t->images = calloc(t->group * image, sizeof(float));
    t->at = malloc(t->group * sizeof(*t->at));
    t->spans = malloc(((size_t)t->group * side * side + 1) * sizeof(*t->spans));
    t->image_spans = malloc(((size_t)t->group + 1) * sizeof(*t->image_spans));
    if (!t->factor || !t->addend || !t->frames || !t->images || !t->at || !t->spans ||
        !t->image_spans)
        return err_set(err, ERR_NOMEM, "no memory for the audio tower of CLAP");
    for (uint32_t i = 0; i < t->group; i++)
        t->at[i] = i * CLAP_MEL_SAMPLES;
    for (uint32_t i = 0; i <= t->group * side * side; i++)
        t->spans[i] = i * each;
    for (uint32_t i = 0; i <= t->group; i++)
        t->image_spans[i] = i * last * last;
    return 0;
}

static int take_device(struct clap_audio_tower *t, struct err *err)
{
    const struct clap_config *c = &t->config;
    size_t patches = (size_t)t->group * clap_grid(c, 0) * clap_grid(c, 0);
    size_t values = patches * c->width, each = dtype_size(t->type);
    struct {
        size_t ret; /* offset of the pointer in the tower */
        size_t bytes;
    } want[] = {
#define WANT(field, bytes) {offsetof(struct clap_audio_tower, field), bytes}
        WANT(pcm, (size_t)t->group * CLAP_MEL_SAMPLES * sizeof(float)),
        WANT(heard, (size_t)t->group * clap_mel_frames(c) * c->mel_bins * sizeof(float)),
        WANT(image, (size_t)t->group * c->image * c->image * sizeof(float)),
        WANT(x, values * sizeof(float)),
        WANT(other, values * sizeof(float)),
        WANT(h, values * each),
        WANT(attended, values * each),
        WANT(qkv, 3 * values * each),
        WANT(ffn, patches * t->stage[0].ffn * each),
        WANT(pooled, (size_t)t->group * clap_width(c, c->stages - 1) * sizeof(float)),
        WANT(hidden, (size_t)t->group * c->size * sizeof(float)),
        WANT(out, (size_t)t->group * c->size * sizeof(float)),
#undef WANT
    };
    void *p = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(want) / sizeof(want[0]); i++) {
        rc = t->be->ops->alloc(t->be, want[i].bytes, &p, err);
        if (rc == 0)
            memcpy((char *)t + want[i].ret, &p, sizeof(p));
    }
    return rc;
}

int clap_audio_take_memory(struct clap_audio_tower *t, struct err *err)
{
    int rc = take_host(t, err);

    return rc == 0 ? take_device(t, err) : rc;
}

static void free_norm(struct backend *be, struct clap_norm *n)
{
    be->ops->release(be, n->gamma.data);
    be->ops->release(be, n->beta.data);
}

static void free_stage(struct backend *be, struct clap_stage *s)
{
    for (uint32_t k = 0; k < CLAP_MAX_DEPTH; k++) {
        struct clap_layer *l = &s->layer[k];

        free_norm(be, &l->before);
        free_norm(be, &l->after);
        be->ops->linear_free(be, l->qkv);
        be->ops->linear_free(be, l->out);
        be->ops->linear_free(be, l->up);
        be->ops->linear_free(be, l->down);
        be->ops->release(be, l->bias.data);
    }
    free_norm(be, &s->merge_norm);
    be->ops->linear_free(be, s->merge);
    be->ops->release(be, s->enter);
    be->ops->release(be, s->shift);
    be->ops->release(be, s->unshift);
    free(s->plain);
    free(s->shifted);
}

void clap_audio_free(struct clap_audio_tower *t)
{
    struct backend *be;

    if (!t)
        return;
    be = t->be;
    {
        void *const device[] = {t->image, t->x,      t->other,  t->h,   t->attended, t->qkv,
                                t->ffn,   t->pooled, t->hidden, t->out, t->pcm,      t->heard};

        for (size_t i = 0; i < sizeof(device) / sizeof(device[0]); i++)
            be->ops->release(be, device[i]);
    }
    for (uint32_t i = 0; i < CLAP_MAX_STAGES; i++)
        free_stage(be, &t->stage[i]);
    be->ops->filter_bank_free(be, t->bank);
    be->ops->conv2d_free(be, t->patch);
    be->ops->linear_free(be, t->project1);
    be->ops->linear_free(be, t->project2);
    free_norm(be, &t->patch_norm);
    free_norm(be, &t->norm);
    clap_mel_free(t->mel);
    free(t->factor);
    free(t->addend);
    free(t->frames);
    free(t->images);
    free(t->at);
    free(t->spans);
    free(t->image_spans);
    free(t);
}
