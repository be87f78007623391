#include "tools/enqueue/stages/enqueue_wish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/enqueue/stages/enqueue_model.h"
#include "workers/models/files/model_dir.h"

#define HELP_COLUMN 27

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

static int has_arg(const struct enqueue_wish_option *o)
{
    return !o->field ? optional_argument : o->field->value ? required_argument : no_argument;
}

size_t enqueue_wish_options(const struct enqueue_wish *w, struct option *ret)
{
    for (size_t i = 0; i < w->count; i++)
        ret[i] = (struct option){w->options[i].name, has_arg(&w->options[i]), NULL,
                                 ENQUEUE_STAGES_FIRST + (int)i};
    ret[w->count] = (struct option){"no-transcribe", no_argument, NULL, ENQUEUE_NO_TRANSCRIBE};
    return w->count + 1;
}

bool enqueue_wish_knows(int option)
{
    return option >= ENQUEUE_NO_TRANSCRIBE &&
           option < ENQUEUE_STAGES_FIRST + ENQUEUE_STAGES_OPTIONS;
}

bool enqueue_wish_is_vad(const struct enqueue_wish_option *o)
{
    return o->field && strcmp(o->field->name, "vad_model") == 0;
}

void enqueue_wish_say_vad(struct enqueue_wish *w, size_t stage)
{
    for (size_t i = 0; i < w->count; i++) {
        struct enqueue_wish_option *o = &w->options[i];

        if (o->stage == stage && enqueue_wish_is_vad(o) && !o->given) {
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

        if (o->stage == stage && o->field && o->given && !enqueue_wish_is_vad(o))
            rc = param_option_take(o->field, o->value, params, err);
    }
    if (rc != 0)
        free(params);
    else
        *ret = params;
    return rc;
}

static int take_model(size_t stage, const char *value, const char *next, struct enqueue_wish *w,
                      struct err *err)
{
    if (value && (value[0] == 0 || !utf8_valid(value, strlen(value))))
        return err_set(err, ERR_USAGE, "--%s= wants the name or folder of a model, in UTF-8",
                       stage_kinds[stage]->option);
    w->other[stage] = value ? value : "";
    w->behind[stage] = value ? NULL : next;
    return 0;
}

int enqueue_wish_take(struct enqueue_wish *w, int option, const char *value, const char *next,
                      struct err *err)
{
    const size_t i = (size_t)(option - ENQUEUE_STAGES_FIRST);
    void *params = NULL;
    int rc;

    if (option == ENQUEUE_NO_TRANSCRIBE) {
        w->no_transcribe = true;
        return 0;
    }
    if (i >= w->count)
        return err_set(err, ERR_USAGE, "an option that does not exist");
    if (!w->options[i].field)
        return take_model(w->options[i].stage, value, next, w, err);
    w->options[i].given = true;
    w->options[i].value = value;
    if (enqueue_wish_is_vad(&w->options[i]))
        return enqueue_vad_take(w->options[i].name, value, &w->vad, err);
    rc = enqueue_wish_params(w, w->options[i].stage, &params, err);
    free(params);
    return rc;
}

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

void enqueue_stage_values(const struct stage_kind *kind, const struct complete *c)
{
    struct fitting f = {kind, c};
    struct err none = {0};

    (void)model_dir_list(put_if_fitting, &f, &none);
}

void enqueue_wish_values(const struct enqueue_wish *w, int option, const struct complete *c)
{
    const size_t i = (size_t)(option - ENQUEUE_STAGES_FIRST),
                 j = (size_t)(option - ENQUEUE_PARAMS_FIRST);
    const struct param_field *field = i < w->count          ? w->options[i].field
                                      : j < w->params.count ? w->params.options[j].field
                                                            : NULL;

    if (option == 'm' || (i < w->count && !field))
        enqueue_stage_values(stage_kinds[i < w->count ? w->options[i].stage : 0], c);
    for (size_t k = 0; field && field->kind == PARAM_CHOICE && field->choices[k]; k++)
        complete_put(c, field->choices[k]);
}

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

/* What a stage's options must agree on, and that it is asked for. */
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
                           "--%s has its model behind a '=', and '%.200s' would be enqueued. "
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

/* ------------------------------------------------------------------------------- --help */

static bool is_bare(const struct enqueue_wish *w, size_t i)
{
    return i < w->count && w->options[i].field && w->options[i].field->help[0] == 0;
}

/* Options of which nothing is said stand beside each other. */
static void help_row(const struct enqueue_wish *w, size_t i, struct buf *out)
{
    const struct enqueue_wish_option *o = &w->options[i];
    char name[2 * PARAM_OPTION_LEN];
    size_t n;

    if (o->field)
        n = (size_t)param_option_spell(o->field, name, sizeof(name));
    else
        n = (size_t)snprintf(name, sizeof(name), "--%s[=MODEL]", o->name);
    if (is_bare(w, i)) {
        buf_printf(out, "%s%s%s", i > 0 && is_bare(w, i - 1) ? ", " : "      ", name,
                   is_bare(w, i + 1) ? "" : "\n");
        return;
    }
    n = n + 2 < HELP_COLUMN - 6 ? HELP_COLUMN - 6 : n + 2;
    buf_printf(out, "      %-*s", (int)n, name);
    param_option_help(o->field ? o->field->help : stage_kinds[o->stage]->help, 6 + n, HELP_COLUMN,
                      out);
}

void enqueue_wish_help(const struct enqueue_wish *w, struct buf *out)
{
    buf_printf(out,
               "Beside the transcription (each has a model of its own, found by name or folder,\n"
               "which stands behind a '='):\n");
    for (size_t i = 0; i < w->count; i++)
        help_row(w, i, out);
    buf_printf(out,
               "      --no-transcribe      these alone; --embed then takes what is transcribed\n"
               "                           already. Without it, and without a word on how to\n"
               "                           transcribe, it is done by the recipe, or as the\n"
               "                           catalog had it last\n");
}
