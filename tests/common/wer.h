/* tests/common/wer.h - word error rate, as the nano model's figures are counted: lower case, full
 * stops removed, words parted by blanks, Levenshtein distance over words. */
#ifndef NIGHTSHIFT_TESTS_COMMON_WER_H
#define NIGHTSHIFT_TESTS_COMMON_WER_H

#include <stddef.h>

struct wer {
    size_t words;  /* of the reference */
    size_t errors; /* substitutions, deletions, insertions */
};

/* Adds the distance of two texts (UTF-8; only ASCII letters change case). Aborts without memory. */
void wer_add(struct wer *w, const char *reference, const char *hypothesis);

#endif
