#include "tools/enqueue/stages/stage_differ.h"

#include <stdlib.h>
#include <string.h>

#include "tools/cli/text.h"
#include "workers/stages/stage_kind.h"

#define VALUE_COLUMNS 24

static void append_difference(struct buf *out, const char *what)
{
    buf_printf(out, "%s%s", out->len > 0 ? ", " : "", what);
}

static void put_text(const char *text, struct buf *out)
{
    char *fit = text_fit(text, VALUE_COLUMNS);

    if (text[0] == 0)
        buf_printf(out, "none");
    else
        buf_printf(out, "'%s'", fit ? fit : "");
    free(fit);
}

static void put_float(const struct param_field *f, float v, struct buf *out)
{
    if (f->unset && v < 0)
        buf_printf(out, "unset");
    else
        buf_printf(out, "%.6g", v);
}

static void put_list(const struct param_field *f, const char *params, struct buf *out)
{
    uint32_t n;

    memcpy(&n, params + f->count, sizeof(n));
    if (f->kind == PARAM_TOKENS) {
        buf_printf(out, "%u %s", n, text_plural(n, "token", "tokens"));
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        float v;

        memcpy(&v, params + f->offset + i * sizeof(v), sizeof(v));
        buf_printf(out, "%s%.6g", i > 0 ? "," : "", v);
    }
}

/* The value as it was typed: single precision has no more digits. */
static void put_value(const struct param_field *f, const char *params, struct buf *out)
{
    const char *at = params + f->offset;
    uint32_t n;
    float v;

    switch (f->kind) {
    case PARAM_BOOL:
        buf_printf(out, "%s", *(const bool *)at ? "on" : "off");
        return;
    case PARAM_U32:
        memcpy(&n, at, sizeof(n));
        buf_printf(out, "%u", n);
        return;
    case PARAM_FLOAT:
        memcpy(&v, at, sizeof(v));
        put_float(f, v, out);
        return;
    case PARAM_TEXT:
        put_text(at, out);
        return;
    case PARAM_CHOICE:
        memcpy(&n, at, sizeof(n));
        buf_printf(out, "%s", f->choices[n]);
        return;
    case PARAM_FLOATS:
    case PARAM_TOKENS:
        put_list(f, params, out);
        return;
    }
}

/* Beside its own bytes a list has a count, and what may be unsaid a flag. */
static bool values_equal(const struct param_field *f, const char *was, const char *now)
{
    if (f->kind == PARAM_FLOATS || f->kind == PARAM_TOKENS)
        return memcmp(was + f->count, now + f->count, sizeof(uint32_t)) == 0 &&
               memcmp(was + f->offset, now + f->offset, f->size) == 0 &&
               (f->kind == PARAM_FLOATS || was[f->flag] == now[f->flag]);
    if (f->kind == PARAM_TEXT)
        return strcmp(was + f->offset, now + f->offset) == 0;
    return memcmp(was + f->offset, now + f->offset, f->size) == 0 &&
           (!f->said || was[f->flag] == now[f->flag]);
}

static void describe_difference(const struct param_field *f, const char *was, const char *now,
                                struct buf *out)
{
    const bool has = now[f->offset] != 0;

    if (strcmp(f->name, "vad_model") == 0) {
        if (has != (was[f->offset] != 0))
            append_difference(out, has ? "voice activity on" : "voice activity off");
        return;
    }
    if (strcmp(f->name, "vad_hash") == 0) {
        if (has && was[f->offset] != 0)
            append_difference(out, "another voice activity model");
        return;
    }
    if (strcmp(f->name, "source") == 0) {
        append_difference(out, "of another transcription");
        return;
    }
    append_difference(out, f->name);
    buf_printf(out, " ");
    put_value(f, now, out);
    if (f->kind == PARAM_BOOL)
        return;
    buf_printf(out, " instead of ");
    put_value(f, was, out);
}

static void differ_params(const struct param_table *t, const char *was_json, const char *now_json,
                          struct buf *out)
{
    char *was = malloc(t->size), *now = malloc(t->size);
    struct err err = {0};

    if (!was || !now || param_table_from_json(t, was_json, was, &err) != 0 ||
        param_table_from_json(t, now_json, now, &err) != 0)
        append_difference(out, "other parameters");
    else
        for (const struct param_field *f = t->fields; f < t->fields + t->count; f++)
            if (!values_equal(f, was, now))
                describe_difference(f, was, now, out);
    free(was);
    free(now);
}

void stage_differ(const struct store_stage *was, const struct store_stage *now, struct buf *out)
{
    const struct stage_kind *kind = stage_kind_find(now->name);

    if (strcmp(was->model_hash, now->model_hash) != 0 && strcmp(was->model, now->model) == 0) {
        append_difference(out, "the files of the model ");
        buf_printf(out, "%s have changed", now->model);
    } else if (strcmp(was->model_hash, now->model_hash) != 0) {
        append_difference(out, "model ");
        buf_printf(out, "%s instead of %s", now->model, was->model);
    }
    if (strcmp(was->params_json, now->params_json) == 0)
        return;
    if (kind)
        differ_params(kind->params, was->params_json, now->params_json, out);
    else
        append_difference(out, "its parameters");
}
