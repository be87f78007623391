/* scheduler/settle.h - settlers, seen by the files that make them up. Internal to scheduler/; run.h
 * has what the run asks of them.
 *
 *   settle.c     what is to be settled: read from the catalog, given out
 *   settlers.c   processes: started, spoken with, put aside
 *
 *   OFF --work--> STARTING --HELLO--> IDLE <--SETTLED, SETTLE_FAILED-- BUSY
 *    ^               |                  `-----SETTLE, VOICES, GO--------^ |
 *    |<--- due -- WAITING <---------- back-off <------- death ------------'
 *    `-- gone -- LEAVING <-- not wanted any more;    ASIDE: it died too often */
#ifndef NIGHTSHIFT_SCHEDULER_SETTLE_H
#define NIGHTSHIFT_SCHEDULER_SETTLE_H

#include "scheduler/run.h"

#define SETTLERS 2u /* a long recording does not hold up the short ones */
#define SETTLE_PAGE 32u

enum settler_state {
    SETTLER_OFF,
    SETTLER_WAITING,
    SETTLER_STARTING,
    SETTLER_IDLE,
    SETTLER_BUSY,
    SETTLER_LEAVING,
    SETTLER_ASIDE,
};

struct settler {
    struct run *run;
    enum settler_state state;
    struct link *link;
    int64_t due_ms; /* WAITING: start; STARTING, BUSY, LEAVING: patience ends (monotonic) */
    bool condemned;
    bool broken;   /* nothing more of it is believed */
    bool unwanted; /* BUSY: what it finds is dropped */
    struct restart restart;
    struct err last;              /* why it died; code 0: nobody knows */
    struct store_task t;          /* BUSY; owned */
    struct store_stage_row stage; /* BUSY: of t; owned */
    bool sending; /* BUSY: it has not been told all: shards behind `told` are left */
    int64_t told;
    uint64_t sent_bytes;
};

/* A look into the catalog goes over the stages, and over each one's recordings in pages. */
struct settle {
    struct settler of[SETTLERS];
    bool wanted;                    /* another look, once this one is over */
    int64_t looked_ms;              /* when the last one began */
    struct store_stage_row *stages; /* of this look; NULL: none is on */
    size_t stage_count, stage_at;
    int64_t cursor;
    struct store_task page[SETTLE_PAGE];
    size_t page_len, page_at;
};

/* settlers.c */
void settler_start(struct settler *w);
/* Takes over what *t owns. The settler is idle. */
void settler_give(struct settler *w, const struct store_stage_row *stage, struct store_task *t);
void settler_put_down(struct settler *w); /* it has no recording in hand any more */
void settler_leave(struct settler *w);
void settler_tick(struct settler *w, int64_t now_ms);
bool settlers_all_aside(const struct settle *s);

#endif
