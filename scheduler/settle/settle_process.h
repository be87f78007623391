/* scheduler/settle/settle_process.h - what is particular to settlers among the processes of a run.
 * Internal to scheduler/; the loop's thread.
 *
 *   UP: idle --SETTLE, VOICES, GO--> busy --SETTLED, SETTLE_FAILED--> idle
 *
 * OFF they are started for work, ASIDE they stay until somebody may have mended them. */
#ifndef NIGHTSHIFT_SCHEDULER_SETTLE_SETTLE_PROCESS_H
#define NIGHTSHIFT_SCHEDULER_SETTLE_SETTLE_PROCESS_H

#include "scheduler/run/run.h"

#define SETTLERS 2u /* a long recording does not hold up the short ones */
#define SETTLE_PAGE 32u

struct settler {
    struct process process;
    struct store_task t;          /* that it is busy with, else zero; owned */
    struct store_stage_row stage; /* of t; owned */
    bool unwanted;                /* what it finds is dropped */
    bool sending;                 /* it has not been told all: shards behind `told` are left */
    int64_t told;
    uint64_t sent_bytes;
};

/* A look into the catalog goes over the stages, and over each one's recordings in pages. */
struct settle {
    struct settler of[SETTLERS];
    int64_t looked_ms;              /* when the last one began */
    struct store_stage_row *stages; /* of this look; NULL: none is on */
    size_t stage_count, stage_at;
    int64_t cursor;
    struct store_task page[SETTLE_PAGE];
    size_t page_len, page_at;
};

void settler_add(struct settler *w, struct run *run);
bool settler_is_idle(const struct settler *w);
bool settler_is_busy(const struct settler *w);
void settler_start(struct settler *w);
/* Takes over what *t owns. The settler is idle. */
void settler_give(struct settler *w, const struct store_stage_row *stage, struct store_task *t);
void settler_put_down(struct settler *w); /* it has no recording in hand any more */
bool settlers_all_aside(const struct settle *s);

#endif
