/* tools/enqueue/stages/enqueue_kept.h - whether a stage that the catalog has can go on as it is.
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_KEPT_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_KEPT_H

#include "base/err.h"
#include "store/store.h"

/* Its model must be here with the same bytes, and so must the model of its voice activity. *dir:
 * where it is now, newly allocated, when its folder has moved; else NULL. ERR_MODEL, with what to
 * do. */
int enqueue_kept(const struct store_stage *s, char **dir, struct err *err);

#endif
