/* A family of models that is not Whisper's, for tests of the seam (workers/models/asr_model.h): its
 * own tokens, its own prompt, windows of 9.6 s, timestamps of 80 ms or none, one language or two.
 *
 * It computes nothing. The audio is words of 0.8 s: the level of each (fake_audio of
 * fake_whisper.h) is the number of the word that is said, silence is none. */
#ifndef NIGHTSHIFT_TESTS_OTHER_FAMILY_H
#define NIGHTSHIFT_TESTS_OTHER_FAMILY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define OTHER_WINDOW 153600 /* samples */
#define OTHER_WORD 12800    /* samples of a word */
#define OTHER_WORDS 16      /* the first half German, the other half French */

struct asr_model;

struct other_kind {
    bool timed;     /* it writes timestamps */
    bool aligns;    /* it tells when words are said */
    bool languages; /* de and fr, by the words; else it knows Esperanto alone */
};

/* What the model has done since it was opened. */
struct other_seen {
    uint32_t windows, longest; /* and the samples of the longest of them */
    uint32_t prompts, prompt_len;
    uint32_t aligned, most_aligned; /* windows, and of a call */
};
extern struct other_seen other_seen;
/* A window whose text begins with this word cannot be aligned (ERR_MODEL); -1: none. */
extern int32_t other_damaged;

/* " eins" and so on. Static. */
const char *other_word(uint32_t number);
/* Free it with ops->free. */
int other_open(struct other_kind kind, struct asr_model **ret, struct err *err);

#endif
