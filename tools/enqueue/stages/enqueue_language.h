/* tools/enqueue/stages/enqueue_language.h - --language: names and codes of languages. Pure; any
 * thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_LANGUAGE_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_LANGUAGE_H

#include "base/err.h"

struct transcribe_params; /* workers/stages/transcribe/transcribe_params.h */
struct vocabulary;        /* workers/text/tokenizer/vocabulary.h */

/* Names and codes, in upper or lower case and with commas between them, become codes in ascending
 * order, each once: "German,en" is "de,en". "auto" is "". A word that is neither stays, in lower
 * case: the model may know it. ERR_USAGE. */
int enqueue_language_take(const char *value, struct transcribe_params *p, struct err *err);
/* Does the model know them? English said to an English-only model is left out of p, for it is one
 * stage with and without. ERR_USAGE: it does not; what was meant. */
int enqueue_language_check(const struct vocabulary *v, struct transcribe_params *p,
                           struct err *err);

#endif
