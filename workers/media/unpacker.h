/* workers/media/unpacker.h - an archive that can only be read from its front (a compressed tar, a
 * 7z, an archive in an archive), read once: its recordings in order, each to be passed by or taken
 * as a file in memory. By itself a decoder unpacks all that lies before its member: half a reading
 * of the archive for each of thousands.
 *
 * Blocking; one thread per unpacker, but for unpacker_cancel. The bytes are parsed by a decoder
 * process (decoder.h). */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_UNPACKER_H
#define NIGHTSHIFT_WORKERS_MEDIA_UNPACKER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct unpacker;

/* Is the member of the archive `file` (borrowed) only come by from the front? By its first bytes
 * and the member's name. */
bool unpacker_serves(int file, const char *member);
/* How many bytes each of so many processes may keep of members at once: all of them a sixteenth of
 * the memory that there is, but 128 MiB at least, and each 1 GiB at most. 0 is 1. */
uint64_t unpacker_most(uint32_t processes);

/* file is borrowed during the call. pulse: called for every sign of life (decoder_on_pulse). As
 * decoder_start. */
int unpacker_open(int file, void (*pulse)(void *arg), void *arg, struct unpacker **ret,
                  struct err *err);
void unpacker_close(struct unpacker *u); /* NULL is fine */

struct unpacker_member {
    const char *name; /* as listed; valid until it is answered */
    uint32_t nth;     /* of that name */
    uint64_t bytes;
};

/* The recording at which it stands, or comes to when that one has been answered. ERR_EMPTY: there
 * are no more. As decoder_next. */
int unpacker_next(struct unpacker *u, struct unpacker_member *ret, struct err *err);
/* At its end: there was nothing that cannot be read, which is passed by without a word. */
bool unpacker_saw_all(const struct unpacker *u);
/* Answers: it is not wanted. */
int unpacker_pass(struct unpacker *u, struct err *err);
/* Answers: it is wanted. *ret: its bytes, to be read alone; the caller closes it. -1: it did not
 * come whole, or there is no memory for it; its own decoder may tell why. */
int unpacker_take(struct unpacker *u, int *ret, struct err *err);

/* Makes the others return ERR_CANCELLED; any thread. */
void unpacker_cancel(struct unpacker *u);

#endif
