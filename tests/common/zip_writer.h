/* tests/common/zip_writer.h - zip archives whose members are stored as they are, as PyTorch and
 * NumPy write them. Checksums are 0, which neither reader of ours looks at. */
#ifndef NIGHTSHIFT_TESTS_COMMON_ZIP_WRITER_H
#define NIGHTSHIFT_TESTS_COMMON_ZIP_WRITER_H

#include "base/buf.h"

struct zip_member { /* all borrowed */
    const char *name;
    const void *data;
    size_t len;
};

/* Appends the archive of these members, in this order, to an empty *b; b->failed where memory runs
 * out. */
void zip_write(struct buf *b, const struct zip_member *members, uint16_t count);

#endif
