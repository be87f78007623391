/* Rows at another rate: a thread for each value of the output, one after another in memory, which
 * sums its inputs in ascending order. Weights lie [taps][up], so that neighbours, which are of
 * neighbouring phases or of one, read neighbouring weights; what they read of the input is mostly
 * the same, and comes from the nearest cache. Its speed has not yet been measured. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 256;

/* n, m: rows of a window of x and of y. */
__global__ __launch_bounds__(THREADS) void resample_values(struct resample_device d,
                                                           struct tensor x, int64_t n,
                                                           struct tensor y, int64_t m)
{
    const int64_t at = (int64_t)blockIdx.x * THREADS + threadIdx.x, row = at / y.cols;

    if (row >= y.rows)
        return;
    const int64_t column = at % y.cols, window = row / m, place = row % m * d.down;
    const int64_t length = d.lengths ? d.lengths[window] : n, lies = place / d.up;
    const float *w = d.w + place % d.up;
    float sum = 0.0f;

    for (int64_t k = 0; lies < length && k < d.taps; k++, w += d.up) {
        const int64_t seen = lies - d.before + k;
        const bool inside = seen >= 0 && seen < length;

        if (*w == 0.0f || (!inside && !d.keep_ends))
            continue;
        sum = fmaf(*w,
                   row_of<const float>(x, window * n + (inside     ? seen
                                                        : seen < 0 ? 0
                                                                   : length - 1))[column],
                   sum);
    }
    if (d.gamma && lies < length)
        sum = fmaf(sum, d.gamma[column], d.beta[column]);
    row_of<float>(y, row)[column] = sum;
}

} // namespace

int k_resample(cudaStream_t s, const struct resample_device *d, uint32_t windows, struct tensor x,
               struct tensor y)
{
    if (is_empty(x) || is_empty(y) || windows == 0)
        return 0;
    LAUNCH(resample_values, dim3((unsigned)((y.rows * y.cols + THREADS - 1) / THREADS)),
           dim3(THREADS), 0, s)
    (*d, x, x.rows / windows, y, y.rows / windows);
    return launched();
}
