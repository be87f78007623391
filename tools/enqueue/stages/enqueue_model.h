/* tools/enqueue/stages/enqueue_model.h - the models of the stages: where they are, which is taken
 * where none is named, and whether a folder is for the option that names it. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_MODEL_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_STAGES_ENQUEUE_MODEL_H

#include <stdbool.h>

#include "base/err.h"
#include "workers/stages/stage_kind.h"

/* Its folder, newly allocated; model: as of model_dir_find. ERR_MODEL when there is none, or when
 * it is for another option, in words for whoever typed this one. */
int enqueue_model_find(const struct stage_kind *k, const char *model, char **ret, struct err *err);

/* The model to transcribe with where nobody names one: the best of OpenAI's that is here. A
 * literal; NULL: none of them is here. */
const char *enqueue_model_usual(void);
/* The error for that case: ERR_MODEL, with the command that helps. */
int enqueue_model_none(struct err *err);

/* Whether a word behind its option (an argument of its own) is the folder or name of a model for
 * it: "--sounds FOLDER" where --sounds=FOLDER was meant. */
bool enqueue_model_meant(const struct stage_kind *k, const char *word);

#endif
