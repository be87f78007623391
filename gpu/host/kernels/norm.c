/* Layer norm over one row, and rounding to bf16. */
#include "gpu/host/kernels/isa.h"
#include "gpu/host/vec.h"

void KERNEL(to_bf16)(uint16_t *dst, const float *src, size_t n)
{
    size_t i = 0;

    for (; i + LANES <= n; i += LANES)
        r_store_bf16(dst + i, r_load(src + i));
    for (; i < n; i++)
        dst[i] = f32_to_bf16(src[i]);
}

/* Sum of (x - shift)^power over n values, n a multiple of 16 or not. */
INLINE float spread(const float *x, size_t n, float shift, bool square)
{
    v16 acc = v_all(0.0f), d;
    float tail = 0.0f, e;
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        d = v_load(x + i) - v_all(shift);
        acc += square ? d * d : d;
    }
    for (; i < n; i++) {
        e = x[i] - shift;
        tail += square ? e * e : e;
    }
    return v_sum(acc) + tail;
}

void KERNEL(norm)(const float *x, const float *gamma, const float *beta, size_t n, float epsilon,
                  void *y, bool bf16)
{
    float mean = spread(x, n, 0.0f, false) / (float)n;
    float scale = 1.0f / __builtin_sqrtf(spread(x, n, mean, true) / (float)n + epsilon);
    size_t i = 0;

    for (; i + 16 <= n; i += 16) {
        v16 r = (v_load(x + i) - v_all(mean)) * v_all(scale) * v_load(gamma + i) + v_load(beta + i);

        if (bf16) {
            float t[16];

            v_store(t, r);
            for (int j = 0; j < 16; j += LANES)
                r_store_bf16((uint16_t *)y + i + j, r_load(t + j));
        } else {
            v_store((float *)y + i, r);
        }
    }
    for (; i < n; i++) {
        float r = (x[i] - mean) * scale * gamma[i] + beta[i];

        if (bf16)
            ((uint16_t *)y)[i] = f32_to_bf16(r);
        else
            ((float *)y)[i] = r;
    }
}
