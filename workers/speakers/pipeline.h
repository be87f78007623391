/* workers/speakers/pipeline.h - diarize_recording in its three steps, for it and for tests that put
 * something of their own between them. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_PIPELINE_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_PIPELINE_H

#include "workers/speakers/cluster/cluster.h"
#include "base/err.h"
#include "workers/speakers/diarization.h"
#include "workers/speakers/grid.h"

struct pipeline { /* owned: pipeline_free; borrows its input */
    const struct diarize_input *in;
    const struct diarize_params *p;
    bool apart; /* local speakers are the recording's, by their numbers: all of them are told */
    struct grid grid;
    uint8_t *count;       /* [grid.total]: how many speak */
    uint8_t *speaks;      /* [windows]: bit s: local speaker s is heard in it */
    uint32_t count_most;  /* 0: nobody ever speaks */
    uint32_t clean_count; /* vectors of local speakers who are long enough alone */
    uint32_t *clean;      /* [clean_count]: window * speakers + local speaker, ascending */
    float *vectors;       /* [clean_count][size]: theirs */
};

/* Checks everything, and finds what is clustered. */
int pipeline_prepare(const struct diarize_input *in, const struct diarize_params *p,
                     struct pipeline *ret, struct err *err);
void pipeline_free(struct pipeline *pl); /* zeroed is fine */

/* local: [windows][speakers], of assign_clusters. */
int pipeline_assign(const struct pipeline *pl, const struct clusters *c, int32_t *local,
                    struct err *err);
int pipeline_finish(const struct pipeline *pl, const int32_t *local, struct diarize_result *ret,
                    struct err *err);

#endif
