/* workers/text/repetition.h - the same few words again and again. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_REPETITION_H
#define NIGHTSHIFT_WORKERS_TEXT_REPETITION_H

#include <stdbool.h>

#include "workers/text/tokenizer/folded.h"

/* Does the text go in a circle? Whole words or phrases: three times when they are nearly all of the
 * text, five times when they are half of it, eight times anywhere. Within words and in scripts
 * without blanks more is asked for, for people laugh and hesitate; of figures the most, for people
 * read them out. O(len * 400). */
bool repetition_loops(const struct folded *f);

#endif
