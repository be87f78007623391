/* Images are frames by frequencies, channels last: a frame's values lie together, as the pool over
 * time wants them. pyannote's are frequencies by frames, channels first; so kernels are turned and
 * the last layer's columns put into the other order when they are read. The batch norm behind each
 * convolution is folded into it.
 *
 *   per window of 25 s  floats (published sizes)
 *   filter bank         2498 x 80
 *   conv1, layer 1      2498 x 80 x 32
 *   layer 2             1249 x 40 x 64
 *   layer 3             625 x 20 x 128
 *   layer 4             313 x 10 x 256
 *   per mask            2 x 10 x 256 -> 256
 *
 * A mask may cover a part of a window: ten seconds of 25, say. Its weights are 0 outside of that,
 * and the pool does the rest. A vector is then not quite the one that those ten seconds alone
 * would give: the filter bank's mean is that of the whole window; the part's ends hear 1.1 s of
 * what lies beyond them, where else zeros would be; and a part that begins between two frames of
 * the last layer, 80 ms apart, is masked to the nearest. docs/measurements.md has what that does.
 *
 * The convolutions, nearly all of the work, are float16 where a GPU has that and TF32, and images
 * are then kept in it: float16 keeps the bits that TF32 uses, and neither changes a turn of the
 * conversations that they were tried on (docs/measurements.md). float16 lacks range: when weights
 * are loaded, silence and bursts of noise show whether they are too large for it, and such weights
 * use TF32. A value that overflows later makes the vector not a number, which is an error of the
 * recording; in TF32 it is one of the weights. The rest is float32.
 *
 * A block reads one of three buffers, and its convolutions write the other two. Windows that no
 * mask wants are not computed. A group's vectors are taken when the next one's operations have been
 * asked for, so that a device has work while the host takes them and copies samples. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gpu/backend.h"
#include "workers/models/pyannote/voiceprint_net.h"

#define BINS VOICE_RESNET_BINS
#define MAX_FRAMES 2498     /* of VOICEPRINT_MAX_SAMPLES: 25 s */
#define MAX_LAST_FRAMES 313 /* of those, behind the last block */
#define STRIDE 1280         /* samples: from one of the last to the next */
/* Masks of a window of 25 s that share a call of the device; of shorter ones accordingly fewer. */
#define MASKS 48

/* Equal to Kaldi's (and torchaudio's) with a Hamming window and no dither; samples are scaled to 16
 * bits. */
const struct filter_bank_spec voice_resnet_bank = {
    .mel = {.scale = MEL_HTK,
            .linear_in_mel = true,
            .rate_hz = 16000,
            .fft = 512,
            .bins = BINS,
            .low_hz = 20.0,
            .high_hz = 8000.0},
    .frame = 400,
    .step = 160,
    .window = FRAME_HAMMING,
    .less_mean = true,
    .pre_emphasis = 0.97,
    .scale = 32768.0,
    .logarithm = true,
    .floor = (double)FLT_EPSILON,
    .centre = true,
};

struct block {
    struct conv2d *first, *second, *shortcut; /* shortcut NULL: what came in */
    uint32_t out, stride;
};

struct voice_resnet {
    struct backend *be; /* borrowed */
    uint32_t group;
    size_t samples;  /* of the longest window */
    uint32_t frames; /* of its filter bank */
    enum precision convolving;
    enum dtype type; /* of images */
    struct conv2d *begin;
    uint32_t channels;    /* of begin's output */
    uint32_t block_count; /* of all four layers */
    struct block block[RESNET_LAYERS * RESNET_MAX_BLOCKS];
    uint32_t size, pooled; /* of a vector; of a frame behind the last block */
    struct linear *last;

    void *buffer[3];                  /* device memory */
    float *weights, *stats, *vectors; /* device memory, of `many` masks each */
    uint32_t many;
    bool boxed; /* vectors come by `box`; else they wait for all that was asked for by then */
    uint32_t box;
    uint32_t pending; /* masks whose vectors are computed, and not yet taken */

    struct filter_bank *bank;
    uint32_t *at;             /* host: [group]: where a window's samples begin on the device */
    float *stretched;         /* host: [many][frames] */
    float *staged;            /* host: [many][size] */
    uint32_t *used, *of, *to; /* host: [group] windows; [many] places in it; [many] masks */
};

/* ---- loading */

static int conv_new(struct voice_resnet *r, const struct resnet_conv *c, struct conv2d **ret,
                    struct err *err)
{
    uint32_t pad = c->kernel / 2;
    const struct conv2d_spec spec = {.in = c->in,
                                     .out = c->out,
                                     .kernel_h = c->kernel,
                                     .kernel_w = c->kernel,
                                     .stride_h = c->stride,
                                     .stride_w = c->stride,
                                     .top = pad,
                                     .bottom = pad,
                                     .left = pad,
                                     .right = pad};

    return r->be->ops->conv2d_new(r->be, r->convolving, &spec, c->w, c->bias, ret, err);
}

static int prepare_resnet_layers(struct voice_resnet *r, const struct resnet_weights *w,
                                 struct err *err)
{
    int rc = conv_new(r, &w->begin, &r->begin, err);

    r->channels = w->begin.out;
    for (; rc == 0 && r->block_count < w->block_count; r->block_count++) {
        const struct resnet_block *from = &w->block[r->block_count];
        struct block *b = &r->block[r->block_count];

        b->out = from->first.out;
        b->stride = from->first.stride;
        rc = conv_new(r, &from->first, &b->first, err);
        if (rc == 0)
            rc = conv_new(r, &from->second, &b->second, err);
        if (rc == 0 && from->shortcut.w)
            rc = conv_new(r, &from->shortcut, &b->shortcut, err);
    }
    r->size = w->size;
    r->pooled = w->pooled;
    return rc != 0 ? rc
                   : r->be->ops->linear_new(r->be, PRECISION_F32, LINEAR_ROWS, r->many, w->size,
                                            (int64_t)2 * w->pooled, w->last, w->last_bias, &r->last,
                                            err);
}

static uint32_t halved(uint32_t n) { return (n - 1) / 2 + 1; }

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

/* Bytes of the largest data of one window: an image, or the float32 data, which are its audio (the
 * filter bank is smaller) and the pool's input. */
static size_t find_largest_image_bytes(const struct voice_resnet *r)
{
    uint32_t frames = r->frames, bins = BINS;
    size_t values = (size_t)frames * bins * r->channels, each = dtype_size(r->type);
    size_t most = larger(values * each, r->samples * sizeof(float));

    for (uint32_t i = 0; i < r->block_count; i++) {
        frames = r->block[i].stride == 2 ? halved(frames) : frames;
        bins = r->block[i].stride == 2 ? halved(bins) : bins;
        values = (size_t)frames * bins * r->block[i].out;
        most = larger(most, values * each);
    }
    return larger(most, values * sizeof(float));
}

static int take_memory(struct voice_resnet *r, struct err *err)
{
    size_t image = r->group * find_largest_image_bytes(r), many = r->many;
    const struct {
        float **ret;
        size_t count;
    } want[] = {{&r->weights, many * MAX_LAST_FRAMES},
                {&r->stats, many * 2 * r->pooled},
                {&r->vectors, many * r->size}};
    void *p = NULL;
    int rc = 0;

    for (int i = 0; rc == 0 && i < 3; i++)
        rc = r->be->ops->alloc(r->be, image, &r->buffer[i], err);
    for (size_t i = 0; rc == 0 && i < sizeof(want) / sizeof(want[0]); i++) {
        rc = r->be->ops->alloc(r->be, want[i].count * sizeof(float), &p, err);
        if (rc == 0)
            *want[i].ret = p;
    }
    if (rc == 0)
        rc = r->be->ops->filter_bank_new(r->be, &voice_resnet_bank, &r->bank, err);
    if (rc == 0 && r->be->ops->post && many * r->size * sizeof(float) <= BACKEND_BOX_BYTES) {
        rc = backend_take_boxes(r->be, 1, &r->box, err);
        r->boxed = rc == 0;
    }
    if (rc != 0)
        return rc;
    r->stretched = malloc(many * MAX_LAST_FRAMES * sizeof(float));
    r->staged = malloc(many * r->size * sizeof(float));
    r->at = malloc(r->group * sizeof(*r->at));
    r->used = malloc(r->group * sizeof(*r->used));
    r->of = malloc(many * sizeof(*r->of));
    r->to = malloc(many * sizeof(*r->to));
    if (!r->at || !r->stretched || !r->staged || !r->used || !r->of || !r->to)
        return err_set(err, ERR_NOMEM, "no memory for the speaker encoder");
    return 0;
}

void voice_resnet_free(struct voice_resnet *r)
{
    const struct backend_ops *ops;

    if (!r)
        return;
    ops = r->be->ops;
    if (r->boxed)
        backend_give_boxes(r->be, r->box, 1);
    ops->conv2d_free(r->be, r->begin);
    for (uint32_t i = 0; i < RESNET_LAYERS * RESNET_MAX_BLOCKS; i++) {
        ops->conv2d_free(r->be, r->block[i].first);
        ops->conv2d_free(r->be, r->block[i].second);
        ops->conv2d_free(r->be, r->block[i].shortcut);
    }
    ops->linear_free(r->be, r->last);
    for (int i = 0; i < 3; i++)
        ops->release(r->be, r->buffer[i]);
    ops->release(r->be, r->weights);
    ops->release(r->be, r->stats);
    ops->release(r->be, r->vectors);
    ops->filter_bank_free(r->be, r->bank);
    free(r->at);
    free(r->stretched);
    free(r->staged);
    free(r->used);
    free(r->of);
    free(r->to);
    free(r);
}

uint32_t voice_resnet_size(const struct voice_resnet *r) { return r->size; }

/* ResNet34: 3, 4, 6, 3 blocks of 32, 64, 128, 256 channels. In float32, which is twice what float16
 * takes: it may turn out to need that. */
uint64_t voice_resnet_predict_bytes(uint32_t group)
{
    static const uint64_t blocks[RESNET_LAYERS] = {3, 4, 6, 3};
    uint64_t weights = 32 * 9 + 32, in = 32, many = (uint64_t)group * MASKS;

    for (int i = 0; i < RESNET_LAYERS; i++) {
        uint64_t out = (uint64_t)32 << i;

        weights += (in * out + (2 * blocks[i] - 1) * out * out) * 9 + 2 * blocks[i] * out;
        weights += in != out ? in * out + out : 0;
        in = out;
    }
    weights += (uint64_t)256 * (2 * 10 * 256 + 1);
    return 4 * (weights + group * (uint64_t)3 * MAX_FRAMES * BINS * 32 +
                many * (MAX_LAST_FRAMES + 2 * 10 * 256 + 256));
}

/* ---- running */

/* Images of `n` windows: frames by bins by channels, in one of the buffers. */
struct images {
    uint32_t n, frames, bins, channels;
    int buffer;
};

static struct tensor tensor_of_images(const struct voice_resnet *r, const struct images *i)
{
    return tensor_of(r->type, r->buffer[i->buffer], (int64_t)i->n * i->frames * i->bins,
                     i->channels);
}

static int convolve_images(struct voice_resnet *r, struct conv2d *c, const struct images *x,
                           enum epilogue epilogue, const struct images *y, struct err *err)
{
    return r->be->ops->conv2d(r->be, c, x->n, x->frames, x->bins, tensor_of_images(r, x), epilogue,
                              tensor_of_images(r, y), err);
}

/* y = relu(second(relu(first(x))) + shortcut(x)); *x becomes it. */
static int run_block(struct voice_resnet *r, const struct block *b, struct images *x,
                     struct err *err)
{
    struct images mid = *x, y;
    int rc;

    mid.channels = b->out;
    mid.frames = b->stride == 2 ? halved(x->frames) : x->frames;
    mid.bins = b->stride == 2 ? halved(x->bins) : x->bins;
    mid.buffer = (x->buffer + 1) % 3;
    y = mid;
    y.buffer = b->shortcut ? (x->buffer + 2) % 3 : x->buffer;
    rc = convolve_images(r, b->first, x, EPILOGUE_RELU, &mid, err);
    if (rc == 0 && b->shortcut)
        rc = convolve_images(r, b->shortcut, x, EPILOGUE_NONE, &y, err);
    if (rc == 0)
        rc = convolve_images(r, b->second, &mid, EPILOGUE_ADD_RELU, &y, err);
    *x = y;
    return rc;
}

/* The samples of the n windows of r->used to the third buffer, which no image has yet, and where
 * each begins to r->at. A recording's windows overlap by nine tenths: shared samples are sent once.
 * *ret: the samples that lie there. */
static int put_samples(struct voice_resnet *r, const struct voice_job *job, uint32_t n, size_t *ret,
                       struct err *err)
{
    float *to = r->buffer[2];
    size_t end = 0; /* of what is there */
    int rc = 0;

    for (uint32_t i = 0; rc == 0 && i < n; end += job->samples) {
        size_t begin = voice_begin(job, r->used[i]), last = begin;

        for (; i < n && voice_begin(job, r->used[i]) - last <= job->samples; i++) {
            last = voice_begin(job, r->used[i]);
            r->at[i] = (uint32_t)(end + last - begin);
        }
        rc = r->be->ops->write(r->be, to + end, job->pcm + begin,
                               (last - begin + job->samples) * sizeof(*to), err);
        end = r->at[i - 1];
    }
    *ret = end;
    return rc;
}

/* The filter bank of the n windows r->used, to the second buffer. */
static int compute_filter_bank(struct voice_resnet *r, const struct voice_job *job, uint32_t n,
                               uint32_t frames, struct err *err)
{
    int64_t rows = (int64_t)n * frames;
    struct tensor image = tensor_of(r->type, r->buffer[1], rows, BINS);
    struct tensor bank =
        r->type == DTYPE_F32 ? image : tensor_of(DTYPE_F32, r->buffer[0], rows, BINS);
    size_t there = 0;
    int rc = put_samples(r, job, n, &there, err);

    if (rc == 0)
        rc = r->be->ops->filter_bank(r->be, r->bank,
                                     tensor_of(DTYPE_F32, r->buffer[2], 1, (int64_t)there), r->at,
                                     n, job->samples, bank, err);
    return rc == 0 && bank.data != image.data ? r->be->ops->copy(r->be, image, bank, err) : rc;
}

/* *x in float32, as the pool wants it. */
static int widen_to_float32(struct voice_resnet *r, struct images *x, struct err *err)
{
    struct tensor from = tensor_of_images(r, x), to = from;

    if (r->type == DTYPE_F32)
        return 0;
    x->buffer = (x->buffer + 1) % 3;
    to.type = DTYPE_F32;
    to.data = r->buffer[x->buffer];
    return r->be->ops->copy(r->be, to, from, err);
}

/* Computes the last block's output of the n windows in r->used, as float32. */
static int run_forward_pass(struct voice_resnet *r, const struct voice_job *job, uint32_t n,
                            struct images *ret, struct err *err)
{
    uint32_t frames = (uint32_t)filter_bank_frames(&voice_resnet_bank, job->samples);
    struct images x = {n, frames, BINS, 1, 1}, y = {n, frames, BINS, r->channels, 0};
    int rc = compute_filter_bank(r, job, n, frames, err);

    if (rc == 0)
        rc = convolve_images(r, r->begin, &x, EPILOGUE_RELU, &y, err);
    for (uint32_t i = 0; rc == 0 && i < r->block_count; i++)
        rc = run_block(r, &r->block[i], &y, err);
    if (rc == 0)
        rc = widen_to_float32(r, &y, err);
    *ret = y;
    return rc;
}

/* float16 did without infinities when the weights were tried: this sound alone wants more. */
static int no_number(const struct voice_resnet *r, struct err *err)
{
    if (r->convolving == PRECISION_F16)
        return err_set(err, ERR_LIMIT,
                       "a voice's image has no room in float16, and its vector is no number: try "
                       "--deterministic");
    return err_set(err, ERR_MODEL, "the speaker encoder computed something that is no number");
}

/* The vectors that are pending, if any: of the masks r->to. ERR_LIMIT: float16 has no room. */
static int take_vectors(struct voice_resnet *r, float *ret, struct err *err)
{
    uint32_t masks = r->pending;
    size_t values = (size_t)masks * r->size;
    int rc;

    r->pending = 0;
    if (masks == 0)
        return 0;
    if (r->boxed)
        rc = r->be->ops->collect(r->be, r->box, r->staged, values * sizeof(float), err);
    else
        rc = r->be->ops->get(r->be, r->staged, tensor_of(DTYPE_F32, r->vectors, masks, r->size),
                             err);
    for (size_t i = 0; rc == 0 && i < values && !r->be->rehearsing; i++)
        if (!isfinite(r->staged[i]))
            return no_number(r, err);
    for (uint32_t i = 0; rc == 0 && i < masks; i++)
        for (uint32_t k = 0; k < r->size; k++)
            ret[(size_t)r->to[i] * r->size + k] = r->staged[(size_t)i * r->size + k];
    return rc;
}

/* The vectors of the first `masks` masks of r->of, r->to and r->stretched; pending then. */
static int pool_masks(struct voice_resnet *r, const struct images *x, uint32_t masks,
                      struct err *err)
{
    const struct backend_ops *ops = r->be->ops;
    struct tensor all = tensor_of(DTYPE_F32, r->buffer[x->buffer], (int64_t)x->n * x->frames,
                                  (int64_t)x->bins * x->channels);
    struct tensor weights = tensor_of(DTYPE_F32, r->weights, masks, x->frames);
    struct tensor stats = tensor_of(DTYPE_F32, r->stats, masks, (int64_t)2 * r->pooled);
    struct tensor vectors = tensor_of(DTYPE_F32, r->vectors, masks, r->size);
    int rc = ops->put(r->be, weights, r->stretched, err);

    if (rc == 0)
        rc = ops->weighted_stats(r->be, x->n, all, r->of, weights, stats, err);
    if (rc == 0)
        rc = ops->linear(r->be, r->last, stats, EPILOGUE_NONE, vectors, err);
    if (rc == 0 && r->boxed)
        rc = ops->post(r->be, r->box, r->vectors, (size_t)masks * r->size * sizeof(float), err);
    r->pending = rc == 0 ? masks : 0;
    return rc;
}

static uint32_t last_frames(const struct voice_resnet *r, size_t samples)
{
    uint32_t frames = (uint32_t)filter_bank_frames(&voice_resnet_bank, samples);

    for (uint32_t i = 0; frames && i < r->block_count; i++)
        frames = r->block[i].stride == 2 ? halved(frames) : frames;
    return frames;
}

/* A mask over the network's frames of its window, `to` of them; whether any is heard. */
static bool resize_mask(const struct voice_resnet *r, const struct voice_job *job,
                        const struct voice_mask *m, uint32_t to, float *ret)
{
    uint32_t covered = last_frames(r, voice_length(job, m));
    float begin = (float)m->begin / STRIDE;
    bool any = false;

    for (uint32_t i = 0; i < to; i++) {
        float place = (float)i - begin;
        bool within = place >= 0.0f && place < (float)covered;
        float w = within ? m->weights[voice_nearest(place, covered, job->frames)] : 0.0f;

        ret[i] = w > 0.0f ? w : 0.0f; /* a NaN is none */
        any = any || w > 0.0f;
    }
    return any;
}

/* The n windows of r->used, and every mask over one of them; what is pending before is taken. */
static int run_group(struct voice_resnet *r, const struct voice_job *job, uint32_t n,
                     struct err *err)
{
    struct images x;
    uint32_t masks = 0;
    int rc = run_forward_pass(r, job, n, &x, err);

    if (rc == 0)
        rc = take_vectors(r, job->ret, err);
    for (uint32_t i = 0; rc == 0 && i < job->mask_count; i++) {
        uint32_t of = 0;

        while (of < n && r->used[of] != job->masks[i].window)
            of++;
        if (of == n ||
            !resize_mask(r, job, &job->masks[i], x.frames, r->stretched + (size_t)masks * x.frames))
            continue;
        r->of[masks] = of;
        r->to[masks++] = i;
        if (masks == r->many) {
            rc = pool_masks(r, &x, masks, err);
            if (rc == 0)
                rc = take_vectors(r, job->ret, err);
            masks = 0;
        }
    }
    return rc == 0 && masks ? pool_masks(r, &x, masks, err) : rc;
}

static bool has_window_mask(struct voice_resnet *r, const struct voice_job *job, uint32_t window,
                            uint32_t frames)
{
    for (uint32_t i = 0; i < job->mask_count; i++)
        if (job->masks[i].window == window &&
            resize_mask(r, job, &job->masks[i], frames, r->stretched))
            return true;
    return false;
}

int voice_resnet_run(struct voice_resnet *r, const struct voice_job *job, struct err *err)
{
    uint32_t frames = last_frames(r, job->samples), n = 0;
    int rc = 0;

    for (size_t i = 0; i < (size_t)job->mask_count * r->size; i++)
        job->ret[i] = NAN;
    for (uint32_t i = 0; rc == 0 && frames && i < job->windows; i++) {
        if (has_window_mask(r, job, i, frames))
            r->used[n++] = i;
        if (n == r->group) {
            rc = run_group(r, job, n, err);
            n = 0;
        }
    }
    if (rc == 0 && n)
        rc = run_group(r, job, n, err);
    if (rc == 0)
        rc = take_vectors(r, job->ret, err);
    r->pending = 0; /* after an error they are nobody's; a later call's come behind them */
    return rc;
}

/* ---- at last */

struct trial {
    struct voice_resnet *r;
    struct voice_job job;
};

static int hear_trial(void *arg, struct err *err)
{
    const struct trial *s = arg;

    return voice_resnet_run(s->r, &s->job, err);
}

/* White noise with zeros behind it, more of it in each window. The bank is logarithmic and centred,
 * so how loud a sound is all along does not show in it: far from 0 are a short burst in silence and
 * a short silence behind a long one. */
static void make_bursts(float *pcm, uint32_t windows, size_t samples)
{
    uint32_t seed = 1;

    for (uint32_t w = 0; w < windows; w++, pcm += samples) {
        size_t n = samples * (w + 1) / (windows + 1);

        for (size_t i = 0; i < n; i++) {
            seed = seed * 1664525u + 1013904223u;
            pcm[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
        }
    }
}

/* Runs a whole group of silence with all its masks, so that the device allocates its memory and
 * tries its algorithms now. In float16 bursts of noise, too. *fits: false where float16 has no room
 * for what the network makes of either. */
static int warm_up_resnet(struct voice_resnet *r, bool *fits, struct err *err)
{
    static const float heard = 1.0f;
    struct trial s = {
        r, {.samples = r->samples, .windows = r->group, .mask_count = r->many, .frames = 1}};
    float *pcm = calloc((size_t)r->group * r->samples, sizeof(*pcm));
    float *vectors = calloc((size_t)r->many * r->size, sizeof(*vectors));
    struct voice_mask *masks = calloc(r->many, sizeof(*masks));
    int rc = err_set(err, ERR_NOMEM, "no memory for the speaker encoder");

    s.job.pcm = pcm;
    s.job.masks = masks;
    s.job.ret = vectors;
    for (uint32_t i = 0; masks && i < r->many; i++)
        masks[i] = (struct voice_mask){.window = i % r->group, .weights = &heard};
    if (pcm && vectors && masks)
        rc = backend_rehearse(r->be, hear_trial, &s, err);
    if (rc == 0)
        rc = hear_trial(&s, err);
    if (rc == 0 && r->convolving == PRECISION_F16) {
        make_bursts(pcm, r->group, r->samples);
        rc = hear_trial(&s, err);
    }
    free(pcm);
    free(vectors);
    free(masks);
    *fits = rc != ERR_LIMIT;
    return *fits ? rc : 0;
}

/* Whether the device can keep images in float16 without losing anything that TF32 would see. */
static bool has_half(const struct backend *be)
{
    const precision_set both = 1u << PRECISION_F16 | 1u << PRECISION_TF32;

    return (be->info.have & both) == both && !be->info.deterministic;
}

/* *ret stays NULL, and nothing is wrong, where float16 has no room. */
static int load_in(enum precision precision, const struct resnet_weights *w, struct backend *be,
                   uint32_t group, size_t samples, struct voice_resnet **ret, struct err *err)
{
    struct voice_resnet *r = calloc(1, sizeof(*r));
    bool fits = true;
    int rc;

    if (!r)
        return err_set(err, ERR_NOMEM, "no memory for the speaker encoder");
    r->be = be;
    r->group = group;
    r->convolving = precision;
    r->type = precision_type(precision);
    r->samples = samples;
    r->frames = (uint32_t)filter_bank_frames(&voice_resnet_bank, samples);
    r->many = group * (1 + (uint32_t)((MASKS - 1) * samples / VOICEPRINT_MAX_SAMPLES));
    rc = prepare_resnet_layers(r, w, err);
    if (rc == 0)
        rc = take_memory(r, err);
    if (rc == 0)
        rc = warm_up_resnet(r, &fits, err);
    if (rc != 0 || !fits) {
        voice_resnet_free(r);
        return rc;
    }
    *ret = r;
    return 0;
}

int voice_resnet_load(const struct weights *file, struct backend *be, uint32_t group,
                      size_t samples, struct voice_resnet **ret, struct err *err)
{
    bool tf32 = be->info.have & 1u << PRECISION_TF32, half = has_half(be);
    struct resnet_weights *w = NULL;
    struct voice_resnet *r = NULL;
    int rc = resnet_weights_read(file, &w, err);

    if (rc != 0)
        return rc;
    if (half)
        rc = load_in(PRECISION_F16, w, be, group, samples, &r, err);
    if (rc == 0 && !r) {
        if (half)
            log_info("the speaker encoder's convolutions go in TF32: float16 has no room for what "
                     "these weights make of sound");
        rc = load_in(tf32 ? PRECISION_TF32 : PRECISION_F32, w, be, group, samples, &r, err);
    }
    resnet_weights_free(w);
    if (rc == 0)
        *ret = r;
    return rc;
}
