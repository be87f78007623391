/* tools/correct/place_cues.h - what each segment of a transcript is to read, by a file that was
 * made of it.
 *
 * Each word of the file gets a segment: that of the word which it is, else the one whose words it
 * stands for, by its neighbours, its cue and its time. A file that has a part of the transcript
 * says nothing of the rest: what lies before its first cue and behind its last one stays. Between
 * them a segment of which the file has nothing is to read nothing. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_PLACE_CUES_H
#define NIGHTSHIFT_TOOLS_CORRECT_PLACE_CUES_H

#include "tools/export/cues.h"

struct place_segment { /* in order */
    int64_t start_ms, end_ms;
    const char
        *text; /* borrowed: as it reads now, in the words that the file's format has for it */
};

struct placed {   /* owned: placed_free */
    char **texts; /* [count]: what it is to read, "" nothing; NULL: it stays as it is */
    size_t count;
    size_t first, last;          /* the file has these segments, and what lies between */
    size_t words, same, nowhere; /* of the file; those that stay; those that belong to no segment */
};
void placed_free(struct placed *p);

/* ERR_INPUT: there is no word in the file, or too few of its words are said in these segments.
 * ERR_NOMEM, ERR_LIMIT. */
int place_cues(const struct place_segment *segments, size_t count, const struct cues *cues,
               struct placed *ret, struct err *err);

#endif
