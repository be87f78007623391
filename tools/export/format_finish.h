/* tools/export/format_finish.h - the end of a recording's file: what the catalog has beside
 * segments.
 *
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMAT_FINISH_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMAT_FINISH_H

#include "store/store.h"
#include "tools/export/formats.h"

/* Behind format_begin and so many segments: turns (json, rttm), sounds (json) and what ends the
 * file. Of what was dropped there is nothing more than that. */
int format_finish(struct store *st, enum format format, const struct format_recording *r,
                  uint64_t segments, struct buf *out, struct err *err);

#endif
