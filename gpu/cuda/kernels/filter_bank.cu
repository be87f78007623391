/* Energies of mel bins in frames (the formula is in gpu/filter_bank.h), of all windows at once.
 *
 * In float64 between samples and energies, as on the host: a bin may be a millionth of what is
 * beside it, where a transform in float32 would leave nothing of the energy but its rounding. That
 * is some 20 thousand operations a frame, little even where float64 runs at 1/64 of float32's rate;
 * so windows that share frames each compute their own, and a window needs no scratch. A block
 * transforms four frames by themselves (two of 1024 values), each as half as many complex values:
 * 32 KiB of shared memory. Another kernel takes a bin's mean off, where it is wanted: a block for
 * 16 bins of a window, sums in an order that is always the same. */
#include "gpu/cuda/kernels/fourier.h"

namespace
{

constexpr int THREADS = 256;
constexpr int CENTRE_BINS = 16, CENTRE_LANES = 16;

/* FRAMES of a block, of which a warp sums each, and their transforms from x, by way of y and back:
 * in the first of what is returned then, and the other is free. */
template <int FFT> struct transform;

struct places {
    complex *done, *free;
};

template <> struct transform<1024> {
    static constexpr int FRAMES = 2;

    static __device__ inline places run(const struct mel_device &m, complex *x, complex *y)
    {
        fourier_stage<4, 512, 512, 1, FRAMES, THREADS, 1024>(m.cosine, m.sine, x, y);
        fourier_stage<4, 512, 128, 4, FRAMES, THREADS, 1024>(m.cosine, m.sine, y, x);
        fourier_stage<4, 512, 32, 16, FRAMES, THREADS, 1024>(m.cosine, m.sine, x, y);
        fourier_stage<4, 512, 8, 64, FRAMES, THREADS, 1024>(m.cosine, m.sine, y, x);
        fourier_stage<2, 512, 2, 256, FRAMES, THREADS, 1024>(m.cosine, m.sine, x, y);
        return {y, x};
    }
};

template <> struct transform<512> {
    static constexpr int FRAMES = 4;

    static __device__ inline places run(const struct mel_device &m, complex *x, complex *y)
    {
        fourier_stage<4, 256, 256, 1, FRAMES, THREADS, 512>(m.cosine, m.sine, x, y);
        fourier_stage<4, 256, 64, 4, FRAMES, THREADS, 512>(m.cosine, m.sine, y, x);
        fourier_stage<4, 256, 16, 16, FRAMES, THREADS, 512>(m.cosine, m.sine, x, y);
        fourier_stage<4, 256, 4, 64, FRAMES, THREADS, 512>(m.cosine, m.sine, y, x);
        return {x, y};
    }
};

template <> struct transform<400> {
    static constexpr int FRAMES = 4;

    static __device__ inline places run(const struct mel_device &m, complex *x, complex *y)
    {
        fourier_stage<4, 200, 200, 1, FRAMES, THREADS, 400>(m.cosine, m.sine, x, y);
        fourier_stage<2, 200, 50, 4, FRAMES, THREADS, 400>(m.cosine, m.sine, y, x);
        fourier_stage<5, 200, 25, 8, FRAMES, THREADS, 400>(m.cosine, m.sine, x, y);
        fourier_stage<5, 200, 5, 40, FRAMES, THREADS, 400>(m.cosine, m.sine, y, x);
        return {x, y};
    }
};

/* Sample i of a window of n, which may lie beyond its ends. */
__device__ inline double sample(const struct bank_device &b, const float *pcm, int n, int64_t i)
{
    if (b.mirrored)
        i = i < 0 ? -i : i >= n ? 2 * ((int64_t)n - 1) - i : i;
    return i < 0 || i >= n ? 0.0 : (double)filter_bank_sample(pcm[i]);
}

/* Means of the block's frames, by a warp each. first: sample at which its first frame begins. */
template <int FRAMES>
__device__ inline void take_means(const struct bank_device &b, const float *pcm, int n,
                                  int64_t first, double *means)
{
    const int frame = (int)threadIdx.x / 32;
    double sum = 0.0;

    if (frame < FRAMES && b.less_mean) {
        for (int i = (int)threadIdx.x % 32; i < (int)b.frame; i += 32)
            sum += sample(b, pcm, n, first + (int64_t)frame * b.step + i);
        for (int lanes = 16; lanes > 0; lanes /= 2)
            sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
    }
    if (frame < FRAMES && threadIdx.x % 32 == 0)
        means[frame] = sum / (double)b.frame;
    __syncthreads();
}

/* Value i of a frame, as it is transformed. */
__device__ inline double value_of(const struct bank_device &b, const float *pcm, int n,
                                  int64_t begin, int i, double mean)
{
    double x, before;

    if (i >= (int)b.frame)
        return 0.0;
    x = sample(b, pcm, n, begin + i) - mean;
    before = sample(b, pcm, n, begin + (i > 0 ? i - 1 : 0)) - mean;
    return (x - b.pre_emphasis * before) * b.scale * __ldg(b.mel.window + i);
}

/* Even values as real parts, odd ones as imaginary parts. */
template <int HALF, int FRAMES>
__device__ inline void load_frames(const struct bank_device &b, const float *pcm, int n,
                                   int64_t first, const double *means, complex *x)
{
    for (int task = (int)threadIdx.x; task < FRAMES * HALF; task += THREADS) {
        const int frame = task / HALF, i = 2 * (task % HALF);
        const int64_t begin = first + (int64_t)frame * b.step;

        x[task] = {value_of(b, pcm, n, begin, i, means[frame]),
                   value_of(b, pcm, n, begin, i + 1, means[frame])};
    }
    __syncthreads();
}

/* The powers of the real values, from the transforms of their pairs. powers: [FRAMES][HALF + 1] */
template <int HALF, int FRAMES>
__device__ inline void take_powers(const struct bank_device &b, const complex *z, double *powers)
{
    for (int task = (int)threadIdx.x; task < FRAMES * (HALF + 1); task += THREADS) {
        const int frame = task / (HALF + 1), k = task % (HALF + 1);
        const complex p = z[frame * HALF + k % HALF], q = z[frame * HALF + (HALF - k) % HALF];
        const complex even = {(p.re + q.re) * 0.5, (p.im - q.im) * 0.5};
        const complex odd = {(p.re - q.re) * 0.5, (p.im + q.im) * 0.5};
        const double c = __ldg(b.mel.cosine + k), s = __ldg(b.mel.sine + k);
        const double re = even.re + (odd.im * c - odd.re * s);
        const double im = even.im - (odd.re * c + odd.im * s);
        const double power = re * re + im * im;

        powers[task] = b.magnitudes ? sqrt(power) : power;
    }
    __syncthreads();
}

/* Blocks: [frames / FRAMES][windows]. */
template <int FFT>
__global__ __launch_bounds__(THREADS) void bank_frames(struct bank_device b, const float *pcm,
                                                       const uint32_t *at, int samples, int frames,
                                                       struct tensor out)
{
    constexpr int HALF = FFT / 2, FRAMES = transform<FFT>::FRAMES;
    __shared__ complex x[FRAMES * HALF], y[FRAMES * HALF];
    __shared__ double means[FRAMES];
    static_assert(sizeof(double) * FRAMES * (HALF + 1) <= sizeof(y), "powers fit into either");
    const int begin = (int)blockIdx.x * FRAMES, bins = (int)b.mel.bins;
    const int64_t first = (int64_t)begin * b.step - b.before;
    const float *window = pcm + at[blockIdx.y];

    take_means<FRAMES>(b, window, samples, first, means);
    load_frames<HALF, FRAMES>(b, window, samples, first, means, x);
    const places z = transform<FFT>::run(b.mel, x, y);
    double *powers = reinterpret_cast<double *>(z.free);
    take_powers<HALF, FRAMES>(b, z.done, powers);
    for (int task = (int)threadIdx.x; task < FRAMES * bins; task += THREADS) {
        const int frame = task / bins, bin = task % bins, count = (int)b.mel.count[bin];
        const double *p = powers + frame * (HALF + 1) + b.mel.first[bin];
        const double *w = b.mel.weight + b.mel.at[bin];
        double energy = 0.0;

        if (begin + frame >= frames)
            continue;
        for (int k = 0; k < count; k++)
            energy += p[k] * __ldg(w + k);
        row_of<float>(out, (int64_t)blockIdx.y * frames + begin + frame)[bin] =
            (float)(b.logarithm ? log(fmax(energy, b.floor) + b.offset) : energy);
    }
}

template <int FFT>
int launch_frames(cudaStream_t s, const struct bank_device &b, const float *pcm, const uint32_t *at,
                  uint32_t windows, uint32_t samples, uint32_t frames, struct tensor out)
{
    constexpr uint32_t FRAMES = transform<FFT>::FRAMES;

    LAUNCH(bank_frames<FFT>, dim3((frames + FRAMES - 1) / FRAMES, windows), dim3(THREADS), 0, s)
    (b, pcm, at, (int)samples, (int)frames, out);
    return launched();
}

const struct {
    uint32_t fft;
    decltype(&launch_frames<400>) launch;
} lengths[] = {{1024, launch_frames<1024>}, {512, launch_frames<512>}, {400, launch_frames<400>}};

/* Blocks: [bins / CENTRE_BINS][windows]; threads: [CENTRE_LANES][CENTRE_BINS]. */
__global__ __launch_bounds__(CENTRE_BINS *CENTRE_LANES) void bank_centre(int frames,
                                                                         struct tensor out)
{
    __shared__ double sums[CENTRE_LANES][CENTRE_BINS];
    const int column = (int)threadIdx.x % CENTRE_BINS, lane = (int)threadIdx.x / CENTRE_BINS;
    const int bin = (int)blockIdx.x * CENTRE_BINS + column;
    const int64_t first = (int64_t)blockIdx.y * frames;
    double sum = 0.0;

    for (int i = lane; i < frames && bin < out.cols; i += CENTRE_LANES)
        sum += (double)row_of<float>(out, first + i)[bin];
    sums[lane][column] = sum;
    __syncthreads();
    sum = 0.0;
    for (int i = 0; i < CENTRE_LANES; i++)
        sum += sums[i][column];
    sum /= frames;
    for (int i = lane; i < frames && bin < out.cols; i += CENTRE_LANES) {
        float *value = row_of<float>(out, first + i) + bin;

        *value = (float)((double)*value - sum);
    }
}

} // namespace

bool k_filter_bank_has(uint32_t fft)
{
    for (const auto &length : lengths)
        if (length.fft == fft)
            return true;
    return false;
}

int k_filter_bank(cudaStream_t s, struct bank_device b, const float *pcm, const uint32_t *at,
                  uint32_t windows, uint32_t samples, uint32_t frames, struct tensor out)
{
    int rc = (int)cudaErrorInvalidValue;

    if (windows == 0 || frames == 0)
        return 0;
    if (windows > 65535)
        return rc;
    for (const auto &length : lengths)
        if (length.fft == b.fft)
            rc = length.launch(s, b, pcm, at, windows, samples, frames, out);
    if (rc || !b.centre)
        return rc;
    LAUNCH(bank_centre, dim3((b.mel.bins + CENTRE_BINS - 1) / CENTRE_BINS, windows),
           dim3(CENTRE_BINS * CENTRE_LANES), 0, s)
    ((int)frames, out);
    return launched();
}
