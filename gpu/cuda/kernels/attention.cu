/* softmax(q k^T / 8) v for single queries over cached keys: the decoder's attention.
 *
 *     q    [rows][heads * 64]
 *     kv   for each slot and head: keys [capacity][64], values [capacity][64]
 *     out  [rows][heads * 64]
 *
 * Every key and value is used once, so this is as fast as memory: at 16 bits a row and head of
 * cross-attention reads 384,000 bytes for 400,000 floating-point operations. A block of four warps
 * takes a (row, head) of a window's keys as a stream: each thread asks for its own next 128 bytes,
 * past the registers, into a place in shared memory that nobody else reads, while it computes with
 * the ones before; so no barrier stands in the way of memory but at the end of each chunk of 256
 * keys. The six blocks of a multiprocessor have 96 to 192 KiB under way; an H200 (4.3
 * TB/s, about 0.8 us) needs 26 KiB of each of its 132 to keep its memory busy. A lane reads 16
 * bytes at once: 8 of a key's 64 dimensions at 16 bits, so that 8 lanes hold a key. Each group of
 * lanes goes by an online softmax of its own, four keys at a time; at a chunk's end they are
 * merged, over the warp's groups, the warps, and with the chunks before, always in the same order.
 *
 * If several rows look at one window of 8 bits (hypotheses, a prompt, a text that is aligned: up to
 * K_ATTENTION_TOGETHER that stand beside each other), one copy of a chunk in shared memory serves
 * all of them. They go over it one after the other, each as if it were alone, so that its bits do
 * not depend on the others. A byte becomes a float by one permutation and one subtraction; the
 * conversions that the machine has are four times slower on sm_80. The dimensions' scales are
 * multiplied into the query before and into the sum behind.
 *
 * A row's own keys, of the text so far, are few: a block for each head would wait for memory once
 * and be done (52 keys, 512 rows x 20 heads: 47 us on an H200 where 136 MB want 30). So a warp has
 * a head there, in rounds of 16 keys, and its block three others, which do not wait for each other.
 * The 28 rounds of a single text of 448 keys were not timed.
 *
 * If hypotheses share keys (struct kv, lies_in), a thread looks up the slot of each key that it
 * asks for: two bytes beside 2 x 16 of a lane, in the same line for a round's keys. That is a
 * kernel of its own.
 *
 * Measured on an H200, 256 rows x 20 heads x 1500 keys of 8 bits, which are 983 MB: 238 us, 4.1
 * TB/s, where a kernel that only reads takes 217; a block for each chunk, which waited for all of
 * it and left its part to the last one, took 384. With 16 bits it was not timed. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int HEAD = BACKEND_HEAD_SIZE;
constexpr int CHUNK = K_ATTENTION_CHUNK;
constexpr int WARPS = 4;
constexpr int DEEP = 4; /* accesses to keys, and to values, under way */
constexpr int TOGETHER = K_ATTENTION_TOGETHER;
constexpr float NO_SCORE = -3e38f;            /* of a key that is not there: finite, so that two of
                                                 them may be subtracted */
constexpr float SCALE = 0.18033688011112042f; /* log2(e) / 8: weights are powers of two */

typedef pack<uint32_t, 4> sixteen; /* bytes */

/* The contribution of one or more keys: out = sum / total, weights relative to 2^high. */
template <int DIMS> struct part {
    float high, total, sum[DIMS];
};

template <int DIMS> __device__ inline void merge(part<DIMS> &a, const part<DIMS> &b)
{
    float high = fmaxf(a.high, b.high);
    float fa = exp2f(a.high - high), fb = exp2f(b.high - high);

    a.high = high;
    /* Named, so that every copy of this rounds alike. */
    a.total = fmaf(a.total, fa, __fmul_rn(b.total, fb));
#pragma unroll
    for (int d = 0; d < DIMS; d++)
        a.sum[d] = fmaf(a.sum[d], fa, __fmul_rn(b.sum[d], fb));
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

template <class T, int N> __device__ inline void to_floats(const pack<T, N> &from, float *ret)
{
#pragma unroll
    for (int d = 0; d < N; d++)
        ret[d] = to_f32(from.v[d]);
}

/* Converts 8 bits: 2^23 + 128 + x has x + 128 as its last byte. */
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

/* The copies since the last call are a group. */
__device__ inline void end_copies(void)
{
#if !defined(NIGHTSHIFT_EMULATED) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Until all of this thread's groups but the last N are there. */
template <int N> __device__ inline void wait_for_copies(void)
{
#if !defined(NIGHTSHIFT_EMULATED) && (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800)
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#endif
}

/* The contributions that a block's warps computed for one row and head. */
struct shares {
    float sum[WARPS][HEAD], high[WARPS], total[WARPS];
};

/* The contribution of all of the block's keys to dimension threadIdx.x < 64: over the warp's groups
 * of LANES lanes, then the warps. All threads call it; the shares are free again after a
 * barrier. */
template <int LANES, int DIMS>
__device__ inline part<1> over_block(part<DIMS> a, struct shares &shared)
{
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, dim = (int)threadIdx.x;
    part<1> b = {NO_SCORE, 0.0f, {0.0f}};

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
    if (dim >= HEAD)
        return b;
    b = {shared.high[0], shared.total[0], {shared.sum[0][dim]}};
#pragma unroll
    for (int w = 1; w < WARPS; w++) {
        part<1> c = {shared.high[w], shared.total[w], {shared.sum[w][dim]}};

        merge(b, c);
    }
    return b;
}

/* How a block's lanes divide keys of type C. */
template <class C> struct lanes_of {
    static constexpr int dims = 16 / (int)sizeof(C), each = HEAD / dims; /* lanes of a key */
    static constexpr int step = WARPS * 32 / each;                       /* keys of an access */
    static constexpr int round = step * DEEP; /* that the threads go by together */
    typedef pack<C, dims> access;
    static_assert(sizeof(access) == sizeof(sixteen) && CHUNK % round == 0, "rounds of a chunk");
};
template <> struct lanes_of<int8_t> {
    static constexpr int dims = 16, each = HEAD / dims, step = WARPS * 32 / each;
    static constexpr int round = step * DEEP;
    typedef sixteen access;
    static_assert(CHUNK % round == 0, "rounds of a chunk");
};

constexpr int STAGES = 2;                 /* rounds that a thread has asked for at most */
constexpr int THREADS = 32 * WARPS;       /* of a block */
constexpr int ASKED = 2 * DEEP * THREADS; /* accesses of a round: keys and values */

/* A (slot, head)'s keys, its values `half` bytes behind, and for 8 bits the scales of both. If keys
 * lie in several slots, these are slot 0's. */
struct cached {
    const char *data;
    size_t half;
    const float *scales; /* [2][64] */
    int keys;
    const uint16_t *lies_in; /* [keys]: the slot of each; NULL: all in this one */
    size_t slot_stride;
};

/* Shared memory of a block: rounds of a stream, or a chunk of 8 bits. */
struct near_shared {
    sixteen near[STAGES * ASKED];
    struct shares shares;
};
static_assert(sizeof(((struct near_shared *)0)->near) == 2 * CHUNK * HEAD, "room for both");

/* The contributions of earlier chunks to rows that share a block. */
struct found {
    float sum[TOGETHER][HEAD], high[TOGETHER], total[TOGETHER];
};

template <class C>
__device__ inline struct cached cached_of(const struct kv &kv, int slot, int head, int keys)
{
    const size_t half = (size_t)kv.capacity * HEAD * sizeof(C);
    const char *data = static_cast<const char *>(kv.data) + (size_t)slot * kv.slot_stride +
                       (size_t)head * head_bytes<C>(kv.capacity);

    return {data, half, sizeof(C) == 1 ? reinterpret_cast<const float *>(data + 2 * half) : NULL,
            keys, NULL, kv.slot_stride};
}

/* The dimensions of this lane. */
template <class C, class T>
__device__ inline void load_query(const struct cached &e, const T *from, float *ret)
{
    const int first = (int)threadIdx.x % lanes_of<C>::each * lanes_of<C>::dims;

#pragma unroll
    for (int d = 0; d < lanes_of<C>::dims; d++) {
        ret[d] = to_f32(from[first + d]) * SCALE;
        if (sizeof(C) == 1)
            ret[d] *= e.scales[first + d];
    }
}

template <class C, class T>
__device__ inline void put_result(const struct cached &e, const part<1> &a, T *to)
{
    const int dim = (int)threadIdx.x;

    if (dim < HEAD)
        to[dim] = number<T>::from(sizeof(C) == 1 ? a.sum[0] / a.total * e.scales[HEAD + dim]
                                                 : a.sum[0] / a.total);
}

/* Which of a round's keys access i of this thread is for, of as many warps as have them. */
template <class C, int ACROSS> __device__ inline int key_of(int round, int i)
{
    constexpr int each = lanes_of<C>::each, step = ACROSS * 32 / each;

    return (round * DEEP + i) * step + (int)threadIdx.x % (ACROSS * 32) / each;
}

/* This thread's keys and values of a round, into its own places. Behind the last key it asks for
 * the first, which no sum takes. SHARED: each lies where e.lies_in says. */
template <class C, bool SHARED, int ACROSS>
__device__ inline void ask_round(const struct cached &e, sixteen *near, int round)
{
    constexpr int each = lanes_of<C>::each;
    const int thread = (int)threadIdx.x;
    const char *data = e.data + thread % each * sizeof(sixteen);
    sixteen *to = near + round % STAGES * ASKED + thread;

#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        const int key = key_of<C, ACROSS>(round, i);
        const int there = key < e.keys ? key : 0;
        const char *at = data + (size_t)there * HEAD * sizeof(C);

        if (SHARED)
            at += e.lies_in[there] * e.slot_stride;
        copy_ahead(to + 2 * i * THREADS, at);
        copy_ahead(to + (2 * i + 1) * THREADS, at + e.half);
    }
}

/* The stream's next round of ACROSS warps for their row and head, into a: the one behind it is
 * asked for, and this one computed. The first was asked for. */
template <class C, bool SHARED, int ACROSS>
__device__ inline void attend_round(const struct cached &e, sixteen *near, const float *query,
                                    int round, int rounds, part<lanes_of<C>::dims> &a)
{
    typedef typename lanes_of<C>::access access;
    const access *own =
        reinterpret_cast<const access *>(near + round % STAGES * ASKED + threadIdx.x);
    access k[DEEP], v[DEEP];
    bool there[DEEP];

    if (round + 1 < rounds)
        ask_round<C, SHARED, ACROSS>(e, near, round + 1);
    end_copies(); /* an empty group where nothing was asked for: one for each round */
    wait_for_copies<STAGES - 1>();
#pragma unroll
    for (int i = 0; i < DEEP; i++) {
        there[i] = key_of<C, ACROSS>(round, i) < e.keys;
        k[i] = own[2 * i * THREADS];
        v[i] = own[(2 * i + 1) * THREADS];
    }
    attend<lanes_of<C>::each>(a, query, k, v, there);
}

/* Few keys of 16 bits or more: by one warp, which waits for no other. */
template <class C, bool SHARED, class T>
__device__ inline void attend_few(const struct cached &e, sixteen *near, const T *from, T *to)
{
    typedef lanes_of<C> by;
    constexpr int round_keys = DEEP * 32 / by::each;
    const int rounds = (e.keys + round_keys - 1) / round_keys, lane = (int)threadIdx.x % 32;
    part<by::dims> a = {NO_SCORE, 0.0f, {}};
    float query[by::dims];

    ask_round<C, SHARED, 1>(e, near, 0);
    end_copies();
    load_query<C>(e, from, query);
    for (int round = 0; round < rounds; round++)
        attend_round<C, SHARED, 1>(e, near, query, round, rounds, a);
#pragma unroll
    for (int lanes = by::each; lanes < 32; lanes *= 2)
        merge(a, other(a, lanes));
    if (lane < by::each) {
#pragma unroll
        for (int d = 0; d < by::dims; d++)
            to[lane * by::dims + d] = number<T>::from(a.sum[d] / a.total);
    }
}

/* One row, with no other. */
template <class C, class T>
__device__ inline void attend_alone(const struct cached &e, struct near_shared &shared,
                                    const T *from, T *to)
{
    typedef lanes_of<C> by;
    const int rounds = (e.keys + by::round - 1) / by::round;
    part<by::dims> a = {NO_SCORE, 0.0f, {}};
    part<1> all = {NO_SCORE, 0.0f, {0.0f}};
    float query[by::dims];

    ask_round<C, false, WARPS>(e, shared.near, 0);
    end_copies();
    load_query<C>(e, from, query);
    for (int round = 0; round < rounds; round++) {
        attend_round<C, false, WARPS>(e, shared.near, query, round, rounds, a);
        if ((round + 1) * by::round % CHUNK == 0 || round == rounds - 1) {
            merge(all, over_block<by::each>(a, shared.shares));
            __syncthreads(); /* the shares are read before the next chunk's are there */
            a = {NO_SCORE, 0.0f, {}};
        }
    }
    put_result<C>(e, all, to);
}

/* n keys of a chunk of 8 bits, in shared memory, for one row. */
template <class T>
__device__ inline part<16> attend_near(const struct cached &e, const sixteen *near, int n,
                                       const T *from)
{
    typedef lanes_of<int8_t> by;
    const int own = (int)threadIdx.x / by::each, lane = (int)threadIdx.x % by::each;
    part<by::dims> a = {NO_SCORE, 0.0f, {}};
    float query[by::dims];

    load_query<int8_t>(e, from, query);
    for (int at = 0; at < n; at += by::round) {
        sixteen k[DEEP], v[DEEP];
        bool there[DEEP];

#pragma unroll
        for (int i = 0; i < DEEP; i++) {
            const int key = at + i * by::step + own, seen = min(key, n - 1) * by::each + lane;

            there[i] = key < n;
            k[i] = near[seen];
            v[i] = near[CHUNK * by::each + seen];
        }
        attend<by::each>(a, query, k, v, there);
    }
    return a;
}

/* Rows `first` + the bits of `served`, all of which look at this window of 8 bits. */
template <class T>
__device__ inline void attend_together(const struct cached &e, struct near_shared &shared,
                                       struct found &found, const struct tensor &q,
                                       const struct tensor &out, int first, uint32_t served,
                                       int head)
{
    constexpr int each = lanes_of<int8_t>::each;
    const int thread = (int)threadIdx.x;

    for (int chunk = 0; chunk * CHUNK < e.keys; chunk++) {
        const int n = min(CHUNK, e.keys - chunk * CHUNK);
        const bool last = (chunk + 1) * CHUNK >= e.keys;
        const char *far = e.data + (size_t)chunk * CHUNK * HEAD;

        for (int i = thread; i < n * each; i += THREADS) {
            copy_ahead(&shared.near[i], far + i * sizeof(sixteen));
            copy_ahead(&shared.near[CHUNK * each + i], far + e.half + i * sizeof(sixteen));
        }
        end_copies();
        wait_for_copies<0>();
        __syncthreads();
        for (int r = 0; r < TOGETHER; r++) {
            if ((served >> r & 1u) == 0)
                continue;
            const T *from = row_of<const T>(q, first + r) + head * HEAD;
            const part<1> b = over_block<each>(attend_near(e, shared.near, n, from), shared.shares);
            part<1> all = {NO_SCORE, 0.0f, {0.0f}};

            if (thread < HEAD && chunk > 0)
                all = {found.high[r], found.total[r], {found.sum[r][thread]}};
            merge(all, b);
            if (last)
                put_result<int8_t>(e, all, row_of<T>(out, first + r) + head * HEAD);
            __syncthreads(); /* the shares, and the row's high and total, are read */
            if (thread < HEAD)
                found.sum[r][thread] = all.sum[0];
            if (thread == 0) {
                found.high[r] = all.high;
                found.total[r] = all.total;
            }
        }
    }
}

/* The first `keys` keys of slots rows[].cross. */
template <class T>
__global__ __launch_bounds__(THREADS, 6) void attend_rows(struct tensor q, struct kv kv,
                                                          const struct token_row *rows, int keys,
                                                          struct tensor out)
{
    __shared__ struct near_shared shared;
    const int head = (int)blockIdx.x, row = (int)blockIdx.y;
    const struct token_row who = rows[row];

    if (who.slot < 0) /* nobody's row: all of its block, before its numbers mean anything */
        return;
    attend_alone<T>(cached_of<T>(kv, who.cross, head, keys), shared,
                    row_of<const T>(q, row) + head * HEAD, row_of<T>(out, row) + head * HEAD);
}

/* Attends to as many keys as the row's position says, in its own slot, or, if SHARED, in the slots
 * that kv.lies_in names. A warp has a head, since most texts are short. */
template <class T, bool SHARED>
__global__ __launch_bounds__(THREADS, 6) void attend_own(struct tensor q, struct kv kv,
                                                         const struct token_row *rows,
                                                         struct tensor out)
{
    __shared__ sixteen near[STAGES * ASKED];
    const int head = (int)blockIdx.x * WARPS + (int)threadIdx.x / 32, row = (int)blockIdx.y;
    const struct token_row who = rows[row];

    if (who.slot < 0 || head >= (int)kv.heads) /* a whole warp */
        return;
    struct cached e = cached_of<T>(kv, SHARED ? 0 : who.slot, head, who.pos + 1);

    if (SHARED)
        e.lies_in = kv.lies_in + (size_t)who.slot * kv.capacity;
    attend_few<T, SHARED>(e, near, row_of<const T>(q, row) + head * HEAD,
                          row_of<T>(out, row) + head * HEAD);
}

/* Attends to the first `keys` keys, of 8 bits, of slots rows[].cross. The block of the first of
 * adjacent rows with the same slot serves them all. */
template <class T>
__global__ __launch_bounds__(THREADS, 6) void attend_eight(struct tensor q, struct kv kv,
                                                           const struct token_row *rows, int keys,
                                                           struct tensor out)
{
    __shared__ struct near_shared shared;
    __shared__ struct found found;
    const int head = (int)blockIdx.x, row = (int)blockIdx.y, lane = (int)threadIdx.x % 32;
    const int first = row / TOGETHER * TOGETHER, beside = first + lane % TOGETHER;
    const struct token_row who = rows[row];
    const bool same = beside < (int)q.rows && rows[min(beside, (int)q.rows - 1)].slot >= 0 &&
                      rows[min(beside, (int)q.rows - 1)].cross == who.cross;
    const uint32_t served = __ballot_sync(ALL_LANES, same) & ((1u << TOGETHER) - 1u);
    const uint32_t own = 1u << (row - first);

    if (who.slot < 0 || (served & (own - 1u)) != 0)
        return; /* the whole block: nobody's row, or an earlier row serves this one */
    const struct cached e = cached_of<int8_t>(kv, who.cross, head, keys);

    if (served == own)
        attend_alone<int8_t>(e, shared, row_of<const T>(q, row) + head * HEAD,
                             row_of<T>(out, row) + head * HEAD);
    else
        attend_together<T>(e, shared, found, q, out, first, served, head);
}

} // namespace

int k_attention_rows(cudaStream_t s, struct tensor q, struct kv kv, const struct token_row *rows,
                     uint32_t keys, struct tensor out)
{
    const dim3 grid(kv.heads, (unsigned)q.rows);

    if (is_empty(q))
        return 0;
    if (q.rows > 65535)
        return (int)cudaErrorInvalidValue;
    if (kv.type == DTYPE_I8)
        return keys == 0
                   ? (int)cudaErrorInvalidValue
                   : by_type(
                         q.type,
                         [&](auto a) {
                             auto kernel = attend_eight<decltype(a)>;

                             LAUNCH(kernel, grid, dim3(THREADS), 0, s)(q, kv, rows, (int)keys, out);
                             return launched();
                         });
    return by_type(kv.type, [&](auto a) {
        auto kernel = attend_rows<decltype(a)>;
        auto own = kv.lies_in ? attend_own<decltype(a), true> : attend_own<decltype(a), false>;

        if (keys == 0) {
            LAUNCH(own, dim3((kv.heads + WARPS - 1) / WARPS, grid.y), dim3(THREADS), 0, s)
            (q, kv, rows, out);
        } else {
            LAUNCH(kernel, grid, dim3(THREADS), 0, s)(q, kv, rows, (int)keys, out);
        }
        return launched();
    });
}
