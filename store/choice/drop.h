/* store/choice/drop.h - what was found of a recording goes. Internal to store/; within db_enter /
 * db_leave. */
#ifndef NIGHTSHIFT_STORE_CHOICE_DROP_H
#define NIGHTSHIFT_STORE_CHOICE_DROP_H

#include "store/db.h"

/* Deletes a task's shards and what was found with them; segments must have gone before, speakers
 * stay. */
int drop_found(struct store *st, int64_t task_id, struct err *err);

#endif
