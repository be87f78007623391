/* A libcublasLt that names a version and does nothing. -DVERSION=130000 as cublasLtGetVersion says
 * it; -DLACKS_MATMUL: without the function that matters. Calling anything else ends the process:
 * nothing may be called in a library that does not fit. */
#include "tests/cuda/broken/fake.h"

size_t cublasLtGetVersion(void);
size_t cublasLtGetVersion(void) { return VERSION; }

NEVER(cublasLtCreate)
NEVER(cublasLtDestroy)
NEVER(cublasLtMatmulDescCreate)
NEVER(cublasLtMatmulDescDestroy)
NEVER(cublasLtMatmulDescSetAttribute)
NEVER(cublasLtMatrixLayoutCreate)
NEVER(cublasLtMatrixLayoutDestroy)
NEVER(cublasLtMatrixLayoutSetAttribute)
NEVER(cublasLtMatmulPreferenceCreate)
NEVER(cublasLtMatmulPreferenceDestroy)
NEVER(cublasLtMatmulPreferenceSetAttribute)
NEVER(cublasLtMatmulAlgoGetHeuristic)
NEVER(cublasLtMatmulAlgoCheck)
#ifndef LACKS_MATMUL
NEVER(cublasLtMatmul)
#endif
