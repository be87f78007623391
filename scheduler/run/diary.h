/* scheduler/run/diary.h - what is kept of a run for those who ask in the morning (store/runs.h):
 * its figures, and its devices in stretches of five minutes. Internal to scheduler/; the loop's
 * thread.
 *
 * Written with what else the ledger holds: the devices at the end of each stretch and of the run,
 * the figures also every second that has results. A run that is killed loses its devices' last
 * stretch, and a second of its figures. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_DIARY_H
#define NIGHTSHIFT_SCHEDULER_RUN_DIARY_H

#include "scheduler/run/run.h"

#define DIARY_STRETCH_MS 300000

/* A worker's device as the catalog and metrics name it: "cuda:0"; one device may have several
 * workers: "cpu #2". */
void diary_device(const struct run *run, uint32_t worker, char *ret, size_t cap);
/* Why it ended, as in store_run; "": it is on. Static. */
const char *diary_why(const struct run *run);
int diary_begin(struct run *run, struct err *err); /* the catalog is open, the ledger empty */
/* Who had work since the last call: before each lease that begins or ends. */
void diary_work(struct run *run);
/* A worker has yielded so much audio. */
void diary_heard(struct worker_diary *d, int64_t ms);
void diary_tick(struct run *run); /* the same, and the end of a stretch */
void diary_end(struct run *run);  /* what came of it is known; before the last flush */

#endif
