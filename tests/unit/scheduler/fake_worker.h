/* tests/unit/scheduler/fake_worker.h - the fake worker's parts, seen by each other. */
#ifndef NIGHTSHIFT_TESTS_UNIT_SCHEDULER_FAKE_WORKER_H
#define NIGHTSHIFT_TESTS_UNIT_SCHEDULER_FAKE_WORKER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "workers/wire/frame.h"
#include "workers/wire/protocol.h"

#define FAKE_STAGE_LEN 32
#define FAKE_MAX_LEASES 4096

struct fake_lease {
    struct msg_lease m;
    uint32_t next, last, shards;
    char kind[32], stage[FAKE_STAGE_LEN];
    bool told;
};

/* The messages' strings are not const, for those who decode them; putting only reads. */
static inline char *fake_text(const char *s) { return (char *)s; }
static inline bool fake_is(const struct fake_lease *l, const char *kind)
{
    return strcmp(l->kind, kind) == 0;
}

/* fake_worker.c */
void fake_say(uint8_t type, struct buf *b);          /* frees *b; leaves when nobody listens */
bool fake_mode(const char *name, const char *stage); /* is it $FAKE_MODE's, for the stage? */
bool fake_has_word(const char *text); /* is there a file of that name in $FAKE_STATE? */
/* Takes over *m, and counts the lease in the file "WHAT:NAME", by a byte. */
void fake_lease_begin(struct fake_lease *ret, struct msg_lease *m, const char *stage,
                      const char *what);
bool fake_skipped(const struct fake_lease *l, uint32_t seq);
/* Says LEASE_END, and frees what the lease owns. */
void fake_lease_end(struct fake_lease *l, int code, const char *message, bool reached);

/* fake_results.c: SHARD_DONE, as of `lease`. */
void fake_shard_done(const struct fake_lease *l, uint64_t lease, uint32_t seq);
void fake_shard_failed(const struct fake_lease *l, uint32_t seq);

/* fake_companions.c: leases of other stages. They yield what the leases that they listen to have
 * come past, and end with them. While $FAKE_STATE has a file "late", they wait. $FAKE_COMPANIONS:
 *   none, few, many   READY: none is loaded; nothing is said of any; one more than in SETUP
 *   crash, crashonce, fail, drop, outside, foreign, twice
 *                     at the lease's shard N/2 (of N): aborts (the first time only); SHARD_FAILED;
 *                     LEASE_END with ERR_CANCELLED; a shard that is not leased; one of another
 *                     recording; the same again
 *   die               aborts while it loads them
 * MODE@STAGE: only for that stage. */
void fake_companions_setup(const struct msg_setup *s, struct msg_ready *r);
void fake_companions_add(struct msg_lease *m);
void fake_companions_heard(uint64_t with, uint32_t upto); /* shards below */
void fake_companions_over(uint64_t with, uint32_t upto, int code, bool reached);
void fake_companions_cap(uint64_t with, uint32_t last);
bool fake_companions_cancel(uint64_t lease); /* false: it is not one of theirs */
void fake_companions_drain(void);
void fake_companions_work(void); /* says all that may be said */
uint32_t fake_companions_held(void);

#endif
