/* store/parting/share.h - of which shards of a task a part is asked for. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_PARTING_SHARE_H
#define NIGHTSHIFT_STORE_PARTING_SHARE_H

#include "store/db.h"

/* In SQL: the share of the task `t.task_id`, as text; NULL: there is none. */
#define SHARE_OF "(SELECT value FROM setting WHERE name = 'shards:' || "

/* "3-7": shards 3 to 7, end 8; "3-": from there on, end 0. False: it is none. */
bool share_parse(const char *text, uint32_t *first, uint32_t *end);
/* Notes it. Within a transaction. */
int share_put(struct store *st, int64_t task_id, uint32_t first, uint32_t end, struct err *err);
/* A task whose share is there is paused: a run has nothing to do with it any more. Within
 * db_enter / db_leave. */
int share_check(struct store *st, int64_t task_id, struct err *err);

/* ---- which tasks are a part's to do. Internal to store/parting/ */
/* In SQL, of a row `t` of the table task. */
#define OPEN_TASKS                                                                       \
    "t.state = 'pending' AND t.wanted AND t.paused = 0 AND t.absent = 0 AND t.waits IS " \
    "NOT 'settling'"

#endif
