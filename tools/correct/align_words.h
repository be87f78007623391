/* tools/correct/align_words.h - which words of a file are which words of a transcript.
 *
 * Runs of words that stand once on both sides are found first, whatever lies between. The gaps
 * between them are aligned exactly: the most equal words in the same order, preferably side by side
 * and at the same time. So a file may have a part of the transcript alone, and other times. Eight
 * hours take about a second, other people's texts some seconds. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_ALIGN_WORDS_H
#define NIGHTSHIFT_TOOLS_CORRECT_ALIGN_WORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* ---- the words of a transcript, or of a file, as they are aligned.
 *
 * They are those of store/reading/hunks.h. Words that differ in case, marks and punctuation alone
 * have one number. Pure; any thread. */

struct word {
    const char *s; /* borrowed from its text, not NUL-terminated */
    uint32_t len, part, id;
    bool joined;               /* no blank stands in front of it */
    int64_t ms;                /* about when it is said; -1: not known */
    size_t folded, folded_len; /* in `folded` */
};
struct word_list { /* zero at first; owned: word_list_free */
    struct word *list;
    size_t count, capacity;
    struct buf folded;
};
void word_list_free(struct word_list *w);

/* Appends the words of a text that lasts from start_ms to end_ms (-1: not known), as part number
 * `part`: parts are added in order. The text stays where it is. ERR_NOMEM; ERR_LIMIT: more than
 * WORD_LIST_MAX. */
int word_list_add(struct word_list *w, uint32_t part, const char *text, int64_t start_ms,
                  int64_t end_ms, struct err *err);
/* Gives the words of both sides their numbers. ERR_NOMEM. */
int word_list_number(struct word_list *a, struct word_list *b, struct err *err);

bool word_equal(const struct word *a, const struct word *b); /* byte for byte */

#define ALIGN_NONE SIZE_MAX

/* *ret: newly allocated, for each word of b the word of a that it is, rising, or ALIGN_NONE. Both
 * sides have their numbers. *solid: so many of them are beyond chance. ERR_NOMEM. */
int align_words(const struct word_list *a, const struct word_list *b, size_t **ret, size_t *solid,
                struct err *err);

#endif
