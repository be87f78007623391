/* workers/models/files/formats/stored_zip.h - the members of a zip archive that holds them
 * uncompressed.
 *
 * PyTorch's checkpoints are such archives (zip64 where they are large): their tensors can be used
 * where they lie in the mapped file. Every member's bounds are checked against the file when the
 * archive is opened; checksums are not (the model's hash covers the bytes). Immutable, any thread.
 */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_STORED_ZIP_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_FORMATS_STORED_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STORED_ZIP_MAX_MEMBERS 65536
#define STORED_ZIP_MAX_NAME 512

struct stored_member {
    const char *name; /* borrowed from the archive: name_len bytes, no NUL behind them */
    size_t name_len;
    const uint8_t *data;
    uint64_t size;
};

struct stored_zip;

/* ERR_MODEL with a sentence; data is borrowed until stored_zip_free. A member that is compressed,
 * encrypted or named twice makes the whole archive refused. */
int stored_zip_open(const void *data, size_t len, struct stored_zip **ret, struct err *err);
void stored_zip_free(struct stored_zip *z); /* accepts NULL */

size_t stored_zip_count(const struct stored_zip *z);
const struct stored_member *stored_zip_at(const struct stored_zip *z, size_t i); /* by name */
/* The member of this name; NULL when there is none. */
const struct stored_member *stored_zip_find(const struct stored_zip *z, const char *name,
                                            size_t len);

#endif
