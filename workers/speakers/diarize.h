/* workers/speakers/diarize.h - turns the networks' results for each window into speaker turns of
 * the whole recording: pyannote's pipeline behind its networks.
 *
 *   sets of local speakers per frame and window (segmentation), a vector per local speaker
 *     -> how many speak in each frame (speakers/count.h)
 *     -> clusters of vectors: agglomerative, centroid linkage (speakers/cluster/ahc.h), or that and
 * VBx over PLDA features (speakers/cluster/plda.h, vbx.h)
 *     -> every local speaker gets the cluster of the nearest centroid; with VBx those of one window
 *        get different ones (speakers/assign.h)
 *     -> per cluster and frame how often it was heard; the `count` most heard of each frame speak
 *        (speakers/frames.h)
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

struct plda; /* speakers/cluster/plda.h: the two transforms that VBx compares voices in */

/* plda: with VBX only. ERR_INPUT: impossible input (sizes, no finite vector where one is said to
 * be); ERR_USAGE: impossible parameters; ERR_MODEL: a plda for vectors of another size; ERR_NOMEM.
 */
/* The same for known speakers: local speaker s of each window is speaker s of the recording. The
 * result has all of them, even those who never speak. */
int diarize_apart(const struct diarize_input *in, const struct diarize_params *p,
                  struct diarize_result *ret, struct err *err);
int diarize_recording(const struct diarize_input *in, const struct diarize_params *p,
                      const struct plda *plda, struct diarize_result *ret, struct err *err);

#endif
