/* The parameters of the transcribe stage: their table, defaults and ranges. How they are written is
 * in params_json.c. */
#include "workers/stages/params.h"

#include <string.h>

#include "base/utf8.h"

#define AT(field) \
    offsetof(struct transcribe_params, field), sizeof(((struct transcribe_params *)0)->field)
#define FLAG(field)                                   \
    {                                                 \
        .name = #field, .kind = PARAM_BOOL, AT(field) \
    }
#define COUNT(field, min, max)                                                    \
    {                                                                             \
        .name = #field, .kind = PARAM_U32, AT(field), .low = (min), .high = (max) \
    }
#define NUMBER(field, min, max)                                                     \
    {                                                                               \
        .name = #field, .kind = PARAM_FLOAT, AT(field), .low = (min), .high = (max) \
    }
#define NUMBER_OR_UNSET(field, max)                                                  \
    {                                                                                \
        .name = #field, .kind = PARAM_FLOAT, AT(field), .high = (max), .unset = true \
    }
#define TEXT(field)                                   \
    {                                                 \
        .name = #field, .kind = PARAM_TEXT, AT(field) \
    }
#define TEMPERATURES_MAX (sizeof(((struct transcribe_params *)0)->temperatures) / sizeof(float))
#define HOUR_MS 3600000

const struct param_field param_fields[] = {
    COUNT(beam_size, 1, 16),
    COUNT(best_of, 1, 16),
    {.name = "compression_ratio_threshold",
     .kind = PARAM_FLOAT,
     AT(compression_ratio_threshold),
     .high = 1000,
     .always = true},
    FLAG(condition_on_previous_text),
    NUMBER(hallucination_silence_threshold, 0, 3600),
    TEXT(hotwords),
    TEXT(initial_prompt),
    {.name = "language", .kind = PARAM_TEXT, AT(language), .always = true},
    COUNT(language_detection_segments, 1, 16),
    NUMBER(language_detection_threshold, 0, 1),
    NUMBER_OR_UNSET(length_penalty, 10),
    {.name = "logprob_threshold",
     .kind = PARAM_FLOAT,
     AT(logprob_threshold),
     .low = -1000,
     .always = true},
    NUMBER_OR_UNSET(max_initial_timestamp, 30),
    {.name = "max_tokens", .kind = PARAM_U32, AT(max_tokens), .high = 100000, .always = true},
    FLAG(multilingual),
    {.name = "no_speech_threshold",
     .kind = PARAM_FLOAT,
     AT(no_speech_threshold),
     .high = 1,
     .always = true},
    NUMBER(patience, 0.1, 10),
    NUMBER(prompt_reset_on_temperature, 0, 2),
    {.name = "suppress_tokens", .kind = PARAM_TOKENS, AT(suppress_tokens)},
    {.name = "temperatures", .kind = PARAM_TEMPERATURES, AT(temperatures), .always = true},
    {.name = "translate", .kind = PARAM_BOOL, AT(translate), .always = true},
    TEXT(vad_hash),
    COUNT(vad_min_silence_duration_ms, 0, HOUR_MS),
    COUNT(vad_min_speech_duration_ms, 0, HOUR_MS),
    TEXT(vad_model),
    NUMBER_OR_UNSET(vad_neg_threshold, 1),
    COUNT(vad_speech_pad_ms, 0, 10000),
    NUMBER(vad_threshold, 0, 1),
    FLAG(without_timestamps),
    FLAG(word_timestamps),
};
const size_t param_field_count = sizeof(param_fields) / sizeof(param_fields[0]);

const struct param_field *param_field_find(const char *name)
{
    for (size_t i = 0; i < param_field_count; i++)
        if (strcmp(param_fields[i].name, name) == 0)
            return &param_fields[i];
    return NULL;
}

void transcribe_params_default(struct transcribe_params *p)
{
    static const float ladder[] = {0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f};

    memset(p, 0, sizeof(*p)); /* the padding too: equal parameters are equal bytes */
    memcpy(p->temperatures, ladder, sizeof(ladder));
    p->temperature_count = 6;
    p->compression_ratio_threshold = 2.4f;
    p->logprob_threshold = -1.0f;
    p->no_speech_threshold = 0.6f;
    p->beam_size = 1;
    p->best_of = 1;
    p->patience = 1.0f;
    p->length_penalty = -1.0f;
    p->max_initial_timestamp = -1.0f;
    p->prompt_reset_on_temperature = 0.5f;
    p->suppress_model = true;
    p->language_detection_segments = 4;
    p->language_detection_threshold = 0.5f;
    p->vad_threshold = 0.5f;
    p->vad_neg_threshold = -1.0f;
    p->vad_min_silence_duration_ms = 160;
    p->vad_speech_pad_ms = 400;
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

static int check_temperatures(const struct transcribe_params *p, struct err *err)
{
    int rc;

    if (p->temperature_count < 1 || p->temperature_count > TEMPERATURES_MAX)
        return err_set(err, ERR_USAGE, "there are %u temperatures; 1 to %zu are possible",
                       p->temperature_count, TEMPERATURES_MAX);
    for (uint32_t i = 0; i < p->temperature_count; i++) {
        if ((rc = check_range("a temperature", p->temperatures[i], 0, 2, err)))
            return rc;
        if (i && p->temperatures[i] <= p->temperatures[i - 1])
            return err_set(err, ERR_USAGE, "the temperatures must ascend");
    }
    return 0;
}

static int check_tokens(const struct transcribe_params *p, struct err *err)
{
    if (p->suppress_count > TRANSCRIBE_SUPPRESS_MAX)
        return err_set(err, ERR_USAGE, "suppress_tokens has %u tokens, above %d", p->suppress_count,
                       TRANSCRIBE_SUPPRESS_MAX);
    for (uint32_t i = 0; i < p->suppress_count; i++) {
        if (p->suppress_tokens[i] < 0 || p->suppress_tokens[i] > PARAM_TOKEN_MAX)
            return err_set(err, ERR_USAGE, "suppress_tokens has %d, which is no token",
                           p->suppress_tokens[i]);
        if (i && p->suppress_tokens[i] <= p->suppress_tokens[i - 1])
            return err_set(err, ERR_USAGE, "suppress_tokens must ascend");
    }
    return 0;
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

static int check_field(const struct param_field *f, const struct transcribe_params *p,
                       struct err *err)
{
    const void *at = (const char *)p + f->offset;
    const float low = (float)f->low, high = (float)f->high;
    uint32_t count;

    switch (f->kind) {
    case PARAM_BOOL:
        return 0;
    case PARAM_U32:
        count = *(const uint32_t *)at;
        if (count < (uint32_t)f->low || count > (uint32_t)f->high)
            return err_set(err, ERR_USAGE, "%s is %u, outside %u..%u", f->name, count,
                           (uint32_t)f->low, (uint32_t)f->high);
        return 0;
    case PARAM_FLOAT:
        if (f->unset && *(const float *)at < 0)
            return 0;
        return check_range(f->name, *(const float *)at, low, high, err);
    case PARAM_TEXT:
        return check_text(f, at, err);
    case PARAM_TEMPERATURES:
        return check_temperatures(p, err);
    case PARAM_TOKENS:
        return check_tokens(p, err);
    }
    return err_set(err, ERR_USAGE, "%s is of no known kind", f->name);
}

/* Which model, and that it is the one that was meant: neither goes without the other. */
static int check_vad(const struct transcribe_params *p, struct err *err)
{
    size_t n = strlen(p->vad_hash);

    if (p->vad_model[0] == 0)
        return n == 0 ? 0 : err_set(err, ERR_USAGE, "vad_hash is given without vad_model");
    if (p->vad_model[0] != '/' && strchr(p->vad_model, '/'))
        return err_set(err, ERR_USAGE, "vad_model is neither a name nor an absolute path");
    if (n != 32 || strspn(p->vad_hash, "0123456789abcdef") != n)
        return err_set(err, ERR_USAGE, "vad_hash is not 32 hexadecimal digits");
    if (p->condition_on_previous_text)
        return err_set(err, ERR_USAGE,
                       "condition_on_previous_text works without voice activity alone: speech "
                       "that it has cut is decoded in any order");
    if (p->vad_neg_threshold >= 0 && p->vad_neg_threshold > p->vad_threshold)
        return err_set(err, ERR_USAGE, "vad_neg_threshold is %g, above vad_threshold, %g",
                       (double)p->vad_neg_threshold, (double)p->vad_threshold);
    return 0;
}

int transcribe_params_check(const struct transcribe_params *p, struct err *err)
{
    int rc;

    for (size_t i = 0; i < param_field_count; i++)
        if ((rc = check_field(&param_fields[i], p, err)))
            return rc;
    if ((rc = check_language(p->language, err)) || (rc = check_vad(p, err)))
        return rc;
    if (p->hallucination_silence_threshold > 0 && !p->word_timestamps)
        return err_set(err, ERR_USAGE,
                       "hallucination_silence_threshold goes by word times: word_timestamps must "
                       "be on");
    if (p->multilingual && p->language[0])
        return err_set(err, ERR_USAGE,
                       "multilingual asks each window for its language, and language says which "
                       "it is: one of them must go");
    return 0;
}
