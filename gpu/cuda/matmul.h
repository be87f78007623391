/* gpu/cuda/matmul.h - what matmul.c and algorithms.c share: a prepared product. */
#ifndef NIGHTSHIFT_GPU_CUDA_MATMUL_H
#define NIGHTSHIFT_GPU_CUDA_MATMUL_H

#include "gpu/cuda/cuda.h"

#define HEURISTICS 8 /* candidates to ask for */

/* A plan depends on these values. Zeroed as a whole, and compared as bytes. */
struct plan_key {
    int64_t rows, out, in, x_stride, w_stride, y_stride, batch, x_step, w_step, y_step;
    int32_t type, y_type, tf32, w_by_input, epilogue, biased;
    int32_t x_align, w_align, y_align, scaled;
};

struct plan {
    struct plan_key key;
    cublasStatus_t refused; /* why cuBLASLt has none for this key; SUCCESS: it has. Nothing below
                               is there then */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t x, w, y;
    cublasLtMatmulAlgo_t algo;
};

/* Puts the product on the stream, by this algorithm. */
cublasStatus_t matmul_run(struct cuda *c, const struct product *p, const struct plan *plan,
                          const cublasLtMatmulAlgo_t *algo);

/* --- algorithms.c: which of cuBLASLt's algorithms computes it ------------------------------- */

/* Whether one is remembered for plan->key that cuBLASLt still takes: then it is the plan's. */
bool algorithms_find(struct cuda *c, struct plan *plan);
/* Chooses the plan's algorithm from candidates that fit (n > 0, the heuristic's first one first);
 * in a rehearsal the fastest, which is remembered. Its runs leave y as if the product had been
 * asked for many times. Not SUCCESS: the device failed. */
cublasStatus_t algorithms_choose(struct cuda *c, const struct product *p, struct plan *plan,
                                 const cublasLtMatmulAlgo_t *found, int n);
void algorithms_free(struct cuda *c);

#endif
