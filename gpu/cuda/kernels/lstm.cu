/* The recurrent part of a long short-term memory, one layer and direction, float32.
 *
 *     inputs  [sequences * steps][4 hidden]    x W_ih^T + b_ih + b_hh, made before as one product
 *     i, f, g, o = inputs[t] + W_hh h          [hidden] each
 *     c = sigmoid(f) c + sigmoid(i) tanh(g),   h = sigmoid(o) tanh(c),   y[t] = h
 *
 * A block takes one sequence, or four where there are more sequences than multiprocessors, through
 * all of its steps, with the state in shared memory: two barriers a step, no launches between. A
 * thread computes rows of W_hh h (one of them with up to 128 hidden values, else up to four),
 * reading four columns at once; its neighbour's next four lie beside them. What fits of W_hh stays
 * in shared memory, the rest is read from the second-level cache in each step. Silero (hidden 128,
 * 256 KiB of weights) has 26 of 32 parts of it in the 227 KiB of an H100 or H200: a step then reads
 * 208 KiB at 128 bytes a clock, about 1,700 clocks, in which four sequences are 2,048 clocks of
 * multiplications; 128 steps would be some 0.2 ms for 528 sequences of 4 s. On devices with 64 or
 * 99 KiB the cache is the bound.
 *
 * A sequence's sums have one order, whatever block it is in and whatever lies where: its results do
 * not depend on the others. Not yet run on a GPU, so not yet measured. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 512; /* 128 registers each: nothing is spilled */
static_assert(4 * K_LSTM_MOST % 32 == 0, "whole warps");

typedef pack<float, 4> quad;

__device__ inline float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

/* Shared memory of a block: h and c [S][hidden], gates [S][4 hidden], then columns of W_hh. */
constexpr size_t state_floats(size_t sequences, size_t hidden) { return sequences * hidden * 6; }

/* sum[s] += the columns 4 group .. 4 group + 3 of a row times h. */
template <int S>
__device__ inline void multiply(float *sum, const quad &w, const float *h, int hidden, int group)
{
#pragma unroll
    for (int s = 0; s < S; s++) {
        const quad x = reinterpret_cast<const quad *>(h + s * hidden)[group];

#pragma unroll
        for (int i = 0; i < 4; i++)
            sum[s] = fmaf(w.v[i], x.v[i], sum[s]);
    }
}

/* One unit of one sequence: its gates lie `hidden` apart. Products and sums are named, so that the
 * compiler forms no others where S differs. */
__device__ inline void move_on(const float *gates, int hidden, float *h, float *c)
{
    const float in = sigmoid(gates[0]), forget = sigmoid(gates[hidden]);
    const float cell = tanhf(gates[2 * hidden]), out = sigmoid(gates[3 * hidden]);

    *c = fmaf(forget, *c, __fmul_rn(in, cell));
    *h = __fmul_rn(out, tanhf(*c));
}

/* What the threads of a block share. lengths: of its sequences; -1: there is none. */
struct shared_state {
    float *h, *c, *gates;
    quad *near; /* the first `kept` groups of four columns of W_hh */
    const int *lengths;
    int kept;
};

/* The step of its sequence that step `step` of the block is. */
__device__ inline int64_t time_of(const struct lstm_device &l, int length, int step)
{
    return l.reverse ? length - 1 - step : step;
}

template <int S>
__device__ inline void take_up(const struct lstm_device &l, const shared_state &b, int first)
{
    const int hidden = (int)l.hidden, threads = (int)blockDim.x;
    const quad *w = reinterpret_cast<const quad *>(l.w);

    for (int i = (int)threadIdx.x; i < b.kept * 4 * hidden; i += threads)
        b.near[i] = w[i];
    for (int i = (int)threadIdx.x; i < S * hidden; i += threads) {
        const int sequence = min(first + i / hidden, (int)l.sequences - 1);

        b.h[i] = row_of<const float>(l.h, sequence)[i % hidden];
        b.c[i] = row_of<const float>(l.c, sequence)[i % hidden];
    }
}

/* gates = inputs + W_hh h of a step. */
template <int S>
__device__ inline void sum_gates(const struct lstm_device &l, const shared_state &b, int first,
                                 int step)
{
    const int hidden = (int)l.hidden, rows = 4 * hidden, steps = (int)l.steps;
    const quad *w = reinterpret_cast<const quad *>(l.w);

    for (int row = (int)threadIdx.x; row < rows; row += (int)blockDim.x) {
        float in[S], sum[S] = {};

#pragma unroll
        for (int s = 0; s < S; s++) { /* on its way while the sums are made */
            const int64_t t = time_of(l, b.lengths[s], step);

            in[s] = step < b.lengths[s] ? l.inputs[((int64_t)(first + s) * steps + t) * rows + row]
                                        : 0.0f;
        }
        for (int g = 0; g < b.kept; g++)
            multiply<S>(sum, b.near[g * rows + row], b.h, hidden, g);
#pragma unroll 4
        for (int g = b.kept; g < hidden / 4; g++)
            multiply<S>(sum, w[g * rows + row], b.h, hidden, g);
#pragma unroll
        for (int s = 0; s < S; s++)
            b.gates[s * rows + row] = sum[s] + in[s];
    }
}

template <int S>
__device__ inline void move_all(const struct lstm_device &l, const shared_state &b, int first,
                                int step)
{
    const int hidden = (int)l.hidden;

    for (int i = (int)threadIdx.x; i < S * hidden; i += (int)blockDim.x) {
        const int s = i / hidden, unit = i % hidden;
        const int64_t t = time_of(l, b.lengths[s], step);

        if (step < b.lengths[s]) {
            move_on(b.gates + s * 4 * hidden + unit, hidden, &b.h[i], &b.c[i]);
            row_of<float>(l.y, (int64_t)(first + s) * (int)l.steps + t)[unit] = b.h[i];
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
        row_of<float>(l.h, first + s)[unit] = b.h[i];
        row_of<float>(l.c, first + s)[unit] = b.c[i];
        for (int t = b.lengths[s]; t < steps; t++)
            row_of<float>(l.y, (int64_t)(first + s) * steps + t)[unit] = 0.0f;
    }
}

/* kept: groups of four columns of W_hh that lie in shared memory. */
template <int S>
__global__ __launch_bounds__(THREADS, 1) void lstm_steps(struct lstm_device l, int kept)
{
    DYNAMIC_SHARED(float, shared);
    __shared__ int lengths[S];
    const int hidden = (int)l.hidden, first = (int)blockIdx.x * S, thread = (int)threadIdx.x;
    float *c = shared + S * hidden, *gates = c + S * hidden;
    const shared_state b = {shared,  c,   gates, reinterpret_cast<quad *>(gates + S * 4 * hidden),
                            lengths, kept};
    int most = 0;

    if (thread < S) {
        const bool there = first + thread < (int)l.sequences;

        lengths[thread] = !there ? -1 : l.lengths ? (int)l.lengths[first + thread] : (int)l.steps;
    }
    take_up<S>(l, b, first);
    __syncthreads();
    for (int s = 0; s < S; s++)
        most = max(most, lengths[s]);
    for (int step = 0; step < most; step++) {
        sum_gates<S>(l, b, first, step);
        __syncthreads();
        move_all<S>(l, b, first, step);
        __syncthreads();
    }
    put_down<S>(l, b, first);
}

template <int S> int run(cudaStream_t s, const struct lstm_device &l, size_t shared_bytes)
{
    auto kernel = lstm_steps<S>;
    const size_t state = state_floats(S, l.hidden) * sizeof(float), rows = 4 * (size_t)l.hidden;
    const size_t own = S * sizeof(int); /* what the kernel has besides */
    size_t kept = 0, bytes;
    cudaError_t status;

    if (shared_bytes < state + own)
        return (int)cudaErrorInvalidValue;
    kept = (shared_bytes - state - own) / (rows * sizeof(quad));
    kept = kept < l.hidden / 4 ? kept : l.hidden / 4;
    bytes = state + kept * rows * sizeof(quad);
    status = cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel),
                                  cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (status != cudaSuccess)
        return (int)status;
    LAUNCH(kernel, dim3((l.sequences + S - 1) / S),
           dim3(rows < THREADS ? (unsigned)rows : (unsigned)THREADS), bytes, s)
    (l, (int)kept);
    return launched();
}

} // namespace

int k_lstm(cudaStream_t s, const struct lstm_device *l, uint32_t together, size_t shared_bytes)
{
    if (l->sequences == 0)
        return 0;
    if (l->hidden < 8 || l->hidden > K_LSTM_MOST || l->hidden % 8 != 0)
        return (int)cudaErrorInvalidValue;
    return together == 1 ? run<1>(s, *l, shared_bytes) : run<K_LSTM_SEQUENCES>(s, *l, shared_bytes);
}
