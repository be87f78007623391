/* softmax(q k^T / 8) v for single queries over cached keys: the decoder's attention.
 *
 *     q    [rows][heads * 64]
 *     kv   for each slot and head: keys [capacity][64], values [capacity][64]
 *     out  [rows][heads * 64]
 *
 * Every key and value is used once, so this is as fast as memory: at 16 bits a row and head of
 * cross-attention reads 384,000 bytes for 400,000 floating-point operations. One block of four
 * warps takes one chunk of 256 keys of a (row, head), whatever the number of rows, so that a row's
 * sums have one order; blocks beyond a row's last key leave at once. A lane reads 16 bytes (8 of a
 * key's 64 dimensions at 16 bits); 8 lanes hold a key, a warp reads 4 keys by one access and has
 * four accesses to keys and four to values under way: 4 KiB a warp. With the 7 blocks that a
 * multiprocessor holds by registers (72 a thread) that is 112 KiB, and an H200 (4.3 TB/s, about 0.8
 * us) needs 26 KiB of each of its 132 to keep its memory busy. Each group of lanes goes by an
 * online softmax of its own, four keys at a time, and they are merged at the end: over the warp's
 * groups, the warps, and the chunks, always in the same order. The last block of a (row, head) to
 * finish merges its chunks, which saves a launch; which block that is does not change the result.
 *
 * Expected from the above: close to the memory's bandwidth from some 16 rows x 20 heads on; below
 * 132 blocks (one row of cross-attention with 20 heads has 120) less than that, in proportion. Not
 * yet run on a GPU, so not yet measured. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int HEAD = BACKEND_HEAD_SIZE;
constexpr int CHUNK = K_ATTENTION_CHUNK;
constexpr int WARPS = 4;
constexpr int DEEP = 4;                       /* accesses to keys, and to values, under way */
constexpr int PARTIAL = HEAD + 2;             /* floats of a chunk's result: sums, high, total */
constexpr float NO_SCORE = -3e38f;            /* of a key that is not there: finite, so that two of
                                                 them may be subtracted */
constexpr float SCALE = 0.18033688011112042f; /* log2(e) / 8: weights are powers of two */

/* What one or more keys together contribute: out = sum / total, weights relative to 2^high. */
template <int DIMS> struct part {
    float high, total, sum[DIMS];
};

template <int DIMS> __device__ inline void merge(part<DIMS> &a, const part<DIMS> &b)
{
    float high = fmaxf(a.high, b.high);
    float fa = exp2f(a.high - high), fb = exp2f(b.high - high);

    a.high = high;
    a.total = a.total * fa + b.total * fb;
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        a.sum[d] = a.sum[d] * fa + b.sum[d] * fb;
}

/* The same part of the lane whose number differs by `lanes`. */
template <int DIMS> __device__ inline part<DIMS> other(const part<DIMS> &a, int lanes)
{
    part<DIMS> b;

    b.high = __shfl_xor_sync(ALL_LANES, a.high, lanes);
    b.total = __shfl_xor_sync(ALL_LANES, a.total, lanes);
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        b.sum[d] = __shfl_xor_sync(ALL_LANES, a.sum[d], lanes);
    return b;
}

/* 16 bytes of a cache, asked for where this stands. The compiler moves an ordinary load, and one of
 * read-only memory, down to its first use: values would be asked for when the keys were waited for.
 * Each is read once, so that nothing is lost by going past the first-level cache. */
template <class T, int N> __device__ inline void load_here(pack<T, N> *to, const T *at)
{
    static_assert(sizeof(*to) == sizeof(uint4), "one access");
#ifdef NIGHTSHIFT_EMULATED
    *to = *reinterpret_cast<const pack<T, N> *>(at);
#else
    uint4 *u = reinterpret_cast<uint4 *>(to);

    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(u->x), "=r"(u->y), "=r"(u->z), "=r"(u->w)
                 : "l"(at));
#endif
}

/* DEEP keys and values of this lane's group: scores by its LANES lanes together, then the weights'
 * sums. A key that is not there was read all the same: as the last one. */
template <class T, int DIMS, int LANES>
__device__ inline void attend(part<DIMS> &a, const float *q, const pack<T, DIMS> *keys,
                              const pack<T, DIMS> *values, const bool *there)
{
    float score[DEEP], high = a.high, factor;

#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        score[i] = 0.0f;
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            score[i] += q[d] * to_f32(keys[i].v[d]);
    }
#pragma unroll
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2) {
#pragma unroll
        for (int i = 0; i < DEEP; i++)
            score[i] += __shfl_xor_sync(ALL_LANES, score[i], lanes);
    }
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        score[i] = there[i] ? score[i] : NO_SCORE;
        high = fmaxf(high, score[i]);
    }
    factor = exp2f(a.high - high);
    a.high = high;
    a.total *= factor;
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        a.sum[d] *= factor;
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        float weight = there[i] ? exp2f(score[i] - high) : 0.0f;

        a.total += weight;
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            a.sum[d] += weight * to_f32(values[i].v[d]);
    }
}

/* Merges the chunks of a (row, head) in their order. Threads 0 .. 63, one dimension each. The other
 * blocks' results are read past the first-level cache, which need not know of them. */
template <class T> __device__ inline T merge_chunks(const float *partials, int chunks)
{
    part<1> a = {NO_SCORE, 0.0f, {0.0f}};

    for (int c = 0; c < chunks; c++) {
        const float *p = partials + (size_t)c * PARTIAL;
        part<1> b = {__ldcg(p + HEAD), __ldcg(p + HEAD + 1), {__ldcg(p + threadIdx.x)}};

        merge(a, b);
    }
    return number<T>::from(a.sum[0] / a.total);
}

/* Whether this block is the last of `blocks` to come here; what the others wrote before is then
 * visible. The counter is zero again afterwards. */
__device__ inline bool is_last(int32_t *counter, int blocks)
{
    __shared__ int last;

    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(counter, 1) == blocks - 1;
        if (last)
            *counter = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}

template <class T>
__global__ __launch_bounds__(32 * WARPS, 6) void attend_rows(struct tensor q, struct kv kv,
                                                             const struct token_row *rows,
                                                             uint32_t fixed, struct tensor out,
                                                             int32_t *counters, float *partials)
{
    constexpr int DIMS = 16 / sizeof(T), LANES = HEAD / DIMS, KEYS = 32 / LANES;
    constexpr int STEP = WARPS * KEYS; /* keys that the block reads by one access */
    __shared__ float sums[WARPS][HEAD], highs[WARPS], totals[WARPS];
    const int chunk = (int)blockIdx.x, head = (int)blockIdx.y, row = (int)blockIdx.z;
    const struct token_row who = rows[row];
    if (who.slot < 0) /* nobody's row: all its blocks, before its numbers mean anything */
        return;
    const int keys = fixed ? (int)fixed : who.pos + 1, chunks = (keys + CHUNK - 1) / CHUNK;
    const int to = min(keys, (chunk + 1) * CHUNK);
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;

    if (chunk >= chunks) /* the whole block */
        return;
    const int slot = fixed ? who.cross : who.slot;
    const T *base = reinterpret_cast<const T *>(static_cast<const char *>(kv.data) +
                                                (size_t)slot * kv.slot_stride) +
                    2 * (size_t)head * kv.capacity * HEAD + lane % LANES * DIMS;
    const size_t values_at = (size_t)kv.capacity * HEAD;
    float query[DIMS];
    part<DIMS> a = {NO_SCORE, 0.0f, {}};

#pragma unroll
    for (int d = 0; d < DIMS; d++)
        query[d] = to_f32(row_of<T>(q, row)[head * HEAD + lane % LANES * DIMS + d]) * SCALE;
    for (int key = chunk * CHUNK + warp * KEYS + lane / LANES, first = chunk * CHUNK; first < to;
         first += STEP * DEEP, key += STEP * DEEP) {
        pack<T, DIMS> k[DEEP], v[DEEP];
        bool there[DEEP];

#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            const T *at = base + (size_t)min(key + i * STEP, to - 1) * HEAD;

            there[i] = key + i * STEP < to;
            load_here(&k[i], at);
            load_here(&v[i], at + values_at);
        }
        attend<T, DIMS, LANES>(a, query, k, v, there);
    }
#pragma unroll
    for (int lanes = LANES; lanes < 32; lanes *= 2)
        merge(a, other(a, lanes));
    if (lane < LANES) {
        if (lane == 0) {
            highs[warp] = a.high;
            totals[warp] = a.total;
        }
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            sums[warp][lane * DIMS + d] = a.sum[d];
    }
    __syncthreads();

    const size_t pair = (size_t)row * gridDim.y + head;
    float *mine = partials + pair * gridDim.x * PARTIAL;
    const int dim = (int)threadIdx.x;

    if (dim < HEAD) {
        part<1> b = {highs[0], totals[0], {sums[0][dim]}};

#pragma unroll
        for (int w = 1; w < WARPS; w++) {
            part<1> c = {highs[w], totals[w], {sums[w][dim]}};

            merge(b, c);
        }
        if (chunks == 1) {
            row_of<T>(out, row)[head * HEAD + dim] = number<T>::from(b.sum[0] / b.total);
        } else {
            float *p = mine + (size_t)chunk * PARTIAL;

            p[dim] = b.sum[0];
            if (dim == 0) {
                p[HEAD] = b.high;
                p[HEAD + 1] = b.total;
            }
        }
    }
    if (chunks > 1 && is_last(counters + pair, chunks) && dim < HEAD)
        row_of<T>(out, row)[head * HEAD + dim] = merge_chunks<T>(mine, chunks);
}

} // namespace

int k_attention_rows(cudaStream_t s, struct tensor q, struct kv kv, const struct token_row *rows,
                     uint32_t keys, struct tensor out, int32_t *counters, float *partials)
{
    dim3 grid((kv.capacity + CHUNK - 1) / CHUNK, kv.heads, (unsigned)q.rows);

    if (is_empty(q))
        return 0;
    if (q.rows > 65535)
        return (int)cudaErrorInvalidValue;
    return by_type(kv.type, [&](auto a) {
        auto kernel = attend_rows<decltype(a)>;

        LAUNCH(kernel, grid, dim3(32 * WARPS), 0, s)
        (q, kv, rows, keys, out, counters, partials);
        return launched();
    });
}
