/* workers/text/silence_phrases.h - what models say when nobody speaks. Pure; any thread.
 *
 * Whisper learned from films with subtitles, where silence often came with credits, thanks and
 * requests to subscribe; so it hears these in silence and noise. People say some of it, too: a
 * phrase proves nothing alone. */
#ifndef NIGHTSHIFT_WORKERS_TEXT_SILENCE_PHRASES_H
#define NIGHTSHIFT_WORKERS_TEXT_SILENCE_PHRASES_H

#include "workers/text/tokenizer/folded.h"

enum silence_phrase {
    SILENCE_PHRASE_NONE,
    SILENCE_PHRASE_COMMON, /* people say it every day: "Thank you.", "Bye." */
    SILENCE_PHRASE_TYPICAL /* people hardly say it: "Subtitles by ...", "Thanks for watching!" */
};

/* Is all of the text such phrases, one or several? One typical phrase makes it typical. A text
 * without any word ("...", "♪") is. */
enum silence_phrase silence_phrase_find(const struct folded *f);

#endif
