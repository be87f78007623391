#include "scheduler/rest/working_hours.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "scheduler/run/report.h"
#include "scheduler/loop_turn.h"

void working_hours_text(const struct run *run, char ret[WORKING_HOURS_TEXT])
{
    const struct hours *h = &run->o->hours;
    char end[HOURS_TEXT], opens[HOURS_TEXT], shuts[HOURS_TEXT];

    hours_text(h->end, end);
    hours_text(h->opens, opens);
    hours_text(h->shuts, shuts);
    snprintf(ret, WORKING_HOURS_TEXT, "%s%s%s%s%s%s", h->between ? opens : "",
             h->between ? "-" : "", h->between ? shuts : "", h->between && h->until ? ", " : "",
             h->until ? "until " : "", h->until ? end : "");
}

void working_hours_begin(struct run *run)
{
    char text[WORKING_HOURS_TEXT], span[PROGRESS_SPAN];
    const int64_t now = clock_wall_ms();

    if (!run->o->hours.until && !run->o->hours.between)
        return;
    run->hours.end_ms = hours_next(run->o->hours.end, now, run->tune.zone);
    working_hours_text(run, text);
    progress_span(run->hours.end_ms - now, span);
    report_event(run, LOG_INFO, "it works %s%s%s%s", text, run->o->hours.until ? " (in " : "",
                 run->o->hours.until ? span : "", run->o->hours.until ? ")" : "");
}

static void rest(struct run *run, bool shut)
{
    char opens[HOURS_TEXT];

    if (run->hours.shut == shut)
        return;
    run->hours.shut = shut;
    hours_text(run->o->hours.opens, opens);
    snprintf(run->hours.text, sizeof(run->hours.text), "resting until %s", opens);
    if (shut)
        report_event(run, LOG_INFO, "resting until %s: what has begun is finished to a checkpoint",
                     opens);
    else
        report_event(run, LOG_INFO, "it is %s; going on", opens);
    loop_turn_hold(run);
}

void working_hours_tick(struct run *run)
{
    char end[HOURS_TEXT];

    if (run->turn.mode != RUN_GOING && run->turn.mode != RUN_PAUSED)
        return;
    switch (hours_look(&run->o->hours, run->hours.end_ms, clock_wall_ms(), run->tune.zone)) {
    case HOURS_OPEN:
        rest(run, false);
        break;
    case HOURS_SHUT:
        rest(run, true);
        break;
    case HOURS_OVER:
        hours_text(run->o->hours.end, end);
        report_event(run, LOG_INFO, "it is %s", end);
        run->hours.over = true;
        loop_turn_stop(run);
        break;
    }
}
