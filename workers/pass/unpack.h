/* workers/pass/unpack.h - the bytes of a lease's recording, which is a file or a member of an
 * archive that can only be read from its front (a compressed tar, a 7z, an archive in an archive).
 *
 * Such a member's own decoder would unpack all that lies before it: half a reading of the archive
 * for each of thousands of recordings. So the archive is read once, by an unpacker (decoder.h), for
 * all leases that wait for it, and each member that one of them wants is kept in memory until that
 * lease's decoder has had it. Leases come in the order of the archive; so a reading goes on only
 * while a lease waits for it, and skips members that no lease wants: they are another worker's, or
 * done.
 *
 *   UNSEEN --looked at--> FILE                  its decoder opens the path, and looks for a member
 *      `--> AWAITED --it came by--> MEMORY      its decoder is given the member alone
 *              |--it did not, not whole, or larger than all that may be kept--> FILE
 *              `--it did not, and the archive is known to be another one--> ABSENT
 *
 * A reading ends if its archive is replaced by another file or rewritten, and goes on if it is
 * deleted.
 *
 * An archive that was rewritten since it was enqueued may lack thousands of recordings, and each
 * search is a whole reading. So after one vain search, other recordings that a reading of the same
 * file did not meet count as absent, too, if it could read every entry.
 *
 * Nothing waits for ever: decoder threads without an earlier lease to decode continue readings (one
 * thread each), and none of them blocks for another. If a reading has passed a lease's member, it
 * goes on to the archive's end, and the next one serves the lease. After one whole reading in vain,
 * or two that failed, a lease becomes FILE, and its own decoder reports the problem. Members in
 * memory belong to leases that any thread can begin. */
#ifndef NIGHTSHIFT_WORKERS_PASS_UNPACK_H
#define NIGHTSHIFT_WORKERS_PASS_UNPACK_H

#include "workers/pass/state.h"

/* Opens a regular file, without blocking on others. ERR_INPUT, ERR_IO, ERR_MISSING. */
int unpack_open(const char *path, int *ret, struct err *err);

/* Sets the limit of bytes in memory: SETUP's, else by the machine's memory. Called once, before
 * threads start. */
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
