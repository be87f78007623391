/* The network as products of matrices. A step has so few frames (4, 2, 1) that each convolution
 * over them is one product with the kernel laid out for every position: [4 x 129] -> [4 x 128] and
 * so on. This multiplies half as much again in the first convolution, but takes a tenth of the
 * calls.
 *
 *   per step      floats          buffer
 *   audio         9 x 64          b        units of 64 samples, and one that mirrors the last
 *   frames        4 x 256         a        of four units each
 *   spectrum      4 x (129 + 129) b
 *   magnitude     4 x 129         a
 *   convolution 1 4 x 128         b
 *   convolution 2 2 x 64          a
 *   convolution 3 1 x 64          b
 *   convolution 4 1 x 128         a
 *   LSTM, ReLU    1 x 128         b
 *   probability   8               a        the first counts; eight make a row that is aligned
 *
 * Blocks that lie over each other in memory send their audio to the device once.
 *
 * A call always has whole blocks, padded with steps of zeros. If results must not depend on the
 * grouping of blocks, a call has one block, so that products have one shape. */
#include "workers/models/silero/silero.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "gpu/safetensors.h"

/* ---- the file's values */

#define SILERO_BINS 129 /* of a frame's spectrum */

struct silero_weights {
    float *stft;         /* [2 x 129][256]: real parts, then imaginary ones */
    float *conv[4];      /* [128][129][3], [64][128][3], [64][64][3], [128][64][3] */
    float *conv_bias[4]; /* [128], [64], [64], [128] */
    float *w_ih, *w_hh;  /* [512][128]: input, forget, cell, output */
    float *b_ih, *b_hh;  /* [512] */
    float *out;          /* [128] */
    float *out_bias;     /* [1] */
    float *values;       /* all of the above */
};

static const struct part {
    const char *name;
    uint32_t rank;
    uint32_t dim[3];
    size_t offset; /* of the pointer in struct silero_weights */
} parts[] = {
#define PART(name, field, rank, ...)                                      \
    {                                                                     \
        name, rank, {__VA_ARGS__}, offsetof(struct silero_weights, field) \
    }
    PART("stft_conv.weight", stft, 3, 258, 1, 256), PART("conv1.weight", conv[0], 3, 128, 129, 3),
    PART("conv1.bias", conv_bias[0], 1, 128),       PART("conv2.weight", conv[1], 3, 64, 128, 3),
    PART("conv2.bias", conv_bias[1], 1, 64),        PART("conv3.weight", conv[2], 3, 64, 64, 3),
    PART("conv3.bias", conv_bias[2], 1, 64),        PART("conv4.weight", conv[3], 3, 128, 64, 3),
    PART("conv4.bias", conv_bias[3], 1, 128),       PART("lstm_cell.weight_ih", w_ih, 2, 512, 128),
    PART("lstm_cell.weight_hh", w_hh, 2, 512, 128), PART("lstm_cell.bias_ih", b_ih, 1, 512),
    PART("lstm_cell.bias_hh", b_hh, 1, 512),        PART("final_conv.weight", out, 3, 1, 128, 1),
    PART("final_conv.bias", out_bias, 1, 1),
#undef PART
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))

static size_t part_count(const struct part *p)
{
    size_t count = 1;

    for (uint32_t i = 0; i < p->rank; i++)
        count *= p->dim[i];
    return count;
}

static bool same_shape(const struct part *p, const struct safetensor *t)
{
    if (t->rank != p->rank)
        return false;
    for (uint32_t i = 0; i < p->rank; i++)
        if (t->dim[i] != p->dim[i])
            return false;
    return true;
}

static int wrong_shape(const struct part *p, const struct safetensor *t, struct err *err)
{
    char have[128] = "", want[64] = "";
    size_t n = 0;

    for (uint32_t i = 0; i < t->rank && n < sizeof(have); i++)
        n += (size_t)snprintf(have + n, sizeof(have) - n, "%s%llu", i ? " x " : "",
                              (unsigned long long)t->dim[i]);
    n = 0;
    for (uint32_t i = 0; i < p->rank && n < sizeof(want); i++)
        n += (size_t)snprintf(want + n, sizeof(want) - n, "%s%u", i ? " x " : "", p->dim[i]);
    return err_set(err, ERR_MODEL,
                   "tensor '%s' is %s, but Silero's voice activity model at 16 kHz has %s", p->name,
                   have[0] ? have : "a single value", want);
}

static int read_part(const struct safetensors *st, const struct part *p, float *out,
                     struct err *err)
{
    const struct safetensor *t = safetensors_find(st, p->name);
    size_t count = part_count(p);
    int rc;

    if (!t)
        return err_set(err, ERR_MODEL,
                       "tensor '%s' is missing: this is not Silero's voice activity model at "
                       "16 kHz",
                       p->name);
    if (!same_shape(p, t))
        return wrong_shape(p, t, err);
    rc = safetensor_read(t, out, err);
    if (rc != 0)
        return rc;
    for (size_t i = 0; i < count; i++)
        if (!isfinite(out[i]))
            return err_set(err, ERR_MODEL, "tensor '%s' holds a value that is no finite number",
                           p->name);
    return 0;
}

/* NULL is fine. */
static void free_silero_weights(struct silero_weights *w)
{
    if (!w)
        return;
    free(w->values);
    free(w);
}

/* ERR_MODEL when the file cannot be read as safetensors, or a tensor is missing, of another shape
 * or type, or holds a value that is not finite. */
static int read_silero_weights(const char *file, struct silero_weights **ret, struct err *err)
{
    struct silero_weights *w = calloc(1, sizeof(*w));
    struct safetensors *st = NULL;
    size_t total = 0, at = 0;
    int rc = 0;

    for (size_t i = 0; i < PARTS; i++)
        total += part_count(&parts[i]);
    if (w)
        w->values = malloc(total * sizeof(float));
    if (!w || !w->values)
        rc = err_set(err, ERR_NOMEM, "no memory for the voice activity model");
    if (rc == 0)
        rc = safetensors_open(file, &st, err);
    if (rc == ERR_MISSING || rc == ERR_DENIED) /* of a model, that is no file to be skipped */
        rc = err->code = ERR_MODEL;
    for (size_t i = 0; rc == 0 && i < PARTS; i++) {
        rc = read_part(st, &parts[i], w->values + at, err);
        if (rc != 0)
            err_prefix(err, "%.200s", file);
        *(float **)(void *)((char *)w + parts[i].offset) = w->values + at;
        at += part_count(&parts[i]);
    }
    safetensors_close(st);
    if (rc != 0) {
        free_silero_weights(w);
        return rc;
    }
    *ret = w;
    return 0;
}

int silero_verify_file(const char *file, struct err *err)
{
    struct silero_weights *w = NULL;
    int rc = read_silero_weights(file, &w, err);

    free_silero_weights(w);
    return rc;
}

/* ---- the network */

#define FRAMES 4 /* of a step */
#define FRAME 256
#define HOP 128
#define UNIT 64 /* samples: the context, what is mirrored, and half of a hop */
#define STEP_UNITS (SILERO_STEP / UNIT)
#define ROWS ((size_t)FRAMES * FRAME / UNIT) /* units that a step's frames are made of */
#define WIDE_BLOCKS 32
#define LAYERS 4
#define OUT 8 /* values of a step that come back */

struct layer {
    struct linear *product;
    int64_t in, out; /* values of a step */
};

struct silero {
    struct backend *be;  /* borrowed */
    uint32_t blocks;     /* a call of ours takes */
    uint32_t group;      /* blocks of one call of the device */
    struct linear *stft; /* of a frame */
    struct layer layer[LAYERS];
    struct lstm *lstm;
    struct linear *out; /* to one value, and zeros */

    float *a, *b;                 /* device memory */
    float *hc;                    /* likewise, of a call of n blocks: h, then c, [n][hidden] each */
    int32_t *device_rows;         /* likewise */
    int32_t *rows;                /* host: [group * block][ROWS], units of b; -1: silence */
    float *staged;                /* host: audio in, probabilities out */
    float *state;                 /* host: [2][group][hidden] */
    uint32_t *lengths;            /* host: [group] */
    struct silero_stream *before; /* host: [blocks], the streams of a call as it began */
};

#define A_FLOATS ((size_t)FRAMES * FRAME)
#define B_FLOATS ((size_t)FRAMES * SILERO_BINS * 2)
/* The most audio of a block: its samples, a unit that mirrors each step's end, and the context. */
#define AUDIO_FLOATS ((size_t)SILERO_BLOCK * (SILERO_STEP + UNIT) + SILERO_CONTEXT)
_Static_assert(AUDIO_FLOATS <= SILERO_BLOCK * B_FLOATS, "audio lies in b");
_Static_assert(SILERO_BLOCK *OUT <= AUDIO_FLOATS, "probabilities lie where audio did");
_Static_assert(SILERO_CONTEXT == UNIT && 2 * UNIT == HOP, "frames are made of whole units");

/* ---- loading */

static const struct {
    int64_t in_frames, out_frames, in, out, stride;
} shape[LAYERS] = {
    {4, 4, SILERO_BINS, 128, 1}, {4, 2, 128, 64, 2}, {2, 1, 64, 64, 2}, {1, 1, 64, 128, 1}};

/* The convolution of w ([out][in][3], padded by one) over all frames of a step, as one matrix. */
static int layer_new(struct silero *s, int i, const float *w, const float *bias, struct err *err)
{
    int64_t in = shape[i].in, out = shape[i].out, cols = shape[i].in_frames * in;
    int64_t rows = shape[i].out_frames * out;
    float *all = calloc((size_t)(rows * cols + rows), sizeof(*all));
    float *all_bias = all ? all + rows * cols : NULL;
    int rc;

    if (!all)
        return err_set(err, ERR_NOMEM, "no memory for the voice activity model");
    for (int64_t r = 0; r < rows; r++) {
        int64_t o = r % out, first = r / out * shape[i].stride - 1;

        all_bias[r] = bias[o];
        for (int64_t k = 0; k < 3; k++) {
            int64_t frame = first + k;

            if (frame < 0 || frame >= shape[i].in_frames)
                continue;
            for (int64_t j = 0; j < in; j++)
                all[r * cols + frame * in + j] = w[(o * in + j) * 3 + k];
        }
    }
    s->layer[i].in = cols;
    s->layer[i].out = rows;
    rc = s->be->ops->linear_new(s->be, PRECISION_F32, LINEAR_WIDE, (int64_t)s->group * SILERO_BLOCK,
                                rows, cols, all, all_bias, &s->layer[i].product, err);
    free(all);
    return rc;
}

static int prepare_silero_layers(struct silero *s, const struct silero_weights *w, struct err *err)
{
    const struct backend_ops *ops = s->be->ops;
    float out[OUT * SILERO_HIDDEN] = {0}, bias[OUT] = {0};
    int rc = ops->linear_new(s->be, PRECISION_F32, LINEAR_WIDE,
                             (int64_t)s->group * SILERO_BLOCK * FRAMES, 2 * SILERO_BINS, FRAME,
                             w->stft, NULL, &s->stft, err);

    for (int i = 0; rc == 0 && i < LAYERS; i++)
        rc = layer_new(s, i, w->conv[i], w->conv_bias[i], err);
    if (rc == 0)
        rc = ops->lstm_new(s->be, SILERO_HIDDEN, SILERO_HIDDEN, 1,
                           &(struct lstm_weights){w->w_ih, w->w_hh, w->b_ih, w->b_hh}, &s->lstm,
                           err);
    memcpy(out, w->out, SILERO_HIDDEN * sizeof(*out));
    bias[0] = w->out_bias[0];
    return rc == 0 ? ops->linear_new(s->be, PRECISION_F32, LINEAR_WIDE,
                                     (int64_t)s->group * SILERO_BLOCK, OUT, SILERO_HIDDEN, out,
                                     bias, &s->out, err)
                   : rc;
}

static int take_memory(struct silero *s, struct err *err)
{
    size_t steps = (size_t)s->group * SILERO_BLOCK, hidden = (size_t)s->group * SILERO_HIDDEN;
    struct {
        float **ret;
        size_t count;
    } want[] = {{&s->a, steps * A_FLOATS}, {&s->b, steps * B_FLOATS}, {&s->hc, 2 * hidden}};
    void *p = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(want) / sizeof(want[0]); i++) {
        rc = s->be->ops->alloc(s->be, want[i].count * sizeof(float), &p, err);
        if (rc == 0)
            *want[i].ret = p;
    }
    if (rc == 0)
        rc = s->be->ops->alloc(s->be, steps * ROWS * sizeof(int32_t), &p, err);
    if (rc != 0)
        return rc;
    s->device_rows = p;
    s->rows = malloc(steps * ROWS * sizeof(*s->rows));
    s->staged = malloc(s->group * AUDIO_FLOATS * sizeof(float));
    s->state = malloc(2 * hidden * sizeof(float));
    s->lengths = malloc(s->group * sizeof(*s->lengths));
    s->before = malloc(s->blocks * sizeof(*s->before));
    if (!s->rows || !s->staged || !s->state || !s->lengths || !s->before)
        return err_set(err, ERR_NOMEM, "no memory for the voice activity model");
    return 0;
}

/* Runs a full batch of silence. */
static int warm_up_silero(struct silero *s, struct err *err)
{
    struct silero_block *blocks = calloc(s->blocks, sizeof(*blocks));
    struct silero_stream *streams = calloc(s->blocks, sizeof(*streams));
    float *pcm = calloc((size_t)SILERO_BLOCK * SILERO_STEP, sizeof(*pcm));
    float *prob = calloc(SILERO_BLOCK, sizeof(*prob));
    int rc;

    for (uint32_t i = 0; blocks && streams && i < s->blocks; i++)
        blocks[i] =
            (struct silero_block){&streams[i], pcm, SILERO_BLOCK * SILERO_STEP, SILERO_BLOCK, prob};
    s->be->rehearsing = true;
    if (blocks && streams && pcm && prob)
        rc = silero_run(s, blocks, s->blocks, err);
    else
        rc = err_set(err, ERR_NOMEM, "no memory for the voice activity model");
    s->be->rehearsing = false;
    free(blocks);
    free(streams);
    free(pcm);
    free(prob);
    return rc;
}

int silero_load(const char *file, struct backend *be, uint32_t blocks, struct silero **ret,
                struct err *err)
{
    bool wide = be->info.wide_batches && !be->info.deterministic;
    struct silero_weights *w = NULL;
    struct silero *s = calloc(1, sizeof(*s));
    int rc;

    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for the voice activity model");
    s->be = be;
    s->blocks = blocks ? blocks : wide ? WIDE_BLOCKS : 1;
    s->group = wide ? s->blocks : 1;
    rc = read_silero_weights(file, &w, err);
    if (rc == 0)
        rc = prepare_silero_layers(s, w, err);
    if (rc == 0)
        rc = take_memory(s, err);
    free_silero_weights(w);
    if (rc == 0)
        rc = warm_up_silero(s, err);
    if (rc != 0) {
        silero_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void silero_free(struct silero *s)
{
    const struct backend_ops *ops;

    if (!s)
        return;
    ops = s->be->ops;
    ops->linear_free(s->be, s->stft);
    for (int i = 0; i < LAYERS; i++)
        ops->linear_free(s->be, s->layer[i].product);
    ops->lstm_free(s->be, s->lstm);
    ops->linear_free(s->be, s->out);
    ops->release(s->be, s->a);
    ops->release(s->be, s->b);
    ops->release(s->be, s->hc);
    ops->release(s->be, s->device_rows);
    free(s->rows);
    free(s->staged);
    free(s->state);
    free(s->lengths);
    free(s->before);
    free(s);
}

uint32_t silero_blocks(const struct silero *s) { return s->blocks; }

uint64_t silero_predict_bytes(uint32_t blocks)
{
    uint64_t weights = (uint64_t)2 * SILERO_BINS * FRAME, scratch;

    for (int i = 0; i < LAYERS; i++)
        weights += (uint64_t)(shape[i].in_frames * shape[i].in + 1) *
                   (uint64_t)(shape[i].out_frames * shape[i].out);
    weights += (uint64_t)4 * SILERO_HIDDEN * (2 * SILERO_HIDDEN + 2);
    weights += (uint64_t)OUT * (SILERO_HIDDEN + 1);
    scratch = SILERO_BLOCK * (A_FLOATS + B_FLOATS + ROWS) + 2 * SILERO_HIDDEN;
    return 4 * (weights + (blocks ? blocks : WIDE_BLOCKS) * scratch);
}

/* ---- running */

/* Blocks whose audio lies in one piece, from the first one's begin on; as units of 64 samples,
 * zeros behind them, and after those one for the end of each step: what is mirrored before unit e
 * are the samples before the last of unit e - 1, in reverse. */
struct stretch {
    uint32_t first, count; /* blocks */
    size_t samples;
    uint32_t begin, units; /* in s->staged */
    uint32_t mirrors;      /* made so far */
};

/* Whether its audio can lie among others': it ends with a unit, and no step's mirror lies across
 * that end. */
static bool is_even(const struct silero_block *b)
{
    uint32_t lack = b->steps * SILERO_STEP - b->samples;

    return lack % UNIT == 0 && lack % SILERO_STEP != UNIT;
}

static size_t measure_block_distance(const struct silero_block *from, const struct silero_block *to)
{
    return ((uintptr_t)to->pcm - (uintptr_t)from->pcm) / sizeof(float);
}

static bool stretch_accepts_next(const struct silero_block *blocks, const struct stretch *t)
{
    const struct silero_block *first = &blocks[t->first], *next = first + t->count;
    size_t apart = measure_block_distance(first, next);

    return is_even(first) && is_even(next) && (uintptr_t)next->pcm >= (uintptr_t)first->pcm &&
           apart <= t->samples && apart % UNIT == 0;
}

/* The stretch that begins with block t->first, of at most n. */
static void find_stretch(const struct silero_block *blocks, uint32_t n, struct stretch *t)
{
    t->count = 0;
    t->samples = 0;
    t->units = 0;
    t->mirrors = 0;
    do {
        const struct silero_block *b = &blocks[t->first + t->count];
        size_t at = measure_block_distance(&blocks[t->first], b);
        uint32_t units = (uint32_t)(at / UNIT) + b->steps * STEP_UNITS;

        if (at + b->samples > t->samples)
            t->samples = at + b->samples;
        t->units = units > t->units ? units : t->units;
        t->count++;
    } while (t->first + t->count < n && stretch_accepts_next(blocks, t));
}

/* The next unit behind the stretch, which mirrors what is before unit e of it. */
static int32_t make_mirror_unit(struct silero *s, struct stretch *t, uint32_t e)
{
    const float *end = s->staged + ((size_t)t->begin + e) * UNIT;
    uint32_t unit = t->begin + t->units + t->mirrors++;

    for (int k = 0; k < UNIT; k++)
        s->staged[(size_t)unit * UNIT + k] = end[-2 - k];
    return (int32_t)unit;
}

/* Finds the units that make up the frames of block i's steps. */
static void find_rows(struct silero *s, const struct silero_block *blocks, struct stretch *t,
                      uint32_t i)
{
    const struct silero_block *b = &blocks[i];
    uint32_t begin = (uint32_t)(measure_block_distance(&blocks[t->first], b) / UNIT);
    uint32_t heard = (b->samples + UNIT - 1) / UNIT;
    int32_t *to = s->rows + (size_t)i * SILERO_BLOCK * ROWS;

    for (uint32_t j = 0; j < SILERO_BLOCK; j++) {
        for (uint32_t k = 0; k < ROWS; k++) {
            /* Behind the context, of the block. */
            uint32_t unit = j * STEP_UNITS + k / (FRAME / UNIT) * (HOP / UNIT) + k % (FRAME / UNIT);

            if (j >= b->steps)
                *to++ = -1;
            else if (unit == 0)
                *to++ = (int32_t)i;
            else if (k + 1 == ROWS)
                *to++ = unit <= heard + 2 ? make_mirror_unit(s, t, begin + unit - 1) : -1;
            else
                *to++ = unit <= heard ? (int32_t)(t->begin + begin + unit - 1) : -1;
        }
    }
}

/* Writes the frames of all steps to a: their audio goes to the device, and is laid out there. */
static int put_audio(struct silero *s, const struct silero_block *blocks, uint32_t n,
                     struct err *err)
{
    const struct backend_ops *ops = s->be->ops;
    int64_t rows = (int64_t)n * SILERO_BLOCK * (int64_t)ROWS;
    uint32_t end = n; /* units: the contexts come first */
    int rc;

    for (uint32_t i = 0; i < n; i++)
        memcpy(s->staged + (size_t)i * UNIT, blocks[i].stream->context, UNIT * sizeof(float));
    for (struct stretch t = {0}; t.first < n; t.first += t.count) {
        float *to = s->staged + (size_t)end * UNIT;

        find_stretch(blocks, n, &t);
        t.begin = end;
        memcpy(to, blocks[t.first].pcm, t.samples * sizeof(*to));
        memset(to + t.samples, 0, ((size_t)t.units * UNIT - t.samples) * sizeof(*to));
        for (uint32_t i = 0; i < t.count; i++)
            find_rows(s, blocks, &t, t.first + i);
        end += t.units + t.mirrors;
    }
    rc = ops->write(s->be, s->b, s->staged, (size_t)end * UNIT * sizeof(float), err);
    if (rc == 0)
        rc = ops->write(s->be, s->device_rows, s->rows, (size_t)rows * sizeof(*s->rows), err);
    return rc == 0 ? ops->gather(s->be, tensor_of(DTYPE_F32, s->b, end, UNIT), s->device_rows,
                                 tensor_of(DTYPE_F32, s->a, rows, UNIT), err)
                   : rc;
}

/* From frames in a to probabilities in a; the streams' state in hc is moved on. */
static int compute_voice_probs(struct silero *s, uint32_t n, struct err *err)
{
    const struct backend_ops *ops = s->be->ops;
    int64_t steps = (int64_t)n * SILERO_BLOCK, frames = steps * FRAMES;
    struct tensor x = tensor_of(DTYPE_F32, s->a, frames, FRAME), y;
    struct tensor states = tensor_of(DTYPE_F32, s->hc, 2 * (int64_t)n, SILERO_HIDDEN);
    struct tensor prob = tensor_of(DTYPE_F32, s->a, steps, OUT);
    int rc;

    y = tensor_of(DTYPE_F32, s->b, frames, 2 * SILERO_BINS);
    rc = ops->linear(s->be, s->stft, x, EPILOGUE_NONE, y, err);
    if (rc == 0)
        rc = ops->magnitude(s->be, y, tensor_of(DTYPE_F32, s->a, frames, SILERO_BINS), err);
    for (int i = 0; rc == 0 && i < LAYERS; i++) {
        x = tensor_of(DTYPE_F32, i % 2 ? s->b : s->a, steps, s->layer[i].in);
        y = tensor_of(DTYPE_F32, i % 2 ? s->a : s->b, steps, s->layer[i].out);
        rc = ops->linear(s->be, s->layer[i].product, x, EPILOGUE_RELU, y, err);
    }
    x = tensor_of(DTYPE_F32, s->a, steps, SILERO_HIDDEN);
    y = tensor_of(DTYPE_F32, s->b, steps, SILERO_HIDDEN);
    if (rc == 0)
        rc = ops->lstm(s->be, s->lstm, n, x, s->lengths, tensor_rows(states, 0, n),
                       tensor_rows(states, n, n), y, err);
    if (rc == 0)
        rc = ops->activate(s->be, ACTIVATION_RELU, y, y, err);
    if (rc == 0)
        rc = ops->linear(s->be, s->out, y, EPILOGUE_NONE, prob, err);
    return rc == 0 ? ops->activate(s->be, ACTIVATION_SIGMOID, prob, prob, err) : rc;
}

/* Copies the results to the blocks. prob: [n][block][OUT]; the streams' state is in s. If a
 * value is not a number, no stream advances. */
static int hand_out(struct silero *s, struct silero_block *blocks, uint32_t n, const float *prob,
                    struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < blocks[i].steps; j++) {
            float p = prob[(i * SILERO_BLOCK + j) * OUT];

            if (!(p >= 0.0f && p <= 1.0f))
                return err_set(err, ERR_MODEL,
                               "the voice activity model computed something that is no number");
            blocks[i].prob[j] = p;
        }
    }
    for (size_t i = 0; i < n; i++) {
        struct silero_stream *stream = blocks[i].stream;
        size_t samples = (size_t)blocks[i].steps * SILERO_STEP;

        memcpy(stream->h, s->state + i * SILERO_HIDDEN, sizeof(stream->h));
        memcpy(stream->c, s->state + (n + i) * SILERO_HIDDEN, sizeof(stream->c));
        for (size_t k = 0; k < SILERO_CONTEXT; k++) {
            size_t at = samples - SILERO_CONTEXT + k;

            stream->context[k] = at < blocks[i].samples ? blocks[i].pcm[at] : 0.0f;
        }
    }
    return 0;
}

/* At most a group. */
static int run_group(struct silero *s, struct silero_block *blocks, uint32_t n, struct err *err)
{
    const struct backend_ops *ops = s->be->ops;
    size_t steps = (size_t)n * SILERO_BLOCK, state = (size_t)n * SILERO_HIDDEN;
    int rc;

    for (size_t i = 0; i < n; i++) {
        s->lengths[i] = blocks[i].steps;
        memcpy(s->state + i * SILERO_HIDDEN, blocks[i].stream->h, sizeof(blocks[i].stream->h));
        memcpy(s->state + state + i * SILERO_HIDDEN, blocks[i].stream->c,
               sizeof(blocks[i].stream->c));
    }
    rc = put_audio(s, blocks, n, err);
    if (rc == 0)
        rc = ops->write(s->be, s->hc, s->state, 2 * state * sizeof(float), err);
    if (rc == 0)
        rc = compute_voice_probs(s, n, err);
    if (rc == 0)
        rc = ops->read(s->be, s->staged, s->a, steps * OUT * sizeof(float), err);
    if (rc == 0)
        rc = ops->read(s->be, s->state, s->hc, 2 * state * sizeof(float), err);
    return rc == 0 ? hand_out(s, blocks, n, s->staged, err) : rc;
}

int silero_run(struct silero *s, struct silero_block *blocks, uint32_t n, struct err *err)
{
    int rc = 0;

    if (n > s->blocks)
        return err_set(err, ERR_DEVICE, "voice activity of %u blocks in a call for %u", n,
                       s->blocks);
    for (uint32_t i = 0; i < n; i++)
        if (blocks[i].steps < 1 || blocks[i].steps > SILERO_BLOCK)
            return err_set(err, ERR_DEVICE, "voice activity of a block of %u steps",
                           blocks[i].steps);
        else if (blocks[i].samples > blocks[i].steps * SILERO_STEP)
            return err_set(err, ERR_DEVICE, "voice activity of %u samples in %u steps",
                           blocks[i].samples, blocks[i].steps);
    for (uint32_t i = 0; i < n; i++)
        s->before[i] = *blocks[i].stream;
    for (uint32_t at = 0; rc == 0 && at < n; at += s->group)
        rc = run_group(s, blocks + at, n - at < s->group ? n - at : s->group, err);
    for (uint32_t i = 0; rc != 0 && i < n; i++)
        *blocks[i].stream = s->before[i];
    return rc;
}
