#include "base/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

static int64_t now_ns(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t clock_mono_ns(void) { return now_ns(CLOCK_MONOTONIC); }
int64_t clock_mono_ms(void) { return now_ns(CLOCK_MONOTONIC) / 1000000; }
int64_t clock_wall_ms(void) { return now_ns(CLOCK_REALTIME) / 1000000; }

int64_t clock_ns_of(const struct timespec *t)
{
    int64_t ns;

    if (__builtin_mul_overflow((int64_t)t->tv_sec, INT64_C(1000000000), &ns) ||
        __builtin_add_overflow(ns, (int64_t)t->tv_nsec, &ns))
        return t->tv_sec < 0 ? INT64_MIN : INT64_MAX;
    return ns;
}

void clock_iso8601(int64_t wall_ms, char out[CLOCK_ISO_LEN])
{
    time_t s = (time_t)(wall_ms / 1000);
    struct tm tm;
    char day[40];

    gmtime_r(&s, &tm);
    strftime(day, sizeof(day), "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out, CLOCK_ISO_LEN, "%.19s.%03dZ", day, (int)(wall_ms % 1000));
}

int32_t clock_zone_s(int64_t wall_ms)
{
    time_t s = (time_t)(wall_ms / 1000);
    struct tm tm;

    return localtime_r(&s, &tm) ? (int32_t)tm.tm_gmtoff : 0;
}

void clock_hms(int64_t ms, char out[CLOCK_HMS_LEN])
{
    int64_t s = ms / 1000;

    if (s >= 3600)
        snprintf(out, CLOCK_HMS_LEN, "%" PRId64 ":%02d:%02d.%03d", s / 3600, (int)(s / 60 % 60),
                 (int)(s % 60), (int)(ms % 1000));
    else
        snprintf(out, CLOCK_HMS_LEN, "%d:%02d.%03d", (int)(s / 60), (int)(s % 60),
                 (int)(ms % 1000));
}
