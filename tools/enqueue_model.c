#include "tools/enqueue_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "workers/models/model_dir.h"
#include "workers/stages/stage.h"
#include "workers/text/json_file.h"

static const struct {
    const char *option, *stage;
} kinds[] = {
    {"--diarize", "diarize"},
    {"--sounds", "sounds"},
    {"--embed", "embed-text"},
    {"--embed-audio", "embed-audio"},
};

static bool is_whisper(const char *dir)
{
    json_t *config = NULL;
    struct err ignored = {0};
    const char *type;
    bool ret;

    if (json_file_read(dir, "config.json", &config, &ignored) != 0)
        return false;
    type = json_string_value(json_object_get(config, "model_type"));
    ret = type != NULL && strcmp(type, "whisper") == 0;
    json_decref(config);
    return ret;
}

/* The option that a folder's model is for; NULL: its config.json does not say. */
static const char *option_of(const char *dir)
{
    const char *stage = stage_of_model(dir);

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(stage, kinds[i].stage) == 0)
            return kinds[i].option;
    return is_whisper(dir) ? "--model" : NULL;
}

static bool is_folder(const char *path, bool *there)
{
    struct stat st;

    *there = stat(path, &st) == 0;
    return *there && S_ISDIR(st.st_mode);
}

/* Models for --sounds and --diarize are on no hub, whatever model_dir_find says of fetching. */
static bool is_on_hubs(const char *option) { return strncmp(option, "--embed", 7) == 0; }

static int not_found(const char *option, const char *model, struct err *err)
{
    bool there, folder = is_folder(model, &there);
    char *own = NULL;
    struct err ignored = {0};
    int rc;

    if (folder && strstr(err->msg, "no config.json") != NULL)
        return err_set(err, ERR_MODEL,
                       "the folder '%.300s' is no model's: it has no config.json. Try the folder "
                       "that has one",
                       model);
    if (there)
        return err->code;
    if (model[0] == '/' || model[0] == '.')
        return err_set(err, ERR_MODEL, "there is no folder '%.300s'", model);
    if (is_on_hubs(option) && strstr(err->msg, "`nightshift model pull ") != NULL)
        return err->code;
    if (model_dir_own(&own, &ignored) != 0)
        own = NULL;
    rc = err_set(err, ERR_MODEL,
                 "there is neither a folder '%.200s' nor such a model in %.300s. Try %s=FOLDER",
                 model, own != NULL ? own : "the models directories", option);
    free(own);
    return rc;
}

int enqueue_model_find(const char *option, const char *model, char **ret, struct err *err)
{
    int rc = model_dir_find(model, ret, err);
    const char *is_for = rc == 0 ? option_of(*ret) : NULL;

    if (rc == ERR_MODEL)
        return not_found(option, model, err);
    if (is_for != NULL && strcmp(is_for, option) != 0)
        return err_set(err, ERR_MODEL, "%.300s is a model for %s, not for %s", model, is_for,
                       option);
    return rc;
}

bool enqueue_model_meant(const char *option, const char *word)
{
    struct err ignored = {0};
    const char *is_for;
    bool there, ret;
    char *dir = NULL;

    (void)is_folder(word, &there);
    if (there) { /* a name of the models directories is not meant where there is such a file */
        is_for = option_of(word);
        return is_for != NULL && strcmp(is_for, option) == 0;
    }
    if (model_dir_find(word, &dir, &ignored) != 0)
        return false;
    is_for = option_of(dir);
    ret = is_for != NULL && strcmp(is_for, option) == 0;
    free(dir);
    return ret;
}
