/* workers/models/whisper/whisper_heads.h - which heads of OpenAI's models follow the words, for
 * layouts that do not say it. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_HEADS_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_HEADS_H

#include <stddef.h>
#include <stdint.h>

#include "workers/models/whisper/whisper.h"

/* Decoder layer and head, n of them. Static. NULL: no model of these sizes is known, or two are
 * whose heads differ (large-v1 and large-v2). */
const uint8_t (*whisper_known_heads(const struct whisper_config *c, size_t *n))[2];

#endif
