/* workers/media/archive_walk.h - the recordings of an archive with their bytes, by one pass, or two
 * when a large archive inside is of a kind that is read back and forth (zip, 7z).
 *
 * Runs inside the decoder process. Archives inside the archive are looked into once; those within
 * them are reported as entries that cannot be read. A damaged archive gives what came before the
 * damage, then the error. One thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_ARCHIVE_WALK_H
#define NIGHTSHIFT_WORKERS_MEDIA_ARCHIVE_WALK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/media/decoder.h"
#include "workers/media/stream/stream.h"

struct archive_walk_task {
    /* A fresh stream of the archive's bytes, owned by the walk. Called once, and where a large
     * archive is inside once more. */
    int (*open)(void *arg, struct stream **ret, struct err *err);
    /* One recording; its pointers are valid during the call. Negative: the walk ends with it.
     *
     * A listing reports all entries, with their first bytes. A readable one (code 0) is followed by
     * its bytes; if these are incomplete, the same entry follows again, with a code.
     *
     * With `offers` only readable entries are reported, without first bytes, and the return value
     * says whether this one is wanted (1, 0, or a negative code). If it is, its bytes follow. */
    int (*entry)(void *arg, const struct decoder_entry *entry, struct err *err);
    bool offers;
    /* The bytes in order, in pieces. An empty piece at the end says that the member is complete, by
     * its size and its checksums. Without it the member is incomplete. */
    int (*bytes)(void *arg, const void *data, size_t n, struct err *err);
    bool *left_out; /* set if a possible recording is not reported; or NULL */
    void *arg;
    struct stream_pulse pulse; /* while inner archives are read from memory */
    uint64_t max_entries;      /* of any kind, in all archives together */
    uint64_t max_bytes;        /* unpacked */
    /* The largest inner archive, in bytes. It is kept in memory while it is listed, and skipped if
     * it does not unpack completely. At least SNIFF_HEAD_BYTES. */
    uint64_t memory_bytes;
};

int archive_walk(const struct archive_walk_task *task, struct err *err);

#endif
