/* A long short-term memory, one layer, one direction after the other.
 *
 *   i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of (W_ih x_t + b_ih + b_hh) + W_hh h
 *   c = f c + i g,  h = o tanh(c),  y_t = h
 *
 * One product computes the inputs' share of the gates for many steps at once. The rest follows step
 * by step, several sequences abreast so that they share each reading of W_hh. Both are products of
 * rows (rows.c): a sequence has the same bits whatever is computed with it. */
#include "gpu/host/host.h"

#include <omp.h>
#include <stdlib.h>

#define MAX_HIDDEN 512
#define GATES_BYTES (16u << 20) /* of scratch for the inputs' part: as many steps as fit, but 8 */

struct direction {
    struct row_weights input, recurrent; /* [4 hidden][in], [4 hidden][hidden] */
};

struct lstm {
    int64_t in, hidden;
    uint32_t directions;
    struct direction direction[2];
};

/* Steps [first, first + count) of every sequence, counted in the order in which they are run. */
struct part {
    const struct direction *d;
    int64_t hidden, sequences, steps, first, count;
    const uint32_t *lengths;
    bool reverse;
    struct tensor x, h, c, y;
    float *gates; /* [sequences][count][4 hidden] */
};

static int direction_new(struct backend *be, const struct lstm *l, const struct lstm_weights *w,
                         struct direction *ret, struct err *err)
{
    float bias[4 * MAX_HIDDEN];
    int64_t gates = 4 * l->hidden;
    int rc;

    for (int64_t i = 0; i < gates; i++)
        bias[i] = (w->b_ih ? w->b_ih[i] : 0.0f) + (w->b_hh ? w->b_hh[i] : 0.0f);
    rc = host_rows_new(be, DTYPE_F32, false, gates, l->in, w->w_ih, bias, &ret->input, err);
    if (rc != 0)
        return rc;
    return host_rows_new(be, DTYPE_F32, false, gates, l->hidden, w->w_hh, NULL, &ret->recurrent,
                         err);
}

int host_lstm_new(struct backend *be, int64_t in, int64_t hidden, uint32_t directions,
                  const struct lstm_weights *w, struct lstm **ret, struct err *err)
{
    struct lstm *l;
    int rc = 0;

    if (in < 1 || hidden < 8 || hidden > MAX_HIDDEN || hidden % 8 != 0 || directions < 1 ||
        directions > 2)
        return host_shape(err, "lstm_new");
    l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NOMEM, "out of memory for weights");
    *l = (struct lstm){.in = in, .hidden = hidden, .directions = directions};
    for (uint32_t d = 0; rc == 0 && d < directions; d++)
        rc = direction_new(be, l, &w[d], &l->direction[d], err);
    if (rc != 0) {
        host_lstm_free(be, l);
        return rc;
    }
    *ret = l;
    return 0;
}

void host_lstm_free(struct backend *be, struct lstm *l)
{
    if (!l)
        return;
    for (int d = 0; d < 2; d++) {
        host_rows_free(be, &l->direction[d].input);
        host_rows_free(be, &l->direction[d].recurrent);
    }
    free(l);
}

static int64_t length_of(const struct part *p, int64_t sequence)
{
    return p->lengths ? (int64_t)p->lengths[sequence] : p->steps;
}

/* How many of a sequence's steps are in this part. */
static int64_t steps_of(const struct part *p, int64_t sequence)
{
    int64_t left = length_of(p, sequence) - p->first;

    return left < 0 ? 0 : left < p->count ? left : p->count;
}

/* The row of x and y of a sequence's i-th step of this part. */
static int64_t row_of(const struct part *p, int64_t sequence, int64_t i)
{
    int64_t at = p->first + i;

    return sequence * p->steps + (p->reverse ? length_of(p, sequence) - 1 - at : at);
}

static float *f32_row(struct tensor t, int64_t row) { return (float *)t.data + row * t.stride; }

/* Adds one sequence's inputs to one block of the gates; rows are in order of time. */
static void add_inputs(const struct host *host, const struct part *p, int64_t sequence,
                       int64_t block)
{
    int64_t n = steps_of(p, sequence), gates = 4 * p->hidden;
    struct tensor x = p->x;

    if (n == 0)
        return;
    x.data = f32_row(p->x, row_of(p, sequence, p->reverse ? n - 1 : 0));
    x.rows = n;
    host_rows_block(host, &p->d->input, block, x, EPILOGUE_NONE,
                    tensor_of(DTYPE_F32, p->gates + sequence * p->count * gates, n, gates));
}

/* Sequences [from, to), at most KERNEL_ROWS of them, through this part. Those that have ended are
 * multiplied with the others and forgotten. */
static void run_recurrence(const struct host *host, const struct part *p, int64_t from, int64_t to)
{
    int64_t hidden = p->hidden, blocks = host_rows_blocks(&p->d->recurrent), most = 0;
    float gates[KERNEL_ROWS * 4 * MAX_HIDDEN];
    struct tensor sum = tensor_of(DTYPE_F32, gates, to - from, 4 * hidden), h = p->h;

    h.data = f32_row(p->h, from);
    h.rows = to - from;
    for (int64_t s = from; s < to; s++)
        most = steps_of(p, s) > most ? steps_of(p, s) : most;
    for (int64_t i = 0; i < most; i++) {
        for (int64_t b = 0; b < blocks; b++)
            host_rows_block(host, &p->d->recurrent, b, h, EPILOGUE_NONE, sum);
        for (int64_t s = from; s < to; s++) {
            int64_t n = steps_of(p, s), at = p->reverse ? n - 1 - i : i;

            if (i >= n)
                continue;
            host->kernels->lstm_step(p->gates + (s * p->count + at) * 4 * hidden,
                                     gates + (s - from) * 4 * hidden, (size_t)hidden,
                                     f32_row(p->c, s), f32_row(p->h, s));
            memcpy(f32_row(p->y, row_of(p, s, i)), f32_row(p->h, s),
                   (size_t)hidden * sizeof(float));
        }
    }
}

static void run_part(struct host *host, const struct part *p)
{
    int64_t blocks = host_rows_blocks(&p->d->input);
    int64_t each = (p->sequences + host->threads - 1) / host->threads, groups;
    int threads =
        host_threads(host, (size_t)(p->sequences * p->count * 4 * p->hidden) * sizeof(float));

    each = each < KERNEL_ROWS ? each : KERNEL_ROWS;
    groups = (p->sequences + each - 1) / each;
#pragma omp parallel for collapse(2) schedule(dynamic, 4) num_threads(threads)
    for (int64_t s = 0; s < p->sequences; s++)
        for (int64_t b = 0; b < blocks; b++)
            add_inputs(host, p, s, b);
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (int64_t g = 0; g < groups; g++)
        run_recurrence(host, p, g * each,
                       (g + 1) * each < p->sequences ? (g + 1) * each : p->sequences);
}

/* Steps that a sequence does not have. */
static void clear_rest(const struct part *p)
{
    for (int64_t s = 0; p->lengths && s < p->sequences; s++)
        for (int64_t i = p->lengths[s]; i < p->steps; i++)
            memset(f32_row(p->y, s * p->steps + i), 0, (size_t)p->hidden * sizeof(float));
}

static bool state_fits(const struct lstm *l, struct tensor t, int64_t sequences)
{
    return t.type == DTYPE_F32 && t.rows == l->directions * sequences && t.cols == l->hidden;
}

int host_lstm(struct backend *be, struct lstm *l, uint32_t sequences, struct tensor x,
              const uint32_t *lengths, struct tensor h, struct tensor c, struct tensor y,
              struct err *err)
{
    struct host *host = host_of(be);
    struct part p = {.hidden = l->hidden,
                     .sequences = sequences,
                     .steps = sequences ? x.rows / sequences : 0,
                     .lengths = lengths,
                     .x = x};
    int64_t step = (int64_t)sequences * 4 * l->hidden * (int64_t)sizeof(float);
    int rc;

    if (x.type != DTYPE_F32 || x.cols != l->in || p.steps < 1 || x.rows != p.steps * sequences ||
        y.type != DTYPE_F32 || y.rows != x.rows || y.cols != l->directions * l->hidden ||
        !state_fits(l, h, sequences) || !state_fits(l, c, sequences) ||
        !backend_lengths_fit(lengths, sequences, p.steps))
        return host_shape(err, "lstm");
    p.count = GATES_BYTES / step > 8 ? GATES_BYTES / step : 8;
    p.count = p.count < p.steps ? p.count : p.steps;
    rc = host_grow(host, &host->scratch, &host->scratch_bytes, (size_t)(p.count * step), err);
    if (rc != 0 || be->rehearsing)
        return rc;
    p.gates = host->scratch;
    omp_set_num_threads(host->threads);
    for (uint32_t d = 0; d < l->directions; d++) {
        p.d = &l->direction[d];
        p.reverse = d == 1;
        p.h = tensor_rows(h, (int64_t)d * sequences, sequences);
        p.c = tensor_rows(c, (int64_t)d * sequences, sequences);
        p.y = tensor_columns(y, d * l->hidden, l->hidden);
        for (p.first = 0; p.first < p.steps; p.first += p.count)
            run_part(host, &p);
        clear_rest(&p);
    }
    return 0;
}
