#include "tools/enqueue/stages/enqueue_kept.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workers/models/files/model_dir.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/transcribe/transcribe.h"

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

/* Speech that another model finds is other text. */
static int voice_kept(const struct store_stage *s, struct err *err)
{
    struct transcribe_params p;
    char *file = NULL, hash[sizeof(p.vad_hash)];
    struct err why = {0};
    int rc = transcribe_params_from_json(s->params_json, &p, err);

    if (rc != 0 || !p.vad_model[0])
        return rc;
    rc = silero_find(p.vad_model, &file, &why);
    if (rc == 0)
        rc = silero_hash(file, hash, &why);
    free(file);
    if (rc == ERR_NOMEM)
        return err_set(err, rc, "%s", why.msg);
    if (rc != 0)
        return err_set(err, ERR_MODEL,
                       "the voice activity model of last time is not here any more (%.200s). Bring "
                       "it back, or try --again with --vad=off",
                       why.msg);
    return strcmp(hash, p.vad_hash) == 0
               ? 0
               : err_set(err, ERR_MODEL,
                         "the voice activity model '%.200s' is another one now than last time. "
                         "Bring that one back, or try --again, which does with this one what was "
                         "done with the other",
                         p.vad_model);
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
    if (rc != 0)
        free(found);
    else
        *dir = found;
    return rc;
}

int enqueue_kept(const struct store_stage *s, char **dir, struct err *err)
{
    int rc = 0;

    *dir = NULL;
    if (!stage_kind_find(s->name))
        return err_set(err, ERR_VERSION, "this nightshift does not know '%.100s'", s->name);
    if (strcmp(s->name, stage_transcribe.name) == 0)
        rc = voice_kept(s, err);
    return rc == 0 ? find(s, dir, err) : rc;
}
