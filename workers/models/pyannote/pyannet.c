/* Between the operations everything lies window below window, time by channel, in two buffers:
 *
 *   per window        floats (published sizes)   buffer
 *   samples           160000                     a       normalised in place; what windows
 *                                                        share comes by b
 *   sinc filters      15975 x 80                 b
 *   pooled            5325 x 80                  a       of |.|; normalised, leaky ReLU in place
 *   convolution       5321 x 60                  b
 *   pooled            1773 x 60                  a
 *   convolution       1769 x 60                  b
 *   pooled            589 x 60                   a
 *   LSTM layers       589 x 256                  b, a, b, a    both directions side by side
 *   linear layers     589 x 128                  b, a
 *   classes           589 x 7                    b       read back; softmax on the host
 *
 * If results must not depend on the grouping of windows, each device call has one window, so that
 * products have one shape. */
#include "workers/models/pyannote/pyannet.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/backend.h"
#include "workers/models/pyannote/pyannet_weights.h"

#define POOL 3
#define EPSILON 1e-5f

/* Frames: of each convolution, and what the pool behind it leaves. */
static const int64_t convolved[PYANNET_CONVS] = {15975, 5321, 1769};
static const int64_t pooled[PYANNET_CONVS] = {5325, 1773, PYANNET_FRAMES};

/* Set s in order of size, then of its speakers: as bits. */
static const uint8_t powerset[PYANNET_CLASSES] = {0, 1, 2, 4, 1 | 2, 1 | 4, 2 | 4};

struct norm {
    struct tensor gamma, beta; /* [1][channels] */
};

struct conv {
    struct conv2d *op;
    int64_t out;
    struct norm norm;
};

struct pyannet {
    struct backend *be; /* borrowed */
    uint32_t windows;   /* a call of ours takes */
    uint32_t group;     /* windows of one call of the device */
    struct norm wav;
    struct conv conv[PYANNET_CONVS];
    int64_t hidden;
    uint32_t lstms, linears;
    struct lstm *lstm[PYANNET_MAX_LAYERS];
    struct linear *linear[PYANNET_MAX_LAYERS + 1];
    int64_t size[PYANNET_MAX_LAYERS + 1]; /* of the linear layers' outputs */

    size_t a_floats, b_floats; /* of a window */
    float *a, *b;              /* device memory */
    float *h, *c, *zero;       /* [2][group][hidden], device memory */
    float *norms;              /* all gammas and betas, device memory */
    float *logits;             /* host: [group][frames][classes] */
};

/* ---- loading */

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

static void measure_buffers(struct pyannet *p, const struct pyannet_weights *w)
{
    size_t f = PYANNET_FRAMES, states = f * 2 * w->hidden;

    p->a_floats = most(PYANNET_SAMPLES, states);
    p->b_floats = most(PYANNET_SAMPLES, most(states, f * PYANNET_CLASSES));
    for (int i = 0; i < PYANNET_CONVS; i++) {
        p->a_floats = most(p->a_floats, (size_t)pooled[i] * w->conv[i].out);
        p->b_floats = most(p->b_floats, (size_t)convolved[i] * w->conv[i].out);
    }
    for (uint32_t i = 0; i < w->linears; i++) {
        p->a_floats = most(p->a_floats, f * w->linear[i].out);
        p->b_floats = most(p->b_floats, f * w->linear[i].out);
    }
}

static int alloc_floats(struct pyannet *p, size_t count, float **ret, struct err *err)
{
    void *memory = NULL;
    int rc = p->be->ops->alloc(p->be, count * sizeof(float), &memory, err);

    if (rc == 0)
        *ret = memory;
    return rc;
}

/* A norm's values behind those before it; *at moves on. */
static int put_norm(struct pyannet *p, const float *gamma, const float *beta, int64_t n, float **at,
                    struct norm *ret, struct err *err)
{
    int rc;

    ret->gamma = tensor_of(DTYPE_F32, *at, 1, n);
    ret->beta = tensor_of(DTYPE_F32, *at + n, 1, n);
    *at += 2 * n;
    rc = p->be->ops->put(p->be, ret->gamma, gamma, err);
    return rc != 0 ? rc : p->be->ops->put(p->be, ret->beta, beta, err);
}

static int put_norms(struct pyannet *p, const struct pyannet_weights *w, struct err *err)
{
    size_t floats = 2;
    float *at;
    int rc;

    for (int i = 0; i < PYANNET_CONVS; i++)
        floats += (size_t)2 * w->conv[i].out;
    rc = alloc_floats(p, floats, &p->norms, err);
    if (rc != 0)
        return rc;
    at = p->norms;
    rc = put_norm(p, w->wav_gamma, w->wav_beta, 1, &at, &p->wav, err);
    for (int i = 0; rc == 0 && i < PYANNET_CONVS; i++)
        rc = put_norm(p, w->conv[i].gamma, w->conv[i].beta, w->conv[i].out, &at, &p->conv[i].norm,
                      err);
    return rc;
}

static int prepare_convs(struct pyannet *p, const struct pyannet_weights *w, struct err *err)
{
    int rc = 0;

    for (int i = 0; rc == 0 && i < PYANNET_CONVS; i++) {
        const struct pyannet_conv *c = &w->conv[i];
        const struct conv2d_spec spec = {.in = c->in,
                                         .out = c->out,
                                         .kernel_h = 1,
                                         .kernel_w = c->width,
                                         .stride_h = 1,
                                         .stride_w = c->stride};

        p->conv[i].out = c->out;
        rc =
            p->be->ops->conv2d_new(p->be, PRECISION_F32, &spec, c->w, c->bias, &p->conv[i].op, err);
    }
    return rc;
}

static int prepare_pyannet_layers(struct pyannet *p, const struct pyannet_weights *w,
                                  struct err *err)
{
    const struct backend_ops *ops = p->be->ops;
    int rc = prepare_convs(p, w, err);

    p->hidden = w->hidden;
    for (; rc == 0 && p->lstms < w->lstms; p->lstms++) {
        const struct pyannet_lstm *l = &w->lstm[p->lstms];

        rc =
            ops->lstm_new(p->be, l->in, w->hidden, 2,
                          (struct lstm_weights[]){{l->w_ih[0], l->w_hh[0], l->b_ih[0], l->b_hh[0]},
                                                  {l->w_ih[1], l->w_hh[1], l->b_ih[1], l->b_hh[1]}},
                          &p->lstm[p->lstms], err);
    }
    for (; rc == 0 && p->linears < w->linears; p->linears++) {
        const struct pyannet_linear *l = &w->linear[p->linears];

        p->size[p->linears] = l->out;
        rc = ops->linear_new(p->be, PRECISION_F32, LINEAR_WIDE, (int64_t)p->group * PYANNET_FRAMES,
                             l->out, l->in, l->w, l->bias, &p->linear[p->linears], err);
    }
    return rc;
}

static int take_memory(struct pyannet *p, struct err *err)
{
    size_t group = p->group, state = group * 2 * (size_t)p->hidden;
    int rc = alloc_floats(p, group * p->a_floats, &p->a, err);

    if (rc == 0)
        rc = alloc_floats(p, group * p->b_floats, &p->b, err);
    if (rc == 0)
        rc = alloc_floats(p, state, &p->h, err);
    if (rc == 0)
        rc = alloc_floats(p, state, &p->c, err);
    if (rc == 0)
        rc = alloc_floats(p, state, &p->zero, err);
    if (rc != 0)
        return rc;
    p->logits = malloc(group * PYANNET_FRAMES * PYANNET_CLASSES * sizeof(float));
    return p->logits ? 0 : err_set(err, ERR_NOMEM, "no memory for the segmentation model");
}

/* A whole group of silence. */
struct silence {
    struct pyannet *p;
    float *pcm;
    uint8_t *sets;
};

static int hear_silence(void *arg, struct err *err)
{
    const struct silence *s = arg;

    return pyannet_run(s->p, s->pcm, NULL, s->p->group, s->sets, err);
}

/* Runs a whole group of silence, so that the device allocates its memory and tries its algorithms
 * now. Weights that overflow fail here, when the model is loaded. */
static int warm_up_pyannet(struct pyannet *p, struct err *err)
{
    struct silence s = {p, calloc((size_t)p->group * PYANNET_SAMPLES, sizeof(float)),
                        calloc((size_t)p->group * PYANNET_FRAMES, 1)};
    int rc = s.pcm && s.sets ? backend_rehearse(p->be, hear_silence, &s, err)
                             : err_set(err, ERR_NOMEM, "no memory for the segmentation model");

    if (rc == 0)
        rc = hear_silence(&s, err);
    free(s.pcm);
    free(s.sets);
    return rc;
}

int pyannet_load(const char *file, struct backend *be, uint32_t windows, struct pyannet **ret,
                 struct err *err)
{
    bool wide = be->info.wide_batches && !be->info.deterministic;
    struct pyannet_weights *w = NULL;
    struct pyannet *p = calloc(1, sizeof(*p));
    int rc;

    if (!p)
        return err_set(err, ERR_NOMEM, "no memory for the segmentation model");
    p->be = be;
    p->windows = windows ? windows : wide ? PYANNET_WIDE : 1;
    p->group = wide ? p->windows : 1;
    rc = pyannet_weights_read(file, PYANNET_CLASSES, &w, err);
    if (rc == 0) {
        measure_buffers(p, w);
        rc = prepare_pyannet_layers(p, w, err);
    }
    if (rc == 0)
        rc = put_norms(p, w, err);
    pyannet_weights_free(w);
    if (rc == 0)
        rc = take_memory(p, err);
    if (rc == 0)
        rc = warm_up_pyannet(p, err);
    if (rc != 0) {
        pyannet_free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void pyannet_free(struct pyannet *p)
{
    const struct backend_ops *ops;

    if (!p)
        return;
    ops = p->be->ops;
    for (int i = 0; i < PYANNET_CONVS; i++)
        ops->conv2d_free(p->be, p->conv[i].op);
    for (int i = 0; i < PYANNET_MAX_LAYERS; i++)
        ops->lstm_free(p->be, p->lstm[i]);
    for (int i = 0; i < PYANNET_MAX_LAYERS + 1; i++)
        ops->linear_free(p->be, p->linear[i]);
    ops->release(p->be, p->a);
    ops->release(p->be, p->b);
    ops->release(p->be, p->h);
    ops->release(p->be, p->c);
    ops->release(p->be, p->zero);
    ops->release(p->be, p->norms);
    free(p->logits);
    free(p);
}

uint32_t pyannet_windows(const struct pyannet *p) { return p->windows; }

/* The published sizes: 80 and 60 filters, 4 LSTM layers of 2 x 128, linear ones of 128, 128, 7. */
uint64_t pyannet_predict_bytes(uint32_t windows)
{
    const uint64_t h = 128, frames = PYANNET_FRAMES;
    uint64_t weights = 80 * SINC_WIDTH + 60 * 80 * 5 + 60 * 60 * 5 + 2 * (1 + 80 + 60 + 60);
    uint64_t scratch = 15975 * 80 + 5325 * 80 + 3 * 2 * h;

    weights += 2 * 4 * h * (60 + h) + 3 * 2 * 4 * h * (2 * h + h) + 4 * 2 * 4 * h;
    weights += (2 * h + 1) * 128 + (128 + 1) * 128 + (128 + 1) * PYANNET_CLASSES;
    scratch += frames * 2 * 4 * h; /* of an LSTM: what the inputs add to its gates */
    return 4 * (weights + (windows ? windows : PYANNET_WIDE) * scratch);
}

/* ---- running */

static struct tensor make_float_tensor(float *data, int64_t rows, int64_t cols)
{
    return tensor_of(DTYPE_F32, data, rows, cols);
}

/* From samples in a to [589][channels] in a. */
static int run_sincnet(struct pyannet *p, uint32_t n, struct err *err)
{
    const struct backend_ops *ops = p->be->ops;
    struct tensor x = make_float_tensor(p->a, (int64_t)n * PYANNET_SAMPLES, 1), y;
    int rc = ops->instance_norm(p->be, n, x, p->wav.gamma, p->wav.beta, EPSILON, x, err);

    for (int i = 0; rc == 0 && i < PYANNET_CONVS; i++) {
        const struct conv *c = &p->conv[i];

        y = make_float_tensor(p->b, n * convolved[i], c->out);
        rc = ops->conv2d(p->be, c->op, n, 1, (uint32_t)(x.rows / n), x, EPILOGUE_NONE, y, err);
        x = make_float_tensor(p->a, n * pooled[i], c->out);
        if (rc == 0)
            rc = ops->max_pool(p->be, n, POOL, i == 0, y, x, err);
        if (rc == 0)
            rc = ops->instance_norm(p->be, n, x, c->norm.gamma, c->norm.beta, EPSILON, x, err);
        if (rc == 0)
            rc = ops->activate(p->be, ACTIVATION_LEAKY_RELU, x, x, err);
    }
    return rc;
}

static int lstm_layer(struct pyannet *p, uint32_t i, uint32_t n, struct tensor x, struct tensor y,
                      struct err *err)
{
    const struct backend_ops *ops = p->be->ops;
    int64_t states = 2 * (int64_t)n;
    struct tensor h = make_float_tensor(p->h, states, p->hidden),
                  c = make_float_tensor(p->c, states, p->hidden);
    struct tensor zero = make_float_tensor(p->zero, states, p->hidden);
    int rc = ops->copy(p->be, h, zero, err);

    if (rc == 0)
        rc = ops->copy(p->be, c, zero, err);
    return rc == 0 ? ops->lstm(p->be, p->lstm[i], n, x, NULL, h, c, y, err) : rc;
}

/* From samples in a to the classes' logits; *ret says where. */
static int compute_class_logits(struct pyannet *p, uint32_t n, float **ret, struct err *err)
{
    const struct backend_ops *ops = p->be->ops;
    int64_t rows = (int64_t)n * PYANNET_FRAMES;
    float *from = p->a, *to = p->b, *other;
    struct tensor x = make_float_tensor(from, rows, p->conv[PYANNET_CONVS - 1].out), y;
    int rc = run_sincnet(p, n, err);

    for (uint32_t i = 0; rc == 0 && i < p->lstms + p->linears; i++) {
        uint32_t l = i - p->lstms; /* of the linear ones */

        y = make_float_tensor(to, rows, i < p->lstms ? 2 * p->hidden : p->size[l]);
        if (i < p->lstms)
            rc = lstm_layer(p, i, n, x, y, err);
        else
            rc = ops->linear(p->be, p->linear[l], x, EPILOGUE_NONE, y, err);
        if (rc == 0 && i >= p->lstms && l + 1 < p->linears)
            rc = ops->activate(p->be, ACTIVATION_LEAKY_RELU, y, y, err);
        x = y;
        other = from;
        from = to;
        to = other;
    }
    *ret = from;
    return rc;
}

/* Windows [i, *end) to a, [i - first]: those behind i that follow by one step. */
static int put_stretch(struct pyannet *p, const float *pcm, const size_t *at, uint32_t first,
                       uint32_t i, uint32_t *end, struct err *err)
{
    const struct backend_ops *ops = p->be->ops;
    uint32_t most = *end, to = i + 1;
    size_t begin = pyannet_begin(at, i), step = PYANNET_SAMPLES, samples;
    float *a = p->a + (size_t)(i - first) * PYANNET_SAMPLES;
    struct tensor shared;
    int rc;

    if (to < most && pyannet_begin(at, to) - begin < PYANNET_SAMPLES)
        step = pyannet_begin(at, to) - begin;
    while (to < most && pyannet_begin(at, to) - pyannet_begin(at, to - 1) == step)
        to++;
    *end = to;
    samples = (to - i - 1) * step + PYANNET_SAMPLES;
    if (step == PYANNET_SAMPLES)
        return ops->write(p->be, a, pcm + begin, samples * sizeof(*pcm), err);
    rc = ops->write(p->be, p->b, pcm + begin, samples * sizeof(*pcm), err);
    shared = make_float_tensor(p->b, to - i, PYANNET_SAMPLES);
    shared.stride = (int64_t)step;
    return rc == 0 ? ops->copy(p->be, make_float_tensor(a, to - i, PYANNET_SAMPLES), shared, err)
                   : rc;
}

/* Windows [first, first + n), at most a group: their logits to p->logits, all of them numbers. */
static int run_group(struct pyannet *p, const float *pcm, const size_t *at, uint32_t first,
                     uint32_t n, struct err *err)
{
    const struct backend_ops *ops = p->be->ops;
    size_t count = (size_t)n * PYANNET_FRAMES * PYANNET_CLASSES;
    float *logits = NULL;
    int rc = 0;

    for (uint32_t i = first, end; rc == 0 && i < first + n; i = end) {
        end = first + n;
        rc = put_stretch(p, pcm, at, first, i, &end, err);
    }

    if (rc == 0)
        rc = compute_class_logits(p, n, &logits, err);
    if (rc == 0)
        rc = ops->read(p->be, p->logits, logits, count * sizeof(float), err);
    for (size_t i = 0; rc == 0 && i < count && !p->be->rehearsing; i++)
        if (!isfinite(p->logits[i]))
            return err_set(err, ERR_MODEL,
                           "the segmentation model computed something that is no number");
    return rc;
}

uint8_t pyannet_likeliest(const float scores[PYANNET_CLASSES])
{
    int best = 0;

    for (int i = 1; i < PYANNET_CLASSES; i++)
        if (scores[i] > scores[best])
            best = i;
    return powerset[best];
}

static void log_softmax(const float *logits, float *ret)
{
    double top = -INFINITY, sum = 0.0;

    for (int i = 0; i < PYANNET_CLASSES; i++)
        top = fmax(top, (double)logits[i]);
    for (int i = 0; i < PYANNET_CLASSES; i++)
        sum += exp((double)logits[i] - top);
    for (int i = 0; i < PYANNET_CLASSES; i++)
        ret[i] = (float)((double)logits[i] - top - log(sum));
}

/* One of sets and scores is NULL. */
static int segment_windows(struct pyannet *p, const float *pcm, const size_t *at, uint32_t n,
                           uint8_t *sets, float *scores, struct err *err)
{
    int rc = 0;

    if (n > p->windows)
        return err_set(err, ERR_DEVICE, "segmentation of %u windows in a call for %u", n,
                       p->windows);
    for (uint32_t done = 0; rc == 0 && done < n; done += p->group) {
        uint32_t now = n - done < p->group ? n - done : p->group;
        size_t first = (size_t)done * PYANNET_FRAMES;

        rc = run_group(p, pcm, at, done, now, err);
        for (size_t i = 0; rc == 0 && i < (size_t)now * PYANNET_FRAMES; i++) {
            const float *logits = p->logits + i * PYANNET_CLASSES;

            if (sets)
                sets[first + i] = pyannet_likeliest(logits);
            else
                log_softmax(logits, scores + (first + i) * PYANNET_CLASSES);
        }
    }
    return rc;
}

int pyannet_run(struct pyannet *p, const float *pcm, const size_t *at, uint32_t n, uint8_t *ret,
                struct err *err)
{
    return segment_windows(p, pcm, at, n, ret, NULL, err);
}

int pyannet_scores(struct pyannet *p, const float *pcm, const size_t *at, uint32_t n, float *ret,
                   struct err *err)
{
    return segment_windows(p, pcm, at, n, NULL, ret, err);
}
