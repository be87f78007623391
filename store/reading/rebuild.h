/* store/reading/rebuild.h - a segment as it reads: the machine's words with corrections in
 * them.
 *
 * Always made of the machine's words, and so the same whatever order corrections came in; without
 * any it is what the machine has, byte for byte. Pure; any thread. Internal to store/. */
#ifndef NIGHTSHIFT_STORE_READING_REBUILD_H
#define NIGHTSHIFT_STORE_READING_REBUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct rebuild_part { /* in ascending order, not overlapping */
    size_t from, to;  /* bytes of what was heard: from a word's first to a word's last */
    const char *text; /* what stands there; borrowed */
    size_t len;       /* bytes of it; 0: nothing */
};

struct rebuild_row { /* a word with its time */
    int64_t start_ms, end_ms;
    const char *text; /* with its leading blank, if it has one */
    size_t len;
    double probability; /* NAN: nobody knows */
    int64_t speaker_id; /* 0: nobody knows */
};

/* Appends the text. If words are removed without others in their place, the white space behind them
 * goes too or, at the end, the white space in front. */
void rebuild_text(struct buf *out, const char *heard, const struct rebuild_part *parts, size_t n);

/* Which bytes of `heard` each row is. False: the rows are not its words. spans: [n]. */
struct rebuild_span {
    size_t from, to;
};
bool rebuild_map(const char *heard, const struct rebuild_row *rows, size_t n,
                 struct rebuild_span *spans);

struct rebuilt { /* owned: rebuilt_free. Texts of rows are its own, or those of `rows` */
    struct rebuild_row *rows;
    size_t count, capacity;
    char **texts;
    size_t text_count, text_cap;
};
/* Words that stay keep all they have. New ones share the time of those whose place they take, by
 * their length, and each has the speaker of the one who spoke in its middle. If `rows` are not the
 * words of `heard`, all words are new. ERR_NOMEM. */
int rebuild_rows(const char *heard, const struct rebuild_row *rows, size_t row_count,
                 const struct rebuild_part *parts, size_t n, struct rebuilt *ret, struct err *err);
void rebuilt_free(struct rebuilt *r); /* a zeroed one is fine */

/* Fits a correction from `said` to `meant` into the text `there`. The correction may have been made
 * on words with other punctuation around them, so untouched parts are taken from `there`. Appends
 * to out. */
void rebuild_fit(struct buf *out, const char *there, size_t there_len, const char *said,
                 const char *meant);

/* The time of a place within a stretch: `at` of `of` bytes. */
int64_t rebuild_time(int64_t start_ms, int64_t end_ms, size_t at, size_t of);

#endif
