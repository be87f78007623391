/* tools/doctor/kept_words.h - how much of what was said is in a transcript. Pure. */
#ifndef NIGHTSHIFT_TOOLS_DOCTOR_KEPT_WORDS_H
#define NIGHTSHIFT_TOOLS_DOCTOR_KEPT_WORDS_H

#define WORDS_MAX 64u

/* Words of `said` that are in `heard` in the same order (the longest such row of them); *count is
 * how many `said` has. ASCII letters and digits make words, case does not matter; of either text at
 * most WORDS_MAX words count. */
unsigned kept_words(const char *said, const char *heard, unsigned *count);

#endif
