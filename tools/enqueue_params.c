#include "tools/enqueue_params.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "tools/cli.h"
#include "tools/text.h"
#include "workers/stages/params.h"

enum group { WHAT, VOICE, LANGUAGES, DECODING, THRESHOLDS, WORDS, GROUPS };

static const char *const titles[GROUPS] = {
    [WHAT] = "", /* the caller says it */
    [VOICE] = "Voice activity: where somebody speaks (Silero's model)",
    [LANGUAGES] = "Languages",
    [DECODING] = "How text is searched for",
    [THRESHOLDS] = "When a text is tried again, or is none",
    [WORDS] = "Words",
};

/* How a value is read; BY_FIELD: as the parameter's kind says. */
enum how { BY_FIELD, LANGUAGE, TRANSLATE, TASK, VAD };

struct row {
    enum group group;
    const char *name, *value; /* value: as --help calls it; NULL: it takes none */
    const char *field;        /* in params.h; NULL: the name with '_' */
    enum how how;
    double low, high; /* narrower than the field's; both 0: the field's own */
    const char *help;
};

static const struct row rows[] = {
    {WHAT, "language", "CODE", NULL, LANGUAGE, 0, 0,
     "en, es ...; default: heard from the recording"},
    {WHAT, "translate", NULL, NULL, TRANSLATE, 0, 0, "into English; the same as --task=translate"},
    {WHAT, "task", "TASK", "translate", TASK, 0, 0, "transcribe (default) or translate"},

    {VOICE, "vad", "WHEN", "vad_model", VAD, 0, 0,
     "auto (default: on when its model is here), on, off, or the model's file"},
    {VOICE, "vad-threshold", "P", NULL, BY_FIELD, 0, 0, "above: somebody speaks (0.5)"},
    {VOICE, "vad-neg-threshold", "P", NULL, BY_FIELD, 0, 0,
     "below: nobody does any more (0.15 less)"},
    {VOICE, "vad-min-speech-duration-ms", "N", NULL, BY_FIELD, 0, 0,
     "speech that is shorter is none (0)"},
    {VOICE, "vad-min-silence-duration-ms", "N", NULL, BY_FIELD, 0, 0,
     "a shorter pause is none (160)"},
    {VOICE, "vad-speech-pad-ms", "N", NULL, BY_FIELD, 0, 0,
     "kept before and after speech (400; at most 10000)"},

    {LANGUAGES, "multilingual", NULL, NULL, BY_FIELD, 0, 0, "each window's language is heard anew"},
    {LANGUAGES, "language-detection-segments", "N", NULL, BY_FIELD, 0, 0,
     "windows to ask, until one is sure (4; at most 16)"},
    {LANGUAGES, "language-detection-threshold", "P", NULL, BY_FIELD, 0, 0,
     "as sure as this will do (0.5)"},

    {DECODING, "beam-size", "N", NULL, BY_FIELD, 0, 0, "hypotheses at temperature 0 (1: greedy)"},
    {DECODING, "best-of", "N", NULL, BY_FIELD, 0, 0, "candidates at temperatures above 0 (1)"},
    {DECODING, "patience", "X", NULL, BY_FIELD, 0, 0, "above 1, beams search on for longer (1)"},
    {DECODING, "length-penalty", "X", NULL, BY_FIELD, 0, 10,
     "Google's exponent, up to 10 (default: the mean log probability ranks)"},
    {DECODING, "temperature", "T,...", "temperatures", BY_FIELD, 0, 0,
     "until a window looks right; rising, up to 8, from 0 to 2 (0,0.2,0.4,0.6,0.8,1)"},
    {DECODING, "max-tokens", "N", NULL, BY_FIELD, 1, 448,
     "of one window of 30 s; up to 448 (half of the model's positions)"},
    {DECODING, "without-timestamps", NULL, NULL, BY_FIELD, 0, 0, "one segment a window"},
    {DECODING, "max-initial-timestamp", "S", NULL, BY_FIELD, 0, 30,
     "of a window's first text (the model's: 1)"},
    {DECODING, "condition-on-previous-text", NULL, NULL, BY_FIELD, 0, 0,
     "go by what was said before; needs --vad=off"},
    {DECODING, "prompt-reset-on-temperature", "T", NULL, BY_FIELD, 0, 0,
     "but not by what was got above (0.5)"},
    {DECODING, "initial-prompt", "TEXT", NULL, BY_FIELD, 0, 0,
     "as if this had been said before a shard (with voice activity: a window); up to 223 tokens"},
    {DECODING, "hotwords", "TEXT", NULL, BY_FIELD, 0, 0,
     "names and words to expect; up to 223 tokens"},
    {DECODING, "suppress-tokens", "N,...", NULL, BY_FIELD, 0, 0,
     "never said; -1: the model's list (-1)"},

    {THRESHOLDS, "compression-ratio-threshold", "X", NULL, BY_FIELD, 1, 1000,
     "above: it repeats itself (2.4)"},
    {THRESHOLDS, "logprob-threshold", "X", NULL, BY_FIELD, -100, 0, "below: too unsure (-1)"},
    {THRESHOLDS, "no-speech-threshold", "P", NULL, BY_FIELD, 0, 0, "above: silence (0.6)"},

    {WORDS, "word-timestamps", NULL, NULL, BY_FIELD, 0, 0, "a time for each word"},
    {WORDS, "hallucination-silence-threshold", "S", NULL, BY_FIELD, 0, 0,
     "leave out words that look invented next to such a silence"},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(ROWS <= ENQUEUE_PARAMS_MAX, "struct enqueue_params has no room");

static const struct param_field *field_of(const struct row *r)
{
    char name[64];

    if (r->field != NULL)
        return param_field_find(r->field);
    snprintf(name, sizeof(name), "%s", r->name);
    for (char *s = name; *s; s++)
        *s = *s == '-' ? '_' : *s;
    return param_field_find(name);
}

static const struct row *row_of(int option)
{
    if (option == 'l')
        return &rows[0]; /* language */
    return option >= ENQUEUE_PARAMS_FIRST && option < ENQUEUE_PARAMS_FIRST + (int)ROWS
               ? &rows[option - ENQUEUE_PARAMS_FIRST]
               : NULL;
}

void enqueue_params_init(struct enqueue_params *p)
{
    memset(p, 0, sizeof(*p));
    transcribe_params_default(&p->params);
}

size_t enqueue_params_options(struct option *ret)
{
    for (size_t i = 0; i < ROWS; i++)
        ret[i] =
            (struct option){rows[i].name, rows[i].value != NULL ? required_argument : no_argument,
                            NULL, ENQUEUE_PARAMS_FIRST + (int)i};
    return ROWS;
}

bool enqueue_params_knows(int option) { return row_of(option) != NULL; }

/* ------------------------------------------------------------------------------- values */

static int take_float(const struct row *r, const struct param_field *f, const char *value,
                      float *ret, struct err *err)
{
    const bool own = r->low < r->high;
    const float low = (float)(own ? r->low : f->low), high = (float)(own ? r->high : f->high);
    char *end;
    float v = strtof(value, &end);

    if (end == value || *end != 0 || !(v >= low && v <= high))
        return err_set(err, ERR_USAGE, "--%s wants a number from %g to %g, not '%s'", r->name,
                       (double)low, (double)high, value);
    *ret = v == 0 ? 0 : v; /* no -0, which is below 0 for nobody but looks so */
    return 0;
}

static int take_u32(const struct row *r, const struct param_field *f, const char *value,
                    uint32_t *ret, struct err *err)
{
    const bool own = r->low < r->high;
    char option[64];

    snprintf(option, sizeof(option), "--%s", r->name);
    return cli_u32(option, value, (uint32_t)(own ? r->low : f->low),
                   (uint32_t)(own ? r->high : f->high), ret, err);
}

static int take_text(const struct row *r, const struct param_field *f, const char *value, char *ret,
                     struct err *err)
{
    size_t n = strlen(value);

    if (n >= f->size)
        return err_set(err, ERR_USAGE, "--%s has %zu bytes; at most %zu are possible", r->name, n,
                       f->size - 1);
    if (!utf8_valid(value, n))
        return err_set(err, ERR_USAGE, "--%s is not valid UTF-8", r->name);
    memset(ret, 0, f->size);
    if (value[strspn(value, " \t\r\n")] != 0) /* blanks alone are no text */
        memcpy(ret, value, n);
    return 0;
}

static int take_temperatures(const char *value, struct transcribe_params *p, struct err *err)
{
    const uint32_t max = sizeof(p->temperatures) / sizeof(p->temperatures[0]);
    float last = -1;
    uint32_t n = 0;

    memset(p->temperatures, 0, sizeof(p->temperatures));
    for (const char *s = value;; s++) {
        char *end;
        float v = strtof(s, &end);

        if (end == s || (*end != ',' && *end != 0) || !(v >= 0 && v <= 2) || v <= last || n == max)
            return err_set(err, ERR_USAGE,
                           "--temperature wants up to %u rising numbers from 0 to 2, such as "
                           "0,0.2,0.4, not '%s'",
                           max, value);
        p->temperatures[n++] = last = v;
        s = end;
        if (*s == 0)
            break;
    }
    p->temperature_count = n;
    return 0;
}

/* Sorted, each once: the order in which they are named means nothing. */
static int add_token(struct transcribe_params *p, int32_t token)
{
    uint32_t at = 0;

    while (at < p->suppress_count && p->suppress_tokens[at] < token)
        at++;
    if (at < p->suppress_count && p->suppress_tokens[at] == token)
        return 0;
    if (p->suppress_count == TRANSCRIBE_SUPPRESS_MAX)
        return -1;
    memmove(&p->suppress_tokens[at + 1], &p->suppress_tokens[at],
            (p->suppress_count - at) * sizeof(p->suppress_tokens[0]));
    p->suppress_tokens[at] = token;
    p->suppress_count++;
    return 0;
}

static int take_tokens(const char *value, struct transcribe_params *p, struct err *err)
{
    bool bad = false;

    p->suppress_count = 0;
    p->suppress_model = false;
    memset(p->suppress_tokens, 0, sizeof(p->suppress_tokens));
    for (const char *s = value; *value != 0 && !bad; s++) {
        char *end;
        long v = strtol(s, &end, 10);

        bad = end == s || (*end != ',' && *end != 0) || v < -1 || v > PARAM_TOKEN_MAX;
        if (!bad && v == -1)
            p->suppress_model = true;
        else if (!bad)
            bad = add_token(p, (int32_t)v) != 0;
        s = end;
        if (*s == 0)
            break;
    }
    if (bad)
        return err_set(err, ERR_USAGE,
                       "--suppress-tokens wants up to %d numbers of tokens, with -1 for the "
                       "model's own list, such as -1,50 (nothing: none at all), not '%.80s'",
                       TRANSCRIBE_SUPPRESS_MAX, value);
    return 0;
}

static int take_language(const char *value, struct transcribe_params *p, struct err *err)
{
    if (value[0] == 0 || strlen(value) >= sizeof(p->language))
        return err_set(err, ERR_USAGE, "--language wants a code such as en or es, not '%s'", value);
    memset(p->language, 0, sizeof(p->language));
    utf8_copy(p->language, sizeof(p->language), strcmp(value, "auto") == 0 ? "" : value);
    return 0;
}

static int take_task(const char *value, struct enqueue_params *p, struct err *err)
{
    p->params.translate = strcmp(value, "translate") == 0;
    p->transcribe = !p->params.translate;
    if (p->transcribe && strcmp(value, "transcribe") != 0)
        return err_set(err, ERR_USAGE, "--task is transcribe or translate, not '%s'", value);
    return 0;
}

static int take_vad(const char *value, struct enqueue_params *p, struct err *err)
{
    if (value[0] == 0)
        return err_set(err, ERR_USAGE, "--vad is auto, on, off, or the file of Silero's model");
    p->vad = strcmp(value, "auto") == 0  ? VAD_AUTO
             : strcmp(value, "on") == 0  ? VAD_ON
             : strcmp(value, "off") == 0 ? VAD_OFF
                                         : VAD_PATH;
    p->vad_path = p->vad == VAD_PATH ? value : NULL;
    if (p->vad == VAD_PATH && strchr(value, '/') == NULL && access(value, F_OK) != 0)
        return err_set(err, ERR_USAGE, "--vad is auto, on, off, or a file; there is none '%s' here",
                       value);
    return 0;
}

static int take_field(const struct row *r, const char *value, struct transcribe_params *p,
                      struct err *err)
{
    const struct param_field *f = field_of(r);
    void *at;

    if (f == NULL)
        return err_set(err, ERR_USAGE, "--%s sets nothing", r->name);
    at = (char *)p + f->offset;
    switch (f->kind) {
    case PARAM_BOOL:
        *(bool *)at = true;
        return 0;
    case PARAM_U32:
        return take_u32(r, f, value, at, err);
    case PARAM_FLOAT:
        return take_float(r, f, value, at, err);
    case PARAM_TEXT:
        return take_text(r, f, value, at, err);
    case PARAM_TEMPERATURES:
        return take_temperatures(value, p, err);
    case PARAM_TOKENS:
        return take_tokens(value, p, err);
    }
    return err_set(err, ERR_USAGE, "--%s sets nothing", r->name);
}

int enqueue_params_take(struct enqueue_params *p, int option, const char *value, struct err *err)
{
    const struct row *r = row_of(option);

    if (r == NULL)
        return err_set(err, ERR_USAGE, "an option that does not exist");
    p->given[r - rows] = true;
    switch (r->how) {
    case BY_FIELD:
        return take_field(r, value, &p->params, err);
    case LANGUAGE:
        return take_language(value, &p->params, err);
    case TRANSLATE:
        p->params.translate = true;
        return 0;
    case TASK:
        return take_task(value, p, err);
    case VAD:
        return take_vad(value, p, err);
    }
    return err_set(err, ERR_USAGE, "an option that does not exist");
}

/* ------------------------------------------------------------------------------- together */

static bool given(const struct enqueue_params *p, const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return p->given[i];
    return false;
}

const char *enqueue_params_vad_option(const struct enqueue_params *p)
{
    for (size_t i = 0; i < ROWS; i++)
        if (p->given[i] && rows[i].group == VOICE && rows[i].how != VAD)
            return rows[i].name;
    return NULL;
}

const char *enqueue_params_given(const struct enqueue_params *p)
{
    for (size_t i = 0; i < ROWS; i++)
        if (p->given[i])
            return rows[i].name;
    return NULL;
}

int enqueue_params_agree(const struct enqueue_params *p, struct err *err)
{
    const struct transcribe_params *q = &p->params;
    const char *vad_option = enqueue_params_vad_option(p);
    const struct {
        bool wrong;
        const char *what;
    } rules[] = {
        {given(p, "translate") && p->transcribe,
         "--translate and --task=transcribe exclude each other"},
        {q->initial_prompt[0] && q->hotwords[0] && q->vad_model[0],
         "--hotwords does nothing beside --initial-prompt with voice activity, where the prompt "
         "stands before every window; try one of them, or --vad=off"},
        {q->condition_on_previous_text && q->vad_model[0],
         "--condition-on-previous-text works without voice activity alone (--vad=off): speech that "
         "it has cut is decoded in any order"},
        {given(p, "prompt-reset-on-temperature") && !q->condition_on_previous_text,
         "--prompt-reset-on-temperature does nothing without --condition-on-previous-text"},
        {given(p, "patience") && q->beam_size < 2,
         "--patience does nothing without --beam-size of 2 or more"},
        {given(p, "length-penalty") && q->beam_size < 2 && q->best_of < 2,
         "--length-penalty does nothing without --beam-size or --best-of of 2 or more"},
        {given(p, "best-of") && q->best_of > 1 && q->temperatures[q->temperature_count - 1] == 0,
         "--best-of does nothing when no --temperature is above 0"},
        {given(p, "beam-size") && q->beam_size > 1 && q->temperatures[0] > 0,
         "--beam-size does nothing when --temperature has no 0"},
        {given(p, "max-initial-timestamp") && q->without_timestamps,
         "--max-initial-timestamp and --without-timestamps exclude each other"},
        {q->hallucination_silence_threshold > 0 && !q->word_timestamps,
         "--hallucination-silence-threshold does nothing without --word-timestamps"},
        {q->multilingual && q->language[0],
         "--multilingual and --language exclude each other: windows are heard, or it is said"},
        {(given(p, "language-detection-segments") || given(p, "language-detection-threshold")) &&
             (q->language[0] || q->multilingual),
         "--language-detection-segments and -threshold do nothing with --language or "
         "--multilingual"},
        {(given(p, "language-detection-segments") || given(p, "language-detection-threshold")) &&
             !q->vad_model[0],
         "--language-detection-segments and -threshold do nothing without voice activity (--vad): "
         "the first window with speech decides then"},
    };

    if (vad_option != NULL && !q->vad_model[0])
        return err_set(err, ERR_USAGE, "--%s does nothing without voice activity (--vad)",
                       vad_option);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].wrong)
            return err_set(err, ERR_USAGE, "%s", rules[i].what);
    return transcribe_params_check(q, err);
}

/* ------------------------------------------------------------------------------- --help */

static int named(const struct row *r, char *ret, size_t len)
{
    return snprintf(ret, len, "--%s%s%s", r->name, r->value ? "=" : "", r->value ? r->value : "");
}

static void to_buf(void *arg, const char *bytes, size_t n) { buf_put(arg, bytes, n); }

static void help_row(struct buf *out, const struct row *r, size_t width)
{
    char name[64];

    named(r, name, sizeof(name));
    buf_printf(out, "%s%-*s", strcmp(r->name, "language") == 0 ? "  -l, " : "      ", (int)width,
               name);
    text_wrap(to_buf, out, r->help, width + 6, width + 6, 80);
    buf_printf(out, "\n");
}

void enqueue_params_help(struct buf *out)
{
    char name[64];

    for (enum group g = 0; g < GROUPS; g++) {
        size_t width = 19; /* as the caller's own options, which begin the first group */

        for (size_t i = 0; i < ROWS; i++)
            if (rows[i].group == g && (size_t)named(&rows[i], name, sizeof(name)) > width)
                width = strlen(name);
        if (g != WHAT)
            buf_printf(out, "%s:\n", titles[g]);
        for (size_t i = 0; i < ROWS; i++)
            if (rows[i].group == g)
                help_row(out, &rows[i], width + 2);
    }
}
