/* tests/unit/models/nano_answer.h - what the model that comes with the source says to a recording,
 * from whichever layout it is loaded. */
#ifndef NIGHTSHIFT_TESTS_UNIT_MODELS_NANO_ANSWER_H
#define NIGHTSHIFT_TESTS_UNIT_MODELS_NANO_ANSWER_H

#include <stdint.h>

#include "workers/models/whisper/whisper.h"

#define STEPS 24

struct backend;

struct answer {
    struct whisper_config config;
    int32_t tokens[STEPS];
    float logits[4096]; /* of the last step */
};

/* Greedy tokens of the recording behind <|startoftranscript|><|en|><|transcribe|><|notimestamps|>.
 */
void nano_answer(const char *dir, struct backend *be, struct answer *ret);

#endif
