/* workers/speakers/diarize.h - from what the networks heard in each window to who spoke when in the
 * whole recording: pyannote's pipeline behind its networks.
 *
 *   sets of local speakers per frame and window (segmentation), a vector per local speaker
 *     -> how many speak in each frame (speakers/count.h)
 *     -> clusters of vectors: agglomerative, centroid linkage (speakers/ahc.h), or that and VBx
 * over PLDA features (speakers/plda.h, vbx.h)
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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define DIARIZE_MAX_SPEAKERS 1000u

struct plda; /* speakers/plda.h: the two transforms that VBx compares voices in */

enum diarize_clustering { DIARIZE_AHC, DIARIZE_VBX };

struct diarize_params {
    enum diarize_clustering clustering;
    float threshold;           /* AHC: distance of unit vectors (Euclidean) where merging ends */
    uint32_t min_cluster_size; /* AHC: smaller ones join the nearest larger one; 3.1: 12 */
    float fa, fb;              /* VBx: 0.07, 0.8 */
    float min_duration_off;    /* seconds: shorter gaps in a speaker's turns are closed */
    uint32_t num_speakers;     /* 0: found */
    uint32_t min_speakers, max_speakers; /* 0: no bound; min <= max */
    uint32_t threads;                    /* 0: threads_available; changes nothing but time */
};

/* What the networks heard. Borrowed. */
struct diarize_input {
    uint32_t windows;               /* 1 .. */
    uint32_t frames;                /* of a window: 589 */
    uint32_t speakers;              /* that a window knows: 3, at most 8 */
    double window_s, step_s;        /* 10, 1 */
    double frame_s, frame_length_s; /* 0.016875, and how much one hears: 0.0619375 */
    double duration_s;              /* of the recording: no turn ends later */
    const uint8_t *active;          /* [windows][frames]: bit s: local speaker s speaks */
    uint32_t size;                  /* values of a vector: 256 */
    const float *vectors;           /* [windows][speakers][size]; NaN in the first: none. Those of
                                       local speakers who are silent are not looked at */
};

struct diarize_turn {
    double start_s, end_s;
    uint32_t speaker; /* below diarize_result.speakers */
};

struct diarize_result { /* owned: diarize_free */
    uint32_t speakers;  /* 0: nobody spoke; numbered by the begin of their first turn */
    uint32_t turn_count;
    struct diarize_turn *turns; /* ascending start, then speaker; they may overlap */
    float *vectors;   /* [speakers][size]: mean of the speaker's clean windows (of all that have a
                         vector where none is clean), length 1; zeros where there is none at all */
    double *speech_s; /* [speakers] */
};

/* pyannote/speaker-diarization-3.1's (AHC), or community-1's (VBx). */
#define DIARIZE_AHC_PARAMS                                                                    \
    {                                                                                         \
        .clustering = DIARIZE_AHC, .fa = 0.07f, .fb = 0.8f, .threshold = 0.7045654963945799f, \
        .min_cluster_size = 12                                                                \
    }
#define DIARIZE_VBX_PARAMS                                                    \
    {                                                                         \
        .clustering = DIARIZE_VBX, .fa = 0.07f, .fb = 0.8f, .threshold = 0.6f \
    }
void diarize_params_default(enum diarize_clustering c, struct diarize_params *ret);
/* plda: with VBX only. ERR_INPUT: impossible input (sizes, no finite vector where one is said to
 * be); ERR_USAGE: impossible parameters; ERR_MODEL: a plda for vectors of another size; ERR_NOMEM.
 */
int diarize_recording(const struct diarize_input *in, const struct diarize_params *p,
                      const struct plda *plda, struct diarize_result *ret, struct err *err);
void diarize_free(struct diarize_result *r); /* zeroed is fine */

#endif
