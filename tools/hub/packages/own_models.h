/* tools/hub/packages/own_models.h - models that have a folder of the user's own, outside of the
 * cache: whatever is fetched into it, one program at a time. */
#ifndef NIGHTSHIFT_TOOLS_HUB_PACKAGES_OWN_MODELS_H
#define NIGHTSHIFT_TOOLS_HUB_PACKAGES_OWN_MODELS_H

#include "tools/hub/hub.h"

typedef int (*hub_own_fetch)(const struct hub_settings *s, const struct hub_watch *watch,
                             const char *folder, struct hub_pulled *ret, struct err *err);

/* Makes MODELS/name, locks it, and has it filled. folder is absolute and leaves room for a name of
 * 99 characters in PATH_MAX. Errors as of hub_pull; where the network is forbidden (ERR_DENIED),
 * what is here and whole is no error. */
int hub_pull_own(const char *name, hub_own_fetch fetch, const struct hub_settings *s,
                 const struct hub_watch *watch, struct hub_pulled *ret, struct err *err);

#endif
