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
/* The bytes of members that each of `processes` processes may keep at once: together a sixteenth of
 * the machine's memory, but at least 128 MiB; each at most 1 GiB. 0 is 1. */
uint64_t unpacker_most(uint32_t processes);

/* file is borrowed during the call. pulse: called for every sign of life (decoder_on_pulse). Errors
 * of decoder_start. */
int unpacker_open(int file, void (*pulse)(void *arg), void *arg, struct unpacker **ret,
                  struct err *err);
void unpacker_close(struct unpacker *u); /* NULL is fine */

struct unpacker_member {
    const char *name; /* as listed; valid until it is answered */
    uint32_t nth;     /* of that name */
    uint64_t bytes;
};

/* The current recording, or the next one if that has been answered. ERR_EMPTY: there are no more;
 * else errors of decoder_next. */
int unpacker_next(struct unpacker *u, struct unpacker_member *ret, struct err *err);
/* At its end: whether every entry could be read. Unreadable ones are skipped silently. */
bool unpacker_saw_all(const struct unpacker *u);
/* Answers: it is not wanted. */
int unpacker_pass(struct unpacker *u, struct err *err);
/* Answers: it is wanted. *ret: its bytes, to be read alone; the caller closes it. -1: it did not
 * come whole, or there is no memory for it; its own decoder may tell why. */
int unpacker_take(struct unpacker *u, int *ret, struct err *err);

/* Makes the others return ERR_CANCELLED; any thread. */
void unpacker_cancel(struct unpacker *u);

#endif
