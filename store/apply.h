/* store/apply.h - the pieces of request_apply. Internal to store/; each is called within one
 * db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_APPLY_H
#define NIGHTSHIFT_STORE_APPLY_H

#include "store/db.h"
#include "store/request.h"

int enqueue_begin(struct store *st, const struct request *rq, struct request_reply *ret,
                  struct err *err);
int enqueue_add(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err);
int enqueue_same(struct store *st, const struct request *rq, struct request_reply *ret,
                 struct err *err);
int enqueue_trouble(struct store *st, const struct request *rq, struct err *err);
int enqueue_end(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err); /* store/vanish.c */

int select_apply(struct store *st, const struct request *rq, struct request_reply *ret,
                 struct err *err);

/* The stage's id; 0 when there is none. */
int stage_find(struct store *st, const struct store_stage *stage, int64_t *ret, struct err *err);

#endif
