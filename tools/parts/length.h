/* tools/parts/length.h - how long a recording is that nobody has opened yet. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_PARTS_LENGTH_H
#define NIGHTSHIFT_TOOLS_PARTS_LENGTH_H

#include <stdint.h>

/* As its container says, in ms, of a decoder process that is locked in: member nth of an archive,
 * or ("") the file itself. -1: it cannot be read here or in good time, it does not say, or the
 * kernel would not lock the decoder in. */
int64_t length_of(const char *path, const char *member, uint32_t nth);

#endif
