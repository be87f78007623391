#include "workers/stages/stage.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "workers/stages/stage_kind.h"
#include "workers/text/json_file.h"

struct stage {
    const struct stage_kind *kind;
    void *self; /* the kind's own */
};

#define STAGE_ADDRESS(of) &stage_##of,
const struct stage_kind *const stage_kinds[STAGE_COUNT] = {STAGE_KINDS(STAGE_ADDRESS)};

/* ---- by name */

const struct stage_kind *stage_kind_find(const char *name)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (strcmp(stage_kinds[i]->name, name) == 0)
            return stage_kinds[i];
    return NULL;
}

static const struct stage_kind *find_stage_kind(const char *name, struct err *err)
{
    const struct stage_kind *kind = stage_kind_find(name);

    if (!kind)
        err_set(err, ERR_USAGE, "there is no stage '%.40s'", name);
    return kind;
}

int64_t stage_tail(const char *name)
{
    const struct stage_kind *kind = stage_kind_find(name);

    return kind ? kind->tail : 0;
}

/* Reads the rows of hearing_params.h. */
static void words_of(const struct param_table *t, const void *params, struct hearing_words *ret)
{
    const struct param_field *channels = param_table_find(t, "channels"),
                             *tracks = param_table_find(t, "tracks");

    if (!channels || !tracks)
        return;
    memcpy(ret->channels, (const char *)params + channels->offset, sizeof(ret->channels));
    memcpy(ret->tracks, (const char *)params + tracks->offset, sizeof(ret->tracks));
}

struct hearing_words stage_hearing_words(const char *name, const char *params)
{
    const struct stage_kind *kind = stage_kind_find(name);
    struct hearing_words words = HEARING_USUAL;
    void *read = kind ? malloc(kind->params->size) : NULL;
    struct err ignored = {0};

    if (read && param_table_from_json(kind->params, params, read, &ignored) == 0)
        words_of(kind->params, read, &words);
    free(read);
    return words;
}

struct hearing stage_hearing(const char *name, const char *params)
{
    const struct hearing_words words = stage_hearing_words(name, params);
    struct hearing h = {0};
    struct err ignored = {0};

    (void)hearing_read(&words, &h, &ignored); /* they were checked where they were read */
    return h;
}

bool stage_hears_apart(const char *name, const char *params)
{
    const struct stage_kind *kind = stage_kind_find(name);
    const struct hearing h = stage_hearing(name, params);

    return kind && kind->apart && (h.channels != HEARING_MIX || (h.tracks & (h.tracks - 1)) != 0);
}

bool stage_hears(const char *name)
{
    const struct stage_kind *kind = stage_kind_find(name);

    return kind && kind->hears;
}

bool stage_finalizes(const char *name)
{
    const struct stage_kind *kind = stage_kind_find(name);

    return kind && kind->finalizes;
}

uint32_t stage_bytes_per_s(const char *name, const char *params)
{
    const struct stage_kind *kind = stage_kind_find(name);

    return kind && kind->bytes_per_s ? kind->bytes_per_s(params) : 0;
}

/* ---- by model */

static const struct stage_kind *kind_of_type(const char *type)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        for (const char *const *t = stage_kinds[i]->model_types; *t; t++)
            if (strcmp(type, *t) == 0)
                return stage_kinds[i];
    return NULL;
}

const struct stage_kind *stage_kind_of_model(const char *dir)
{
    const struct stage_kind *ret = NULL;
    const char *type;
    json_t *config = NULL;
    struct err ignored = {0};

    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (stage_kinds[i]->is_model && stage_kinds[i]->is_model(dir))
            return stage_kinds[i];
    if (json_file_read(dir, "config.json", &config, &ignored) != 0)
        return NULL;
    type = json_string_value(json_object_get(config, "model_type"));
    if (type)
        ret = kind_of_type(type);
    json_decref(config);
    return ret;
}

const struct stage_kind *stage_kind_taking(const char *name)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (stage_kinds[i]->embedded &&
            (strcmp(name, stage_kinds[i]->model) == 0 || strcmp(name, stage_kinds[i]->hub) == 0 ||
             strcmp(name, stage_kinds[i]->embedded) == 0))
            return stage_kinds[i];
    return NULL;
}

const char *stage_of_type(const char *model_type)
{
    const struct stage_kind *kind = kind_of_type(model_type);

    return kind ? kind->name : NULL;
}

const char *stage_of_model(const char *dir)
{
    const struct stage_kind *kind = stage_kind_of_model(dir);

    return kind ? kind->name : stage_kinds[0]->name;
}

int stage_model_hash(const char *name, const char *dir, char ret[MODEL_HASH_LEN], struct err *err)
{
    const struct stage_kind *kind = find_stage_kind(name, err);

    if (!kind)
        return err->code;
    if (!kind->files)
        return model_dir_hash(dir, ret, err);
    return model_dir_hash_files(dir, kind->files, kind->file_count, kind->weights, ret, err);
}

/* ---- with a model */

int stage_new(const struct stage_kind *kind, void *self, struct stage **ret, struct err *err)
{
    struct stage *s = calloc(1, sizeof(*s));

    if (!s) {
        kind->close(self);
        return err_set(err, ERR_NOMEM, "no memory for a stage");
    }
    *s = (struct stage){kind, self};
    *ret = s;
    return 0;
}

void *stage_self(const struct stage *s, const struct stage_kind *kind)
{
    return s->kind == kind ? s->self : NULL;
}

int stage_open(const struct stage_setup *setup, struct backend *be, struct stage **ret,
               struct err *err)
{
    const struct stage_kind *kind = find_stage_kind(setup->name, err);
    void *self;
    int rc;

    if (!kind)
        return err->code;
    rc = kind->open(setup, be, &self, err);
    return rc != 0 ? rc : stage_new(kind, self, ret, err);
}

void stage_close(struct stage *s)
{
    if (!s)
        return;
    s->kind->close(s->self);
    free(s);
}

int stage_predict_bytes(const struct stage_setup *setup, bool gpu, uint64_t *ret, struct err *err)
{
    const struct stage_kind *kind = find_stage_kind(setup->name, err);

    return kind ? kind->predict(setup, gpu, ret, err) : err->code;
}

uint32_t stage_slots(const struct stage *s) { return s->kind->slots(s->self); }

uint32_t stage_windows(const struct stage *s) { return s->kind->windows(s->self); }

const struct err *stage_lack(const struct stage *s) { return s->kind->lack(s->self); }

enum precision stage_precision(const struct stage *s) { return s->kind->precision(s->self); }

enum cache_precision stage_cache(const struct stage *s)
{
    return s->kind->cache ? s->kind->cache(s->self) : CACHE_AUTO;
}

uint64_t stage_footprint(const struct stage *s, const struct backend *be)
{
    return s->kind->footprint(s->self, be);
}

int stage_add(struct stage *s, const struct stage_work *work, stage_done done, void *done_arg,
              struct stage_lane **ret, struct err *err)
{
    return s->kind->add(s->self, work, done, done_arg, ret, err);
}

void stage_remove(struct stage *s, struct stage_lane *lane) { s->kind->remove(s->self, lane); }

int stage_step(struct stage *s, bool *progress, struct err *err)
{
    return s->kind->step(s->self, progress, err);
}

void stage_on_beat(struct stage *s, void (*beat)(void *arg), void *arg)
{
    s->kind->on_beat(s->self, beat, arg);
}

void stage_stats(const struct stage *s, uint32_t *lanes, uint32_t *windows, int64_t *samples_done)
{
    s->kind->stats(s->self, lanes, windows, samples_done);
}
