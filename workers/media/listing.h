/* workers/media/listing.h - what a member of an archive is, made of its bytes by the process that
 * asked for the listing: a decoder may be in the hands of the bytes that it parses, and must not
 * say of them that they are another recording. One thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_LISTING_H
#define NIGHTSHIFT_WORKERS_MEDIA_LISTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Zeroed: no member is under way. */
struct listing {
    struct fingerprint *sampled; /* NULL: none is */
    struct hash *whole;
    uint64_t left; /* bytes of it that have not come */
    uint64_t room; /* bytes of all members that may still come; to be set */
};

static inline bool listing_is_on(const struct listing *l) { return l->sampled != NULL; }

/* Of a member of so many bytes. */
int listing_begin(struct listing *l, uint64_t size, struct err *err);
/* Its bytes in order, and behind the last none, which ends it: then its fingerprint and
 * hash are there. ERR_EMPTY: more is to come. ERR_PROTOCOL: they are more or fewer than was said.
 */
int listing_take(struct listing *l, const void *data, size_t n, uint8_t fingerprint[16],
                 uint8_t hash[16], struct err *err);
void listing_drop(struct listing *l); /* what is under way */

#endif
