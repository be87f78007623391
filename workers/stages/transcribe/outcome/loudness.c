#include "workers/stages/transcribe/outcome/loudness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STEP 160       /* samples of LOUDNESS_STEP_S */
#define LEAST_DB 10    /* between quiet and loud, for the difference to mean anything */
#define MARGIN_DB 6    /* above quiet, at the least */
#define SHARE 0.3f     /* of the way from quiet to loud is loud */
#define REACH_S 1.0f   /* a word's sound begins so much after its end at the most */
#define TAIL_S 0.8f    /* and goes on so long */
#define PAUSE_STEPS 12 /* a stop within a word ("p", "t") is shorter */
#define SHORTEST_S 0.02f

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;

    return (x > y) - (x < y);
}

static float measure_step_decibels(const float *pcm)
{
    double sum = 0;

    for (int i = 0; i < STEP; i++)
        sum += (double)pcm[i] * (double)pcm[i];
    return (float)(10 * log10(sum / STEP + 1e-9)); /* 16-bit silence and below are alike */
}

void loudness_measure(const float *pcm, size_t n, struct loudness *ret)
{
    float level[LOUDNESS_MAX], smooth[LOUDNESS_MAX], sorted[LOUDNESS_MAX], quiet, loud, limit;
    uint32_t steps = n / STEP < LOUDNESS_MAX ? (uint32_t)(n / STEP) : LOUDNESS_MAX;

    ret->steps = 0;
    if (steps < 3)
        return;
    for (uint32_t i = 0; i < steps; i++)
        level[i] = measure_step_decibels(pcm + (size_t)i * STEP);
    for (uint32_t i = 0; i < steps; i++) {
        float a = level[i ? i - 1 : i], b = level[i + 1 < steps ? i + 1 : i];

        smooth[i] = sorted[i] = (a + level[i] + b) / 3;
    }
    qsort(sorted, steps, sizeof(*sorted), compare_floats);
    quiet = sorted[steps / 10];
    loud = sorted[(size_t)steps * 99 / 100]; /* 0.3 s of speech in a window are enough */
    if (!(loud - quiet >= LEAST_DB))
        return;
    limit = quiet + fmaxf(MARGIN_DB, SHARE * (loud - quiet));
    for (uint32_t i = 0; i < steps; i++)
        ret->loud[i] = smooth[i] > limit;
    ret->steps = steps;
}

/* The step of a time, within the window. */
static uint32_t step_at(const struct loudness *l, float s)
{
    double i = (double)s / LOUDNESS_STEP_S + 1e-3;

    return i <= 0 ? 0 : i < l->steps ? (uint32_t)i : l->steps - 1;
}

static float time_of(uint32_t step) { return (float)(step * LOUDNESS_STEP_S); }

float loudness_share(const struct loudness *l, float start, float end)
{
    uint32_t from, to, n = 0;

    if (!l->steps || !(end > start))
        return 0;
    from = step_at(l, start);
    to = step_at(l, end);
    for (uint32_t i = from; i < to; i++)
        n += l->loud[i];
    return to > from ? (float)n / (float)(to - from) : 0;
}

static size_t count_characters(const char *text)
{
    size_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* The words were placed where nothing is heard, while the timestamps have sound between them. */
static bool are_words_misplaced(const struct loudness *l, const struct word *words, uint32_t n,
                                float from, float to)
{
    float start = words[0].start, end = words[n - 1].end;
    float overlap = fminf(end, to) - fmaxf(start, from);

    return to - from > SHORTEST_S && overlap < (to - from) / 2 &&
           loudness_share(l, start, fmaxf(end, start + SHORTEST_S)) < 0.25f &&
           loudness_share(l, from, to) > 0.4f;
}

static void spread_words_evenly(struct word *words, uint32_t n, float from, float to)
{
    size_t all = 0, at = 0;

    for (uint32_t i = 0; i < n; i++)
        all += count_characters(words[i].text);
    for (uint32_t i = 0; i < n; i++) {
        words[i].start = from + (to - from) * (float)at / (float)(all ? all : 1);
        at += count_characters(words[i].text);
        words[i].end = from + (to - from) * (float)at / (float)(all ? all : 1);
    }
}

/* Out of the quiet before its sound. */
static void place_start(const struct loudness *l, struct word *w, float after)
{
    uint32_t i = step_at(l, w->start), end = step_at(l, fminf(w->end + REACH_S, after));

    if (l->loud[i])
        return;
    while (i < end && !l->loud[i])
        i++;
    if (i >= end)
        return;
    w->start = time_of(i);
    if (w->end < w->start + SHORTEST_S)
        w->end = fminf(w->start + SHORTEST_S, after);
}

/* To the end of its sound: back out of the quiet behind it, or on to where the sound ends. */
static void place_end(const struct loudness *l, struct word *w, float after)
{
    uint32_t i = step_at(l, w->end), start = step_at(l, w->start), end, quiet = 0;

    if (!l->loud[i]) {
        while (i > start + 2 && !l->loud[i])
            i--;
        if (l->loud[i])
            w->end = time_of(i + 1);
        return;
    }
    end = step_at(l, fminf(w->end + TAIL_S, after));
    for (; i < end && quiet < PAUSE_STEPS; i++)
        quiet = l->loud[i] ? 0 : quiet + 1;
    if (i >= end && quiet == 0 && after > time_of(end) + SHORTEST_S)
        return; /* it goes on and on: that is not this word */
    w->end = fmaxf(w->end, fminf(time_of(i - quiet), after));
}

void loudness_place(const struct loudness *l, struct word *words, uint32_t n, float from, float to,
                    float before, float after)
{
    if (!l->steps || !n)
        return;
    from = fmaxf(from, before);
    to = fminf(to, after);
    if (are_words_misplaced(l, words, n, from, to))
        spread_words_evenly(words, n, from, to);
    for (uint32_t i = 0; i < n; i++)
        place_start(l, &words[i],
                    i + 1 < n ? fmaxf(words[i + 1].end - SHORTEST_S, words[i].start) : after);
    for (uint32_t i = 0; i < n; i++) {
        float next = i + 1 < n ? words[i + 1].start : after;

        if (words[i].end > next)
            words[i].end = fmaxf(next, words[i].start);
        place_end(l, &words[i], next);
    }
}
