#include "tools/enqueue/option_words.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"
#include "workers/stages/stage_kind.h"

bool said_anything(const struct enqueue_wish *w)
{
    for (size_t i = 0; i < STAGE_COUNT; i++)
        if (w->other[i])
            return true;
    return w->no_transcribe || enqueue_wish_transcribes(w);
}

static int put_word(json_t *list, const char *name, const char *value, struct err *err)
{
    struct buf word = BUF_INIT;
    const char *text;
    int rc = 0;

    buf_printf(&word, "--%s%s%s", name, value ? "=" : "", value ? value : "");
    text = buf_cstr(&word);
    if (!text || json_array_append_new(list, json_string(text)) != 0)
        rc = err_set(err, ERR_USAGE, "the value of --%s is not UTF-8: try another one", name);
    buf_free(&word);
    return rc;
}

/* A name stays one; what is there as a file or folder is another thing elsewhere. */
static int put_path(json_t *list, const char *name, const char *value, struct err *err)
{
    char *whole = NULL;
    struct stat st;
    int rc = stat(value, &st) == 0 ? cli_absolute(value, &whole, err) : 0;

    if (rc == 0)
        rc = put_word(list, name, whole ? whole : value, err);
    free(whole);
    return rc;
}

static int put_transcription(const struct enqueue_wish *w, json_t *list, struct err *err)
{
    const struct enqueue_params *p = &w->params;
    int rc = w->model ? put_path(list, "model", w->model, err) : 0;

    for (size_t i = 0; rc == 0 && i < p->count; i++) {
        const struct enqueue_option *o = &p->options[i];

        if (!o->given)
            continue;
        if (strcmp(o->name, "vad") == 0 && p->vad.wish == VAD_PATH)
            rc = put_path(list, o->name, o->value, err);
        else
            rc = put_word(list, o->name, o->value, err);
    }
    return rc;
}

static int put_other(const struct enqueue_wish *w, size_t kind, json_t *list, struct err *err)
{
    int rc = 0;

    if (w->other[kind] && w->other[kind][0] != 0)
        rc = put_path(list, stage_kinds[kind]->option, w->other[kind], err);
    else if (w->other[kind])
        rc = put_word(list, stage_kinds[kind]->option, NULL, err);
    for (size_t i = 0; rc == 0 && i < w->count; i++) {
        const struct enqueue_wish_option *o = &w->options[i];

        if (o->stage != kind || !o->field || !o->given)
            continue;
        if (enqueue_wish_is_vad(o->field) && w->vad.wish == VAD_PATH)
            rc = put_path(list, o->name, o->value, err);
        else
            rc = put_word(list, o->name, o->value, err);
    }
    return rc;
}

int said_options(const struct enqueue_wish *w, size_t kind, char **ret, struct err *err)
{
    json_t *list = json_array();
    char *text = NULL;
    int rc = 0;

    if (list)
        rc = kind == 0 ? put_transcription(w, list, err) : put_other(w, kind, list, err);
    if (rc == 0) {
        text = list ? json_dumps(list, JSON_COMPACT) : NULL;
        rc = text ? 0 : err_set(err, ERR_NOMEM, "out of memory");
    }
    json_decref(list);
    if (rc == 0)
        *ret = text;
    return rc;
}

/* ------------------------------------------------------------------------------- in words */

#define WORD_COLUMNS 40

/* "--model=..." of a transcription, "--diarize" or "--diarize=..." of a diarization. */
static bool names_model(const char *word, const struct stage_kind *kind)
{
    const char *option = kind && kind != &stage_transcribe ? kind->option : "model";
    const size_t n = strlen(option);

    return strncmp(word, "--", 2) == 0 && strncmp(word + 2, option, n) == 0 &&
           (word[2 + n] == 0 || word[2 + n] == '=');
}

void said_words(const char *options, const char *stage, struct buf *out)
{
    const struct stage_kind *kind = stage_kind_find(stage);
    json_t *list = json_loads(options, 0, NULL), *word;
    bool any = false;
    size_t i;

    json_array_foreach(list, i, word)
    {
        const char *text = json_string_value(word);
        char *shown = text && !names_model(text, kind) ? utf8_display(text, strlen(text)) : NULL;
        char *fit = shown ? text_fit(shown, WORD_COLUMNS) : NULL;

        if (fit)
            buf_printf(out, "%s%s", any ? " " : " (", fit);
        any |= fit != NULL;
        free(fit);
        free(shown);
    }
    if (any)
        buf_printf(out, ")");
    json_decref(list);
}

/* ------------------------------------------------------------------------------- said again */

static int report_unknown_option(const char *word, struct err *err)
{
    return err_set(err, ERR_USAGE,
                   "this version does not know the recipe's option '%.200s'. Use other options, "
                   "which replace it",
                   word);
}

/* The option of a recipe's word. */
struct said {
    bool known;
    const struct param_field *field; /* NULL: it asks for the stage, or names its model */
    const char *value;               /* NULL: none */
    bool given;                      /* the wish has it already */
};

static bool is_named(const char *option, const char *name, size_t n)
{
    return strlen(option) == n && strncmp(option, name, n) == 0;
}

static struct said said_by(const char *word, size_t kind, const struct enqueue_wish *w)
{
    const char *name = strncmp(word, "--", 2) == 0 ? word + 2 : word;
    const size_t n = strcspn(name, "=");
    const char *value = name[n] ? name + n + 1 : NULL;

    if (kind == 0 && is_named("model", name, n) && value)
        return (struct said){true, NULL, value, w->model != NULL};
    for (size_t i = 0; kind == 0 && i < w->params.count; i++) {
        const struct enqueue_option *o = &w->params.options[i];

        if (is_named(o->name, name, n) && !value == !o->field->value)
            return (struct said){true, o->field, value, o->given};
    }
    for (size_t i = 0; kind != 0 && i < w->count; i++) {
        const struct enqueue_wish_option *o = &w->options[i];

        if (o->stage == kind && is_named(o->name, name, n) &&
            (!o->field || !value == !o->field->value))
            return (struct said){true, o->field, value,
                                 o->field ? o->given : w->other[kind] && w->other[kind][0] != 0};
    }
    return (struct said){0};
}

static int take_word(const char *word, size_t kind, bool rest, struct enqueue_wish *w,
                     struct err *err)
{
    const struct said s = said_by(word, kind, w);

    if (rest && (!s.known || s.given || (s.field && !enqueue_wish_is_vad(s.field))))
        return 0;
    if (!s.known)
        return report_unknown_option(word, err);
    if (kind == 0 && s.field)
        return enqueue_params_take(&w->params, s.field, s.value, err);
    if (kind != 0)
        return s.field ? enqueue_wish_take(w, kind, s.field, s.value, err)
                       : enqueue_wish_ask(w, kind, s.value, NULL, err);
    w->model = s.value;
    return 0;
}

int said_again(const char *options, size_t kind, bool rest, struct enqueue_wish *w, json_t *keep,
               struct err *err)
{
    json_t *list = json_loads(options, 0, NULL), *word;
    size_t i;
    int rc = json_is_array(list) ? 0 : err_set(err, ERR_CORRUPT, "the recipe cannot be read");

    json_array_foreach(list, i, word)
    {
        const char *text = json_string_value(word);

        if (rc == 0)
            rc = text ? take_word(text, kind, rest, w, err)
                      : err_set(err, ERR_CORRUPT, "the recipe cannot be read");
    }
    if (json_array_append_new(keep, list) != 0 && rc == 0)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    return rc;
}
