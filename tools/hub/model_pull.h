/* tools/hub/model_pull.h - `nightshift model pull`, and what `nightshift setup` does with each
 * model: pulls and copies (hub.h, hub_copy.h), seen by the one who waits for them. */
#ifndef NIGHTSHIFT_TOOLS_HUB_MODEL_PULL_H
#define NIGHTSHIFT_TOOLS_HUB_MODEL_PULL_H

#include "tools/cli/cli.h"
#include "tools/hub/hub.h"

/* Fetches the model, checks it, and says what is next. The exit status. name: a short one
 * (model_dir.h), an id, or one of our own. revision: NULL: main. */
int model_pull(const struct cli *cli, const char *name, const char *revision);

/* The fetching alone, with its progress on standard error unless `quiet`. offline: as if
 * HF_HUB_OFFLINE were set. Errors as of hub_pull. */
int model_fetch(bool quiet, bool offline, const char *name, const char *revision,
                struct hub_pulled *ret, struct err *err);
/* hub_copy, likewise. */
int model_copy(bool quiet, const char *from, const char *to, uint64_t *got_bytes, struct err *err);

#endif
