/* tools/hub/packages/yamnet.h - YAMNet's weights as Google's SavedModel has them, in the layout
 * of yamnet_dir.h. */
#ifndef NIGHTSHIFT_TOOLS_HUB_PACKAGES_YAMNET_H
#define NIGHTSHIFT_TOOLS_HUB_PACKAGES_YAMNET_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* The SavedModel's variables.data (its length is checked, its values are not) becomes
 * model.safetensors, appended to out: batch norms are folded in, and what lies [height][width][in]
 * [out] there lies [out][in][height][width] here. ERR_PROTOCOL: of another length. */
int hub_yamnet_weights(const uint8_t *variables, size_t len, struct buf *out, struct err *err);
/* config.json, as text that is to be freed. source: where the weights are from, for people. */
int hub_yamnet_config(const char *source, char **ret, struct err *err);

#endif
