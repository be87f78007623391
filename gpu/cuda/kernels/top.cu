/* The likeliest tokens of each row of logits, and their log probabilities: what beams grow from.
 *
 * A block of 32 warps for a row (logits.h), which is read twice. Every warp keeps the k largest of
 * its ids in order, two in each lane: ids come in ascending order, a value enters only where it is
 * larger than the k-th so far, and goes behind those that equal it, so that of equals the lowest
 * ids stay. Among random values some k ln(ids / k) enter (130 for k = 33 in a warp's 1,621 ids);
 * rising ones all do, at about 20 instructions each. Then each of the 32 k candidates counts those
 * that are better, and has its place; that takes at most 32 + k comparisons, because each warp's
 * are in order. The second reading sums e^(logit - largest): float32 exponentials, float64 sums, as
 * in choose.cu. Nothing depends on other rows. */
#include "gpu/cuda/kernels/logits.h"

namespace
{

constexpr int MOST = BACKEND_MAX_TOP;
static_assert(MOST <= 64, "two candidates in each lane");

struct held {
    float value;
    int32_t id; /* -1: none */
};

/* Two of the warp's candidates, in descending order over the lanes: first those in `low`. */
struct list {
    held low, high;
};

__device__ inline held from_lane(const held &h, int32_t lane)
{
    return {__shfl_sync(ALL_LANES, h.value, lane), __shfl_sync(ALL_LANES, h.id, lane)};
}

__device__ inline held from_below(const held &h)
{
    return {__shfl_up_sync(ALL_LANES, h.value, 1), __shfl_up_sync(ALL_LANES, h.id, 1)};
}

/* Puts h, the same in all lanes, behind all that are not smaller; the last one falls out. */
__device__ inline void insert(list &l, const held &h)
{
    const int32_t lane = lane_id();
    const int32_t low = __popc(__ballot_sync(ALL_LANES, l.low.value >= h.value));
    const int32_t high = __popc(__ballot_sync(ALL_LANES, l.high.value >= h.value));
    const held carry = from_lane(l.low, 31), low_below = from_below(l.low);
    const held high_below = from_below(l.high);

    if (low == 32) {
        if (lane >= high)
            l.high = lane == high ? h : high_below;
        return;
    }
    l.high = lane == 0 ? carry : high_below;
    if (lane >= low)
        l.low = lane == low ? h : low_below;
}

/* The k-th largest so far. */
__device__ inline float least_of(const list &l, int32_t k)
{
    return __shfl_sync(ALL_LANES, k > 32 ? l.high.value : l.low.value, (k - 1) % 32);
}

__device__ inline list find_in_warp(const float *row, int32_t vocab, int32_t k)
{
    const span ids = warp_span(vocab, LOGITS_THREADS);
    list l = {{-INFINITY, -1}, {-INFINITY, -1}};
    float least = -INFINITY;

    for (int32_t first = ids.from; first < ids.to; first += 32 * LOGITS_DEEP) {
        float v[LOGITS_DEEP];

        load_logits(row, first + lane_id(), ids.to, v);
#pragma unroll
        for (int i = 0; i < LOGITS_DEEP; i++) {
            unsigned larger = __ballot_sync(ALL_LANES, v[i] > least);

            while (larger != 0) {
                const int32_t lane = __ffs((int)larger) - 1;
                const float value = __shfl_sync(ALL_LANES, v[i], lane);

                insert(l, {value, first + i * 32 + lane});
                least = least_of(l, k);
                /* Keep those of the other lanes whose values are still larger. */
                larger &= larger - 1;
                larger &= __ballot_sync(ALL_LANES, v[i] > least);
            }
        }
    }
    return l;
}

__device__ inline bool is_better(const held &a, const held &b)
{
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/* How many of all warps' candidates are better; k or more: that is all that is known. */
__device__ inline int32_t place_of(const held (*all)[MOST], const held &h, int32_t k)
{
    int32_t place = 0;

    for (int w = 0; w < LOGITS_WARPS; w++) {
        for (int32_t i = 0; i < k && place < k; i++) {
            if (all[w][i].id < 0 || !is_better(all[w][i], h))
                break;
            place++;
        }
    }
    return place;
}

/* The sum of e^(logit - high) over the row; the same in all threads. */
__device__ inline double find_mass(const float *row, int32_t vocab, float high)
{
    __shared__ double shared[LOGITS_WARPS];
    const span ids = warp_span(vocab, LOGITS_THREADS);
    double sum = 0.0;

    for (int32_t first = ids.from + lane_id(); first < ids.to; first += 32 * LOGITS_DEEP) {
        float v[LOGITS_DEEP];

        load_logits(row, first, ids.to, v);
#pragma unroll
        for (int i = 0; i < LOGITS_DEEP; i++)
            sum += (double)expf(v[i] - high);
    }
    sum = warp_sum64(sum);
    if (lane_id() == 0)
        shared[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0.0;
    for (int w = 0; w < LOGITS_WARPS; w++)
        sum += shared[w];
    return sum;
}

__global__ __launch_bounds__(LOGITS_THREADS) void top_rows(struct tensor logits, int32_t k,
                                                           struct candidate *rets)
{
    __shared__ held all[LOGITS_WARPS][MOST], best[MOST];
    const float *row = row_of<const float>(logits, blockIdx.x);
    const int32_t vocab = (int32_t)logits.cols, thread = (int32_t)threadIdx.x;
    const list l = find_in_warp(row, vocab, k);
    double mass;

    if (lane_id() < k)
        all[thread / 32][lane_id()] = l.low;
    if (lane_id() + 32 < k)
        all[thread / 32][lane_id() + 32] = l.high;
    if (thread < k)
        best[thread] = {-INFINITY, -1};
    __syncthreads();
    for (int32_t i = thread; i < LOGITS_WARPS * k; i += LOGITS_THREADS) {
        const held h = all[i / k][i % k];
        const int32_t place = h.id < 0 ? k : place_of(all, h, k);

        if (place < k)
            best[place] = h;
    }
    __syncthreads();
    mass = find_mass(row, vocab, best[0].value);
    if (thread < k) {
        const held h = best[thread];
        const bool there = h.id >= 0 && best[0].value <= FLT_MAX;

        rets[(size_t)blockIdx.x * k + thread] = {
            there ? h.id : -1, 0,
            there ? (double)h.value - (double)best[0].value - log(mass) : -INFINITY};
    }
}

} // namespace

int k_top(cudaStream_t s, struct tensor logits, uint32_t k, struct candidate *ret)
{
    if (is_empty(logits))
        return 0;
    if (k < 1 || k > MOST || logits.cols > INT32_MAX - LOGITS_THREADS)
        return (int)cudaErrorInvalidValue;
    LAUNCH(top_rows, dim3((unsigned)logits.rows), dim3(LOGITS_THREADS), 0, s)
    (logits, (int32_t)k, ret);
    return launched();
}
