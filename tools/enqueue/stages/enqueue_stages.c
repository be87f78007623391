#include "tools/enqueue/stages/enqueue_stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/read/read.h"
#include "tools/cli/cli.h"
#include "tools/enqueue/stages/enqueue_language.h"
#include "tools/enqueue/stages/enqueue_model.h"
#include "tools/enqueue/stages/enqueue_usual.h"
#include "tools/model_check.h"
#include "workers/models/files/model_dir.h"

/* -------------------------------------------------------------------------- transcription */

struct looking {
    const struct store_stage *wanted;
    bool found;
};

static int match_stage_row(void *arg, const struct read_progress *row)
{
    struct looking *l = arg;

    l->found |= strcmp(row->stage, l->wanted->name) == 0 &&
                strcmp(row->model_hash, l->wanted->model_hash) == 0 &&
                strcmp(row->params_json, l->wanted->params_json) == 0;
    return l->found;
}

/* With --no-transcribe, a stage that works on a transcription needs one in the catalog. */
static int must_be_there(const struct stage_kind *k, struct store *known,
                         const struct enqueue_stages *all, struct err *err)
{
    struct looking l = {.wanted = &all->transcribe};
    int rc = known && l.wanted->name ? read_progress(known, match_stage_row, &l, err) : 0;

    if (rc < 0 || l.found)
        return rc < 0 ? rc : 0;
    return err_set(err, ERR_USAGE,
                   "--%s needs a transcription, and the catalog has none%s: leave out "
                   "--no-transcribe to make it first",
                   k->option, known && l.wanted->name ? " like that" : "");
}

/* Reports that a recipe's model is missing or unusable; model NULL: that of voice activity. */
static int report_missing_model(const struct enqueue_wish *w, size_t kind, const char *model,
                                int rc, char doing[200], struct err *err)
{
    const struct param_field *vad = param_table_find(stage_kinds[kind]->params, "vad_model");
    const struct err why = *err;

    if (rc != ERR_MODEL || !w->kept[kind])
        return rc;
    snprintf(doing, 200, "continue as last time");
    if (!model && vad)
        return err_set(err, rc,
                       "the voice activity model of last time is missing (%.200s). Bring it back, "
                       "or try --again with --%s=off",
                       why.msg, vad->option);
    return err_set(err, rc,
                   "the model '%.120s' of last time is missing (%.200s). Bring it back, or try "
                   "--again with another one (--%s)",
                   model, why.msg, stage_kinds[kind]->option);
}

static int find_voice(struct enqueue_wish *w, struct enqueue_stages *ret, char doing[200],
                      struct err *err)
{
    int rc;

    snprintf(doing, 200, "use voice activity");
    rc = enqueue_stage_vad(&w->params, ret->note, sizeof(ret->note), err);
    if (rc != 0)
        return report_missing_model(w, 0, NULL, rc, doing, err);
    doing[0] = 0;
    if (w->params.params.vad_model[0])
        enqueue_params_say(&w->params, "vad", "on");
    return 0;
}

static int find_transcription(struct enqueue_wish *w, struct store *known,
                              struct enqueue_stages *ret, char doing[200], struct err *err)
{
    char language[ENQUEUE_LANGUAGE_LEN];
    int rc = find_voice(w, ret, doing, err);

    if (rc != 0)
        return rc;
    enqueue_params_resolve(&w->params);
    rc = enqueue_params_agree(&w->params, err);
    if (rc != 0)
        return rc;
    if (!w->model)
        w->model = enqueue_model_usual();
    if (!w->model) {
        snprintf(doing, 200, "choose a model to transcribe with");
        return enqueue_model_none(err);
    }
    snprintf(doing, 200, "use the model '%.150s'", w->model);
    rc = enqueue_stage_find(w->model, &w->params.params, &ret->own[0], &ret->transcribe, err);
    if (rc != 0)
        return report_missing_model(w, 0, w->model, rc, doing, err);
    if (ret->own[0].only_language && enqueue_params_many_languages(&w->params))
        snprintf(ret->note + strlen(ret->note), sizeof(ret->note) - strlen(ret->note),
                 "%s--multilingual does nothing with this model, which knows only %s.",
                 ret->note[0] ? " " : "",
                 enqueue_language_shown(ret->own[0].only_language, language));
    doing[0] = 0;
    return w->on_known ? must_be_there(enqueue_wish_on_source(w), known, ret, err) : 0;
}

/* ---------------------------------------------------------------------------------- others */

/* The source is part of what the vectors depend on: as the parameter of that name. */
static void put_source(const struct store_stage *source, const struct param_field *f, void *params)
{
    uint8_t hash[HASH_BYTES];
    char hex[HASH_HEX_LEN];

    hash_of(source->params_json, strlen(source->params_json), hash);
    hash_hex(hash, hex);
    snprintf((char *)params + f->offset, f->size, "%s/%s", source->model_hash, hex);
}

/* The transcription's channels and tracks apply to all stages. Stages that hear only the mix get
 * the mix of what others hear apart. */
static void put_hearing(const struct stage_kind *k, struct hearing_words words, void *params)
{
    const struct param_field *channels = param_table_find(k->params, "channels"),
                             *tracks = param_table_find(k->params, "tracks");

    if (!k->apart && (words.channels[0] < '1' || words.channels[0] > '9'))
        memcpy(words.channels, (char[sizeof(words.channels)]){"mix"}, sizeof(words.channels));
    if (channels)
        memcpy((char *)params + channels->offset, words.channels, sizeof(words.channels));
    if (tracks)
        memcpy((char *)params + tracks->offset, words.tracks, sizeof(words.tracks));
}

/* Sets the voice activity model of a stage other than the transcription. */
static int put_vad(size_t which, struct enqueue_wish *w, void *params, struct err *err)
{
    const struct param_table *t = stage_kinds[which]->params;
    const struct param_field *model = param_table_find(t, "vad_model"),
                             *hash = param_table_find(t, "vad_hash");
    char found[ENQUEUE_VAD_NAME], its_hash[ENQUEUE_VAD_HASH];
    int rc = model && hash ? enqueue_vad_find(&w->vad, found, its_hash, err) : 0;

    if (rc != 0 || !model || !hash)
        return rc;
    snprintf((char *)params + model->offset, model->size, "%s", found);
    snprintf((char *)params + hash->offset, hash->size, "%s", its_hash);
    if (found[0])
        enqueue_wish_say_vad(w, which);
    return 0;
}

static int params_of(size_t which, struct enqueue_wish *w, const struct enqueue_stages *all,
                     char **ret, struct err *err)
{
    const struct param_table *t = stage_kinds[which]->params;
    const struct param_field *source = param_table_find(t, "source");
    void *params = NULL;
    int rc = enqueue_wish_params(w, which, &params, err);

    if (rc == 0 && source)
        put_source(&all->transcribe, source, params);
    if (rc == 0 && w->hears)
        put_hearing(stage_kinds[which], w->params.params.hearing, params);
    if (rc == 0)
        rc = put_vad(which, w, params, err);
    if (rc == 0)
        rc = param_table_to_json(t, params, ret, err);
    free(params);
    return rc;
}

/* Its folder, and whether a worker can open it: what would disable the stage in the night is said
 * now. */
static int check_other(const struct stage_kind *k, const char *given, struct store *known,
                       struct enqueue_stage *own, const char **model, struct err *err)
{
    int rc;

    *model = given;
    if (given[0] != 0)
        rc = enqueue_model_find(k, given, &own->dir, err);
    else
        rc = enqueue_usual_find(k, known, &own->dir, model, err);
    if (rc == 0)
        rc = stage_model_hash(k->name, own->dir, own->hash, err);
    return rc == 0 ? model_opens(k->name, own->dir, own->params, err) : rc;
}

static int add_other(size_t which, struct enqueue_wish *w, struct store *known,
                     struct enqueue_stages *ret, char doing[200], struct err *err)
{
    const struct stage_kind *k = stage_kinds[which];
    struct enqueue_stage *own = &ret->own[which];
    const char *model = NULL;
    int rc = params_of(which, w, ret, &own->params, err);

    if (rc != 0)
        return report_missing_model(w, which, NULL, rc, doing, err);
    if (w->other[which][0] != 0)
        snprintf(doing, 200, "use the model '%.120s' for --%s", w->other[which], k->option);
    else
        snprintf(doing, 200, "take the usual model for --%s", k->option);
    rc = check_other(k, w->other[which], known, own, &model, err);
    if (rc != 0)
        return report_missing_model(w, which, w->other[which], rc, doing, err);
    w->other[which] = model;
    ret->stages[ret->count++] = (struct store_stage){.name = k->name,
                                                     .model = model,
                                                     .model_dir = own->dir,
                                                     .model_hash = own->hash,
                                                     .params_json = own->params,
                                                     .source = k->hears ? NULL : &ret->transcribe};
    return 0;
}

/* A worker finds it by what the catalog keeps, which is text. */
static int check_folder(const struct enqueue_wish *w, const struct store_stage *s, char doing[200],
                        struct err *err)
{
    int rc = cli_path_text(s->model_dir, "its folder", ERR_MODEL, err);

    if (rc != 0)
        snprintf(doing, 200, "use the model '%.150s'", s->model);
    for (size_t i = 0; rc != 0 && i < STAGE_COUNT; i++)
        if (w->kept[i] && strcmp(stage_kinds[i]->name, s->name) == 0)
            snprintf(doing, 200, "continue as last time");
    return rc;
}

int enqueue_stages_find(struct enqueue_wish *w, struct store *known, struct enqueue_stages *ret,
                        char doing[200], struct err *err)
{
    const struct stage_kind *on_source = enqueue_wish_on_source(w);
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    if (on_source && !w->hears) /* no transcription is named to work on */
        return must_be_there(on_source, known, ret, err);
    if (!w->no_transcribe || on_source)
        rc = find_transcription(w, known, ret, doing, err);
    if (rc == 0 && !w->no_transcribe)
        ret->stages[ret->count++] = ret->transcribe;
    for (size_t i = 0; rc == 0 && i < STAGE_COUNT; i++)
        if (w->other[i])
            rc = add_other(i, w, known, ret, doing, err);
    for (uint32_t i = 0; rc == 0 && i < ret->count; i++)
        rc = check_folder(w, &ret->stages[i], doing, err);
    return rc;
}

int enqueue_stages_one(size_t which, const char *model, struct enqueue_stages *ret, char doing[200],
                       struct err *err)
{
    struct enqueue_wish w = {.no_transcribe = true};

    enqueue_params_init(&w.params);
    memset(ret, 0, sizeof(*ret));
    ret->transcribe = (struct store_stage){.model_hash = "", .params_json = ""};
    w.other[which] = model;
    return add_other(which, &w, NULL, ret, doing, err);
}

void enqueue_stages_free(struct enqueue_stages *s)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        enqueue_stage_free(&s->own[i]);
    memset(s, 0, sizeof(*s));
}

void enqueue_stage_words(const struct store_stage *s, struct buf *out)
{
    const struct stage_kind *kind = stage_kind_find(s->name);

    buf_printf(out, "%s with %s", kind ? kind->doing : s->name, s->model);
}
