#include "tools/enqueue/stages/enqueue_wish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/enqueue/stages/enqueue_model.h"
#include "workers/models/files/model_dir.h"

/* --------------------------------------------------------------------------------- options */

static void add_row(struct enqueue_wish *w, size_t stage, const struct param_field *f)
{
    struct enqueue_wish_option *o = &w->options[w->count];

    if (w->count == ENQUEUE_STAGES_OPTIONS)
        return;
    *o = (struct enqueue_wish_option){.stage = stage, .field = f};
    if (f)
        param_option_name(f, o->name);
    else
        snprintf(o->name, sizeof(o->name), "%s", stage_kinds[stage]->option);
    w->count++;
}

void enqueue_wish_init(struct enqueue_wish *w)
{
    memset(w, 0, sizeof(*w));
    enqueue_params_init(&w->params);
    for (size_t i = 0; i < STAGE_COUNT; i++) {
        const struct param_table *t = stage_kinds[i]->params;

        if (!stage_kinds[i]->help)
            continue;
        add_row(w, i, NULL);
        for (const struct param_field *f = t->fields; f < t->fields + t->count; f++)
            if (f->help)
                add_row(w, i, f);
    }
}

bool enqueue_wish_is_vad(const struct param_field *f)
{
    return f && strcmp(f->name, "vad_model") == 0;
}

void enqueue_wish_say_vad(struct enqueue_wish *w, size_t stage)
{
    for (size_t i = 0; i < w->count; i++) {
        struct enqueue_wish_option *o = &w->options[i];

        if (o->stage == stage && enqueue_wish_is_vad(o->field) && !o->given) {
            o->given = true;
            o->value = "on";
            w->vad.wish = VAD_ON;
        }
    }
}

int enqueue_wish_params(const struct enqueue_wish *w, size_t stage, void **ret, struct err *err)
{
    const struct param_table *t = stage_kinds[stage]->params;
    void *params = malloc(t->size);
    int rc = 0;

    if (!params)
        return err_set(err, ERR_NOMEM, "out of memory");
    param_table_default(t, params);
    for (size_t i = 0; rc == 0 && i < w->count; i++) {
        const struct enqueue_wish_option *o = &w->options[i];

        if (o->stage == stage && o->field && o->given && !enqueue_wish_is_vad(o->field))
            rc = param_option_take(o->field, o->value, params, err);
    }
    if (rc != 0)
        free(params);
    else
        *ret = params;
    return rc;
}

int enqueue_wish_ask(struct enqueue_wish *w, size_t stage, const char *value, const char *next,
                     struct err *err)
{
    if (value && (value[0] == 0 || !utf8_valid(value, strlen(value))))
        return err_set(err, ERR_USAGE, "--%s= wants the name or folder of a model, in UTF-8",
                       stage_kinds[stage]->option);
    w->other[stage] = value ? value : "";
    w->behind[stage] = value ? NULL : next;
    return 0;
}

int enqueue_wish_take(struct enqueue_wish *w, size_t stage, const struct param_field *f,
                      const char *value, struct err *err)
{
    struct enqueue_wish_option *o = w->options;
    void *params = NULL;
    int rc;

    while (o < w->options + w->count && o->field != f)
        o++;
    if (o == w->options + w->count)
        return err_set(err, ERR_USAGE, "an option that does not exist");
    o->given = true;
    o->value = value;
    if (enqueue_wish_is_vad(f))
        return enqueue_vad_take(o->name, value, &w->vad, err);
    rc = enqueue_wish_params(w, stage, &params, err);
    free(params);
    return rc;
}

/* ------------------------------------------------------------------------------ as a command's */

struct fitting {
    const struct stage_kind *kind;
    const struct complete *complete;
};

static void put_if_fitting(void *arg, const char *name, const char *dir)
{
    const struct fitting *f = arg;

    if (strcmp(stage_of_model(dir), f->kind->name) == 0)
        complete_put(f->complete, name);
}

void enqueue_stage_values(const struct complete *c, const struct command_option *o)
{
    struct fitting f = {stage_kinds[o->stage], c};
    struct err none = {0};

    (void)model_dir_list(put_if_fitting, &f, &none);
}

static int give(void *at, const struct command_given *given, struct err *err)
{
    const struct command_option *o = given->option;
    struct enqueue_wish *w = at;

    if (!o->field)
        return enqueue_wish_ask(w, o->stage, given->value, given->next, err);
    if (stage_kinds[o->stage] == &stage_transcribe)
        return enqueue_params_take(&w->params, o->field, given->value, err);
    return enqueue_wish_take(w, o->stage, o->field, given->value, err);
}

static void add_fields(struct command_rows *rows, size_t stage)
{
    const struct command_option row = {.kind = COMMAND_OWN, .give = give, .stage = stage};
    const struct param_table *t = stage_kinds[stage]->params;

    for (const struct param_field *f = t->fields; f < t->fields + t->count; f++) {
        const struct param_field *other = t == &transcribe_table ? other_words_behind(f) : NULL;

        command_add_field(rows, f, &row);
        if (other)
            command_add_field(rows, other, &row);
    }
}

static void add_transcription(struct command_rows *rows, const struct command_option *maker)
{
    (void)maker;
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (!stage_kinds[i]->help)
            add_fields(rows, i);
}

static void add_others(struct command_rows *rows, const struct command_option *maker)
{
    const char *title = maker->title;

    for (size_t i = 0; i < STAGE_COUNT; i++) {
        const struct stage_kind *k = stage_kinds[i];
        const struct command_option row = {.name = k->option,
                                           .kind = COMMAND_OWN,
                                           .value = "[=MODEL]",
                                           .title = title,
                                           .help = k->help,
                                           .manual = k->manual,
                                           .stage = i,
                                           .give = give,
                                           .complete = enqueue_stage_values};

        if (!k->help)
            continue;
        title = NULL;
        command_add(rows, &row);
        add_fields(rows, i);
    }
}

const struct command_option enqueue_wish_table[] = {
    {COMMAND_VALUE(COMMAND_TEXT, "model", 'm', enqueue_wish, model, "NAME",
                   "the Whisper model: a name, folder or Hugging Face id (default: OpenAI's best "
                   "that is here)"),
     .manual = "The Whisper model: a name of `model list`, a folder, or a Hugging Face id that is "
               "in the local cache. Without it, and without a recipe, Nightshift takes the best of "
               "OpenAI's models that is here. If there is none, nothing is enqueued.",
     .complete = enqueue_stage_values},
    {.kind = COMMAND_MADE, .make = add_transcription},
    {.kind = COMMAND_MADE,
     .make = add_others,
     .title = "Other stages, each with its own model (MODEL: a name or folder)"},
    {COMMAND_SWITCH(
         "no-transcribe", 0, enqueue_wish, no_transcribe,
         "only these other stages; --embed then uses existing transcripts. Without it, the "
         "transcription is done too: by the recipe, or as it was last done in this catalog"),
     .manual = "Only these other stages, and only this time. --embed then uses existing "
               "transcripts, says how many recordings have none, and is refused in a catalog "
               "without a transcription. Without it the transcription is done too. If no option "
               "says how to transcribe, it follows the recipe, or else the last transcription of "
               "the catalog, so that nothing is transcribed twice."},
    {0},
};

bool enqueue_wish_other(const struct enqueue_wish *w)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (w->other[i])
            return true;
    return false;
}

const char *enqueue_wish_transcribes(const struct enqueue_wish *w)
{
    return w->model ? "model" : enqueue_params_given(&w->params);
}

/* Checks that a stage's options agree, and that the stage is asked for. */
static int options_agree(const struct enqueue_wish *w, size_t stage, struct err *err)
{
    void *params = NULL;
    int rc;

    for (size_t i = 0; i < w->count; i++)
        if (w->options[i].stage == stage && w->options[i].given && !w->other[stage])
            return err_set(err, ERR_USAGE, "--%s does nothing without --%s", w->options[i].name,
                           stage_kinds[stage]->option);
    rc = enqueue_wish_params(w, stage, &params, err);
    if (rc == 0)
        rc = param_table_check(stage_kinds[stage]->params, params, err);
    free(params);
    return rc;
}

const struct stage_kind *enqueue_wish_on_source(const struct enqueue_wish *w)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (w->other[i] && !stage_kinds[i]->hears)
            return stage_kinds[i];
    return NULL;
}

/* "--diarize, --sounds or --embed": what may be asked for beside the transcription. */
static void other_options(struct buf *out)
{
    const struct stage_kind *last = NULL;

    for (size_t i = 0; i < STAGE_COUNT; i++) {
        if (!stage_kinds[i]->help)
            continue;
        if (last)
            buf_printf(out, "%s--%s", out->len > 0 ? ", " : "", last->option);
        last = stage_kinds[i];
    }
    if (last)
        buf_printf(out, "%s--%s", out->len > 0 ? " or " : "", last->option);
}

static int nothing_left(struct err *err)
{
    struct buf options = BUF_INIT;
    const char *list;

    other_options(&options);
    list = buf_cstr(&options);
    err_set(err, ERR_USAGE, "--no-transcribe leaves nothing to do; try it with %s",
            list ? list : "other options");
    buf_free(&options);
    return err->code;
}

int enqueue_wish_agree(const struct enqueue_wish *w, struct err *err)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (w->behind[i] && enqueue_model_meant(stage_kinds[i], w->behind[i]))
            return err_set(err, ERR_USAGE,
                           "--%s takes its model after a '=', so '%.200s' would be enqueued. "
                           "Perhaps --%s=%.200s was meant",
                           stage_kinds[i]->option, w->behind[i], stage_kinds[i]->option,
                           w->behind[i]);
    for (size_t i = 0; i < STAGE_COUNT; i++) {
        int rc = options_agree(w, i, err);

        if (rc != 0)
            return rc;
    }
    if (w->no_transcribe && !enqueue_wish_other(w))
        return nothing_left(err);
    if (w->no_transcribe && !enqueue_wish_on_source(w) && enqueue_wish_transcribes(w))
        return err_set(err, ERR_USAGE, "--%s does nothing with --no-transcribe",
                       enqueue_wish_transcribes(w));
    return 0;
}
