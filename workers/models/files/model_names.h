/* workers/models/files/model_names.h - the Whisper models that people know by a short name
 * ("small", "large-v3", "turbo"): what they are on Hugging Face, how large, under which licence.
 * Constant; any thread. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_FILES_MODEL_NAMES_H
#define NIGHTSHIFT_WORKERS_MODELS_FILES_MODEL_NAMES_H

#include <stdbool.h>
#include <stdint.h>

struct model_name {
    const char *name;    /* as OpenAI's program and faster-whisper have it */
    const char *also;    /* another one, as "turbo"; NULL: none */
    const char *hub;     /* the id on Hugging Face that a pull fetches */
    const char *ct2;     /* that of the same weights for faster-whisper, used where it is here */
    uint64_t bytes;      /* of a pull, about */
    const char *licence; /* as Hugging Face has it */
    bool usual;          /* of OpenAI's, for many languages: is taken where none is named. Others
                            ("small.en",          "distil-large-v3") know English alone, or that best. */
};

/* The i-th, the best first; NULL behind the last. */
const struct model_name *model_name_at(uint32_t i);
/* By its name or its other one; NULL: there is no such. */
const struct model_name *model_name_find(const char *name);

#endif
