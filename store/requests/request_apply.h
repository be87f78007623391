/* store/requests/request_apply.h - the pieces of request_apply. Internal to store/; each is called
 * within one db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_REQUESTS_REQUEST_APPLY_H
#define NIGHTSHIFT_STORE_REQUESTS_REQUEST_APPLY_H

#include "store/db.h"
#include "store/requests/request.h"

#define APPLY_PIECE 4096 /* rows changed in one commit */

struct apply_ids {
    int64_t *list; /* owned */
    size_t count, capacity, next;
};
int apply_ids_add(struct apply_ids *ids, int64_t id, struct err *err);

struct request_work {
    struct store *st;
    const struct request *rq;
    struct request_reply reply;
    bool begun;
    int64_t counted;                 /* the recording that was counted last */
    char now[CLOCK_ISO_LEN];         /* of the beginning */
    struct apply_ids rows, troubles; /* what was found when it began; `next` goes through them */
};

int enqueue_begin(struct store *st, const struct request *rq, struct request_reply *ret,
                  struct err *err);
/* Applies the recipe to rq->roots; job_id 0: no enqueue sets it. */
int recipe_apply(struct store *st, const struct request *rq, int64_t job_id,
                 struct request_reply *ret, struct err *err);
int enqueue_add(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err);
int enqueue_same(struct store *st, const struct request *rq, struct request_reply *ret,
                 struct err *err);
int enqueue_trouble(struct store *st, const struct request *rq, struct err *err);

int fixity_note(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err);

/* store/requests/correct.c; before reading_publish_due */
int correct_put(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err);
int correct_decide(struct store *st, const struct request *rq, struct request_reply *ret,
                   struct err *err);

/* In pieces of APPLY_PIECE rows: 1 when more is left. */
int enqueue_end(struct request_work *w, struct err *err); /* store/requests/vanish.c */
int select_apply(struct request_work *w, struct err *err);
int forget_apply(struct request_work *w, struct err *err); /* of about as many rows */
/* A task with all results of it; what follows for its recording is the caller's. */
int forget_task(struct store *st, int64_t task_id, struct err *err);

/* store/requests/erase.c */
int erase_apply(struct store *st, const struct request *rq, struct request_reply *ret,
                struct err *err);
/* After the commit. False: somebody reads, and the log keeps what went. */
bool erase_wipe(struct store *st);
/* Looks for marks of erased recordings that fit a found file; sets ret->erased_*. */
int erase_meet(struct store *st, const struct store_found *f, struct store_met *ret,
               struct err *err);

/* ERR_MISSING: the catalog has nothing at the path, or no such job. */
int select_known(struct store *st, const struct request *rq, struct err *err);

/* The stage's id; 0 when there is none. */
int stage_find(struct store *st, const struct store_stage *stage, int64_t *ret, struct err *err);

#endif
