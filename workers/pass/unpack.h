/* workers/pass/unpack.h - the bytes of a lease's recording: of a file, or of a member of an archive
 * that can only be read from its front (a compressed tar, a 7z, an archive in an archive).
 *
 * Such a member's own decoder would unpack all that lies before it: half a reading of the archive
 * for each of thousands of recordings. So the archive is read once, by an unpacker (decoder.h), for
 * all leases that wait for it, and each member that one of them wants is kept in memory until that
 * lease's decoder has had it. Leases come in the order of the archive; so a reading goes on only
 * while a lease waits for it, and passes by what no lease wants: that is another worker's, or done.
 *
 *   UNSEEN --looked at--> FILE                  its decoder opens the path, and looks for a member
 *      `--> AWAITED --it came by--> MEMORY      its decoder is given the member alone
 *              |--it did not, not whole, or larger than all that may be kept--> FILE
 *              `--it did not, and the archive is known to be another one--> ABSENT
 *
 * A reading ends where its archive has been replaced by another file, or written anew, and goes on
 * where it has been taken away.
 *
 * An archive that was made anew since it was enqueued may lack thousands of recordings, and to look
 * for one is a whole reading. So once one was looked for in vain it is believed of others that a
 * reading of the same file did not come by, if all that is in it could be read.
 *
 * Nothing waits for ever: readings are gone on with by decoder threads that have no lease to decode
 * which came sooner (one thread each), and none of them blocks for another. A lease that is behind
 * a reading makes it go to the archive's end and is served by the next one; one that no whole
 * reading has served, or two that failed, goes the way of FILE, and is told there what is wrong
 * with it. What is kept in memory belongs to leases that any thread can begin. */
#ifndef NIGHTSHIFT_WORKERS_PASS_UNPACK_H
#define NIGHTSHIFT_WORKERS_PASS_UNPACK_H

#include "workers/pass/state.h"

/* A regular file, without waiting for what is none. ERR_INPUT, ERR_IO, ERR_MISSING. */
int unpack_open(const char *path, int *ret, struct err *err);

/* How much may be kept in memory: of SETUP, else as the machine has. Once, before threads. */
void unpack_bound(struct worker *w);

/* ---- lock held, but for what it says */

/* Looks at a lease that no thread has begun, once, without the lock. True: it waits for its member
 * now; false: its pass can begin. */
bool unpack_awaits(struct worker *w, struct lease *l);
/* Goes on with a reading for a lease that came before that one (NULL: for any), until a lease can
 * begin because of it, or nobody waits; without the lock meanwhile. False: there is nothing to do.
 * Archives of which there has been no lease for some seconds are closed: their disk may be taken
 * away. */
bool unpack_step(struct worker *w, const struct lease *before);
/* Waits for `room`, or until an archive may be to be closed. */
void unpack_wait(struct worker *w);
/* Its decoder has looked for its recording in all of the file, in vain. */
void unpack_note_vain(struct worker *w, const struct lease *l, const struct stat *file);
/* Its decoder need not: another one's has. */
bool unpack_is_vain(const struct worker *w, const struct lease *l);
/* The lease's memory is given back, if it has any; its recording is the FILE's. Its end, too. */
void unpack_release(struct worker *w, struct lease *l);
/* Makes readings that block return. */
void unpack_leave(struct worker *w);
/* No other thread runs any more. */
void unpack_free_all(struct worker *w);

#endif
