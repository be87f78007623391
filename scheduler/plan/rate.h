/* scheduler/plan/rate.h - how fast the run is, and when it will be over. Pure; one thread. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_RATE_H
#define NIGHTSHIFT_SCHEDULER_PLAN_RATE_H

#include <stdint.h>

#define RATE_WINDOW_MS 300000 /* the speed is that of the last five minutes */
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

#endif
