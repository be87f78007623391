/* gpu/cuda/kernels/launch.h - what every kernel file includes first: CUDA's headers and the launch.
 *
 * LAUNCH(kernel, grid, block, shared_bytes, stream)(arguments ...): `kernel` is a name or a pointer
 * to a kernel (for a template with commas, put it in an `auto` first). It is the only way in which
 * kernels are started, because the emulator of tests/cuda compiles the same files for the
 * processor, with its own. */
#ifndef NIGHTSHIFT_GPU_CUDA_KERNELS_LAUNCH_H
#define NIGHTSHIFT_GPU_CUDA_KERNELS_LAUNCH_H

#ifdef NIGHTSHIFT_EMULATED
#include <emulated.h> /* of tests/cuda/emulator */
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#define LAUNCH(kernel, grid, block, shared_bytes, stream) \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>
#endif

#include <cfloat>
#include <cmath>

#include "gpu/cuda/kernels.h"

#endif
