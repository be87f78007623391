/* scheduler/run/archive.h - the catalog's sums over its recordings (store_archive) in the terms of
 * plan/. Pure; any thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_ARCHIVE_H
#define NIGHTSHIFT_SCHEDULER_RUN_ARCHIVE_H

#include "scheduler/plan/progress.h"
#include "scheduler/plan/estimate.h"
#include "store/store.h"

/* The audio that is left to be heard in all recordings. */
struct rate_backlog archive_backlog(const struct store_archive *a);
/* The progress of all recordings. Other fields are unknown, and no work is in progress. */
struct progress archive_progress(const struct store_archive *a);

#endif
