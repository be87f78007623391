#include "tests/parity/diarization/networks.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/common/formula_weights.h"

#define SEED UINT64_C(20261101)

static const struct {
    const char *config;
    uint32_t filters, first, second, layers, hidden, linears, size;
} segmentations[] = {
    {"pyannet", 80, 60, 60, 4, 128, 2, 128},
    {"small", 16, 24, 16, 2, 32, 1, 40},
    {"tiny", 8, 8, 8, 1, 8, 1, 8},
};

static const struct {
    const char *config;
    uint32_t first, blocks[4], size;
} resnets[] = {{"resnet34", 32, {3, 4, 6, 3}, 256},
               {"resnet", 8, {1, 2, 1, 1}, 48},
               {"speck", 4, {1, 1, 1, 1}, 16}};

static const struct {
    const char *config;
    uint32_t layers, hidden, size;
} ge2es[] = {{"ge2e", 3, 256, 256}, {"little", 2, 48, 64}};

static double scale_of(uint32_t fan_in, double gain)
{
    return exp2(round(log2(gain * sqrt(3.0 / fan_in))));
}

static struct network *network_new(const char *config)
{
    struct network *n = calloc(1, sizeof(*n));

    if (!n)
        abort();
    snprintf(n->config, sizeof(n->config), "%s", config);
    return n;
}

void network_free(struct network *n)
{
    for (size_t i = 0; i < n->n; i++)
        free(n->tensor[i].value);
    free(n);
}

/* dims: rank of them, 0 past its end. */
static void add(struct network *n, const char *name, const uint32_t dim[4], double scale,
                double offset)
{
    struct network_tensor *t = &n->tensor[n->n++];
    uint64_t seed = formula_hash(n->config, name) ^ SEED;

    if (n->n > NETWORK_MAX_TENSORS)
        abort();
    snprintf(t->name, sizeof(t->name), "%s", name);
    t->count = 1;
    for (; t->rank < 4 && dim[t->rank]; t->rank++)
        t->count *= t->dim[t->rank] = dim[t->rank];
    t->value = malloc(t->count * sizeof(*t->value));
    if (!t->value)
        abort();
    for (size_t i = 0; i < t->count; i++)
        t->value[i] = formula_uniform(seed, i) * (float)scale + (float)offset;
}

#define DIM(...) ((const uint32_t[4]){__VA_ARGS__})

__attribute__((format(printf, 5, 6))) static void
add_as(struct network *n, const uint32_t dim[4], double scale, double offset, const char *fmt, ...)
{
    char name[80];
    va_list args;

    va_start(args, fmt);
    vsnprintf(name, sizeof(name), fmt, args);
    va_end(args);
    add(n, name, dim, scale, offset);
}

/* ---- segmentation */

static void add_lstm(struct network *n, uint32_t layer, const char *tail, uint32_t hidden,
                     uint32_t width, double scale)
{
    add_as(n, DIM(4 * hidden, width), scale, 0, "lstm.weight_ih_l%u%s", layer, tail);
    add_as(n, DIM(4 * hidden, hidden), scale_of(hidden, 1.0), 0, "lstm.weight_hh_l%u%s", layer,
           tail);
    add_as(n, DIM(4 * hidden), 0.125, 0, "lstm.bias_ih_l%u%s", layer, tail);
    add_as(n, DIM(4 * hidden), 0.125, 0, "lstm.bias_hh_l%u%s", layer, tail);
}

static void add_sincnet(struct network *n, const uint32_t channels[3])
{
    add(n, "sincnet.wav_norm1d.weight", DIM(1), 0.125, 1.0);
    add(n, "sincnet.wav_norm1d.bias", DIM(1), 0.125, 0);
    add(n, "sincnet.conv1d.0.filterbank.low_hz_", DIM(channels[0] / 2, 1), 3000, 3000);
    add(n, "sincnet.conv1d.0.filterbank.band_hz_", DIM(channels[0] / 2, 1), 1000, 500);
    for (uint32_t i = 1; i < 3; i++) {
        add_as(n, DIM(channels[i], channels[i - 1], 5), scale_of(channels[i - 1] * 5, 1.0), 0,
               "sincnet.conv1d.%u.weight", i);
        add_as(n, DIM(channels[i]), 0.125, 0, "sincnet.conv1d.%u.bias", i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        add_as(n, DIM(channels[i]), 0.25, 1.0, "sincnet.norm1d.%u.weight", i);
        add_as(n, DIM(channels[i]), 0.125, 0, "sincnet.norm1d.%u.bias", i);
    }
}

struct network *network_segmentation(const char *config)
{
    struct network *n = network_new(config);
    size_t k = 0;
    uint32_t width;

    while (strcmp(segmentations[k].config, config) != 0)
        k++;
    add_sincnet(n, (const uint32_t[3]){segmentations[k].filters, segmentations[k].first,
                                       segmentations[k].second});
    width = segmentations[k].second;
    for (uint32_t i = 0; i < segmentations[k].layers; i++) {
        for (int reverse = 0; reverse < 2; reverse++)
            add_lstm(n, i, reverse ? "_reverse" : "", segmentations[k].hidden, width,
                     scale_of(width, 2.0));
        width = 2 * segmentations[k].hidden;
    }
    for (uint32_t i = 0; i < segmentations[k].linears; i++) {
        add_as(n, DIM(segmentations[k].size, width), scale_of(width, 2.0), 0, "linear.%u.weight",
               i);
        add_as(n, DIM(segmentations[k].size), 0.125, 0, "linear.%u.bias", i);
        width = segmentations[k].size;
    }
    add(n, "classifier.weight", DIM(7, width), scale_of(width, 8.0), 0);
    add(n, "classifier.bias", DIM(7), 0.125, 0);
    return n;
}

/* ---- speaker encoders */

static void add_conv(struct network *n, const char *conv, const char *norm, uint32_t out,
                     uint32_t in, uint32_t kernel, double gain)
{
    add_as(n, DIM(out, in, kernel, kernel), scale_of(in * kernel * kernel, gain), 0, "%s.weight",
           conv);
    add_as(n, DIM(out), 0.25, 1.0, "%s.weight", norm);
    add_as(n, DIM(out), 0.125, 0, "%s.bias", norm);
    add_as(n, DIM(out), 0.125, 0, "%s.running_mean", norm);
    add_as(n, DIM(out), 0.5, 1.0, "%s.running_var", norm);
}

static void add_block(struct network *n, uint32_t layer, uint32_t i, uint32_t out, uint32_t in)
{
    static const struct {
        const char *conv, *norm;
        double gain;
    } parts[] = {{"conv1", "bn1", 1.4}, {"conv2", "bn2", 0.7}, {"shortcut.0", "shortcut.1", 1.0}};
    char conv[64], norm[64];

    for (int k = 0; k < 3; k++) {
        if (k == 2 && in == out && (layer == 1 || i > 0))
            continue;
        snprintf(conv, sizeof(conv), "resnet.layer%u.%u.%s", layer, i, parts[k].conv);
        snprintf(norm, sizeof(norm), "resnet.layer%u.%u.%s", layer, i, parts[k].norm);
        add_conv(n, conv, norm, out, k == 1 ? out : in, k == 2 ? 1 : 3, parts[k].gain);
    }
}

struct network *network_resnet(const char *config)
{
    struct network *n = network_new(config);
    uint32_t channels;
    size_t k = 0;

    while (strcmp(resnets[k].config, config) != 0)
        k++;
    channels = resnets[k].first;
    add_conv(n, "resnet.conv1", "resnet.bn1", channels, 1, 3, 0.5);
    for (uint32_t layer = 1; layer <= 4; layer++) {
        for (uint32_t i = 0; i < resnets[k].blocks[layer - 1]; i++) {
            add_block(n, layer, i, resnets[k].first << (layer - 1), channels);
            channels = resnets[k].first << (layer - 1);
        }
    }
    add(n, "resnet.seg_1.weight", DIM(resnets[k].size, 20 * channels), scale_of(20 * channels, 1.0),
        0);
    add(n, "resnet.seg_1.bias", DIM(resnets[k].size), 0.125, 0);
    return n;
}

struct network *network_ge2e(const char *config)
{
    struct network *n = network_new(config);
    uint32_t width = 40;
    size_t k = 0;

    while (strcmp(ge2es[k].config, config) != 0)
        k++;
    for (uint32_t i = 0; i < ge2es[k].layers; i++) {
        add_lstm(n, i, "", ge2es[k].hidden, width, i == 0 ? 8.0 : scale_of(width, 4.0));
        width = ge2es[k].hidden;
    }
    add(n, "linear.weight", DIM(ge2es[k].size, width), scale_of(width, 2.0), 0);
    add(n, "linear.bias", DIM(ge2es[k].size), 0.125, 0);
    return n;
}

/* ---- the folded layout */

struct network_tensor *network_find(struct network *n, const char *name)
{
    for (size_t i = 0; i < n->n; i++)
        if (strcmp(n->tensor[i].name, name) == 0)
            return &n->tensor[i];
    return NULL;
}

/* sin(2 pi f x) / (pi x) has a band up to f: two of them, windowed, over the band's width. */
static void fold_sinc(struct network *n)
{
    struct network_tensor *low = network_find(n, "sincnet.conv1d.0.filterbank.low_hz_");
    struct network_tensor *band = network_find(n, "sincnet.conv1d.0.filterbank.band_hz_");
    uint32_t bands = low ? low->dim[0] : 0;
    float *w = malloc((size_t)2 * bands * 251 * sizeof(*w) + 1);

    if (!w || !low || !band)
        abort();
    for (uint32_t b = 0; b < bands; b++) {
        double from = 50.0 + fabs((double)low->value[b]);
        double to = fmin(from + 50.0 + fabs((double)band->value[b]), 8000.0);

        for (int i = 0; i < 251; i++) {
            double t = 2.0 * acos(-1.0) * (i - 125) / 16000.0, by = 1.0 / (t * (to - from));
            double window = 0.54 - 0.46 * cos(2.0 * acos(-1.0) * i / 250.0);

            w[b * 251 + i] = (float)((sin(to * t) - sin(from * t)) * by * window);
            w[(bands + b) * 251 + i] = (float)((cos(from * t) - cos(to * t)) * by * window);
            if (i == 125) {
                w[b * 251 + i] = 1.0f;
                w[(bands + b) * 251 + i] = 0.0f;
            }
        }
    }
    free(low->value);
    *low = (struct network_tensor){
        "sincnet.conv1d.0.weight", 3, {2 * bands, 1, 251}, (size_t)2 * bands * 251, w};
    band->name[0] = 0;
}

/* The norm of a convolution becomes its bias: bn1 of conv1, shortcut.1 of shortcut.0. */
static void fold_norm(struct network *n, struct network_tensor *t)
{
    char prefix[64], conv[80];
    struct network_tensor *w, *beta, *mean, *var;
    size_t end = strlen(t->name) - strlen(".running_var"), each;

    snprintf(prefix, sizeof(prefix), "%.*s", (int)end, t->name);
    snprintf(conv, sizeof(conv), "%s.bias", prefix);
    beta = network_find(n, conv);
    snprintf(conv, sizeof(conv), "%s.running_mean", prefix);
    mean = network_find(n, conv);
    snprintf(conv, sizeof(conv), "%s.weight", prefix);
    var = t;
    t = network_find(n, conv);
    if (strstr(prefix, "shortcut"))
        snprintf(conv, sizeof(conv), "%.*s0", (int)end - 1, prefix);
    else
        snprintf(conv, sizeof(conv), "%.*sconv%c", (int)end - 3, prefix, prefix[end - 1]);
    snprintf(beta->name, sizeof(beta->name), "%.70s.bias", conv);
    snprintf(conv + strlen(conv), sizeof(conv) - strlen(conv), ".weight");
    w = network_find(n, conv);
    each = w->count / w->dim[0];
    for (size_t i = 0; i < w->count; i++)
        w->value[i] = (float)((double)w->value[i] * (double)t->value[i / each] /
                              sqrt((double)var->value[i / each] + 1e-5));
    for (size_t i = 0; i < beta->count; i++)
        beta->value[i] =
            (float)((double)beta->value[i] - (double)mean->value[i] * (double)t->value[i] /
                                                 sqrt((double)var->value[i] + 1e-5));
    t->name[0] = mean->name[0] = var->name[0] = 0;
}

void network_fold(struct network *n)
{
    if (network_find(n, "sincnet.conv1d.0.filterbank.low_hz_"))
        fold_sinc(n);
    for (size_t i = 0; i < n->n; i++)
        if (strstr(n->tensor[i].name, ".running_var"))
            fold_norm(n, &n->tensor[i]);
}

/* ---- files */

void network_write(const struct network *n, const char *path, size_t cut)
{
    static char header[256 * NETWORK_MAX_TENSORS];
    size_t len = 1, at = 0;
    FILE *f = fopen(path, "wb");
    uint64_t size;

    if (!f)
        abort();
    header[0] = '{';
    for (size_t i = 0; i < n->n; i++) {
        const struct network_tensor *t = &n->tensor[i];

        if (!t->name[0])
            continue;
        len += (size_t)snprintf(header + len, sizeof(header) - len,
                                "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%u", len > 1 ? "," : "",
                                t->name, t->dim[0]);
        for (uint32_t k = 1; k < t->rank; k++)
            len += (size_t)snprintf(header + len, sizeof(header) - len, ",%u", t->dim[k]);
        len += (size_t)snprintf(header + len, sizeof(header) - len, "],\"data_offsets\":[%zu,%zu]}",
                                at, at + 4 * t->count);
        at += 4 * t->count;
    }
    header[len++] = '}';
    size = len; /* little-endian hosts only, as the rest of the program */
    fwrite(&size, sizeof(size), 1, f);
    fwrite(header, 1, len, f);
    for (size_t i = 0; i < n->n; i++)
        if (n->tensor[i].name[0])
            fwrite(n->tensor[i].value, 4, n->tensor[i].count, f);
    if (fflush(f) != 0 || ftruncate(fileno(f), ftell(f) - (long)cut) != 0)
        abort();
    fclose(f);
}

/* ---- what they hear */

void network_sound(uint32_t window, float *pcm)
{
    size_t end = NETWORK_SAMPLES - 16000 * (size_t)(window % 3), period = 40 + 13 * (size_t)window;
    char name[16];
    uint64_t seed;

    snprintf(name, sizeof(name), "%u", window);
    seed = formula_hash("sound", name) ^ SEED;
    for (size_t i = 0; i < NETWORK_SAMPLES; i++) {
        double saw = (double)(i % period) / (double)period - 0.5;
        double loud = (double)(i / (8000 + 1000 * (size_t)window) % 3) / 2.0;

        pcm[i] = i < end ? (float)(0.25 * saw * loud +
                                   0.0625 * (double)formula_uniform(seed, i) * (1.0 - 0.5 * loud))
                         : 0.0f;
    }
}

uint32_t network_mask(uint32_t m, float *weights)
{
    static const uint32_t range[5][2] = {{0, 589}, {100, 300}, {0, 589}, {200, 205}, {3, 5}};
    char name[16];
    uint64_t seed;

    snprintf(name, sizeof(name), "%u", m);
    seed = formula_hash("mask", name) ^ SEED;
    for (uint32_t i = 0; i < NETWORK_MASK_FRAMES; i++) {
        weights[i] = i >= range[m % 5][0] && i < range[m % 5][1] ? 1.0f : 0.0f;
        if (m % 5 == 2)
            weights[i] = (formula_uniform(seed, i) + 1.0f) * 0.5f;
    }
    return m % 3;
}
