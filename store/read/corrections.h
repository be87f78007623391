/* store/read/corrections.h - what people corrected. Callbacks, threads and modes are as in
 * store/read/read.h. */
#ifndef NIGHTSHIFT_STORE_READ_CORRECTIONS_H
#define NIGHTSHIFT_STORE_READ_CORRECTIONS_H

#include "store/read/read.h"

struct read_correction {
    int64_t correction_id, media_id;
    int64_t start_ms, end_ms;               /* where the machine's words were when it was made */
    const char *said, *meant;               /* the machine's words; people's, "" for none */
    const char *before, *after;             /* two of the machine's words on each side */
    const char *made_by, *made_at, *source; /* made_at: ISO-8601 UTC */
    const char *decided_by, *decided_at;    /* "": nobody did */
    /* "applied", "agreed" (it is heard so now), "conflict", "undone", "confirmed" */
    const char *state;
    const char *heard_now; /* of a conflict: what is read at that time now; else "" */
    const char *path, *member;
};
typedef int (*read_correction_fn)(void *arg, const struct read_correction *row);

struct read_corrections { /* all that are NULL or 0 ask for nothing */
    const char *path;     /* as read_filter */
    int64_t media_id, correction_id;
    const char *state;
};
/* By recording and time. */
int read_corrections(struct store *st, const struct read_corrections *which, read_correction_fn fn,
                     void *arg, struct err *err);

struct read_correction_counts {
    uint64_t kept;      /* not undone */
    uint64_t conflicts; /* with a transcription that is there */
};
/* Counts the corrections of one recording; media_id 0: of all recordings. */
int read_correction_counts(struct store *st, int64_t media_id, struct read_correction_counts *ret,
                           struct err *err);

#endif
