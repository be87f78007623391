/* tests/cuda/emulator/cublaslt.cpp - a double of cuBLASLt: the functions that gpu/cuda/libs.h
 * lists.
 *
 * It refuses what the real one does not do, by its documentation of cublasLtMatmul: combinations of
 * types, where biases and epilogues go, alignments. Where the documentation leaves room it is
 * narrower. Why something was refused is printed. Sums are made in float32. The workspace that an
 * algorithm asks for is filled with NaN, so that nobody keeps anything there. */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cublasLt.h>

#include "tests/cuda/emulator/emulated.h"
#include "tests/cuda/emulator/machine.h"
#include "tests/cuda/emulator/numbers.h"

using namespace emulated;

namespace
{
struct layout {
    cudaDataType_t type;
    int64_t rows, cols, ld;
    int32_t batch;
    int64_t step;
};

struct matmul {
    cublasComputeType_t compute;
    cudaDataType_t scale;
    cublasOperation_t transa, transb;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    int bias_type; /* a cudaDataType_t; -1, which is none of them: as D */
    int8_t fast;
    const float *scales[2]; /* of A and of B */
    int32_t mode[2];        /* 3: one for each row of op(A), column of op(B) */
};

struct preference {
    uint64_t workspace;
    uint32_t align_a, align_b, align_c, align_d;
};

/* What an algorithm was chosen for, in its opaque words. */
struct chosen {
    uint32_t magic, workspace;
    uint32_t align_a, align_b, align_d;
    float ms; /* that it takes, by the emulator's clock */
    int64_t m, n, k;
};
static_assert(sizeof(chosen) <= sizeof(cublasLtMatmulAlgo_t), "fits");
constexpr uint32_t MAGIC = 0x6e696768;

struct problem {
    matmul op;
    layout a, b, c, d;
    int64_t m, n, k;
};

int sm(void)
{
    const device &d = the_machine().devices[(size_t)current_device()];

    return d.major * 10 + d.minor;
}

cublasStatus_t refuse(const char *why)
{
    fprintf(stderr, "emulated cuBLASLt: not supported: %s\n", why);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t invalid(const char *why)
{
    fprintf(stderr, "emulated cuBLASLt: invalid: %s\n", why);
    return CUBLAS_STATUS_INVALID_VALUE;
}

bool biased(const matmul &op)
{
    return op.epilogue == CUBLASLT_EPILOGUE_BIAS || op.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS ||
           op.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}

bool scaled(const matmul &op)
{
    constexpr int32_t each = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;

    if ((op.mode[0] == each) != (op.mode[1] == each))
        fail("cuBLASLt: scales for each row of one matrix alone");
    if (op.mode[0] == each && !(op.scales[0] && op.scales[1]))
        fail("cuBLASLt: scales for each row, and none are there");
    return op.mode[0] == each;
}

bool relu(const matmul &op)
{
    return op.epilogue == CUBLASLT_EPILOGUE_RELU || op.epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
}

bool gelu(const matmul &op)
{
    return op.epilogue == CUBLASLT_EPILOGUE_GELU || op.epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
}

cudaDataType_t bias_type(const problem &p)
{
    if (p.op.bias_type != -1)
        return (cudaDataType_t)p.op.bias_type;
    return p.a.type == CUDA_R_8F_E4M3 && p.d.type == CUDA_R_32F ? CUDA_R_16BF : p.d.type;
}

/* Shapes that fit together. */
cublasStatus_t check_shapes(problem &p)
{
    int64_t kb = p.op.transb == CUBLAS_OP_N ? p.b.rows : p.b.cols;

    p.m = p.op.transa == CUBLAS_OP_N ? p.a.rows : p.a.cols;
    p.k = p.op.transa == CUBLAS_OP_N ? p.a.cols : p.a.rows;
    p.n = p.op.transb == CUBLAS_OP_N ? p.b.cols : p.b.rows;
    if (kb != p.k || p.c.rows != p.m || p.c.cols != p.n || p.d.rows != p.m || p.d.cols != p.n)
        return invalid("shapes do not fit together");
    if (p.m < 1 || p.n < 1 || p.k < 1)
        return invalid("an empty product");
    for (const layout *l : {&p.a, &p.b, &p.c, &p.d}) {
        if (l->ld < l->rows)
            return invalid("a leading dimension below the rows");
        if (l->batch != p.d.batch)
            return invalid("batch counts differ");
    }
    if (p.c.type != p.d.type)
        return refuse("C and D of different types");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_int8(const problem &p)
{
    if (p.op.compute != CUBLAS_COMPUTE_32I || p.op.scale != CUDA_R_32I || p.d.type != CUDA_R_32I)
        return refuse("int8 goes into int32, with compute and scale type of int32");
    if (p.op.epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        return refuse("int32 results have no epilogue");
    if (p.op.transa != CUBLAS_OP_T || p.op.transb != CUBLAS_OP_N)
        return refuse("int8 wants A transposed and B not");
    if (p.a.ld % 4 || p.b.ld % 4 || p.d.ld % 4 || p.m % 4 || p.k % 4)
        return refuse("int8 wants leading dimensions, m and k that are multiples of 4");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_fp8(const problem &p)
{
    cudaDataType_t bias = bias_type(p);

    if (sm() < 89)
        return refuse("fp8 wants compute capability 8.9");
    if (p.op.compute != CUBLAS_COMPUTE_32F || p.op.scale != CUDA_R_32F)
        return refuse("fp8 wants compute and scale type of float32");
    if (p.op.transa != CUBLAS_OP_T || p.op.transb != CUBLAS_OP_N)
        return refuse("fp8 wants A transposed and B not");
    if (p.a.ld % 16 || p.b.ld % 16 || p.d.ld * (int64_t)number_size(p.d.type) % 16 || p.m % 16 ||
        p.k % 16)
        return refuse("fp8 wants dimensions that are multiples of 16 bytes");
    if (p.d.type != CUDA_R_32F && p.d.type != CUDA_R_16F && p.d.type != CUDA_R_16BF)
        return refuse("fp8 into this type");
    /* GELU, and a bias of bf16 into float32, an H200 does. */
    if (relu(p.op))
        return refuse("fp8 with ReLU");
    if (scaled(p.op) && sm() != 90)
        return refuse("a scale for each row on this device");
    if (biased(p.op) && bias != (p.d.type == CUDA_R_16F ? CUDA_R_16F : CUDA_R_16BF))
        return refuse("a bias of this type with fp8");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_float(const problem &p)
{
    bool narrow = p.a.type != CUDA_R_32F;

    if (p.op.scale != CUDA_R_32F)
        return refuse("the scale type is not float32");
    if (p.op.compute != CUBLAS_COMPUTE_32F &&
        (narrow || p.op.compute != CUBLAS_COMPUTE_32F_FAST_TF32))
        return refuse("this compute type for these numbers");
    if (p.op.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && sm() < 80)
        return refuse("TF32 wants compute capability 8.0");
    if (p.a.type == CUDA_R_16BF && sm() < 80)
        return refuse("bf16 wants compute capability 8.0");
    if (p.d.type != CUDA_R_32F && p.d.type != p.a.type)
        return refuse("these numbers into that type");
    if (biased(p.op) && bias_type(p) != p.d.type)
        return refuse("a bias that is not of D's type");
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check(problem &p)
{
    cublasStatus_t status = check_shapes(p);

    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (p.a.type != p.b.type)
        return refuse("A and B of different types");
    if (biased(p.op) != (p.op.bias != nullptr))
        return invalid("a bias without its epilogue, or the other way round");
    if (p.a.type == CUDA_R_8I)
        return check_int8(p);
    if (p.a.type == CUDA_R_8F_E4M3)
        return check_fp8(p);
    return check_float(p);
}

bool columns_aligned(const layout &l)
{
    return l.cols < 2 || (size_t)l.ld * number_size(l.type) % 16 == 0;
}

/* NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES, read at each question, names by commas. What the table of
 * supported types leaves open, and devices and versions differ in:
 *   epilogues    all but the plain product
 *   mixed        an epilogue where D is not of A's type (a bias with 16 bits into float32)
 *   activations  GELU and ReLU, with or without a bias
 *   products     all
 *   scales       those with a scale for each row
 *   silently     not a refusal of its own: the answer is success, and no algorithm */
bool told(const char *name)
{
    const char *all = getenv("NIGHTSHIFT_EMULATED_CUBLASLT_REFUSES");
    const std::string list = std::string(",") + (all ? all : "") + ",";

    return list.find(std::string(",") + name + ",") != std::string::npos;
}

bool told_to_refuse(const problem &p)
{
    if (told("products"))
        return true;
    if (scaled(p.op) && told("scales"))
        return true;
    if (p.op.epilogue == CUBLASLT_EPILOGUE_DEFAULT)
        return false;
    return told("epilogues") || (told("mixed") && p.d.type != p.a.type) ||
           (told("activations") && (gelu(p.op) || relu(p.op)));
}

uint32_t workspace_for(const problem &p) { return p.k >= 256 && p.n >= 16 ? 65536 : 0; }

/* NIGHTSHIFT_EMULATED_CUBLASLT_MS, read at each question: "2,1,3" are three proposals, best first
 * as the heuristic has it, and what they take. */
std::vector<float> proposals(void)
{
    const char *at = getenv("NIGHTSHIFT_EMULATED_CUBLASLT_MS");
    std::vector<float> ms;

    for (char *end; at && *at; at = *end == ',' ? end + 1 : end) {
        ms.push_back(strtof(at, &end));
        if (end == at)
            fail("NIGHTSHIFT_EMULATED_CUBLASLT_MS is no list of numbers");
    }
    return ms.empty() ? std::vector<float>{1.0f, 1.0f} : ms;
}

/* Whether an algorithm is this product's. */
bool is_of(const chosen &how, const problem &p)
{
    return how.magic == MAGIC && how.m == p.m && how.n == p.n && how.k == p.k;
}

/* The whole piece that a matrix covers, which must be device memory and aligned as promised. */
void check_memory(const char *what, const void *p, const layout &l, uint32_t align)
{
    int64_t last = (l.batch - 1) * l.step + (l.cols - 1) * l.ld + l.rows;

    if ((uintptr_t)p % align != 0)
        fail("cublasLtMatmul: %s is not aligned to the %u bytes that were promised", what, align);
    if (!on_device(p, (size_t)last * number_size(l.type)))
        fail("cublasLtMatmul: %s leaves its piece of device memory", what);
}

void touch_matrix(const void *p, const layout &l, bool write)
{
    for (int32_t b = 0; b < l.batch; b++)
        for (int64_t c = 0; c < l.cols; c++)
            touch((const char *)p + (size_t)(b * l.step + c * l.ld) * number_size(l.type),
                  (size_t)l.rows * number_size(l.type), write);
}

float gelu_tanh(float x)
{
    return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

/* op(X) as dense rows of k floats. */
std::vector<float> rows_of(const char *x, const layout &l, bool rows_are_columns, int64_t rows,
                           int64_t k, bool tf32)
{
    std::vector<float> r((size_t)(rows * k));
    size_t size = number_size(l.type);

    for (int64_t i = 0; i < rows; i++)
        to_float(&r[(size_t)(i * k)], x + (size_t)(rows_are_columns ? i * l.ld : i) * size, l.type,
                 (size_t)k, rows_are_columns ? 1 : (size_t)l.ld);
    if (tf32)
        for (float &v : r)
            v = to_tf32(v);
    return r;
}

void finish(const problem &p, const std::vector<float> &sums, float alpha, float beta,
            const char *c, char *d)
{
    std::vector<float> bias((size_t)p.m), row((size_t)p.m), old((size_t)p.m);

    const bool each = scaled(p.op);

    if (biased(p.op))
        to_float(bias.data(), p.op.bias, bias_type(p), (size_t)p.m, 1);
    for (int64_t j = 0; j < p.n; j++) {
        for (int64_t i = 0; i < p.m; i++) {
            row[(size_t)i] = alpha * sums[(size_t)(j * p.m + i)];
            if (each)
                row[(size_t)i] *= p.op.scales[0][i] * p.op.scales[1][j];
        }
        if (beta != 0.0f) {
            to_float(old.data(), c + (size_t)(j * p.c.ld) * number_size(p.c.type), p.c.type,
                     (size_t)p.m, 1);
            for (int64_t i = 0; i < p.m; i++)
                row[(size_t)i] += beta * old[(size_t)i];
        }
        for (int64_t i = 0; i < p.m; i++) {
            float r = row[(size_t)i] + bias[(size_t)i];

            r = gelu(p.op) ? gelu_tanh(r) : relu(p.op) && r < 0.0f ? 0.0f : r;
            from_float(d, p.d.type, (size_t)(j * p.d.ld + i), r);
        }
    }
}

void compute(const problem &p, float alpha, const char *a, const char *b, float beta, const char *c,
             char *d)
{
    bool tf32 = p.op.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    std::vector<float> ra, rb, sums((size_t)(p.m * p.n));

    for (int32_t batch = 0; batch < p.d.batch; batch++) {
        const char *ba = a + batch * p.a.step * (int64_t)number_size(p.a.type);
        const char *bb = b + batch * p.b.step * (int64_t)number_size(p.b.type);
        const char *bc = c + batch * p.c.step * (int64_t)number_size(p.c.type);
        char *bd = d + batch * p.d.step * (int64_t)number_size(p.d.type);

        if (p.a.type == CUDA_R_8I) {
            product_int8((const int8_t *)ba, p.a.ld, (const int8_t *)bb, p.b.ld, (int32_t *)bd,
                         p.d.ld, p.m, p.n, p.k);
            continue;
        }
        if (batch == 0 || p.a.step != 0)
            ra = rows_of(ba, p.a, p.op.transa != CUBLAS_OP_N, p.m, p.k, tf32);
        if (batch == 0 || p.b.step != 0)
            rb = rows_of(bb, p.b, p.op.transb == CUBLAS_OP_N, p.n, p.k, tf32);
        product(ra.data(), rb.data(), sums.data(), p.m, p.n, p.k);
        finish(p, sums, alpha, beta, bc, bd);
    }
}

/* "product TYPE INTO COMPUTE EPILOGUE, m n k, leading dimensions, batch, alignments": numbers as
 * the library's headers have them. */
void ask(const problem &p, const preference &q)
{
    std::string line = "product";

    for (int64_t n :
         {(int64_t)p.a.type, (int64_t)p.d.type, (int64_t)p.op.compute, (int64_t)p.op.epilogue, p.m,
          p.n, p.k, p.a.ld, p.b.ld, p.d.ld, (int64_t)p.d.batch, (int64_t)q.align_a,
          (int64_t)q.align_b, (int64_t)q.align_d})
        line += " " + std::to_string(n);
    question(line);
}

template <class T> bool take(T *at, const void *value, size_t bytes)
{
    if (bytes != sizeof(T))
        return false;
    memcpy(at, value, sizeof(T));
    return true;
}

layout &of(cublasLtMatrixLayout_t l) { return *(layout *)l; }
matmul &of(cublasLtMatmulDesc_t d) { return *(matmul *)d; }
preference &of(cublasLtMatmulPreference_t p) { return *(preference *)p; }

problem problem_of(cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                   cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d)
{
    return {of(op), of(a), of(b), of(c), of(d), 0, 0, 0};
}
} // namespace

EMULATED_API size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }

EMULATED_API cublasStatus_t cublasLtCreate(cublasLtHandle_t *ret)
{
    int n;

    if (cudaGetDeviceCount(&n) != cudaSuccess)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *ret = (cublasLtHandle_t) new int(current_device());
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    delete (int *)h;
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *ret,
                                                     cublasComputeType_t compute,
                                                     cudaDataType_t scale)
{
    *ret = (cublasLtMatmulDesc_t) new matmul{
        compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT,
        nullptr, -1,    0,           {},          {}};
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    delete &of(d);
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                           cublasLtMatmulDescAttributes_t name,
                                                           const void *value, size_t bytes)
{
    matmul &op = of(desc);
    bool ok = false;

    switch (name) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        ok = take(&op.transa, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        ok = take(&op.transb, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        ok = take(&op.epilogue, value, bytes) &&
             (op.epilogue == CUBLASLT_EPILOGUE_DEFAULT || biased(op) || gelu(op) || relu(op));
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        ok = take(&op.bias, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        ok = take(&op.bias_type, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
        ok = take(&op.fast, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
        ok = take(&op.scales[0], value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
        ok = take(&op.scales[1], value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
        ok = take(&op.mode[0], value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
        ok = take(&op.mode[1], value, bytes);
        break;
    default:
        break;
    }
    return ok ? CUBLAS_STATUS_SUCCESS : invalid("an attribute of a product");
}

EMULATED_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *ret,
                                                       cudaDataType type, uint64_t rows,
                                                       uint64_t cols, int64_t ld)
{
    *ret = (cublasLtMatrixLayout_t) new layout{type, (int64_t)rows, (int64_t)cols, ld, 1, 0};
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    delete &of(l);
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t desc,
                                                             cublasLtMatrixLayoutAttribute_t name,
                                                             const void *value, size_t bytes)
{
    bool ok = false;

    if (name == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)
        ok = take(&of(desc).batch, value, bytes) && of(desc).batch > 0;
    else if (name == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        ok = take(&of(desc).step, value, bytes);
    return ok ? CUBLAS_STATUS_SUCCESS : invalid("an attribute of a matrix");
}

EMULATED_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *ret)
{
    *ret = (cublasLtMatmulPreference_t) new preference{0, 256, 256, 256, 256};
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    delete &of(p);
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t pref, cublasLtMatmulPreferenceAttributes_t name, const void *value,
    size_t bytes)
{
    preference &p = of(pref);
    uint32_t ignored;
    bool ok = false;

    switch (name) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        ok = take(&p.workspace, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        ok = take(&ignored, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        ok = take(&p.align_a, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        ok = take(&p.align_b, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        ok = take(&p.align_c, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        ok = take(&p.align_d, value, bytes);
        break;
    default:
        break;
    }
    return ok ? CUBLAS_STATUS_SUCCESS : invalid("a preference");
}

EMULATED_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t pref, int wanted,
    cublasLtMatmulHeuristicResult_t found[], int *count)
{
    guard g(the_machine().lock);
    problem p = problem_of(op, a, b, c, d);
    const preference &q = of(pref);
    cublasStatus_t status = check(p);
    std::vector<float> ms = proposals();
    uint32_t workspace = workspace_for(p);
    uint32_t least = p.a.type == CUDA_R_8I ? 4 : p.a.type == CUDA_R_8F_E4M3 ? 16 : 1;

    ask(p, q);
    *count = 0;
    the_machine().heuristics++;
    the_machine().unaligned +=
        !columns_aligned(p.a) || !columns_aligned(p.b) || !columns_aligned(p.d);
    if (told_to_refuse(p))
        return told("silently") ? CUBLAS_STATUS_SUCCESS : refuse("told to refuse");
    if (status == CUBLAS_STATUS_SUCCESS &&
        (q.align_a < least || q.align_b < least || q.align_d < least))
        status = refuse("8-bit matrices that are not aligned");
    if (status != CUBLAS_STATUS_SUCCESS || wanted < 1)
        return status;
    /* The first needs a workspace, the others do not. */
    for (size_t i = 0; i < ms.size() && *count < wanted; i++) {
        chosen algo = {
            MAGIC, i == 0 ? workspace : 0, q.align_a, q.align_b, q.align_d, ms[i], p.m, p.n, p.k};

        if (algo.workspace > q.workspace)
            continue;
        cublasLtMatmulHeuristicResult_t &r = found[(*count)++];

        memset(&r, 0, sizeof(r));
        memcpy(&r.algo, &algo, sizeof(algo));
        r.workspaceSize = algo.workspace;
        r.state = CUBLAS_STATUS_SUCCESS;
        r.wavesCount = 1.0f;
    }
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatmulAlgoCheck(
    cublasLtHandle_t, cublasLtMatmulDesc_t op, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
    cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
    cublasLtMatmulHeuristicResult_t *ret)
{
    guard g(the_machine().lock);
    problem p = problem_of(op, a, b, c, d);
    cublasStatus_t status = check(p);
    chosen how;

    the_machine().algorithm_checks++;
    memcpy(&how, algo, sizeof(how));
    if (status == CUBLAS_STATUS_SUCCESS && !is_of(how, p))
        status = invalid("the algorithm is another product's");
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    memset(ret, 0, sizeof(*ret));
    ret->workspaceSize = how.workspace;
    ret->state = CUBLAS_STATUS_SUCCESS;
    return CUBLAS_STATUS_SUCCESS;
}

EMULATED_API cublasStatus_t cublasLtMatmul(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t op, const void *alpha, const void *a,
    cublasLtMatrixLayout_t al, const void *b, cublasLtMatrixLayout_t bl, const void *beta,
    const void *c, cublasLtMatrixLayout_t cl, void *d, cublasLtMatrixLayout_t dl,
    const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    guard g(the_machine().lock);
    problem p = problem_of(op, al, bl, cl, dl);
    cublasStatus_t status = check(p);
    chosen how;
    float fa, fb;

    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (*(int *)handle != current_device())
        fail("cublasLtMatmul: the handle is of another device than the thread's");
    if (algo == nullptr)
        fail("cublasLtMatmul: without an algorithm one is searched at every call");
    memcpy(&how, algo, sizeof(how));
    if (!is_of(how, p))
        return invalid("the algorithm is another product's");
    if (how.workspace > workspace_bytes ||
        (how.workspace > 0 &&
         ((uintptr_t)workspace % 256 != 0 || !on_device(workspace, workspace_bytes))))
        return invalid("the workspace is too small, not aligned, or not device memory");
    if (p.op.scale == CUDA_R_32I) {
        int32_t ia = *(const int32_t *)alpha, ib = *(const int32_t *)beta;

        if (ia != 1 || ib != 0)
            return refuse("int32 scales other than 1 and 0");
        fa = 1.0f;
        fb = 0.0f;
    } else {
        fa = *(const float *)alpha;
        fb = *(const float *)beta;
    }
    check_memory("A", a, p.a, how.align_a);
    check_memory("B", b, p.b, how.align_b);
    check_memory("D", d, p.d, how.align_d);
    if (fb != 0.0f)
        check_memory("C", c, p.c, how.align_d);
    if (c == d && (p.c.ld != p.d.ld || p.c.step != p.d.step))
        return invalid("in place, with different layouts");
    if (biased(p.op) && !on_device(p.op.bias, (size_t)p.m * number_size(bias_type(p))))
        fail("cublasLtMatmul: the bias is not device memory");
    if (scaled(p.op) && !(on_device(p.op.scales[0], (size_t)p.m * sizeof(float)) &&
                          on_device(p.op.scales[1], (size_t)p.n * sizeof(float))))
        fail("cublasLtMatmul: the scales are not device memory");
    cudaError_t e = enqueue(stream, "cublasLtMatmul", [=] {
        touch_matrix(a, p.a, false);
        touch_matrix(b, p.b, false);
        if (fb != 0.0f)
            touch_matrix(c, p.c, false);
        if (biased(p.op))
            touch(p.op.bias, (size_t)p.m * number_size(bias_type(p)), false);
        if (scaled(p.op)) {
            touch(p.op.scales[0], (size_t)p.m * sizeof(float), false);
            touch(p.op.scales[1], (size_t)p.n * sizeof(float), false);
        }
        touch(workspace, how.workspace, true);
        touch_matrix(d, p.d, true);
        if (how.workspace > 0)
            memset(workspace, 0xff, how.workspace);
        the_machine().clock_ms += (double)how.ms;
        compute(p, fa, (const char *)a, (const char *)b, fb, (const char *)c, (char *)d);
    });
    return e == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
