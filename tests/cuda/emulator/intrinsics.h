/* tests/cuda/emulator/intrinsics.h - device functions that need no other thread. Part of
 * emulated.h. Approximate ones (__expf) are the exact ones here: their error is the hardware's. */
#ifndef NIGHTSHIFT_TESTS_CUDA_INTRINSICS_H
#define NIGHTSHIFT_TESTS_CUDA_INTRINSICS_H

/* Memory. Blocks run one after the other and fibers do not preempt: a plain update is atomic. */
template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldca(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline T __ldlu(const T *p) { return *p; }
template <class T> static inline T __ldcv(const T *p) { return *p; }
template <class T> static inline void __stwb(T *p, T x) { *p = x; }
template <class T> static inline void __stcg(T *p, T x) { *p = x; }
template <class T> static inline void __stcs(T *p, T x) { *p = x; }
template <class T> static inline void __stwt(T *p, T x) { *p = x; }
static inline void __threadfence(void) {}
static inline void __threadfence_block(void) {}
static inline void __threadfence_system(void) {}
static inline void __nanosleep(unsigned) {}
[[noreturn]] static inline void __trap(void) { ::emulated::fail("__trap was called"); }

namespace emulated
{
template <class T> using plain = typename std::common_type<T>::type; /* keeps it from deduction */
}
template <class T> static inline T atomicAdd(T *p, ::emulated::plain<T> x)
{
    T old = *p;
    *p = old + x;
    return old;
}
template <class T> static inline T atomicSub(T *p, ::emulated::plain<T> x)
{
    T old = *p;
    *p = old - x;
    return old;
}
template <class T> static inline T atomicMax(T *p, ::emulated::plain<T> x)
{
    T old = *p;
    *p = old < x ? x : old;
    return old;
}
template <class T> static inline T atomicMin(T *p, ::emulated::plain<T> x)
{
    T old = *p;
    *p = x < old ? x : old;
    return old;
}
template <class T> static inline T atomicOr(T *p, ::emulated::plain<T> x)
{
    T old = *p;
    *p = old | x;
    return old;
}
template <class T> static inline T atomicAnd(T *p, ::emulated::plain<T> x)
{
    T old = *p;
    *p = old & x;
    return old;
}
template <class T> static inline T atomicExch(T *p, ::emulated::plain<T> x)
{
    T old = *p;
    *p = x;
    return old;
}
template <class T>
static inline T atomicCAS(T *p, ::emulated::plain<T> compare, ::emulated::plain<T> x)
{
    T old = *p;
    if (old == compare)
        *p = x;
    return old;
}
static inline unsigned atomicInc(unsigned *p, unsigned limit)
{
    unsigned old = *p;
    *p = old >= limit ? 0 : old + 1;
    return old;
}

/* Bits. */
static inline int __float_as_int(float x)
{
    return ::emulated::from_bits<int>(::emulated::bits(x));
}
static inline unsigned __float_as_uint(float x)
{
    return ::emulated::from_bits<unsigned>(::emulated::bits(x));
}
static inline float __int_as_float(int x)
{
    return ::emulated::from_bits<float>(::emulated::bits(x));
}
/* Byte i of the result is the byte of (y, x) that nibble i of s names, by its three low bits. */
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned s)
{
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned r = 0;

    for (unsigned i = 0; i < 4; i++)
        r |= (unsigned)(both >> (s >> 4 * i & 7u) * 8 & 255u) << 8 * i;
    return r;
}
static inline float __uint_as_float(unsigned x)
{
    return ::emulated::from_bits<float>(::emulated::bits(x));
}
static inline long long __double_as_longlong(double x)
{
    return ::emulated::from_bits<long long>(::emulated::bits(x));
}
static inline double __longlong_as_double(long long x)
{
    return ::emulated::from_bits<double>(::emulated::bits(x));
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
static inline int __clzll(long long x)
{
    return x == 0 ? 64 : __builtin_clzll((unsigned long long)x);
}
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __ffsll(long long x) { return __builtin_ffsll(x); }
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)(((uint64_t)a * b) >> 32);
}
static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; i++)
        c += (int8_t)((unsigned)a >> (8 * i)) * (int8_t)((unsigned)b >> (8 * i));
    return c;
}

/* Arithmetic. The first are macros, since the C library has functions of these names inside. */
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanhf(x) tanhf(x)
#define __powf(x, y) powf(x, y)
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frsqrt_rn(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float sinpif(float x) { return (float)sin(M_PI * fmod((double)x, 2.0)); }
static inline float cospif(float x) { return (float)cos(M_PI * fmod((double)x, 2.0)); }
static inline double sinpi(double x) { return sin(M_PI * fmod(x, 2.0)); }
static inline double cospi(double x) { return cos(M_PI * fmod(x, 2.0)); }
static inline void sincospif(float x, float *s, float *c)
{
    *s = sinpif(x);
    *c = cospif(x);
}
static inline void sincospi(double x, double *s, double *c)
{
    *s = sinpi(x);
    *c = cospi(x);
}
static inline float normcdff(float x) { return (float)(0.5 * erfc(-(double)x * M_SQRT1_2)); }

/* To whole numbers: NaN gives 0 and what does not fit its nearest bound, as the device does it. */
namespace emulated
{
static inline int to_int(double x)
{
    return x != x ? 0 : x >= 2147483647.0 ? 2147483647 : x <= -2147483648.0 ? INT32_MIN : (int)x;
}
static inline unsigned to_uint(double x)
{
    return !(x > 0.0) ? 0u : x >= 4294967295.0 ? 4294967295u : (unsigned)x;
}
} // namespace emulated
static inline int __float2int_rn(float x) { return ::emulated::to_int(nearbyint((double)x)); }
static inline int __float2int_rz(float x) { return ::emulated::to_int(trunc((double)x)); }
static inline int __float2int_rd(float x) { return ::emulated::to_int(floor((double)x)); }
static inline int __float2int_ru(float x) { return ::emulated::to_int(ceil((double)x)); }
static inline int __double2int_rn(double x) { return ::emulated::to_int(nearbyint(x)); }
static inline int __double2int_rz(double x) { return ::emulated::to_int(trunc(x)); }
static inline unsigned __float2uint_rn(float x)
{
    return ::emulated::to_uint(nearbyint((double)x));
}
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __double2float_rn(double x) { return (float)x; }

/* CUDA's min and max take any pair of numbers. */
#define EMULATED_MINMAX(type)                                        \
    static inline type min(type a, type b) { return b < a ? b : a; } \
    static inline type max(type a, type b) { return a < b ? b : a; }
EMULATED_MINMAX(int)
EMULATED_MINMAX(unsigned)
EMULATED_MINMAX(long)
EMULATED_MINMAX(unsigned long)
EMULATED_MINMAX(long long)
EMULATED_MINMAX(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

using std::isfinite;
using std::isinf;
using std::isnan;

#endif
