/* base/clock.h - the two clocks, and the one way in which a time of day is written. */
#ifndef NIGHTSHIFT_BASE_CLOCK_H
#define NIGHTSHIFT_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

int64_t clock_mono_ns(void); /* never goes back; its zero means nothing */
int64_t clock_mono_ms(void);
int64_t clock_wall_ms(void); /* since 1970-01-01 UTC */

struct timespec;
/* Nanoseconds of a file's time, which anybody may have set. Times outside the years 1677 to 2262
 * become the nearest value. */
int64_t clock_ns_of(const struct timespec *t);

#define CLOCK_ISO_LEN 25 /* "2026-01-31T23:59:59.123Z" and the NUL */
/* ISO-8601 UTC with milliseconds, as every time of day in the catalog. */
void clock_iso8601(int64_t wall_ms, char out[CLOCK_ISO_LEN]);

/* Seconds that the clock on the wall, in the zone of $TZ or the machine, is ahead of UTC then. */
int32_t clock_zone_s(int64_t wall_ms);

#define CLOCK_HMS_LEN 32
/* "1:02:03.450" (hours only when there are any); for people. */
void clock_hms(int64_t ms, char out[CLOCK_HMS_LEN]);

#endif
