/* Reads memory as fast as it comes: what other kernels' bytes per second are held against. Each
 * thread has four reads of 16 bytes under way; neighbours read neighbouring ones. Measured
 * on an H200: 4.5 TB/s. */
#include "gpu/cuda/kernels/values.h"

namespace
{

constexpr int THREADS = 256;
constexpr int DEEP = 4;

__global__ __launch_bounds__(THREADS) void read_all(const pack<uint32_t, 4> *p, int64_t n,
                                                    uint32_t *ret)
{
    __shared__ uint32_t shared[THREADS / 32];
    int64_t step = (int64_t)gridDim.x * THREADS, i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    uint32_t sum = 0;

    for (; i < n; i += step * DEEP) {
        pack<uint32_t, 4> v[DEEP] = {};

#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            if (i + j * step < n)
                v[j] = p[i + j * step];
        }
#pragma unroll
        for (int j = 0; j < DEEP; j++)
            sum += (v[j].v[0] + v[j].v[1]) + (v[j].v[2] + v[j].v[3]);
    }
    for (int lanes = 16; lanes > 0; lanes /= 2)
        sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < THREADS / 32; w++)
            sum += shared[w];
        ret[blockIdx.x] = sum;
    }
}

} // namespace

int k_read(cudaStream_t s, const void *p, size_t bytes, uint32_t *ret)
{
    LAUNCH(read_all, dim3(K_READ_BLOCKS), dim3(THREADS), 0, s)
    (static_cast<const pack<uint32_t, 4> *>(p), (int64_t)(bytes / 16), ret);
    return launched();
}
