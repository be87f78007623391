#include "scheduler/plan/rest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define MINUTE_MS 60000
#define DAY_MINUTES 1440
#define LOOK_MINUTES (3 * DAY_MINUTES)

/* Minutes that the clock on the wall has shown since its 1970. */
static int64_t local_minutes(int64_t wall_ms, hours_zone zone)
{
    int64_t ms = wall_ms + (int64_t)zone(wall_ms) * 1000;

    return ms >= 0 ? ms / MINUTE_MS : (ms - MINUTE_MS + 1) / MINUTE_MS;
}

static uint16_t minute_of_day(int64_t minutes)
{
    return (uint16_t)((minutes % DAY_MINUTES + DAY_MINUTES) % DAY_MINUTES);
}

/* One or two digits below `end`, behind which *s stands then. */
static bool parse_clock_number(const char **s, unsigned end, unsigned *ret)
{
    const char *p = *s;
    unsigned n = 0;

    while (*p >= '0' && *p <= '9' && p - *s < 2)
        n = n * 10 + (unsigned)(*p++ - '0');
    if (p == *s || n >= end)
        return false;
    *s = p;
    *ret = n;
    return true;
}

static bool time_of_day(const char **s, uint16_t *ret)
{
    unsigned hour, minute = 0;

    if (!parse_clock_number(s, 24, &hour))
        return false;
    if (**s == ':') {
        const char *behind = ++*s;

        if (!parse_clock_number(s, 60, &minute) || *s - behind != 2)
            return false;
    }
    *ret = (uint16_t)(hour * 60 + minute);
    return true;
}

bool hours_parse_until(const char *text, struct hours *ret)
{
    uint16_t end;

    if (!time_of_day(&text, &end) || *text)
        return false;
    ret->until = true;
    ret->end = end;
    return true;
}

bool hours_parse_between(const char *text, struct hours *ret)
{
    uint16_t opens, shuts;

    if (!time_of_day(&text, &opens) || *text++ != '-' || !time_of_day(&text, &shuts) || *text ||
        opens == shuts)
        return false;
    ret->between = true;
    ret->opens = opens;
    ret->shuts = shuts;
    return true;
}

void hours_text(uint16_t minutes, char ret[HOURS_TEXT])
{
    snprintf(ret, HOURS_TEXT, "%02u:%02u", minutes / 60u, minutes % 60u);
}

/* Minute by minute, for the clock on the wall leaps. The offset changes by less than a day, so that
 * the time comes within two. */
int64_t hours_next(uint16_t minutes, int64_t now_ms, hours_zone zone)
{
    int64_t before = local_minutes(now_ms, zone), at = now_ms;

    at -= now_ms + (int64_t)zone(now_ms) * 1000 - before * MINUTE_MS;
    for (int i = 0; i < LOOK_MINUTES; i++) {
        int64_t shown, ahead; /* ahead: minutes from `before` on until it is that time of day */

        at += MINUTE_MS;
        shown = local_minutes(at, zone);
        ahead = minute_of_day(minutes - minute_of_day(before) - 1) + 1;
        if (minute_of_day(shown) == minutes || shown - before >= ahead)
            break;
        before = shown;
    }
    return at;
}

static bool is_open(const struct hours *h, uint16_t minute)
{
    return h->opens < h->shuts ? minute >= h->opens && minute < h->shuts
                               : minute >= h->opens || minute < h->shuts;
}

enum hours_say hours_look(const struct hours *h, int64_t end_ms, int64_t now_ms, hours_zone zone)
{
    if (h->until && now_ms >= end_ms)
        return HOURS_OVER;
    if (h->between && !is_open(h, minute_of_day(local_minutes(now_ms, zone))))
        return HOURS_SHUT;
    return HOURS_OPEN;
}

/* ---- when a GPU is left to others, and when it is taken again (run --idle).
 * Pure: clock and what was seen are handed in.
 *
 *   WORKING --- others use it for busy_ms, or it is not seen for blind_ms ---> LEFT
 *      ^                                                                        |
 *      `----------------- nobody else uses it for free_ms on end ---------------'
 *
 * The way back is the longer one: who stops for a coffee goes on before a batch of ours has begun,
 * and a run does not load its model for every pause of somebody else's. */

#define IDLE_PERCENT 10 /* of a GPU's time: less is a desktop that is drawn */

bool idle_look(struct idle *i, const struct idle_times *t, enum idle_sees sees, int64_t now_ms)
{
    if (!i->begun && sees == IDLE_BLIND)
        return i->left = true;
    if (!i->begun || sees != i->saw)
        i->since_ms = now_ms;
    i->saw = sees;
    if (!i->begun)
        i->left = sees == IDLE_USED;
    else if (!i->left && sees != IDLE_FREE)
        i->left = now_ms - i->since_ms >= (sees == IDLE_USED ? t->busy_ms : t->blind_ms);
    else if (i->left && sees == IDLE_FREE)
        i->left = now_ms - i->since_ms < t->free_ms;
    i->begun = true;
    return i->left;
}

/* If the numbers belong to other processes, the worker is one of those that compute, but nobody
 * knows which, nor whose the shares are. */
static enum idle_sees judge_by_count(const struct idle_gpu *g, uint32_t *who)
{
    uint32_t computing = 0;

    for (uint32_t i = 0; i < g->process_count; i++)
        computing += g->process[i].computes;
    *who = 0;
    return computing > (g->worker > 0) ? IDLE_USED : IDLE_FREE;
}

static enum idle_sees judge_by_pid(const struct idle_gpu *g, uint32_t *who)
{
    for (uint32_t i = 0; i < g->process_count; i++) {
        const struct idle_process *p = &g->process[i];

        if (p->pid == g->worker || (!p->computes && p->percent < IDLE_PERCENT))
            continue;
        *who = p->pid;
        return IDLE_USED;
    }
    return IDLE_FREE;
}

enum idle_sees idle_judge(const struct idle_gpu *g, uint32_t *who)
{
    enum idle_sees ret;

    *who = 0;
    if (!g->lists)
        return IDLE_BLIND;
    ret = g->other_numbers ? judge_by_count(g, who) : judge_by_pid(g, who);
    return ret == IDLE_FREE && g->worker == 0 && g->percent >= IDLE_PERCENT ? IDLE_USED : ret;
}
