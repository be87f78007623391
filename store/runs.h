/* store/runs.h - tables run and run_sample: what each run did, and how its devices were used.
 *
 * Bounded: the last 1000 runs, and of their samples those of the last 60 days. The store's thread
 * only; reading in any store_mode. */
#ifndef NIGHTSHIFT_STORE_RUNS_H
#define NIGHTSHIFT_STORE_RUNS_H

#include <stdint.h>

#include "base/err.h"

struct store;

struct store_run { /* texts are borrowed, none NULL */
    int64_t run_id;
    int64_t started_ms, seen_ms; /* wall clock; seen: when this was noted */
    int64_t ended_ms;            /* 0: it is on, or nobody knows yet that it is not */
    /* "done", "until" (its hours were over), "interrupted", "paused", "failed"; "lost": it was
     * killed, or the power went. "": it is on. */
    const char *why;
    const char *reason;  /* of a failure, a sentence; "" */
    const char *devices; /* for people */
    uint64_t recordings_done, recordings_failed, recordings_left;
    int64_t audio_ms; /* heard in it, of every recording once */
    int64_t work_ms;  /* of its time, so long any device had work */
};

/* The number of the next run. */
int store_run_next(struct store *st, int64_t *ret, struct err *err);
/* Its row becomes this. Earlier runs that have no end were lost. May be called within store_begin.
 * ERR_INPUT: impossible values. */
int store_run_note(struct store *st, const struct store_run *r, struct err *err);

typedef int (*store_run_fn)(void *arg, const struct store_run *row);
/* The last n, newest first. The rows are valid during the call; a value other than 0 from fn ends
 * it and is returned. */
int store_runs_each(struct store *st, uint64_t n, store_run_fn fn, void *arg, struct err *err);

struct store_sample { /* a device in a stretch of a run */
    int64_t run_id;
    const char *device;                     /* "cuda:0", "cpu #2" */
    int64_t at_ms;                          /* wall clock: where the stretch begins */
    int64_t span_ms;                        /* of it, so long the run was on */
    int64_t busy_ms;                        /*   and the device had work */
    int64_t audio_ms;                       /* that it heard, for each stage whose turn it was */
    uint64_t memory_bytes, predicted_bytes; /* of the device, the most in use; 0: unknown */
    uint32_t slots, windows;                /* at the stretch's end; 0: it was not ready */
    /* The driver's figures for the whole device, whoever used it, over seen_ms of span_ms. */
    int64_t seen_ms;
    int64_t load_ms;    /* of these, so long it computed; -1: not known, as below */
    int64_t energy_j;   /* that it took */
    int64_t celsius;    /* the highest */
    int64_t used_bytes; /* of its memory, the most */
    int64_t left_ms;    /* of span_ms, so long it was left to others (run --idle) */
};
/* Another of the same stretch is added to it: the clock was put back. */
int store_sample_note(struct store *st, const struct store_sample *s, struct err *err);
typedef int (*store_sample_fn)(void *arg, const struct store_sample *row);
/* Reads the samples of one run, by device, then by time. */
int store_samples_each(struct store *st, int64_t run_id, store_sample_fn fn, void *arg,
                       struct err *err);

#endif
