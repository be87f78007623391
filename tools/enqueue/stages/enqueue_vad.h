/* tools/enqueue/stages/enqueue_vad.h - what is said of voice activity, of a transcription (--vad)
 * and of a diarization (--diarize-vad), and the model that this means here.
 *
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_VAD_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_VAD_H

#include "base/err.h"

#define ENQUEUE_VAD_NAME 512 /* of the model, as a stage's parameters have it, */
#define ENQUEUE_VAD_HASH 33  /*   and of its hash */

enum vad_wish {
    VAD_AUTO, /* on when its model is here */
    VAD_ON,
    VAD_OFF,
    VAD_PATH,
};

struct enqueue_vad {
    enum vad_wish wish;
    const char *path; /* VAD_PATH: the file as it was named; borrowed */
};

/* option: its name, for people. ERR_USAGE with a sentence. */
int enqueue_vad_take(const char *option, const char *value, struct enqueue_vad *ret,
                     struct err *err);
/* Which model that is: by what name a worker finds it again, and the hash of its file. "" of both
 * when it is off, or is not here and need not be. ERR_MODEL: it was asked for and is not here, or
 * is not whole; ERR_USAGE: its path is none that a catalog can keep. */
int enqueue_vad_find(const struct enqueue_vad *v, char model[ENQUEUE_VAD_NAME],
                     char hash[ENQUEUE_VAD_HASH], struct err *err);

#endif
