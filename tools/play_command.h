/* tools/play_command.h - the command that plays a stretch of a recording. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_PLAY_COMMAND_H
#define NIGHTSHIFT_TOOLS_PLAY_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

#define PLAY_AROUND_MS 1000 /* before it and behind it */

struct play {
    const void *path; /* raw bytes, absolute */
    size_t path_len;
    const void *member; /* raw bytes; empty: a plain file. "inner.zip//name" when nested */
    size_t member_len;
    uint32_t nth; /* which of the members of that name, 0 ... */
    int64_t start_ms, end_ms;
};

/* Puts it: ffplay, of a member behind bsdtar, of a file that was compressed by itself behind
 * bsdcat. False, and nothing put: no command reaches it (not the first member of its name). */
bool play_command(const struct play *p, struct buf *out);

#endif
