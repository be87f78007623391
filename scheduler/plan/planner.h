/* scheduler/plan/planner.h - which shards which worker gets next.
 *
 * Pure: no clock, no I/O, no randomness; one thread. It knows tasks (a recording under one stage),
 * workers (a capacity in shards and a measured rate) and leases (a run of shards of one task at one
 * worker). The caller tells it what happened and asks planner_next until it has nothing to say.
 *
 *   task:    QUEUED --lease--> LEASED --last lease ends--> IDLE --requeue--> QUEUED
 *                                                            `----remove--> gone
 *   A task that is IDLE waits for the caller's word, who alone knows whether it failed.
 *
 * The rules, in their order:
 *   1. Recordings of a higher priority first, else in the order of their ids, each whole and
 * open-ended in one lease: one decoding pass, and nobody needs to know its length beforehand.
 *   2. A worker is given leases until they hold as many shards as its capacity (half as many more
 *      while there is plenty of work, so that a finished slot never waits for an answer). Half of
 *      the capacity is taken to be in work at once; of a worker whose rate is known no more than it
 *      does in half a minute waits beside that, for what waits there no other can do.
 *   3. A suspect (a worker or decoder died over it) goes to a worker that holds nothing else, which
 *      gets nothing else until the suspect has ended. Suspects go last, when nothing else is
 *      queued, so that what they may do again costs nobody anything; rather to another worker than
 *      the one that they died on, and those with the fewest deaths first, as most are innocent.
 *   4. A worker is given only what it will have done before all could be over without it: near the
 *      end a slow one is left idle rather than everybody kept waiting for it, and work waits for a
 *      fast one that is still busy. "All could be over" is the level: all work that nobody has
 *      begun, poured over the workers by their rates.
 *   5. Nothing queued and a worker is hungry: the lease that will take longest is capped, and its
 *      rest leased to the hungry one, cut so that all end together. Only shards that the owner
 *      cannot have begun are taken. A suspect is never split. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_PLANNER_H
#define NIGHTSHIFT_SCHEDULER_PLAN_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PLANNER_MAX_WORKERS 256u
#define PLANNER_MAX_CAPACITY 4096u
#define PLANNER_MAX_SHARDS (1u << 20) /* of one recording: ten years at five minutes each */

struct planner;

struct planner_task { /* as the catalog knows it; borrowed */
    int64_t id;
    int64_t duration_ms;   /* -1 unknown */
    uint64_t size_bytes;   /* a guess at the length when the duration is unknown */
    uint32_t shards_total; /* 0 unknown */
    const uint32_t *done;  /* ascending */
    uint32_t done_count;
    uint32_t suspect; /* deaths over it; 0: it is none */
    /* Shards before `first` and from `end` on belong to somebody else; end 0: none do. */
    uint32_t first, end;
    int priority; /* enum store_priority; 0 normal */
};

/* NULL when out of memory. shard_ms: the nominal length of a shard, over 0. */
struct planner *planner_new(uint32_t shard_ms);
void planner_free(struct planner *p); /* NULL is fine */

/* Queues a task. 1: nothing of it is left to do, and it was not added. A task that is known
 * already is left as it is (0). ERR_INPUT: its shards make no sense; ERR_NOMEM. */
int planner_task_add(struct planner *p, const struct planner_task *t, struct err *err);
bool planner_task_known(const struct planner *p, int64_t task);
/* The container has told its duration. */
void planner_task_duration(struct planner *p, int64_t task, int64_t duration_ms);
/* It has so many shards for certain, or more where more were done: *ret. ERR_PROTOCOL: that makes
 * no sense. */
int planner_task_total(struct planner *p, int64_t task, uint32_t shards, uint32_t *ret,
                       struct err *err);
/* All of its shards are done; its leases may be open yet. */
bool planner_task_complete(const struct planner *p, int64_t task);
/* How much of its shards is done, in percent; -1: it is a single one, or not known here. */
int planner_task_percent(const struct planner *p, int64_t task);
/* A process died over it: from now on it runs alone. Say it before the task is queued again. */
void planner_task_suspect(struct planner *p, int64_t task, uint32_t worker);
bool planner_task_is_suspect(const struct planner *p, int64_t task);
/* IDLE -> QUEUED. */
int planner_task_requeue(struct planner *p, int64_t task, struct err *err);
/* Forgets a task that has no lease. */
void planner_task_remove(struct planner *p, int64_t task);
/* Forgets every QUEUED task: the catalog has changed and will be read again. */
void planner_forget_queued(struct planner *p);
/* The caller has so much more to do than is queued here (as well as it knows), in shards of full
 * length: how near the end is. 0 at first. */
void planner_more(struct planner *p, double shards);
size_t planner_queued(const struct planner *p);   /* tasks, suspects among them */
size_t planner_suspects(const struct planner *p); /* those among them */
size_t planner_leased(const struct planner *p);   /* leases */

/* capacity: shards that keep it busy, twice those that it works on at once; at least 1; more than
 * PLANNER_MAX_CAPACITY count as that. */
void planner_worker_ready(struct planner *p, uint32_t worker, uint32_t capacity);
/* Sets the worker's speed in shards of full length per second; 0 unknown. May be called before the
 * worker is ready, with a remembered or estimated speed. */
void planner_worker_rate(struct planner *p, uint32_t worker, double rate);
/* Sets how many shards are in work there; the worker may have as many when it is asked again. Until
 * this is called, its capacity counts. Other shards can be given to others without loss. */
void planner_worker_busy(struct planner *p, uint32_t worker, uint32_t shards);
/* It takes less (or more) at once than it said when it became ready. */
void planner_worker_capacity(struct planner *p, uint32_t worker, uint32_t capacity);
/* It gets nothing any more. Its leases stay until planner_lease_end. */
void planner_worker_gone(struct planner *p, uint32_t worker);
/* Ids of the leases that it holds, at most max of them. Returns how many it holds. */
size_t planner_worker_leases(const struct planner *p, uint32_t worker, uint64_t *ids, size_t max);

enum planner_kind { PLANNER_NOTHING, PLANNER_LEASE, PLANNER_CAP };
struct planner_step {
    enum planner_kind kind;
    uint32_t worker;
    uint64_t lease;
    int64_t task;
    uint32_t first;       /* LEASE */
    uint32_t last;        /* LEASE, CAP; UINT32_MAX: to the end */
    const uint32_t *skip; /* LEASE: borrowed until the next call */
    uint32_t skip_count;
    bool alone; /* LEASE: of a suspect */
};
/* The next thing to say to a worker; it counts as said. ERR_NOMEM: nothing changed. */
int planner_next(struct planner *p, struct planner_step *ret, struct err *err);

/* A task's open lease should end early (it was paused): lowers its `last` to what the worker may
 * have begun. False: nothing to say to the worker, it has begun everything. */
bool planner_cap_now(struct planner *p, uint64_t lease, struct planner_step *ret);

/* The worker reported a shard of a lease. 1: it did so before in this lease, or another lease of
 * the task had it done already (a worker past its cap): no news. ERR_EMPTY: no such lease (it was
 * given up: not a fault); ERR_PROTOCOL: not a shard of this lease. */
int planner_shard(struct planner *p, uint64_t lease, uint32_t seq, bool done, struct err *err);

struct planner_ended {
    int64_t task;
    uint32_t worker;
    bool idle;       /* no other lease of the task is open: requeue or remove it */
    bool complete;   /* idle, its number of shards is known, and all are done */
    bool unreported; /* shards of this lease got no result */
    bool progress;   /* at least one shard of this lease was done */
    bool alone;
};
/* A lease is over. reached_end: the worker decoded to the recording's end and counted `shards`.
 * ERR_EMPTY: no such lease; ERR_PROTOCOL: the count makes no sense (the lease stays). */
int planner_lease_end(struct planner *p, uint64_t lease, bool reached_end, uint32_t shards,
                      struct planner_ended *ret, struct err *err);

#endif
