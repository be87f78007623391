/* scheduler/catalog_watch.h - the catalog's file, its log and its disk, looked at while a run is
 * on. Internal to scheduler/; the loop's thread. */
#ifndef NIGHTSHIFT_SCHEDULER_CATALOG_WATCH_H
#define NIGHTSHIFT_SCHEDULER_CATALOG_WATCH_H

#include "scheduler/run/run.h"

/* Is the file still where it was opened? Else run->catalog.astray says how not, and the run has
 * failed. */
void catalog_watch_place(struct run *run);
void catalog_watch_log(struct run *run, int64_t now_ms); /* monotonic */
/* Saves a catalog that was moved or replaced, at the run's end. */
void catalog_watch_rescue(struct run *run);

#endif
