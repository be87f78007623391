/* Copies between types, sums, embeddings, GELU and ReLU, magnitudes:
 * one pass over memory each.
 *
 * A warp for a row and 64 packs of it (values.h); both packs of a lane are read before either is
 * written, so x and y may be one matrix. Memory bounds them: an access has 16 bytes if the
 * rows are aligned. */
#include "gpu/cuda/kernels/values.h"

namespace
{

template <class T, class U, int N>
__global__ __launch_bounds__(256) void copy_rows(struct tensor dst, struct tensor src)
{
    int64_t row = tile_row(), packs = dst.cols / N;

    if (row >= dst.rows)
        return;
    const pack<T, N> *in = reinterpret_cast<const pack<T, N> *>(row_of<T>(src, row));
    pack<U, N> *out = reinterpret_cast<pack<U, N> *>(row_of<U>(dst, row));
    pack<T, N> x[TILE_DEPTH] = {};

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) < packs)
            x[i] = in[tile_pack(i)];
    }
#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        pack<U, N> y;

        if (tile_pack(i) >= packs)
            break;
#pragma unroll
        for (int j = 0; j < N; j++)
            y.v[j] = number<U>::from(to_f32(x[i].v[j]));
        out[tile_pack(i)] = y;
    }
}

template <class T, int N> __global__ __launch_bounds__(256) void zero_rows(struct tensor x)
{
    int64_t row = tile_row(), packs = x.cols / N;
    pack<T, N> zero;

    if (row >= x.rows)
        return;
#pragma unroll
    for (int j = 0; j < N; j++)
        zero.v[j] = number<T>::from(0.0f);
#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) < packs)
            reinterpret_cast<pack<T, N> *>(row_of<T>(x, row))[tile_pack(i)] = zero;
    }
}

template <class T, int N>
__global__ __launch_bounds__(256) void add_rows(struct tensor y, struct tensor x)
{
    int64_t row = tile_row(), packs = y.cols / N;

    if (row >= y.rows)
        return;
    const pack<T, N> *in = reinterpret_cast<const pack<T, N> *>(row_of<T>(x, row % x.rows));
    pack<float, N> *out = reinterpret_cast<pack<float, N> *>(row_of<float>(y, row));
    pack<float, N> a[TILE_DEPTH];
    pack<T, N> b[TILE_DEPTH];

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) < packs) {
            a[i] = out[tile_pack(i)];
            b[i] = in[tile_pack(i)];
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) >= packs)
            break;
#pragma unroll
        for (int j = 0; j < N; j++)
            a[i].v[j] += to_f32(b[i].v[j]);
        out[tile_pack(i)] = a[i];
    }
}

__global__ __launch_bounds__(256) void embed_rows(struct tensor table, struct tensor positions,
                                                  const struct token_row *rows, struct tensor y)
{
    int64_t row = tile_row();

    if (row >= y.rows)
        return;
    const int32_t token = rows[row].token, pos = rows[row].pos;

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        int64_t c = tile_pack(i);

        if (c < y.cols)
            row_of<float>(y, row)[c] = load_any(table, token, c) + load_any(positions, pos, c);
    }
}

template <class T, class U, int N>
__global__ __launch_bounds__(256) void epilogue_rows(struct tensor x, const float *bias,
                                                     enum epilogue epilogue, struct tensor y)
{
    int64_t row = tile_row(), packs = y.cols / N;

    if (row >= y.rows)
        return;
    const pack<T, N> *in = reinterpret_cast<const pack<T, N> *>(row_of<T>(x, row));
    pack<U, N> *out = reinterpret_cast<pack<U, N> *>(row_of<U>(y, row));
    pack<T, N> a[TILE_DEPTH];
    pack<U, N> b[TILE_DEPTH] = {};

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) < packs) {
            a[i] = in[tile_pack(i)];
            if (epilogue == EPILOGUE_ADD)
                b[i] = out[tile_pack(i)];
        }
    }
#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        if (tile_pack(i) >= packs)
            break;
        pack<float, N> add = {};

        if (bias)
            add = reinterpret_cast<const pack<float, N> *>(bias)[tile_pack(i)];
#pragma unroll
        for (int j = 0; j < N; j++)
            b[i].v[j] =
                number<U>::from(finish(to_f32(a[i].v[j]) + add.v[j], epilogue, to_f32(b[i].v[j])));
        out[tile_pack(i)] = b[i];
    }
}

__global__ __launch_bounds__(256) void magnitude_rows(struct tensor x, struct tensor y)
{
    const int64_t row = tile_row();

    if (row >= y.rows)
        return;
    const float *in = row_of<const float>(x, row);

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        const int64_t c = tile_pack(i);

        if (c < y.cols)
            row_of<float>(y, row)[c] = sqrtf(in[c] * in[c] + in[y.cols + c] * in[y.cols + c]);
    }
}

template <class T, class U, int N>
int copy_by(cudaStream_t s, const struct tensor &dst, const struct tensor &src)
{
    auto kernel = copy_rows<T, U, N>;

    LAUNCH(kernel, tile_grid(dst.rows, dst.cols / N), tile_block(), 0, s)(dst, src);
    return launched();
}

template <class T, int N> int zero_by(cudaStream_t s, const struct tensor &x)
{
    auto kernel = zero_rows<T, N>;

    LAUNCH(kernel, tile_grid(x.rows, x.cols / N), tile_block(), 0, s)(x);
    return launched();
}

template <class T, int N> int add_by(cudaStream_t s, const struct tensor &y, const struct tensor &x)
{
    auto kernel = add_rows<T, N>;

    LAUNCH(kernel, tile_grid(y.rows, y.cols / N), tile_block(), 0, s)(y, x);
    return launched();
}

template <class T, class U, int N>
int epilogue_by(cudaStream_t s, const struct tensor &x, const float *bias, enum epilogue epilogue,
                const struct tensor &y)
{
    auto kernel = epilogue_rows<T, U, N>;

    LAUNCH(kernel, tile_grid(y.rows, y.cols / N), tile_block(), 0, s)(x, bias, epilogue, y);
    return launched();
}

} // namespace

int k_zero(cudaStream_t s, struct tensor x)
{
    if (is_empty(x))
        return 0;
    return by_type(x.type, [&](auto a) {
        using T = decltype(a);
        constexpr int N = width<T, T>::wide;

        return in_packs(x, N) ? zero_by<T, N>(s, x) : zero_by<T, 1>(s, x);
    });
}

int k_copy(cudaStream_t s, struct tensor dst, struct tensor src)
{
    if (is_empty(dst))
        return 0;
    return by_type(src.type, [&](auto from) {
        return by_type(dst.type, [&](auto to) {
            using T = decltype(from);
            using U = decltype(to);
            constexpr int N = width<T, U>::wide;

            if (in_packs(src, N) && in_packs(dst, N))
                return copy_by<T, U, N>(s, dst, src);
            return copy_by<T, U, 1>(s, dst, src);
        });
    });
}

int k_magnitude(cudaStream_t s, struct tensor x, struct tensor y)
{
    if (is_empty(y))
        return 0;
    LAUNCH(magnitude_rows, tile_grid(y.rows, y.cols), tile_block(), 0, s)(x, y);
    return launched();
}

int k_add(cudaStream_t s, struct tensor y, struct tensor x)
{
    if (is_empty(y))
        return 0;
    return by_type(x.type, [&](auto a) {
        using T = decltype(a);

        return in_packs(x, 4) && in_packs(y, 4) ? add_by<T, 4>(s, y, x) : add_by<T, 1>(s, y, x);
    });
}

int k_embed(cudaStream_t s, struct tensor table, struct tensor positions,
            const struct token_row *rows, struct tensor y)
{
    if (is_empty(y))
        return 0;
    LAUNCH(embed_rows, tile_grid(y.rows, y.cols), tile_block(), 0, s)(table, positions, rows, y);
    return launched();
}

int k_epilogue(cudaStream_t s, struct tensor x, const float *bias, enum epilogue epilogue,
               struct tensor y)
{
    if (is_empty(y))
        return 0;
    if (epilogue == EPILOGUE_ADD_RELU)
        return (int)cudaErrorInvalidValue;
    return by_type(x.type, [&](auto from) {
        return by_type(y.type, [&](auto to) {
            using T = decltype(from);
            using U = decltype(to);
            constexpr int N = width<T, U>::wide;

            if (in_packs(x, N) && in_packs(y, N) && is_aligned(bias))
                return epilogue_by<T, U, N>(s, x, bias, epilogue, y);
            return epilogue_by<T, U, 1>(s, x, bias, epilogue, y);
        });
    });
}
