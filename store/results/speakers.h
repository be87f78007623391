/* store/results/speakers.h - gives segments and words their speakers. Internal to store/; within
 * db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_RESULTS_SPEAKERS_H
#define NIGHTSHIFT_STORE_RESULTS_SPEAKERS_H

#include "store/db.h"

/* By the diarization of the recording that counts: the settled one of the newest stage. None: as
 * it is. task_id and seq: one shard's segments; task_id 0: all of the recording. */
int speakers_assign(struct store *st, int64_t media_id, int64_t task_id, uint32_t seq,
                    struct err *err);

#endif
