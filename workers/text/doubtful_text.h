/* workers/text/doubtful_text.h - signs in a text that nobody said it: it repeats itself, or it is
 * what models say when nobody speaks. Pure; any thread. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_DOUBTFUL_TEXT_H
#define NIGHTSHIFT_WORKERS_TEXT_DOUBTFUL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "workers/text/codepoints.h"

/* How repetitive a text is: len / length of the zlib stream at the default level. This is Whisper's
 * measure, above 2.4 in loops. 0 for empty text. ERR_NOMEM. */
int compression_ratio(const char *text, size_t len, float *ret, struct err *err);

/* Does the text go in a circle? Whole words or phrases: three times when they are nearly all of the
 * text, five times when they are half of it, eight times anywhere. Within words and in scripts
 * without blanks more is asked for, for people laugh and hesitate; of figures the most, for people
 * read them out. O(len * 400). */
bool repetition_loops(const struct folded *f);

/* ---- silence phrases: what models say when nobody speaks.
 *
 * Whisper learned from films with subtitles, where silence often came with credits, thanks and
 * requests to subscribe; so it hears these in silence and noise. People say some of it, too: a
 * phrase proves nothing alone. */

enum silence_phrase {
    SILENCE_PHRASE_NONE,
    SILENCE_PHRASE_COMMON, /* people say it every day: "Thank you.", "Bye." */
    SILENCE_PHRASE_TYPICAL /* people hardly say it: "Subtitles by ...", "Thanks for watching!" */
};

/* Is all of the text such phrases, one or several? One typical phrase makes it typical. A text
 * without any word ("...", "♪") is. */
enum silence_phrase silence_phrase_find(const struct folded *f);

#endif
