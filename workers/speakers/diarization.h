/* workers/speakers/diarization.h - the input and the result of a diarization. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_SPEAKERS_DIARIZATION_H
#define NIGHTSHIFT_WORKERS_SPEAKERS_DIARIZATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DIARIZE_MAX_SPEAKERS 1000u

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

/* The networks' results. Borrowed. */
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
void diarize_free(struct diarize_result *r); /* zeroed is fine */

#endif
