#include "workers/stages/transcribe/outcome/coverage.h"

#include <string.h>

#define BESIDE 3200 /* samples on both sides of a text that are its: timestamps are rough */
#define STEP_MS (SPEECH_STEP / 16)

void coverage_begin(struct coverage *c, const float *voice, int64_t samples, float threshold)
{
    c->steps = (uint32_t)((samples + SPEECH_STEP - 1) / SPEECH_STEP);
    if (c->steps > COVERAGE_STEPS_MAX)
        c->steps = COVERAGE_STEPS_MAX;
    for (uint32_t i = 0; i < c->steps; i++)
        c->state[i] = voice[i] >= threshold ? COVERAGE_MISSING : COVERAGE_QUIET;
}

/* The step that holds the sample, or the nearest one. */
static uint32_t step_of(const struct coverage *c, int64_t sample)
{
    int64_t i = sample / SPEECH_STEP;

    return i <= 0 ? 0 : i < c->steps ? (uint32_t)i : c->steps;
}

void coverage_add(struct coverage *c, int64_t start, int64_t end, bool dropped)
{
    uint32_t last = step_of(c, end + BESIDE + SPEECH_STEP - 1);
    uint8_t to = dropped ? COVERAGE_DROPPED : COVERAGE_TEXT;

    for (uint32_t i = step_of(c, start - BESIDE); i < last; i++)
        if (c->state[i] != COVERAGE_QUIET && c->state[i] < to)
            c->state[i] = to;
}

bool coverage_next_gap(const struct coverage *c, int64_t from, int64_t to, uint32_t least,
                       struct coverage_gap *ret)
{
    uint32_t last = step_of(c, to + SPEECH_STEP - 1), n = 0, first = 0, end = 0;

    for (uint32_t i = step_of(c, from); i < last; i++) {
        if (c->state[i] == COVERAGE_MISSING) {
            first = n ? first : i;
            end = i + 1;
            n++;
        } else if (c->state[i] != COVERAGE_QUIET) {
            if (n && n >= least)
                break;
            n = 0;
        }
    }
    if (!n || n < least)
        return false;
    *ret = (struct coverage_gap){(int64_t)first * SPEECH_STEP, (int64_t)end * SPEECH_STEP, n};
    return true;
}

void coverage_close(struct coverage *c, uint32_t least)
{
    uint32_t first = 0;

    while (first < c->steps) {
        uint32_t end = first, n = 0;
        uint8_t to = COVERAGE_QUIET;

        while (end < c->steps && c->state[end] <= COVERAGE_MISSING)
            n += c->state[end++] == COVERAGE_MISSING;
        if (first && c->state[first - 1] > to)
            to = c->state[first - 1];
        if (end < c->steps && c->state[end] > to)
            to = c->state[end];
        for (uint32_t i = first; n && n < least && i < end; i++)
            if (c->state[i] == COVERAGE_MISSING)
                c->state[i] = to;
        first = end > first ? end : first + 1;
    }
}

void coverage_count(const struct coverage *c, struct result_account *sum)
{
    for (uint32_t i = 0; i < c->steps; i++) {
        sum->speech_ms += c->state[i] != COVERAGE_QUIET ? STEP_MS : 0;
        sum->dropped_ms += c->state[i] == COVERAGE_DROPPED ? STEP_MS : 0;
        sum->missing_ms += c->state[i] == COVERAGE_MISSING ? STEP_MS : 0;
    }
}
