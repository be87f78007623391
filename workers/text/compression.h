/* workers/text/compression.h - how repetitive a text is. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_COMPRESSION_H
#define NIGHTSHIFT_WORKERS_TEXT_COMPRESSION_H

#include <stddef.h>

#include "base/err.h"

/* len / length of the zlib stream at the default level: Whisper's measure, above 2.4 in loops.
 * 0 for empty text. ERR_NOMEM. */
int compression_ratio(const char *text, size_t len, float *ret, struct err *err);

#endif
