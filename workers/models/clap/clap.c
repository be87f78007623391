#include "workers/models/clap/clap.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/threads.h"
#include "gpu/backend.h"
#include "workers/audio/upsample.h"
#include "workers/models/bert/bert.h"
#include "workers/models/clap/clap_audio.h"
#include "workers/models/clap/clap_mel.h"
#include "workers/models/clap/clap_text.h"
#include "workers/models/files/weights.h"

#define FEW_WINDOWS 4   /* of a call where more at once gain nothing */
#define MANY_WINDOWS 32 /* 20 MB of scratch each, in float32 */
#define HEARD_AT_ONCE 8 /* windows at 48 kHz in host memory, 1.9 MB each */

struct clap {
    struct backend *be; /* borrowed */
    struct clap_config config;
    uint32_t windows; /* a call of ours takes */
    uint32_t group;   /* of one call of the device */
    struct upsampler *upsampler;
    struct clap_audio_tower *audio; /* NULL: not loaded */
    float *audio48;                 /* [HEARD_AT_ONCE, or group][CLAP_MEL_SAMPLES] */
    struct clap_text_tower *text;   /* NULL: not loaded */
};

static uint32_t heard_at_once(const struct clap *c)
{
    return c->group < HEARD_AT_ONCE ? c->group : HEARD_AT_ONCE;
}

static int load_audio(struct clap *c, const struct weights *w, enum precision precision,
                      struct err *err)
{
    int rc = upsampler_new(&c->upsampler, err);

    c->audio48 = malloc((size_t)heard_at_once(c) * CLAP_MEL_SAMPLES * sizeof(*c->audio48));
    if (rc == 0 && !c->audio48)
        rc = err_no_memory(err, "CLAP");
    return rc == 0 ? clap_audio_load(&c->config, w, c->be, precision, c->group, &c->audio, err)
                   : rc;
}

static int load_towers(struct clap *c, const char *dir, enum precision precision, unsigned towers,
                       struct err *err)
{
    struct weights *w = NULL;
    int rc = backend_precision(c->be, precision, &precision, err);

    if (rc == 0)
        rc = clap_config_read(dir, &c->config, err);
    if (rc == 0)
        rc = weights_open(dir, &w, err);
    if (rc == ERR_MISSING || rc == ERR_DENIED) /* of a model, that is no file to be skipped */
        rc = err->code = ERR_MODEL;
    if (rc == 0 && towers & CLAP_AUDIO)
        rc = load_audio(c, w, precision, err);
    if (rc == 0 && towers & CLAP_TEXT)
        rc = clap_text_load(dir, c->config.size, w, c->be, precision, &c->text, err);
    weights_close(w);
    return rc;
}

int clap_load(const char *dir, struct backend *be, enum precision precision, unsigned towers,
              uint32_t windows, struct clap **ret, struct err *err)
{
    bool wide = be->info.wide_batches && !be->info.deterministic;
    struct clap *c;
    int rc;

    if (windows > CLAP_MAX_WINDOWS)
        return err_set(err, ERR_USAGE, "CLAP of %u windows at once: at most %d", windows,
                       CLAP_MAX_WINDOWS);
    c = calloc(1, sizeof(*c));
    if (!c)
        return err_no_memory(err, "CLAP");
    c->be = be;
    c->windows = windows ? windows : wide ? MANY_WINDOWS : FEW_WINDOWS;
    c->group = wide ? c->windows : 1;
    rc = load_towers(c, dir, precision, towers, err);
    if (rc != 0) {
        if (rc == ERR_MODEL)
            err_prefix(err, "%.200s", dir);
        clap_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void clap_free(struct clap *c)
{
    if (!c)
        return;
    upsampler_free(c->upsampler);
    clap_audio_free(c->audio);
    clap_text_free(c->text);
    free(c->audio48);
    free(c);
}

uint32_t clap_size(const struct clap *c) { return c->config.size; }

uint32_t clap_windows(const struct clap *c) { return c->windows; }

/* To length 1. */
static int normalise_vector(float *v, uint32_t size, struct err *err)
{
    double sum = 0.0, length;

    for (uint32_t i = 0; i < size; i++)
        sum += (double)v[i] * (double)v[i];
    length = sqrt(sum);
    if (!(length > 0.0 && length < (double)INFINITY))
        return err_set(err, ERR_MODEL, "CLAP computed something that is no number");
    for (uint32_t i = 0; i < size; i++)
        v[i] = (float)((double)v[i] / length);
    return 0;
}

struct hearing {
    const struct clap *clap;
    const struct clap_audio *audio;
};

static void upsample_window(void *arg, uint32_t i)
{
    const struct hearing *h = arg;
    float *to = h->clap->audio48 + (size_t)i * CLAP_MEL_SAMPLES;

    upsample(h->clap->upsampler, h->audio[i].pcm, h->audio[i].n, to);
    clap_mel_fill(to, h->audio[i].n * UPSAMPLE_BY);
}

/* At most a group. */
static int run_group(struct clap *c, const struct clap_audio *audio, uint32_t n, float *ret,
                     struct err *err)
{
    int rc = 0;

    for (uint32_t at = 0, count; rc == 0 && at < n; at += count) {
        struct hearing h = {c, audio + at};

        count = n - at < heard_at_once(c) ? n - at : heard_at_once(c);
        threads_run(c->be->info.host_threads, count, upsample_window, &h);
        rc = clap_audio_put(c->audio, at, c->audio48, count, err);
    }
    if (rc == 0)
        rc = clap_audio_run(c->audio, n, ret, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = normalise_vector(ret + (size_t)i * c->config.size, c->config.size, err);
    return rc;
}

int clap_run_audio(struct clap *c, const struct clap_audio *audio, uint32_t n, float *ret,
                   struct err *err)
{
    int rc = 0;

    if (!c->audio)
        return err_set(err, ERR_DEVICE, "CLAP was loaded without its audio tower");
    if (n > c->windows)
        return err_set(err, ERR_DEVICE, "CLAP of %u windows in a call for %u", n, c->windows);
    for (uint32_t i = 0; i < n; i++)
        if (audio[i].n < 1 || audio[i].n > CLAP_SAMPLES)
            return err_set(err, ERR_DEVICE, "CLAP of a window of %zu samples", audio[i].n);
    for (uint32_t at = 0; rc == 0 && at < n; at += c->group)
        rc = run_group(c, audio + at, n - at < c->group ? n - at : c->group,
                       ret + (size_t)at * c->config.size, err);
    return rc;
}

int clap_run_text(struct clap *c, const char *const *texts, uint32_t n, float *ret, struct err *err)
{
    int rc;

    if (!c->text)
        return err_set(err, ERR_DEVICE, "CLAP was loaded without its text tower");
    rc = clap_text_run(c->text, texts, n, ret, err);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = normalise_vector(ret + (size_t)i * c->config.size, c->config.size, err);
    return rc;
}

/* ---- planning */

#define PATCHES ((uint64_t)4096) /* of the first stage, 96 values each */
#define VALUES (PATCHES * 96)
#define HEARD ((uint64_t)CLAP_MEL_SAMPLES + 1001 * 64) /* and its log-mel */
#define AUDIO_WEIGHTS ((uint64_t)29000000) /* of matrices, mostly the last two stages' */
#define AUDIO_TABLES ((uint64_t)1500000)   /* biases of attention, and maps */

static uint64_t audio_bytes(enum precision precision, uint32_t windows)
{
    uint64_t size = dtype_size(precision_type(precision));
    uint64_t each =
        4 * (HEARD + (uint64_t)256 * 256 + 2 * VALUES + 3 * PATCHES) + 9 * VALUES * size;

    return AUDIO_WEIGHTS * precision_weight_bytes(precision) + 4 * AUDIO_TABLES + windows * each;
}

uint64_t clap_predict_bytes(unsigned towers, enum precision precision, uint32_t windows)
{
    const struct bert_config text = {.vocab = 50265,
                                     .hidden = 768,
                                     .layers = 12,
                                     .heads = 12,
                                     .ffn = 3072,
                                     .positions = 514,
                                     .types = 1};
    uint64_t bytes = 0;

    if (precision == PRECISION_AUTO) /* the larger of what it may become */
        precision = PRECISION_F32;
    if (towers & CLAP_AUDIO)
        bytes += audio_bytes(precision, windows ? windows : MANY_WINDOWS);
    if (towers & CLAP_TEXT)
        bytes += bert_predict_bytes(&text, precision, CLAP_TEXT_TOKENS) +
                 (uint64_t)4 * text.hidden * text.hidden;
    return bytes;
}
