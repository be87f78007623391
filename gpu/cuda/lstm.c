/* A long short-term memory, one layer, both directions at once: what the inputs add to the gates is
 * one product for all steps, the recurrent part a kernel that goes through them (kernels/lstm.cu).
 *
 * A sequence's result may not depend on the others: the product goes in pieces of exactly PIECE
 * rows, out of one place into one place of the scratch memory, so that one kernel of one shape
 * computes every row. A piece costs some ten microseconds, which is little beside a hundred steps;
 * of both directions of hidden 128 it is 128 tiles of 128 x 128, about one for each multiprocessor
 * of an H100, so that larger ones would save launches alone and cost where inputs are few.
 *
 * Scratch: [PIECE][wide] inputs, [pieces * PIECE][directions][4 hidden] gates, lengths. */
#include "gpu/cuda/cuda.h"

#include <stdlib.h>

#include "gpu/cuda/kernels.h"

#define PIECE 2048

struct lstm {
    int64_t in, hidden;
    uint32_t directions;
    int64_t wide;        /* in, rounded up to 16 bytes */
    void *input;         /* W_ih: [directions][4 hidden][wide] */
    void *recurrent;     /* W_hh, as struct lstm_device wants it */
    void *bias;          /* [directions][4 hidden]: both together */
    size_t shared_bytes; /* of shared memory that a block may have */
};

static int put_all(struct backend *be, const float *values, int64_t count, void **ret,
                   struct err *err)
{
    int rc = cuda_alloc(be, (size_t)count * sizeof(float), ret, err);

    return rc == 0 ? cuda_put(be, tensor_of(DTYPE_F32, *ret, 1, count), values, err) : rc;
}

static void pack_input(const struct lstm *l, const float *w, float *p)
{
    for (int64_t r = 0; r < 4 * l->hidden; r++)
        for (int64_t i = 0; i < l->wide; i++)
            p[r * l->wide + i] = i < l->in ? w[r * l->in + i] : 0.0f;
}

static void pack_recurrent(const struct lstm *l, const float *w, float *p)
{
    int64_t rows = 4 * l->hidden;

    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < l->hidden; i++)
            p[(i / 4 * rows + r) * 4 + i % 4] = w[r * l->hidden + i];
}

static void pack_bias(const struct lstm *l, const struct lstm_weights *w, float *p)
{
    for (int64_t r = 0; r < 4 * l->hidden; r++)
        p[r] = (w->b_ih ? w->b_ih[r] : 0.0f) + (w->b_hh ? w->b_hh[r] : 0.0f);
}

/* Repacked through `p`, which has room for any of the three. */
static int put_weights(struct backend *be, struct lstm *l, const struct lstm_weights *w, float *p,
                       struct err *err)
{
    int64_t rows = 4 * l->hidden, all = l->directions * rows;
    int rc;

    for (uint32_t d = 0; d < l->directions; d++)
        pack_input(l, w[d].w_ih, p + d * rows * l->wide);
    rc = put_all(be, p, all * l->wide, &l->input, err);
    for (uint32_t d = 0; d < l->directions; d++)
        pack_recurrent(l, w[d].w_hh, p + d * rows * l->hidden);
    if (rc == 0)
        rc = put_all(be, p, all * l->hidden, &l->recurrent, err);
    for (uint32_t d = 0; d < l->directions; d++)
        pack_bias(l, &w[d], p + d * rows);
    return rc == 0 ? put_all(be, p, all, &l->bias, err) : rc;
}

int cuda_lstm_new(struct backend *be, int64_t in, int64_t hidden, uint32_t directions,
                  const struct lstm_weights *w, struct lstm **ret, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    int64_t wide = (in + 3) / 4 * 4;
    struct lstm *l = NULL;
    float *packed = NULL;
    int rc, shared = 0;

    if (in < 1 || in > INT32_MAX / 4 || hidden < 8 || hidden > K_LSTM_MOST || hidden % 8 != 0 ||
        directions < 1 || directions > 2)
        return cuda_shape(err, "lstm_new");
    rc = cuda_not_recording(c, "lstm_new", err);
    if (rc == 0)
        rc = cuda_status(
            err,
            cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, c->device),
            "asking for shared memory");
    if (rc != 0)
        return rc;
    l = calloc(1, sizeof(*l));
    packed =
        malloc((size_t)(directions * 4 * hidden * (wide > hidden ? wide : hidden)) * sizeof(float));
    if (!l || !packed) {
        rc = err_set(err, ERR_NOMEM, "out of memory for weights");
        goto out;
    }
    *l = (struct lstm){.in = in,
                       .hidden = hidden,
                       .directions = directions,
                       .wide = wide,
                       .shared_bytes = (size_t)shared};
    rc = put_weights(be, l, w, packed, err);
    if (rc != 0)
        goto out;
    *ret = l;
    l = NULL;
out:
    free(packed);
    cuda_lstm_free(be, l);
    return rc;
}

void cuda_lstm_free(struct backend *be, struct lstm *l)
{
    if (!l)
        return;
    cuda_release(be, l->input);
    cuda_release(be, l->recurrent);
    cuda_release(be, l->bias);
    free(l);
}

/* gates: [x.rows, rounded up to PIECE][directions * 4 hidden] = x W_ih^T + bias. piece:
 * [PIECE][wide]. */
static int add_inputs(struct cuda *c, const struct lstm *l, struct tensor x, struct tensor piece,
                      struct tensor gates, struct err *err)
{
    struct product p = {
        .type = CUDA_R_32F,
        .y_type = CUDA_R_32F,
        .rows = PIECE,
        .out = gates.cols,
        .in = l->wide,
        .x_stride = l->wide,
        .w_stride = l->wide,
        .y_stride = gates.cols,
        .batch = 1,
        .epilogue = EPILOGUE_NONE,
        .x = piece.data,
        .w = l->input,
        .bias = l->bias,
        .alpha = 1.0f,
    };
    /* Zeros beside the inputs stay; below the last ones lie former ones, whose sums nobody reads.
     */
    int rc = cuda_status(err, k_zero(c->work, piece), "clearing rows");

    for (int64_t r = 0; r < x.rows && rc == 0; r += PIECE) {
        struct tensor to = piece;

        to.rows = x.rows - r < PIECE ? x.rows - r : PIECE;
        to.cols = l->in;
        rc = cuda_status(err, k_copy(c->work, to, tensor_rows(x, r, to.rows)), "copying rows");
        p.y = tensor_rows(gates, r, PIECE).data;
        if (rc == 0)
            rc = cuda_product(c, &p, "multiplying matrices", err);
    }
    return rc;
}

static bool is_f32(struct tensor t, int64_t rows, int64_t cols)
{
    return t.type == DTYPE_F32 && t.data && t.rows == rows && t.cols == cols && t.stride >= cols;
}

/* The scratch memory of one run. */
struct room {
    struct tensor piece, gates;
    uint32_t *lengths;
};

static int make_room(struct cuda *c, const struct lstm *l, int64_t rows, uint32_t sequences,
                     struct room *r, struct err *err)
{
    int64_t pieces = (rows + PIECE - 1) / PIECE, gates = 4 * l->hidden * l->directions;
    size_t floats = (size_t)(PIECE * (l->wide + pieces * gates));
    void *s;
    int rc = cuda_scratch(c, (floats + sequences) * sizeof(float), &s, err);

    if (rc != 0)
        return rc;
    r->piece = tensor_of(DTYPE_F32, s, PIECE, l->wide);
    r->gates = tensor_of(DTYPE_F32, (float *)s + PIECE * l->wide, pieces * PIECE, gates);
    r->lengths = (uint32_t *)s + floats;
    return 0;
}

int cuda_lstm(struct backend *be, struct lstm *l, uint32_t sequences, struct tensor x,
              const uint32_t *lengths, struct tensor h, struct tensor c, struct tensor y,
              struct err *err)
{
    struct cuda *cu = cuda_enter(be);
    int64_t steps = sequences > 0 ? x.rows / sequences : 0;
    struct lstm_device d = {.hidden = (uint32_t)l->hidden,
                            .directions = l->directions,
                            .w = l->recurrent,
                            .sequences = sequences,
                            .steps = (uint32_t)steps,
                            .h = h,
                            .c = c,
                            .y = y};
    int64_t states = (int64_t)l->directions * sequences;
    uint32_t together = k_lstm_together(&d, be->info.processors, l->shared_bytes);
    struct room r;
    int rc = cuda_not_recording(cu, "lstm", err);

    if (rc != 0)
        return rc;
    if (steps < 1 || steps > INT32_MAX || !is_f32(x, steps * sequences, l->in) ||
        !is_f32(h, states, l->hidden) || !is_f32(c, states, l->hidden) ||
        !is_f32(y, x.rows, l->directions * l->hidden) ||
        !backend_lengths_fit(lengths, sequences, steps))
        return cuda_shape(err, "lstm");
    rc = make_room(cu, l, x.rows, sequences, &r, err);
    if (rc == 0 && lengths)
        rc = cuda_upload(cu, cu->work, r.lengths, lengths, sequences * sizeof(uint32_t), err);
    if (rc == 0)
        rc = add_inputs(cu, l, x, r.piece, r.gates, err);
    if (rc != 0)
        return rc;
    d.inputs = r.gates.data;
    d.lengths = lengths ? r.lengths : NULL;
    return cuda_status(err, k_lstm(cu->work, &d, together, l->shared_bytes),
                       "running a recurrent layer");
}
