/* The parameters of the transcribe stage: defaults, ranges, and their one way of being written, of
 * which the catalog keeps a hash. */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "workers/stages/transcribe.h"

#define TEMPERATURES_MAX (sizeof(((struct transcribe_params *)0)->temperatures) / sizeof(float))

void transcribe_params_default(struct transcribe_params *p)
{
    *p = (struct transcribe_params){
        .temperatures = {0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f},
        .temperature_count = 6,
        .compression_ratio_threshold = 2.4f,
        .logprob_threshold = -1.0f,
        .no_speech_threshold = 0.6f,
    };
}

static int check_range(const char *name, float value, float low, float high, struct err *err)
{
    if (value >= low && value <= high)
        return 0;
    return err_set(err, ERR_USAGE, "%s is %g, outside %g..%g", name, (double)value, (double)low,
                   (double)high);
}

static int check_language(const char *code, struct err *err)
{
    size_t n = strnlen(code, sizeof(((struct transcribe_params *)0)->language));

    if (n == sizeof(((struct transcribe_params *)0)->language))
        return err_set(err, ERR_USAGE, "the language code is too long; 'en' is one");
    for (size_t i = 0; i < n; i++)
        if (!(code[i] >= 'a' && code[i] <= 'z') && code[i] != '-' && code[i] != '_')
            return err_set(err, ERR_USAGE, "the language must be a code in lower case, as 'en'");
    return 0;
}

int transcribe_params_check(const struct transcribe_params *p, struct err *err)
{
    int rc;

    if ((rc = check_language(p->language, err)))
        return rc;
    if (p->temperature_count < 1 || p->temperature_count > TEMPERATURES_MAX)
        return err_set(err, ERR_USAGE, "there are %u temperatures; 1 to %zu are possible",
                       p->temperature_count, TEMPERATURES_MAX);
    for (uint32_t i = 0; i < p->temperature_count; i++) {
        if ((rc = check_range("a temperature", p->temperatures[i], 0, 2, err)))
            return rc;
        if (i && p->temperatures[i] <= p->temperatures[i - 1])
            return err_set(err, ERR_USAGE, "the temperatures must ascend");
    }
    if ((rc = check_range("compression_ratio_threshold", p->compression_ratio_threshold, 0, 1000,
                          err)) ||
        (rc = check_range("logprob_threshold", p->logprob_threshold, -1000, 0, err)) ||
        (rc = check_range("no_speech_threshold", p->no_speech_threshold, 0, 1, err)))
        return rc;
    if (p->max_tokens > 100000)
        return err_set(err, ERR_USAGE, "max_tokens is %u, above 100000", p->max_tokens);
    return 0;
}

/* The shortest decimal that reads back as the same float. */
static void put_float(struct buf *b, float value)
{
    char text[32];

    for (int digits = 1; digits <= 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    buf_printf(b, "%s", value == 0 ? "0" : text);
}

int transcribe_params_to_json(const struct transcribe_params *p, char **ret, struct err *err)
{
    struct buf b = BUF_INIT;
    int rc = transcribe_params_check(p, err);

    if (rc)
        return rc;
    buf_printf(&b, "{\"compression_ratio_threshold\":");
    put_float(&b, p->compression_ratio_threshold);
    buf_printf(&b, ",\"language\":\"%s\",\"logprob_threshold\":", p->language);
    put_float(&b, p->logprob_threshold);
    buf_printf(&b, ",\"max_tokens\":%u,\"no_speech_threshold\":", p->max_tokens);
    put_float(&b, p->no_speech_threshold);
    buf_printf(&b, ",\"temperatures\":[");
    for (uint32_t i = 0; i < p->temperature_count; i++) {
        buf_printf(&b, "%s", i ? "," : "");
        put_float(&b, p->temperatures[i]);
    }
    buf_printf(&b, "],\"translate\":%s}", p->translate ? "true" : "false");
    if (!buf_cstr(&b)) {
        buf_free(&b);
        return err_set(err, ERR_NOMEM, "no memory for the transcription's parameters");
    }
    *ret = (char *)b.data;
    return 0;
}

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

static int take_value(const char *key, const json_t *value, struct transcribe_params *p,
                      struct err *err)
{
    if (strcmp(key, "compression_ratio_threshold") == 0)
        return take_float(value, key, &p->compression_ratio_threshold, err);
    if (strcmp(key, "logprob_threshold") == 0)
        return take_float(value, key, &p->logprob_threshold, err);
    if (strcmp(key, "no_speech_threshold") == 0)
        return take_float(value, key, &p->no_speech_threshold, err);
    if (strcmp(key, "temperatures") == 0)
        return take_temperatures(value, p, err);
    if (strcmp(key, "translate") == 0 && json_is_boolean(value)) {
        p->translate = json_is_true(value);
        return 0;
    }
    if (strcmp(key, "max_tokens") == 0 && json_is_integer(value) &&
        json_integer_value(value) >= 0 && json_integer_value(value) <= 100000) {
        p->max_tokens = (uint32_t)json_integer_value(value);
        return 0;
    }
    if (strcmp(key, "language") == 0 && json_is_string(value) &&
        json_string_length(value) < sizeof(p->language)) {
        memcpy(p->language, json_string_value(value), json_string_length(value) + 1);
        return 0;
    }
    return err_set(err, ERR_USAGE, "the parameter '%.40s' is unknown or has an unusable value",
                   key);
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
