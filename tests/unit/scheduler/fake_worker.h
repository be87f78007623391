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
    char kind[32];
    bool told;
    struct {     /* by stage, from the second on */
        bool on; /* it has something to say yet */
        uint32_t next;
    } tracks[SETUP_MAX_STAGES];
    /* Its pass is over, and it ends as soon as its tracks have said what they heard. */
    bool over, reached;
    int code;
    const char *message;
};

extern char fake_stages[SETUP_MAX_STAGES][FAKE_STAGE_LEN];

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
bool fake_skipped(const struct msg_track *t, uint32_t seq);
/* A file "WHAT:NAME" of a byte for each lease: who asks may count what was leased. */
void fake_count(const char *what, const struct fake_lease *l);

/* fake_results.c: SHARD_DONE, as of `lease`. */
void fake_shard_done(const struct fake_lease *l, uint64_t lease, uint32_t track, uint32_t seq);
void fake_shard_failed(const struct fake_lease *l, uint32_t track, uint32_t seq, int code,
                       const char *message);

/* fake_tracks.c: what a lease has to do for other stages than the first. They yield what its pass
 * has come past. While $FAKE_STATE has a file "late", they wait. $FAKE_TRACKS:
 *   none, few, many   READY: none is loaded; nothing is said of any; one more than in SETUP
 *   crash, crashonce, fail, drop, outside, foreign, astray, twice
 *                     at the lease's shard N/2 (of N): aborts (the first time only); SHARD_FAILED;
 *                     says nothing from there on; a shard that is not leased; one of another
 *                     recording; one of a track that the lease does not have; the same again
 *   longer, lastly    says that the recording has one shard more; the same in LEASE_END
 *   die               aborts while it loads them
 * MODE@STAGE: only for that stage. */
void fake_tracks_setup(const struct msg_setup *s, struct msg_ready *r);
void fake_tracks_begin(struct fake_lease *l);
bool fake_tracks_lie(uint32_t k);                        /* longer */
bool fake_tracks_lie_at_end(const struct fake_lease *l); /* lastly */
void fake_tracks_work(struct fake_lease *l);             /* says all that may be said */
bool fake_tracks_done(const struct fake_lease *l);       /* they have nothing to say any more */
void fake_tracks_drop(struct fake_lease *l);             /* and will not have */

#endif
