/* tests/cuda/emulator/emulated.h - what a .cu file needs to be compiled by a host compiler and run
 * on the processor: g++ -x c++ -std=c++17 -DNIGHTSHIFT_EMULATED.
 *
 * A double for tests. It shows what a kernel computes: indices, masks, reductions, barriers that
 * not every thread reaches. It shows nothing of speed, of memory ordering or of the hardware.
 *
 * Blocks run one after the other, on one thread of the host; the threads of a block are fibers that
 * switch at barriers and warp collectives only. What CUDA leaves undefined ends the program with
 * the kernel's name: a barrier that some threads of the block do not reach, a collective whose mask
 * names a lane that has exited or is somewhere else, a shuffle from a lane that takes no part,
 * launches beyond the limits of a device. Shared memory is filled with NaN before every block.
 *
 * Not here: textures, surfaces, cooperative groups, dynamic parallelism, inline PTX, __activemask
 * (its result is no promise on a device either). __CUDA_ARCH__ is not defined. */
#ifndef NIGHTSHIFT_TESTS_CUDA_EMULATED_H
#define NIGHTSHIFT_TESTS_CUDA_EMULATED_H

#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>

#include <vector_functions.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __shared__
#undef __managed__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __constant__
#define __grid_constant__
/* A function's own static variables are shared memory here, and nothing else: the linker gathers
 * them (shared.ld), so that they can be filled with NaN before each block. */
#define __shared__ static
#define __launch_bounds__(...)
#undef __forceinline__
#define __forceinline__ inline __attribute__((always_inline))
#ifndef __restrict__
#define __restrict__ __restrict
#endif

extern "C" {
/* The shared memory of the module that this is compiled into; see shared.ld. */
extern char nightshift_emulated_shared_begin[] __attribute__((weak, visibility("hidden")));
extern char nightshift_emulated_shared_end[] __attribute__((weak, visibility("hidden")));
}

namespace emulated
{
struct launch_spec {
    const char *name;   /* of the kernel, for messages */
    const void *kernel; /* as cudaFuncSetAttribute knows it */
    dim3 grid, block;
    size_t shared; /* bytes of dynamic shared memory */
    cudaStream_t stream;
    char *shared_begin, *shared_end; /* static shared memory of the module */
};

/* Queues the grid on its stream; `thread` is called once for each thread. */
void launch(const launch_spec &spec, std::function<void()> thread);
/* Where the current thread is. Only inside a kernel. */
extern uint3 thread_idx, block_idx;
extern dim3 block_dim, grid_dim;
/* The block's dynamic shared memory, 1024-byte aligned. */
void *dynamic_shared(void);

enum collective {
    SYNC_WARP,
    SHUFFLE,
    BALLOT,
    MATCH,
    REDUCE_ADD,
    REDUCE_MIN,
    REDUCE_MAX,
    REDUCE_OR
};
enum { BARRIER, BARRIER_AND, BARRIER_OR, BARRIER_COUNT };

int barrier(int kind, int predicate, const char *file, int line);
/* Waits for the lanes of mask. value: 8 bytes of each lane; returns what this lane receives. */
uint64_t meet(unsigned mask, collective what, uint64_t value, unsigned source, const char *file,
              int line);
[[noreturn]] void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
unsigned lane(void);

template <class... P> struct prepared {
    void (*kernel)(P...);
    launch_spec spec;

    template <class... A> void operator()(A &&...args) const
    {
        std::tuple<std::decay_t<P>...> values(static_cast<P>(args)...);
        auto k = kernel;

        launch(spec, [k, values] { std::apply(k, values); });
    }
};

template <class... P>
prepared<P...> prepare(const char *name, void (*kernel)(P...), dim3 grid, dim3 block, size_t shared,
                       cudaStream_t stream)
{
    return {kernel,
            {name, reinterpret_cast<const void *>(kernel), grid, block, shared, stream,
             nightshift_emulated_shared_begin, nightshift_emulated_shared_end}};
}

template <class T> uint64_t bits(T x)
{
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "at most 8 bytes");
    uint64_t r = 0;
    std::memcpy(&r, &x, sizeof(x));
    return r;
}

template <class T> T from_bits(uint64_t b)
{
    T r;
    std::memcpy(&r, &b, sizeof(r));
    return r;
}
} // namespace emulated

/* LAUNCH(kernel, grid, block, shared, stream)(arguments): kernel<<<grid, block, shared, stream>>>.
 * A kernel whose name has a comma goes in parentheses. */
#define LAUNCH(kernel, grid, block, shared, stream) \
    ::emulated::prepare(#kernel, kernel, grid, block, shared, stream)
/* extern __shared__ type name[]; */
#define EMULATED_DYNAMIC_SHARED(type, name) \
    type *name = static_cast<type *>(::emulated::dynamic_shared())

#define threadIdx (::emulated::thread_idx)
#define blockIdx (::emulated::block_idx)
#define blockDim (::emulated::block_dim)
#define gridDim (::emulated::grid_dim)
enum { warpSize = 32 };

#define EMULATED_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

static inline void __syncthreads(EMULATED_HERE)
{
    ::emulated::barrier(::emulated::BARRIER, 0, file, line);
}
static inline int __syncthreads_and(int p, EMULATED_HERE)
{
    return ::emulated::barrier(::emulated::BARRIER_AND, p, file, line);
}
static inline int __syncthreads_or(int p, EMULATED_HERE)
{
    return ::emulated::barrier(::emulated::BARRIER_OR, p, file, line);
}
static inline int __syncthreads_count(int p, EMULATED_HERE)
{
    return ::emulated::barrier(::emulated::BARRIER_COUNT, p, file, line);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu, EMULATED_HERE)
{
    ::emulated::meet(mask, ::emulated::SYNC_WARP, 0, 0, file, line);
}

template <class T>
static inline T __shfl_sync(unsigned mask, T x, int source, int width = 32, EMULATED_HERE)
{
    unsigned l = ::emulated::lane(), w = (unsigned)width;
    unsigned from = (l & ~(w - 1)) + ((unsigned)source & (w - 1));

    return ::emulated::from_bits<T>(
        ::emulated::meet(mask, ::emulated::SHUFFLE, ::emulated::bits(x), from, file, line));
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T x, int with, int width = 32, EMULATED_HERE)
{
    unsigned l = ::emulated::lane(), w = (unsigned)width, from = l ^ (unsigned)with;

    if (from >= (l & ~(w - 1)) + w)
        from = l;
    return ::emulated::from_bits<T>(
        ::emulated::meet(mask, ::emulated::SHUFFLE, ::emulated::bits(x), from, file, line));
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32, EMULATED_HERE)
{
    unsigned l = ::emulated::lane(), w = (unsigned)width;
    unsigned from = (l & (w - 1)) >= by ? l - by : l;

    return ::emulated::from_bits<T>(
        ::emulated::meet(mask, ::emulated::SHUFFLE, ::emulated::bits(x), from, file, line));
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32, EMULATED_HERE)
{
    unsigned l = ::emulated::lane(), w = (unsigned)width;
    unsigned from = (l & (w - 1)) + by < w ? l + by : l;

    return ::emulated::from_bits<T>(
        ::emulated::meet(mask, ::emulated::SHUFFLE, ::emulated::bits(x), from, file, line));
}
static inline unsigned __ballot_sync(unsigned mask, int p, EMULATED_HERE)
{
    return (unsigned)::emulated::meet(mask, ::emulated::BALLOT, p != 0, 0, file, line);
}
static inline int __any_sync(unsigned mask, int p, EMULATED_HERE)
{
    return ::emulated::meet(mask, ::emulated::BALLOT, p != 0, 0, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int p, EMULATED_HERE)
{
    return (unsigned)::emulated::meet(mask, ::emulated::BALLOT, p != 0, 0, file, line) == mask;
}
template <class T> static inline unsigned __match_any_sync(unsigned mask, T x, EMULATED_HERE)
{
    return (unsigned)::emulated::meet(mask, ::emulated::MATCH, ::emulated::bits(x), 0, file, line);
}
/* Signed and unsigned 32-bit values; carried as 64 bits, so that their order is right. */
template <class T> static inline T __reduce_add_sync(unsigned mask, T x, EMULATED_HERE)
{
    return (T)::emulated::meet(mask, ::emulated::REDUCE_ADD, (uint64_t)(int64_t)x, 0, file, line);
}
template <class T> static inline T __reduce_min_sync(unsigned mask, T x, EMULATED_HERE)
{
    return (T)::emulated::meet(mask, ::emulated::REDUCE_MIN, (uint64_t)(int64_t)x, 0, file, line);
}
template <class T> static inline T __reduce_max_sync(unsigned mask, T x, EMULATED_HERE)
{
    return (T)::emulated::meet(mask, ::emulated::REDUCE_MAX, (uint64_t)(int64_t)x, 0, file, line);
}
template <class T> static inline T __reduce_or_sync(unsigned mask, T x, EMULATED_HERE)
{
    return (T)::emulated::meet(mask, ::emulated::REDUCE_OR, (uint64_t)(int64_t)x, 0, file, line);
}

#include "tests/cuda/emulator/intrinsics.h"

#endif
