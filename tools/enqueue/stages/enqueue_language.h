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
/* Does the model know them? own: the code of its language, if it knows one alone
 * (asr_family.own_language); that language is left out of p, for it is one stage with and without.
 * ERR_USAGE: it does not; what was meant. */
int enqueue_language_check(const struct vocabulary *v, const char *own, struct transcribe_params *p,
                           struct err *err);
/* The name of a code as people write it: "English"; a code without a name as it is. */
#define ENQUEUE_LANGUAGE_LEN 80
const char *enqueue_language_shown(const char *code, char ret[ENQUEUE_LANGUAGE_LEN]);

#endif
