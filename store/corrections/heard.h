/* store/corrections/heard.h - the current transcription of a recording as the machine has it, its
 * words with times. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_CORRECTIONS_HEARD_H
#define NIGHTSHIFT_STORE_CORRECTIONS_HEARD_H

#include "base/buf.h"
#include "store/corrections/hunks.h"
#include "store/corrections/match_words.h"
#include "store/corrections/rebuild.h"
#include "store/db.h"

struct heard_segment {
    int64_t segment_id, start_ms, end_ms;
    char *heard, *text;       /* the machine's words; what is read, NULL: the same */
    struct rebuilt rows;      /* the machine's words with their times, where it has any; */
    bool timed;               /*   once heard_time was called: till then times are guessed */
    struct hunk_word *words;  /* of `heard` */
    size_t word_count, first; /* first: its first word's number in the recording */
    bool asked;               /* for whoever goes through some of them */
};

struct heard {                      /* owned: heard_free. Zero: nothing was heard */
    int64_t media_id, task_id;      /* task_id 0: no transcription is current */
    struct heard_segment *segments; /* in the order of the recording */
    size_t count, cap;
    struct match_word *words; /* of all segments */
    size_t word_count;
    size_t *by_id; /* segments in the order of segment_id */
};

/* The texts; times of words are read when they are asked for, of a segment or of all. */
int heard_load(struct store *st, int64_t media_id, struct heard *ret, struct err *err);
int heard_time(struct store *st, struct heard *h, struct heard_segment *g, struct err *err);
int heard_time_all(struct store *st, struct heard *h, struct err *err);
void heard_free(struct heard *h);

/* NULL: it is none of these. */
struct heard_segment *heard_segment_of(const struct heard *h, int64_t segment_id);
/* The segment of a word. */
struct heard_segment *heard_segment_at(const struct heard *h, size_t word);
/* Appends the words, with a blank where the machine has white space or a segment ends. */
void heard_put(const struct heard *h, struct match_place at, struct buf *out);
/* The rows of a segment's words, of the table `word` or `word_heard`. */
int heard_rows(struct store *st, const char *sql, int64_t segment_id, struct rebuilt *ret,
               struct err *err);
#define HEARD_ROWS(table)                                                           \
    "SELECT start_ms, end_ms, text, probability, ifnull(speaker_id, 0) FROM " table \
    " WHERE segment_id = ? ORDER BY idx"

#endif
