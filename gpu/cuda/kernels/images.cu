/* The inputs of a convolution's outputs, as rows; depthwise convolutions; activations.
 *
 * Unfolding: a warp for an output, which divides its place once and then goes along the row by 16
 * bytes where the channels allow it; bound by writing the rows. A kernel of one row reads one
 * contiguous piece of an image, which is copied without a division for each number: with one
 * channel those would take longer than the product. Depthwise: a thread for four channels of an
 * output (or one), neighbours beside each other; the kernel's taps in one chain of multiply-adds,
 * so that a result depends on nothing else. Unfolding without divisions has not yet run on a
 * GPU. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 256;

/* first: the output of row 0, counted over all images; all: how many there are. */
template <class T, int N>
__global__ __launch_bounds__(256) void unfold_rows(struct tensor dst, struct tensor x,
                                                   struct image_device g, int64_t first,
                                                   int64_t all)
{
    const int64_t row = tile_row(), output = first + row, each = g.out_height * g.out_width;
    const int in = (int)g.in, seen = in * (int)(g.kernel_h * g.kernel_w);

    if (row >= dst.rows)
        return;
    const int64_t within = output % each;
    const int64_t top = within / g.out_width * g.stride_h - g.top;
    const int64_t left = within % g.out_width * g.stride_w - g.left;
    const T *image = static_cast<const T *>(x.data) + output / each * g.height * g.width * in;
    pack<T, N> *out = reinterpret_cast<pack<T, N> *>(row_of<T>(dst, row));

    for (int p = (int)threadIdx.x; p < (int)(dst.cols / N); p += 32) {
        const int k = p * N, tap = k / in;
        const int64_t h = top + tap / (int)g.kernel_w, w = left + tap % (int)g.kernel_w;
        pack<T, N> v;

#pragma unroll
        for (int j = 0; j < N; j++)
            v.v[j] = number<T>::from(0.0f);
        if (output < all && k < seen && h >= 0 && h < g.height && w >= 0 && w < g.width)
            v = *reinterpret_cast<const pack<T, N> *>(image + (h * g.width + w) * in + k % in);
        out[p] = v;
    }
}

/* The same where all that an output sees lies together. N: numbers that are read at once. */
template <class T, int N>
__global__ __launch_bounds__(256) void unfold_runs(struct tensor dst, struct tensor x,
                                                   struct image_device g, int64_t first,
                                                   int64_t all)
{
    constexpr int WIDE = 16 / (int)sizeof(T);
    const int64_t row = tile_row(), output = first + row, each = g.out_height * g.out_width;
    const int seen = (int)(g.in * g.kernel_w);

    if (row >= dst.rows)
        return;
    const int64_t within = output % each, h = within / g.out_width * g.stride_h;
    const int64_t w = within % g.out_width * g.stride_w;
    const T *from =
        static_cast<const T *>(x.data) + ((output / each * g.height + h) * g.width + w) * g.in;
    pack<T, WIDE> *out = reinterpret_cast<pack<T, WIDE> *>(row_of<T>(dst, row));

    for (int p = (int)threadIdx.x; p < (int)(dst.cols / WIDE); p += 32) {
        pack<T, WIDE> v;

#pragma unroll
        for (int i = 0; i < WIDE; i += N) {
            pack<T, N> some;

#pragma unroll
            for (int j = 0; j < N; j++)
                some.v[j] = number<T>::from(0.0f);
            if (output < all && p * WIDE + i < seen)
                some = *reinterpret_cast<const pack<T, N> *>(from + p * WIDE + i);
#pragma unroll
            for (int j = 0; j < N; j++)
                v.v[i + j] = some.v[j];
        }
        out[p] = v;
    }
}

template <int N>
__global__ __launch_bounds__(THREADS) void depthwise_packs(struct tensor x, const float *weights,
                                                           const float *bias, struct image_device g,
                                                           enum epilogue epilogue, struct tensor y)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, packs = g.in / N;
    const int64_t output = at / packs, channel = at % packs * N;

    if (output >= y.rows)
        return;
    const int64_t each = g.out_height * g.out_width, within = output % each;
    const int64_t top = within / g.out_width * g.stride_h - g.top;
    const int64_t left = within % g.out_width * g.stride_w - g.left;
    const float *image =
        static_cast<const float *>(x.data) + output / each * g.height * g.width * g.in + channel;
    pack<float, N> *out =
        reinterpret_cast<pack<float, N> *>(static_cast<float *>(y.data) + output * g.in + channel);
    pack<float, N> sum = {}, old = {};

    if (bias)
        sum = *reinterpret_cast<const pack<float, N> *>(bias + channel);
    if (epilogue == EPILOGUE_ADD)
        old = *out;
    for (int tap = 0; tap < (int)(g.kernel_h * g.kernel_w); tap++) {
        const int64_t h = top + tap / (int)g.kernel_w, w = left + tap % (int)g.kernel_w;

        if (h < 0 || h >= g.height || w < 0 || w >= g.width)
            continue;
        const pack<float, N> v =
            *reinterpret_cast<const pack<float, N> *>(image + (h * g.width + w) * g.in);
        const pack<float, N> k =
            *reinterpret_cast<const pack<float, N> *>(weights + (int64_t)tap * g.in + channel);

#pragma unroll
        for (int j = 0; j < N; j++)
            sum.v[j] = fmaf(v.v[j], k.v[j], sum.v[j]);
    }
#pragma unroll
    for (int j = 0; j < N; j++)
        sum.v[j] = finish(sum.v[j], epilogue, old.v[j]);
    *out = sum;
}

__device__ inline float activated(float v, enum activation f)
{
    switch (f) {
    case ACTIVATION_RELU:
        return v < 0.0f ? 0.0f : v; /* NaN stays */
    case ACTIVATION_LEAKY_RELU:
        return v < 0.0f ? v * 0.01f : v;
    case ACTIVATION_ABS:
        return fabsf(v);
    case ACTIVATION_GELU:
        return gelu(v);
    case ACTIVATION_TANH:
        return tanhf(v);
    case ACTIVATION_SIGMOID:
        return 1.0f / (1.0f + expf(-v));
    }
    return v;
}

template <class U, int N>
__global__ __launch_bounds__(256) void activate_rows(enum activation f, struct tensor x,
                                                     struct tensor y)
{
    const int64_t row = tile_row(), packs = y.cols / N;

    if (row >= y.rows)
        return;
    const pack<float, N> *in = reinterpret_cast<const pack<float, N> *>(row_of<float>(x, row));
    pack<U, N> *out = reinterpret_cast<pack<U, N> *>(row_of<U>(y, row));
    pack<float, N> a[TILE_DEPTH] = {};

#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++)
        if (tile_pack(i) < packs)
            a[i] = in[tile_pack(i)];
#pragma unroll
    for (int i = 0; i < TILE_DEPTH; i++) {
        pack<U, N> b;

        if (tile_pack(i) >= packs)
            break;
#pragma unroll
        for (int j = 0; j < N; j++)
            b.v[j] = number<U>::from(activated(a[i].v[j], f));
        out[tile_pack(i)] = b;
    }
}

template <class T, int N>
int unfold_by(cudaStream_t s, const struct tensor &dst, const struct tensor &x,
              const struct image_device &g, int64_t first, int64_t all)
{
    auto kernel = unfold_rows<T, N>;

    LAUNCH(kernel, dim3((unsigned)((dst.rows + TILE_ROWS - 1) / TILE_ROWS)), tile_block(), 0, s)
    (dst, x, g, first, all);
    return launched();
}

template <class T, int N>
int runs_by(cudaStream_t s, const struct tensor &dst, const struct tensor &x,
            const struct image_device &g, int64_t first, int64_t all)
{
    auto kernel = unfold_runs<T, N>;

    LAUNCH(kernel, dim3((unsigned)((dst.rows + TILE_ROWS - 1) / TILE_ROWS)), tile_block(), 0, s)
    (dst, x, g, first, all);
    return launched();
}

/* Whether what any output sees lies together, within its image. */
bool is_run(const struct image_device &g)
{
    return g.kernel_h == 1 && g.top == 0 && g.left == 0 &&
           (g.out_width - 1) * g.stride_w + g.kernel_w <= g.width &&
           (g.out_height - 1) * g.stride_h < g.height;
}

template <int N>
int depthwise_by(cudaStream_t s, const struct tensor &x, const float *w, const float *bias,
                 const struct image_device &g, enum epilogue epilogue, const struct tensor &y)
{
    auto kernel = depthwise_packs<N>;

    LAUNCH(kernel, dim3((unsigned)((y.rows * (g.in / N) + THREADS - 1) / THREADS)), dim3(THREADS),
           0, s)
    (x, w, bias, g, epilogue, y);
    return launched();
}

template <class U, int N>
int activate_by(cudaStream_t s, enum activation f, const struct tensor &x, const struct tensor &y)
{
    auto kernel = activate_rows<U, N>;

    LAUNCH(kernel, tile_grid(y.rows, y.cols / N), tile_block(), 0, s)(f, x, y);
    return launched();
}

} // namespace

int k_unfold(cudaStream_t s, struct tensor dst, struct tensor x, const struct image_device *g,
             int64_t first)
{
    const int64_t images = x.rows / (g->height * g->width);

    if (is_empty(dst))
        return 0;
    if (dst.type != x.type || dst.cols < g->in * (int64_t)g->kernel_h * (int64_t)g->kernel_w ||
        dst.cols > INT32_MAX)
        return (int)cudaErrorInvalidValue;
    return by_type(x.type, [&](auto a) {
        using T = decltype(a);
        constexpr int N = width<T, T>::wide;
        const int64_t all = images * g->out_height * g->out_width;

        if (is_run(*g) && in_packs(dst, N))
            return in_packs(x, N) ? runs_by<T, N>(s, dst, x, *g, first, all)
                                  : runs_by<T, 1>(s, dst, x, *g, first, all);
        if (in_packs(x, N) && in_packs(dst, N))
            return unfold_by<T, N>(s, dst, x, *g, first, all);
        return unfold_by<T, 1>(s, dst, x, *g, first, all);
    });
}

int k_depthwise(cudaStream_t s, struct tensor x, const float *w, const float *bias,
                const struct image_device *g, enum epilogue epilogue, struct tensor y)
{
    if (is_empty(y))
        return 0;
    if (epilogue == EPILOGUE_ADD_RELU)
        return (int)cudaErrorInvalidValue;
    if (in_packs(x, 4) && in_packs(y, 4) && is_aligned(w) && is_aligned(bias))
        return depthwise_by<4>(s, x, w, bias, *g, epilogue, y);
    return depthwise_by<1>(s, x, w, bias, *g, epilogue, y);
}

int k_activate(cudaStream_t s, enum activation f, struct tensor x, struct tensor y)
{
    if (is_empty(y))
        return 0;
    return by_type(y.type, [&](auto to) {
        using U = decltype(to);

        return in_packs(x, 4) && in_packs(y, 4) ? activate_by<U, 4>(s, f, x, y)
                                                : activate_by<U, 1>(s, f, x, y);
    });
}
