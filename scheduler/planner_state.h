/* scheduler/planner_state.h - what the planner keeps, for the files that make it up. Internal.
 *
 *   planner.c        tasks, workers, and what became of leases
 *   planner_share.c  who gets what next: leases, and the splitting of long ones */
#ifndef NIGHTSHIFT_SCHEDULER_PLANNER_STATE_H
#define NIGHTSHIFT_SCHEDULER_PLANNER_STATE_H

#include "scheduler/idmap.h"
#include "scheduler/planner.h"

struct task {
    int64_t id;
    int64_t duration_ms;
    uint64_t size_bytes;
    uint32_t total;                /* shards; 0 unknown */
    uint64_t *done;                /* bits; owned */
    uint32_t words;                /* of done */
    uint32_t done_count, done_end; /* done_end: highest done + 1 */
    uint32_t leases;
    uint32_t guess; /* shards that are thought to be left; what `backlog` counts it as */
    bool queued, suspect, died_once;
    uint32_t died_on;
};

struct lease {
    uint64_t id;
    struct task *task;
    uint32_t worker;
    uint32_t first, last;
    uint32_t granted_last; /* before caps: a worker past its cap may still report */
    uint64_t *settled;     /* bits from `first`; owned */
    uint32_t settled_words;
    uint32_t lowest;  /* first shard that is neither settled nor done */
    uint32_t highest; /* highest settled + 1; 0 none */
    uint32_t rest;    /* shards that are thought to be left; at least 1 */
    bool alone, progress;
};

struct worker {
    bool ready, alone;
    uint32_t capacity;
    double rate;
    uint64_t load; /* sum of its leases' rest */
    struct lease **leases;
    size_t lease_count, lease_cap;
};

struct planner {
    uint32_t shard_ms;
    struct idmap tasks, leases;
    /* Ids in the order in which they are due: a binary heap. Entries of tasks that are no longer
     * queued are dropped when they come up. */
    int64_t *heap;
    size_t heap_len, heap_cap;
    int64_t *suspects; /* ids, unordered; few */
    size_t suspect_len, suspect_cap;
    size_t queued;
    uint64_t backlog; /* shards thought to be in queued tasks */
    struct worker workers[PLANNER_MAX_WORKERS];
    uint32_t worker_end; /* one past the highest worker seen */
    uint64_t next_lease;
    uint32_t *skip;
    size_t skip_cap;
    struct lease *follow; /* leased by a split whose CAP was the last step: said next */
};

static inline bool bit_get(const uint64_t *bits, uint32_t words, uint32_t i)
{
    return i / 64 < words && (bits[i / 64] >> (i % 64) & 1);
}

/* Grows a list to hold `want` items. 0 or ERR_NOMEM. */
int plan_room(void **list, size_t *cap, size_t want, size_t size);
void plan_heap_pop(struct planner *p);
struct task *plan_task_get(const struct planner *p, int64_t id); /* NULL: not known */
/* How many shards the task has, as far as anybody can tell: at least one past those done. */
uint32_t plan_task_shards(const struct planner *p, const struct task *t);
bool plan_length_known(const struct task *t);
void plan_queue_out(struct planner *p, struct task *t);
void plan_suspect_drop(struct planner *p, int64_t id);
/* The last shard that the lease is thought to reach. */
uint32_t plan_lease_reach(const struct planner *p, const struct lease *l);
/* After any change: its rest, and its worker's load. */
void plan_lease_update(struct planner *p, struct lease *l);
void plan_lease_free(struct lease *l);

#endif
