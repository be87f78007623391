#include "tools/hub/hub_yamnet_folder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "tools/hub/hub_tensors.h"
#include "workers/models/yamnet/yamnet_dir.h"

#define CLASSES 521
#define BEGIN 8           /* two counters of its training come first, */
#define END 15005484      /*   and the names of what it holds last */
#define VALUES 3729481    /* with batch norms folded in */
#define NORM_EPSILON 1e-4 /* params.py of research/audioset/yamnet */
#define TENSORS (2 * (YAMNET_CONVOLUTIONS + 1))

/* ---- weights */

/* Variables lie one behind the other in the order of the network, and so do tensors here. */
struct folding {
    const float *from;
    float *to;
    struct hub_tensor tensor[TENSORS];
    size_t count;
};

static void add(struct folding *f, const char *prefix, const char *what, uint32_t rank,
                const uint32_t dim[HUB_RANK_MAX])
{
    struct hub_tensor *t = &f->tensor[f->count++];

    *t = (struct hub_tensor){.rank = rank, .data = f->to};
    snprintf(t->name, sizeof(t->name), "%s.%s", prefix, what);
    for (uint32_t i = 0; i < rank; i++)
        t->dim[i] = dim[i];
}

/* [taps][in][out] to [out][in][taps], each output by its scale. scale NULL: 1. */
static void turn(struct folding *f, uint32_t taps, uint32_t in, uint32_t out, const double *scale)
{
    for (uint32_t o = 0; o < out; o++)
        for (uint32_t i = 0; i < in; i++)
            for (uint32_t t = 0; t < taps; t++)
                *f->to++ = (float)((double)f->from[((size_t)t * in + i) * out + o] *
                                   (scale ? scale[o] : 1));
    f->from += (size_t)taps * in * out;
}

/* A kernel and its batch norm, which has no factor of its own: shift, mean, variance. in 1: also of
 * each channel by itself. */
static void fold(struct folding *f, const char *prefix, uint32_t kernel, uint32_t in, uint32_t out)
{
    const uint32_t dim[HUB_RANK_MAX] = {out, in, kernel, kernel};
    const float *shift = f->from + (size_t)kernel * kernel * in * out, *mean = shift + out,
                *variance = mean + out;
    double scale[YAMNET_VECTOR];

    for (uint32_t o = 0; o < out; o++)
        scale[o] = 1 / sqrt((double)variance[o] + NORM_EPSILON);
    add(f, prefix, "weight", 4, dim);
    turn(f, kernel * kernel, in, out, scale);
    add(f, prefix, "bias", 1, dim);
    for (uint32_t o = 0; o < out; o++)
        *f->to++ = (float)((double)shift[o] - (double)mean[o] * scale[o]);
    f->from = variance + out;
}

static void fold_all(struct folding *f)
{
    const uint32_t logits[HUB_RANK_MAX] = {CLASSES, YAMNET_VECTOR};
    uint32_t in = yamnet_layers[0].out;
    char prefix[32];

    fold(f, "layer1.conv", 3, 1, in);
    for (uint32_t i = 1; i < YAMNET_LAYERS; i++) {
        snprintf(prefix, sizeof(prefix), "layer%u.depthwise", i + 1);
        fold(f, prefix, 3, 1, in);
        snprintf(prefix, sizeof(prefix), "layer%u.pointwise", i + 1);
        fold(f, prefix, 1, in, yamnet_layers[i].out);
        in = yamnet_layers[i].out;
    }
    add(f, "logits", "weight", 2, logits);
    turn(f, 1, YAMNET_VECTOR, CLASSES, NULL);
    add(f, "logits", "bias", 1, logits);
    turn(f, 1, 1, CLASSES, NULL);
}

int hub_yamnet_weights(const uint8_t *variables, size_t len, struct buf *out, struct err *err)
{
    float *values = malloc(VALUES * sizeof(*values));
    struct folding f = {.from = (const float *)(const void *)(variables + BEGIN), .to = values};
    int rc = 0;

    if (!values)
        return err_set(err, ERR_NOMEM, "out of memory");
    if (len < END)
        rc = err_set(err, ERR_PROTOCOL, "YAMNet's variables end too early");
    if (rc == 0) {
        fold_all(&f);
        hub_put_tensors(f.tensor, f.count, out);
        rc = out->failed ? err_set(err, ERR_NOMEM, "out of memory") : 0;
    }
    free(values);
    return rc;
}

/* ---- config.json */

/* Entry i of network.layers: the convolution of layer 1, then two for each layer. */
static json_t *layer(uint32_t i)
{
    const uint32_t at = (i + 1) / 2;
    const bool wide = i == 0 || i % 2;
    const int stride = wide ? (int)yamnet_layers[at].stride : 1, kernel = wide ? 3 : 1;
    const int before = wide && stride == 1, after = wide;
    const char *type = i == 0 ? "conv" : wide ? "depthwise" : "pointwise";
    char name[32];

    snprintf(name, sizeof(name), "layer%u.%s", at + 1, type);
    return json_pack("{s:s, s:s, s:[i,i], s:[i,i], s:i, s:i, s:i, s:i, s:s}", "name", name, "type",
                     type, "kernel", kernel, kernel, "stride", stride, stride, "pad_top", before,
                     "pad_bottom", after, "pad_left", before, "pad_right", after, "activation",
                     "relu");
}

static json_t *network(void)
{
    json_t *layers = json_array();

    for (uint32_t i = 0; layers && i < YAMNET_CONVOLUTIONS; i++)
        if (json_array_append_new(layers, layer(i)) != 0) {
            json_decref(layers);
            return NULL;
        }
    return layers ? json_pack("{s:i, s:o}", "embedding_size", YAMNET_VECTOR, "layers", layers)
                  : NULL;
}

int hub_yamnet_config(const char *source, char **ret, struct err *err)
{
    json_t *o = json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:{s:i}, s:{s:i, s:i, s:i, s:i, s:i, s:i, s:f}, s:{s:i, s:i, "
        "s:i},"
        " s:o}",
        "model_type", "yamnet", "format_version", 1, "license", "Apache-2.0 (Google)",
        "license_of_class_names", "CC BY-SA 4.0 (AudioSet, Google)", "source", source, "audio",
        "sample_rate", 16000, "features", "window_samples", YAMNET_FRAME, "hop_samples",
        YAMNET_FRAME_HOP, "fft_length", YAMNET_FFT, "mel_bins", YAMNET_BINS, "mel_min_hz", 125,
        "mel_max_hz", 7500, "log_offset", 0.001, "patches", "frames", YAMNET_FRAMES,
        "samples_per_patch", YAMNET_PATCH, "hop_samples", YAMNET_HOP, "network", network());

    *ret = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(o);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}
