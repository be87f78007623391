/* store/reading/heard.h - a transcription of a recording as the machine has it: made of the results
 * of its shards and of who is told apart. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_READING_HEARD_H
#define NIGHTSHIFT_STORE_READING_HEARD_H

#include "base/buf.h"
#include "store/db.h"
#include "store/fact_result.h"
#include "store/reading/hunks.h"
#include "store/reading/machine.h"
#include "store/reading/match_words.h"
#include "store/reading/rebuild.h"

struct heard_segment {
    uint32_t seq;
    int64_t idx, part;               /* in its shard; of its segment */
    const struct result_segment *of; /* the machine's segment: all that is not parted */
    struct machine_part machine;
    struct hunk_word *words;  /* of machine.text; both: once heard_words was called */
    size_t word_count, first; /* first: its first word's number in the recording */
    /* Set by heard_current, else only when it is published. */
    int64_t segment_id; /* 0: it is not yet */
    char *text;         /* what is read; owned */
    bool asked;         /* for whoever goes through some of them */
};

struct heard {                      /* owned: heard_free. Zero: nothing was heard */
    int64_t media_id, task_id;      /* task_id 0: no transcription is current */
    struct heard_segment *segments; /* in the order of the recording */
    size_t count, capacity;
    struct fact_result *results; /* what the segments borrow of */
    size_t result_count, result_cap;
    struct match_word *words; /* of all segments, with times */
    size_t word_count;
    size_t *by_id; /* segments in the order of segment_id */
};

/* Appends the segments of a shard, behind those of shards before it. Borrows them until heard_free.
 * Pure. */
int heard_add(struct heard *h, uint32_t seq, const struct result_segment *segments, size_t n,
              const struct machine_speakers *by, struct err *err);
/* Parts all texts into words, with their times. Pure. */
int heard_words(struct heard *h, struct err *err);
/* All shards of a task. ERR_INPUT: a result is damaged. */
int heard_load(struct store *st, int64_t task_id, const struct machine_speakers *by,
               struct heard *ret, struct err *err);
/* The same of the recording's current transcription, with its words, and as it is published. */
int heard_current(struct store *st, int64_t media_id, struct heard *ret, struct err *err);
void heard_free(struct heard *h);

/* The segment that is published with this id. NULL: it is none of these. */
struct heard_segment *heard_segment_of(const struct heard *h, int64_t segment_id);
/* The segment of a word. */
struct heard_segment *heard_segment_at(const struct heard *h, size_t word);
/* Appends the words, with a blank where the machine has white space or a segment ends. */
void heard_put(const struct heard *h, struct match_place at, struct buf *out);

/* The diarization that counts: the current one, where it has speakers. These stay while a recording
 * that turned out to be longer is heard anew, if people named one. 0: none. */
int heard_diarization(struct store *st, int64_t media_id, int64_t *ret, struct err *err);
/* Who is told apart by it. */
int heard_speakers(struct store *st, int64_t media_id, struct machine_speakers *ret,
                   struct err *err);
/* Who each source of a transcription is: of other transcriptions they may be others. */
int heard_sources(struct store *st, int64_t task_id, struct machine_speakers *by, struct err *err);

#endif
