/* scheduler/run/remembered_batch.h - how much a device takes at once: remembered from earlier runs,
 * and for later ones (store/tuning.h). Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_REMEMBERED_BATCH_H
#define NIGHTSHIFT_SCHEDULER_RUN_REMEMBERED_BATCH_H

#include "scheduler/run/run.h"

/* Fills in what is remembered of the worker's device; before SETUP. m->ways is the caller's to
 * free. */
void remembered_fill(struct run_worker *w, struct msg_setup *m);
void remembered_ready(struct run_worker *w, const struct msg_ready *m);
void remembered_lowered(struct run_worker *w, const struct msg_tuned *m);
void remembered_heartbeat(struct run_worker *w, const struct msg_heartbeat *m);
void remembered_gone(struct run_worker *w); /* its process has ended */
/* "; cuda:0 used 8.10 GB of 24.00, predicted 9.00" for each device that is not the processor. */
void remembered_summary(const struct run *run, char *text, size_t cap);

#endif
