/* The recurrent part of a long short-term memory, one layer, one or both directions, float32.
 *
 *     inputs  [sequences * steps][directions][4 hidden]    x W_ih^T + b_ih + b_hh, made before as
 *                                                          one product
 *     i, f, g, o = inputs[t] + W_hh h                      [hidden] each
 *     c = sigmoid(f) c + sigmoid(i) tanh(g),   h = sigmoid(o) tanh(c),   y[t] = h
 *
 * A block takes one, two or four sequences of a direction (blockIdx.y) through all of their steps;
 * no launches between. k_lstm_together says how many. A sequence's sums have one order in each of
 * the two kernels, whatever block it is in: its results do not depend on the others.
 *
 * lstm_near, hidden 128 (segmentation, voice activity) and 132 KiB of shared memory: nothing of
 * W_hh is read from the second-level cache. 512 threads of 128 registers hold half of its 256 KiB
 * in 64 of them, the other half lies in shared memory. Four lanes have a unit: each takes a quarter
 * of the columns for all four gates, so that one reading of h serves four rows, and they add up by
 * shuffles, after which a lane has what it needs of one sequence. State lies in registers, h twice
 * in shared memory: one barrier a step. The next step's inputs are on their way during a step. By
 * arithmetic, clocks of a step with 2 and 4 sequences: instructions 1,800 and 3,250, of which 1,024
 * and 2,048 are multiplications; shared memory, beside them, 1,536 and 2,048 (weights 1,024; h 8
 * loads of two wavefronts in each of 16 warps and each sequence); then some 300 of shuffles,
 * exponentials and the barrier, which nothing hides: about 2,100 and 3,500, 1.2 and 2 microseconds
 * of an H100. One sequence alone would have 1,700, in a kernel that the compiler spills; it is the
 * first of two.
 *
 * lstm_steps, everything else: state in shared memory, two barriers a step. A thread computes two
 * rows of W_hh h at once where there are more than 512, reading four columns of each; its
 * neighbour's next four lie beside them. The part of W_hh that fits stays in shared memory; each
 * step reads the rest from the second-level cache, at some 64 bytes a clock: for hidden 256
 * (speakers) 0.8 of 1 MiB, about 12,500 clocks, whatever the sequences are.
 *
 * Measured on an H200: 0.91 ms for both directions of a layer, 128 sequences of 589 steps, hidden
 * 128, by an lstm_near that spilled and took other numbers of sequences a block; before there was
 * one, 4.45. With hidden 256 and 64 sequences lstm_steps took 18 microseconds a step on an H100,
 * before it computed two rows at once. lstm_near without spills, and the rule for sequences a
 * block, have not yet run on a GPU. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 512; /* 128 registers each: nothing is spilled */
static_assert(4 * K_LSTM_MOST % 32 == 0, "whole warps");

typedef pack<float, 4> quad;

/* Two units in the last place of the quotient, not a half: of expf's size. */
__device__ inline float sigmoid(float v) { return __fdividef(1.0f, 1.0f + expf(-v)); }

__device__ inline int length_of(const struct lstm_device &l, int sequence)
{
    return sequence >= (int)l.sequences ? -1 : l.lengths ? (int)l.lengths[sequence] : (int)l.steps;
}

/* The step of its sequence that step `step` of the block is. */
__device__ inline int64_t time_of(int direction, int length, int step)
{
    return direction ? length - 1 - step : step;
}

/* The state's row of a sequence in the block's direction. */
__device__ inline int64_t state_row(const struct lstm_device &l, int sequence)
{
    return (int64_t)blockIdx.y * (int)l.sequences + sequence;
}

/* The gates' inputs for a row of x, in the block's direction. */
__device__ inline const float *inputs_of(const struct lstm_device &l, int64_t row)
{
    return l.inputs + (row * (int)l.directions + (int)blockIdx.y) * 4 * (int)l.hidden;
}

__device__ inline float *y_of(const struct lstm_device &l, int64_t row)
{
    return row_of<float>(l.y, row) + (int)blockIdx.y * (int)l.hidden;
}

__device__ inline const quad *weights_of(const struct lstm_device &l)
{
    return reinterpret_cast<const quad *>(l.w) + (int64_t)blockIdx.y * l.hidden * l.hidden;
}

/* Products and sums are named, so that the compiler forms no others where S differs. */
__device__ inline float next_cell(float forget, float c, float added)
{
    return fmaf(forget, c, added);
}

/* --- hidden 128: all of W_hh in the multiprocessor --------------------------------------------
 */

constexpr int NEAR = 128;         /* hidden */
constexpr int NEAR_QUADS = 4 * 4; /* of a thread's 32, that lie in shared memory: 4 of each gate */
static_assert(4 * NEAR == THREADS, "a thread for each unit and quarter of the columns");

constexpr size_t near_bytes(size_t together)
{
    return NEAR_QUADS * THREADS * sizeof(quad) + 2 * together * NEAR * sizeof(float);
}

/* A lane's place. With S sequences, two or four, it ends with one of them: the quarter's number is
 * the sequence's if there are four, its higher bit if there are two. */
template <int S> struct seat {
    int quarter; /* lanes of eight units lie side by side, for each quarter of the columns */
    int unit;
    int sequence; /* of the block */
    bool owns;    /* its c and h are those that count */

    __device__ seat()
        : quarter((int)threadIdx.x % 32 / 8),
          unit((int)threadIdx.x / 32 * 8 + (int)threadIdx.x % 8),
          sequence(S == 4 ? quarter : quarter / 2), owns(S == 4 || quarter % 2 == 1)
    {
    }
    __device__ bool high() const { return quarter >= 2; }
    __device__ bool odd() const { return quarter % 2 == 1; }
};

/* Gates whose inputs a lane adds: all, or input and cell, or forget and output. */
template <int S> constexpr int GATES_HELD = S == 4 ? 4 : 2;

template <int S> constexpr int GATES_APART = S == 4 ? NEAR : 2 * NEAR; /* in a row of inputs */

/* The sum of what two lanes have of one of two things: `with` apart, the lane that `takes_second`
 * gets the second one. */
__device__ inline float share(float first, float second, bool takes_second, int with)
{
    const float own = takes_second ? second : first, other = takes_second ? first : second;

    return own + __shfl_xor_sync(ALL_LANES, other, with);
}

/* sum: [4 gates][S sequences] of a quarter of the columns. ret: whole sums, of the lane's gates and
 * sequence. Always (quarter + the one 2 apart) + (the same of the quarter beside it). */
template <int S>
__device__ inline void add_quarters(const seat<S> &a, const float (&sum)[4][S],
                                    float (&ret)[GATES_HELD<S>])
{
    if constexpr (S == 4) {
#pragma unroll
        for (int gate = 0; gate < 4; gate++) {
            const float first = share(sum[gate][0], sum[gate][2], a.high(), 16);
            const float second = share(sum[gate][1], sum[gate][3], a.high(), 16);

            ret[gate] = share(first, second, a.odd(), 8);
        }
    } else {
        float half[4];

#pragma unroll
        for (int gate = 0; gate < 4; gate++)
            half[gate] = share(sum[gate][0], sum[gate][1], a.high(), 16);
        ret[0] = share(half[0], half[1], a.odd(), 8);
        ret[1] = share(half[2], half[3], a.odd(), 8);
    }
}

/* gates: the lane's. c and h move on in the lanes that own them. */
template <int S>
__device__ inline void move_unit(const seat<S> &a, const float (&gates)[GATES_HELD<S>], bool there,
                                 float *c, float *h)
{
    float forget, added, out;

    if constexpr (S == 4) {
        forget = sigmoid(gates[1]);
        added = __fmul_rn(sigmoid(gates[0]), tanhf(gates[2]));
        out = sigmoid(gates[3]);
    } else {
        forget = sigmoid(gates[0]); /* of even lanes the input gate */
        out = a.odd() ? sigmoid(gates[1]) : tanhf(gates[1]);
        added = __shfl_xor_sync(ALL_LANES, __fmul_rn(forget, out), 8);
    }
    if (there)
        *c = next_cell(forget, *c, added);
    *h = __fmul_rn(out, tanhf(*c));
}

/* sum = the lane's quarter of the columns times h, [S][NEAR]. */
template <int S>
__device__ inline void multiply_near(const quad (&held)[4][4], const quad *shared, const float *h,
                                     int quarter, float (&sum)[4][S])
{
#pragma unroll
    for (int j = 0; j < 8; j++) {
        quad x[S];

#pragma unroll
        for (int s = 0; s < S; s++)
            x[s] = reinterpret_cast<const quad *>(h + s * NEAR)[4 * j + quarter];
#pragma unroll
        for (int gate = 0; gate < 4; gate++) {
            const quad w =
                j % 2 ? shared[(j / 2 * 4 + gate) * THREADS + (int)threadIdx.x] : held[j / 2][gate];

#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int s = 0; s < S; s++)
                    sum[gate][s] = fmaf(w.v[i], x[s].v[i], sum[gate][s]);
        }
    }
}

template <int S> __global__ __launch_bounds__(THREADS, 1) void lstm_near(struct lstm_device l)
{
    constexpr int HELD = GATES_HELD<S>;
    DYNAMIC_SHARED(float, memory);
    quad *const shared = reinterpret_cast<quad *>(memory);
    float *const h_all = memory + NEAR_QUADS * THREADS * 4; /* [2][S][NEAR] */
    const seat<S> a;
    const int direction = (int)blockIdx.y, sequence = (int)blockIdx.x * S + a.sequence;
    const int length = length_of(l, sequence), some = min(sequence, (int)l.sequences - 1);
    const int column = a.unit + (S == 4 || !a.odd() ? 0 : NEAR); /* of inputs, the first */
    int row = some * (int)l.steps + (direction ? max(length, 1) - 1 : 0);
    quad held[4][4];
    float c = row_of<const float>(l.c, state_row(l, some))[a.unit];
    float next[HELD];

#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int gate = 0; gate < 4; gate++) {
            const quad w = weights_of(l)[(4 * j + a.quarter) * 4 * NEAR + gate * NEAR + a.unit];

            if (j % 2) /* so that the reading of some is hidden by the multiplications of others */
                shared[(j / 2 * 4 + gate) * THREADS + (int)threadIdx.x] = w;
            else
                held[j / 2][gate] = w;
        }
    if (a.owns)
        h_all[a.sequence * NEAR + a.unit] = row_of<const float>(l.h, state_row(l, some))[a.unit];
#pragma unroll
    for (int i = 0; i < HELD; i++)
        next[i] = length > 0 ? inputs_of(l, row)[column + i * GATES_APART<S>] : 0.0f;
        /* One barrier a step, between the two h: who is a step ahead writes the one nobody reads.
         */
#pragma unroll 1
    for (int step = 0; __syncthreads_or(step < length); step++) {
        float sum[4][S] = {}, gates[HELD], h;

        multiply_near<S>(held, shared, h_all + (step & 1) * (S * NEAR), a.quarter, sum);
        add_quarters<S>(a, sum, gates);
#pragma unroll
        for (int i = 0; i < HELD; i++)
            gates[i] += next[i];
        move_unit<S>(a, gates, step < length, &c, &h);
        if (a.owns && step < length) {
            h_all[(~step & 1) * (S * NEAR) + a.sequence * NEAR + a.unit] = h;
            y_of(l, row)[a.unit] = h;
            if (step + 1 == length)
                row_of<float>(l.h, state_row(l, sequence))[a.unit] = h;
        }
        row += 1 - 2 * direction;
        if (step + 1 < length) /* needed after the next step's products */
#pragma unroll
            for (int i = 0; i < HELD; i++)
                next[i] = inputs_of(l, row)[column + i * GATES_APART<S>];
    }
    if (!a.owns || length < 0)
        return;
    row_of<float>(l.c, state_row(l, sequence))[a.unit] = c;
    for (int t = length; t < (int)l.steps; t++)
        y_of(l, (int64_t)sequence * (int)l.steps + t)[a.unit] = 0.0f;
}

/* --- other sizes, and devices with less shared memory ------------------------------------------
 */

/* Shared memory of a block: h and c [S][hidden], gates [S][4 hidden], then columns of W_hh. */
constexpr size_t state_floats(size_t sequences, size_t hidden) { return sequences * hidden * 6; }

/* One unit of one sequence: its gates lie `hidden` apart. */
__device__ inline void move_on(const float *gates, int hidden, float *h, float *c)
{
    const float in = sigmoid(gates[0]), forget = sigmoid(gates[hidden]);
    const float cell = tanhf(gates[2 * hidden]), out = sigmoid(gates[3 * hidden]);

    *c = next_cell(forget, *c, __fmul_rn(in, cell));
    *h = __fmul_rn(out, tanhf(*c));
}

/* Shared by the threads of a block. lengths: of its sequences; -1: there is none. */
struct shared_state {
    float *h, *c, *gates;
    quad *near; /* the first `kept` groups of four columns of W_hh */
    const int *lengths;
    int kept;
};

template <int S>
__device__ inline void take_up(const struct lstm_device &l, const shared_state &b, int first)
{
    const int hidden = (int)l.hidden, threads = (int)blockDim.x;
    const quad *w = weights_of(l);

    for (int i = (int)threadIdx.x; i < b.kept * 4 * hidden; i += threads)
        b.near[i] = w[i];
    for (int i = (int)threadIdx.x; i < S * hidden; i += threads) {
        const int64_t row = state_row(l, min(first + i / hidden, (int)l.sequences - 1));

        b.h[i] = row_of<const float>(l.h, row)[i % hidden];
        b.c[i] = row_of<const float>(l.c, row)[i % hidden];
    }
}

/* sum[r][s] += columns 4 group .. 4 group + 3 of R rows, `apart` in w, times h. */
template <int S, int R>
__device__ inline void multiply(float (&sum)[R][S], const quad *w, const int (&apart)[R],
                                const float *h, int hidden, int group)
{
    quad row[R];

#pragma unroll
    for (int r = 0; r < R; r++)
        row[r] = w[apart[r]];
#pragma unroll
    for (int s = 0; s < S; s++) {
        const quad x = reinterpret_cast<const quad *>(h + s * hidden)[group];

#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int r = 0; r < R; r++)
                sum[r][s] = fmaf(row[r].v[i], x.v[i], sum[r][s]);
    }
}

/* gates = inputs + W_hh h of a step, R rows of a thread at once: those that there are not are the
 * last one, again. */
template <int S, int R>
__device__ inline void sum_gates(const struct lstm_device &l, const shared_state &b, int first,
                                 int step)
{
    const int hidden = (int)l.hidden, rows = 4 * hidden, steps = (int)l.steps;
    const quad *w = weights_of(l);

    for (int row = (int)threadIdx.x; row < rows; row += R * (int)blockDim.x) {
        float in[R][S], sum[R][S] = {};
        int at[R];

#pragma unroll
        for (int r = 0; r < R; r++)
            at[r] = min(row + r * (int)blockDim.x, rows - 1);
#pragma unroll
        for (int s = 0; s < S; s++) { /* on its way while the sums are made */
            const int64_t t = time_of((int)blockIdx.y, b.lengths[s], step);

#pragma unroll
            for (int r = 0; r < R; r++)
                in[r][s] = step < b.lengths[s]
                               ? inputs_of(l, (int64_t)(first + s) * steps + t)[at[r]]
                               : 0.0f;
        }
        for (int g = 0; g < b.kept; g++)
            multiply<S, R>(sum, b.near + g * rows, at, b.h, hidden, g);
#pragma unroll 4
        for (int g = b.kept; g < hidden / 4; g++)
            multiply<S, R>(sum, w + g * rows, at, b.h, hidden, g);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int s = 0; s < S; s++)
                if (r == 0 || row + r * (int)blockDim.x < rows)
                    b.gates[s * rows + at[r]] = sum[r][s] + in[r][s];
    }
}

template <int S>
__device__ inline void move_all(const struct lstm_device &l, const shared_state &b, int first,
                                int step)
{
    const int hidden = (int)l.hidden;

    for (int i = (int)threadIdx.x; i < S * hidden; i += (int)blockDim.x) {
        const int s = i / hidden, unit = i % hidden;
        const int64_t t = time_of((int)blockIdx.y, b.lengths[s], step);

        if (step < b.lengths[s]) {
            move_on(b.gates + s * 4 * hidden + unit, hidden, &b.h[i], &b.c[i]);
            y_of(l, (int64_t)(first + s) * (int)l.steps + t)[unit] = b.h[i];
        }
    }
}

/* The state, and zeros behind the outputs of shorter sequences. */
template <int S>
__device__ inline void put_down(const struct lstm_device &l, const shared_state &b, int first)
{
    const int hidden = (int)l.hidden, steps = (int)l.steps;

    for (int i = (int)threadIdx.x; i < S * hidden; i += (int)blockDim.x) {
        const int s = i / hidden, unit = i % hidden;

        if (b.lengths[s] < 0) /* no such sequence */
            break;
        row_of<float>(l.h, state_row(l, first + s))[unit] = b.h[i];
        row_of<float>(l.c, state_row(l, first + s))[unit] = b.c[i];
        for (int t = b.lengths[s]; t < steps; t++)
            y_of(l, (int64_t)(first + s) * steps + t)[unit] = 0.0f;
    }
}

/* kept: groups of four columns of W_hh that lie in shared memory. R: 2 where the block has fewer
 * threads than there are rows. */
template <int S, int R>
__global__ __launch_bounds__(THREADS, 1) void lstm_steps(struct lstm_device l, int kept)
{
    DYNAMIC_SHARED(float, memory);
    __shared__ int lengths[S];
    const int hidden = (int)l.hidden, first = (int)blockIdx.x * S, thread = (int)threadIdx.x;
    float *c = memory + S * hidden, *gates = c + S * hidden;
    const shared_state b = {memory,  c,   gates, reinterpret_cast<quad *>(gates + S * 4 * hidden),
                            lengths, kept};
    int most = 0;

    if (thread < S)
        lengths[thread] = length_of(l, first + thread);
    take_up<S>(l, b, first);
    __syncthreads();
    for (int s = 0; s < S; s++)
        most = max(most, lengths[s]);
    for (int step = 0; step < most; step++) {
        sum_gates<S, R>(l, b, first, step);
        __syncthreads();
        move_all<S>(l, b, first, step);
        __syncthreads();
    }
    put_down<S>(l, b, first);
}

/* --- the host's side ---------------------------------------------------------------------------
 */

template <class K> int allow(K kernel, size_t bytes)
{
    return (int)cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
}

dim3 grid_of(const struct lstm_device &l, uint32_t together)
{
    return dim3((l.sequences + together - 1) / together, l.directions);
}

bool is_near(const struct lstm_device &l, size_t shared_bytes)
{
    return l.hidden == NEAR && shared_bytes >= near_bytes(4);
}

template <int S> int run_near(cudaStream_t s, const struct lstm_device &l)
{
    auto kernel = lstm_near<S>;
    const int rc = allow(kernel, near_bytes(S));

    if (rc != 0)
        return rc;
    LAUNCH(kernel, grid_of(l, S), dim3(THREADS), near_bytes(S), s)(l);
    return launched();
}

template <int S, int R>
int run_steps(cudaStream_t s, const struct lstm_device &l, size_t shared_bytes)
{
    auto kernel = lstm_steps<S, R>;
    const size_t state = state_floats(S, l.hidden) * sizeof(float), rows = 4 * (size_t)l.hidden;
    const size_t own = S * sizeof(int); /* what the kernel has besides */
    size_t kept = 0, bytes;
    int rc;

    if (shared_bytes < state + own)
        return (int)cudaErrorInvalidValue;
    kept = (shared_bytes - state - own) / (rows * sizeof(quad));
    kept = kept < l.hidden / 4 ? kept : l.hidden / 4;
    bytes = state + kept * rows * sizeof(quad);
    rc = allow(kernel, bytes);
    if (rc != 0)
        return rc;
    LAUNCH(kernel, grid_of(l, S), dim3(rows < THREADS ? (unsigned)rows : (unsigned)THREADS), bytes,
           s)
    (l, (int)kept);
    return launched();
}

template <int S> int run(cudaStream_t s, const struct lstm_device &l, size_t shared_bytes)
{
    if (is_near(l, shared_bytes))
        return run_near<(S == 1 ? 2 : S)>(s, l);
    return 4 * l.hidden > THREADS ? run_steps<S, 2>(s, l, shared_bytes)
                                  : run_steps<S, 1>(s, l, shared_bytes);
}

} // namespace

/* Waves of blocks times what a step costs, in hundreds of clocks as the head of this file has them;
 * of equals the fewer sequences. lstm_steps by hidden 256, where the reading of W_hh is nearly all
 * of it. */
uint32_t k_lstm_together(const struct lstm_device *l, uint32_t processors, size_t shared_bytes)
{
    static const struct {
        uint32_t together;
        uint64_t near, steps;
    } kinds[] = {{1, 0, 130}, {2, 21, 135}, {4, 35, 150}};
    const bool near = is_near(*l, shared_bytes);
    uint64_t least = UINT64_MAX;
    uint32_t ret = 0;

    for (const auto &k : kinds) {
        const uint64_t each = (l->sequences + k.together - 1) / k.together;
        const uint64_t blocks = each * l->directions, most = processors ? processors : 1;
        const uint64_t cost = (blocks + most - 1) / most * (near ? k.near : k.steps);

        if (cost < least && !(near && k.together == 1)) {
            least = cost;
            ret = k.together;
        }
    }
    return ret;
}

int k_lstm(cudaStream_t s, const struct lstm_device *l, uint32_t together, size_t shared_bytes)
{
    if (l->sequences == 0)
        return 0;
    if (l->hidden < 8 || l->hidden > K_LSTM_MOST || l->hidden % 8 != 0 || l->directions < 1 ||
        l->directions > 2)
        return (int)cudaErrorInvalidValue;
    switch (together) {
    case 1:
        return run<1>(s, *l, shared_bytes);
    case 2:
        return run<2>(s, *l, shared_bytes);
    case 4:
        return run<4>(s, *l, shared_bytes);
    default:
        return (int)cudaErrorInvalidValue;
    }
}
