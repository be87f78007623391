/* store/reading/place.h - a recording's corrections, and where each stands in the transcription
 * that is current. Internal to store/.
 *
 * One that was not undone is always one of these: it stands on the words that it is about
 * (applied), what it wants is read there already (agreed), or neither (conflict); one that confirms
 * is confirmed while what it confirms is read there, else in conflict. */
#ifndef NIGHTSHIFT_STORE_READING_PLACE_H
#define NIGHTSHIFT_STORE_READING_PLACE_H

#include "store/reading/heard.h"

enum place_state { PLACE_APPLIED, PLACE_AGREED, PLACE_CONFLICT, PLACE_CONFIRMED };

struct place { /* a correction that is not undone */
    int64_t correction_id, start_ms, end_ms;
    char *said, *meant, *before, *after; /* owned */
    bool confirms;
    enum place_state state;
    struct match_place at; /* in the machine's words; words 0: nowhere */
};

struct places { /* owned: places_free; in the order in which they were made */
    struct place *list;
    size_t count, capacity;
};

/* The recording's, each with its place in h: none where no transcription is current. */
int places_load(struct store *st, const struct heard *h, struct places *ret, struct err *err);
void places_free(struct places *p);
/* Finds their places anew, whatever they were, and says of each what has become of it. Pure. */
int places_find(const struct heard *h, struct places *p, struct err *err);

/* A correction's text within one of the recording's segments. */
struct place_part {
    size_t segment, word, words; /* of heard.segments; its words from number `word` on */
    size_t place;                /* of which correction of the list */
    struct rebuild_part part;
};
struct place_parts { /* owned: place_parts_free; in the order of the recording */
    struct place_part *list;
    size_t count, capacity;
    char **texts;
    size_t text_count, text_cap;
};
int place_parts_make(const struct heard *h, const struct places *p, struct place_parts *ret,
                     struct err *err);
void place_parts_free(struct place_parts *parts);
/* Those of a segment: *count of them from the returned one on. */
const struct place_part *place_parts_of(const struct place_parts *parts, size_t segment,
                                        size_t *count);

#endif
