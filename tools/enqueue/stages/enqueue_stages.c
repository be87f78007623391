#include "tools/enqueue/stages/enqueue_stages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "store/read/read.h"
#include "tools/cli/cli.h"
#include "tools/enqueue/stages/enqueue_kept.h"
#include "tools/enqueue/stages/enqueue_model.h"
#include "tools/enqueue/stages/enqueue_usual.h"
#include "tools/model_check.h"
#include "workers/models/files/model_dir.h"

/* -------------------------------------------------------------------------- transcription */

/* A transcription that the catalog has; strings owned. */
struct had {
    char *model, *dir, *hash, *params;
    bool failed;
};

static void had_free(struct had *h)
{
    free(h->model);
    free(h->dir);
    free(h->hash);
    free(h->params);
    memset(h, 0, sizeof(*h));
}

static int keep_last(void *arg, const struct read_progress *row)
{
    struct had *h = arg;

    if (strcmp(row->stage, stage_transcribe.name) != 0)
        return 0;
    had_free(h);
    h->model = strdup(row->model);
    h->dir = strdup(row->model_dir);
    h->hash = strdup(row->model_hash);
    h->params = strdup(row->params_json);
    h->failed = !h->model || !h->dir || !h->hash || !h->params;
    return h->failed;
}

struct looking {
    const struct store_stage *wanted;
    bool found;
};

static int look(void *arg, const struct read_progress *row)
{
    struct looking *l = arg;

    l->found |= strcmp(row->stage, l->wanted->name) == 0 &&
                strcmp(row->model_hash, l->wanted->model_hash) == 0 &&
                strcmp(row->params_json, l->wanted->params_json) == 0;
    return l->found;
}

/* Where nobody said how something is done, and the catalog has the same stage by older defaults,
 * these hold, or a recording in two folders would be done twice. 1: it has not. */
static int look_older(const struct enqueue_params *said, uint32_t which, struct store *known,
                      struct enqueue_stages *ret, struct err *err)
{
    struct store_stage older = ret->transcribe;
    struct looking l = {.wanted = &older};
    struct transcribe_params p;
    char *params = NULL;
    int rc = transcribe_params_from_json(ret->own[0].params, &p, err);

    if (rc != 0 || !enqueue_params_older(said, which, &p))
        return rc != 0 ? rc : 1;
    rc = transcribe_params_to_json(&p, &params, err);
    older.params_json = params;
    if (rc == 0)
        rc = read_progress(known, look, &l, err);
    if (rc >= 0 && l.found) {
        free(ret->own[0].params);
        ret->transcribe.params_json = ret->own[0].params = params;
        return 0;
    }
    free(params);
    return rc < 0 ? rc : 1;
}

static int stay_as_before(const struct enqueue_params *said, struct store *known,
                          struct enqueue_stages *ret, struct err *err)
{
    struct looking l = {.wanted = &ret->transcribe};
    int rc = known ? read_progress(known, look, &l, err) : 0;

    if (rc < 0 || !known || l.found)
        return rc < 0 ? rc : 0;
    rc = 1;
    for (uint32_t which = 1; rc == 1 && which <= ENQUEUE_OLDER_ALL; which++)
        rc = look_older(said, which, known, ret, err);
    return rc < 0 ? rc : 0;
}

/* What --no-transcribe leaves out must be there for what works on it. */
static int must_be_there(const struct stage_kind *k, struct store *known,
                         const struct enqueue_stages *all, struct err *err)
{
    struct looking l = {.wanted = &all->transcribe};
    int rc = known && l.wanted->name ? read_progress(known, look, &l, err) : 0;

    if (rc < 0 || l.found)
        return rc < 0 ? rc : 0;
    return err_set(err, ERR_USAGE,
                   "--%s works on a transcription, and the catalog has none%s: leave "
                   "--no-transcribe out, and it is made first",
                   k->option, known && l.wanted->name ? " like that" : "");
}

/* The catalog's last one, as it is. 1: it has none. done: its
 * results alone are wanted. */
static int as_before(struct store *known, bool done, struct enqueue_stages *ret, struct err *err)
{
    struct had h = {0};
    char *dir = NULL;
    int rc = known ? read_progress(known, keep_last, &h, err) : 0;

    if (h.failed)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0 && h.model && !done)
        rc = enqueue_kept(&(struct store_stage){.name = stage_transcribe.name,
                                                .model = h.model,
                                                .model_dir = h.dir,
                                                .model_hash = h.hash,
                                                .params_json = h.params},
                          &dir, err);
    if (rc != 0 || !h.model) {
        had_free(&h);
        return rc != 0 ? rc : 1;
    }
    if (dir) {
        free(h.dir);
        h.dir = dir;
    }
    ret->model = h.model;
    ret->own[0].dir = h.dir;
    ret->own[0].params = h.params;
    snprintf(ret->own[0].hash, sizeof(ret->own[0].hash), "%s", h.hash);
    free(h.hash);
    ret->transcribe = (struct store_stage){.name = stage_transcribe.name,
                                           .model = ret->model,
                                           .model_dir = ret->own[0].dir,
                                           .model_hash = ret->own[0].hash,
                                           .params_json = ret->own[0].params};
    return 0;
}

/* What is there already, but for the times of words that nobody asked for, stays as it is. */
static int without_times(const struct store_stage *last, struct enqueue_stages *ret,
                         struct err *err)
{
    struct transcribe_params p;
    char *params = NULL;
    int rc = transcribe_params_from_json(ret->own[0].params, &p, err);

    p.word_timestamps = false;
    if (rc == 0)
        rc = transcribe_params_to_json(&p, &params, err);
    if (rc == 0 && strcmp(last->model_hash, ret->own[0].hash) == 0 &&
        strcmp(last->params_json, params) == 0) {
        free(ret->own[0].params);
        ret->transcribe.params_json = ret->own[0].params = params;
        return 0;
    }
    free(params);
    return rc;
}

static int find_transcription(struct enqueue_wish *w, struct store *known,
                              const struct store_stage *last, struct enqueue_stages *ret,
                              char doing[200], struct err *err)
{
    const bool goes_on = enqueue_wish_other(w) && !enqueue_wish_transcribes(w) && !w->anew;
    bool timed = false;
    int rc = 1;

    if (goes_on && last) {
        ret->transcribe = *last;
        return 0;
    }
    if (goes_on) {
        snprintf(doing, 200, "go on with the transcription");
        rc = as_before(known, w->no_transcribe, ret, err);
        if (rc <= 0)
            return rc;
        if (w->no_transcribe) {
            doing[0] = 0;
            return must_be_there(enqueue_wish_on_source(w), known, ret, err);
        }
    }
    snprintf(doing, 200, "use voice activity");
    rc = enqueue_stage_vad(&w->params, ret->note, sizeof(ret->note), err);
    if (rc != 0)
        return rc;
    doing[0] = 0;
    enqueue_params_settle(&w->params);
    if (w->apart)
        timed = enqueue_params_time(&w->params);
    rc = enqueue_params_agree(&w->params, err);
    if (rc != 0)
        return rc;
    snprintf(doing, 200, "use the model '%.150s'", w->model ? w->model : MODEL_DEFAULT);
    rc = enqueue_stage_find(w->model ? w->model : MODEL_DEFAULT, &w->params.params, &ret->own[0],
                            &ret->transcribe, err);
    if (rc == 0 && ret->own[0].english && enqueue_params_many_languages(&w->params))
        snprintf(ret->note + strlen(ret->note), sizeof(ret->note) - strlen(ret->note),
                 "%s--multilingual does nothing with this model, which knows English alone.",
                 ret->note[0] ? " " : "");
    if (rc == 0 && !w->again)
        rc = stay_as_before(&w->params, known, ret, err);
    if (rc == 0 && timed && last && !w->again)
        rc = without_times(last, ret, err);
    if (rc == 0 && w->no_transcribe) {
        doing[0] = 0;
        return must_be_there(enqueue_wish_on_source(w), known, ret, err);
    }
    return rc;
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

struct hearing_words enqueue_hearing(const struct stage_kind *k, struct hearing_words words)
{
    if (!k->apart && (words.channels[0] < '1' || words.channels[0] > '9'))
        memcpy(words.channels, (char[sizeof(words.channels)]){"mix"}, sizeof(words.channels));
    return words;
}

/* What is heard of a recording is said once, of its transcription. words: as that one has them. */
static void put_hearing(const struct stage_kind *k, struct hearing_words words, void *params)
{
    const struct param_field *channels = param_table_find(k->params, "channels"),
                             *tracks = param_table_find(k->params, "tracks");

    words = enqueue_hearing(k, words);
    if (channels)
        memcpy((char *)params + channels->offset, words.channels, sizeof(words.channels));
    if (tracks)
        memcpy((char *)params + tracks->offset, words.tracks, sizeof(words.tracks));
}

int enqueue_stage_on(const struct stage_kind *k, const struct store_stage *source,
                     const char *params_json, char **ret, struct err *err)
{
    const struct param_table *t = k->params;
    const struct param_field *f = param_table_find(t, "source");
    void *params = malloc(t->size);
    int rc = params ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0)
        rc = param_table_from_json(t, params_json, params, err);
    if (rc == 0 && f)
        put_source(source, f, params);
    if (rc == 0)
        put_hearing(k, stage_hearing_words(source->name, source->params_json), params);
    if (rc == 0)
        rc = param_table_to_json(t, params, ret, err);
    free(params);
    return rc;
}

/* Of a stage that has it beside the transcription. */
static int put_vad(const struct enqueue_vad *v, const struct param_table *t, void *params,
                   struct err *err)
{
    const struct param_field *model = param_table_find(t, "vad_model"),
                             *hash = param_table_find(t, "vad_hash");
    char found[ENQUEUE_VAD_NAME], its_hash[ENQUEUE_VAD_HASH];
    int rc = model && hash ? enqueue_vad_find(v, found, its_hash, err) : 0;

    if (rc != 0 || !model || !hash)
        return rc;
    snprintf((char *)params + model->offset, model->size, "%s", found);
    snprintf((char *)params + hash->offset, hash->size, "%s", its_hash);
    return 0;
}

static int params_of(size_t which, const struct enqueue_wish *w, const struct enqueue_stages *all,
                     char **ret, struct err *err)
{
    const struct param_table *t = stage_kinds[which]->params;
    const struct param_field *source = param_table_find(t, "source");
    void *params = NULL;
    int rc = enqueue_wish_params(w, which, &params, err);

    if (rc == 0 && source)
        put_source(&all->transcribe, source, params);
    if (rc == 0 && all->transcribe.name)
        put_hearing(stage_kinds[which],
                    stage_hearing_words(all->transcribe.name, all->transcribe.params_json), params);
    if (rc == 0)
        rc = put_vad(&w->vad, t, params, err);
    if (rc == 0)
        rc = param_table_to_json(t, params, ret, err);
    free(params);
    return rc;
}

/* Its folder, and whether a worker can open it: what would put the stage aside in the night is said
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

static int add_other(size_t which, const struct enqueue_wish *w, struct store *known,
                     struct enqueue_stages *ret, char doing[200], struct err *err)
{
    const struct stage_kind *k = stage_kinds[which];
    struct enqueue_stage *own = &ret->own[which];
    const char *model = NULL;
    int rc = params_of(which, w, ret, &own->params, err);

    if (w->other[which][0] != 0)
        snprintf(doing, 200, "use the model '%.120s' for --%s", w->other[which], k->option);
    else
        snprintf(doing, 200, "take the usual model for --%s", k->option);
    if (rc == 0)
        rc = check_other(k, w->other[which], known, own, &model, err);
    if (rc != 0)
        return rc;
    ret->stages[ret->count++] = (struct store_stage){.name = k->name,
                                                     .model = model,
                                                     .model_dir = own->dir,
                                                     .model_hash = own->hash,
                                                     .params_json = own->params,
                                                     .source = k->hears ? NULL : &ret->transcribe};
    return 0;
}

/* A worker finds it by what the catalog keeps, which is text. */
static int check_folder(const struct store_stage *s, char doing[200], struct err *err)
{
    int rc = cli_path_text(s->model_dir, "its folder", ERR_MODEL, err);

    if (rc != 0)
        snprintf(doing, 200, "use the model '%.150s'", s->model);
    return rc;
}

int enqueue_stages_find(struct enqueue_wish *w, struct store *known, const struct store_stage *last,
                        struct enqueue_stages *ret, char doing[200], struct err *err)
{
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    if (!w->no_transcribe || enqueue_wish_on_source(w))
        rc = find_transcription(w, known, last, ret, doing, err);
    if (rc == 0 && !w->no_transcribe)
        ret->stages[ret->count++] = ret->transcribe;
    for (size_t i = 0; rc == 0 && i < STAGE_COUNT; i++)
        if (w->other[i])
            rc = add_other(i, w, known, ret, doing, err);
    for (uint32_t i = 0; rc == 0 && i < ret->count; i++)
        rc = check_folder(&ret->stages[i], doing, err);
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
    free(s->model);
    memset(s, 0, sizeof(*s));
}

void enqueue_stage_words(const struct store_stage *s, struct buf *out)
{
    const struct stage_kind *kind = stage_kind_find(s->name);

    buf_printf(out, "%s with %s", kind ? kind->doing : s->name, s->model);
}
