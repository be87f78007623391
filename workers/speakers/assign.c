#include "workers/speakers/assign.h"

#include <math.h>
#include <stdlib.h>

#include "workers/speakers/match.h"

static double cosine_similarity(const float *a, const float *b, uint32_t size)
{
    double ab = 0.0, aa = 0.0, bb = 0.0;

#pragma omp simd reduction(+ : ab, aa, bb)
    for (uint32_t k = 0; k < size; k++) {
        ab += (double)a[k] * (double)b[k];
        aa += (double)a[k] * (double)a[k];
        bb += (double)b[k] * (double)b[k];
    }
    return aa > 0.0 && bb > 0.0 ? ab / sqrt(aa * bb) : 0.0;
}

struct assigning {
    const struct diarize_input *in;
    const float *centroids;
    uint32_t clusters;
    double *gain; /* [speakers][clusters] */
    struct matcher *matcher;
};

static bool has_vector(const float *vector) { return !isnan(vector[0]); }

/* Those with a vector first; `order` is whose row a row is. Returns the rows; *some: of them with a
 * vector. */
static uint32_t compute_similarities(struct assigning *a, uint32_t window, uint8_t speaks,
                                     uint32_t *order, uint32_t *some)
{
    const struct diarize_input *in = a->in;
    uint32_t rows = 0;

    for (int vectors = 1; vectors >= 0; vectors--) {
        for (uint32_t s = 0; s < in->speakers; s++) {
            const float *v = in->vectors + ((size_t)window * in->speakers + s) * in->size;

            if (!(speaks & 1u << s) || has_vector(v) != (vectors == 1))
                continue;
            for (uint32_t k = 0; vectors && k < a->clusters; k++)
                a->gain[(size_t)rows * a->clusters + k] =
                    cosine_similarity(v, a->centroids + (size_t)k * in->size, in->size);
            order[rows++] = s;
        }
        if (vectors)
            *some = rows;
    }
    return rows;
}

static void take_nearest(const struct assigning *a, uint32_t some, const uint32_t *order,
                         int32_t *ret)
{
    for (uint32_t i = 0; i < some; i++) {
        const double *gain = a->gain + (size_t)i * a->clusters;
        uint32_t best = 0;

        for (uint32_t k = 1; k < a->clusters; k++)
            if (gain[k] > gain[best])
                best = k;
        ret[order[i]] = (int32_t)best;
    }
}

static void take_different(struct assigning *a, uint32_t rows, uint32_t some, const uint32_t *order,
                           int32_t *ret)
{
    int32_t column[8];
    uint32_t left = 0;

    matcher_run(a->matcher, a->gain, some, a->clusters, column);
    for (uint32_t i = 0; i < some; i++)
        ret[order[i]] = column[i] < 0 ? ASSIGN_NONE : column[i];
    for (uint32_t i = some; i < rows; i++, left++) {
        for (uint32_t k = 0; k < some;) { /* the lowest that nobody has */
            bool taken = column[k] == (int32_t)left;

            left += taken;
            k = taken ? 0 : k + 1;
        }
        if (left >= a->clusters)
            return;
        ret[order[i]] = (int32_t)left;
    }
}

int assign_clusters(const struct diarize_input *in, const uint8_t *speaks, const float *centroids,
                    uint32_t clusters, bool constrained, int32_t *ret, struct err *err)
{
    struct assigning a = {.in = in, .centroids = centroids, .clusters = clusters};
    int rc = 0;

    a.gain = calloc((size_t)in->speakers * clusters + 1, sizeof(*a.gain));
    if (!a.gain)
        return err_set(err, ERR_NOMEM, "no memory for %u clusters", clusters);
    if (constrained)
        rc = matcher_new(in->speakers, clusters, &a.matcher, err);
    for (uint32_t w = 0; rc == 0 && w < in->windows; w++) {
        int32_t *mine = ret + (size_t)w * in->speakers;
        uint32_t order[8], some = 0, rows;

        for (uint32_t s = 0; s < in->speakers; s++)
            mine[s] = !constrained && clusters == 1 && (speaks[w] & 1u << s) ? 0 : ASSIGN_NONE;
        if (clusters == 0 || (!constrained && clusters == 1))
            continue;
        rows = compute_similarities(&a, w, speaks[w], order, &some);
        if (constrained)
            take_different(&a, rows, some, order, mine);
        else
            take_nearest(&a, some, order, mine);
    }
    matcher_free(a.matcher);
    free(a.gain);
    return rc;
}
