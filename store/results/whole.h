/* store/results/whole.h - segments as the machine made them, put together of the rows that they are
 * in, and where one is to be parted. Internal to store/; within db_enter / db_leave. */
#ifndef NIGHTSHIFT_STORE_RESULTS_WHOLE_H
#define NIGHTSHIFT_STORE_RESULTS_WHOLE_H

#include "store/corrections/heard.h"
#include "store/db.h"
#include "store/results/overlap.h"

/* Whose a segment `g` is that was heard in a source of its own (the table `source`), whoever else
 * speaks meanwhile: of a diarization's task, which is bound behind it, with a bracket. NULL: the
 * turns say. */
#define WHOLE_SOURCE_SPEAKER                                                  \
    "(SELECT k.speaker_id FROM source x JOIN speaker k ON k.label = x.label " \
    "WHERE g.source > 0 AND x.task_id = g.task_id AND x.source = g.source AND k.task_id = "

struct whole_row { /* of `segment`, as it is */
    int64_t segment_id, start_ms, end_ms, part;
    char *text; /* the machine's; owned */
    double avg_logprob;
    bool corrected;
    char *whole; /* of a part 0 that is parted: the machine's segment; owned. Else NULL */
    int64_t whole_end_ms;
    double whole_logprob;
    int64_t speaker; /* of its source, else 0 */
    size_t words;    /* that it has times of */
};

struct whole_part {       /* as it is to be */
    size_t row, word, at; /* the first of the segment's rows of words, its words, its bytes */
    int64_t start_ms, end_ms, speaker;
    double avg_logprob;
};

struct whole { /* a segment of the machine's; owned: whole_free */
    const char *text;
    int64_t start_ms, end_ms;
    double avg_logprob;
    struct whole_row *rows; /* borrowed of the shard's */
    size_t row_count;
    struct rebuilt timed; /* its words with their times, and which bytes they are */
    struct rebuild_span *spans;
    struct hunk_word *words;
    size_t word_count;
    bool mapped; /* what is timed are its words */
    struct whole_part *parts;
    size_t count;
};

struct whole_rows { /* of a shard, by their place in it; owned: whole_rows_free */
    struct whole_row *list;
    size_t count, cap;
};

/* The speaker of a row heard in a source of its own is that of this diarization's task; 0: none. */
int whole_rows_read(struct store *st, int64_t task_id, uint32_t seq, int64_t diarization,
                    struct whole_rows *ret, struct err *err);
void whole_rows_free(struct whole_rows *rows);

/* The segment that begins with the row at *at, which moves behind it, and its words. *ret is to be
 * freed, on error too. */
int whole_read(struct store *st, struct whole_rows *rows, size_t *at, struct whole *ret,
               struct err *err);
void whole_free(struct whole *w);
/* Its parts as they are to be: one, or where the turns have others speak (seams.h). NULL: nobody is
 * told apart. ERR_NOMEM. */
int whole_part(struct whole *w, struct overlaps *turns, struct err *err);
bool whole_stands(const struct whole *w); /* its rows are its parts */
/* The first word at or behind that row of them. */
size_t whole_word_at(const struct whole *w, size_t row);

#endif
