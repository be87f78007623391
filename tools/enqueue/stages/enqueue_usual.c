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

static int nothing_here(const struct stage_kind *k, const char *own, struct err *err)
{
    char also[160] = "";

    if (k->embedded)
        snprintf(also, sizeof(also),
                 ", and '%s', which comes with Nightshift, is not where it was installed",
                 k->embedded);
    if (k->hub)
        return err_set(err, ERR_MODEL,
                       "there is no '%s' here: `nightshift model pull %s` fetches it; or try "
                       "--%s=FOLDER",
                       k->model, k->hub, k->option);
    return err_set(err, ERR_MODEL,
                   "there is no '%s'%s. To get one, %s (%.300s), or try "
                   "--%s=FOLDER",
                   k->model, also, k->get, own ? own : "NIGHTSHIFT_MODELS", k->option);
}

/* A folder that the user made for it, and that holds no model (model_dir_find found none): to take
 * another one in its place would be found out in the morning. */
static int refuse_half_made(const struct stage_kind *k, const char *own, struct err *err)
{
    char path[PATH_MAX];
    struct stat st;

    if (!own || snprintf(path, sizeof(path), "%s/%s", own, k->model) >= (int)sizeof(path) ||
        stat(path, &st) != 0)
        return 0;
    return err_set(err, ERR_MODEL,
                   "%.300s is no model: %s (docs/models.md has the files). Complete or "
                   "remove it, or try --%s=FOLDER",
                   path, k->no_model, k->option);
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

static int refuse_a_lesser_one(const struct stage_kind *k, struct store *known, struct err *err)
{
    struct last last = {.stage = k->name};
    int rc = known ? read_progress(known, keep_last, &last, err) : 0;

    if (rc < 0 || last.model[0] == 0 || strcmp(last.model, k->embedded) == 0)
        return rc < 0 ? rc : 0;
    return err_set(err, ERR_MODEL,
                   "there is no '%s' here, and %s '%.150s': "
                   "what the small model that comes with Nightshift says would count in place of "
                   "that. Name the one that is meant: --%s=%.150s or --%s=%s",
                   k->model, k->told_by, last.model, k->option, last.model, k->option, k->embedded);
}

static void say_embedded(const struct stage_kind *k, const char *own, char *note, size_t size)
{
    int n = snprintf(note, size,
                     "--%s takes %s, the small model that comes with Nightshift: %s. "
                     "docs/models.md names better ones",
                     k->option, k->embedded, k->embedded_is);

    if (own && n > 0 && (size_t)n < size)
        snprintf(note + n, size - (size_t)n, "; as a folder '%s' in %.300s one is taken by itself.",
                 k->model, own);
    else if (n > 0 && (size_t)n + 1 < size)
        memcpy(note + n, ".", 2);
}

static int find_embedded(const struct stage_kind *k, struct store *known, const char *own,
                         char **ret_dir, struct err *err)
{
    int rc = refuse_half_made(k, own, err);

    if (rc != 0)
        return rc;
    rc = enqueue_model_find(k, k->embedded, ret_dir, err);
    if (rc == ERR_MODEL && !*ret_dir)
        return nothing_here(k, own, err);
    return rc == 0 ? refuse_a_lesser_one(k, known, err) : rc;
}

int enqueue_usual_find(const struct stage_kind *k, struct store *known, char **ret_dir,
                       const char **ret_name, char *note, size_t note_size, struct err *err)
{
    struct err first = {0};
    char *own;
    int rc = enqueue_model_find(k, k->model, ret_dir, &first);

    note[0] = 0;
    *ret_name = k->model;
    if (rc == ERR_MODEL && !*ret_dir && k->hub && strcmp(k->hub, k->model) != 0) {
        *ret_name = k->hub;
        rc = enqueue_model_find(k, k->hub, ret_dir, &first);
    }
    if (rc != ERR_MODEL || *ret_dir) {
        if (rc != 0)
            *err = first;
        return rc;
    }
    own = own_place();
    if (k->embedded) {
        *ret_name = k->embedded;
        rc = find_embedded(k, known, own, ret_dir, err);
    } else
        rc = nothing_here(k, own, err);
    if (rc == 0)
        say_embedded(k, own, note, note_size);
    free(own);
    return rc;
}
