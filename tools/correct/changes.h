/* tools/correct/changes.h - what segments are to read: gathered, and then handed to the catalog.
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_CHANGES_H
#define NIGHTSHIFT_TOOLS_CORRECT_CHANGES_H

#include "store/read/read.h"
#include "tools/correct/labels.h"
#include "tools/writer.h"

/* ---- the segments of a recording as they read now, in memory */

struct current_segment { /* owned strings */
    int64_t segment_id, start_ms, end_ms;
    char *text,
        *heard; /* as it reads, "" where people said that it is nothing; the machine's words */
};
struct current { /* zero at first; owned: current_free */
    struct current_segment *list;
    size_t count, capacity;
    struct labels who; /* whom exports name before its segments */
};
void current_free(struct current *c);
/* Reads the segments of the current transcription, in order. ERR_NOMEM; ERR_CHANGED: a run
 * transcribed it meanwhile; errors of reading. */
int current_read(struct store *st, int64_t media_id, struct current *ret, struct err *err);
/* The segment that is said at that time, the last one to begin; NULL: none is. */
const struct current_segment *current_at(const struct current *c, int64_t ms);

struct change { /* owned strings */
    int64_t media_id, segment_id, start_ms, end_ms;
    /* The machine's words; what it reads, byte for byte, and with a blank for each run of white
     * space; what it is to read. */
    char *heard, *was, *now, *text;
    bool confirmed;
    size_t place; /* of the recording's name, in `names` */
};
struct changes { /* zero at first; owned: changes_free */
    struct change *list;
    size_t count, capacity, recordings;
    struct buf names; /* of the recordings, NUL-terminated each */
    int64_t media_id; /* of the one that was begun last */
    size_t place;
};
void changes_free(struct changes *c);

/* Later changes belong to this recording. path, member: in display form. ERR_NOMEM. */
int changes_begin(struct changes *c, int64_t media_id, const char *path, const char *member,
                  struct err *err);
/* The segment is to read `text`, with white space as one blank each; what reads so already is left
 * out, unless it is confirmed. ERR_INPUT: no UTF-8; ERR_LIMIT: more than a segment holds. */
int changes_add(struct changes *c, const struct current_segment *s, const char *text,
                bool confirmed, struct err *err);
/* Do both read alike, with white space as one blank each? ERR_NOMEM. */
int changes_alike(const char *a, const char *b, bool *ret, struct err *err);
/* In as many requests as it takes. *affected: segments that read otherwise now. ERR_INPUT: some
 * read otherwise by then than when they were added; nothing of their request is done. */
int changes_apply(const struct changes *c, struct writer *writer, const char *made_by,
                  const char *source, uint64_t *affected, struct err *err);

const char *change_name(const struct changes *c, const struct change *x);

#endif
