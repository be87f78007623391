#include "tools/export/subtitles/times.h"

#define CHAIN_MS 500 /* a pause shorter than that flickers: the cue stays until the next one */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* How long a cue has to be seen to be read. */
static int64_t reading_ms(uint32_t characters, const struct subtitle_limits *l)
{
    int64_t ms = (int64_t)(characters * 1000.0 / l->cps + 0.999);

    return least(most(ms, l->min_ms), l->max_ms);
}

/* A cue begins when it is spoken, or when the one before it is over; that may use up to
 * SUBTITLE_LATE_MS of this one's time to be read, and more to have the least duration at all. */
void times_settle(struct subtitle *list, size_t count, const uint32_t *characters,
                  const struct subtitle_limits *l)
{
    int64_t over = 0; /* when the next one may begin */

    for (size_t i = 0; i < count; i++) {
        struct subtitle *c = &list[i];
        int64_t spoken = c->start_ms, start = most(most(spoken, 0), over);
        int64_t next = i + 1 < count ? most(list[i + 1].start_ms, 0) : INT64_MAX / 2;
        int64_t read = start + reading_ms(characters[i], l), end = most(c->end_ms, read);

        /* The words' own end gives way to the next cue; reading may push that a little. */
        if (end > next - l->gap_ms)
            end = most(next - l->gap_ms, least(read, next + SUBTITLE_LATE_MS - l->gap_ms));
        else if (next - l->gap_ms - end < CHAIN_MS)
            end = next - l->gap_ms;
        end = least(most(end, start + l->min_ms), start + l->max_ms);
        c->start_ms = start;
        c->end_ms = end;
        over = end + l->gap_ms;
    }
}
