/* The likeliest tokens of rows of logits, as a beam search wants them. Sums are of doubles, in the
 * order of the ids, as choose.c's are: the best one has the log probability that a choice has. */
#include "gpu/host/host.h"

#include <math.h>
#include <omp.h>

/* Puts id into the k best, best first; it comes after its equals, which have lower ids. */
static void insert_candidate(struct candidate *best, const float *logits, uint32_t k, int32_t id)
{
    uint32_t at = k - 1;

    while (at > 0 && (best[at - 1].token < 0 || logits[best[at - 1].token] < logits[id])) {
        best[at] = best[at - 1];
        at--;
    }
    best[at].token = id;
}

static void top_row(const struct kernels *kernels, const float *logits, int32_t n, uint32_t k,
                    struct candidate *ret)
{
    float least = -INFINITY; /* of k tokens that have been found */
    double max, log_sum;

    for (uint32_t i = 0; i < k; i++)
        ret[i] = (struct candidate){.token = -1, .logprob = -INFINITY};
    for (int32_t i = 0; i < n; i++) {
        if (!(logits[i] > least)) /* nor if it is a NaN */
            continue;
        insert_candidate(ret, logits, k, i);
        if (ret[k - 1].token >= 0)
            least = logits[ret[k - 1].token];
    }
    max = ret[0].token >= 0 ? (double)logits[ret[0].token] : -INFINITY;
    if (!isfinite(max)) {
        for (uint32_t i = 0; i < k; i++)
            ret[i].token = -1;
        return;
    }
    log_sum = log(kernels->exp_sum(0, logits, (size_t)n, max, 1));
    for (uint32_t i = 0; i < k && ret[i].token >= 0; i++)
        ret[i].logprob = (double)logits[ret[i].token] - max - log_sum;
}

int host_top(struct backend *be, struct tensor logits, uint32_t k, struct candidate *ret,
             struct err *err)
{
    struct host *h = host_of(be);

    if (logits.type != DTYPE_F32 || logits.rows < 1 || logits.cols < 1 || logits.cols > INT32_MAX ||
        k < 1 || k > BACKEND_MAX_TOP)
        return host_shape(err, "top");
#pragma omp parallel for schedule(dynamic) \
    num_threads(host_threads(h, (size_t)(logits.rows * logits.cols) * sizeof(float)))
    for (int64_t i = 0; i < logits.rows; i++)
        top_row(h->kernels, (const float *)logits.data + i * logits.stride, (int32_t)logits.cols, k,
                ret + i * k);
    return 0;
}
