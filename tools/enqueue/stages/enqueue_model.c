#include "tools/enqueue/stages/enqueue_model.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "workers/models/files/model_dir.h"

#define OTHER_NAME 200

static bool is_folder(const char *path, bool *there)
{
    struct stat st;

    *there = stat(path, &st) == 0;
    return *there && S_ISDIR(st.st_mode);
}

/* model_dir_find's advice to fetch a model fits only models on a hub. */
static int not_found(const struct stage_kind *k, const char *model, struct err *err)
{
    bool there;
    char *own = NULL;
    struct err ignored = {0};
    int rc;

    (void)is_folder(model, &there);
    if (there)
        return err->code;
    if (model[0] == '/' || model[0] == '.')
        return err_set(err, ERR_MODEL, "there is no folder '%.300s'", model);
    if (k->hub && strchr(k->hub, '/') && strstr(err->msg, "`nightshift model pull "))
        return err->code;
    if (k->hub && strcmp(k->hub, model) == 0)
        return err_set(err, ERR_MODEL,
                       "there is no '%s' here: `nightshift model pull %s` fetches it", model,
                       model);
    if (model_dir_own(&own, &ignored) != 0)
        own = NULL;
    rc = err_set(err, ERR_MODEL,
                 "there is neither a folder '%.200s' nor such a model in %.300s. Try --%s=FOLDER",
                 model, own ? own : "the models directories", k->option);
    free(own);
    return rc;
}

int enqueue_model_find(const struct stage_kind *k, const char *model, char **ret, struct err *err)
{
    int rc = model_dir_find(model, ret, err);
    const struct stage_kind *is_for = rc == 0 ? stage_kind_of_model(*ret) : NULL;

    if (rc == ERR_MODEL)
        return not_found(k, model, err);
    if (is_for && strcmp(is_for->name, k->name) != 0)
        return err_set(err, ERR_MODEL, "%.300s is a model for --%s, not for --%s", model,
                       is_for->option, k->option);
    return rc;
}

const char *enqueue_model_usual(void)
{
    const struct model_name *m;
    const char *ret;

    for (uint32_t i = 0; (m = model_name_at(i)); i++)
        if (m->usual && (ret = model_dir_known(m->name)))
            return ret;
    return NULL;
}

static void keep_other(void *arg, const char *name, const char *dir)
{
    char *first = arg;

    if (first[0] == 0 && strcmp(name, MODEL_DEMO) != 0 &&
        stage_kind_of_model(dir) == &stage_transcribe)
        utf8_copy(first, OTHER_NAME, name);
}

int enqueue_model_none(struct err *err)
{
    char other[OTHER_NAME] = "";
    struct err ignored = {0};

    (void)model_dir_list(keep_other, other, &ignored);
    if (other[0])
        return err_set(
            err, ERR_MODEL,
            "none was given, and none of OpenAI's models is here. Try --model=%s (`nightshift "
            "model list` shows all that are here), or `nightshift setup`, which fetches one that "
            "fits this machine (without a network: `nightshift setup --offline DIR`)",
            other);
    return err_set(
        err, ERR_MODEL,
        "there is none here yet. `nightshift setup` fetches one that fits this machine. "
        "Without a network, try `nightshift setup --offline DIR`, or --model FOLDER with "
        "a model that is here");
}

bool enqueue_model_meant(const struct stage_kind *k, const char *word)
{
    struct err ignored = {0};
    bool there, ret;
    char *dir = NULL;

    (void)is_folder(word, &there);
    if (there) /* a name of the models directories is not meant where there is such a file */
        return stage_kind_of_model(word) == k;
    if (model_dir_find(word, &dir, &ignored) != 0)
        return false;
    ret = stage_kind_of_model(dir) == k;
    free(dir);
    return ret;
}
