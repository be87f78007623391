/* tools/score/normalize_numbers.h - English numbers in words as digits. Pure; any thread.
 *
 * A part of the English normaliser; its own header says what is done with numbers. */
#ifndef NIGHTSHIFT_TOOLS_SCORE_NORMALIZE_NUMBERS_H
#define NIGHTSHIFT_TOOLS_SCORE_NORMALIZE_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/* Puts the words of a lower-case text (valid UTF-8, parted by blanks) into `out`, one blank between
 * two, with numbers as digits. Runs of any length: numbers are kept as digits, not in a type that
 * could overflow. out->failed without memory. */
void normalize_numbers(const char *text, struct buf *out);

/* May "point five" follow this word: is it a number below a hundred, or a multiplier such as
 * "million"? (None that has an ending, as "fifth" or "millions" have.) */
bool normalize_is_amount(const char *word, size_t len);

#endif
