#include "workers/models/clap/clap_config.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include <jansson.h>

#include "base/utf8.h"
#include "gpu/backend.h"
#include "workers/models/clap/clap_maps.h"
#include "workers/text/json_file.h"

/* Reads a number within [low, high]; the default is transformers'. */
static int read_number_in_range(const json_t *j, const char *key, double usual, double low,
                                double high, double *ret, struct err *err)
{
    const json_t *value = json_object_get(j, key);
    double v = value ? json_number_value(value) : usual;

    if (value && !json_is_number(value))
        return err_set(err, ERR_MODEL, "%s is no number", key);
    if (!(v >= low && v <= high))
        return err_set(err, ERR_MODEL, "%s is %g, not from %g to %g", key, v, low, high);
    *ret = v;
    return 0;
}

static int read_integer_in_range(const json_t *j, const char *key, uint32_t usual, uint32_t low,
                                 uint32_t high, uint32_t *ret, struct err *err)
{
    double v = 0.0;
    int rc = read_number_in_range(j, key, usual, low, high, &v, err);

    if (rc != 0)
        return rc;
    if (v != floor(v))
        return err_set(err, ERR_MODEL, "%s is %g, which is no whole number", key, v);
    *ret = (uint32_t)v;
    return 0;
}

/* Accepts a missing key or the value `want`. */
static int must_be(const json_t *j, const char *key, const char *want, struct err *err)
{
    const json_t *value = json_object_get(j, key);
    const char *have = json_string_value(value);

    if (!value || (have && strcmp(have, want) == 0))
        return 0;
    return err_set(err, ERR_MODEL, "%s is '%.40s': only '%s' is supported", key,
                   have ? have : "(no text)", want);
}

/* ---- preprocessor_config.json */

static int read_features(const json_t *j, struct clap_config *c, struct err *err)
{
    uint32_t rate = 0, seconds = 0;
    int rc = read_integer_in_range(j, "feature_size", 64, 1, CLAP_MEL_MAX_BINS, &c->mel_bins, err);

    if (rc == 0)
        rc = read_integer_in_range(j, "sampling_rate", CLAP_RATE, CLAP_RATE, CLAP_RATE, &rate, err);
    if (rc == 0)
        rc = read_integer_in_range(j, "max_length_s", 10, 10, 10, &seconds, err);
    if (rc == 0)
        rc = read_integer_in_range(j, "hop_length", 480, 120, 4800, &c->hop, err);
    if (rc == 0)
        rc = read_integer_in_range(j, "fft_window_size", 1024, 64, CLAP_MEL_MAX_FFT, &c->fft, err);
    if (rc == 0)
        rc = read_number_in_range(j, "frequency_min", 0.0, 0.0, CLAP_RATE / 2.0 - 1.0, &c->low_hz,
                                  err);
    if (rc == 0)
        rc = read_number_in_range(j, "frequency_max", 14000.0, c->low_hz + 1.0, CLAP_RATE / 2.0,
                                  &c->high_hz, err);
    if (rc == 0)
        rc = must_be(j, "padding", "repeatpad", err);
    if (rc == 0 && !json_object_get(j, "truncation"))
        return err_set(err, ERR_MODEL, "truncation is missing: only 'rand_trunc' is supported");
    return rc == 0 ? must_be(j, "truncation", "rand_trunc", err) : rc;
}

/* ---- config.json */

/* An array of `stages` whole numbers. */
static int each_stage(const json_t *j, const char *key, const uint32_t *usual, uint32_t high,
                      uint32_t stages, uint32_t *ret, struct err *err)
{
    const json_t *list = json_object_get(j, key);

    for (uint32_t i = 0; i < stages; i++) {
        json_int_t v = list ? json_integer_value(json_array_get(list, i)) : (json_int_t)usual[i];

        if (v < 1 || v > (json_int_t)high)
            return err_set(err, ERR_MODEL, "%s is not of numbers from 1 to %u, one for each stage",
                           key, high);
        ret[i] = (uint32_t)v;
    }
    return 0;
}

static int read_stages(const json_t *j, struct clap_config *c, struct err *err)
{
    static const uint32_t depths[] = {2, 2, 6, 2}, heads[] = {4, 8, 16, 32};
    const json_t *list = json_object_get(j, "depths"), *other;
    size_t n = list ? json_array_size(list) : 4;
    int rc;

    other = json_object_get(j, "num_attention_heads");
    if (n < 1 || n > CLAP_MAX_STAGES || (other ? json_array_size(other) : 4) != n)
        return err_set(err, ERR_MODEL,
                       "depths and num_attention_heads are not lists of 1 to %d, as many of each",
                       CLAP_MAX_STAGES);
    c->stages = (uint32_t)n;
    rc = each_stage(j, "depths", depths, CLAP_MAX_DEPTH, c->stages, c->depth, err);
    return rc == 0 ? each_stage(j, "num_attention_heads", heads, 256, c->stages, c->heads, err)
                   : rc;
}

/* The stride: a number, or two that are equal. */
static int read_stride(const json_t *j, uint32_t patch, struct err *err)
{
    const json_t *value = json_object_get(j, "patch_stride");
    json_int_t a = value ? json_integer_value(value) : 4, b = a;

    if (json_is_array(value)) {
        a = json_integer_value(json_array_get(value, 0));
        b = json_integer_value(json_array_get(value, 1));
    }
    if (a == (json_int_t)patch && b == a)
        return 0;
    return err_set(err, ERR_MODEL, "patch_stride is not patch_size (%u) in both directions", patch);
}

/* Bounds on what a few numbers can make a device hold: the published model's are 393,216 values in
 * its first stage, and tables of 262,144. */
#define MAX_VALUES ((uint64_t)1 << 23)
#define MAX_TABLE ((uint64_t)1 << 22)
#define MAX_LAYERS 64

static int check_sizes(const struct clap_config *c, struct err *err)
{
    uint64_t grid = clap_grid(c, 0), window = c->window, layers = 0, heads = 0;

    for (uint32_t s = 0; s < c->stages; s++) {
        layers += c->depth[s];
        heads = c->heads[s] > heads ? c->heads[s] : heads;
    }
    if (grid * grid * c->width > MAX_VALUES || layers > MAX_LAYERS ||
        CLAP_MAP_KINDS * heads * window * window * window * window > MAX_TABLE)
        return err_set(err, ERR_MODEL,
                       "%llu layers over %llu x %llu patches of %u values, in windows of %u with "
                       "up to %llu heads: more than is supported",
                       (unsigned long long)layers, (unsigned long long)grid,
                       (unsigned long long)grid, c->width, c->window, (unsigned long long)heads);
    return 0;
}

/* In each stage windows must fill the grid, and heads the width. */
static int check_stages(const struct clap_config *c, struct err *err)
{
    for (uint32_t s = 0; s < c->stages; s++) {
        uint32_t grid = clap_grid(c, s), width = clap_width(c, s), head = width / c->heads[s];

        if (grid << s != c->image / c->patch || grid < c->window || grid % c->window)
            return err_set(err, ERR_MODEL,
                           "stage %u has a grid of %u patches, which windows of %u do not fill",
                           s + 1, grid, c->window);
        if (width % c->heads[s] || head % 8 || head > 128)
            return err_set(err, ERR_MODEL,
                           "stage %u has %u heads for %u values: a head must have a multiple of "
                           "8, at most 128",
                           s + 1, c->heads[s], width);
        if (clap_ffn(c, s) % 2)
            return err_set(err, ERR_MODEL,
                           "mlp_ratio %g makes %u of stage %u's %u values, an odd number",
                           c->mlp_ratio, clap_ffn(c, s), s + 1, width);
    }
    return 0;
}

static int check_image(const struct clap_config *c, struct err *err)
{
    uint32_t ratio = c->image / c->mel_bins, frames = CLAP_SAMPLES * 3 / c->hop + 1;

    if (c->mel_bins % c->patch)
        return err_set(err, ERR_MODEL, "%u bins are no whole number of patches of %u", c->mel_bins,
                       c->patch);
    if (c->image % c->mel_bins || c->image % c->patch)
        return err_set(err, ERR_MODEL, "spec_size %u is no multiple of %u bins and patches of %u",
                       c->image, c->mel_bins, c->patch);
    /* What an image holds is what 10 s are brought to, which the operation resample does. */
    if ((uint64_t)c->image * ratio > BACKEND_MAX_RATE)
        return err_set(err, ERR_MODEL,
                       "spec_size %u holds %llu frames of %u bins: more than %u cannot be made",
                       c->image, (unsigned long long)c->image * ratio, c->mel_bins,
                       BACKEND_MAX_RATE);
    if (frames > c->image * ratio)
        return err_set(err, ERR_MODEL, "10 s are %u frames, and an image of %u holds %u", frames,
                       c->image, c->image * ratio);
    return check_sizes(c, err) == 0 ? check_stages(c, err) : err->code;
}

static int read_audio(const json_t *j, struct clap_config *c, struct err *err)
{
    uint32_t bins = 0, hidden = 0, channels = 0;
    double epsilon = 0.0;
    int rc = 0;

    if (json_is_true(json_object_get(j, "enable_fusion")))
        return err_set(err, ERR_MODEL,
                       "enable_fusion is true: models that fuse several stretches of a recording "
                       "are not supported; laion/clap-htsat-unfused is one that does not");
    if (json_is_false(json_object_get(j, "qkv_bias")) ||
        json_is_false(json_object_get(j, "enable_patch_layer_norm")) ||
        json_is_false(json_object_get(j, "flatten_patch_embeds")))
        return err_set(err, ERR_MODEL,
                       "qkv_bias, enable_patch_layer_norm and flatten_patch_embeds must be true");
    rc = must_be(j, "hidden_act", "gelu", err);
    if (rc == 0)
        rc = read_integer_in_range(j, "num_mel_bins", 64, c->mel_bins, c->mel_bins, &bins, err);
    if (rc == 0)
        rc = read_integer_in_range(j, "patch_embed_input_channels", 1, 1, 1, &channels, err);
    if (rc == 0)
        rc = read_integer_in_range(j, "spec_size", 256, 8, 1024, &c->image, err);
    if (rc == 0)
        rc = read_integer_in_range(j, "patch_size", 4, 1, 64, &c->patch, err);
    if (rc == 0)
        rc = read_integer_in_range(j, "window_size", 8, 2, 32, &c->window, err);
    if (rc == 0)
        rc = read_integer_in_range(j, "patch_embeds_hidden_size", 96, 8, 1024, &c->width, err);
    if (rc == 0)
        rc = read_number_in_range(j, "mlp_ratio", 4.0, 0.5, 8.0, &c->mlp_ratio, err);
    if (rc == 0)
        rc = read_number_in_range(j, "layer_norm_eps", 1e-5, 1e-12, 1e-2, &epsilon, err);
    if (rc == 0)
        rc = read_stride(j, c->patch, err);
    if (rc == 0)
        rc = read_stages(j, c, err);
    c->epsilon = (float)epsilon;
    if (rc == 0) {
        uint32_t last = clap_width(c, c->stages - 1);

        rc = read_integer_in_range(j, "hidden_size", 768, last, last, &hidden, err);
    }
    return rc == 0 ? check_image(c, err) : rc;
}

static int read_config(const json_t *j, struct clap_config *c, struct err *err)
{
    const char *type = json_string_value(json_object_get(j, "model_type"));
    const json_t *audio = json_object_get(j, "audio_config");
    int rc;

    if (!type || strcmp(type, "clap") != 0)
        return err_set(err, ERR_MODEL, "it describes a model of type '%.40s', not clap",
                       type ? type : "(none)");
    if (!json_is_object(audio))
        return err_set(err, ERR_MODEL, "there is no audio_config");
    rc = read_integer_in_range(j, "projection_dim", 512, 1, CLAP_MAX_SIZE, &c->size, err);
    if (rc == 0 && c->size % 2)
        return err_set(err, ERR_MODEL, "projection_dim is %u, an odd number", c->size);
    if (rc == 0)
        rc = must_be(j, "projection_hidden_act", "relu", err);
    if (rc == 0 && (rc = read_audio(audio, c, err)) != 0)
        err_prefix(err, "audio_config");
    return rc;
}

int clap_config_read(const char *dir, struct clap_config *ret, struct err *err)
{
    struct clap_config c = {0};
    json_t *j = NULL;
    int rc = json_file_need(dir, "preprocessor_config.json", &j, err);

    if (rc == 0 && (rc = read_features(j, &c, err)) != 0)
        err_prefix(err, "preprocessor_config.json");
    json_decref(j);
    j = NULL;
    if (rc == 0)
        rc = json_file_need(dir, "config.json", &j, err);
    if (j && (rc = read_config(j, &c, err)) != 0)
        err_prefix(err, "config.json");
    json_decref(j);
    if (rc == 0)
        *ret = c;
    else
        utf8_display_err(err);
    return rc;
}
