#include "tools/enqueue/stages/enqueue_usual.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "store/read/read.h"
#include "tools/enqueue/stages/enqueue_model.h"
#include "workers/models/files/model_dir.h"

/* The models directory of this user, for people; NULL: the environment names none. */
static char *own_place(void)
{
    struct err ignored = {0};
    char *own = NULL;

    return model_dir_own(&own, &ignored) == 0 ? own : NULL;
}

static int nothing_here(const struct stage_kind *k, struct err *err)
{
    return err_set(err, ERR_MODEL,
                   "there is no '%s' here: `nightshift model pull %s` fetches %s; or try "
                   "--%s=FOLDER",
                   k->model, k->hub, k->embedded ? "a free one" : "it", k->option);
}

/* Refuses a folder that the user made for the model but that holds none (model_dir_find found
 * none): the user would notice another model only in the morning. A folder that `model pull` began
 * is not refused: the pull completes it. */
static int refuse_half_made(const struct stage_kind *k, const char *own, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;

    if (!own || strcmp(k->model, k->hub) == 0 ||
        snprintf(path, sizeof(path), "%s/%s", own, k->model) >= (int)sizeof(path) ||
        stat(path, &st) != 0)
        return 0;
    return err_set(
        err, ERR_MODEL,
        "%.300s is not a model: %s (docs/reference/models.md has the files). Complete or remove "
        "it, or try --%s=FOLDER",
        path, k->no_model ? k->no_model : "it has no config.json", k->option);
}

struct last {
    const char *stage;
    char model[200];
};

static int keep_last(void *arg, const struct read_progress *row)
{
    struct last *l = arg;

    if (strcmp(row->stage, l->stage) == 0 && row->done + row->pending > 0)
        utf8_copy(l->model, sizeof(l->model), row->model);
    return 0;
}

/* Refuses the model of `model pull` if its results would replace those of another model, unless
 * that is the demo's. */
static int refuse_another(const struct stage_kind *k, struct store *known, struct err *err)
{
    struct last last = {.stage = k->name};
    int rc = known && k->told_by ? read_progress(known, keep_last, &last, err) : 0;

    if (rc < 0 || last.model[0] == 0 || strcmp(last.model, k->hub) == 0 ||
        (k->embedded && strcmp(last.model, k->embedded) == 0))
        return rc < 0 ? rc : 0;
    return err_set(err, ERR_MODEL,
                   "there is no '%s' here, and %s '%.150s'; results of '%s' would replace that. "
                   "Choose one: --%s=%.150s or --%s=%s",
                   k->model, k->told_by, last.model, k->hub, k->option, last.model, k->option,
                   k->hub);
}

static int find_pulled(const struct stage_kind *k, struct store *known, const char *own,
                       char **ret_dir, struct err *err)
{
    int rc = refuse_half_made(k, own, err);

    if (rc != 0)
        return rc;
    rc = enqueue_model_find(k, k->hub, ret_dir, err);
    if (rc == ERR_MODEL && !*ret_dir)
        return nothing_here(k, err);
    return rc == 0 ? refuse_another(k, known, err) : rc;
}

int enqueue_usual_find(const struct stage_kind *k, struct store *known, char **ret_dir,
                       const char **ret_name, struct err *err)
{
    char *own;
    int rc = enqueue_model_find(k, k->model, ret_dir, err);

    *ret_name = k->model;
    if (rc != ERR_MODEL || *ret_dir)
        return rc;
    own = own_place();
    *ret_name = k->hub;
    rc = find_pulled(k, known, own, ret_dir, err);
    free(own);
    return rc;
}
