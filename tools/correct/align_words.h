/* tools/correct/align_words.h - which words of a file are which words of a transcript.
 *
 * What stands once on both sides is found first, whatever lies between; what is left in between is
 * aligned exactly: the most words that are the same, in the same order, rather side by side and at
 * the same time than scattered. So a file may have a part of the transcript alone, and other times.
 * Eight hours take about a second, other people's texts some seconds. Pure; any thread. */
#ifndef NIGHTSHIFT_TOOLS_CORRECT_ALIGN_WORDS_H
#define NIGHTSHIFT_TOOLS_CORRECT_ALIGN_WORDS_H

#include "tools/correct/word_list.h"

#define ALIGN_NONE SIZE_MAX

/* *ret: newly allocated, for each word of b the word of a that it is, rising, or ALIGN_NONE. Both
 * sides have their numbers. *solid: so many of them are beyond chance. ERR_NOMEM. */
int align_words(const struct word_list *a, const struct word_list *b, size_t **ret, size_t *solid,
                struct err *err);

#endif
