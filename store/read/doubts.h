/* store/read/doubts.h - the passages of current transcripts that may be wrong, the least certain
 * ones first.
 *
 * Any store_mode, the store's thread. Rows are borrowed during the callback, which ends the reading
 * by returning a value other than 0 (as in store/read/read.h). */
#ifndef NIGHTSHIFT_STORE_READ_DOUBTS_H
#define NIGHTSHIFT_STORE_READ_DOUBTS_H

#include "store/read/read.h"

enum read_doubts_of {
    READ_DOUBTS_ALL, /* speech without text, then passages with a text */
    READ_DOUBTS_MISSING,
    READ_DOUBTS_TEXT,
};

struct read_doubts {
    enum read_doubts_of of;
    const char *const *paths; /* each as read_filter.path */
    size_t path_count;        /* 0: all */
    const char *speaker;      /* name or label, as find_people.who, or source; NULL: anybody.
                                 Nobody is told apart where there is no text: the source alone */
    const char *language;     /* of the segment; NULL: any */
    const char *since;        /* heard after this time (as clock_iso8601 has it); NULL: ever */
    uint64_t limit;           /* of each of the two; 0: none */
};

struct read_doubt {
    const struct read_segment *segment;
    /* The recording's main place: raw bytes of the file's path, and of the member in it. */
    const void *path_raw, *member_raw;
    size_t path_raw_len, member_raw_len;
    uint32_t nth; /* which of the members of that name, 0 ... */
    bool present; /* it was there when its folder was enqueued last */
};
typedef int (*read_doubt_fn)(void *arg, const struct read_doubt *row);

/* Reads the rows of the view `doubts`, without texts that were dropped. Speech without text (""
 * as text, segment_id 0) comes first, the longest first. Then the kept texts, in the order of
 * docs/how-to/find-doubtful-passages.md: by the number of signs in the reason, most first, where
 * an earlier attempt is none; then by avg_logprob, lowest first, unknown ones last; then by
 * recording and time. */
int read_doubts(struct store *st, const struct read_doubts *which, read_doubt_fn fn, void *arg,
                struct err *err);

#endif
