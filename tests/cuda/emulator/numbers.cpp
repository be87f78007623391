/* tests/cuda/emulator/numbers.cpp - conversions and products. */
#include <algorithm>
#include <vector>

#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/numbers.h"

namespace emulated
{
size_t number_size(cudaDataType_t type)
{
    switch (type) {
    case CUDA_R_32F:
    case CUDA_R_32I:
        return 4;
    case CUDA_R_16F:
    case CUDA_R_16BF:
        return 2;
    case CUDA_R_8I:
    case CUDA_R_8F_E4M3:
        return 1;
    default:
        fail("a library's double was given numbers of type %d", (int)type);
    }
}

const float *half_table(void)
{
    static const std::vector<float> *table = [] {
        auto *t = new std::vector<float>(65536);

        for (unsigned i = 0; i < 65536; i++) {
            __half_raw raw;

            raw.x = (unsigned short)i;
            (*t)[i] = __half2float(__half(raw));
        }
        return t;
    }();
    return table->data();
}

const float *e4m3_table(void)
{
    static const std::vector<float> *table = [] {
        auto *t = new std::vector<float>(256);

        for (unsigned i = 0; i < 256; i++)
            (*t)[i] =
                __half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)i, __NV_E4M3)));
        return t;
    }();
    return table->data();
}

void to_float(float *dst, const void *src, cudaDataType_t type, size_t n, size_t step)
{
    const uint16_t *h = (const uint16_t *)src;
    const float *table;

    switch (type) {
    case CUDA_R_32F:
        for (size_t i = 0; i < n; i++)
            dst[i] = ((const float *)src)[i * step];
        break;
    case CUDA_R_16F:
        table = half_table();
        for (size_t i = 0; i < n; i++)
            dst[i] = table[h[i * step]];
        break;
    case CUDA_R_16BF:
        for (size_t i = 0; i < n; i++)
            dst[i] = from_bits<float>((uint64_t)h[i * step] << 16);
        break;
    case CUDA_R_8F_E4M3:
        table = e4m3_table();
        for (size_t i = 0; i < n; i++)
            dst[i] = table[((const uint8_t *)src)[i * step]];
        break;
    default:
        fail("a library's double was given numbers of type %d", (int)type);
    }
}

float one_to_float(const void *src, cudaDataType_t type, size_t i)
{
    float x;

    to_float(&x, (const char *)src + i * number_size(type), type, 1, 1);
    return x;
}

void from_float(void *dst, cudaDataType_t type, size_t i, float x)
{
    switch (type) {
    case CUDA_R_32F:
        ((float *)dst)[i] = x;
        break;
    case CUDA_R_16F:
        ((__half *)dst)[i] = __float2half(x);
        break;
    case CUDA_R_16BF:
        ((__nv_bfloat16 *)dst)[i] = __float2bfloat16(x);
        break;
    default:
        fail("a library's double was asked for numbers of type %d", (int)type);
    }
}

float to_tf32(float x)
{
    uint32_t b = (uint32_t)bits(x);

    if ((b & 0x7f800000u) == 0x7f800000u)
        return x;
    return from_bits<float>((b + 0xfffu + (b >> 13 & 1)) & ~0x1fffu);
}

namespace
{
enum { MR = 16, NR = 6, KC = 256 };
typedef float v8 __attribute__((vector_size(32), aligned(4)));

/* c[NR][MR] = sum of a[k][MR] b[k][NR]. */
__attribute__((always_inline)) inline void tile(const float *a, const float *b, int64_t k, float *c)
{
    v8 sum[NR][2] = {};

    for (int64_t l = 0; l < k; l++) {
        v8 a0 = *(const v8 *)(a + l * MR), a1 = *(const v8 *)(a + l * MR + 8);

#pragma GCC unroll 6
        for (int j = 0; j < NR; j++) {
            sum[j][0] += a0 * b[l * NR + j];
            sum[j][1] += a1 * b[l * NR + j];
        }
    }
    for (int j = 0; j < NR; j++) {
        *(v8 *)(c + j * MR) = sum[j][0];
        *(v8 *)(c + j * MR + 8) = sum[j][1];
    }
}

void tile_plain(const float *a, const float *b, int64_t k, float *c) { tile(a, b, k, c); }
#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) void tile_avx2(const float *a, const float *b, int64_t k,
                                                   float *c)
{
    tile(a, b, k, c);
}
#endif

auto best_tile(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return tile_avx2;
#endif
    return tile_plain;
}

/* x [rows][k] as panels of `width` rows: [panel][k][width], zeros beyond the last row. */
std::vector<float> pack(const float *x, int64_t rows, int64_t k, int64_t width)
{
    int64_t panels = (rows + width - 1) / width;
    std::vector<float> packed((size_t)(panels * width * k));

#pragma omp parallel for num_threads(2) if (rows * k > 100000)
    for (int64_t p = 0; p < panels; p++) {
        float *to = &packed[(size_t)(p * width * k)];

        for (int64_t r = 0; r < std::min(width, rows - p * width); r++)
            for (int64_t l = 0; l < k; l++)
                to[l * width + r] = x[(p * width + r) * k + l];
    }
    return packed;
}

/* Few columns: nothing to gain from packing. */
void product_thin(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k)
{
#pragma omp parallel for num_threads(2) if (m * n * k > 100000)
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float lanes[16] = {}, sum = 0.0f;
            int64_t l = 0;

            for (; l + 16 <= k; l += 16)
                for (int t = 0; t < 16; t++)
                    lanes[t] += a[i * k + l + t] * b[j * k + l + t];
            for (; l < k; l++)
                sum += a[i * k + l] * b[j * k + l];
            for (int t = 0; t < 16; t++)
                sum += lanes[t];
            c[j * m + i] = sum;
        }
}
} // namespace

void product(const float *a, const float *b, float *c, int64_t m, int64_t n, int64_t k)
{
    auto run = best_tile();
    int64_t across = (m + MR - 1) / MR, down = (n + NR - 1) / NR;
    std::vector<float> pa, pb;

    if (n <= 4) {
        product_thin(a, b, c, m, n, k);
        return;
    }
    pa = pack(a, m, k, MR);
    pb = pack(b, n, k, NR);
#pragma omp parallel for num_threads(2) schedule(dynamic, 4) if (m * n * k > 100000)
    for (int64_t q = 0; q < down; q++) {
        int64_t wide = std::min<int64_t>(NR, n - q * NR);
        float out[MR * NR];

        for (int64_t p = 0; p < across; p++) {
            int64_t high = std::min<int64_t>(MR, m - p * MR);

            for (int64_t l = 0; l < k; l += KC) {
                run(&pa[(size_t)((p * k + l) * MR)], &pb[(size_t)((q * k + l) * NR)],
                    std::min<int64_t>(KC, k - l), out);
                for (int64_t j = 0; j < wide; j++)
                    for (int64_t i = 0; i < high; i++) {
                        float *at = &c[(q * NR + j) * m + p * MR + i];

                        *at = out[j * MR + i] + (l > 0 ? *at : 0.0f);
                    }
            }
        }
    }
}

void product_int8(const int8_t *a, int64_t lda, const int8_t *b, int64_t ldb, int32_t *c,
                  int64_t ldc, int64_t m, int64_t n, int64_t k)
{
#pragma omp parallel for num_threads(2) if (m * n * k > 100000)
    for (int64_t j = 0; j < n; j++)
        for (int64_t i = 0; i < m; i++) {
            const int8_t *pa = a + i * lda, *pb = b + j * ldb;
            int32_t sum = 0;

            for (int64_t l = 0; l < k; l++)
                sum += (int16_t)pa[l] * (int16_t)pb[l];
            c[j * ldc + i] = sum;
        }
}
} // namespace emulated
