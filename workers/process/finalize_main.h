/* workers/process/finalize_main.h - the finalizing process: `nightshift finalize`, started by the
 * scheduler with its socket as file descriptor 3, as workers are. It clusters the voices of one
 * recording after another (workers/wire/protocol.h has the order of the messages) and touches no
 * device and no catalog. One thread, and those of OpenMP. Its memory is limited: one bad recording
 * must not take all of the machine's. Exit statuses: 0 after QUIT or the scheduler's end; any
 * other: it could not go on. */
#ifndef NIGHTSHIFT_WORKERS_PROCESS_FINALIZE_MAIN_H
#define NIGHTSHIFT_WORKERS_PROCESS_FINALIZE_MAIN_H

#include "base/err.h"
#include "workers/models/pyannote/diarization_dir.h"
#include "workers/wire/protocol.h"

/* main() of the hidden `nightshift finalize` command. Returns the exit status. */
int finalizer_main(int argc, char **argv);

/* A recording's voices, gathered from its shards. All zero at first. */
struct finalizing {
    uint32_t windows, room;
    uint32_t frames, speakers, size; /* as the first message with windows has them; 0: none yet */
    uint8_t *active;                 /* owned: [windows][frames] */
    float *vectors;                  /* owned: [windows][speakers][size], NaN: none */
};

/* The next shard's. ERR_INPUT: it does not follow what is there, or is of another model. */
int finalizing_add(struct finalizing *s, const struct result_voices *v, struct err *err);
/* The model of the last recording, which mostly is the next one's: its files are hashed and its
 * PLDA is solved once, as a worker looks at them once when it loads them. All zero at first. */
struct finalizing_model {
    char *name, *hash; /* owned; as the messages have them. NULL: none */
    struct diarization_dir dir;
    struct plda *plda; /* owned; NULL until one is wanted */
};

void finalizing_model_free(struct finalizing_model *k); /* back to all zero */

/* The result, newly allocated (msg_finalized_free). ERR_INPUT: the recording's voices; ERR_MODEL:
 * its model or its parameters, and so every recording of the stage; ERR_IO: the model cannot be
 * read now. */
int finalizing_finish(const struct finalizing *s, const struct msg_finalize *m,
                      struct finalizing_model *k, struct msg_finalized *ret, struct err *err);
void finalizing_free(struct finalizing *s); /* back to all zero */

#endif
