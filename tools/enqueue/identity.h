/* tools/enqueue/identity.h - is what was found a recording that is known?
 *
 * Two files are one recording when all their bytes are equal, which only reading them whole tells;
 * the fingerprint (workers/media/stream/fingerprint.h) only tells that they differ. So a file with
 * a new fingerprint is a new recording, and is not read. A file with the fingerprint of a known
 * recording, or of one found earlier in the walk, is read whole; so is that recording's file if its
 * hash is not known. If the bytes differ or cannot be read, it is a recording of its own. One
 * thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_IDENTITY_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_IDENTITY_H

#include "tools/enqueue/enqueue_work.h"

/* f->fingerprint: as of fingerprint.h; it becomes the hash of all bytes where those are others than
 * the ones that are known. fd: the file, or -1 for an archive's member, which comes with its hash.
 * st: of the file. *why: it cannot be read (code 0: it can). Non-zero: an error of the catalog or
 * of memory. */
int identity_of(struct enqueue_work *q, int fd, const struct stat *st, struct store_found *f,
                struct err *why, struct err *err);

/* Frees what was learned of recordings in this walk. */
void identity_forget(struct enqueue_work *q);

/* A callback of batch_on_unproven: another enqueue has since added a recording that looks like this
 * one. arg: struct enqueue_work. */
int identity_again(void *arg, struct batch *b, const struct store_found *f, struct err *err);

#endif
