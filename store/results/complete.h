/* store/results/complete.h - when a task is done. Internal to store/; within db_enter / db_leave.
 */
#ifndef NIGHTSHIFT_STORE_RESULTS_COMPLETE_H
#define NIGHTSHIFT_STORE_RESULTS_COMPLETE_H

#include "store/db.h"
#include "store/results/naming.h"

/* A task's row, as far as its end depends on it. */
struct complete_task {
    int64_t task_id, media_id;
    int64_t done, total; /* shards; total 0: not known */
    bool is_pending, is_failed, is_done;
    bool waits_source, waits_finalizing;
    bool finalizes, transcribes; /* its stage */
};

/* 1: *ret is filled; 0: there is no such task. */
int complete_read(struct store *st, int64_t task_id, struct complete_task *ret, struct err *err);
/* Counts a shard, of so much audio and with this account, that was put since *t was read, with what
 * is of it; t->total may have become known since. Then as complete_check. */
int complete_shard(struct store *st, const struct complete_task *t, int64_t audio_ms,
                   const struct result_account *account, const char *now, struct err *err);
/* When all of a task's shards are there: it is done, or, under a stage that finalizes, it waits for
 * that; also when it had failed meanwhile. One that was cancelled is done when nothing is left to
 * do, and not finalized. Otherwise nothing. */
int complete_check(struct store *st, int64_t task_id, const char *now, struct err *err);
/* Before a task's number of shards becomes `shards`: what was finalized of fewer is forgotten,
 * shards and all, since the voices of those are gone; but not names that people gave. 1: that was
 * so, and an older diarization may count meanwhile: naming_after is to be called when it is
 * pending. */
int complete_forget(struct store *st, int64_t task_id, uint32_t shards, struct naming_change *ret,
                    struct err *err);

#endif
