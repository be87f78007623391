/* workers/models/whisper/whisper_heads.h - which heads of the decoder follow the words; of OpenAI's
 * models also for layouts that do not say it. */
#ifndef NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_HEADS_H
#define NIGHTSHIFT_WORKERS_MODELS_WHISPER_WHISPER_HEADS_H

#include <stddef.h>
#include <stdint.h>

#include "workers/models/whisper/whisper.h"

struct vocabulary;

/* Decoder layer and head, n of them. Static. NULL: no model of these sizes is known, or two are
 * whose heads differ (large-v1 and large-v2). */
const uint8_t (*whisper_known_heads(const struct whisper_config *c, size_t *n))[2];

/* The decoder's heads to look at: the model's own that exist, or, where it names none, all heads of
 * the upper half of the layers (v NULL: it names none). Returns how many there are. Writes at most
 * max of them, ascending as they are given; of more, so many evenly spread ones. */
uint32_t whisper_heads(const struct vocabulary *v, const struct whisper_config *c,
                       struct whisper_head *ret, uint32_t max);

#endif
