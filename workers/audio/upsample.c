/* A filter that cuts at half of the old rate is zero at every third tap but the middle one: samples
 * pass as they are, and the two phases between them mirror each other. */
#include "workers/audio/upsample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"

#define SIDE 64 /* samples of the old rate to each side */
#define BETA 12.0
#define PI 3.14159265358979323846
#define BLOCK 512 /* samples that are made at once */

/* The values between BLOCK samples and their next ones. tap: [2 SIDE]; near: [2 SIDE + BLOCK], the
 * first sample at SIDE - 1, zeros where there is none; third, two_thirds: [BLOCK]. */
typedef void (*interpolate_fn)(const float *tap, const float *near, float *third,
                               float *two_thirds);

struct upsampler {
    float tap[2 * SIDE]; /* of a third of a sample after a sample: x[i - SIDE + 1 ..] */
    interpolate_fn interpolate;
};

/* ---- sums, in registers of the instruction set's own width: four at a time, so that none waits
 * for the one before */

typedef float v4 __attribute__((vector_size(16), aligned(4), may_alias));
#if defined(__x86_64__)
typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
#endif

#define WIDTH(v) (sizeof(v) / sizeof(float))
#define AT(v, p, i) (*(v *)((p) + (i)*WIDTH(v)))
#define INTERPOLATE(name, v, target)                                                         \
    target static void interpolate_##name(const float *tap, const float *near, float *third, \
                                          float *two_thirds)                                 \
    {                                                                                        \
        for (size_t i = 0; i < BLOCK; i += 4 * WIDTH(v)) {                                   \
            v a = {0}, b = {0}, c = {0}, d = {0}, e = {0}, f = {0}, g = {0}, h = {0};        \
                                                                                             \
            for (size_t k = 0; k < 2 * SIDE; k++) {                                          \
                const float one = tap[k], two = tap[2 * SIDE - 1 - k];                       \
                const float *from = near + i + k;                                            \
                const v x = AT(const v, from, 0), y = AT(const v, from, 1);                  \
                const v z = AT(const v, from, 2), w = AT(const v, from, 3);                  \
                                                                                             \
                a += one * x;                                                                \
                b += one * y;                                                                \
                c += one * z;                                                                \
                d += one * w;                                                                \
                e += two * x;                                                                \
                f += two * y;                                                                \
                g += two * z;                                                                \
                h += two * w;                                                                \
            }                                                                                \
            AT(v, third + i, 0) = a;                                                         \
            AT(v, third + i, 1) = b;                                                         \
            AT(v, third + i, 2) = c;                                                         \
            AT(v, third + i, 3) = d;                                                         \
            AT(v, two_thirds + i, 0) = e;                                                    \
            AT(v, two_thirds + i, 1) = f;                                                    \
            AT(v, two_thirds + i, 2) = g;                                                    \
            AT(v, two_thirds + i, 3) = h;                                                    \
        }                                                                                    \
    }

INTERPOLATE(plain, v4, )
#if defined(__x86_64__)
INTERPOLATE(avx2, v8, __attribute__((target("avx2,fma"))))
INTERPOLATE(avx512, v16, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw,fma"))))
#endif
_Static_assert(BLOCK % 64 == 0, "a block is made of whole registers");

static interpolate_fn choose_interpolation(void)
{
#if defined(__x86_64__)
    static const interpolate_fn all[] = {interpolate_plain, interpolate_avx2, interpolate_avx512,
                                         interpolate_avx512};

    return all[cpu_isa()];
#else
    return interpolate_plain;
#endif
}

/* ---- the filter */

/* The modified Bessel function of order 0, by its series. */
static double bessel(double x)
{
    double sum = 1.0, term = 1.0;

    for (int k = 1; term > 1e-17 * sum; k++) {
        term *= (x / (2.0 * k)) * (x / (2.0 * k));
        sum += term;
    }
    return sum;
}

/* The filter `at` samples from its middle. */
static double evaluate_sinc_filter(double at)
{
    double edge = at / SIDE;

    if (edge <= -1.0 || edge >= 1.0)
        return 0.0;
    return sin(PI * at) / (PI * at) * bessel(BETA * sqrt(1.0 - edge * edge)) / bessel(BETA);
}

int upsampler_new(struct upsampler **ret, struct err *err)
{
    struct upsampler *u = calloc(1, sizeof(*u));
    double tap[2 * SIDE], sum = 0.0;

    if (!u)
        return err_set(err, ERR_NOMEM, "no memory for a resampler");
    for (int k = 0; k < 2 * SIDE; k++)
        sum += tap[k] = evaluate_sinc_filter(k - (SIDE - 1) - 1.0 / UPSAMPLE_BY);
    for (int k = 0; k < 2 * SIDE; k++)
        u->tap[k] = (float)(tap[k] / sum); /* a constant stays one */
    u->interpolate = choose_interpolation();
    *ret = u;
    return 0;
}

void upsampler_free(struct upsampler *u) { free(u); }

/* The samples around [from, from + BLOCK), as interpolate_fn wants them. */
static void gather_near(const float *pcm, size_t n, size_t from, float *near)
{
    const size_t before = from < SIDE - 1 ? from : SIDE - 1, begin = from - before;
    const size_t lack = SIDE - 1 - before, most = 2 * SIDE + BLOCK - lack;
    const size_t count = n - begin < most ? n - begin : most;

    memset(near, 0, lack * sizeof(*near));
    memcpy(near + lack, pcm + begin, count * sizeof(*near));
    memset(near + lack + count, 0, (most - count) * sizeof(*near));
}

void upsample(const struct upsampler *u, const float *pcm, size_t n, float *ret)
{
    float near[2 * SIDE + BLOCK], third[BLOCK], two_thirds[BLOCK];

    for (size_t from = 0; from < n; from += BLOCK) {
        size_t count = n - from < BLOCK ? n - from : BLOCK;

        gather_near(pcm, n, from, near);
        u->interpolate(u->tap, near, third, two_thirds);
        for (size_t i = 0; i < count; i++) {
            ret[3 * (from + i)] = pcm[from + i];
            ret[3 * (from + i) + 1] = third[i];
            ret[3 * (from + i) + 2] = two_thirds[i];
        }
    }
}
