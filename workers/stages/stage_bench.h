/* workers/stages/stage_bench.h - how fast a stage beside transcription works here: as a worker
 * runs it (stages/stage.h), on sound and text that are made up. One thread. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_STAGE_BENCH_H
#define NIGHTSHIFT_WORKERS_STAGES_STAGE_BENCH_H

#include <stdint.h>

#include "base/err.h"
#include "workers/stages/stage.h"

struct backend;

struct stage_bench_result {
    enum precision precision;
    uint32_t at_once; /* windows or passages of a call, at the end */
    uint32_t rounds;
    double load_s;
    double seconds;         /* of sound, or of speech that was read, in a round */
    double times_real_time; /* median of the rounds */
    double
        times_real_time_cpu; /* the same by processor time of all threads: other load counts not */
    double items_per_second; /* windows of sound, or passages */
    double vectors_per_item; /* of diarization: voices in a window. What was heard decides */
};

/* Of each round at least a second; two recordings at once. setup: as for a worker (tune is not
 * asked). A passage is of some 400 characters and counts as 27 s, of which people speak it. What
 * diarization does in the end for a recording as a whole (clustering) is not in it.
 * ERR_USAGE for "transcribe", which workers/models/bench.h measures; else as stage_open and
 * stage_step. */
int stage_bench_run(struct backend *be, const struct stage_setup *setup, uint32_t rounds,
                    struct stage_bench_result *ret, struct err *err);

#endif
