/* store/read/sums.h - what all tasks of the catalog come to, counted when somebody asks.
 *
 * Internal to store/. A hundred thousand recordings with a stage each take a tenth of a second, so
 * that a count is kept until the catalog changes. */
#ifndef NIGHTSHIFT_STORE_READ_SUMS_H
#define NIGHTSHIFT_STORE_READ_SUMS_H

#include "store/store.h"

/* Each task of a stage, as struct read_progress has it (store/read/read.h). */
struct sums_stage {
    int64_t stage_id;
    uint64_t tasks, superseded, pending, waiting, paused, absent, done, failed, cancelled;
    uint64_t unknown, bytes_pending, shards_done;
    int64_t audio_known_ms, audio_done_ms, audio_left_ms;
    struct result_account account; /* of what is current */
};

/* Those that a job asked for last. */
struct sums_job {
    int64_t job_id;
    uint64_t pending, done, failed, cancelled;
    bool walks; /* its walk is on, or was interrupted */
};

struct sums {
    uint64_t recordings, damaged;
    struct store_archive archive;
    struct sums_stage *stages; /* by their ids, ascending: every one */
    struct sums_job *jobs;     /* the same */
    size_t stage_count, job_count;
    uint64_t shown;           /* jobs that have tasks, or walk */
    int64_t version, changes; /* of the catalog, when it was counted */
    uint64_t undone;
};

/* *ret is the store's, until the next call that reads or writes. */
int sums_read(struct store *st, const struct sums **ret, struct err *err);

const struct sums_stage *sums_of_stage(const struct sums *s, int64_t stage_id); /* never NULL */
const struct sums_job *sums_of_job(const struct sums *s, int64_t job_id);       /* never NULL */

#endif
