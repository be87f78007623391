/* Whisper's log-mel spectrogram, of all windows at once.
 *
 *     x_f[i] = hann[i] * audio[160 f + i - 200]      i < 400, mirrored at both ends, zeros after n
 *     p_f[k] = |DFT(x_f)[k]|^2                       k <= 200
 *     m_f[b] = log10(max(sum_k weight_b[k] p_f[k], 1e-10))
 *     out    = (max(m, max over the window - 8) + 4) / 4
 *
 * In float64, as on the host, because the quietest bin that the clamp keeps has 10^-4 of the
 * loudest one's amplitude. That is some 30 million operations a window, little even where float64
 * runs at 1/64 of float32's rate; the transform is why no matrix product is needed here. A block
 * transforms four frames: two and two share a complex transform of radices 4, 4, 5, 5 (Stockham: no
 * bit reversal) in shared memory, 25 KiB. Each block leaves the maximum of its frames, and a second
 * kernel takes the window's from them and clamps: no atomics. */
#include "gpu/cuda/kernels/fourier.h"

namespace
{

constexpr int FFT = K_MEL_FFT, HOP = 160, PAD = FFT / 2, FREQUENCIES = FFT / 2 + 1;
constexpr int FRAMES = K_MEL_FRAMES / K_MEL_BLOCKS; /* of a block */
constexpr int PAIRS = FRAMES / 2;
constexpr int THREADS = 224; /* 200 butterflies of radix 4, 160 of radix 5 */
constexpr int CLAMP_THREADS = 256;
constexpr int CLAMP_FRAMES = 25; /* of a block that clamps */
constexpr int CLAMP_BLOCKS = K_MEL_FRAMES / CLAMP_FRAMES;
static_assert(FRAMES * K_MEL_BLOCKS == K_MEL_FRAMES && PAIRS * 2 == FRAMES, "whole blocks");
static_assert(CLAMP_BLOCKS * CLAMP_FRAMES == K_MEL_FRAMES, "whole blocks");
static_assert(sizeof(double) * FRAMES * FREQUENCIES <= sizeof(double) * 2 * PAIRS * FFT,
              "the powers fit where the transforms were");

/* One stage of all the block's transforms: N points are left of each, S of them interleaved. */
template <int RADIX, int N, int S>
__device__ inline void stage(const struct mel_device &m, const complex *from, complex *to)
{
    fourier_stage<RADIX, FFT, N, S, PAIRS, THREADS, FFT>(m.cosine, m.sine, from, to);
}

/* Sample i of the window, -200 <= i < 480200. */
__device__ inline double sample(const float *pcm, int n, int i)
{
    i = i < 0 ? -i : i;
    i = i < K_MEL_SAMPLES ? i : 2 * (K_MEL_SAMPLES - 1) - i;
    return i < n ? (double)filter_bank_sample(pcm[i]) : 0.0;
}

/* Frames f and f + PAIRS of the block become the real and the imaginary part of transform f. */
__device__ inline void load_frames(const struct mel_device &m, const float *pcm, int n, complex *x)
{
    const int first = (int)blockIdx.x * FRAMES * HOP - PAD;

    for (int task = (int)threadIdx.x; task < PAIRS * FFT; task += THREADS) {
        const int pair = task / FFT, i = task % FFT, at = first + pair * HOP + i;
        const double w = __ldg(m.window + i);

        x[task] = {sample(pcm, n, at) * w, sample(pcm, n, at + PAIRS * HOP) * w};
    }
    __syncthreads();
}

/* powers: [FRAMES][FREQUENCIES] */
__device__ inline void take_powers(const complex *z, double *powers)
{
    for (int task = (int)threadIdx.x; task < PAIRS * FREQUENCIES; task += THREADS) {
        const int pair = task / FREQUENCIES, k = task % FREQUENCIES;
        const complex a = z[pair * FFT + k], b = z[pair * FFT + (FFT - k) % FFT];
        const double r1 = a.re + b.re, i1 = a.im - b.im, r2 = a.im + b.im, i2 = b.re - a.re;

        powers[pair * FREQUENCIES + k] = (r1 * r1 + i1 * i1) * 0.25;
        powers[(pair + PAIRS) * FREQUENCIES + k] = (r2 * r2 + i2 * i2) * 0.25;
    }
    __syncthreads();
}

template <int BLOCK> __device__ inline float block_max(float v)
{
    __shared__ float shared[BLOCK / 32];

    v = warp_max(v);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
#pragma unroll
    for (int w = 1; w < BLOCK / 32; w++)
        v = fmaxf(v, shared[w]);
    return v;
}

/* Blocks: [K_MEL_BLOCKS][windows]. Leaves m of the formula in out. */
__global__ __launch_bounds__(THREADS) void mel_frames(struct mel_device m, const float *pcm,
                                                      size_t stride, const uint32_t *n,
                                                      float *maxima, struct tensor out)
{
    __shared__ complex x[PAIRS * FFT], y[PAIRS * FFT];
    double *powers = reinterpret_cast<double *>(y);
    const int64_t window = blockIdx.y;
    const int bins = (int)m.bins;
    float high = -INFINITY;

    load_frames(m, pcm + window * stride, (int)min(n[window], (uint32_t)K_MEL_SAMPLES), x);
    stage<4, 400, 1>(m, x, y);
    stage<4, 100, 4>(m, y, x);
    stage<5, 25, 16>(m, x, y);
    stage<5, 5, 80>(m, y, x);
    take_powers(x, powers);
    for (int task = (int)threadIdx.x; task < FRAMES * bins; task += THREADS) {
        const int frame = task / bins, bin = task % bins, count = (int)m.count[bin];
        const double *p = powers + frame * FREQUENCIES + m.first[bin], *w = m.weight + m.at[bin];
        const int64_t row = window * K_MEL_FRAMES + (int64_t)blockIdx.x * FRAMES + frame;
        double energy = 0.0;
        float value;

        for (int k = 0; k < count; k++)
            energy += p[k] * __ldg(w + k);
        value = log10f(fmaxf((float)energy, 1e-10f));
        row_of<float>(out, row)[bin] = value;
        high = fmaxf(high, value);
    }
    high = block_max<THREADS>(high);
    if (threadIdx.x == 0)
        maxima[window * K_MEL_BLOCKS + blockIdx.x] = high;
}

/* Blocks: [CLAMP_BLOCKS][windows]. Each takes the window's maximum for itself. */
__global__ __launch_bounds__(CLAMP_THREADS) void mel_clamp(const float *maxima, struct tensor out)
{
    const int64_t first = (int64_t)blockIdx.y * K_MEL_FRAMES + (int64_t)blockIdx.x * CLAMP_FRAMES;
    const int bins = (int)out.cols;
    float low = -INFINITY;

    for (int i = (int)threadIdx.x; i < K_MEL_BLOCKS; i += CLAMP_THREADS)
        low = fmaxf(low, maxima[(int64_t)blockIdx.y * K_MEL_BLOCKS + i]);
    low = block_max<CLAMP_THREADS>(low) - 8.0f;
    for (int task = (int)threadIdx.x; task < CLAMP_FRAMES * bins; task += CLAMP_THREADS) {
        float *value = row_of<float>(out, first + task / bins) + task % bins;

        *value = fmaxf(*value, low) * 0.25f + 1.0f;
    }
}

} // namespace

int k_mel(cudaStream_t s, struct mel_device m, const float *pcm, size_t stride, const uint32_t *n,
          uint32_t windows, float *maxima, struct tensor out)
{
    if (windows == 0)
        return 0;
    LAUNCH(mel_frames, dim3(K_MEL_BLOCKS, windows), dim3(THREADS), 0, s)
    (m, pcm, stride, n, maxima, out);
    if (int rc = launched())
        return rc;
    LAUNCH(mel_clamp, dim3(CLAMP_BLOCKS, windows), dim3(CLAMP_THREADS), 0, s)(maxima, out);
    return launched();
}
