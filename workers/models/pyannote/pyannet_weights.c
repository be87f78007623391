#include "workers/models/pyannote/pyannet_weights.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "workers/models/files/weights.h"

/* ---- sinc filters
 *
 * Ravanelli and Bengio, "Speaker Recognition from Raw Waveform with SincNet" (2018): a filter is
 * the difference of two sinc functions, of which only the two edges of its band are learned. The
 * second half of the filters are the same bands shifted by a quarter period (odd functions), as
 * Pariente et al., "Filterbank design for end-to-end speech separation" (2020). */

#define HALF (SINC_WIDTH / 2)
#define LEAST_HZ 50.0f
#define PI 3.14159265358979323846

/* The edges of one band times a time are rounded to float32, as they were when the network was
 * trained: some 390 radians, so that the filters it learned with differ from exact ones by 1e-5. */
static void one_band(float low, float high, float *even, float *odd)
{
    double scale = 2.0 * (double)(high - low);

    for (int i = 0; i < HALF; i++) {
        float t = (float)(2.0 * PI) * ((float)(i - HALF) / (float)SINC_RATE_HZ);
        double from = (double)(low * t), to = (double)(high * t);
        double window = 0.54 - 0.46 * cos(2.0 * PI * i / (SINC_WIDTH - 1));
        double by = window / ((double)t / 2.0) / scale;
        float c = (float)((sin(to) - sin(from)) * by), s = (float)((cos(from) - cos(to)) * by);

        even[i] = even[SINC_WIDTH - 1 - i] = c;
        odd[i] = s;
        odd[SINC_WIDTH - 1 - i] = -s;
    }
    even[HALF] = 1.0f;
    odd[HALF] = 0.0f;
}

/* low, band: [n] in Hz, as they are in a checkpoint: 50 Hz are added to each. ret:
 * [2n][SINC_WIDTH]. */
static void make_sinc_filters(const float *low, const float *band, uint32_t n, float *ret)
{
    for (uint32_t i = 0; i < n; i++) {
        float from = LEAST_HZ + fabsf(low[i]), to = from + LEAST_HZ + fabsf(band[i]);

        if (to > SINC_RATE_HZ / 2.0f)
            to = SINC_RATE_HZ / 2.0f;
        one_band(from, to, ret + (size_t)i * SINC_WIDTH, ret + (size_t)(n + i) * SINC_WIDTH);
    }
}

/* ---- weights */

#define SINC "sincnet.conv1d.0."
#define MAX_FILTERS 512

struct source {
    const struct weights *file;
    struct pyannet_weights *w;
};

static int read_pyannet_weight(const struct source *s, const char *name, uint32_t rank,
                               uint32_t *dim, float **ret, struct err *err)
{
    return weights_take(s->file, &s->w->pool, name, rank, dim, PYANNET_MAX_SIZE, ret, err);
}

static int take_vector(const struct source *s, const char *name, uint32_t n, float **ret,
                       struct err *err)
{
    return read_pyannet_weight(s, name, 1, &n, ret, err);
}

/* The learned parameters of the filters: [n][1] each. */
static int take_sinc(const struct source *s, struct err *err)
{
    uint32_t dim[2] = {0, 1};
    float *low = NULL, *band = NULL;
    int rc = read_pyannet_weight(s, SINC "filterbank.low_hz_", 2, dim, &low, err);

    if (rc == 0)
        rc = read_pyannet_weight(s, SINC "filterbank.band_hz_", 2, dim, &band, err);
    if (rc != 0)
        return rc;
    s->w->conv[0].out = 2 * dim[0];
    s->w->conv[0].w = weights_pool_array(&s->w->pool, (uint64_t)2 * dim[0] * SINC_WIDTH);
    if (!s->w->conv[0].w)
        return err_set(err, ERR_NOMEM, "no memory for a model's weights");
    make_sinc_filters(low, band, dim[0], s->w->conv[0].w);
    for (uint32_t i = 0; i < 2 * dim[0] * SINC_WIDTH; i++)
        if (!isfinite(s->w->conv[0].w[i])) /* a band of no width */
            return err_set(err, ERR_MODEL, "tensor '" SINC "filterbank.low_hz_' has %g Hz",
                           (double)low[i / SINC_WIDTH % dim[0]]);
    return 0;
}

/* The filters themselves where they are there: the folded layout. */
static int take_filters(const struct source *s, struct err *err)
{
    struct pyannet_conv *c = &s->w->conv[0];
    uint32_t dim[3] = {0, 1, SINC_WIDTH};
    int rc;

    *c = (struct pyannet_conv){.in = 1, .width = SINC_WIDTH, .stride = 10};
    if (!weights_has(s->file, SINC "weight"))
        return take_sinc(s, err);
    rc = read_pyannet_weight(s, SINC "weight", 3, dim, &c->w, err);
    c->out = dim[0];
    return rc;
}

static int take_conv(const struct source *s, uint32_t i, struct err *err)
{
    struct pyannet_conv *c = &s->w->conv[i];
    uint32_t dim[3] = {0, s->w->conv[i - 1].out, 5};
    char name[64];
    int rc;

    snprintf(name, sizeof(name), "sincnet.conv1d.%u.weight", i);
    rc = read_pyannet_weight(s, name, 3, dim, &c->w, err);
    c->out = dim[0];
    c->in = dim[1];
    c->width = dim[2];
    c->stride = 1;
    snprintf(name, sizeof(name), "sincnet.conv1d.%u.bias", i);
    return rc != 0 ? rc : take_vector(s, name, c->out, &c->bias, err);
}

static int take_sincnet(const struct source *s, struct err *err)
{
    int rc = take_vector(s, "sincnet.wav_norm1d.weight", 1, &s->w->wav_gamma, err);

    if (rc == 0)
        rc = take_vector(s, "sincnet.wav_norm1d.bias", 1, &s->w->wav_beta, err);
    for (uint32_t i = 0; rc == 0 && i < PYANNET_CONVS; i++) {
        struct pyannet_conv *c = &s->w->conv[i];
        char name[64];

        rc = i == 0 ? take_filters(s, err) : take_conv(s, i, err);
        if (rc == 0 && c->out > MAX_FILTERS)
            rc = err_set(err, ERR_MODEL, "convolution %u has %u filters, more than %d", i, c->out,
                         MAX_FILTERS);
        snprintf(name, sizeof(name), "sincnet.norm1d.%u.weight", i);
        if (rc == 0)
            rc = take_vector(s, name, c->out, &c->gamma, err);
        snprintf(name, sizeof(name), "sincnet.norm1d.%u.bias", i);
        if (rc == 0)
            rc = take_vector(s, name, c->out, &c->beta, err);
    }
    return rc;
}

/* All layers in one module, or each in its own (pyannote's "monolithic": False). */
static void lstm_name(const struct source *s, const char *part, uint32_t layer, int reverse,
                      char name[64])
{
    const char *tail = reverse ? "_reverse" : "";

    if (weights_has(s->file, "lstm.0.weight_ih_l0"))
        snprintf(name, 64, "lstm.%u.%s_l0%s", layer, part, tail);
    else
        snprintf(name, 64, "lstm.%s_l%u%s", part, layer, tail);
}

static int take_direction(const struct source *s, uint32_t layer, int reverse, struct err *err)
{
    struct pyannet_lstm *l = &s->w->lstm[layer];
    uint32_t hidden = s->w->hidden, in[2] = {4 * hidden, l->in}, again[2] = {4 * hidden, hidden};
    char name[64];
    int rc;

    lstm_name(s, "weight_ih", layer, reverse, name);
    rc = read_pyannet_weight(s, name, 2, in, &l->w_ih[reverse], err);
    lstm_name(s, "weight_hh", layer, reverse, name);
    if (rc == 0)
        rc = read_pyannet_weight(s, name, 2, again, &l->w_hh[reverse], err);
    lstm_name(s, "bias_ih", layer, reverse, name);
    if (rc == 0)
        rc = take_vector(s, name, 4 * hidden, &l->b_ih[reverse], err);
    lstm_name(s, "bias_hh", layer, reverse, name);
    return rc != 0 ? rc : take_vector(s, name, 4 * hidden, &l->b_hh[reverse], err);
}

/* The size of the hidden state, from the first layer's recurrent matrix ([4 hidden][hidden]). */
static int find_hidden(const struct source *s, struct err *err)
{
    uint32_t dim[2] = {0, 0};
    char name[64];
    float *w;
    int rc;

    lstm_name(s, "weight_hh", 0, 0, name);
    rc = weights_take(s->file, &s->w->pool, name, 2, dim, 4 * 512, &w, err);
    if (rc != 0)
        return rc;
    if (dim[0] != 4 * dim[1] || dim[1] % 8 != 0 || dim[1] > 512)
        return err_set(err, ERR_MODEL,
                       "tensor '%s' is %u x %u, but four gates of a multiple of 8 up to 512 are "
                       "read here",
                       name, dim[0], dim[1]);
    s->w->hidden = dim[1];
    return 0;
}

/* Layer i is there, or one behind it. */
static bool has_lstm(const struct source *s, uint32_t i)
{
    static const char *const names[] = {
        "lstm.weight_ih_l%u", "lstm.weight_hh_l%u",   "lstm.bias_ih_l%u",
        "lstm.bias_hh_l%u",   "lstm.%u.weight_ih_l0", "lstm.%u.weight_hh_l0",
        "lstm.%u.bias_ih_l0", "lstm.%u.bias_hh_l0",   "lstm.weight_ih_l%u_reverse"};

    return weights_has_layer(s->file, names, sizeof(names) / sizeof(names[0]), i) ||
           weights_has_layer(s->file, names, sizeof(names) / sizeof(names[0]), i + 1);
}

static int take_lstms(const struct source *s, struct err *err)
{
    int rc = find_hidden(s, err);
    uint32_t i = 0;

    for (; rc == 0 && has_lstm(s, i); i++) {
        if (i == PYANNET_MAX_LAYERS)
            return err_set(err, ERR_MODEL, "more than %d LSTM layers", PYANNET_MAX_LAYERS);
        s->w->lstm[i].in = i == 0 ? s->w->conv[PYANNET_CONVS - 1].out : 2 * s->w->hidden;
        rc = take_direction(s, i, 0, err);
        if (rc == 0)
            rc = take_direction(s, i, 1, err);
    }
    s->w->lstms = i;
    return rc;
}

static int take_linear(const struct source *s, const char *prefix, uint32_t in, uint32_t out,
                       struct err *err)
{
    struct pyannet_linear *l = &s->w->linear[s->w->linears];
    uint32_t dim[2] = {out, in};
    char name[64];
    int rc;

    snprintf(name, sizeof(name), "%s.weight", prefix);
    rc = read_pyannet_weight(s, name, 2, dim, &l->w, err);
    l->out = dim[0];
    l->in = dim[1];
    snprintf(name, sizeof(name), "%s.bias", prefix);
    if (rc == 0)
        rc = take_vector(s, name, l->out, &l->bias, err);
    s->w->linears += rc == 0;
    return rc;
}

/* The layer must have an even number of outputs: the next one multiplies pairs. */
static int take_even_linear(const struct source *s, const char *prefix, uint32_t in, uint32_t *out,
                            struct err *err)
{
    int rc = take_linear(s, prefix, in, 0, err);

    if (rc != 0)
        return rc;
    *out = s->w->linear[s->w->linears - 1].out;
    if (*out % 2 != 0)
        return err_set(err, ERR_MODEL, "tensor '%s.weight' makes %u values, an odd number", prefix,
                       *out);
    return 0;
}

/* The classifier's size is not found but known: other sets of speakers are other models. */
static int take_linears(const struct source *s, uint32_t classes, struct err *err)
{
    static const char *const names[] = {"linear.%u.weight", "linear.%u.bias"};
    uint32_t in = 2 * s->w->hidden;
    char prefix[32];
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && (weights_has_layer(s->file, names, 2, i) ||
                                     weights_has_layer(s->file, names, 2, i + 1));
         i++) {
        if (i == PYANNET_MAX_LAYERS)
            return err_set(err, ERR_MODEL, "more than %d linear layers", PYANNET_MAX_LAYERS);
        snprintf(prefix, sizeof(prefix), "linear.%u", i);
        rc = take_even_linear(s, prefix, in, &in, err);
    }
    return rc != 0 ? rc : take_linear(s, "classifier", in, classes, err);
}

int pyannet_weights_read(const char *file, uint32_t classes, struct pyannet_weights **ret,
                         struct err *err)
{
    struct source s = {NULL, calloc(1, sizeof(struct pyannet_weights))};
    struct weights *w = NULL;
    int rc = s.w ? weights_open_file(file, &w, err)
                 : err_set(err, ERR_NOMEM, "no memory for a model's weights");

    s.file = w;
    if (rc == 0) {
        rc = take_sincnet(&s, err);
        if (rc == 0)
            rc = take_lstms(&s, err);
        if (rc == 0)
            rc = take_linears(&s, classes, err);
        if (rc != 0)
            err_prefix(err, "%.200s", file);
    }
    weights_close(w);
    if (rc != 0) {
        pyannet_weights_free(s.w);
        return rc;
    }
    *ret = s.w;
    return 0;
}

void pyannet_weights_free(struct pyannet_weights *w)
{
    if (!w)
        return;
    weights_pool_free(&w->pool);
    free(w);
}
