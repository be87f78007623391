#include "tools/cli/param_option.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "tools/cli/cli.h"
#include "tools/cli/text.h"

void param_option_name(const struct param_field *f, char ret[PARAM_OPTION_LEN])
{
    snprintf(ret, PARAM_OPTION_LEN, "%s", f->option ? f->option : f->name);
    for (char *s = ret; *s; s++)
        *s = *s == '_' ? '-' : *s;
}

/* ------------------------------------------------------------------------------- values */

/* The option's own, where it is narrower. */
static double choose_bound(const struct param_field *f, double field, double option)
{
    return f->option_low < f->option_high ? option : field;
}

static int take_float(const struct param_field *f, const char *name, const char *value, float *ret,
                      struct err *err)
{
    const float low = (float)choose_bound(f, f->low, f->option_low),
                high = (float)choose_bound(f, f->high, f->option_high);
    char *end;
    float v = strtof(value, &end);

    if (end == value || *end != 0 || !(v >= low && v <= high))
        return err_set(err, ERR_USAGE, "--%s wants a number from %g to %g, not '%s'", name,
                       (double)low, (double)high, value);
    *ret = v == 0 ? 0 : v; /* no -0, which is below 0 for nobody but looks so */
    return 0;
}

static int take_u32(const struct param_field *f, const char *name, const char *value, uint32_t *ret,
                    struct err *err)
{
    char option[PARAM_OPTION_LEN + 2];

    snprintf(option, sizeof(option), "--%s", name);
    return cli_u32(option, value, (uint32_t)choose_bound(f, f->low, f->option_low),
                   (uint32_t)choose_bound(f, f->high, f->option_high), ret, err);
}

static int take_text(const struct param_field *f, const char *name, const char *value, char *ret,
                     struct err *err)
{
    size_t n = strlen(value);

    if (n >= f->size)
        return err_set(err, ERR_USAGE, "--%s has %zu bytes; at most %zu are possible", name, n,
                       f->size - 1);
    if (!utf8_valid(value, n))
        return err_set(err, ERR_USAGE, "--%s is not valid UTF-8", name);
    memset(ret, 0, f->size);
    if (value[strspn(value, " \t\r\n")] != 0) /* blanks alone are no text */
        memcpy(ret, value, n);
    return 0;
}

static uint32_t *count_at(const struct param_field *f, void *params)
{
    return (uint32_t *)((char *)params + f->count);
}

static int take_floats(const struct param_field *f, const char *name, const char *value,
                       void *params, struct err *err)
{
    float *values = (float *)((char *)params + f->offset);
    const uint32_t max = param_field_room(f);
    uint32_t n = 0;

    memset(values, 0, f->size);
    for (const char *s = value;; s++) {
        char *end;
        float v = strtof(s, &end);

        if (end == s || (*end != ',' && *end != 0) ||
            !(v >= (float)f->low && v <= (float)f->high) || n == max ||
            (n > 0 && v <= values[n - 1]))
            return err_set(err, ERR_USAGE,
                           "--%s wants up to %u rising numbers from %g to %g, such as 0,0.2,0.4, "
                           "not '%s'",
                           name, max, f->low, f->high, value);
        values[n++] = v;
        s = end;
        if (*s == 0)
            break;
    }
    *count_at(f, params) = n;
    return 0;
}

/* Sorted, each once: the order in which they are named means nothing. False: no room. */
static bool add_token(int32_t *tokens, uint32_t *count, uint32_t capacity, int32_t token)
{
    uint32_t at = 0;

    while (at < *count && tokens[at] < token)
        at++;
    if (at < *count && tokens[at] == token)
        return true;
    if (*count == capacity)
        return false;
    memmove(&tokens[at + 1], &tokens[at], (*count - at) * sizeof(tokens[0]));
    tokens[at] = token;
    ++*count;
    return true;
}

static int take_tokens(const struct param_field *f, const char *name, const char *value,
                       void *params, struct err *err)
{
    int32_t *tokens = (int32_t *)((char *)params + f->offset);
    bool *own = (bool *)((char *)params + f->flag), bad = false;
    uint32_t *count = count_at(f, params);

    *count = 0;
    *own = false;
    memset(tokens, 0, f->size);
    for (const char *s = value; *value != 0 && !bad; s++) {
        char *end;
        long v = strtol(s, &end, 10);

        bad = end == s || (*end != ',' && *end != 0) || v < -1 || v > PARAM_TOKEN_MAX;
        if (!bad && v == -1)
            *own = true;
        else if (!bad)
            bad = !add_token(tokens, count, param_field_room(f), (int32_t)v);
        s = end;
        if (*s == 0)
            break;
    }
    if (bad)
        return err_set(err, ERR_USAGE,
                       "--%s wants up to %u numbers of tokens, with -1 for the model's own list, "
                       "such as -1,50 (nothing: none at all), not '%.80s'",
                       name, param_field_room(f), value);
    return 0;
}

static int take_choice(const struct param_field *f, const char *name, const char *value,
                       uint32_t *ret, struct err *err)
{
    char choices[200];
    size_t n = 0;

    choices[0] = 0;
    for (uint32_t i = 0; f->choices[i]; i++) {
        if (strcmp(f->choices[i], value) == 0) {
            *ret = i;
            return 0;
        }
        if (n < sizeof(choices))
            n += (size_t)snprintf(choices + n, sizeof(choices) - n, "%s%s", i > 0 ? " or " : "",
                                  f->choices[i]);
    }
    return err_set(err, ERR_USAGE, "--%s is %s, not '%.80s'", name, choices, value);
}

int param_option_take(const struct param_field *f, const char *value, void *params, struct err *err)
{
    void *at = (char *)params + f->offset;
    char name[PARAM_OPTION_LEN];

    param_option_name(f, name);
    if (f->said)
        *(bool *)((char *)params + f->flag) = true;
    switch (f->kind) {
    case PARAM_BOOL:
        *(bool *)at = true;
        return 0;
    case PARAM_U32:
        return take_u32(f, name, value, at, err);
    case PARAM_FLOAT:
        return take_float(f, name, value, at, err);
    case PARAM_TEXT:
        return take_text(f, name, value, at, err);
    case PARAM_CHOICE:
        return take_choice(f, name, value, at, err);
    case PARAM_FLOATS:
        return take_floats(f, name, value, params, err);
    case PARAM_TOKENS:
        return take_tokens(f, name, value, params, err);
    }
    return err_set(err, ERR_USAGE, "--%s sets nothing", name);
}

/* ------------------------------------------------------------------------------- --help */

int param_option_spell(const struct param_field *f, char *ret, size_t len)
{
    char name[PARAM_OPTION_LEN];

    param_option_name(f, name);
    return snprintf(ret, len, "--%s%s%s", name, f->value ? "=" : "", f->value ? f->value : "");
}

void param_option_help(const char *help, size_t column, size_t indent, struct buf *out)
{
    text_wrap(text_to_buf, out, help, column, indent, 80);
    buf_printf(out, "\n");
}
