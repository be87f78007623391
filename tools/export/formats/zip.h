/* tools/export/formats/zip.h - a zip file of members that are stored as they are, the same bytes at
 * any time. Pure. */
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
