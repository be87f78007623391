/* scheduler/plan/planner_state.h - what the planner keeps, for the files that make it up. Internal.
 *
 *   planner.c        tasks, and what became of leases
 *   planner_load.c   how much is left of them, and what each worker is loaded with
 *   planner_share.c  who gets what next: leases, and the splitting of long ones */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_PLANNER_STATE_H
#define NIGHTSHIFT_SCHEDULER_PLAN_PLANNER_STATE_H

#include "scheduler/plan/idmap.h"
#include "scheduler/plan/planner.h"

/* Bits from 0 on; those that were never set are 0. Most recordings are of a few shards, whose bits
 * need no memory of their own. Not to be moved. */
struct bits {
    uint64_t *words; /* &few, or owned; NULL: all 0 */
    uint32_t count;  /* of words */
    uint64_t few;
};

struct task {
    int64_t id;
    struct task *next_free; /* in the planner's list of structs to be used again */
    int64_t duration_ms;
    uint64_t size_bytes;
    uint32_t total; /* shards; 0 unknown; of a share no more than end */
    uint32_t end;   /* shards from it on are somebody else's; UINT32_MAX: none */
    bool shared;    /* the first ones are: they count as done */
    struct bits done;
    uint32_t done_count, done_end; /* done_end: highest done + 1 */
    uint32_t entries;              /* of the queue that point here */
    bool gone;                     /* removed: freed with its last entry */
    uint32_t leases;
    struct lease *first; /* of them */
    uint32_t guess;      /* shards that are thought to be left; what `backlog` counts it as */
    double work;         /* the same in shards of full length; what `backlog_work` counts it as */
    int priority;
    bool queued, died_once;
    uint32_t suspect; /* deaths over it */
    uint32_t died_on;
};

struct lease {
    uint64_t id;
    struct task *task;
    struct lease *sibling; /* the task's next; in the list of structs to be used again, its next */
    uint32_t worker;
    uint32_t first, last;
    uint32_t granted_last; /* before caps: a worker past its cap may still report */
    struct bits finished;  /* from `first` */
    uint32_t lowest;       /* first shard that is neither finished nor done */
    uint32_t highest;      /* highest finished + 1; 0 none */
    uint32_t rest;         /* shards that are thought to be left; 0 only when that is known */
    uint32_t spare;        /* of them, those at its end that may be given to another */
    double work;           /* the rest in shards of full length */
    bool alone, progress;
};

struct worker {
    bool ready, alone;
    uint32_t capacity;
    uint32_t flying;   /* shards that it works on, as it last said; its capacity when it did not */
    double rate;       /* as it was told; 0 unknown */
    double pace;       /* what is reckoned with, over 0 */
    uint32_t wants[2]; /* shards to hold: usually, and while there is plenty */
    uint64_t load, spare; /* sums over its leases: rest, spare, */
    double work;          /*   work */
    struct lease **leases;
    size_t lease_count, lease_cap;
    bool spare_stale; /* its leases' spare is of an earlier `flying` */
};

/* A task in the queue, or one that was: those are dropped when they come up. */
struct due {
    int64_t position;
    struct task *task;
};

/* Structs are made many at once, and used again. */
struct slab {
    struct slab *next;
};

struct planner {
    uint32_t shard_ms;
    struct idmap tasks, leases;
    struct slab *slabs; /* owned */
    struct task *free_tasks;
    struct lease *free_leases;
    /* Due tasks, in the order of turns. `run` ascends from run_at on, as the catalog gives tasks;
     * tasks out of that order are in a binary heap. */
    struct due *run, *heap;
    size_t run_at, run_len, run_cap, heap_len, heap_cap;
    int64_t *suspects; /* ids of those that are queued, unordered; few */
    size_t suspect_len, suspect_cap;
    size_t queued;
    uint64_t backlog; /* shards thought to be in queued tasks */
    double backlog_work;
    double more; /* work that the caller has not queued here yet */
    /* Sums over recordings of known length, to guess the lengths of others. */
    uint64_t known_bytes, known_ms;
    uint64_t spare; /* sums over all workers: spare, */
    double work;    /*   work */
    /* Sums over the workers that are ready (`paces_stale`: to be summed up again), */
    double pace;
    uint64_t capacity;
    uint32_t unrated; /* whose rate nobody has seen */
    uint32_t touched; /* changes of single rates since all were summed up */
    bool paces_stale;
    /*   and the level of planner_share.c, with what it was found for. */
    double level, level_pool, level_work;
    struct worker workers[PLANNER_MAX_WORKERS];
    /* Shards that each may be given yet (0 also when it may be given nothing), apart from the rest
     * because all are looked at after every result; and how many of them are over 0. */
    uint32_t room[PLANNER_MAX_WORKERS];
    uint32_t hungry;
    bool plenty;         /* which of `wants` room is of */
    uint32_t worker_end; /* one past the highest worker seen */
    uint64_t next_lease;
    uint32_t *skip;
    size_t skip_cap;
    struct lease *follow; /* leased by a split whose CAP was the last step: said next */
};

static inline bool bit_get(const struct bits *b, uint32_t i)
{
    return i / 64 < b->count && (b->words[i / 64] >> (i % 64) & 1);
}

/* Grows a list to hold `want` items. 0 or ERR_NOMEM. */
int plan_room(void **list, size_t *cap, size_t want, size_t size);
/* The queued task that is due first; NULL: none. */
struct task *plan_first_due(struct planner *p);
struct task *plan_task_get(const struct planner *p, int64_t id); /* NULL: not known */
/* How many shards the task has, as far as anybody can tell: at least one past those done. */
uint32_t plan_task_shards(const struct planner *p, const struct task *t);
bool plan_length_known(const struct task *t);
/* Others of unknown length are guessed by it; where it is not known, nothing. */
void plan_learn_length(struct planner *p, const struct task *t);
/* After a change of the task: its leases. */
void plan_task_update(struct planner *p, const struct task *t);
void plan_queue_out(struct planner *p, struct task *t);
void plan_suspect_drop(struct planner *p, int64_t id);
/* The last shard that the lease is thought to reach. */
uint32_t plan_lease_reach(const struct planner *p, const struct lease *l);
/* Converts this many shards at the task's end to shards of full length. */
double plan_task_work(const struct planner *p, const struct task *t, uint32_t shards);
/* After any change of its load, its state or its wants. */
void plan_worker_room(struct planner *p, uint32_t worker);
/* After any change: its rest, and its worker's load. */
void plan_lease_update(struct planner *p, struct lease *l);
/* The first shard that the owner cannot have begun. */
uint32_t plan_lease_untouched(const struct planner *p, const struct lease *l);
/* Zeroed, or NULL. */
struct lease *plan_lease_new(struct planner *p);
void plan_lease_free(struct planner *p, struct lease *l);
/* Updates the spare shards of the worker's leases, by the task it works on now. */
void plan_worker_spare(struct planner *p, uint32_t worker);
/* The worker's pace and what it is to hold, by its rate; `mean` stands for an unknown one. */
void plan_worker_pace(struct planner *p, uint32_t worker, double mean);

#endif
