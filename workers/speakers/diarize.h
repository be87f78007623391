/* workers/speakers/diarize.h - turns the networks' results for each window into speaker turns of
 * the whole recording: pyannote's pipeline behind its networks.
 *
 *   sets of local speakers per frame and window (segmentation), a vector per local speaker
 *     -> how many speak in each frame
 *     -> clusters of vectors: agglomerative, centroid linkage (speakers/cluster.h),
 *        or that and VBx over PLDA features (speakers/vbx.h)
 *     -> every local speaker gets the cluster of the nearest centroid; with VBx those of one window
 *        get different ones
 *     -> per cluster and frame how often it was heard; the `count` most heard of each frame speak
 *        (speakers/turns.h)
 *     -> turns (speakers/turns.h)
 *
 * Clean is a local speaker who is heard alone in a fifth of the window's frames: only such vectors
 * are clustered. The number of speakers that is wanted is kept where the vectors allow it, as
 * pyannote does; more may come out where more are heard at once than clusters were found.
 *
 * Pure; one thread, or with OpenMP as many as it is allowed. Memory grows linearly with the
 * windows: no matrix of all pairs is ever held. The same input gives the same output, bit for bit.
 */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_DIARIZE_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_DIARIZE_H

#include "base/err.h"
#include "workers/speakers/diarization.h"
#include "workers/speakers/turns.h"

struct plda; /* speakers/vbx.h: the two transforms that VBx compares voices in */

/* plda: with VBX only. ERR_INPUT: impossible input (sizes, no finite vector where one is said to
 * be); ERR_USAGE: impossible parameters; ERR_MODEL: a plda for vectors of another size; ERR_NOMEM.
 */
int diarize_recording(const struct diarize_input *in, const struct diarize_params *p,
                      const struct plda *plda, struct diarize_result *ret, struct err *err);
/* The same for known speakers: local speaker s of each window is speaker s of the recording. The
 * result has all of them, even those who never speak. */
int diarize_apart(const struct diarize_input *in, const struct diarize_params *p,
                  struct diarize_result *ret, struct err *err);

/* ---- diarize_recording in its steps, for tests that put something of their own between them */

struct clusters; /* speakers/cluster.h */

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

#define ASSIGN_NONE (-1) /* silent, or no cluster was left */

/* Every local speaker of a window gets a cluster, the one whose centroid is most like its vector
 * (cosine). speaks: [windows], bit s: local speaker s is heard in the window; the others get none.
 * centroids: [clusters][size]. constrained: those of one window get different clusters, so that the
 * sum of the likenesses is the largest, and those without a vector take what is left; not
 * constrained: each the nearest, those without a vector none. One cluster alone that is not
 * constrained is everybody's, vector or not. ret: [windows][speakers]. */
int assign_clusters(const struct diarize_input *in, const uint8_t *speaks, const float *centroids,
                    uint32_t clusters, bool constrained, int32_t *ret, struct err *err);

#endif
