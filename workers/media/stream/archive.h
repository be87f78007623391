/* workers/media/stream/archive.h - libarchive over a stream, with our errors and bounds.
 *
 * One thread. Only archive.c knows libarchive's types. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_STREAM_ARCHIVE_H
#define NIGHTSHIFT_WORKERS_MEDIA_STREAM_ARCHIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "workers/media/stream/stream.h"

struct archive_entry;
struct archive_reader; /* one forward pass over an archive's entries */

/* s is borrowed, read from its beginning, and must outlive the source. max_bytes bounds what the
 * pass unpacks (ERR_LIMIT). */
int archive_reader_open(struct stream *s, uint64_t max_bytes, struct archive_reader **ret,
                        struct err *err);
void archive_reader_close(struct archive_reader *src);

/* One entry, described. Valid until the next call on the source. */
struct archive_item {
    uint64_t index;   /* among all entries of the archive, from 0 */
    const char *name; /* raw bytes, never empty */
    bool is_file;     /* with content of its own: no folder, link or device */
    bool is_encrypted;
    bool is_alone;    /* a recording that was compressed without an archive around it: "data" */
    int64_t size;     /* -1 unknown */
    int64_t mtime_ms; /* -1 unknown */
};

/* 0; ERR_EMPTY after the last entry; ERR_INPUT: the archive is damaged, nothing more will come. */
int archive_reader_next(struct archive_reader *src, struct archive_item *ret, struct err *err);

/* Sets the size of an entry that is_alone, by a pass of its own over the whole, before its content
 * is read; nothing to do for others. After an error only archive_reader_close is sensible. */
int archive_reader_measure(struct archive_reader *src, struct archive_item *item, struct err *err);

/* Content of the current entry, in order. Up to n bytes, 0 at its end, or a negative code; after
 * ERR_INPUT the next entry may still be tried. */
int64_t archive_reader_read(struct archive_reader *src, void *to, size_t n, struct err *err);

/* Entries that this pass has come to; the current one has the number before. */
uint64_t archive_reader_entries(const struct archive_reader *src);

/* The budget of unpacked bytes. The output of a filter (gzip ...) since the pass began must stay
 * below the bound, too. */
struct archive_budget {
    uint64_t unpacked, max_bytes;
};

/* Charges another one from here on, and returns the one before. */
struct archive_budget archive_reader_charge(struct archive_reader *src,
                                            struct archive_budget budget);
/* Bytes unpacked, of the budget that is charged. */
uint64_t archive_reader_unpacked(const struct archive_reader *src);

/* The errors for an encrypted entry and for a part of a split archive. */
int archive_refuse_encrypted(struct err *err);
int archive_refuse_part(struct err *err);

#endif
