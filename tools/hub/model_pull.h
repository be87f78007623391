/* tools/hub/model_pull.h - `nightshift model pull`. */
#ifndef NIGHTSHIFT_TOOLS_HUB_MODEL_PULL_H
#define NIGHTSHIFT_TOOLS_HUB_MODEL_PULL_H

#include "tools/cli/cli.h"

/* Fetches the model, checks it, and says what is next. The exit status. revision: NULL: main. */
int model_pull(const struct cli *cli, const char *name, const char *revision);

#endif
