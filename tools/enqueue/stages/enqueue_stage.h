/* tools/enqueue/stages/enqueue_stage.h - the stage that an enqueue asks for: which model, whether
 * its files are whole, whether it can do what the options say. Errors are reported now, not during
 * the night.
 *
 * Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_STAGE_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_STAGE_H

#include "store/store.h"
#include "tools/enqueue/stages/enqueue_params.h"
#include "workers/models/files/model_dir.h"

/* Decides whether there is voice activity and by which model: p->params.vad_model and vad_hash.
 * note: a sentence for people when it is off without their having said so, else "". ERR_MODEL when
 * it was asked for and is not here, or is not whole. */
int enqueue_stage_vad(struct enqueue_params *p, char *note, size_t note_len, struct err *err);

struct enqueue_stage { /* owned; enqueue_stage_free */
    char *dir, *params;
    char hash[MODEL_HASH_LEN];
    const char *only_language; /* code of the one that the model knows; NULL: it knows several */
};

/* *stage borrows from model and *ret. ERR_USAGE: this model cannot do that; ERR_MODEL. The caller
 * frees *ret even on error. */
int enqueue_stage_find(const char *model, const struct transcribe_params *p,
                       struct enqueue_stage *ret, struct store_stage *stage, struct err *err);
void enqueue_stage_free(struct enqueue_stage *s);

#endif
