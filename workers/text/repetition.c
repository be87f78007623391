#include "workers/text/repetition.h"

#include "workers/text/codepoints.h"

#define PERIOD_MAX 400 /* code points: a sentence or two */

/* How often a unit must come: as nearly all of the text, as half of it, anywhere. */
struct bounds {
    uint32_t whole, half, anywhere;
};

static const struct bounds phrases = {3, 5, 8};    /* words with the blanks between them */
static const struct bounds syllables = {4, 6, 8};  /* three letters or more, no blank */
static const struct bounds letters = {10, 10, 16}; /* "hahaha", "mmmm" */
static const struct bounds figures = {10, 10, 16};

static const struct bounds *bounds_of(const int32_t *unit, uint32_t period)
{
    bool blank = false, letter = false;

    for (uint32_t i = 0; i < period; i++) {
        blank |= unit[i] == ' ';
        letter |= unit[i] != ' ' && codepoint_digit(unit[i]) < 0;
    }
    if (!letter)
        return &figures;
    return blank ? &phrases : period >= 3 ? &syllables : &letters;
}

/* A run of `length` code points from `start` that repeat with this period. */
static bool is_loop(const struct folded *f, uint32_t start, uint32_t length, uint32_t period)
{
    uint32_t times = length / period;
    const struct bounds *b;

    if (times < phrases.whole)
        return false;
    b = bounds_of(f->at + start, period);
    if (times >= b->anywhere)
        return true;
    if (times >= b->half && 2 * length >= f->len)
        return true;
    return times >= b->whole && 5 * length >= 4 * f->len;
}

static bool loops_with(const struct folded *f, uint32_t period)
{
    uint32_t run = 0;

    for (uint32_t i = period; i <= f->len; i++) {
        if (i < f->len && f->at[i] == f->at[i - period]) {
            run++;
            continue;
        }
        if (run && is_loop(f, i - run - period, run + period, period))
            return true;
        run = 0;
    }
    return false;
}

bool repetition_loops(const struct folded *f)
{
    for (uint32_t period = 1; period <= f->len / phrases.whole && period <= PERIOD_MAX; period++)
        if (loops_with(f, period))
            return true;
    return false;
}
