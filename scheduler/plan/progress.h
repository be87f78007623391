/* scheduler/plan/progress.h - what the run shows of itself, as text. Pure: values in, a line out.
 */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_PROGRESS_H
#define NIGHTSHIFT_SCHEDULER_PLAN_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
    uint64_t done, all, failed;          /* recordings, of the whole archive */
    uint64_t paused, cancelled, gone;    /* of all; gone: from the disk */
    int64_t audio_done_ms, audio_all_ms; /* every recording once; all: -1 unknown */
    double speed;                        /* times real time; 0 unknown */
    int64_t low_ms, high_ms;             /* until the end; -1 unknown */
    uint32_t workers, workers_ready;
    const char *note; /* "paused", "loading the model" ...; "" none; nothing to escape in JSON */
    /* The stage whose turn it is, and how many recordings it has done, where that is more than are
     * done as a whole; NULL: it is not. */
    const char *stage;
    uint64_t stage_done;
    /* A recording in work: its name as it may be printed (base/utf8.h); NULL: none is. */
    const char *work;
    int work_percent;   /* of it; -1: too short to tell */
    uint32_t work_more; /* others in work */
};

/* One line of at most `columns` columns without a newline. The least important parts are left out
 * first, and the name of the file in work is cut to the space that is left. */
#define PROGRESS_LINE 512
void progress_line(const struct progress *p, unsigned columns, char ret[PROGRESS_LINE]);

/* One JSON object without a newline. `event`: "progress", "run-end" ... */
#define PROGRESS_JSON 2048
void progress_json(const struct progress *p, const char *event, char ret[PROGRESS_JSON]);

/* The files in work, in at most `columns` columns (at least 20): "talk.wav (45 %) and 3 more". */
void progress_work(const struct progress *p, unsigned columns, char ret[PROGRESS_LINE]);

#define PROGRESS_SPAN 32
/* A range of time, in one unit: "7 to 20 minutes", "about 4 hours", "up to 30 seconds". */
void progress_range(int64_t low_ms, int64_t high_ms, char ret[PROGRESS_SPAN]);
/* The one number that is as far from both ends. */
int64_t progress_middle(int64_t low_ms, int64_t high_ms);
/* "2 h 05 min", "4 min 10 s", "12 s"; "?" when negative. */
void progress_span(int64_t ms, char ret[PROGRESS_SPAN]);
/* Hours of audio in the unit of `whole_ms`, so that a part and its whole read alike: "1.2 h", "312
 * h"; of a whole under two hours "3.1 min". */
void progress_hours(int64_t ms, int64_t whole_ms, char ret[PROGRESS_SPAN]);

#endif
