#include "tools/enqueue/stages/stage_params_words.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tools/cli/text.h"
#include "workers/stages/stage_kind.h"

#define SHOWN 5
#define VALUE_COLUMNS 24

/* Those of `params` that differ from `usual`. NULL: no memory. */
static json_t *other_than(const struct param_table *t, const void *usual, const void *params)
{
    struct param_table beside = *t;
    struct err ignored = {0};
    char *text = NULL;
    json_t *ret;

    beside.defaults = usual;
    if (param_table_to_json(&beside, params, &text, &ignored) != 0)
        return NULL;
    ret = json_loads(text, 0, NULL);
    free(text);
    return ret;
}

/* Those of a stage that differ from what `enqueue` asks for unless told otherwise, also where the
 * stage says nothing of it. NULL: it is a stage of a later version, or there is no memory. */
static json_t *make_unusual_params_json(const struct param_table *t, const void *asked,
                                        const char *params_json)
{
    void *params = malloc(t->size);
    struct err ignored = {0};
    json_t *ret = NULL;

    if (params && param_table_from_json(t, params_json, params, &ignored) == 0)
        ret = other_than(t, asked, params);
    free(params);
    return ret;
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
    const struct stage_kind *kind = stage_kind_find(stage);
    const struct param_table *t = kind ? kind->params : NULL;
    const void *asked = t && t->asked ? t->asked : t ? t->defaults : NULL;
    json_t *usual = t ? other_than(t, t->defaults, asked) : NULL; /* some are always written */
    json_t *o = t ? make_unusual_params_json(t, asked, params_json) : NULL, *v;
    /* Beside a transcription another stage hears what that hears, alone by its own defaults. */
    json_t *alone = t && kind != &stage_transcribe ? other_than(t, asked, t->defaults) : NULL;
    const char *key;
    unsigned n = 0;

    if (!o)
        o = json_loads(params_json, 0, NULL);
    json_object_foreach(o, key, v)
    {
        if (strcmp(key, "vad_hash") == 0 || strcmp(key, "source") == 0 || json_is_false(v) ||
            json_equal(v, json_object_get(usual, key)) ||
            json_equal(v, json_object_get(alone, key)))
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
    json_decref(alone);
    json_decref(o);
}
