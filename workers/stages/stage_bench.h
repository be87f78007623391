/* workers/stages/stage_bench.h - how fast a stage works here: lanes are added, steps are taken,
 * results come back (stages/stage.h), on sound and text that are made up; of a transcription its
 * two networks alone, at forced work (stages/synthetic_load.h), and how near that is to what the
 * device can (gpu/peak.h, measured in turn with it). Every figure is a median. One thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_STAGE_BENCH_H
#define NIGHTSHIFT_WORKERS_STAGES_STAGE_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/stages/stage.h"

struct backend;

struct stage_bench_params {
    struct stage_setup setup; /* as for a worker; of a synthetic load as synthetic_open has it. tune
                                 is not asked */
    uint32_t rounds;          /* 0: 5 */
    double round_s;           /* that a round lasts at least, but for synthetic loads; 0: 1 */
    /* Only synthetic loads have these: */
    const uint32_t *ladder; /* NULL, or numbers of slots to try first: the fastest is measured; */
    uint32_t ladder_count;  /*   those that do not fit end it */
    uint32_t tokens;        /* forced in a window, after a prompt of 4; 0: 100 */
};

struct stage_bench_result {
    enum precision precision;
    enum cache_precision cache; /* as stage_cache */
    uint32_t slots;
    uint32_t at_once; /* windows or passages of a call, at the end */
    uint32_t rounds;
    double load_s;
    double seconds;         /* of sound, or of speech that was read, in a round */
    double times_real_time; /* median of the rounds */
    double
        times_real_time_cpu; /* the same by processor time of all threads: other load counts not */
    double items_per_second; /* windows of sound, or passages */
    double vectors_per_item; /* of diarization: voices in a window. The speech decides */

    struct stage_bench_networks { /* of a synthetic load; else 0 */
        uint32_t tokens;
        uint64_t weight_bytes, slot_bytes;
        double mel_ms, encoder_ms, cross_ms; /* per window */
        double step_ms;                      /* per decoder step of all slots */
        double align_ms;      /* per window, of a text of so many tokens; 0: the model cannot */
        double step_gbytes_s; /* weights and caches read per second in such a step */
        double encoder_gflop; /* multiply-adds of one window, twice */
        double encoder_gflops_s;
        double peak_gflops_s; /* a large product, same type, same moments */
        double encoder_share; /* of that peak */
        /* Each network alone: log-mel, encoder and the decoder's keys and values; prompt and
         * tokens. Items_per_second is of both: windows encoded beside the steps of others where
         * the device can do that (stages/synthetic_load.h), else one after the other. */
        double encoder_windows_s, decoder_windows_s;
        bool beside;
    } networks;
};

/* A synthetic load's round is all slots once; if both networks run at once, once more for each
 * alone. Other stages' rounds have two recordings at once. A passage has
 * some 400 characters and counts as 27 s, the time that people take to speak it. Diarization's
 * clustering of whole recordings is not measured. ERR_USAGE: more rounds or tokens than there can
 * be; else as stage_open and stage_step. */
int stage_bench_run(struct backend *be, const struct stage_bench_params *params,
                    struct stage_bench_result *ret, struct err *err);

/* So many lanes of a synthetic load that has room, to their end. *ret: seconds. ERR_VRAM. */
int stage_bench_synthetic(struct stage *synthetic_load, uint32_t lanes, struct stage_synthetic work,
                          double *ret, struct err *err);

#endif
