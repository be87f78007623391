/* scheduler/plan/estimate.h - when the run will be over: a range, made of the run's own results;
 * and before it begins, how long it takes, and what bounds it. Pure: the clock is handed in. One
 * thread.
 *
 * Stages have their turns one after another; what rides with the stage whose turn it is takes no
 * time of its own. A turn's speed is seen in it; of turns that are still to come it is what they
 * are remembered for, or a share of the speed seen, told with a wide range. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_ESTIMATE_H
#define NIGHTSHIFT_SCHEDULER_PLAN_ESTIMATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- how fast the run is, and when it will be over */
#define RATE_SAMPLES 64u

struct rate { /* all zero at first */
    int64_t at_ms[RATE_SAMPLES];
    uint64_t audio_ms[RATE_SAMPLES];
    uint32_t count, head; /* head: where the next sample goes */
};

/* So much audio has been transcribed since the start. The total must not go down (a lower one is
 * taken for the last). Samples closer than 1/60 of the window replace the last. */
void rate_add(struct rate *r, int64_t now_ms, uint64_t audio_ms);
/* Times real time over the window; 0 while nobody can tell (less than a second was seen). */
double rate_speed(const struct rate *r, int64_t now_ms);

struct rate_backlog {
    int64_t known_left_ms;  /* of recordings whose length is known */
    uint64_t tasks_unknown; /* and of the others: how many, */
    uint64_t bytes_unknown; /*   how large; 0 when not known */
    int64_t known_ms;       /* what the lengths known are like: */
    uint64_t tasks_known, bytes_known;
};
/* Audio left, with recordings of unknown length taken for as long as others of their size (or, with
 * no sizes, as the average); -1 when nothing is known to go by. */
int64_t rate_left_ms(const struct rate_backlog *b);
/* Milliseconds until the end; -1 unknown. */
int64_t rate_eta_ms(double speed, const struct rate_backlog *b);

#define ESTIMATE_STAGES 16u

struct estimate_turn { /* of a stage that has had results in this run */
    int64_t stage;
    double speed; /* times real time, as it was seen last */
};

struct estimate {      /* all zero at first */
    int64_t stage;     /* whose turn it is; 0: none's */
    int64_t begun_ms;  /* its turn began: its model is loaded */
    int64_t at_ms;     /* the last call of estimate_add */
    int64_t work_ms;   /* of its turn, while there was work at the workers */
    int64_t first_ms;  /* of these, when the first result came; -1: not yet */
    int64_t load_ms;   /* the longest load that was seen */
    uint64_t audio_ms; /* in its turn */
    struct rate rate;  /* of its turn, by work_ms */
    struct estimate_turn seen[ESTIMATE_STAGES];
    uint32_t seen_count;
};

/* Another stage's turn, or the same one's again. */
void estimate_begin(struct estimate *e, int64_t stage, int64_t now_ms);
/* So much audio has been heard since its turn began; working: workers have some of it. */
void estimate_add(struct estimate *e, int64_t now_ms, uint64_t audio_ms, bool working);

struct estimate_left { /* what a stage has to do, also what still waits for another one */
    int64_t stage;
    struct rate_backlog left;
    bool rides;        /* with the stage whose turn it is, as far as that goes */
    bool text;         /* it reads what was said, and hears nothing */
    double remembered; /* times real time, in earlier runs; 0: unknown */
};
/* From now to the end, in ms. False: there is nothing to tell it by (yet). */
bool estimate_range(const struct estimate *e, int64_t now_ms, const struct estimate_left *left,
                    size_t n, int64_t *low_ms, int64_t *high_ms);

/* ---- a night before it begins
 *
 * Devices, the engine's threads and the processors work at the same time, so a night takes as long
 * as the one that has most to do. All costs are seconds for an hour of sound. */

struct night_stage { /* what waits in one stage */
    const char *name;
    double hours;    /* of sound */
    double device_s; /* of all devices together; 0: not known, and it counts as nothing */
    bool together;   /* device_s was seen while the other stages of its recordings ran beside it */
    double thread_s; /* of the processor, in the stage's thread beside a GPU */
    double core_s;   /* of the processors that compute it themselves, all of them together */
    bool text;       /* it hears nothing: it has a turn of its own, when all is heard */
};

struct night {
    const struct night_stage *stages; /* borrowed */
    size_t count;
    double hours;   /* of sound that is decoded, once for all stages */
    double host_s;  /* of the processors for each of these, beside stages: decoding and the rest */
    uint32_t gpus;  /* workers with a thread for each stage; 0: none */
    uint32_t cores; /* at least 1 */
};

/* NIGHT_EARLIER: what bounded the nights in which the stages were seen together. */
enum night_bound { NIGHT_NOTHING, NIGHT_DEVICES, NIGHT_THREAD, NIGHT_CORES, NIGHT_EARLIER };

/* Text has a turn of its own, behind what is heard: all but `seconds` is of the longer turn. */
struct night_length {
    double device_s, thread_s, core_s; /* how long each has to work, side by side */
    double seconds;                    /* the night: both turns */
    enum night_bound bound;            /* NIGHT_NOTHING: there is no work */
    const char *thread;                /* the stage whose thread has most to do; NULL: none */
};

void night_length(const struct night *n, struct night_length *ret);

/* Processor seconds to decode an hour of sound. format: a codec as FFmpeg names it, or the ending
 * of a file's name, in lower case. bytes_per_s: the usual size of a second. All other formats are
 * one, "other". */
struct night_format {
    const char *name; /* of its class: "MP3" */
    double decode_s, bytes_per_s;
    double samples_s; /* of all channels, that decode_s is for */
    bool plain;       /* 16-bit samples: an unopened file's size says how many */
};
const struct night_format *night_format(const char *format);

/* Processor seconds for an hour of sound, beside decoders and the engine's threads: a worker's
 * threads that receive sound, the scheduler, and finalizing where a stage wants that. */
#define NIGHT_RECEIVE_S 0.15
#define NIGHT_COMMIT_S 0.15
#define NIGHT_FINALIZE_S 0.35

#endif
