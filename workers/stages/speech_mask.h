/* workers/stages/speech_mask.h - where in a window of diarization anybody can be heard: nobody
 * speaks where Silero's model hears nobody.
 *
 * Each window is a stream of its own from silence, so that what it yields depends on neither shards
 * nor batches (silero.h); its stretches of speech (audio/speech.h) reach further than those of a
 * transcription, since quiet and overlapped speech must not be lost. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_SPEECH_MASK_H
#define NIGHTSHIFT_WORKERS_STAGES_SPEECH_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct backend;
struct speech_mask;

/* file: Silero's (silero_find). be is borrowed. */
int speech_mask_new(const char *file, struct backend *be, struct speech_mask **ret,
                    struct err *err);
void speech_mask_free(struct speech_mask *m); /* NULL is fine */
uint64_t speech_mask_predict_bytes(bool gpu); /* of device memory, for planning */
/* pcm, at: n windows, as of pyannet_run. Empties the frames in sets ([n]
 * [PYANNET_FRAMES], of pyannet_run) whose centres lie outside of speech. After an error some
 * may be emptied already. */
int speech_mask_run(struct speech_mask *m, const float *pcm, const size_t *at, uint32_t n,
                    uint8_t *sets, struct err *err);

#endif
