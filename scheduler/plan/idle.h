/* scheduler/plan/idle.h - when a GPU is left to others, and when it is taken again (run --idle).
 * Pure: clock and what was seen are handed in.
 *
 *   WORKING --- others use it for busy_ms, or it is not seen for blind_ms ---> LEFT
 *      ^                                                                        |
 *      `----------------- nobody else uses it for free_ms on end ---------------'
 *
 * The way back is the longer one: who stops for a coffee goes on before a batch of ours has begun,
 * and a run does not load its model for every pause of somebody else's. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_IDLE_H
#define NIGHTSHIFT_SCHEDULER_PLAN_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#define IDLE_BUSY_MS 10000
#define IDLE_FREE_MS 300000
#define IDLE_BLIND_MS 60000
#define IDLE_PERCENT 10 /* of a GPU's time: less is a desktop that is drawn */

enum idle_sees {
    IDLE_BLIND, /* nothing was told for a while */
    IDLE_FREE,  /* nobody else uses it */
    IDLE_USED,
};

struct idle_times { /* as above; 0: at once */
    int64_t busy_ms, free_ms, blind_ms;
};

struct idle { /* all zero at first */
    bool begun, left;
    enum idle_sees saw;
    int64_t since_ms; /* so long it is what it saw */
};

/* Another look, at a time that does not go back. Is it to be left? At first
 * nothing is begun with until it is seen, and what is used then is left at once. */
bool idle_look(struct idle *i, const struct idle_times *t, enum idle_sees sees, int64_t now_ms);

/* One who uses it, seen by the driver. */
struct idle_process {
    uint32_t pid;
    bool computes;
    int percent; /* of the GPU's time; -1: not known */
};
struct idle_gpu {
    bool lists; /* processes are known */
    const struct idle_process *process;
    uint32_t process_count;
    int percent;        /* of its time, by all together; -1: not known */
    uint32_t worker;    /* our worker's pid; 0: none is up */
    bool other_numbers; /* the driver counts processes outside of the container that we are in */
};
/* Who computes uses it, whatever it computes now: it has memory there, and may go on at any moment.
 * Who draws uses it by taking IDLE_PERCENT of its time: every desktop has such processes. While
 * none of ours is up, all of its time is others'. *who: a pid of theirs, 0 where it has none. */
enum idle_sees idle_judge(const struct idle_gpu *g, uint32_t *who);

#endif
