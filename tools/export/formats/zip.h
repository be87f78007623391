/* tools/export/formats/zip.h - a zip file of members that are stored as they are, the same bytes at
 * any time. Pure.
 *
 * By hand, since a docx needs no more of a zip than this: libarchive stays in the decoder's process
 * with what parses strangers' bytes (docs/design/sandbox.md), and libzip would be one more
 * dependency, with a source in memory and a time for each member to be set, for fifty lines.
 * python-docx reads what comes of it (tests/unit/tools/test_field_formats.py). */
#ifndef NIGHTSHIFT_TOOLS_EXPORT_FORMATS_ZIP_H
#define NIGHTSHIFT_TOOLS_EXPORT_FORMATS_ZIP_H

#include "base/buf.h"

struct zip {         /* zero at first but for out */
    struct buf *out; /* empty at first */
    struct buf index;
    unsigned count;
};
void zip_add(struct zip *z, const char *name, const void *data, size_t len);
void zip_end(struct zip *z); /* frees the index; out->failed tells of errors */

#endif
