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
 * Of 8 bits (windows' keys and values alone) a chunk is 32 KiB: the block asks for all of it at
 * once, past the registers, into shared memory, of which a multiprocessor has room for six such
 * blocks. Where there are many rows a block has three chunks, and asks for each half of the next
 * one as soon as it has read that half of the present one. (One chunk a block moved 2.36 TB/s on an
 * H100 that reads 2.9: a block lived for 10.6 us, and had bytes under way in two of them, for it
 * waited for its rows before and for a fence and a counter behind. Three chunks have not yet run on
 * a GPU.) Then the rows that look at this window (hypotheses, a prompt, a text that is aligned: up
 * to K_ATTENTION_TOGETHER that stand beside each other) go over it one after the other, each as if
 * it were alone, so that its bits do not depend on the others; nor do they on how many chunks a
 * block has, for each is finished by itself. A byte becomes a float by one permutation and one
 * subtraction; the conversions that the machine has are four times slower on sm_80. The dimensions'
 * scales are multiplied into the query before and into the sum behind.
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
constexpr int DEEP = 4;           /* accesses to keys, and to values, under way */
constexpr int PARTIAL = HEAD + 2; /* floats of a chunk's result: sums, high, total */
constexpr int TOGETHER = K_ATTENTION_TOGETHER;
constexpr int EIGHT_EACH = 3;                 /* chunks of a block: half a window's six */
constexpr int EIGHT_BLOCKS = 3200;            /* four turns of 132 multiprocessors that hold six */
constexpr float NO_SCORE = -3e38f;            /* of a key that is not there: finite, so that two of
                                                 them may be subtracted */
constexpr float SCALE = 0.18033688011112042f; /* log2(e) / 8: weights are powers of two */

typedef pack<uint32_t, 4> sixteen; /* bytes */

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

template <class T, int N> __device__ inline void to_floats(const pack<T, N> &from, float *ret)
{
#pragma unroll
    for (int d = 0; d < N; d++)
        ret[d] = to_f32(from.v[d]);
}

/* Of 8 bits: 2^23 + 128 + x has x + 128 as its last byte. */
__device__ inline void to_floats(const sixteen &from, float *ret)
{
#pragma unroll
    for (int d = 0; d < 16; d++)
        ret[d] = __uint_as_float(
                     __byte_perm(from.v[d / 4] ^ 0x80808080u, 0x4b000000u, 0x7550u + d % 4)) -
                 8388736.0f;
}

/* DEEP keys and values of this lane's group: scores by its LANES lanes together, then the weights'
 * sums. A key that is not there was read all the same: as the last one. */
template <int LANES, int DIMS, class P>
__device__ inline void attend(part<DIMS> &a, const float *q, const P *keys, const P *values,
                              const bool *there)
{
    float score[DEEP], high = a.high, factor, x[DIMS];

#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        score[i] = 0.0f;
        to_floats(keys[i], x);
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            score[i] += q[d] * x[d];
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
        to_floats(values[i], x);
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            a.sum[d] += weight * x[d];
    }
}

/* 16 bytes into shared memory, in the background where the machine can. */
__device__ inline void copy_ahead(void *shared, const void *from)
{
#if defined(NIGHTSHIFT_EMULATED) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800)
    *static_cast<sixteen *>(shared) = *static_cast<const sixteen *>(from);
#else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(shared)),
                 "l"(from)
                 : "memory");
#endif
}

/* What this thread has copied since the last time is one group more. */
__device__ inline void end_group(void)
{
#if !defined(NIGHTSHIFT_EMULATED) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Until this thread's groups are there, all but the last. */
__device__ inline void wait_for_groups(void)
{
#if !defined(NIGHTSHIFT_EMULATED) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
    asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

/* Merges the chunks of a (row, head) in their order. Threads 0 .. 63, one dimension each. The other
 * blocks' results are read past the first-level cache, which need not know of them. */
__device__ inline float merge_chunks(const float *partials, int chunks)
{
    part<1> a = {NO_SCORE, 0.0f, {0.0f}};

    for (int c = 0; c < chunks; c++) {
        const float *p = partials + (size_t)c * PARTIAL;
        part<1> b = {__ldcg(p + HEAD), __ldcg(p + HEAD + 1), {__ldcg(p + threadIdx.x)}};

        merge(a, b);
    }
    return a.sum[0] / a.total;
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

/* What a block's warps found of one row and head. */
struct shares {
    float sum[WARPS][HEAD], high[WARPS], total[WARPS];
};

/* The end of a chunk of one row and head, for all of the block: over the warp's groups of LANES
 * lanes, and the warps. To `partials`, the row's and head's, or to `out` where there is but one
 * chunk. scales: [64] of the values, or NULL. */
template <class T, int LANES, int DIMS>
__device__ inline void finish_chunk(part<DIMS> a, struct shares &shared, int chunk, int chunks,
                                    T *out, const float *scales, float *partials)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, dim = (int)threadIdx.x;

#pragma unroll
    for (int lanes = LANES; lanes < 32; lanes *= 2)
        merge(a, other(a, lanes));
    if (lane < LANES) {
        if (lane == 0) {
            shared.high[warp] = a.high;
            shared.total[warp] = a.total;
        }
#pragma unroll
        for (int d = 0; d < DIMS; d++)
            shared.sum[warp][lane * DIMS + d] = a.sum[d];
    }
    __syncthreads();
    if (dim < HEAD) {
        part<1> b = {shared.high[0], shared.total[0], {shared.sum[0][dim]}};

#pragma unroll
        for (int w = 1; w < WARPS; w++) {
            part<1> c = {shared.high[w], shared.total[w], {shared.sum[w][dim]}};

            merge(b, c);
        }
        if (chunks == 1) {
            out[dim] = number<T>::from(b.sum[0] / b.total * (scales ? scales[dim] : 1.0f));
        } else {
            float *p = partials + (size_t)chunk * PARTIAL;

            p[dim] = b.sum[0];
            if (dim == 0) {
                p[HEAD] = b.high;
                p[HEAD + 1] = b.total;
            }
        }
    }
}

/* The end of a row and head, by the last of the blocks that have its chunks. */
template <class T>
__device__ inline void finish_row(int blocks, int chunks, T *out, const float *scales,
                                  int32_t *counter, const float *partials)
{
    const int dim = (int)threadIdx.x;

    if (chunks > 1 && is_last(counter, blocks) && dim < HEAD)
        out[dim] = number<T>::from(merge_chunks(partials, chunks) * (scales ? scales[dim] : 1.0f));
}

template <class T>
__global__ __launch_bounds__(32 * WARPS, 6) void attend_rows(struct tensor q, struct kv kv,
                                                             const struct token_row *rows,
                                                             uint32_t fixed, struct tensor out,
                                                             int32_t *counters, float *partials)
{
    constexpr int DIMS = 16 / sizeof(T), LANES = HEAD / DIMS, KEYS = 32 / LANES;
    constexpr int STEP = WARPS * KEYS; /* keys that the block reads by one access */
    __shared__ struct shares shared;
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
        attend<LANES>(a, query, k, v, there);
    }
    const size_t pair = (size_t)row * gridDim.y + head;
    T *to_out = row_of<T>(out, row) + head * HEAD;
    float *mine = partials + pair * gridDim.x * PARTIAL;

    finish_chunk<T, LANES>(a, shared, chunk, chunks, to_out, NULL, mine);
    finish_row(chunks, chunks, to_out, NULL, counters + pair, mine);
}

/* A chunk's keys and values of 8 bits in shared memory, in two tiles of as many keys as the block
 * attends to in one step. A thread copies what it will read, and nothing else, so that it waits for
 * nobody but itself. */
struct eights {
    static constexpr int DIMS = 16, LANES = HEAD / DIMS, KEYS = 32 / LANES, STEP = WARPS * KEYS;
    static constexpr int PACKS = HEAD / DIMS; /* of a key */
    static constexpr int TILE = STEP * DEEP, TILES = CHUNK / TILE;
    sixteen keys[CHUNK * PACKS], values[CHUNK * PACKS];

    /* The thread's i-th key of a tile, and where its part of one lies. */
    static __device__ inline int key(int tile, int i)
    {
        const int thread = (int)threadIdx.x;

        return tile * TILE + i * STEP + thread / 32 * KEYS + thread % 32 / LANES;
    }
    static __device__ inline int place(int key) { return key * PACKS + (int)threadIdx.x % LANES; }
    /* Asks for a tile of a chunk of n keys, `half` bytes from keys to values. A key that is not
     * there is read all the same: as the last one. */
    __device__ inline void ask(const sixteen *far, size_t half, int tile, int n)
    {
        if (tile * TILE >= n)
            return;
#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            const int here = key(tile, i);
            const sixteen *at = far + place(min(here, n - 1));

            copy_ahead(&keys[place(here)], at);
            copy_ahead(&values[place(here)], at + half / sizeof(sixteen));
        }
    }
};
static_assert(eights::TILES == 2, "wait_for_groups leaves one under way");

/* Of 8 bits, the first `keys` keys of slots rows[].cross; `each` chunks of them are a block's, one
 * after the other, so that each tile of the next chunk is on its way while the present one is
 * attended to. The first row of those beside it that look at the same slot has the blocks that
 * serve them all. most: chunks of the cache, for which partials have room. */
template <class T>
__global__ __launch_bounds__(32 * WARPS, 6) void attend_eight(struct tensor q, struct kv kv,
                                                              const struct token_row *rows,
                                                              int keys, int each, int most,
                                                              struct tensor out, int32_t *counters,
                                                              float *partials)
{
    constexpr int DIMS = eights::DIMS, LANES = eights::LANES, TILES = eights::TILES;
    __shared__ struct eights near;
    __shared__ struct shares shared;
    const int block = (int)blockIdx.x, head = (int)blockIdx.y, row = (int)blockIdx.z;
    const int lane = (int)threadIdx.x % 32;
    const int first = row / TOGETHER * TOGETHER, beside = first + lane % TOGETHER;
    const int chunks = (keys + CHUNK - 1) / CHUNK, blocks = (chunks + each - 1) / each;
    const struct token_row who = rows[row];
    const bool same = beside < (int)q.rows && rows[min(beside, (int)q.rows - 1)].slot >= 0 &&
                      rows[min(beside, (int)q.rows - 1)].cross == who.cross;
    const uint32_t served = __ballot_sync(ALL_LANES, same) & ((1u << TOGETHER) - 1u);

    if (who.slot < 0 || block >= blocks || (served & ((1u << (row - first)) - 1u)) != 0)
        return; /* the whole block: nobody's row, no such keys, or an earlier row serves this one */
    const char *pair = static_cast<const char *>(kv.data) + (size_t)who.cross * kv.slot_stride +
                       (size_t)head * head_bytes<int8_t>(kv.capacity);
    const size_t half = (size_t)kv.capacity * HEAD; /* bytes */
    const sixteen *far = reinterpret_cast<const sixteen *>(pair);
    const float *scales = reinterpret_cast<const float *>(pair + 2 * half);
    const int from = block * each, to = min(from + each, chunks);
    const auto ask = [&](int chunk, int tile) {
        if (chunk < to)
            near.ask(far + (size_t)chunk * CHUNK * eights::PACKS, half, tile,
                     min(CHUNK, keys - chunk * CHUNK));
        end_group(); /* of nothing, too: every step begins one */
    };

#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        ask(from, tile);
    for (int chunk = from; chunk < to; chunk++) {
        const int n = min(CHUNK, keys - chunk * CHUNK);
        uint32_t left = served;

        for (int r = first; left != 0; r++, left >>= 1) {
            if ((left & 1u) == 0)
                continue;
            const T *query_at = row_of<T>(q, r) + head * HEAD + lane % LANES * DIMS;
            part<DIMS> a = {NO_SCORE, 0.0f, {}};
            float query[DIMS];

#pragma unroll
            for (int d = 0; d < DIMS; d++)
                query[d] = to_f32(query_at[d]) * SCALE * scales[lane % LANES * DIMS + d];
            for (int tile = 0; tile < TILES; tile++) {
                wait_for_groups();
                if (tile * eights::TILE < n) {
                    sixteen k[DEEP], v[DEEP];
                    bool there[DEEP];

#pragma unroll
                    for (int i = 0; i < DEEP; i++) {
                        const int key = eights::key(tile, i), place = eights::place(key);

                        there[i] = key < n;
                        k[i] = near.keys[place];
                        v[i] = near.values[place];
                    }
                    attend<LANES>(a, query, k, v, there);
                }
                /* The last row has read it. */
                ask(left == 1 ? chunk + 1 : to, tile);
            }
            const size_t at = (size_t)r * gridDim.y + head;

            finish_chunk<T, LANES>(a, shared, chunk, chunks, row_of<T>(out, r) + head * HEAD,
                                   scales + HEAD, partials + at * most * PARTIAL);
            __syncthreads(); /* the shares are read before the next ones are there */
        }
    }
    for (int r = first; r < first + TOGETHER; r++) {
        const size_t at = (size_t)r * gridDim.y + head;

        if (served >> (r - first) & 1u)
            finish_row(blocks, chunks, row_of<T>(out, r) + head * HEAD, scales + HEAD,
                       counters + at, partials + at * most * PARTIAL);
    }
}

/* How many chunks a block has: several only where there are blocks enough for several turns of all
 * the multiprocessors that there are. No result depends on it. */
int chunks_each(int64_t rows, uint32_t heads, unsigned chunks)
{
    return rows * heads * chunks >= EIGHT_BLOCKS * EIGHT_EACH ? EIGHT_EACH : 1;
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
    if (kv.type == DTYPE_I8)
        return keys == 0 ? (int)cudaErrorInvalidValue : by_type(q.type, [&](auto a) {
            auto kernel = attend_eight<decltype(a)>;
            const unsigned chunks = (keys + CHUNK - 1) / CHUNK;
            const int each = chunks_each(q.rows, kv.heads, chunks), most = (int)grid.x;
            const dim3 fewer((chunks + each - 1) / each, grid.y, grid.z);

            LAUNCH(kernel, fewer, dim3(32 * WARPS), 0, s)
            (q, kv, rows, (int)keys, each, most, out, counters, partials);
            return launched();
        });
    return by_type(kv.type, [&](auto a) {
        auto kernel = attend_rows<decltype(a)>;

        LAUNCH(kernel, grid, dim3(32 * WARPS), 0, s)
        (q, kv, rows, keys, out, counters, partials);
        return launched();
    });
}
