/* Which of cuBLASLt's algorithms computes a product: its heuristic's first proposal, or, for
 * products that are first asked for in a rehearsal, the fastest of its proposals on this device.
 *
 * Each is timed by events around single runs, on the numbers and in the memory that the product
 * itself has; medians decide, and the first proposal stays where nothing is clearly faster, so that
 * noise does not choose. The opened device remembers the algorithm by the key of the plan: its
 * forks and later sessions compute the same sums.
 *
 * With `deterministic` it is always the first proposal: timings may differ the next time.
 *
 * The bytes of recall and learn are a head, then key and algorithm of each. The head names the
 * library's version and the device's kind, for an algorithm means nothing to another. The bytes
 * come from outside: a length that does not fit is refused, and each algorithm is put before the
 * library's own check, for the very product, before it is run. */
#include "gpu/cuda/matmul.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

#define REMEMBERED_MAX 512 /* a model has some twenty products */
#define MAGIC 0x31415049u

struct algorithm {
    struct plan_key key;
    cublasLtMatmulAlgo_t algo;
};

/* Without padding: written and compared as bytes. */
struct head {
    uint32_t magic, count;
    uint64_t version;    /* of cuBLASLt */
    uint32_t sm, unused; /* 90 */
    char device[64];     /* "NVIDIA H200" */
};
_Static_assert(sizeof(struct head) == 88, "no padding");
_Static_assert(sizeof(struct algorithm) == sizeof(struct plan_key) + sizeof(cublasLtMatmulAlgo_t),
               "no padding");

/* The home's lock is held here and in the next. */
static struct algorithm *find_cached_algorithm(const struct cuda *home, const struct plan_key *key)
{
    for (size_t i = 0; i < home->algorithm_count; i++)
        if (memcmp(&home->algorithms[i].key, key, sizeof(*key)) == 0)
            return &home->algorithms[i];
    return NULL;
}

static struct algorithm *add_cached_algorithm(struct cuda *home)
{
    struct algorithm *more;

    if (home->algorithm_count == REMEMBERED_MAX)
        return NULL;
    more = realloc(home->algorithms, (home->algorithm_count + 1) * sizeof(*more));
    if (!more)
        return NULL;
    home->algorithms = more;
    return &more[home->algorithm_count++];
}

/* It is no loss where there is no memory for it. */
static void cache_algorithm(struct cuda *home, const struct plan_key *key,
                            const cublasLtMatmulAlgo_t *algo)
{
    struct algorithm *a;

    pthread_mutex_lock(&home->shared);
    a = find_cached_algorithm(home, key);
    if (!a)
        a = add_cached_algorithm(home);
    if (a)
        *a = (struct algorithm){*key, *algo};
    pthread_mutex_unlock(&home->shared);
}

static bool read_cached_algorithm(struct cuda *home, const struct plan_key *key,
                                  cublasLtMatmulAlgo_t *ret)
{
    const struct algorithm *a;

    pthread_mutex_lock(&home->shared);
    a = find_cached_algorithm(home, key);
    if (a)
        *ret = a->algo;
    pthread_mutex_unlock(&home->shared);
    return a != NULL;
}

static void evict_algorithm(struct cuda *home, const struct plan_key *key)
{
    struct algorithm *a;

    pthread_mutex_lock(&home->shared);
    a = find_cached_algorithm(home, key);
    if (a)
        *a = home->algorithms[--home->algorithm_count];
    pthread_mutex_unlock(&home->shared);
}

static void close_laps(struct cuda *c)
{
    for (int i = 0; i <= CUDA_LAPS; i++) {
        if (c->lap[i])
            (void)cudaEventDestroy(c->lap[i]);
        c->lap[i] = NULL;
    }
}

void algorithms_free(struct cuda *c)
{
    close_laps(c);
    free(c->algorithms);
    c->algorithms = NULL;
    c->algorithm_count = 0;
}

/* Whether cuBLASLt takes it for this product and the workspace that there is. The library's check
 * ignores alignments: no algorithm wants more than 16 bytes. */
static bool is_algorithm_usable(struct cuda *c, const struct plan *plan,
                                const cublasLtMatmulAlgo_t *algo)
{
    const struct plan_key *k = &plan->key;
    cublasLtMatmulHeuristicResult_t r;
    cublasStatus_t status;

    if (k->x_align < 16 || k->w_align < 16 || k->y_align < 16)
        return false;

    memset(&r, 0, sizeof(r));
    status = c->libs.lt.cublasLtMatmulAlgoCheck(c->lt, plan->desc, plan->w, plan->x, plan->y,
                                                plan->y, algo, &r);
    return status == CUBLAS_STATUS_SUCCESS && r.workspaceSize <= c->workspace_bytes;
}

bool algorithms_find(struct cuda *c, struct plan *plan)
{
    cublasLtMatmulAlgo_t algo;

    if (c->deterministic || !read_cached_algorithm(c->home, &plan->key, &algo))
        return false;
    if (!is_algorithm_usable(c, plan, &algo)) {
        evict_algorithm(c->home, &plan->key);
        return false;
    }
    plan->algo = algo;
    return true;
}

/* ---- timing */

int cuda_time(struct cuda *c, int (*once)(void *arg, struct err *err), void *arg, float *ms,
              struct err *err)
{
    int rc = once(arg, err);
    float lap[CUDA_LAPS];
    cudaError_t e = cudaSuccess;

    if (rc == 0)
        e = cudaEventRecord(c->lap[0], c->work);
    for (int i = 0; i < CUDA_LAPS && rc == 0 && e == cudaSuccess; i++) {
        rc = once(arg, err);
        if (rc == 0)
            e = cudaEventRecord(c->lap[i + 1], c->work);
    }
    if (rc != 0)
        return rc;
    if (e == cudaSuccess)
        e = cudaEventSynchronize(c->lap[CUDA_LAPS]);
    for (int i = 0; i < CUDA_LAPS && e == cudaSuccess; i++) {
        int k = i;

        e = cudaEventElapsedTime(ms, c->lap[i], c->lap[i + 1]);
        for (; k > 0 && lap[k - 1] > *ms; k--)
            lap[k] = lap[k - 1];
        lap[k] = *ms;
    }
    if (e == cudaSuccess)
        *ms = lap[CUDA_LAPS / 2];
    return cuda_status(err, e, "timing");
}

/* One run of a product, by one algorithm. */
struct trial {
    struct cuda *c;
    const struct product *p;
    const struct plan *plan;
    const cublasLtMatmulAlgo_t *algo;
    cublasStatus_t status;
};

static int run_trial(void *arg, struct err *err)
{
    struct trial *t = arg;

    t->status = matmul_run(t->c, t->p, t->plan, t->algo);
    return t->status == CUBLAS_STATUS_SUCCESS
               ? 0
               : err_set(err, ERR_DEVICE, "cuBLASLt: %s", libs_cublas_name(t->status));
}

/* Not SUCCESS: it did not run. */
static cublasStatus_t time_one(struct cuda *c, const struct product *p, const struct plan *plan,
                               const cublasLtMatmulAlgo_t *algo, float *ret)
{
    struct trial t = {c, p, plan, algo, CUBLAS_STATUS_SUCCESS};
    struct err ignored;

    if (cuda_time(c, run_trial, &t, ret, &ignored) == 0)
        return CUBLAS_STATUS_SUCCESS;
    return t.status != CUBLAS_STATUS_SUCCESS ? t.status : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* A proposal that does not run, though it was proposed, is none. */
static bool is_no_candidate(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

cublasStatus_t algorithms_choose(struct cuda *c, const struct product *p, struct plan *plan,
                                 const cublasLtMatmulAlgo_t *found, int n)
{
    float first = 0.0f, least = 0.0f, ms;
    int best = -1;

    plan->algo = found[0];
    if (!c->rehearsing || c->deterministic || c->recording)
        return CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < n; i++) {
        cublasStatus_t status = time_one(c, p, plan, &found[i], &ms);

        if (is_no_candidate(status))
            continue;
        if (status != CUBLAS_STATUS_SUCCESS)
            return status;
        if (best < 0)
            first = ms;
        if (best < 0 || (ms < least && ms < first * CUDA_CLEARLY)) {
            least = ms;
            best = i;
        }
    }
    if (best < 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    plan->algo = found[best];
    cache_algorithm(c->home, &plan->key, &plan->algo);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- operations */

int cuda_rehearse(struct backend *be, bool on, struct err *err)
{
    struct cuda *c = cuda_enter(be);
    cudaError_t status = cudaSuccess;
    int rc = cuda_not_recording(c, "rehearse", err);

    if (rc != 0)
        return rc;
    for (int i = 0; on && i <= CUDA_LAPS && status == cudaSuccess; i++)
        if (!c->lap[i])
            status = cudaEventCreateWithFlags(&c->lap[i], cudaEventBlockingSync);
    c->rehearsing = on && status == cudaSuccess;
    if (!c->rehearsing)
        close_laps(c);
    return cuda_status(err, status, "making clocks");
}

/* By the device's name: another of the same kind computes the same. The home's lock is held. */
static struct head head_of(const struct cuda *home)
{
    struct head h;

    memset(&h, 0, sizeof(h));
    h.magic = MAGIC;
    h.count = (uint32_t)home->algorithm_count;
    h.version = (uint64_t)home->libs.cublaslt.version;
    h.sm = (uint32_t)home->sm;
    memcpy(h.device, home->base.info.name, sizeof(h.device));
    return h;
}
_Static_assert(sizeof(((struct head *)0)->device) == sizeof(((struct backend_info *)0)->name),
               "the device's name");

int cuda_recall(struct backend *be, struct buf *ret, struct err *err)
{
    struct cuda *home = cuda_of(be)->home;
    struct head h;

    pthread_mutex_lock(&home->shared);
    h = head_of(home);
    if (h.count > 0) {
        buf_put(ret, &h, sizeof(h));
        buf_put(ret, home->algorithms, h.count * sizeof(*home->algorithms));
    }
    pthread_mutex_unlock(&home->shared);
    return ret->failed ? err_set(err, ERR_NOMEM, "out of memory for what products were timed") : 0;
}

int cuda_learn(struct backend *be, const void *data, size_t bytes, struct err *err)
{
    struct cuda *home = cuda_of(be)->home;
    struct algorithm a;
    struct head mine, h;

    pthread_mutex_lock(&home->shared);
    mine = head_of(home);
    pthread_mutex_unlock(&home->shared);
    if (bytes < sizeof(h))
        return err_set(err, ERR_INPUT, "remembered products have %zu bytes, and no head", bytes);
    memcpy(&h, data, sizeof(h));
    if (h.magic != MAGIC || h.version != mine.version || h.sm != mine.sm ||
        memcmp(h.device, mine.device, sizeof(h.device)) != 0)
        return err_set(err, ERR_EMPTY, "remembered products are another device's or library's");
    if (h.count > REMEMBERED_MAX || bytes != sizeof(h) + h.count * sizeof(a))
        return err_set(err, ERR_INPUT, "remembered products have %zu bytes, which %u do not", bytes,
                       h.count);
    for (uint32_t i = 0; i < h.count; i++) {
        memcpy(&a, (const char *)data + sizeof(h) + i * sizeof(a), sizeof(a));
        cache_algorithm(home, &a.key, &a.algo);
    }
    return 0;
}
