/* Rows moved between layouts, and attention within sequences of different lengths.
 *
 *     out = softmax(scale q k^T + bias) v      for each sequence and head
 *
 * A block takes 32 queries of one sequence and head, four threads for each query, through the keys
 * by tiles of 32 (16 for heads of more than 64) in shared memory: a thread computes every fourth
 * score and owns a quarter of the query's output, in registers, rescaled whenever a tile raises the
 * maximum (online softmax: Milakov and Gimelshein 2018, as flash attention has it). Four values are
 * read from shared memory at once, the same four by all queries of a warp, so its bandwidth is no
 * bound; what is, are float32's multiply-adds, in all types: these models' sequences are short, and
 * their attention a small part of the work. A sequence's result depends on itself alone.
 *
 * Its speed has not yet been measured. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int QUERIES = 32;
constexpr int PARTS = 4; /* threads of a query, neighbours in a warp */
constexpr int THREADS = QUERIES * PARTS;

typedef pack<float, 4> quad;

template <class T, int N>
__global__ __launch_bounds__(256) void gather_rows(struct tensor x, const int32_t *rows,
                                                   struct tensor y)
{
    const int64_t row = tile_row(), packs = y.cols / N;

    if (row >= y.rows)
        return;
    const int64_t from = rows[row];
    const bool there = from >= 0 && from < x.rows;
    const pack<T, N> *in = reinterpret_cast<const pack<T, N> *>(row_of<T>(x, there ? from : 0));
    pack<T, N> *out = reinterpret_cast<pack<T, N> *>(row_of<T>(y, row));

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        pack<T, N> v;

#pragma unroll
        for (int j = 0; j < N; j++)
            v.v[j] = number<T>::from(0.0f);
        if (tile_pack(i) >= packs)
            break;
        if (there)
            v = in[tile_pack(i)];
        out[tile_pack(i)] = v;
    }
}

/* Rows [first, first + count) of a head into shared memory as float32, zeros behind them. */
template <class T, int ROWS, int WIDE, int STRIDE>
__device__ inline void take(float (&to)[ROWS][STRIDE], const struct tensor &t, int64_t first,
                            int64_t count, int64_t column, int head)
{
    for (int i = (int)threadIdx.x; i < ROWS * WIDE; i += THREADS) {
        const int r = i / WIDE, d = i % WIDE;

        to[r][d] = r < count && d < head ? to_f32(row_of<const T>(t, first + r)[column + d]) : 0.0f;
    }
}

template <int WIDE> __device__ inline float dot(const float *a, const float *b)
{
    float sum = 0.0f;

#pragma unroll
    for (int d = 0; d < WIDE / 4; d++) {
        const quad x = reinterpret_cast<const quad *>(a)[d];
        const quad y = reinterpret_cast<const quad *>(b)[d];

#pragma unroll
        for (int j = 0; j < 4; j++)
            sum = fmaf(x.v[j], y.v[j], sum);
    }
    return sum;
}

__device__ inline float max_of_query(float v)
{
    v = fmaxf(v, __shfl_xor_sync(ALL_LANES, v, 1));
    return fmaxf(v, __shfl_xor_sync(ALL_LANES, v, 2));
}

__device__ inline float sum_of_query(float v)
{
    v += __shfl_xor_sync(ALL_LANES, v, 1);
    return v + __shfl_xor_sync(ALL_LANES, v, 2);
}

/* A query's state so far: the highest score, the sum of the weights (relative to it), and the
 * thread's part of the values: quads part, part + 4 ... of the head. */
template <int WIDE> struct sofar {
    float high = -INFINITY, sum = 0.0f;
    quad value[WIDE / 16] = {};

    /* scores: the thread's of one tile, minus infinity for keys that are not there. Leaves weights
     * in them. */
    template <int N> __device__ inline void weigh(float (&scores)[N])
    {
        float top = scores[0], added = 0.0f, shift, factor;

#pragma unroll
        for (int i = 1; i < N; i++)
            top = fmaxf(top, scores[i]);
        top = fmaxf(high, max_of_query(top));
        shift = top == -INFINITY ? 0.0f : top; /* nothing but masked keys yet */
        factor = expf(high - shift);
#pragma unroll
        for (int i = 0; i < N; i++) {
            scores[i] = expf(scores[i] - shift);
            added += scores[i];
        }
        sum = fmaf(sum, factor, sum_of_query(added));
        high = top;
#pragma unroll
        for (int g = 0; g < WIDE / 16; g++) {
#pragma unroll
            for (int j = 0; j < 4; j++)
                value[g].v[j] *= factor;
        }
    }
    __device__ inline void add(float weight, const float *v, int part)
    {
#pragma unroll
        for (int g = 0; g < WIDE / 16; g++) {
            const quad x = reinterpret_cast<const quad *>(v)[g * PARTS + part];

#pragma unroll
            for (int j = 0; j < 4; j++)
                value[g].v[j] = fmaf(weight, x.v[j], value[g].v[j]);
        }
    }
};

/* WIDE: the head's size, rounded up. KEYS: of a tile. */
template <class T, int WIDE, int KEYS>
__global__ __launch_bounds__(THREADS) void attend_spans(struct spans_device s)
{
    /* Four values more in a row: threads of a warp that read different rows meet in no bank. */
    __shared__ __align__(16) float q[QUERIES][WIDE + 4], k[KEYS][WIDE + 4];
    __shared__ __align__(16) float v[KEYS][WIDE], weights[QUERIES][KEYS + 4];
    const int query = (int)threadIdx.x / PARTS, part = (int)threadIdx.x % PARTS;
    const int head = (int)s.head_size;
    const int64_t begin = s.at[blockIdx.x], n = s.at[blockIdx.x + 1] - begin;
    const int64_t from = (int64_t)blockIdx.z * QUERIES, row = from + query;
    const int64_t column = (int64_t)blockIdx.y * head;
    const float *bias = nullptr;
    struct sofar<WIDE> all;

    if (from >= n) /* a whole block */
        return;
    if (s.set)
        bias =
            row_of<const float>(s.tables, ((int64_t)s.set[blockIdx.x] * s.heads + blockIdx.y) * n +
                                              (row < n ? row : n - 1));
    take<T, QUERIES, WIDE>(q, s.q, begin + from, n - from, column, head);
    for (int64_t first = 0; first < n; first += KEYS) {
        float scores[KEYS / PARTS];

        __syncthreads(); /* the former tile has been read */
        take<T, KEYS, WIDE>(k, s.k, begin + first, n - first, column, head);
        take<T, KEYS, WIDE>(v, s.v, begin + first, n - first, column, head);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < KEYS / PARTS; i++) {
            const int key = i * PARTS + part;

            scores[i] = first + key < n ? fmaf(dot<WIDE>(q[query], k[key]), s.scale,
                                               bias ? bias[first + key] : 0.0f)
                                        : -INFINITY;
        }
        all.weigh(scores);
#pragma unroll
        for (int i = 0; i < KEYS / PARTS; i++)
            weights[query][i * PARTS + part] = scores[i];
        __syncwarp(); /* a query's threads are of one warp */
#pragma unroll 4
        for (int key = 0; key < KEYS; key++)
            all.add(weights[query][key], v[key], part);
    }
    if (row >= n)
        return;
#pragma unroll
    for (int g = 0; g < WIDE / 16; g++) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int d = (g * PARTS + part) * 4 + j;

            if (d < head)
                row_of<T>(s.out, begin + row)[column + d] =
                    number<T>::from(all.value[g].v[j] / all.sum);
        }
    }
}

template <class T, int WIDE, int KEYS>
int attend_by(cudaStream_t s, const struct spans_device &d, uint32_t count, uint32_t longest)
{
    auto kernel = attend_spans<T, WIDE, KEYS>;

    LAUNCH(kernel, dim3(count, d.heads, (longest + QUERIES - 1) / QUERIES), dim3(THREADS), 0, s)
    (d);
    return launched();
}

template <class T, int N>
int gather_by(cudaStream_t s, const struct tensor &x, const int32_t *rows, const struct tensor &y)
{
    auto kernel = gather_rows<T, N>;

    LAUNCH(kernel, tile_grid(y.rows, y.cols / N), tile_block(), 0, s)(x, rows, y);
    return launched();
}

} // namespace

int k_gather(cudaStream_t s, struct tensor x, const int32_t *rows, struct tensor y)
{
    if (is_empty(y))
        return 0;
    return by_type(y.type, [&](auto a) {
        using T = decltype(a);
        constexpr int N = width<T, T>::wide;

        return in_packs(x, N) && in_packs(y, N) ? gather_by<T, N>(s, x, rows, y)
                                                : gather_by<T, 1>(s, x, rows, y);
    });
}

int k_attend_spans(cudaStream_t s, const struct spans_device *d, uint32_t count, uint32_t longest)
{
    if (is_empty(d->q) || count == 0 || longest == 0)
        return 0;
    if (d->head_size < 8 || d->head_size > 128 || d->head_size % 8 != 0 || d->heads > 65535)
        return (int)cudaErrorInvalidValue;
    return by_type(d->q.type, [&](auto a) {
        using T = decltype(a);

        return d->head_size <= 32   ? attend_by<T, 32, 32>(s, *d, count, longest)
               : d->head_size <= 64 ? attend_by<T, 64, 32>(s, *d, count, longest)
                                    : attend_by<T, 128, 16>(s, *d, count, longest);
    });
}
