/* workers/media/stream/fingerprint.h - a recording's identity before it is read whole.
 *
 * XXH3-128 over: the size as u64 little-endian, then the blocks below, each of FINGERPRINT_BLOCK
 * bytes (the last ones shorter). A file of at most FINGERPRINT_WHOLE bytes is hashed whole after
 * its size. A larger one gives its first block, FINGERPRINT_SPACED blocks at
 * i * size / (FINGERPRINT_SPACED + 1) rounded down to FINGERPRINT_BLOCK, i = 1 ..., and its last
 * FINGERPRINT_BLOCK bytes: ascending offsets, so a stream gives the same value as a file.
 *
 * If a larger file has the blocks of a recording that was heard, but other bytes between them,
 * `enqueue` uses the XXH3-128 of all bytes instead. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_STREAM_FINGERPRINT_H
#define NIGHTSHIFT_WORKERS_MEDIA_STREAM_FINGERPRINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define FINGERPRINT_BLOCK 16384u
#define FINGERPRINT_SPACED 6u
/* A stream can hash a block only once it has passed it, so no two may overlap: the last spaced one
 * ends at most at size * SPACED / (SPACED + 1) + BLOCK, which is before size - BLOCK when
 * size >= 2 * (SPACED + 1) * BLOCK = 14 blocks. */
#define FINGERPRINT_WHOLE (16u * FINGERPRINT_BLOCK)

/* Reads an open file by pread. size: from fstat. */
int fingerprint_fd(int fd, uint64_t size, uint8_t ret[16], struct err *err);

/* The fingerprint of a stream of known size: feed everything in order, then end. */
struct fingerprint;
int fingerprint_new(uint64_t size, struct fingerprint **ret, struct err *err);
void fingerprint_feed(struct fingerprint *f, const void *data, size_t len);
/* ERR_INPUT when fewer or more bytes came than announced. Frees f either way. */
int fingerprint_end(struct fingerprint *f, uint8_t ret[16], struct err *err);

/* ---- what a member of an archive is, made of its bytes by the process that asked for the listing:
 * a decoder may be in the hands of the bytes that it parses, and must not say of them that they are
 * another recording. One thread. */

/* Zeroed: no member is under way. */
struct listed_member {
    struct fingerprint *sampled; /* NULL: none is */
    struct hash *whole;
    uint64_t left;     /* bytes of it that have not come */
    uint64_t capacity; /* bytes of all members that may still come; to be set */
};

static inline bool listed_member_is_on(const struct listed_member *l) { return l->sampled != NULL; }

/* size: of the member, in bytes. */
int listed_member_begin(struct listed_member *l, uint64_t size, struct err *err);
/* Its bytes in order, and behind the last none, which ends it: then its fingerprint and
 * hash are there. ERR_EMPTY: more is to come. ERR_PROTOCOL: they are more or fewer than was said.
 */
int listed_member_take(struct listed_member *l, const void *data, size_t n, uint8_t fingerprint[16],
                       uint8_t hash[16], struct err *err);
void listed_member_drop(struct listed_member *l); /* what is under way */

#endif
