/* scheduler/plan/hours.h - at which hours a run works: until a time of day, and between two of
 * them, every night. Pure: clock and time zone are handed in.
 *
 * Times of day are those of the clock on the wall. Where summer time begins, a time that the clock
 * leaves out has come when it leaps over it; where it ends, an hour that is there twice counts both
 * times: a night from 22:00 to 06:00 has 7 or 9 hours then. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_HOURS_H
#define NIGHTSHIFT_SCHEDULER_PLAN_HOURS_H

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

#endif
