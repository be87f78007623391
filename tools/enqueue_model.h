/* tools/enqueue_model.h - the models of --diarize, --sounds, --embed and --embed-audio: where they
 * are, and whether a folder is for the option that names it. Main thread. */
#ifndef NIGHTSHIFT_TOOLS_ENQUEUE_MODEL_H
#define NIGHTSHIFT_TOOLS_ENQUEUE_MODEL_H

#include <stdbool.h>

#include "base/err.h"

/* Its folder, newly allocated; model: as of model_dir_find. ERR_MODEL when there is none, or when
 * it is for another option, in words for whoever typed this one. */
int enqueue_model_find(const char *option, const char *model, char **ret, struct err *err);

/* Whether a word behind the option (an argument of its own) is the folder or name of a model for
 * it: "--sounds FOLDER" where --sounds=FOLDER was meant. */
bool enqueue_model_meant(const char *option, const char *word);

#endif
