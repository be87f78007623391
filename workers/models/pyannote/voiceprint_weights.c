#include "workers/models/pyannote/voiceprint_net.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "workers/models/pyannote/voiceprint.h"
#include "workers/models/files/weights.h"

#define MAX_CHANNELS 1024
#define FREQUENCIES (VOICE_RESNET_BINS / 8) /* behind the last block */
#define NORM_EPSILON 1e-5

struct source {
    const struct weights *file;
    struct resnet_weights *w;
};

static int take_vector(const struct source *s, const char *prefix, const char *part, uint32_t n,
                       float **ret, struct err *err)
{
    char name[80];

    snprintf(name, sizeof(name), "%s.%s", prefix, part);
    return weights_take(s->file, &s->w->pool, name, 1, &n, MAX_CHANNELS, ret, err);
}

/* y = gamma (x - mean) / sqrt(var + epsilon) + beta, into the convolution that gives x. */
static int fold_norm(const struct source *s, const char *norm, struct resnet_conv *c,
                     struct err *err)
{
    size_t each = (size_t)c->in * c->kernel * c->kernel;
    float *gamma, *beta, *mean, *var;
    int rc = take_vector(s, norm, "weight", c->out, &gamma, err);

    if (rc == 0)
        rc = take_vector(s, norm, "bias", c->out, &beta, err);
    if (rc == 0)
        rc = take_vector(s, norm, "running_mean", c->out, &mean, err);
    if (rc == 0)
        rc = take_vector(s, norm, "running_var", c->out, &var, err);
    if (rc != 0)
        return rc;
    c->bias = weights_pool_array(&s->w->pool, c->out);
    if (!c->bias)
        return err_set(err, ERR_NOMEM, "no memory for a model's weights");
    for (uint32_t o = 0; o < c->out; o++) {
        double scale = (double)gamma[o] / sqrt((double)var[o] + NORM_EPSILON);

        if (!isfinite(scale))
            return err_set(err, ERR_MODEL, "tensor '%s.running_var' holds %g", norm,
                           (double)var[o]);
        for (size_t i = 0; i < each; i++)
            c->w[o * each + i] = (float)((double)c->w[o * each + i] * scale);
        c->bias[o] = (float)((double)beta[o] - (double)mean[o] * scale);
    }
    return 0;
}

/* Each kernel from [frequencies][frames] to [frames][frequencies]. */
static void transpose_kernels(struct resnet_conv *c)
{
    uint32_t k = c->kernel;

    for (size_t i = 0; i < (size_t)c->out * c->in; i++) {
        float *w = c->w + i * k * k;

        for (uint32_t a = 0; a < k; a++) {
            for (uint32_t b = 0; b < a; b++) {
                float v = w[a * k + b];

                w[a * k + b] = w[b * k + a];
                w[b * k + a] = v;
            }
        }
    }
}

/* c: in, kernel and stride are known, and out, or it is 0 and found. With a bias there is no norm
 * (the folded layout). */
static int take_conv(const struct source *s, const char *prefix, const char *norm,
                     struct resnet_conv *c, struct err *err)
{
    uint32_t dim[4] = {c->out, c->in, c->kernel, c->kernel};
    char name[80];
    int rc;

    snprintf(name, sizeof(name), "%s.weight", prefix);
    rc = weights_take(s->file, &s->w->pool, name, 4, dim, MAX_CHANNELS, &c->w, err);
    if (rc != 0)
        return rc;
    c->out = dim[0];
    snprintf(name, sizeof(name), "%s.bias", prefix);
    if (weights_has(s->file, name))
        rc = take_vector(s, prefix, "bias", c->out, &c->bias, err);
    else
        rc = fold_norm(s, norm, c, err);
    if (rc == 0)
        transpose_kernels(c);
    return rc;
}

static int take_block(const struct source *s, uint32_t layer, uint32_t index, uint32_t in,
                      struct err *err)
{
    struct resnet_block *b = &s->w->block[s->w->block_count];
    uint32_t stride = layer > 1 && index == 0 ? 2 : 1;
    char prefix[64], norm[64];
    int rc;

#define NAME(text, part) snprintf(text, sizeof(text), "resnet.layer%u.%u.%s", layer, index, part)
    NAME(prefix, "conv3.weight");
    if (weights_has(s->file, prefix))
        return err_set(err, ERR_MODEL,
                       "tensor '%s': of WeSpeaker's networks those of ResNet34's kind are read "
                       "here, not the deeper ones",
                       prefix);
    b->first = (struct resnet_conv){.in = in, .kernel = 3, .stride = stride};
    NAME(prefix, "conv1");
    NAME(norm, "bn1");
    rc = take_conv(s, prefix, norm, &b->first, err);
    if (rc != 0)
        return rc;
    b->second =
        (struct resnet_conv){.in = b->first.out, .out = b->first.out, .kernel = 3, .stride = 1};
    NAME(prefix, "conv2");
    NAME(norm, "bn2");
    rc = take_conv(s, prefix, norm, &b->second, err);
    if (rc == 0 && (stride != 1 || in != b->first.out)) {
        b->shortcut =
            (struct resnet_conv){.in = in, .out = b->first.out, .kernel = 1, .stride = stride};
        NAME(prefix, "shortcut.0");
        NAME(norm, "shortcut.1");
        rc = take_conv(s, prefix, norm, &b->shortcut, err);
    }
#undef NAME
    s->w->block_count += rc == 0;
    return rc;
}

/* Block i is there, or one behind it. */
static bool has_block(const struct source *s, uint32_t layer, uint32_t i)
{
    static const char *const parts[] = {"conv1.weight", "conv2.weight", "bn1.weight", "bn2.weight"};
    char format[4][64];
    const char *names[4];

    for (int k = 0; k < 4; k++) {
        snprintf(format[k], sizeof(format[k]), "resnet.layer%u.%%u.%s", layer, parts[k]);
        names[k] = format[k];
    }
    return weights_has_layer(s->file, names, 4, i) || weights_has_layer(s->file, names, 4, i + 1);
}

static int take_layer(const struct source *s, uint32_t layer, uint32_t *channels, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && (i == 0 || has_block(s, layer, i)); i++) {
        if (i == RESNET_MAX_BLOCKS)
            return err_set(err, ERR_MODEL, "layer %u has more than %d blocks", layer,
                           RESNET_MAX_BLOCKS);
        rc = take_block(s, layer, i, *channels, err);
        if (rc == 0)
            *channels = s->w->block[s->w->block_count - 1].first.out;
    }
    return rc;
}

/* Columns from [channels][frequencies] to [frequencies][channels], of means and of deviations. */
static int take_last(const struct source *s, uint32_t channels, struct err *err)
{
    uint32_t pooled = FREQUENCIES * channels, dim[2] = {0, 2 * pooled};
    struct resnet_weights *w = s->w;
    float *from;
    int rc = weights_take(s->file, &w->pool, "resnet.seg_1.weight", 2, dim, VOICEPRINT_MAX_SIZE,
                          &from, err);

    if (rc == 0 && weights_has(s->file, "resnet.seg_2.weight"))
        return err_set(err, ERR_MODEL,
                       "tensor 'resnet.seg_2.weight': networks with two last layers are not read "
                       "here");
    if (rc == 0)
        rc = take_vector(s, "resnet.seg_1", "bias", dim[0], &w->last_bias, err);
    if (rc != 0)
        return rc;
    w->size = dim[0];
    w->pooled = pooled;
    w->last = weights_pool_array(&w->pool, (uint64_t)w->size * 2 * pooled);
    if (!w->last)
        return err_set(err, ERR_NOMEM, "no memory for a model's weights");
    for (size_t row = 0; row < (size_t)2 * w->size; row++)
        for (size_t c = 0; c < channels; c++)
            for (size_t f = 0; f < FREQUENCIES; f++)
                w->last[row * pooled + f * channels + c] = from[row * pooled + c * FREQUENCIES + f];
    return 0;
}

int resnet_weights_read(const struct weights *file, struct resnet_weights **ret, struct err *err)
{
    const struct source s = {file, calloc(1, sizeof(struct resnet_weights))};
    uint32_t channels;
    int rc;

    if (!s.w)
        return err_set(err, ERR_NOMEM, "no memory for a model's weights");
    s.w->begin = (struct resnet_conv){.in = 1, .kernel = 3, .stride = 1};
    rc = take_conv(&s, "resnet.conv1", "resnet.bn1", &s.w->begin, err);
    channels = s.w->begin.out;
    for (uint32_t layer = 1; rc == 0 && layer <= RESNET_LAYERS; layer++)
        rc = take_layer(&s, layer, &channels, err);
    if (rc == 0)
        rc = take_last(&s, channels, err);
    if (rc != 0) {
        resnet_weights_free(s.w);
        return rc;
    }
    *ret = s.w;
    return 0;
}

void resnet_weights_free(struct resnet_weights *w)
{
    if (!w)
        return;
    weights_pool_free(&w->pool);
    free(w);
}
