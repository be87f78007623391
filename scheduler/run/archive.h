/* scheduler/run/archive.h - the catalog's sums over its recordings (store_archive) in the terms of
 * plan/. Pure; any thread. */
#ifndef NIGHTSHIFT_SCHEDULER_RUN_ARCHIVE_H
#define NIGHTSHIFT_SCHEDULER_RUN_ARCHIVE_H

#include "scheduler/plan/progress.h"
#include "scheduler/plan/estimate.h"
#include "store/store.h"

/* What is left to be heard of all of them. */
struct rate_backlog archive_backlog(const struct store_archive *a);
/* What is done of them; nothing else of it is known, and none is in work. */
struct progress archive_progress(const struct store_archive *a);

#endif
