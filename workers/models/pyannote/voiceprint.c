#include "workers/models/pyannote/voiceprint.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/files/weights.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/pyannote/voiceprint_net.h"

/* ---- GE2E
 *
 * Wan et al., "Generalized End-to-End Loss for Speaker Verification" (2018), as Resemblyzer runs
 * it: what a mask covers is cut out and joined, made louder where it is quiet (to -30 dBFS), and
 * heard in pieces of 160 frames, 77 apart; the last piece is padded with silence, or left out when
 * less than three quarters of it are there and there are others. A piece's vector is the last
 * state of the last LSTM layer through a linear layer and ReLU, of length 1; a voice is their mean,
 * of length 1 again. Pieces of many masks share a call of the device. */

#define BINS VOICE_GE2E_BINS
#define STEP 160  /* samples */
#define PIECE 160 /* frames */
#define PIECE_SAMPLES (PIECE * STEP)
#define PIECE_STEP 77 /* frames: 1.3 pieces a second */
#define COVERED 0.75
#define LOUDNESS -30.0     /* dBFS: quieter voices are brought to it */
#define LEAST_SAMPLES 6400 /* 0.4 s: a word; less tells nothing of a voice */
#define MAX_LAYERS 8
#define MAX_FRAMES (1 + (VOICEPRINT_MAX_SAMPLES + PIECE_SAMPLES) / STEP)
#define GROUP 64       /* pieces of one call of the device */
#define GROUP_WIDE 256 /* where many at once are faster: products of 64 rows fill no GPU */

/* Equal to librosa's melspectrogram. */
const struct filter_bank_spec voice_ge2e_bank = {
    .mel = {.scale = MEL_SLANEY,
            .area = true,
            .rate_hz = 16000,
            .fft = 400,
            .bins = BINS,
            .low_hz = 0.0,
            .high_hz = 8000.0},
    .frame = 400,
    .step = STEP,
    .window = FRAME_HANN,
    .place = FRAME_CENTRED,
    .scale = 1.0,
};

struct voice_ge2e {
    struct backend *be; /* borrowed */
    uint32_t hidden, size, layers;
    struct lstm *lstm[MAX_LAYERS];
    struct linear *last;
    struct filter_bank *bank;
    uint32_t group;

    float *x, *y;        /* device memory: [group][PIECE][most], most: BINS or hidden */
    float *h, *c, *zero; /* [group][hidden] */
    float *vectors;      /* [group][size] */
    float *sound;        /* device memory: [VOICEPRINT_MAX_SAMPLES + PIECE_SAMPLES] */
    float *mel;          /* device memory: [MAX_FRAMES][BINS] */
    float *voice;        /* host: [VOICEPRINT_MAX_SAMPLES + PIECE_SAMPLES] */
    float *staged;       /* host: [group][size] */
    uint32_t *to;        /* host: [group]: whose pieces they are */
    uint32_t queued;
};

/* ---- loading */

struct source {
    const struct weights *file;
    struct weights_pool pool;
};

static int take_layer(struct voice_ge2e *g, struct source *s, uint32_t i, struct err *err)
{
    uint32_t in[2] = {4 * g->hidden, i == 0 ? BINS : g->hidden}, n = 4 * g->hidden;
    uint32_t again[2] = {n, g->hidden};
    float *w_ih, *w_hh, *b_ih, *b_hh;
    char name[64];
    int rc;

    snprintf(name, sizeof(name), "lstm.weight_ih_l%u", i);
    rc = weights_take(s->file, &s->pool, name, 2, in, n, &w_ih, err);
    snprintf(name, sizeof(name), "lstm.weight_hh_l%u", i);
    if (rc == 0)
        rc = weights_take(s->file, &s->pool, name, 2, again, n, &w_hh, err);
    snprintf(name, sizeof(name), "lstm.bias_ih_l%u", i);
    if (rc == 0)
        rc = weights_take(s->file, &s->pool, name, 1, &n, n, &b_ih, err);
    snprintf(name, sizeof(name), "lstm.bias_hh_l%u", i);
    if (rc == 0)
        rc = weights_take(s->file, &s->pool, name, 1, &n, n, &b_hh, err);
    if (rc == 0)
        rc = g->be->ops->lstm_new(g->be, in[1], g->hidden, 1,
                                  &(struct lstm_weights){w_ih, w_hh, b_ih, b_hh}, &g->lstm[i], err);
    return rc;
}

static int find_hidden(struct voice_ge2e *g, struct source *s, struct err *err)
{
    uint32_t dim[2] = {0, 0};
    float *w;
    int rc = weights_take(s->file, &s->pool, "lstm.weight_hh_l0", 2, dim, 4 * 512, &w, err);

    if (rc == 0 && (dim[0] != 4 * dim[1] || dim[1] % 8 != 0 || dim[1] > 512))
        return err_set(err, ERR_MODEL,
                       "tensor 'lstm.weight_hh_l0' is %u x %u, but four gates of a multiple of 8 "
                       "up to 512 are read here",
                       dim[0], dim[1]);
    g->hidden = dim[1];
    return rc;
}

static int prepare_ge2e_layers(struct voice_ge2e *g, struct source *s, struct err *err)
{
    static const char *const names[] = {"lstm.weight_ih_l%u", "lstm.weight_hh_l%u",
                                        "lstm.bias_ih_l%u", "lstm.bias_hh_l%u"};
    uint32_t dim[2];
    float *w, *bias;
    int rc;

    if (weights_has(s->file, "lstm.weight_ih_l0_reverse"))
        return err_set(err, ERR_MODEL,
                       "tensor 'lstm.weight_ih_l0_reverse': a speaker encoder's LSTM goes forward "
                       "alone");
    rc = find_hidden(g, s, err);
    while (rc == 0 && (weights_has_layer(s->file, names, 4, g->layers) ||
                       weights_has_layer(s->file, names, 4, g->layers + 1))) {
        if (g->layers == MAX_LAYERS)
            return err_set(err, ERR_MODEL, "more than %d LSTM layers", MAX_LAYERS);
        rc = take_layer(g, s, g->layers++, err);
    }
    dim[0] = 0;
    dim[1] = g->hidden;
    if (rc == 0)
        rc = weights_take(s->file, &s->pool, "linear.weight", 2, dim, VOICEPRINT_MAX_SIZE, &w, err);
    if (rc == 0)
        rc =
            weights_take(s->file, &s->pool, "linear.bias", 1, dim, VOICEPRINT_MAX_SIZE, &bias, err);
    g->size = dim[0];
    return rc != 0 ? rc
                   : g->be->ops->linear_new(g->be, PRECISION_F32, LINEAR_ROWS, g->group, g->size,
                                            g->hidden, w, bias, &g->last, err);
}

static int take_memory(struct voice_ge2e *g, struct err *err)
{
    size_t wide = g->hidden > BINS ? g->hidden : BINS, state = (size_t)g->group * g->hidden;
    const struct {
        float **ret;
        size_t count;
    } want[] = {{&g->x, g->group * PIECE * wide},
                {&g->y, g->group * PIECE * wide},
                {&g->h, state},
                {&g->c, state},
                {&g->zero, state},
                {&g->vectors, (size_t)g->group * g->size},
                {&g->sound, VOICEPRINT_MAX_SAMPLES + PIECE_SAMPLES},
                {&g->mel, (size_t)MAX_FRAMES * BINS}};
    void *p = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(want) / sizeof(want[0]); i++) {
        rc = g->be->ops->alloc(g->be, want[i].count * sizeof(float), &p, err);
        if (rc == 0)
            *want[i].ret = p;
    }
    if (rc == 0)
        rc = g->be->ops->filter_bank_new(g->be, &voice_ge2e_bank, &g->bank, err);
    if (rc != 0)
        return rc;
    g->voice = calloc(VOICEPRINT_MAX_SAMPLES + PIECE_SAMPLES, sizeof(float));
    g->staged = malloc((size_t)g->group * g->size * sizeof(float));
    g->to = malloc(g->group * sizeof(*g->to));
    if (!g->voice || !g->staged || !g->to)
        return err_set(err, ERR_NOMEM, "no memory for the speaker encoder");
    return 0;
}

static void voice_ge2e_free(struct voice_ge2e *g)
{
    const struct backend_ops *ops;

    if (!g)
        return;
    ops = g->be->ops;
    for (uint32_t i = 0; i < MAX_LAYERS; i++)
        ops->lstm_free(g->be, g->lstm[i]);
    ops->linear_free(g->be, g->last);
    ops->release(g->be, g->x);
    ops->release(g->be, g->y);
    ops->release(g->be, g->h);
    ops->release(g->be, g->c);
    ops->release(g->be, g->zero);
    ops->release(g->be, g->vectors);
    ops->release(g->be, g->sound);
    ops->release(g->be, g->mel);
    ops->filter_bank_free(g->be, g->bank);
    free(g->voice);
    free(g->staged);
    free(g->to);
    free(g);
}

static uint32_t voice_ge2e_size(const struct voice_ge2e *g) { return g->size; }

/* ---- running */

static struct tensor make_float_tensor(float *data, size_t rows, uint32_t cols)
{
    return tensor_of(DTYPE_F32, data, (int64_t)rows, cols);
}

/* The queued pieces, which lie in g->x, through the network to g->staged. */
static int compute_piece_vectors(struct voice_ge2e *g, struct err *err)
{
    const struct backend_ops *ops = g->be->ops;
    uint32_t n = g->queued;
    struct tensor h = make_float_tensor(g->h, n, g->hidden),
                  c = make_float_tensor(g->c, n, g->hidden);
    struct tensor zero = make_float_tensor(g->zero, n, g->hidden),
                  vectors = make_float_tensor(g->vectors, n, g->size);
    size_t steps = (size_t)n * PIECE;
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < g->layers; i++) {
        float *from = i % 2 ? g->y : g->x, *to = i % 2 ? g->x : g->y;

        rc = ops->copy(g->be, h, zero, err);
        if (rc == 0)
            rc = ops->copy(g->be, c, zero, err);
        if (rc == 0)
            rc = ops->lstm(g->be, g->lstm[i], n,
                           make_float_tensor(from, steps, i ? g->hidden : BINS), NULL, h, c,
                           make_float_tensor(to, steps, g->hidden), err);
    }
    if (rc == 0)
        rc = ops->linear(g->be, g->last, h, EPILOGUE_NONE, vectors, err);
    return rc == 0 ? ops->get(g->be, g->staged, vectors, err) : rc;
}

/* The energies of n samples of g->voice to g->mel. */
static int compute_energies(struct voice_ge2e *g, size_t n, struct err *err)
{
    const size_t frames = filter_bank_frames(&voice_ge2e_bank, n);
    static const uint32_t at = 0;
    int rc = g->be->ops->write(g->be, g->sound, g->voice, n * sizeof(float), err);

    return rc == 0 ? g->be->ops->filter_bank(g->be, g->bank,
                                             make_float_tensor(g->sound, 1, (uint32_t)n), &at, 1, n,
                                             make_float_tensor(g->mel, frames, BINS), err)
                   : rc;
}

/* Runs a full batch of silent pieces, so that the device allocates its memory now. */
static int warm_up_ge2e(struct voice_ge2e *g, struct err *err)
{
    int rc = compute_energies(g, VOICEPRINT_MAX_SAMPLES, err);

    g->queued = g->group;
    if (rc == 0)
        rc = compute_piece_vectors(g, err);
    g->queued = 0;
    return rc;
}

static int voice_ge2e_load(const struct weights *file, struct backend *be, struct voice_ge2e **ret,
                           struct err *err)
{
    struct source s = {.file = file};
    struct voice_ge2e *g = calloc(1, sizeof(*g));
    int rc;

    if (!g)
        return err_set(err, ERR_NOMEM, "no memory for the speaker encoder");
    g->be = be;
    g->group = be->info.wide_batches && !be->info.deterministic ? GROUP_WIDE : GROUP;
    rc = prepare_ge2e_layers(g, &s, err);
    weights_pool_free(&s.pool);
    if (rc == 0)
        rc = take_memory(g, err);
    if (rc == 0)
        rc = warm_up_ge2e(g, err);
    if (rc != 0) {
        voice_ge2e_free(g);
        return rc;
    }
    *ret = g;
    return 0;
}

/* v by its length; false when it has none. */
static bool normalise_vector(float *v, uint32_t n)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++)
        sum += (double)v[i] * (double)v[i];
    if (sum == 0.0)
        return false;
    for (uint32_t i = 0; i < n; i++)
        v[i] = (float)((double)v[i] / sqrt(sum));
    return true;
}

/* Adds the queued pieces to their voices. A zero vector adds nothing. */
static int flush_queued_pieces(struct voice_ge2e *g, float *ret, struct err *err)
{
    int rc = g->queued ? compute_piece_vectors(g, err) : 0;

    for (uint32_t i = 0; rc == 0 && i < g->queued; i++) {
        float *v = g->staged + (size_t)i * g->size, *sum = ret + (size_t)g->to[i] * g->size;

        for (uint32_t k = 0; k < g->size; k++) {
            if (!isfinite(v[k]))
                return err_set(err, ERR_MODEL,
                               "the speaker encoder computed something that is no number");
            v[k] = v[k] > 0.0f ? v[k] : 0.0f;
        }
        if (!normalise_vector(v, g->size))
            continue;
        for (uint32_t k = 0; k < g->size; k++)
            sum[k] += v[k];
    }
    g->queued = 0;
    return rc;
}

/* Copies the samples that a mask covers to g->voice. */
static size_t cut_out(struct voice_ge2e *g, const struct voice_job *job, const struct voice_mask *m)
{
    const float *pcm = job->pcm + voice_begin(job, m->window) + m->begin;
    size_t n = 0, length = voice_length(job, m);

    for (size_t i = 0; i < length; i++)
        if (m->weights[voice_nearest((float)i, length, job->frames)] > 0.5f)
            g->voice[n++] = pcm[i];
    return n;
}

/* False when there is nothing to be made louder. */
static bool make_louder(float *pcm, size_t n)
{
    double power = 0.0, change, by;

    for (size_t i = 0; i < n; i++)
        power += (double)pcm[i] * (double)pcm[i];
    if (power == 0.0)
        return false;
    change = LOUDNESS - 10.0 * log10(power / (double)n);
    by = pow(10.0, change / 20.0);
    for (size_t i = 0; change > 0.0 && i < n; i++)
        pcm[i] = (float)((double)pcm[i] * by);
    return true;
}

/* Pieces of n samples; the last one may go past them. */
static uint32_t count_pieces(size_t n)
{
    size_t frames = n / STEP + 1, count = 1, last;

    if (frames >= PIECE)
        count += (frames - PIECE) / PIECE_STEP + 1;
    last = (count - 1) * PIECE_STEP * STEP;
    if (count > 1 && (double)n - (double)last < COVERED * PIECE_SAMPLES)
        count--;
    return (uint32_t)count;
}

static int queue_voice_pieces(struct voice_ge2e *g, const struct voice_job *job, uint32_t mask,
                              size_t n, struct err *err)
{
    uint32_t count = count_pieces(n);
    size_t end = ((size_t)(count - 1) * PIECE_STEP + PIECE) * STEP;
    int rc;

    for (; n < end; n++)
        g->voice[n] = 0.0f;
    rc = compute_energies(g, n, err);
    for (uint32_t i = 0, now; rc == 0 && i < count; i += now) {
        /* A piece is a row, which the next one lies over. */
        struct tensor from = make_float_tensor(g->mel + (size_t)i * PIECE_STEP * BINS, 1,
                                               PIECE * BINS),
                      to;

        if (g->queued == g->group)
            rc = flush_queued_pieces(g, job->ret, err);
        now = count - i < g->group - g->queued ? count - i : g->group - g->queued;
        to = make_float_tensor(g->x + (size_t)g->queued * PIECE * BINS, now, PIECE * BINS);
        from.rows = now;
        from.stride = (int64_t)PIECE_STEP * BINS;
        if (rc == 0)
            rc = g->be->ops->copy(g->be, to, from, err);
        for (uint32_t k = 0; k < now; k++)
            g->to[g->queued++] = mask;
    }
    return rc;
}

static int voice_ge2e_run(struct voice_ge2e *g, const struct voice_job *job, struct err *err)
{
    int rc = 0;

    memset(job->ret, 0, (size_t)job->mask_count * g->size * sizeof(float));
    g->queued = 0;
    for (uint32_t i = 0; rc == 0 && i < job->mask_count; i++) {
        size_t n = cut_out(g, job, &job->masks[i]);

        if (n >= LEAST_SAMPLES && make_louder(g->voice, n))
            rc = queue_voice_pieces(g, job, i, n, err);
    }
    if (rc == 0)
        rc = flush_queued_pieces(g, job->ret, err);
    for (uint32_t i = 0; rc == 0 && i < job->mask_count; i++) {
        float *v = job->ret + (size_t)i * g->size;

        if (normalise_vector(v, g->size))
            continue;
        for (uint32_t k = 0; k < g->size; k++)
            v[k] = NAN;
    }
    return rc;
}

/* ---- either of them */

#define GROUP_MOST 8 /* whose images are there at once: 77 MB each, and enough for a device */

struct voiceprint {
    struct backend *be; /* borrowed */
    uint32_t windows;   /* a call of ours takes */
    size_t samples;     /* of the longest window */
    uint32_t size;
    struct voice_resnet *resnet; /* one of the two */
    struct voice_ge2e *ge2e;
};

static int load_speaker_encoder(struct voiceprint *v, const struct weights *w, uint32_t group,
                                struct err *err)
{
    int rc;

    if (weights_has(w, "resnet.conv1.weight")) {
        rc = voice_resnet_load(w, v->be, group, v->samples, &v->resnet, err);
        v->size = rc == 0 ? voice_resnet_size(v->resnet) : 0;
        return rc;
    }
    if (weights_has(w, "lstm.weight_ih_l0") && weights_has(w, "linear.weight")) {
        rc = voice_ge2e_load(w, v->be, &v->ge2e, err);
        v->size = rc == 0 ? voice_ge2e_size(v->ge2e) : 0;
        return rc;
    }
    return err_set(err, ERR_MODEL,
                   "no speaker encoder that is known here: neither 'resnet.conv1.weight' "
                   "(WeSpeaker's ResNet) nor 'lstm.weight_ih_l0' and 'linear.weight' (GE2E) is in "
                   "it");
}

int voiceprint_load(const char *file, struct backend *be, uint32_t windows, size_t samples,
                    struct voiceprint **ret, struct err *err)
{
    bool wide = be->info.wide_batches && !be->info.deterministic;
    struct voiceprint *v = calloc(1, sizeof(*v));
    struct weights *w = NULL;
    uint32_t group;
    int rc;

    if (!v)
        return err_set(err, ERR_NOMEM, "no memory for the speaker encoder");
    v->be = be;
    v->samples = samples < VOICEPRINT_MAX_SAMPLES ? samples : VOICEPRINT_MAX_SAMPLES;
    v->windows = windows ? windows : wide ? PYANNET_WIDE : 1;
    group = !wide ? 1 : v->windows < GROUP_MOST ? v->windows : GROUP_MOST;
    rc = weights_open_file(file, &w, err);
    if (rc == 0) {
        rc = load_speaker_encoder(v, w, group, err);
        if (rc != 0)
            err_prefix(err, "%.200s", file);
    }
    weights_close(w);
    if (rc != 0) {
        voiceprint_free(v);
        return rc;
    }
    *ret = v;
    return 0;
}

void voiceprint_free(struct voiceprint *v)
{
    if (!v)
        return;
    voice_resnet_free(v->resnet);
    voice_ge2e_free(v->ge2e);
    free(v);
}

uint32_t voiceprint_windows(const struct voiceprint *v) { return v->windows; }
uint32_t voiceprint_size(const struct voiceprint *v) { return v->size; }

uint64_t voiceprint_predict_bytes(uint32_t windows)
{
    return voice_resnet_predict_bytes(windows && windows < GROUP_MOST ? windows : GROUP_MOST);
}

int voiceprint_run(struct voiceprint *v, const float *pcm, const size_t *at, size_t samples,
                   uint32_t n, const struct voice_mask *masks, uint32_t mask_count, uint32_t frames,
                   float *ret, struct err *err)
{
    const struct voice_job job = {pcm, at, samples, n, masks, mask_count, frames, ret};

    if (n > v->windows || samples > v->samples || (mask_count && frames < 1))
        return err_set(err, ERR_DEVICE,
                       "voices of %u windows of %zu samples in a call for %u of %zu", n, samples,
                       v->windows, v->samples);
    for (uint32_t i = 0; i < mask_count; i++)
        if (masks[i].window >= n)
            return err_set(err, ERR_DEVICE, "a voice in window %u of %u", masks[i].window, n);
        else if ((uint64_t)masks[i].begin + masks[i].length > samples)
            return err_set(err, ERR_DEVICE, "a voice in samples %u to %" PRIu64 " of %zu",
                           masks[i].begin, (uint64_t)masks[i].begin + masks[i].length, samples);
    return v->resnet ? voice_resnet_run(v->resnet, &job, err) : voice_ge2e_run(v->ge2e, &job, err);
}
