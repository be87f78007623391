/* workers/stages/speech_mask.h - where in windows of diarization anybody can be heard: nobody
 * speaks where Silero's model hears nobody.
 *
 * The windows of a tile share their sound, which is a stream of its own from silence, so that what
 * it yields depends on neither shards nor batches (silero.h). Its stretches of speech
 * (audio/speech.h) reach further than those of a transcription, since quiet and overlapped speech
 * must not be lost. Engine thread only. */
#ifndef NIGHTSHIFT_WORKERS_STAGES_SPEECH_MASK_H
#define NIGHTSHIFT_WORKERS_STAGES_SPEECH_MASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define SPEECH_MASK_WINDOWS 16 /* of a tile */

struct backend;
struct speech_mask;

/* Consecutive windows, PYANNET_STEP apart. */
struct speech_tile {
    const float *pcm; /* to the last window's end */
    uint32_t windows; /* 1 .. SPEECH_MASK_WINDOWS */
    uint8_t *sets;    /* [windows][PYANNET_FRAMES], of pyannet_run */
};

/* file: Silero's (silero_find). be is borrowed. */
int speech_mask_new(const char *file, struct backend *be, struct speech_mask **ret,
                    struct err *err);
void speech_mask_free(struct speech_mask *m); /* NULL is fine */
uint64_t speech_mask_predict_bytes(bool gpu); /* of device memory, for planning */
/* Empties the frames of the tiles' sets whose centres lie outside of speech. After an error some
 * may be emptied already. */
int speech_mask_run(struct speech_mask *m, const struct speech_tile *tiles, uint32_t n,
                    struct err *err);

#endif
