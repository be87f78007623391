/* workers/text/edit_distance.h - how far two words are from each other, by slips of the fingers.
 * Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_EDIT_DISTANCE_H
#define NIGHTSHIFT_WORKERS_TEXT_EDIT_DISTANCE_H

#include <stddef.h>

#define EDIT_DISTANCE_MAX 48 /* bytes of each word, at most */

/* How many bytes were left out, put in, taken for others or swapped with their neighbours. */
unsigned edit_distance(const char *a, size_t a_len, const char *b, size_t b_len);
/* The largest distance at which a word of len bytes may still be meant. */
unsigned edit_distance_most(size_t len);

#endif
