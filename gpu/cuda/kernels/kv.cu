/* Keys and values into their caches: copies that turn [rows][heads * 64] into, for each slot and
 * head, [keys][64]. A lane moves 16 bytes of a key and 16 of a value.
 *
 * To 8 bits: a block for half of the dimensions of a head's keys or values in a window, [n][32],
 * which its 1024 threads hold in registers while each dimension's largest magnitude is sought.
 * Longer windows are read twice, the second time not from a cache: all blocks together have more
 * under way than one holds. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr uint32_t SLOTS = 256; /* of one launch: they travel as an argument */
constexpr int HEAD = BACKEND_HEAD_SIZE;
constexpr int FILL_THREADS = 1024;
constexpr int FILLED = HEAD / 2; /* columns of a block */
constexpr int FILL_HELD = 6;     /* packs of a thread: 1536 keys at 16 bits */

struct slot_list {
    uint32_t slot[SLOTS];
};

/* T: a type of the cache's size. rows NULL: row r is key r % n of slot slots.slot[r / n]. */
template <class T, int N>
__global__ __launch_bounds__(256) void store_keys(struct kv kv, const struct token_row *rows,
                                                  struct slot_list slots, int64_t n,
                                                  struct tensor k, struct tensor v)
{
    int64_t row = tile_row(), packs = k.cols / N, slot, key;

    if (row >= k.rows)
        return;
    if (rows) {
        slot = rows[row].slot;
        key = rows[row].pos;
        if (slot < 0)
            return;
    } else {
        slot = slots.slot[row / n];
        key = row % n;
    }
    const pack<T, N> *from_k = reinterpret_cast<const pack<T, N> *>(row_of<T>(k, row));
    const pack<T, N> *from_v = reinterpret_cast<const pack<T, N> *>(row_of<T>(v, row));
    T *to = reinterpret_cast<T *>(static_cast<char *>(kv.data) + (size_t)slot * kv.slot_stride);

    pack<T, N> one_k[TILE_DEPTH], one_v[TILE_DEPTH];

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) < packs) {
            one_k[i] = from_k[tile_pack(i)];
            one_v[i] = from_v[tile_pack(i)];
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        const int64_t c = tile_pack(i) * N, head = c / HEAD;
        T *keys = to + 2 * head * kv.capacity * HEAD + key * HEAD + c % HEAD;

        if (tile_pack(i) >= packs)
            break;
        *reinterpret_cast<pack<T, N> *>(keys) = one_k[i];
        *reinterpret_cast<pack<T, N> *>(keys + (int64_t)kv.capacity * HEAD) = one_v[i];
    }
}

template <class T, int N>
int store_by(cudaStream_t s, const struct kv &kv, const struct token_row *rows,
             const struct slot_list &slots, int64_t n, const struct tensor &k,
             const struct tensor &v)
{
    auto kernel = store_keys<T, N>;

    LAUNCH(kernel, tile_grid(k.rows, k.cols / N), tile_block(), 0, s)(kv, rows, slots, n, k, v);
    return launched();
}

int store_any(cudaStream_t s, const struct kv &kv, const struct token_row *rows,
              const struct slot_list &slots, int64_t n, const struct tensor &k,
              const struct tensor &v)
{
    return by_type(
        kv.type,
        [&](auto a) {
            using T = decltype(a);
            constexpr int N = width<T, T>::wide;

            if (in_packs(k, N) && in_packs(v, N))
                return store_by<T, N>(s, kv, rows, slots, n, k, v);
            return store_by<T, 1>(s, kv, rows, slots, n, k, v);
        });
}

template <class T, int N> __device__ inline void see(float (&high)[N], const pack<T, N> &x)
{
#pragma unroll
    for (int j = 0; j < N; j++)
        high[j] = fmaxf(high[j], eight<int8_t>::magnitude(to_f32(x.v[j])));
}

template <class T, int N>
__device__ inline pack<int8_t, N> scaled(const pack<T, N> &x, const float (&factor)[N])
{
    pack<int8_t, N> y;

#pragma unroll
    for (int j = 0; j < N; j++)
        y.v[j] = eight<int8_t>::from(to_f32(x.v[j]) * factor[j]); /* NaN: 0 */
    return y;
}

/* blockIdx.x: the head, and which of its columns; y: the window; z: keys or values. */
template <class T, int N, int HELD>
__global__ __launch_bounds__(FILL_THREADS) void fill_eight(struct kv kv, struct slot_list slots,
                                                           int n, struct tensor k, struct tensor v)
{
    constexpr int ACROSS = FILLED / N, ROWS = FILL_THREADS / ACROSS; /* of the block's threads */
    __shared__ float highs[FILL_THREADS / 32][FILLED], factors[FILLED];
    const int thread = (int)threadIdx.x, slice_rows = thread % ACROSS * N, first = thread / ACROSS;
    const int head = (int)blockIdx.x * FILLED / HEAD, side = (int)blockIdx.x * FILLED % HEAD;
    const int64_t column = (int64_t)blockIdx.x * FILLED + slice_rows, row = (int64_t)blockIdx.y * n;
    const int64_t stride = blockIdx.z ? v.stride : k.stride;
    const T *from = (blockIdx.z ? row_of<const T>(v, row) : row_of<const T>(k, row)) + column;
    char *pair = static_cast<char *>(kv.data) + (size_t)slots.slot[blockIdx.y] * kv.slot_stride +
                 head * head_bytes<int8_t>(kv.capacity);
    const size_t half = (size_t)kv.capacity * HEAD; /* bytes */
    int8_t *to = reinterpret_cast<int8_t *>(pair + blockIdx.z * half) + side + slice_rows;
    float high[N] = {}, factor[N];
    pack<T, N> x[HELD > 0 ? HELD : 1] = {};

    if constexpr (HELD > 0) {
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (first + i * ROWS < n)
                x[i] = *reinterpret_cast<const pack<T, N> *>(from + (first + i * ROWS) * stride);
#pragma unroll
        for (int i = 0; i < HELD; i++)
            see(high, x[i]);
    } else {
#pragma unroll 4
        for (int i = first; i < n; i += ROWS) {
            const pack<T, N> one = *reinterpret_cast<const pack<T, N> *>(from + i * stride);

            see(high, one);
        }
    }
#pragma unroll
    for (int j = 0; j < N; j++) {
#pragma unroll
        for (int lanes = ACROSS; lanes < 32; lanes *= 2)
            high[j] = fmaxf(high[j], __shfl_xor_sync(ALL_LANES, high[j], lanes));
        highs[thread / 32][slice_rows + j] = high[j];
    }
    __syncthreads();
    if (thread < FILLED) {
        float most = 0.0f;

#pragma unroll
        for (int i = 0; i < FILL_THREADS / 32; i++)
            most = fmaxf(most, highs[i][thread]);
        reinterpret_cast<float *>(pair + 2 * half)[blockIdx.z * HEAD + side + thread] =
            most <= FLT_MAX ? most / 127.0f : NAN;
        factors[thread] = most >= 1e-36f && most <= FLT_MAX ? 127.0f / most : 0.0f;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < N; j++)
        factor[j] = factors[slice_rows + j];
    if constexpr (HELD > 0) {
#pragma unroll
        for (int i = 0; i < HELD; i++)
            if (first + i * ROWS < n)
                *reinterpret_cast<pack<int8_t, N> *>(to + (size_t)(first + i * ROWS) * HEAD) =
                    scaled(x[i], factor);
    } else {
#pragma unroll 4
        for (int i = first; i < n; i += ROWS) {
            const pack<T, N> one = *reinterpret_cast<const pack<T, N> *>(from + i * stride);

            *reinterpret_cast<pack<int8_t, N> *>(to + (size_t)i * HEAD) = scaled(one, factor);
        }
    }
}

/* slots: of one launch. */
int fill_eight_any(cudaStream_t s, const struct kv &kv, const struct slot_list &slots,
                   uint32_t windows, int64_t n, const struct tensor &k, const struct tensor &v)
{
    return by_type(
        k.type,
        [&](auto a) {
            using T = decltype(a);
            constexpr int N = width<T, T>::wide;
            const bool packs = in_packs(k, N) && in_packs(v, N);
            const bool held = n <= FILL_HELD * FILL_THREADS / (FILLED / N);
            auto kernel = !packs ? fill_eight<T, 1, 0>
                          : held ? fill_eight<T, N, FILL_HELD>
                                 : fill_eight<T, N, 0>;

            LAUNCH(kernel, dim3(kv.heads * (HEAD / FILLED), windows, 2), dim3(FILL_THREADS), 0, s)
            (kv, slots, (int)n, k, v);
            return launched();
        });
}

/* `rows` rows of t from row `from`. */
struct tensor slice_rows(struct tensor t, int64_t from, int64_t rows)
{
    t.data = static_cast<char *>(t.data) + (size_t)(from * t.stride) * dtype_size(t.type);
    t.rows = rows;
    return t;
}

} // namespace

int k_kv_fill(cudaStream_t s, struct kv kv, const uint32_t *slots, uint32_t windows,
              struct tensor k, struct tensor v)
{
    struct slot_list list = {};
    int64_t n;

    if (is_empty(k) || windows == 0)
        return 0;
    n = k.rows / windows;
    for (uint32_t from = 0; from < windows; from += SLOTS) {
        uint32_t some = windows - from < SLOTS ? windows - from : SLOTS;
        int rc;

        for (uint32_t i = 0; i < some; i++)
            list.slot[i] = slots[from + i];
        const struct tensor some_k = slice_rows(k, from * n, some * n),
                            some_v = slice_rows(v, from * n, some * n);

        rc = kv.type == DTYPE_I8 ? fill_eight_any(s, kv, list, some, n, some_k, some_v)
                                 : store_any(s, kv, NULL, list, n, some_k, some_v);
        if (rc != 0)
            return rc;
    }
    return 0;
}

int k_kv_append(cudaStream_t s, struct kv kv, const struct token_row *rows, struct tensor k,
                struct tensor v)
{
    struct slot_list none = {};

    return is_empty(k) ? 0 : store_any(s, kv, rows, none, 1, k, v);
}
