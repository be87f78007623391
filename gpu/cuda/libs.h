/* gpu/cuda/libs.h - cuBLASLt and cuDNN, opened at run time: which files were taken, and the
 * functions of theirs that the module uses (all of them; nothing else of theirs is called).
 *
 * A directory is searched for cuBLASLt and cuDNN each by itself, in this order:
 *   1. $NIGHTSHIFT_CUDA_LIBS, 2. the module's own directory, 3. the loader's own search,
 *   4. /usr/local/cuda/lib64, /usr/local/cuda-*, their lib/, /usr/lib/x86_64-linux-gnu.
 * The first file that is there decides: a broken library is reported, not passed over, because the
 * user seldom means the next one on the path.
 *
 * cuDNN is a small library that opens seven others by name when they are needed. They are opened
 * here first, from its own directory, so that a second copy elsewhere on the path cannot be mixed
 * in, and so that a missing one is found at the start.
 *
 * Some of cuDNN's kernels are compiled when they are needed, by NVRTC, which cuDNN opens by name.
 * So that it is found where the others are, it is opened before cuDNN's parts, from the same
 * places; nothing of it is called here, and without it cuDNN has the rest of its kernels.
 *
 * Built without cuDNN's headers (NIGHTSHIFT_CUDNN 0), the module has no fused attention and needs
 * no cuDNN. */
#ifndef NIGHTSHIFT_GPU_CUDA_LIBS_H
#define NIGHTSHIFT_GPU_CUDA_LIBS_H

#include <cublasLt.h>
#if NIGHTSHIFT_CUDNN
#include <cudnn.h>
#endif

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define CUDNN_LEAST 91301 /* 9.13.1: the fused attention as one operation */
#define CUDNN_WANTED "9.13.1 or a later 9.x"
#define LIBS_DIRECTORY "NIGHTSHIFT_CUDA_LIBS" /* environment: where to look first */

/* X(return type, name, arguments) */
#define LIBS_CUBLASLT(X)                                                                           \
    X(size_t, cublasLtGetVersion, (void))                                                          \
    X(cublasStatus_t, cublasLtCreate, (cublasLtHandle_t *))                                        \
    X(cublasStatus_t, cublasLtDestroy, (cublasLtHandle_t))                                         \
    X(cublasStatus_t, cublasLtMatmulDescCreate,                                                    \
      (cublasLtMatmulDesc_t *, cublasComputeType_t, cudaDataType_t))                               \
    X(cublasStatus_t, cublasLtMatmulDescDestroy, (cublasLtMatmulDesc_t))                           \
    X(cublasStatus_t, cublasLtMatmulDescSetAttribute,                                              \
      (cublasLtMatmulDesc_t, cublasLtMatmulDescAttributes_t, const void *, size_t))                \
    X(cublasStatus_t, cublasLtMatrixLayoutCreate,                                                  \
      (cublasLtMatrixLayout_t *, cudaDataType, uint64_t, uint64_t, int64_t))                       \
    X(cublasStatus_t, cublasLtMatrixLayoutDestroy, (cublasLtMatrixLayout_t))                       \
    X(cublasStatus_t, cublasLtMatrixLayoutSetAttribute,                                            \
      (cublasLtMatrixLayout_t, cublasLtMatrixLayoutAttribute_t, const void *, size_t))             \
    X(cublasStatus_t, cublasLtMatmulPreferenceCreate, (cublasLtMatmulPreference_t *))              \
    X(cublasStatus_t, cublasLtMatmulPreferenceDestroy, (cublasLtMatmulPreference_t))               \
    X(cublasStatus_t, cublasLtMatmulPreferenceSetAttribute,                                        \
      (cublasLtMatmulPreference_t, cublasLtMatmulPreferenceAttributes_t, const void *, size_t))    \
    X(cublasStatus_t, cublasLtMatmulAlgoGetHeuristic,                                              \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,     \
       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,            \
       cublasLtMatmulHeuristicResult_t[], int *))                                                  \
    X(cublasStatus_t, cublasLtMatmulAlgoCheck,                                                     \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,     \
       cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *,               \
       cublasLtMatmulHeuristicResult_t *))                                                         \
    X(cublasStatus_t, cublasLtMatmul,                                                              \
      (cublasLtHandle_t, cublasLtMatmulDesc_t, const void *, const void *, cublasLtMatrixLayout_t, \
       const void *, cublasLtMatrixLayout_t, const void *, const void *, cublasLtMatrixLayout_t,   \
       void *, cublasLtMatrixLayout_t, const cublasLtMatmulAlgo_t *, void *, size_t,               \
       cudaStream_t))

/* Attributes that are set. Matmul: TRANSA (T, or N for weights that are values), EPILOGUE (DEFAULT,
 * BIAS, GELU, GELU_BIAS), BIAS_POINTER, BIAS_DATA_TYPE. Layout: BATCH_COUNT, STRIDED_BATCH_OFFSET.
 * Preference: MAX_WORKSPACE_BYTES, REDUCTION_SCHEME_MASK,
 * MIN_ALIGNMENT_A/B/C/D_BYTES. Types: A, B of R_32F, R_16F, R_16BF, R_8I, R_8F_E4M3; C = D of
 * R_32F, R_16F, R_16BF, and R_32I for R_8I; compute types 32F, 32F_FAST_TF32, 32I; scale types
 * R_32F, and R_32I for R_8I. Alpha is 1 but for e4m3, where it carries the weights' scale; beta is
 * 0, or 1 with C = D in place. The bias is of D's type; for e4m3 into R_32F there is none,
 * since cuBLASLt refuses that epilogue. */

#if NIGHTSHIFT_CUDNN
#define LIBS_CUDNN(X)                                                                      \
    X(size_t, cudnnGetVersion, (void))                                                     \
    X(cudnnStatus_t, cudnnGraphVersionCheck, (void))                                       \
    X(cudnnStatus_t, cudnnOpsVersionCheck, (void))                                         \
    X(void, cudnnGetLastErrorString, (char *, size_t))                                     \
    X(cudnnStatus_t, cudnnCreate, (cudnnHandle_t *))                                       \
    X(cudnnStatus_t, cudnnDestroy, (cudnnHandle_t))                                        \
    X(cudnnStatus_t, cudnnSetStream, (cudnnHandle_t, cudaStream_t))                        \
    X(cudnnStatus_t, cudnnBackendCreateDescriptor,                                         \
      (cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t *))                          \
    X(cudnnStatus_t, cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t))            \
    X(cudnnStatus_t, cudnnBackendFinalize, (cudnnBackendDescriptor_t))                     \
    X(cudnnStatus_t, cudnnBackendSetAttribute,                                             \
      (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, \
       int64_t, const void *))                                                             \
    X(cudnnStatus_t, cudnnBackendGetAttribute,                                             \
      (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, \
       int64_t, int64_t *, void *))                                                        \
    X(cudnnStatus_t, cudnnBackendExecute,                                                  \
      (cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t))
#endif

#define LIBS_DECLARE(type, name, args) type(*name) args;

struct lib {
    void *handle;     /* NULL: not there */
    char file[256];   /* absolute path of what was taken */
    int version;      /* 130100: cuBLAS 13.1.0; 91900: cuDNN 9.19.0 */
    char reason[300]; /* why it was not taken: a sentence; "" when it was */
    int code;         /* ERR_MISSING or ERR_VERSION with that reason */
};

struct cuda_libs {
    struct lib cublaslt, cudnn, nvrtc;
    struct {
        LIBS_CUBLASLT(LIBS_DECLARE)
    } lt;
#if NIGHTSHIFT_CUDNN
    struct {
        LIBS_CUDNN(LIBS_DECLARE)
    } dnn;
#endif
};

/* Opens what is there. Each library's outcome is in its struct lib. Libraries stay in the process
 * until it ends: theirs do not survive being closed and opened again. */
void libs_open(struct cuda_libs *ret);
/* 0 when a device can be opened with these: cuBLASLt is there and fits, and cuDNN fits where it is
 * there at all (without it attention is not fused). Else the reason, ERR_MISSING or ERR_VERSION. */
int libs_usable(const struct cuda_libs *libs, struct err *err);
/* "CUDA 13.0, cuDNN 9.19": what the module was compiled with. */
extern const char libs_built_for[];
/* Whether a file holds all that its header speaks of: opening one that was cut short ends the
 * process (libs_file.c). True too for what the loader itself refuses with a message. */
bool libs_file_whole(const char *path);
/* "CUBLAS_STATUS_NOT_SUPPORTED": the name of a status. */
const char *libs_cublas_name(cublasStatus_t status);

/* The libraries into which cuDNN is divided, for the doctor: name "ops", and its file name. */
struct lib_part {
    const char *name; /* "graph", "ops", "heuristic", "engines_precompiled" ... */
    bool wanted;      /* ours uses it: its absence is an error */
};
extern const struct lib_part libs_cudnn_parts[];
extern const unsigned libs_cudnn_part_count;
/* Whether the part beside libs->cudnn.file can be opened: its path, or why not. 0 or a code. */
int libs_cudnn_part(const struct cuda_libs *libs, const struct lib_part *part, char *file,
                    size_t capacity, struct err *err);

#endif
