#include "workers/speakers/diarize.h"

#include <stdlib.h>

#include "base/threads.h"
#include "workers/speakers/assign.h"
#include "workers/speakers/pipeline.h"
#include "workers/speakers/cluster/plda.h"

static int find_clusters(const struct pipeline *pl, const struct plda *plda, struct clusters *ret,
                         struct err *err)
{
    uint32_t n = pl->clean_count, size = pl->in->size;
    double *features;
    int rc;

    if (pl->p->clustering == DIARIZE_AHC)
        return cluster_ahc(pl->vectors, n, size, pl->p, ret, err);
    if (!plda || plda_size(plda) != size)
        return err_set(err, ERR_MODEL, "the PLDA compares voices of %u values, these have %u",
                       plda ? plda_size(plda) : 0, size);
    features = malloc(((size_t)n * plda_dim(plda) + 1) * sizeof(*features));
    if (!features)
        return err_set(err, ERR_NOMEM, "no memory for %u voices", n);
    rc = plda_apply(plda, pl->vectors, n, pl->p->threads ? pl->p->threads : threads_available(),
                    features, err);
    if (rc == 0)
        rc = cluster_vbx(pl->vectors, n, size, features, plda_dim(plda), plda_phi(plda), pl->p, ret,
                         err);
    free(features);
    return rc;
}

static int tell_speakers(const struct pipeline *pl, const struct plda *plda,
                         struct diarize_result *ret, struct err *err)
{
    struct clusters clusters = {0};
    int32_t *local = malloc((size_t)pl->in->windows * pl->in->speakers * sizeof(*local));
    int rc = local ? find_clusters(pl, plda, &clusters, err)
                   : err_set(err, ERR_NOMEM, "no memory for %u windows", pl->in->windows);

    if (rc == 0)
        rc = pipeline_assign(pl, &clusters, local, err);
    if (rc == 0)
        rc = pipeline_finish(pl, local, ret, err);
    clusters_free(&clusters);
    free(local);
    return rc;
}

int diarize_recording(const struct diarize_input *in, const struct diarize_params *p,
                      const struct plda *plda, struct diarize_result *ret, struct err *err)
{
    struct pipeline pl = {0};
    struct diarize_result result = {0};
    int rc = pipeline_prepare(in, p, &pl, err);

    if (rc == 0 && pl.count_most > 0)
        rc = tell_speakers(&pl, plda, &result, err);
    pipeline_free(&pl);
    if (rc == 0)
        *ret = result;
    return rc;
}

int diarize_apart(const struct diarize_input *in, const struct diarize_params *p,
                  struct diarize_result *ret, struct err *err)
{
    struct pipeline pl = {0};
    int32_t *local = NULL;
    int rc = pipeline_prepare(in, p, &pl, err);

    pl.apart = true;
    if (rc == 0) {
        local = malloc(((size_t)in->windows * in->speakers + 1) * sizeof(*local));
        rc = local ? 0 : err_set(err, ERR_NOMEM, "no memory for %u windows", in->windows);
    }
    for (uint32_t w = 0; rc == 0 && w < in->windows; w++)
        for (uint32_t s = 0; s < in->speakers; s++)
            local[(size_t)w * in->speakers + s] = pl.speaks[w] >> s & 1 ? (int32_t)s : ASSIGN_NONE;
    if (rc == 0)
        rc = pipeline_finish(&pl, local, ret, err);
    free(local);
    pipeline_free(&pl);
    return rc;
}
