/* gpu/cuda/kernels/launch.h - what every kernel file includes first: CUDA's headers and the launch.
 *
 * LAUNCH(kernel, grid, block, shared_bytes, stream)(arguments ...): `kernel` is a name or a pointer
 * to a kernel (for a template with commas, put it in an `auto` first). It is the only way in which
 * kernels are started, because the emulator of tests/cuda compiles the same files for the
 * processor, with its own. So has DYNAMIC_SHARED(type, name), a pointer to the launch's
 * shared_bytes, aligned to 16. */
#ifndef NIGHTSHIFT_GPU_CUDA_KERNELS_LAUNCH_H
#define NIGHTSHIFT_GPU_CUDA_KERNELS_LAUNCH_H

#ifdef NIGHTSHIFT_EMULATED
#include <emulated.h> /* of tests/cuda/emulator */

#define DYNAMIC_SHARED(type, name) EMULATED_DYNAMIC_SHARED(type, name)
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#define LAUNCH(kernel, grid, block, shared_bytes, stream) \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>
#define DYNAMIC_SHARED(type, name) extern __shared__ __align__(16) type name[]
#endif

#include <cfloat>
#include <cmath>

#include "gpu/cuda/kernels.h"

#endif
