/* gpu/cuda/kernels/fourier.h - Fourier transforms in shared memory, in float64: Stockham's stages
 * of radix 2, 4 and 5, which need no bit reversal. */
#ifndef NIGHTSHIFT_GPU_CUDA_KERNELS_FOURIER_H
#define NIGHTSHIFT_GPU_CUDA_KERNELS_FOURIER_H

#include "gpu/cuda/kernels/values.h"

struct alignas(16) complex {
    double re, im;
};

__device__ inline complex operator+(complex a, complex b) { return {a.re + b.re, a.im + b.im}; }
__device__ inline complex operator-(complex a, complex b) { return {a.re - b.re, a.im - b.im}; }

template <int RADIX> __device__ inline void butterfly(complex *a);

template <> __device__ inline void butterfly<2>(complex *a)
{
    complex b = a[1];

    a[1] = a[0] - b;
    a[0] = a[0] + b;
}

template <> __device__ inline void butterfly<4>(complex *a)
{
    complex s0 = a[0] + a[2], d0 = a[0] - a[2], s1 = a[1] + a[3], d1 = a[1] - a[3];

    a[0] = s0 + s1;
    a[2] = s0 - s1;
    a[1] = {d0.re + d1.im, d0.im - d1.re};
    a[3] = {d0.re - d1.im, d0.im + d1.re};
}

template <> __device__ inline void butterfly<5>(complex *a)
{
    const double c1 = 0.30901699437494742, c2 = -0.80901699437494742; /* of 72 and 144 degrees */
    const double s1 = 0.95105651629515357, s2 = 0.58778525229247313;
    complex p1 = a[1] + a[4], m1 = a[1] - a[4], p2 = a[2] + a[3], m2 = a[2] - a[3];
    complex u1 = {a[0].re + p1.re * c1 + p2.re * c2, a[0].im + p1.im * c1 + p2.im * c2};
    complex u2 = {a[0].re + p1.re * c2 + p2.re * c1, a[0].im + p1.im * c2 + p2.im * c1};
    complex w1 = {m1.re * s1 + m2.re * s2, m1.im * s1 + m2.im * s2};
    complex w2 = {m1.re * s2 - m2.re * s1, m1.im * s2 - m2.im * s1};

    a[0] = a[0] + (p1 + p2);
    a[1] = {u1.re + w1.im, u1.im - w1.re};
    a[4] = {u1.re - w1.im, u1.im + w1.re};
    a[2] = {u2.re + w2.im, u2.im - w2.re};
    a[3] = {u2.re - w2.im, u2.im + w2.re};
}

/* One stage of COUNT transforms of SIZE values, which THREADS threads share: N points are left of
 * each, S of them interleaved. cosine, sine: [TABLE] of 2 pi i / TABLE. Ends with a barrier. */
template <int RADIX, int SIZE, int N, int S, int COUNT, int THREADS, int TABLE>
__device__ inline void fourier_stage(const double *cosine, const double *sine, const complex *from,
                                     complex *to)
{
    constexpr int M = N / RADIX, EACH = SIZE / RADIX;

    for (int task = (int)threadIdx.x; task < COUNT * EACH; task += THREADS) {
        const int which = task / EACH, p = task % EACH / S, q = task % EACH % S;
        const complex *x = from + which * SIZE + q + S * p;
        complex *y = to + which * SIZE + q + S * RADIX * p, a[RADIX];

#pragma unroll
        for (int j = 0; j < RADIX; j++)
            a[j] = x[S * M * j];
        butterfly<RADIX>(a);
        y[0] = a[0];
#pragma unroll
        for (int k = 1; k < RADIX; k++) {
            double c = __ldg(cosine + p * k * (TABLE / N)), s = __ldg(sine + p * k * (TABLE / N));

            y[S * k] = {a[k].re * c + a[k].im * s, a[k].im * c - a[k].re * s};
        }
    }
    __syncthreads();
}

#endif
