/* scheduler/plan/progress.h - what the run shows of itself, as text. Pure: values in, a line out.
 */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_PROGRESS_H
#define NIGHTSHIFT_SCHEDULER_PLAN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    uint64_t tasks_done, tasks_all, tasks_failed;
    bool several;                        /* stages: a file has more than one task */
    int64_t audio_done_ms, audio_all_ms; /* all: -1 unknown */
    double speed;                        /* times real time; 0 unknown */
    int64_t eta_ms;                      /* -1 unknown */
    uint32_t workers, workers_ready;
    const char *note; /* "paused", "loading the model" ...; "" none; nothing to escape in JSON */
};

/* One line of at most `columns` columns without a newline; ASCII but for the multiplication sign.
 * What matters least is left out first. */
#define PROGRESS_LINE 256
void progress_line(const struct progress *p, unsigned columns, char ret[PROGRESS_LINE]);

/* One JSON object without a newline. `event`: "progress", "run-end" ... */
#define PROGRESS_JSON 512
void progress_json(const struct progress *p, const char *event, char ret[PROGRESS_JSON]);

/* "2 h 05 min", "4 min 10 s", "12 s"; "?" when negative. */
#define PROGRESS_SPAN 32
void progress_span(int64_t ms, char ret[PROGRESS_SPAN]);
/* Hours of audio in the unit of `whole_ms`, so that a part and its whole read alike: "1.2 h", "312
 * h"; of a whole under two hours "3.1 min". */
void progress_hours(int64_t ms, int64_t whole_ms, char ret[PROGRESS_SPAN]);

#endif
