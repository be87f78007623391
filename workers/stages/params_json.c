/* The one way in which the parameters are written; the catalog keeps a hash of it, and equal
 * parameters are one stage. So: sorted keys, no blanks, each number as its shortest decimal, and no
 * key whose value is the default (but for the first catalogs' keys), so that a parameter which did
 * not exist yet does not change what was written before it did. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "workers/stages/param_table.h"
#include "workers/stages/params.h"

#define TEMPERATURES_MAX (sizeof(((struct transcribe_params *)0)->temperatures) / sizeof(float))

/* ---- to JSON */

/* The shortest decimal that reads back as the same float. */
void params_put_float(struct buf *b, float value)
{
    char text[32];

    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    /* %g writes an exponent where its digits do not reach the point: 10 would be 1e+01. */
    if (fabsf(value) >= 1 && fabsf(value) < 1e6f && strchr(text, 'e') != NULL)
        snprintf(text, sizeof(text), "%.0f", (double)value);
    buf_printf(b, "%s", value == 0 ? "0" : text);
}

void params_put_text(struct buf *b, const char *text)
{
    buf_put_u8(b, '"');
    for (const char *s = text; *s; s++) {
        if (*s == '"' || *s == '\\')
            buf_printf(b, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            buf_printf(b, "\\u%04x", (unsigned)*s);
        else
            buf_put_u8(b, (uint8_t)*s);
    }
    buf_put_u8(b, '"');
}

static void put_tokens(struct buf *b, const struct transcribe_params *p)
{
    buf_printf(b, "[%s", p->suppress_model ? "-1" : "");
    for (uint32_t i = 0; i < p->suppress_count; i++)
        buf_printf(b, "%s%d", i || p->suppress_model ? "," : "", p->suppress_tokens[i]);
    buf_printf(b, "]");
}

static void put_temperatures(struct buf *b, const struct transcribe_params *p)
{
    buf_printf(b, "[");
    for (uint32_t i = 0; i < p->temperature_count; i++) {
        buf_printf(b, "%s", i ? "," : "");
        params_put_float(b, p->temperatures[i]);
    }
    buf_printf(b, "]");
}

static void put_value(struct buf *b, const struct param_field *f, const struct transcribe_params *p)
{
    const void *at = (const char *)p + f->offset;

    switch (f->kind) {
    case PARAM_BOOL:
        buf_printf(b, "%s", *(const bool *)at ? "true" : "false");
        break;
    case PARAM_U32:
        buf_printf(b, "%u", *(const uint32_t *)at);
        break;
    case PARAM_FLOAT:
        params_put_float(b, f->unset && *(const float *)at < 0 ? -1.0f : *(const float *)at);
        break;
    case PARAM_TEXT:
        params_put_text(b, at);
        break;
    case PARAM_TEMPERATURES:
        put_temperatures(b, p);
        break;
    case PARAM_TOKENS:
        put_tokens(b, p);
        break;
    }
}

/* Appends `"name":value` unless the value is written as the default's is. */
static void put_field(struct buf *b, const struct param_field *f, const struct transcribe_params *p,
                      const struct transcribe_params *def)
{
    struct buf value = BUF_INIT, usual = BUF_INIT;

    put_value(&value, f, p);
    put_value(&usual, f, def);
    if (value.failed || usual.failed) {
        b->failed = true;
    } else if (f->always || value.len != usual.len ||
               memcmp(value.data, usual.data, usual.len) != 0) {
        buf_printf(b, "%s\"%s\":", b->len ? "," : "{", f->name);
        buf_put(b, value.data, value.len);
    }
    buf_free(&value);
    buf_free(&usual);
}

int transcribe_params_to_json(const struct transcribe_params *p, char **ret, struct err *err)
{
    struct transcribe_params def;
    struct buf b = BUF_INIT;
    int rc = transcribe_params_check(p, err);

    if (rc)
        return rc;
    transcribe_params_default(&def);
    for (size_t i = 0; i < param_field_count; i++)
        put_field(&b, &param_fields[i], p, &def);
    buf_printf(&b, "}");
    if (!buf_cstr(&b)) {
        buf_free(&b);
        return err_set(err, ERR_NOMEM, "no memory for the transcription's parameters");
    }
    *ret = (char *)b.data;
    return 0;
}

/* ---- from JSON */

static int take_float(const json_t *value, const char *name, float *ret, struct err *err)
{
    double x = json_number_value(value);

    if (!json_is_number(value) || !(fabs(x) < 1e9))
        return err_set(err, ERR_USAGE, "%s is not a number of use", name);
    *ret = (float)x;
    return 0;
}

static int take_temperatures(const json_t *value, struct transcribe_params *p, struct err *err)
{
    if (!json_is_array(value) || json_array_size(value) > TEMPERATURES_MAX)
        return err_set(err, ERR_USAGE, "temperatures is not a list of up to %zu numbers",
                       TEMPERATURES_MAX);
    memset(p->temperatures, 0, sizeof(p->temperatures));
    p->temperature_count = (uint32_t)json_array_size(value);
    for (uint32_t i = 0; i < p->temperature_count; i++) {
        int rc = take_float(json_array_get(value, i), "a temperature", &p->temperatures[i], err);
        if (rc)
            return rc;
    }
    return 0;
}

/* -1, first, is the model's own list. */
static int take_tokens(const json_t *value, struct transcribe_params *p, struct err *err)
{
    const size_t n = json_array_size(value);
    size_t i = 0;

    p->suppress_model = json_integer_value(json_array_get(value, 0)) == -1;
    p->suppress_count = 0;
    if (p->suppress_model)
        i = 1;
    if (!json_is_array(value) || n - i > TRANSCRIBE_SUPPRESS_MAX)
        return err_set(err, ERR_USAGE, "suppress_tokens is not a list of up to %d tokens",
                       TRANSCRIBE_SUPPRESS_MAX);
    for (; i < n; i++) {
        const json_t *token = json_array_get(value, i);
        json_int_t id = json_integer_value(token);

        if (!json_is_integer(token) || id < 0 || id > PARAM_TOKEN_MAX)
            return err_set(err, ERR_USAGE, "suppress_tokens holds what is no token");
        p->suppress_tokens[p->suppress_count++] = (int32_t)id;
    }
    return 0;
}

static int take_u32(const json_t *value, const struct param_field *f, uint32_t *ret,
                    struct err *err)
{
    json_int_t v = json_integer_value(value);

    if (!json_is_integer(value) || v < (json_int_t)f->low || v > (json_int_t)f->high)
        return err_set(err, ERR_USAGE, "%s is not a whole number from %u to %u", f->name,
                       (uint32_t)f->low, (uint32_t)f->high);
    *ret = (uint32_t)v;
    return 0;
}

static int take_text(const json_t *value, const struct param_field *f, char *ret, struct err *err)
{
    if (!json_is_string(value) || json_string_length(value) >= f->size)
        return err_set(err, ERR_USAGE, "%s is not a text of up to %zu bytes", f->name, f->size - 1);
    memset(ret, 0, f->size);
    memcpy(ret, json_string_value(value), json_string_length(value));
    return 0;
}

static int take_value(const char *key, const json_t *value, struct transcribe_params *p,
                      struct err *err)
{
    const struct param_field *f = param_field_find(key);
    void *at;
    int rc;

    if (!f)
        return err_set(err, ERR_USAGE, "the parameter '%.40s' is unknown", key);
    at = (char *)p + f->offset;
    switch (f->kind) {
    case PARAM_BOOL:
        if (!json_is_boolean(value))
            return err_set(err, ERR_USAGE, "%s is neither true nor false", key);
        *(bool *)at = json_is_true(value);
        return 0;
    case PARAM_U32:
        return take_u32(value, f, at, err);
    case PARAM_FLOAT:
        rc = take_float(value, key, at, err);
        if (rc == 0 && f->unset && *(float *)at < 0)
            *(float *)at = -1;
        return rc;
    case PARAM_TEXT:
        return take_text(value, f, at, err);
    case PARAM_TEMPERATURES:
        return take_temperatures(value, p, err);
    case PARAM_TOKENS:
        return take_tokens(value, p, err);
    }
    return err_set(err, ERR_USAGE, "%s is of no known kind", key);
}

int transcribe_params_from_json(const char *json, struct transcribe_params *ret, struct err *err)
{
    struct transcribe_params p;
    json_error_t why;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &why), *value;
    const char *key;
    int rc = 0;

    transcribe_params_default(&p);
    if (!root)
        return err_set(err, ERR_USAGE, "the transcription's parameters are no JSON: %s", why.text);
    if (!json_is_object(root))
        rc = err_set(err, ERR_USAGE, "the transcription's parameters are no JSON object");
    if (!rc)
        json_object_foreach(root, key, value)
        {
            if ((rc = take_value(key, value, &p, err)))
                break;
        }
    json_decref(root);
    if (!rc)
        rc = transcribe_params_check(&p, err);
    if (!rc)
        *ret = p;
    return rc;
}
