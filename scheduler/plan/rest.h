/* scheduler/plan/rest.h - at which hours a run works: until a time of day, and between two of
 * them, every night. Pure: clock and time zone are handed in.
 *
 * Times of day are those of the clock on the wall. At the beginning of summer time, a time that the
 * clock skips has come when the clock leaps over it. At its end, an hour that occurs twice counts
 * both times. A night from 22:00 to 06:00 has 7 or 9 hours then. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_REST_H
#define NIGHTSHIFT_SCHEDULER_PLAN_REST_H

#include <stdbool.h>
#include <stdint.h>

/* Seconds that the clock on the wall is ahead of UTC at a moment (ms since 1970, UTC). */
typedef int32_t (*hours_zone)(int64_t wall_ms);

struct hours {             /* all zero: at any time */
    bool until, between;   /* which of the times below hold */
    uint16_t end;          /* until: minutes of the day, 0 .. 1439 */
    uint16_t opens, shuts; /* between: from `opens` on, not any more at `shuts`; over midnight
                              where opens > shuts */
};

#define HOURS_TEXT 32
/* "07:00", "7:00" or "7". False: it is no time of day. */
bool hours_parse_until(const char *text, struct hours *ret);
/* "22:00-06:00". False: it is none, or both times are one. */
bool hours_parse_between(const char *text, struct hours *ret);
/* "07:00" */
void hours_text(uint16_t minutes, char ret[HOURS_TEXT]);

/* The first moment after now_ms at which the clock on the wall says so, or leaps over it: of an
 * hour that is there twice it may be the second. */
int64_t hours_next(uint16_t minutes, int64_t now_ms, hours_zone zone);

enum hours_say {
    HOURS_OPEN,
    HOURS_SHUT, /* until hours_next(opens) */
    HOURS_OVER, /* the run has had its time */
};
/* end_ms: hours_next(end) of when the run began. */
enum hours_say hours_look(const struct hours *h, int64_t end_ms, int64_t now_ms, hours_zone zone);

/* ---- when a GPU is left to others, and when it is taken again (run --idle).
 * Pure: clock and what was seen are handed in.
 *
 *   WORKING --- others use it for busy_ms, or it is not seen for blind_ms ---> LEFT
 *      ^                                                                        |
 *      `----------------- nobody else uses it for free_ms on end ---------------'
 *
 * The way back is the longer one: who stops for a coffee goes on before a batch of ours has begun,
 * and a run does not load its model for every pause of somebody else's. */

#define IDLE_BUSY_MS 10000
#define IDLE_FREE_MS 300000
#define IDLE_BLIND_MS 60000

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
