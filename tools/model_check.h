/* tools/model_check.h - whether a model is whole and can be used: all of it is read. */
#ifndef NIGHTSHIFT_TOOLS_MODEL_CHECK_H
#define NIGHTSHIFT_TOOLS_MODEL_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/whisper/whisper.h"

struct model_check {
    char *path; /* owned: its folder, or its file; NULL when it was not found */
    char hash[MODEL_HASH_LEN];
    bool silero, file; /* file: the path is one */
    const char *stage; /* that it is for; the rest is of Whisper's, "transcribe" */
    struct whisper_config config;
    uint32_t languages, tokens;
};
/* name: as of model_dir_find, or SILERO_NAME. Loads it as a worker would. *ret is to be freed after
 * an error too: it says how far it came. */
int model_check(const char *name, struct model_check *ret, struct err *err);
void model_check_free(struct model_check *c);

/* Opens a stage's model as a worker would, on the processor. params: of the stage; "{}" for the
 * usual ones. ERR_MODEL says why a night with it would do nothing. */
int model_opens(const char *stage, const char *dir, const char *params, struct err *err);
/* Whether its files are there and as long as they claim to be: headers alone are read, so it takes
 * no time, and does not see all that model_opens sees. ERR_MODEL. */
int model_whole(const char *stage, const char *dir, struct err *err);

/* The path of the model's folder, or of Silero's file. Newly allocated. */
int model_where(const char *name, char **ret, struct err *err);

/* The former prints to standard output for people, the latter is for programs. */
void model_check_print(const char *name, const struct model_check *c);
json_t *model_check_json(const struct model_check *c, const struct err *err);

#endif
