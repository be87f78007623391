/* workers/models/asr_family.h - the families of speech recognition models, by the `model_type` of
 * their config.json. Any thread. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_ASR_FAMILY_H
#define NIGHTSHIFT_WORKERS_MODELS_ASR_FAMILY_H

#include "workers/models/asr_model.h"

/* All that there are; NULL-terminated. */
extern const char *const asr_model_types[];
/* The family of a model's folder or file, or of an adapter's base. Whisper, where the files name no
 * family of ours: most of its layouts name none, and its functions say what is wrong. */
const struct asr_family *asr_family_of(const char *dir);

#endif
