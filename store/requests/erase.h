/* store/requests/erase.h - what REQUEST_ERASE would remove. Any store_mode, the store's thread.
 *
 * Erasing a recording removes everything of it: results, texts of the index, vectors, voices,
 * corrections, tags, places, events and troubles. A mark stays (table erased): size, fingerprint
 * and hash, by which `enqueue` leaves it out. Erasing a person removes the register's entry with
 * its voices and, in every recording, that speaker's name and voice print; the speaker is
 * SPEAKER_03 again.
 *
 * Deletion and mark are one commit, within which SQLite overwrites what goes (secure_delete),
 * and the index of texts is written anew. Then FILE-wal is emptied, because it holds former
 * pages. If somebody reads, or the process is killed, the next process that opens the catalog to
 * write does that. */
#ifndef NIGHTSHIFT_STORE_REQUESTS_ERASE_H
#define NIGHTSHIFT_STORE_REQUESTS_ERASE_H

#include "store/store.h"

struct erase_recording { /* borrowed during the call */
    const char *path, *member, *title;
    uint64_t places, results, segments, names, corrections;
};
typedef int (*erase_recording_fn)(void *arg, const struct erase_recording *row);
/* ERR_MISSING: there is none. */
int erase_preview(struct store *st, int64_t media_id, erase_recording_fn fn, void *arg,
                  struct err *err);

struct erase_person {
    uint64_t speakers, recordings; /* that have the name */
    uint64_t voices;               /* in the register */
};
int erase_preview_person(struct store *st, const char *name, struct erase_person *ret,
                         struct err *err);

struct erase_mark {
    int64_t erased_id;
    uint64_t size_bytes;
    const char *at, *by; /* by "": nobody said */
};
typedef int (*erase_mark_fn)(void *arg, const struct erase_mark *row);
int erase_marks(struct store *st, erase_mark_fn fn, void *arg, struct err *err);

#endif
