/* store/choice.h - which of a recording's tasks are wanted, and which results are current.
 *
 * In each kind of stage one task is wanted: the one that was asked for last. In each kind one
 * task's results are current. A pinned task comes first, then one that is done, then one that
 * was begun; among equals the one that was asked for last. A stage that works on another one's
 * results waits until these are done, is wanted only if they are wanted, and loses its own results
 * when they are undone.
 *
 * Internal to store/; within db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_CHOICE_H
#define NIGHTSHIFT_STORE_CHOICE_H

#include "store/db.h"

struct choice_task {
    int64_t task_id, stage_id, source_id; /* source: the stage it works on; 0: none */
    int64_t kind;                         /* the same for all stages of a name */
    int64_t asked;                        /* the job that asked for it last */
    bool is_done, is_pending;             /* neither: it failed or was cancelled ... */
    bool is_withdrawn;                    /* ... since another one was asked for */
    bool is_pinned, has_shards;
    bool waits; /* for its source */
    bool wanted, current;
};

/* Decides wanted, current, waits, is_pending and is_withdrawn of a recording's tasks from the
 * others. replaced: nothing is where it was. Pure; at rest after one call. */
void choice_make(struct choice_task *list, size_t n, bool replaced);

/* After a task of the recording came, went, was asked for, pinned, begun, done or undone, or the
 * recording was replaced: decides, and writes what changes. */
int choice_apply(struct store *st, int64_t media_id, struct err *err);
/* The same after a task that was done is so no more: what was made of its results goes, and is to
 * be made again. */
int choice_undone(struct store *st, int64_t media_id, int64_t task_id, struct err *err);
/* 1: what people read of the recording depends on whether this task is current. */
int choice_is_read(struct store *st, int64_t media_id, int64_t task_id, struct err *err);
/* A diarization counts, or does not any more: whose voices are alike, and who said what, is to be
 * found anew. */
int choice_voices_changed(struct store *st, int64_t media_id, int64_t task_id, struct err *err);

/* ---- what was found of a recording goes. Internal to store/; within db_enter / db_leave */

/* Deletes a task's shards and what was found with them; segments must have gone before, speakers
 * stay. */
int drop_found(struct store *st, int64_t task_id, struct err *err);

/* ---- a recording's main place, and how many are present.
 *
 * A present place comes before an absent one, a file before a member of an archive, then the
 * oldest. When the main place goes, a place in its folder comes before others. If none is
 * present, the one that vanished last is the main place. A recording without a present place
 * cannot be heard. If all its places hold something else now, it is replaced, and nothing is
 * wanted of it any more.
 *
 * Internal to store/; within db_enter / db_leave. */

/* The place is present now, and was not before. */
int main_place_came(struct store *st, int64_t media_id, int64_t place_id, struct err *err);
/* It is vanished or replaced now; was_present: and was present before. */
int main_place_went(struct store *st, int64_t media_id, int64_t place_id, bool was_present,
                    struct err *err);

#endif
