/* workers/media/listed_member.h - what a member of an archive is, made of its bytes by the process
 * that asked for the listing: a decoder may be in the hands of the bytes that it parses, and must
 * not say of them that they are another recording. One thread. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_LISTED_MEMBER_H
#define NIGHTSHIFT_WORKERS_MEDIA_LISTED_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

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
