/* store/results/parts.h - segments and the parts of them that one person says, as rows. Internal to
 * store/; within db_enter / db_leave.
 *
 * The parts of a segment are rows of `segment` of their own, one behind the other, so that whoever
 * reads segments reads them; `parted` keeps what the machine made of it. They depend on what the
 * machine heard and on the turns alone, however often and in whatever order those came. */
#ifndef NIGHTSHIFT_STORE_RESULTS_PARTS_H
#define NIGHTSHIFT_STORE_RESULTS_PARTS_H

#include "store/db.h"
#include "store/results/overlap.h"

struct parts_turns {
    int64_t diarization; /* its task */
    struct overlaps *turns;
};

/* Of each segment of a shard: parted where the turns have others speak (seams.h), and given its
 * speaker. What is as it is to be stays untouched. by NULL: nobody is told apart; what was
 * parted is whole again, as the machine had it. Corrections go along with their words, and are due
 * (corrections/settle.h) where rows changed. */
int parts_make(struct store *st, int64_t task_id, uint32_t seq, const struct parts_turns *by,
               struct err *err);

#endif
