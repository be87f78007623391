/* Matrix products by cuBLASLt, prepared once for each shape.
 *
 * cuBLASLt counts in columns. A row-major [rows][n] matrix with `stride` is its column-major
 * [n][rows] matrix with that leading dimension, so
 *     y = x w^T    [rows][out] = [rows][in] [out][in]^T     is, for it,
 *     Y = op(W) X  (out, rows) = op(W) (in, rows)
 * where W is (in, out) and op transposes it: the one arrangement that 8-bit products have too.
 * Weights that lie [in][out] (the values of attention) have W as (out, in), and op does nothing. */
#include "gpu/cuda/matmul.h"

#include <stdlib.h>
#include <string.h>

#define PLANS_MAX 4096 /* then all are made again: a night has some hundred shapes */

cudaDataType_t cuda_type(enum dtype type)
{
    return type == DTYPE_F32 ? CUDA_R_32F : type == DTYPE_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static int report_cublas_failure(cublasStatus_t status, const char *doing, struct err *err)
{
    return err_set(err, status == CUBLAS_STATUS_ALLOC_FAILED ? ERR_VRAM : ERR_DEVICE,
                   "cuBLASLt failed while %s: %s", doing, libs_cublas_name(status));
}

/* The largest power of two, at most 256, that divides the address: kernels are chosen by it. */
static int32_t find_alignment(const void *p)
{
    uintptr_t bits = (uintptr_t)p | 256;

    return (int32_t)(bits & (~bits + 1));
}

static struct plan_key key_of(const struct product *p)
{
    struct plan_key key;

    memset(&key, 0, sizeof(key));
    key.rows = p->rows;
    key.out = p->out;
    key.in = p->in;
    key.x_stride = p->x_stride;
    key.w_stride = p->w_stride;
    key.y_stride = p->y_stride;
    key.batch = p->batch;
    key.x_step = p->x_step;
    key.w_step = p->w_step;
    key.y_step = p->y_step;
    key.type = (int32_t)p->type;
    key.y_type = (int32_t)p->y_type;
    key.tf32 = p->tf32;
    key.w_by_input = p->w_by_input;
    key.epilogue = (int32_t)p->epilogue;
    key.biased = p->bias != NULL;
    key.x_align = find_alignment(p->x);
    key.w_align = find_alignment(p->w);
    key.y_align = find_alignment(p->y);
    key.scaled = p->x_scales != NULL;
    return key;
}

static uint64_t hash_of(const struct plan_key *key)
{
    const unsigned char *b = (const unsigned char *)key;
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */

    for (size_t i = 0; i < sizeof(*key); i++)
        h = (h ^ b[i]) * 0x100000001b3u;
    return h;
}

static void plan_empty(struct cuda *c, struct plan *plan)
{
    if (plan->desc)
        (void)c->libs.lt.cublasLtMatmulDescDestroy(plan->desc);
    if (plan->x)
        (void)c->libs.lt.cublasLtMatrixLayoutDestroy(plan->x);
    if (plan->w)
        (void)c->libs.lt.cublasLtMatrixLayoutDestroy(plan->w);
    if (plan->y)
        (void)c->libs.lt.cublasLtMatrixLayoutDestroy(plan->y);
    plan->desc = NULL;
    plan->x = plan->w = plan->y = NULL;
}

static void plan_free(struct cuda *c, struct plan *plan)
{
    if (plan)
        plan_empty(c, plan);
    free(plan);
}

void cuda_plans_free(struct cuda *c)
{
    for (size_t i = 0; i < c->plan_cap; i++)
        plan_free(c, c->plans[i]);
    free(c->plans);
    c->plans = NULL;
    c->plan_count = c->plan_cap = 0;
}

static cublasStatus_t set_desc(struct cuda *c, struct plan *plan,
                               cublasLtMatmulDescAttributes_t name, const void *value, size_t bytes)
{
    return c->libs.lt.cublasLtMatmulDescSetAttribute(plan->desc, name, value, bytes);
}

static cublasLtEpilogue_t epilogue_of(const struct product *p)
{
    if (p->epilogue == EPILOGUE_GELU)
        return p->bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    if (p->epilogue == EPILOGUE_RELU)
        return p->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return p->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* One scale for each row of x, and one for each of w. Versions that do not know it refuse. */
static cublasStatus_t set_scales(struct cuda *c, const struct product *p, struct plan *plan)
{
    cublasStatus_t status;

    status =
        set_desc(c, plan, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &p->w_scales, sizeof(p->w_scales));
    return status != CUBLAS_STATUS_SUCCESS ? status
                                           : set_desc(c, plan, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER,
                                                      &p->x_scales, sizeof(p->x_scales));
}

/* Sums of fp8 products stay in the tensor cores' own precision (14 bits; inputs have 4). */
static cublasStatus_t describe_fp8(struct cuda *c, const struct product *p, struct plan *plan)
{
    const int8_t fast = 1;
    cublasStatus_t status = set_desc(c, plan, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof(fast));

    if (status != CUBLAS_STATUS_SUCCESS || !p->x_scales)
        return status;
#if CUBLAS_VERSION >= 120900
    const int32_t each = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;

    status = set_desc(c, plan, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, &each, sizeof(each));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_desc(c, plan, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, &each, sizeof(each));
    return status == CUBLAS_STATUS_SUCCESS ? set_scales(c, p, plan) : status;
#else
    return CUBLAS_STATUS_NOT_SUPPORTED;
#endif
}

static cublasStatus_t make_desc(struct cuda *c, const struct product *p, struct plan *plan)
{
    cublasComputeType_t compute = p->type == CUDA_R_8I ? CUBLAS_COMPUTE_32I
                                  : p->tf32            ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                       : CUBLAS_COMPUTE_32F;
    cudaDataType_t scale = p->type == CUDA_R_8I ? CUDA_R_32I : CUDA_R_32F;
    cudaDataType_t bias = p->type == CUDA_R_8F_E4M3 ? CUDA_R_16BF : p->y_type;
    cublasOperation_t op = p->w_by_input ? CUBLAS_OP_N : CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue = epilogue_of(p);
    cublasStatus_t status;

    status = c->libs.lt.cublasLtMatmulDescCreate(&plan->desc, compute, scale);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_desc(c, plan, CUBLASLT_MATMUL_DESC_TRANSA, &op, sizeof(op));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_desc(c, plan, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
    if (status == CUBLAS_STATUS_SUCCESS && p->bias)
        status = set_desc(c, plan, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias, sizeof(bias));
    /* Some heuristics look at whether there is one. */
    if (status == CUBLAS_STATUS_SUCCESS && p->bias)
        status = set_desc(c, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof(p->bias));
    if (status == CUBLAS_STATUS_SUCCESS && p->type == CUDA_R_8F_E4M3)
        status = describe_fp8(c, p, plan);
    return status;
}

static cublasStatus_t make_layout(struct cuda *c, cudaDataType_t type, int64_t rows, int64_t cols,
                                  int64_t stride, int64_t batch, int64_t step,
                                  cublasLtMatrixLayout_t *ret)
{
    int32_t count = (int32_t)batch;
    cublasStatus_t status;

    status =
        c->libs.lt.cublasLtMatrixLayoutCreate(ret, type, (uint64_t)rows, (uint64_t)cols, stride);
    if (status != CUBLAS_STATUS_SUCCESS || batch == 1)
        return status;
    status = c->libs.lt.cublasLtMatrixLayoutSetAttribute(*ret, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                         &count, sizeof(count));
    if (status == CUBLAS_STATUS_SUCCESS)
        status = c->libs.lt.cublasLtMatrixLayoutSetAttribute(
            *ret, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step, sizeof(step));
    return status;
}

static cublasStatus_t make_layouts(struct cuda *c, const struct product *p, struct plan *plan)
{
    int64_t w_rows = p->w_by_input ? p->out : p->in, w_cols = p->w_by_input ? p->in : p->out;
    cublasStatus_t status;

    status = make_layout(c, p->type, w_rows, w_cols, p->w_stride, p->batch, p->w_step, &plan->w);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            make_layout(c, p->type, p->in, p->rows, p->x_stride, p->batch, p->x_step, &plan->x);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            make_layout(c, p->y_type, p->out, p->rows, p->y_stride, p->batch, p->y_step, &plan->y);
    return status;
}

static cublasStatus_t make_preference(struct cuda *c, const struct plan_key *key,
                                      cublasLtMatmulPreference_t *ret)
{
    const uint64_t workspace = c->workspace_bytes;
    /* No splitting of sums: how many parts there were would show in the result. */
    const uint32_t whole = CUBLASLT_REDUCTION_SCHEME_NONE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } set[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &key->w_align, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &key->x_align, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &key->y_align, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &key->y_align, sizeof(uint32_t)},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &whole, sizeof(whole)},
    };
    size_t count = sizeof(set) / sizeof(set[0]) - (c->deterministic ? 0 : 1);
    cublasStatus_t status = c->libs.lt.cublasLtMatmulPreferenceCreate(ret);

    for (size_t i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; i++)
        status = c->libs.lt.cublasLtMatmulPreferenceSetAttribute(*ret, set[i].name, set[i].value,
                                                                 set[i].bytes);
    return status;
}

/* cuBLASLt's proposals that the workspace suffices for, best first. None: NOT_SUPPORTED. */
static cublasStatus_t ask_heuristic(struct cuda *c, const struct plan *plan,
                                    cublasLtMatmulAlgo_t *ret, int *n)
{
    cublasLtMatmulHeuristicResult_t found[HEURISTICS];
    cublasLtMatmulPreference_t preference = NULL;
    cublasStatus_t status;
    int count = 0;

    status = make_preference(c, &plan->key, &preference);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = c->libs.lt.cublasLtMatmulAlgoGetHeuristic(c->lt, plan->desc, plan->w, plan->x,
                                                           plan->y, plan->y, preference, HEURISTICS,
                                                           found, &count);
    if (preference)
        (void)c->libs.lt.cublasLtMatmulPreferenceDestroy(preference);
    *n = 0;
    for (int i = 0; i < count && status == CUBLAS_STATUS_SUCCESS; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= c->workspace_bytes)
            ret[(*n)++] = found[i].algo;
    return status == CUBLAS_STATUS_SUCCESS && *n == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

static cublasStatus_t choose_algorithm(struct cuda *c, const struct product *p, struct plan *plan)
{
    cublasLtMatmulAlgo_t found[HEURISTICS];
    cublasStatus_t status;
    int n;

    if (algorithms_find(c, plan))
        return CUBLAS_STATUS_SUCCESS;
    status = ask_heuristic(c, plan, found, &n);
    return status == CUBLAS_STATUS_SUCCESS ? algorithms_choose(c, p, plan, found, n) : status;
}

/* Not a lack of memory, nor of the device: it will say the same again. */
static bool is_refusal(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
}

/* A refusal before anything ran means that the device cannot do it; the device is not lost. */
static int report_cublas_refusal(cublasStatus_t status, const char *doing, struct err *err)
{
    if (!is_refusal(status))
        return report_cublas_failure(status, doing, err);
    return err_set(err, ERR_MODEL, "cuBLASLt has no way of %s: %s", doing,
                   libs_cublas_name(status));
}

/* NULL: err says why. A refusal is a plan, too: the search for one takes long, and what is refused
 * is asked for with each window. */
static struct plan *plan_new(struct cuda *c, const struct product *p, const struct plan_key *key,
                             const char *doing, struct err *err)
{
    struct plan *plan = calloc(1, sizeof(*plan));
    cublasStatus_t status;

    if (!plan) {
        (void)err_set(err, ERR_NOMEM, "out of memory for a matrix product");
        return NULL;
    }
    plan->key = *key;
    status = make_desc(c, p, plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layouts(c, p, plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = choose_algorithm(c, p, plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        return plan;
    plan_empty(c, plan);
    plan->refused = status;
    if (is_refusal(status))
        return plan;
    free(plan);
    (void)report_cublas_refusal(status, doing, err);
    return NULL;
}

static struct plan **slot_of(struct plan **plans, size_t capacity, const struct plan_key *key)
{
    size_t i = (size_t)hash_of(key) & (capacity - 1);

    while (plans[i] && memcmp(&plans[i]->key, key, sizeof(*key)) != 0)
        i = (i + 1) & (capacity - 1);
    return &plans[i];
}

/* Keeps the table at most half full. */
static int make_room(struct cuda *c, struct err *err)
{
    struct plan **plans;
    size_t had, capacity;

    if (c->plan_count >= PLANS_MAX)
        cuda_plans_free(c);
    if (c->plans && c->plan_count * 2 < c->plan_cap)
        return 0;
    had = c->plans ? c->plan_cap : 0;
    capacity = had ? had * 2 : 128;
    plans = calloc(capacity, sizeof(struct plan *));
    if (!plans)
        return err_set(err, ERR_NOMEM, "out of memory for matrix products");
    for (size_t i = 0; i < had; i++)
        if (c->plans[i])
            *slot_of(plans, capacity, &c->plans[i]->key) = c->plans[i];
    free(c->plans);
    c->plans = plans;
    c->plan_cap = capacity;
    return 0;
}

/* NULL: err says why. */
static struct plan *find_plan(struct cuda *c, const struct product *p, const char *doing,
                              struct err *err)
{
    struct plan_key key = key_of(p);
    struct plan **slot;

    if (make_room(c, err) != 0)
        return NULL;
    slot = slot_of(c->plans, c->plan_cap, &key);
    if (!*slot) {
        *slot = plan_new(c, p, &key, doing, err);
        c->plan_count += *slot != NULL;
    }
    return *slot;
}

cublasStatus_t matmul_run(struct cuda *c, const struct product *p, const struct plan *plan,
                          const cublasLtMatmulAlgo_t *algo)
{
    const float alpha = p->alpha, beta = p->epilogue == EPILOGUE_ADD ? 1.0f : 0.0f;
    const int32_t one = 1, zero = 0;
    const bool whole = p->type == CUDA_R_8I;

    return c->libs.lt.cublasLtMatmul(c->lt, plan->desc, whole ? (const void *)&one : &alpha, p->w,
                                     plan->w, p->x, plan->x, whole ? (const void *)&zero : &beta,
                                     p->y, plan->y, p->y, plan->y, algo, c->workspace,
                                     c->workspace_bytes, c->work);
}

int cuda_product(struct cuda *c, const struct product *p, const char *doing, struct err *err)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    struct plan *plan = find_plan(c, p, doing, err);

    if (plan && plan->refused != CUBLAS_STATUS_SUCCESS)
        (void)report_cublas_refusal(plan->refused, doing, err);
    if (!plan || plan->refused != CUBLAS_STATUS_SUCCESS)
        return err_prefix(err, "preparing a product of %lld x %lld by %lld x %lld",
                          (long long)p->rows, (long long)p->in, (long long)p->in,
                          (long long)p->out);
    if (p->bias)
        status = set_desc(c, plan, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &p->bias, sizeof(p->bias));
    if (status == CUBLAS_STATUS_SUCCESS && p->x_scales)
        status = set_scales(c, p, plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = matmul_run(c, p, plan, &plan->algo);
    if (status != CUBLAS_STATUS_SUCCESS)
        return report_cublas_failure(status, doing, err);
    return cuda_status(err, cudaGetLastError(), doing);
}
