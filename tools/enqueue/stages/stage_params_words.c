#include "tools/enqueue/stages/stage_params_words.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/cli/text.h"
#include "tools/enqueue/stages/enqueue_params.h"
#include "workers/stages/stage_kind.h"

#define SHOWN 5
#define VALUE_COLUMNS 24

/* What a parameter has that says nothing; NULL: a stage of a later version. */
static json_t *defaults_of(const char *stage)
{
    const struct stage_kind *kind = stage_kind_find(stage);
    struct err ignored = {0};
    char *text = NULL;
    json_t *ret;

    if (!kind || param_table_to_json(kind->params, kind->params->defaults, &text, &ignored) != 0)
        return NULL;
    ret = json_loads(text, 0, NULL);
    free(text);
    return ret;
}

/* Of some it is also what `enqueue` makes of no word on them. */
static bool is_usual(const json_t *usual, const char *key, const json_t *v)
{
    if (strcmp(key, "beam_size") == 0 || strcmp(key, "best_of") == 0)
        return json_integer_value(v) == ENQUEUE_BEAMS;
    if (strcmp(key, "multilingual") == 0)
        return true;
    return json_equal(v, json_object_get(usual, key)) ||
           (strcmp(key, "channels") == 0 && json_is_string(v) &&
            strcmp(json_string_value(v), "auto") == 0);
}

/* One hypothesis is left out of a stage's parameters, and is not what is usual any more. */
static void put_unsaid(const char *stage, json_t *o)
{
    static const char *const names[] = {"beam_size", "best_of"};

    for (size_t i = 0; strcmp(stage, stage_transcribe.name) == 0 && i < 2; i++)
        if (json_is_object(o) && !json_object_get(o, names[i]))
            json_object_set_new(o, names[i], json_integer(1));
}

static void put_value(const json_t *v, struct buf *out)
{
    char *text, *fit;

    if (json_is_real(v)) { /* as it was typed: single precision has no more digits */
        buf_printf(out, " %.6g", json_real_value(v));
        return;
    }
    text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(6));
    fit = text ? text_fit(text, VALUE_COLUMNS) : NULL;
    buf_printf(out, " %s", fit ? fit : "");
    free(fit);
    free(text);
}

void stage_params_words(const char *stage, const char *params_json, struct buf *out)
{
    json_t *o = json_loads(params_json, 0, NULL), *v;
    json_t *usual = defaults_of(stage);
    const char *key;
    unsigned n = 0;

    put_unsaid(stage, o);
    json_object_foreach(o, key, v)
    {
        if (strcmp(key, "vad_hash") == 0 || strcmp(key, "source") == 0 || json_is_false(v) ||
            is_usual(usual, key, v))
            continue;
        if (n++ >= SHOWN)
            continue;
        buf_printf(out, "%s%s", n > 1 ? ", " : " (", key);
        if (!json_is_true(v))
            put_value(v, out);
    }
    if (n > SHOWN)
        buf_printf(out, " and %u more", n - SHOWN);
    if (n)
        buf_printf(out, ")");
    json_decref(usual);
    json_decref(o);
}
