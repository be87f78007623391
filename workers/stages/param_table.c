#include "workers/stages/param_table.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

static const void *at_of(const struct param_field *f, const void *params)
{
    return (const char *)params + f->offset;
}

static bool flag_of(const struct param_field *f, const void *params)
{
    return *(const bool *)((const char *)params + f->flag);
}

static uint32_t count_of(const struct param_field *f, const void *params)
{
    return *(const uint32_t *)((const char *)params + f->count);
}

const struct param_field *param_table_find(const struct param_table *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++)
        if (strcmp(t->fields[i].name, name) == 0)
            return &t->fields[i];
    return NULL;
}

void param_table_default(const struct param_table *t, void *ret)
{
    memcpy(ret, t->defaults, t->size);
}

void param_table_asked(const struct param_table *t, void *ret)
{
    memcpy(ret, t->asked ? t->asked : t->defaults, t->size);
}

/* ---- ranges */

/* Bounds as floats: a decimal that is one must not be outside by its rest. */
static int check_float(const struct param_field *f, float value, struct err *err)
{
    if (value >= (float)f->low && value <= (float)f->high)
        return 0;
    return err_set(err, ERR_USAGE, "%s is %.9g, outside %.9g..%.9g", f->name, (double)value, f->low,
                   f->high);
}

static int check_u32(const struct param_field *f, uint32_t value, struct err *err)
{
    if (value >= f->low && value <= f->high)
        return 0;
    return err_set(err, ERR_USAGE, "%s is %u, outside %.0f..%.0f", f->name, value, f->low, f->high);
}

static int check_text(const struct param_field *f, const char *text, struct err *err)
{
    size_t n = strnlen(text, f->size);

    if (n == f->size)
        return err_set(err, ERR_USAGE, "%s is longer than %zu bytes", f->name, f->size - 1);
    if (!utf8_valid(text, n))
        return err_set(err, ERR_USAGE, "%s is not valid UTF-8", f->name);
    return 0;
}

static uint32_t choice_count(const struct param_field *f)
{
    uint32_t n = 0;

    while (f->choices[n])
        n++;
    return n;
}

static int check_floats(const struct param_field *f, const void *params, struct err *err)
{
    const float *values = at_of(f, params);
    uint32_t n = count_of(f, params);
    int rc = 0;

    if (n < 1 || n > param_field_room(f))
        return err_set(err, ERR_USAGE, "%s has %u numbers; 1 to %u are possible", f->name, n,
                       param_field_room(f));
    for (uint32_t i = 0; rc == 0 && i < n; i++) {
        rc = check_float(f, values[i], err);
        if (rc == 0 && i > 0 && values[i] <= values[i - 1])
            rc = err_set(err, ERR_USAGE, "%s must ascend", f->name);
    }
    return rc;
}

static int check_tokens(const struct param_field *f, const void *params, struct err *err)
{
    const int32_t *tokens = at_of(f, params);
    uint32_t n = count_of(f, params);

    if (n > param_field_room(f))
        return err_set(err, ERR_USAGE, "%s has %u tokens, above %u", f->name, n,
                       param_field_room(f));
    for (uint32_t i = 0; i < n; i++) {
        if (tokens[i] < 0 || tokens[i] > PARAM_TOKEN_MAX)
            return err_set(err, ERR_USAGE, "%s has %d, which is no token", f->name, tokens[i]);
        if (i > 0 && tokens[i] <= tokens[i - 1])
            return err_set(err, ERR_USAGE, "%s must ascend", f->name);
    }
    return 0;
}

static int check_field(const struct param_field *f, const void *params, struct err *err)
{
    const void *at = at_of(f, params);

    switch (f->kind) {
    case PARAM_BOOL:
        return 0;
    case PARAM_U32:
        return check_u32(f, *(const uint32_t *)at, err);
    case PARAM_FLOAT:
        return f->unset && *(const float *)at < 0 ? 0 : check_float(f, *(const float *)at, err);
    case PARAM_TEXT:
        return check_text(f, at, err);
    case PARAM_CHOICE:
        if (*(const uint32_t *)at >= choice_count(f))
            return err_set(err, ERR_USAGE, "%s is none of its choices", f->name);
        return 0;
    case PARAM_FLOATS:
        return check_floats(f, params, err);
    case PARAM_TOKENS:
        return check_tokens(f, params, err);
    }
    return err_set(err, ERR_USAGE, "%s is of no known kind", f->name);
}

int param_table_check(const struct param_table *t, const void *params, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < t->count; i++)
        rc = check_field(&t->fields[i], params, err);
    return rc == 0 && t->check ? t->check(params, err) : rc;
}

/* ---- to JSON */

/* The shortest decimal that reads back as the same float. */
static void put_float(struct buf *b, float value)
{
    char text[32];

    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    /* %g writes an exponent where its digits do not reach the point: 10 would be 1e+01. */
    if (fabsf(value) >= 1 && fabsf(value) < 1e6f && strchr(text, 'e'))
        snprintf(text, sizeof(text), "%.0f", (double)value);
    buf_printf(b, "%s", value == 0 ? "0" : text);
}

static void put_text(struct buf *b, const char *text)
{
    buf_put_u8(b, '"');
    for (const char *s = text; *s; s++)
        if (*s == '"' || *s == '\\')
            buf_printf(b, "\\%c", *s);
        else if ((unsigned char)*s < 0x20)
            buf_printf(b, "\\u%04x", (unsigned)*s);
        else
            buf_put_u8(b, (uint8_t)*s);
    buf_put_u8(b, '"');
}

static void put_list(struct buf *b, const struct param_field *f, const void *params)
{
    bool own = f->kind == PARAM_TOKENS && flag_of(f, params);

    buf_printf(b, "[%s", own ? "-1" : "");
    for (uint32_t i = 0; i < count_of(f, params); i++) {
        buf_printf(b, "%s", i || own ? "," : "");
        if (f->kind == PARAM_TOKENS)
            buf_printf(b, "%d", ((const int32_t *)at_of(f, params))[i]);
        else
            put_float(b, ((const float *)at_of(f, params))[i]);
    }
    buf_printf(b, "]");
}

static void put_value(struct buf *b, const struct param_field *f, const void *params)
{
    const void *at = at_of(f, params);

    switch (f->kind) {
    case PARAM_BOOL:
        buf_printf(b, "%s", *(const bool *)at ? "true" : "false");
        break;
    case PARAM_U32:
        buf_printf(b, "%u", *(const uint32_t *)at);
        break;
    case PARAM_FLOAT:
        put_float(b, f->unset && *(const float *)at < 0 ? -1.0f : *(const float *)at);
        break;
    case PARAM_TEXT:
        put_text(b, at);
        break;
    case PARAM_CHOICE:
        put_text(b, f->choices[*(const uint32_t *)at]);
        break;
    case PARAM_FLOATS:
    case PARAM_TOKENS:
        put_list(b, f, params);
        break;
    }
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

static void put_field(struct buf *b, const struct param_field *f, const void *params,
                      const void *defaults)
{
    struct buf value = BUF_INIT, usual = BUF_INIT;

    put_value(&value, f, params);
    put_value(&usual, f, defaults);
    if (value.failed || usual.failed) {
        b->failed = true;
    } else if (f->said ? flag_of(f, params) : f->always || !is_same(&value, &usual)) {
        buf_printf(b, "%s\"%s\":", b->len > 1 ? "," : "", f->name);
        buf_put(b, value.data, value.len);
    }
    buf_free(&value);
    buf_free(&usual);
}

/* NULL: `last` was the last one. */
static const struct param_field *next_by_name(const struct param_table *t,
                                              const struct param_field *last)
{
    const struct param_field *ret = NULL;

    for (const struct param_field *f = t->fields; f < t->fields + t->count; f++)
        if ((!last || strcmp(f->name, last->name) > 0) && (!ret || strcmp(f->name, ret->name) < 0))
            ret = f;
    return ret;
}

int param_table_to_json(const struct param_table *t, const void *params, char **ret,
                        struct err *err)
{
    struct buf b = BUF_INIT;
    int rc = param_table_check(t, params, err);

    if (rc != 0)
        return rc;
    buf_put_u8(&b, '{');
    for (const struct param_field *f = next_by_name(t, NULL); f; f = next_by_name(t, f))
        put_field(&b, f, params, t->defaults);
    buf_put_u8(&b, '}');
    if (!buf_cstr(&b)) {
        buf_free(&b);
        return err_set(err, ERR_NOMEM, "no memory for the %s's parameters", t->what);
    }
    *ret = (char *)b.data;
    return 0;
}

/* ---- from JSON */

static int take_u32(const struct param_field *f, const json_t *value, uint32_t *ret,
                    struct err *err)
{
    json_int_t v = json_integer_value(value);

    if (!json_is_integer(value) || v < (json_int_t)f->low || v > (json_int_t)f->high)
        return err_set(err, ERR_USAGE, "%s is not a whole number from %.0f to %.0f", f->name,
                       f->low, f->high);
    *ret = (uint32_t)v;
    return 0;
}

static int take_float(const struct param_field *f, const json_t *value, float *ret, struct err *err)
{
    double x = json_number_value(value);

    if (!json_is_number(value) || !(fabs(x) < 1e9))
        return err_set(err, ERR_USAGE, "%s is not a number of use", f->name);
    *ret = f->unset && (float)x < 0 ? -1.0f : (float)x;
    return 0;
}

static int take_text(const struct param_field *f, const json_t *value, char *ret, struct err *err)
{
    if (!json_is_string(value) || json_string_length(value) >= f->size)
        return err_set(err, ERR_USAGE, "%s is not a text of up to %zu bytes", f->name, f->size - 1);
    memset(ret, 0, f->size);
    memcpy(ret, json_string_value(value), json_string_length(value));
    return 0;
}

static int take_choice(const struct param_field *f, const json_t *value, uint32_t *ret,
                       struct err *err)
{
    const char *text = json_string_value(value);

    for (uint32_t i = 0; text && f->choices[i]; i++)
        if (strcmp(f->choices[i], text) == 0) {
            *ret = i;
            return 0;
        }
    return err_set(err, ERR_USAGE, "%s is none of its choices, such as '%s'", f->name,
                   f->choices[0]);
}

static int take_floats(const struct param_field *f, const json_t *value, void *params,
                       struct err *err)
{
    float *values = (float *)((char *)params + f->offset);
    size_t n = json_array_size(value);
    int rc = 0;

    if (!json_is_array(value) || n > param_field_room(f))
        return err_set(err, ERR_USAGE, "%s is not a list of up to %u numbers", f->name,
                       param_field_room(f));
    memset(values, 0, f->size);
    *(uint32_t *)((char *)params + f->count) = (uint32_t)n;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = take_float(f, json_array_get(value, i), &values[i], err);
    return rc;
}

/* -1, first, is the model's own list. */
static int take_tokens(const struct param_field *f, const json_t *value, void *params,
                       struct err *err)
{
    int32_t *tokens = (int32_t *)((char *)params + f->offset);
    bool own = json_integer_value(json_array_get(value, 0)) == -1;
    size_t n = json_array_size(value) - own;

    if (!json_is_array(value) || n > param_field_room(f))
        return err_set(err, ERR_USAGE, "%s is not a list of up to %u tokens", f->name,
                       param_field_room(f));
    memset(tokens, 0, f->size);
    *(bool *)((char *)params + f->flag) = own;
    *(uint32_t *)((char *)params + f->count) = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        const json_t *token = json_array_get(value, i + own);
        json_int_t id = json_integer_value(token);

        if (!json_is_integer(token) || id < 0 || id > PARAM_TOKEN_MAX)
            return err_set(err, ERR_USAGE, "%s holds what is no token", f->name);
        tokens[i] = (int32_t)id;
    }
    return 0;
}

static int take_value(const struct param_field *f, const json_t *value, void *params,
                      struct err *err)
{
    void *at = (char *)params + f->offset;

    if (f->said)
        *(bool *)((char *)params + f->flag) = true;
    switch (f->kind) {
    case PARAM_BOOL:
        if (!json_is_boolean(value))
            return err_set(err, ERR_USAGE, "%s is neither true nor false", f->name);
        *(bool *)at = json_is_true(value);
        return 0;
    case PARAM_U32:
        return take_u32(f, value, at, err);
    case PARAM_FLOAT:
        return take_float(f, value, at, err);
    case PARAM_TEXT:
        return take_text(f, value, at, err);
    case PARAM_CHOICE:
        return take_choice(f, value, at, err);
    case PARAM_FLOATS:
        return take_floats(f, value, params, err);
    case PARAM_TOKENS:
        return take_tokens(f, value, params, err);
    }
    return err_set(err, ERR_USAGE, "%s is of no known kind", f->name);
}

static int take_keys(const struct param_table *t, json_t *root, void *params, struct err *err)
{
    const struct param_field *f;
    const char *key;
    json_t *value;
    int rc;

    if (!json_is_object(root))
        return err_set(err, ERR_USAGE, "the %s's parameters are no JSON object", t->what);
    json_object_foreach(root, key, value)
    {
        f = param_table_find(t, key);
        if (!f)
            return err_set(err, ERR_USAGE, "the parameter '%.40s' is unknown", key);
        rc = take_value(f, value, params, err);
        if (rc != 0)
            return rc;
    }
    return param_table_check(t, params, err);
}

int param_table_from_json(const struct param_table *t, const char *json, void *ret, struct err *err)
{
    json_error_t why;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &why);
    void *params;
    int rc;

    if (!root)
        return err_set(err, ERR_USAGE, "the %s's parameters are no JSON: %s", t->what, why.text);
    params = malloc(t->size);
    if (!params) {
        rc = err_set(err, ERR_NOMEM, "no memory for the %s's parameters", t->what);
    } else {
        param_table_default(t, params);
        rc = take_keys(t, root, params, err);
    }
    if (rc == 0)
        memcpy(ret, params, t->size);
    free(params);
    json_decref(root);
    return rc;
}
