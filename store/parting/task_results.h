/* store/parting/task_results.h - what a task has done, from one catalog into another. Internal to
 * store/parting/. */
#ifndef NIGHTSHIFT_STORE_PARTING_TASK_RESULTS_H
#define NIGHTSHIFT_STORE_PARTING_TASK_RESULTS_H

#include "base/clock.h"
#include "store/db.h"

/* ---- a shard's results as they lie in a catalog: what store_shard_done was once given. Internal
 * to store/ */

struct shard_held; /* room that is used again for the next shard */

struct shard_held *shard_held_new(void);    /* NULL: no memory */
void shard_held_free(struct shard_held *h); /* NULL is fine */

struct task_results {
    uint64_t shards, known, segments;
};

/* Shards that `to` has not yet, their number where it is known, which sources it hears, and of a
 * finalized task its speakers and turns. Within store_begin of `to`. Adds to *ret. */
int task_results_copy(struct store *from, int64_t from_task, struct store *to, int64_t to_task,
                      struct shard_held *scratch, struct task_results *ret, struct err *err);

/* A time of day that a part tells: no later than now, and now if it is none as the clock writes it.
 * Returns ret. */
const char *task_results_when(const char *text, char ret[CLOCK_ISO_LEN]);

#endif
