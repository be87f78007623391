#include "workers/media/track/track_clock.h"

#define RATE_HZ 16000
/* Containers round times to milliseconds, and write several frames with one time. */
#define NEAR (RATE_HZ * 3 / 100)
#define NEAR_LOST (RATE_HZ / 100)
#define FAR (RATE_HZ * 8 / 100)
#define LASTS (RATE_HZ / 4)
#define BACK ((int64_t)RATE_HZ)
#define END_MOST ((int64_t)60 * RATE_HZ)
#define TIME_MOST ((int64_t)1 << 60)

int64_t track_clock_next(const struct track_clock *c)
{
    return c->rate_hz > 0 ? c->base + c->fed / c->rate_hz * RATE_HZ +
                                c->fed % c->rate_hz * RATE_HZ / c->rate_hz
                          : c->base;
}

bool track_clock_doubts(const struct track_clock *c, int64_t time)
{
    int64_t off;

    if (time <= -TIME_MOST || time >= TIME_MOST)
        return false;
    off = time + c->shift - track_clock_next(c);
    return off >= BACK || off <= -BACK;
}

static void record_clock_jump(struct track_clock *c, int64_t next, int64_t off)
{
    if (c->jumps++ == 0) {
        c->jump_at = next;
        c->jump_by = off;
    }
    c->shift -= off;
    c->off_sign = 0;
}

/* Jitter passes, drift and a short hole last. Returns what is to be made up for. */
static int64_t judge_small(struct track_clock *c, int64_t off, int64_t samples, int rate_hz)
{
    const int sign = off >= NEAR ? 1 : off <= -NEAR ? -1 : 0;
    const int64_t size = off < 0 ? -off : off;
    int64_t ret = 0;

    if (sign == 0 || sign != c->off_sign) {
        c->off_sign = sign;
        c->off_least = size;
        c->off_samples = 0;
    }
    if (sign == 0)
        return 0;
    c->off_least = size < c->off_least ? size : c->off_least;
    c->off_samples += samples * RATE_HZ / rate_hz;
    if (c->off_samples >= LASTS) {
        ret = sign * c->off_least;
        c->off_sign = 0;
    }
    return ret;
}

/* off: how much later the frame is than expected. */
static int64_t judge_clock_offset(struct track_clock *c, int64_t off, int64_t samples, int rate_hz,
                                  bool lost)
{
    const int64_t at_once = lost ? NEAR_LOST : c->begun ? FAR : NEAR;

    if (off < at_once)
        return judge_small(c, off, samples, rate_hz);
    c->off_sign = 0;
    return off;
}

int64_t track_clock_frame(struct track_clock *c, int64_t time, int64_t samples, int rate_hz,
                          bool lost)
{
    const int64_t next = track_clock_next(c);
    int64_t ret = 0;

    if (rate_hz != c->rate_hz) {
        c->base = next;
        c->fed = 0;
        c->rate_hz = rate_hz;
    }
    if (time > -TIME_MOST && time < TIME_MOST) {
        int64_t off = time + c->shift - next;

        if (off > c->longest_hole || off <= -BACK) {
            record_clock_jump(c, next, off);
            off = 0;
        }
        ret = judge_clock_offset(c, off, samples, rate_hz, lost);
    }
    if (ret != 0) {
        c->base = next + ret;
        c->fed = 0;
    }
    if (ret > 0 && lost)
        c->lost += ret;
    if (!c->begun)
        c->first = next + ret;
    c->begun = true;
    c->fed += samples;
    return ret;
}

int64_t track_clock_end(struct track_clock *c, int64_t time)
{
    const int64_t next = track_clock_next(c);
    int64_t off = 0;

    if (c->begun && time > -TIME_MOST && time < TIME_MOST)
        off = time + c->shift - next;
    if (off < NEAR_LOST || off > END_MOST)
        return 0;
    c->base = next + off;
    c->fed = 0;
    c->lost += off;
    return off;
}
