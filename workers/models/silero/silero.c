/* The network as products of matrices. A step has so few frames (4, 2, 1) that each convolution
 * over them is one product with the kernel laid out for every position: [4 x 129] -> [4 x 128] and
 * so on. That is half as much again to multiply in the first of them, and a tenth of the calls.
 *
 *   per step      floats          buffer
 *   frames        4 x 256         a        gathered on the host
 *   spectrum      4 x (129 + 129) b
 *   magnitude     4 x 129         a
 *   convolution 1 4 x 128         b
 *   convolution 2 2 x 64          a
 *   convolution 3 1 x 64          b
 *   convolution 4 1 x 128         a
 *   LSTM          1 x 128         b        read back; ReLU, 128 -> 1 and sigmoid on the host
 *
 * A call always has whole blocks, the steps that a block lacks being zeros. Where results must not
 * depend on how blocks were grouped, a call has one block: products of one shape. */
#include "workers/models/silero/silero.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/silero/silero_weights.h"

#define FRAMES 4 /* of a step */
#define FRAME 256
#define HOP 128
#define PADDED 640 /* context, step, mirrored */
#define WIDE_BLOCKS 32
#define LAYERS 4

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
    float out_w[SILERO_HIDDEN], out_bias;

    float *a, *b, *h, *c;         /* device memory */
    float *staged;                /* host: frames in, hidden states out */
    float *state;                 /* host: [2][group][hidden] */
    uint32_t *lengths;            /* host: [group] */
    struct silero_stream *before; /* host: [blocks], the streams of a call as it began */
};

#define A_FLOATS ((size_t)FRAMES * FRAME)
#define B_FLOATS ((size_t)FRAMES * SILERO_BINS * 2)

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

static int prepare(struct silero *s, const struct silero_weights *w, struct err *err)
{
    const struct backend_ops *ops = s->be->ops;
    int rc = ops->linear_new(s->be, PRECISION_F32, LINEAR_WIDE,
                             (int64_t)s->group * SILERO_BLOCK * FRAMES, 2 * SILERO_BINS, FRAME,
                             w->stft, NULL, &s->stft, err);

    for (int i = 0; rc == 0 && i < LAYERS; i++)
        rc = layer_new(s, i, w->conv[i], w->conv_bias[i], err);
    if (rc == 0)
        rc = ops->lstm_new(s->be, SILERO_HIDDEN, SILERO_HIDDEN, 1,
                           &(struct lstm_weights){w->w_ih, w->w_hh, w->b_ih, w->b_hh}, &s->lstm,
                           err);
    memcpy(s->out_w, w->out, sizeof(s->out_w));
    s->out_bias = w->out_bias[0];
    return rc;
}

static int take_memory(struct silero *s, struct err *err)
{
    size_t steps = (size_t)s->group * SILERO_BLOCK, hidden = (size_t)s->group * SILERO_HIDDEN;
    struct {
        float **ret;
        size_t count;
    } want[] = {
        {&s->a, steps * A_FLOATS}, {&s->b, steps * B_FLOATS}, {&s->h, hidden}, {&s->c, hidden}};
    void *p = NULL;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(want) / sizeof(want[0]); i++) {
        rc = s->be->ops->alloc(s->be, want[i].count * sizeof(float), &p, err);
        if (rc == 0)
            *want[i].ret = p;
    }
    if (rc != 0)
        return rc;
    s->staged = malloc(steps * A_FLOATS * sizeof(float));
    s->state = malloc(2 * hidden * sizeof(float));
    s->lengths = malloc(s->group * sizeof(*s->lengths));
    s->before = malloc(s->blocks * sizeof(*s->before));
    if (!s->staged || !s->state || !s->lengths || !s->before)
        return err_set(err, ERR_NOMEM, "no memory for the voice activity model");
    return 0;
}

/* As many blocks as ever, of silence. */
static int warm(struct silero *s, struct err *err)
{
    struct silero_block *blocks = calloc(s->blocks, sizeof(*blocks));
    struct silero_stream *streams = calloc(s->blocks, sizeof(*streams));
    float *pcm = calloc((size_t)SILERO_BLOCK * SILERO_STEP, sizeof(*pcm));
    float *prob = calloc(SILERO_BLOCK, sizeof(*prob));
    int rc;

    for (uint32_t i = 0; blocks && streams && i < s->blocks; i++)
        blocks[i] = (struct silero_block){&streams[i], pcm, SILERO_BLOCK, prob};
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
    rc = silero_weights_read(file, &w, err);
    if (rc == 0)
        rc = prepare(s, w, err);
    if (rc == 0)
        rc = take_memory(s, err);
    silero_weights_free(w);
    if (rc == 0)
        rc = warm(s, err);
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
    ops->release(s->be, s->a);
    ops->release(s->be, s->b);
    ops->release(s->be, s->h);
    ops->release(s->be, s->c);
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
    scratch = SILERO_BLOCK * (A_FLOATS + B_FLOATS) + 2 * SILERO_HIDDEN;
    return 4 * (weights + (blocks ? blocks : WIDE_BLOCKS) * scratch);
}

/* ---- running */

/* The frames of one step. before: the 64 samples ahead of it. out: [4][256]. */
static void gather(const float *before, const float *pcm, float *out)
{
    float padded[PADDED];

    memcpy(padded, before, SILERO_CONTEXT * sizeof(float));
    memcpy(padded + SILERO_CONTEXT, pcm, SILERO_STEP * sizeof(float));
    for (int i = 0; i < PADDED - SILERO_CONTEXT - SILERO_STEP; i++)
        padded[SILERO_CONTEXT + SILERO_STEP + i] = padded[SILERO_CONTEXT + SILERO_STEP - 2 - i];
    for (int f = 0; f < FRAMES; f++)
        memcpy(out + (size_t)f * FRAME, padded + (size_t)f * HOP, FRAME * sizeof(float));
}

static void gather_block(const struct silero_block *b, float *out)
{
    const float *before = b->stream->context;

    for (size_t i = 0; i < b->steps; i++) {
        const float *pcm = b->pcm + i * SILERO_STEP;

        gather(before, pcm, out + i * A_FLOATS);
        before = pcm + SILERO_STEP - SILERO_CONTEXT;
    }
    memset(out + b->steps * A_FLOATS, 0, (SILERO_BLOCK - b->steps) * A_FLOATS * sizeof(float));
}

/* From frames in a to hidden states in b; the streams' state in h and c is moved on. */
static int compute(struct silero *s, uint32_t n, struct err *err)
{
    const struct backend_ops *ops = s->be->ops;
    int64_t steps = (int64_t)n * SILERO_BLOCK, frames = steps * FRAMES;
    struct tensor x = tensor_of(DTYPE_F32, s->a, frames, FRAME), y;
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
    if (rc == 0)
        rc = ops->lstm(s->be, s->lstm, n, tensor_of(DTYPE_F32, s->a, steps, SILERO_HIDDEN),
                       s->lengths, tensor_of(DTYPE_F32, s->h, n, SILERO_HIDDEN),
                       tensor_of(DTYPE_F32, s->c, n, SILERO_HIDDEN),
                       tensor_of(DTYPE_F32, s->b, steps, SILERO_HIDDEN), err);
    return rc;
}

static float probability(const struct silero *s, const float *hidden)
{
    float sum = s->out_bias;

    for (int i = 0; i < SILERO_HIDDEN; i++)
        sum += s->out_w[i] * (hidden[i] < 0.0f ? 0.0f : hidden[i]); /* a NaN stays one */
    return 1.0f / (1.0f + expf(-sum));
}

/* What came out, to those who asked. hidden: [n][block][hidden]; the streams' state is in s.
 * Nothing is moved on when a value is no number. */
static int hand_out(struct silero *s, struct silero_block *blocks, uint32_t n, const float *hidden,
                    struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < blocks[i].steps; j++) {
            float p = probability(s, hidden + (i * SILERO_BLOCK + j) * SILERO_HIDDEN);

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
        memcpy(stream->context, blocks[i].pcm + samples - SILERO_CONTEXT, sizeof(stream->context));
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
        gather_block(&blocks[i], s->staged + i * SILERO_BLOCK * A_FLOATS);
        memcpy(s->state + i * SILERO_HIDDEN, blocks[i].stream->h, sizeof(blocks[i].stream->h));
        memcpy(s->state + state + i * SILERO_HIDDEN, blocks[i].stream->c,
               sizeof(blocks[i].stream->c));
    }
    rc = ops->write(s->be, s->a, s->staged, steps * A_FLOATS * sizeof(float), err);
    if (rc == 0)
        rc = ops->write(s->be, s->h, s->state, state * sizeof(float), err);
    if (rc == 0)
        rc = ops->write(s->be, s->c, s->state + state, state * sizeof(float), err);
    if (rc == 0)
        rc = compute(s, n, err);
    if (rc == 0)
        rc = ops->read(s->be, s->staged, s->b, steps * SILERO_HIDDEN * sizeof(float), err);
    if (rc == 0)
        rc = ops->read(s->be, s->state, s->h, state * sizeof(float), err);
    if (rc == 0)
        rc = ops->read(s->be, s->state + state, s->c, state * sizeof(float), err);
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
    for (uint32_t i = 0; i < n; i++)
        s->before[i] = *blocks[i].stream;
    for (uint32_t at = 0; rc == 0 && at < n; at += s->group)
        rc = run_group(s, blocks + at, n - at < s->group ? n - at : s->group, err);
    for (uint32_t i = 0; rc != 0 && i < n; i++)
        *blocks[i].stream = s->before[i];
    return rc;
}
