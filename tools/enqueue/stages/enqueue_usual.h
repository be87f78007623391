/* tools/enqueue/stages/enqueue_usual.h - the model that an option such as --diarize takes when none
 * is named. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_USUAL_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_USUAL_H

#include <stddef.h>

#include "base/err.h"
#include "store/store.h"
#include "workers/stages/stage_kind.h"

/* Its folder, newly allocated, and its name, borrowed from k: the user's own, or else what `model
 * pull` brings; never what comes with the program. ERR_MODEL, with what to do, when there is none,
 * and when the catalog's speakers were told apart with another model that is not named now: the
 * results of this one would count in place of those. known: the catalog, or NULL. */
int enqueue_usual_find(const struct stage_kind *k, struct store *known, char **ret_dir,
                       const char **ret_name, struct err *err);

#endif
