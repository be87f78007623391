/* tools/score/score.h - how far a transcript is from a reference: words and characters in error.
 *
 * The least number of substitutions, deletions and insertions that make the hypothesis of the
 * reference (Levenshtein). Among alignments with as few errors, one with the most units right is
 * counted, which makes the three counts the texts' own. Texts are compared as they are: normalise
 * them first.
 *
 * Memory grows with the length of the texts; time with their length times the number of errors.
 * Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_SCORE_H
#define NIGHTSHIFT_TOOLS_SCORE_SCORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct score {
    uint64_t reference, hypothesis; /* units (words, characters) of each */
    uint64_t substitutions, deletions, insertions;
};

uint64_t score_errors(const struct score *s);
/* Errors over the reference's units; may be above 1. NAN when the reference is empty. */
double score_rate(const struct score *s);
void score_add(struct score *sum, const struct score *s);

/* Any units, told apart by their numbers. ERR_NOMEM; ERR_LIMIT: more than 2^31 - 1 units, or so
 * many errors in texts so long that it would take longer than minutes. */
int score_units(const uint32_t *reference, size_t n, const uint32_t *hypothesis, size_t m,
                struct score *ret, struct err *err);
/* Valid UTF-8, NUL-terminated; words are parted by blanks. Errors as in score_units. */
int score_words(const char *reference, const char *hypothesis, struct score *ret, struct err *err);
/* Characters are code points; a run of blanks counts as one, those at the ends not at all. */
int score_characters(const char *reference, const char *hypothesis, struct score *ret,
                     struct err *err);

enum score_step { SCORE_SAME, SCORE_SUBSTITUTED, SCORE_DELETED, SCORE_INSERTED };
struct score_word {
    const char *s; /* borrowed from the text, not NUL-terminated */
    size_t len;    /* 0: there is none on this side */
};
/* Called word by word, in the texts' order. Non-zero stops with it. */
typedef int (*score_step_fn)(void *arg, enum score_step step, struct score_word reference,
                             struct score_word hypothesis);
/* The alignment itself. ERR_LIMIT, in addition: it would take more than SCORE_DIFF_BYTES. */
#define SCORE_DIFF_BYTES ((size_t)512 << 20)
int score_diff(const char *reference, const char *hypothesis, score_step_fn fn, void *arg,
               struct err *err);

#endif
