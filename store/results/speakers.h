/* store/results/speakers.h - gives segments and words their speakers, and parts segments between
 * them (parts.h). Internal to store/; within db_enter / db_leave, and before corrections_settle. */
#ifndef NIGHTSHIFT_STORE_RESULTS_SPEAKERS_H
#define NIGHTSHIFT_STORE_RESULTS_SPEAKERS_H

#include "store/db.h"

/* By the diarization of the recording that is settled and current. None: as it is. task_id and seq:
 * one shard's segments; task_id 0: all of the recording. */
int speakers_assign(struct store *st, int64_t media_id, int64_t task_id, uint32_t seq,
                    struct err *err);

/* Where the recording has no speakers any more, nothing of it is parted. */
int speakers_gone(struct store *st, int64_t media_id, struct err *err);

/* Around a change after which another diarization may be current: that one's speakers get the names
 * that people gave to the former one's, where they have none, and segments and words their
 * speakers. rc: of the change; when that is negative, it is returned. */
struct speakers_of {
    int64_t media_id, task_id;
    struct naming *names; /* owned; freed by speakers_after, which must be called */
};
int speakers_before(struct store *st, int64_t media_id, struct speakers_of *ret, struct err *err);
int speakers_after(struct store *st, struct speakers_of *of, int rc, struct err *err);

#endif
