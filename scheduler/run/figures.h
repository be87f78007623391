/* scheduler/run/figures.h - what a run counts: recordings, audio, and when it will be over.
 * Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_FIGURES_H
#define NIGHTSHIFT_SCHEDULER_RUN_FIGURES_H

#include "scheduler/run/run.h"

void figures_begin(struct figures *f);
void figures_totals(struct run *run);  /* read again */
void figures_stale(struct figures *f); /* they are not as they were: read again when next wanted */
/* Counts the tasks, and the finalized recordings, that the ledger just wrote. */
void figures_written(struct figures *f, uint64_t tasks, uint64_t recordings);
/* Is nothing left that could be done, now or later? */
bool figures_all_done(struct run *run);
void figures_tick(struct run *run, int64_t now_ms);
/* ret->work is valid until the next turn of the loop. */
void figures_view(struct run *run, struct progress *ret);
void figures_begin_stage(struct run *run); /* run->backlog.stage has its turn */
/* The stage has heard so much more of it. */
void figures_heard(struct run *run, struct run_task *t, int64_t ms);
/* One of its tasks is given up, which is written with what the ledger holds. False: the last of its
 * tasks that was, was so with the same words. */
bool figures_failed(struct run *run, int64_t media, const char *why);
uint64_t figures_audio_seen(const struct run *run); /* by the heartbeats */
/* A worker has gone, by whose heartbeats so much was heard. */
void figures_worker_gone(struct figures *f, uint64_t audio_ms);
void figures_free(struct figures *f);

#endif
