#include "workers/stages/param_table.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

static const void *at_of(const struct table_field *f, const void *params)
{
    return (const char *)params + f->offset;
}

/* ---- ranges */

static int out_of_range(const struct table_field *f, double value, struct err *err)
{
    return err_set(err, ERR_USAGE, "%s is %.9g, outside %.9g..%.9g", f->name, value, f->low,
                   f->high);
}

static int check_text(const struct table_field *f, const char *text, struct err *err)
{
    size_t n = strnlen(text, f->size);

    if (n == f->size)
        return err_set(err, ERR_USAGE, "%s is longer than %zu bytes", f->name, f->size - 1);
    if (!utf8_valid(text, n))
        return err_set(err, ERR_USAGE, "%s is not valid UTF-8", f->name);
    return 0;
}

static size_t choice_count(const struct table_field *f)
{
    size_t n = 0;

    while (f->choices[n])
        n++;
    return n;
}

static int check_field(const struct table_field *f, const void *params, struct err *err)
{
    const void *at = at_of(f, params);

    switch (f->kind) {
    case TABLE_BOOL:
        return 0;
    case TABLE_U32:
        if (*(const uint32_t *)at < f->low || *(const uint32_t *)at > f->high)
            return out_of_range(f, *(const uint32_t *)at, err);
        return 0;
    case TABLE_FLOAT: /* bounds as floats: a decimal that is one must not be outside by its rest */
        if (!(*(const float *)at >= (float)f->low && *(const float *)at <= (float)f->high))
            return out_of_range(f, (double)*(const float *)at, err);
        return 0;
    case TABLE_TEXT:
        return check_text(f, at, err);
    case TABLE_CHOICE:
        if (*(const uint32_t *)at >= choice_count(f))
            return err_set(err, ERR_USAGE, "%s is none of its choices", f->name);
        return 0;
    }
    return err_set(err, ERR_USAGE, "%s is of no known kind", f->name);
}

int table_check(const struct table *t, const void *params, struct err *err)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < t->count; i++)
        rc = check_field(&t->fields[i], params, err);
    return rc;
}

/* ---- to JSON */

static void put_value(struct buf *b, const struct table_field *f, const void *params)
{
    const void *at = at_of(f, params);

    switch (f->kind) {
    case TABLE_BOOL:
        buf_printf(b, "%s", *(const bool *)at ? "true" : "false");
        break;
    case TABLE_U32:
        buf_printf(b, "%u", *(const uint32_t *)at);
        break;
    case TABLE_FLOAT:
        params_put_float(b, *(const float *)at);
        break;
    case TABLE_TEXT:
        params_put_text(b, at);
        break;
    case TABLE_CHOICE:
        params_put_text(b, f->choices[*(const uint32_t *)at]);
        break;
    }
}

static bool is_same(const struct buf *a, const struct buf *b)
{
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

/* A value that was said is written even where it is the usual one: without it, the model's own
 * would hold. */
static void put_field(struct buf *b, const struct table_field *f, const void *params,
                      const void *defaults)
{
    struct buf value = BUF_INIT, usual = BUF_INIT;
    bool has_said = f->said != TABLE_NEVER, write;

    put_value(&value, f, params);
    put_value(&usual, f, defaults);
    if (value.failed || usual.failed) {
        b->failed = true;
    } else {
        write = has_said ? *((const bool *)params + f->said) : !is_same(&value, &usual);
        if (write) {
            buf_printf(b, "%s\"%s\":", b->len > 1 ? "," : "", f->name);
            buf_put(b, value.data, value.len);
        }
    }
    buf_free(&value);
    buf_free(&usual);
}

int table_to_json(const struct table *t, const void *params, const void *defaults, char **ret,
                  struct err *err)
{
    struct buf b = BUF_INIT;
    int rc = table_check(t, params, err);

    if (rc != 0)
        return rc;
    buf_put_u8(&b, '{');
    for (size_t i = 0; i < t->count; i++)
        put_field(&b, &t->fields[i], params, defaults);
    buf_put_u8(&b, '}');
    if (!buf_cstr(&b)) {
        buf_free(&b);
        return err_set(err, ERR_NOMEM, "no memory for the %s's parameters", t->what);
    }
    *ret = (char *)b.data;
    return 0;
}

/* ---- from JSON */

static int take_u32(const struct table_field *f, const json_t *value, uint32_t *ret,
                    struct err *err)
{
    json_int_t v = json_integer_value(value);

    if (!json_is_integer(value) || v < (json_int_t)f->low || v > (json_int_t)f->high)
        return err_set(err, ERR_USAGE, "%s is not a whole number from %.0f to %.0f", f->name,
                       f->low, f->high);
    *ret = (uint32_t)v;
    return 0;
}

static int take_float(const struct table_field *f, const json_t *value, float *ret, struct err *err)
{
    double x = json_number_value(value);

    if (!json_is_number(value) || !(fabs(x) < 1e9))
        return err_set(err, ERR_USAGE, "%s is not a number of use", f->name);
    *ret = (float)x;
    return 0;
}

static int take_text(const struct table_field *f, const json_t *value, char *ret, struct err *err)
{
    if (!json_is_string(value) || json_string_length(value) >= f->size)
        return err_set(err, ERR_USAGE, "%s is not a text of up to %zu bytes", f->name, f->size - 1);
    memset(ret, 0, f->size);
    memcpy(ret, json_string_value(value), json_string_length(value));
    return 0;
}

static int take_choice(const struct table_field *f, const json_t *value, uint32_t *ret,
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

static int take_value(const struct table_field *f, const json_t *value, void *at, struct err *err)
{
    switch (f->kind) {
    case TABLE_BOOL:
        if (!json_is_boolean(value))
            return err_set(err, ERR_USAGE, "%s is neither true nor false", f->name);
        *(bool *)at = json_is_true(value);
        return 0;
    case TABLE_U32:
        return take_u32(f, value, at, err);
    case TABLE_FLOAT:
        return take_float(f, value, at, err);
    case TABLE_TEXT:
        return take_text(f, value, at, err);
    case TABLE_CHOICE:
        return take_choice(f, value, at, err);
    }
    return err_set(err, ERR_USAGE, "%s is of no known kind", f->name);
}

static int take_key(const struct table *t, const char *key, const json_t *value, void *params,
                    struct err *err)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct table_field *f = &t->fields[i];

        if (strcmp(f->name, key) != 0)
            continue;
        if (f->said != TABLE_NEVER)
            *((bool *)params + f->said) = true;
        return take_value(f, value, (char *)params + f->offset, err);
    }
    return err_set(err, ERR_USAGE, "the parameter '%.40s' is unknown", key);
}

int table_from_json(const struct table *t, const char *json, void *params, struct err *err)
{
    json_error_t why;
    json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &why), *value;
    const char *key;
    int rc = 0;

    if (!root)
        return err_set(err, ERR_USAGE, "the %s's parameters are no JSON: %s", t->what, why.text);
    if (!json_is_object(root))
        rc = err_set(err, ERR_USAGE, "the %s's parameters are no JSON object", t->what);
    if (rc == 0)
        json_object_foreach(root, key, value)
        {
            rc = take_key(t, key, value, params, err);
            if (rc != 0)
                break;
        }
    json_decref(root);
    return rc != 0 ? rc : table_check(t, params, err);
}
