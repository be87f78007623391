#include "tools/enqueue/stages/enqueue_kept.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/cli/cli.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/stage_kind.h"

static int gone(const struct store_stage *s, const struct err *why, struct err *err)
{
    return err_set(err, ERR_MODEL,
                   "the model '%.120s' of last time is not here any more (%.200s). Bring it back, "
                   "or try --again with another one (--%s)",
                   s->model, why->msg, stage_kind_find(s->name)->option);
}

static int another(const struct store_stage *s, const char *dir, struct err *err)
{
    return err_set(err, ERR_MODEL,
                   "%.200s holds another model '%.120s' now than last time. Bring that one back, "
                   "or try --again, which does with this one (or with --%s=...) what was done with "
                   "the other",
                   dir, s->model, stage_kind_find(s->name)->option);
}

/* The texts of the parameters that name a stage's model of voice activity; false: it has none. */
static bool voice_of(const struct param_table *t, const char *params, const char **model,
                     const char **hash)
{
    const struct param_field *m = param_table_find(t, "vad_model"),
                             *h = param_table_find(t, "vad_hash");

    *model = m ? params + m->offset : "";
    *hash = h ? params + h->offset : "";
    return (*model)[0] != 0;
}

static int same_voice(const char *model, const char *was, const char *option, struct err *err)
{
    char *file = NULL, hash[MODEL_HASH_LEN];
    struct err why = {0};
    int rc = silero_find(model, &file, &why);

    if (rc == 0)
        rc = silero_hash(file, hash, &why);
    free(file);
    if (rc == ERR_NOMEM)
        return err_set(err, rc, "%s", why.msg);
    if (rc != 0)
        return err_set(err, ERR_MODEL,
                       "the voice activity model of last time is not here any more (%.200s). Bring "
                       "it back, or try --again with --%s=off",
                       why.msg, option);
    return strcmp(hash, was) == 0
               ? 0
               : err_set(err, ERR_MODEL,
                         "the voice activity model '%.200s' is another one now than last time. "
                         "Bring that one back, or try --again, which does with this one what was "
                         "done with the other",
                         model);
}

/* Speech that another model finds is other text, and other people's. */
static int voice_kept(const struct store_stage *s, const struct stage_kind *kind, struct err *err)
{
    const struct param_table *t = kind->params;
    const char *model, *hash;
    char *params = malloc(t->size);
    int rc = params ? param_table_from_json(t, s->params_json, params, err)
                    : err_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0 && voice_of(t, params, &model, &hash))
        rc = same_voice(model, hash, param_table_find(t, "vad_model")->option, err);
    free(params);
    return rc;
}

/* Its folder may have moved since; what has its name now need not be it. */
static int find(const struct store_stage *s, char **dir, struct err *err)
{
    char hash[MODEL_HASH_LEN], *found = NULL;
    struct err why = {0};
    int rc;

    if (access(s->model_dir, R_OK) == 0 &&
        stage_model_hash(s->name, s->model_dir, hash, &why) == 0 &&
        strcmp(hash, s->model_hash) == 0)
        return 0;
    why = (struct err){0};
    rc = model_dir_find(s->model, &found, &why);
    if (rc == 0)
        rc = stage_model_hash(s->name, found, hash, &why);
    if (rc != 0)
        rc = rc == ERR_NOMEM ? err_set(err, rc, "%s", why.msg) : gone(s, &why, err);
    else if (strcmp(hash, s->model_hash) != 0)
        rc = another(s, found, err);
    else
        rc = cli_path_text(found, "the model's folder", ERR_MODEL, err);
    if (rc != 0)
        free(found);
    else
        *dir = found;
    return rc;
}

int enqueue_kept(const struct store_stage *s, char **dir, struct err *err)
{
    const struct stage_kind *kind = stage_kind_find(s->name);
    int rc;

    *dir = NULL;
    if (!kind)
        return err_set(err, ERR_VERSION, "this nightshift does not know '%.100s'", s->name);
    rc = voice_kept(s, kind, err);
    return rc == 0 ? find(s, dir, err) : rc;
}
