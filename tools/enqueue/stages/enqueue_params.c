#include "tools/enqueue/stages/enqueue_params.h"

#include <string.h>

#include "tools/enqueue/stages/enqueue_language.h"

static void add_row(struct enqueue_params *p, const struct param_field *f)
{
    struct enqueue_option *o = &p->options[p->count];

    if (p->count == ENQUEUE_PARAMS_MAX)
        return;
    o->field = f;
    param_option_name(f, o->name);
    p->count++;
}

void enqueue_params_init(struct enqueue_params *p)
{
    const struct param_table *t = &transcribe_table;

    memset(p, 0, sizeof(*p));
    param_table_asked(t, &p->params);
    for (const struct param_field *f = t->fields; f < t->fields + t->count; f++) {
        if (f->help)
            add_row(p, f);
        if (other_words_behind(f))
            add_row(p, other_words_behind(f));
    }
}

/* p->count: there is no such one. */
static size_t find_param(const struct enqueue_params *p, const char *name)
{
    size_t i = 0;

    while (i < p->count && strcmp(p->options[i].name, name) != 0)
        i++;
    return i;
}

/* ------------------------------------------------------------------------------- values */

static int take_task(const char *value, struct enqueue_params *p, struct err *err)
{
    int rc = param_option_take(&other_words_task, value, &p->other, err);

    p->params.translate = p->other.task == 1;
    return rc;
}

static bool is_param_given(const struct enqueue_params *p, const char *name);

static int take_quality(const char *value, struct enqueue_params *p, struct err *err)
{
    int rc = param_option_take(&other_words_quality, value, &p->other, err);
    struct transcribe_params usual;

    if (p->other.quality == 1)
        transcribe_params_default(&usual); /* one hypothesis */
    else
        param_table_asked(&transcribe_table, &usual);
    if (!is_param_given(p, "beam-size"))
        p->params.beam_size = usual.beam_size;
    if (!is_param_given(p, "best-of"))
        p->params.best_of = usual.best_of;
    return rc;
}

int enqueue_params_take(struct enqueue_params *p, const struct param_field *f, const char *value,
                        struct err *err)
{
    struct enqueue_option *o = p->options;

    while (o < p->options + p->count && o->field != f)
        o++;
    if (o == p->options + p->count)
        return err_set(err, ERR_USAGE, "an option that does not exist");
    o->given = true;
    o->value = value;
    if (strcmp(o->name, "language") == 0)
        return enqueue_language_take(value, &p->params, err);
    if (o->field == &other_words_task)
        return take_task(value, p, err);
    if (o->field == &other_words_quality)
        return take_quality(value, p, err);
    if (o->field == &other_words_one_language)
        return param_option_take(o->field, value, &p->other, err);
    if (strcmp(o->name, "vad") == 0)
        return enqueue_vad_take(o->name, value, &p->vad, err);
    return param_option_take(o->field, value, &p->params, err);
}

/* ------------------------------------------------------------------------------- together */

static bool is_param_given(const struct enqueue_params *p, const char *name)
{
    const size_t i = find_param(p, name);

    return i < p->count && p->options[i].given;
}

const char *enqueue_params_vad_option(const struct enqueue_params *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->options[i].given && strncmp(p->options[i].name, "vad-", 4) == 0)
            return p->options[i].name;
    return NULL;
}

void enqueue_params_say(struct enqueue_params *p, const char *name, const char *value)
{
    const size_t i = find_param(p, name);
    struct err ignored = {0};

    if (i < p->count && !p->options[i].given)
        (void)enqueue_params_take(p, p->options[i].field, value, &ignored);
}

void enqueue_params_resolve(struct enqueue_params *p)
{
    const bool said = p->params.language[0] && !transcribe_many_languages(&p->params);

    if (!is_param_given(p, "multilingual"))
        p->params.multilingual = !said && !p->other.one_language;
}

bool enqueue_params_many_languages(const struct enqueue_params *p)
{
    return is_param_given(p, "multilingual");
}

const char *enqueue_params_given(const struct enqueue_params *p)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->options[i].given)
            return p->options[i].name;
    return NULL;
}

int enqueue_params_agree(const struct enqueue_params *p, struct err *err)
{
    const struct transcribe_params *q = &p->params;
    const char *vad_option = enqueue_params_vad_option(p);
    const bool said = q->language[0] && !transcribe_many_languages(q); /* which it is */
    const struct {
        bool wrong;
        const char *what;
    } rules[] = {
        {is_param_given(p, "translate") && is_param_given(p, "task") && p->other.task == 0,
         "--translate and --task=transcribe exclude each other"},
        {q->initial_prompt[0] && q->hotwords[0] && q->vad_model[0],
         "--hotwords does nothing with --initial-prompt and voice activity, because the prompt "
         "goes before every window; try one of them, or --vad=off"},
        {q->condition_on_previous_text && q->vad_model[0],
         "--condition-on-previous-text works only without voice activity (--vad=off), because that "
         "decodes its windows in any order"},
        {is_param_given(p, "prompt-reset-on-temperature") && !q->condition_on_previous_text,
         "--prompt-reset-on-temperature does nothing without --condition-on-previous-text"},
        {is_param_given(p, "patience") && q->beam_size < 2,
         "--patience does nothing without --beam-size of 2 or more"},
        {is_param_given(p, "length-penalty") && q->beam_size < 2 && q->best_of < 2,
         "--length-penalty does nothing without --beam-size or --best-of of 2 or more"},
        {is_param_given(p, "best-of") && q->best_of > 1 &&
             q->temperatures[q->temperature_count - 1] == 0,
         "--best-of does nothing when no --temperature is above 0"},
        {is_param_given(p, "beam-size") && q->beam_size > 1 && q->temperatures[0] > 0,
         "--beam-size does nothing when --temperature has no 0"},
        {is_param_given(p, "max-initial-timestamp") && q->without_timestamps,
         "--max-initial-timestamp and --without-timestamps exclude each other"},
        {q->hallucination_silence_threshold > 0 && !q->word_timestamps,
         "--hallucination-silence-threshold does nothing without --word-timestamps"},
        {is_param_given(p, "multilingual") && (said || p->other.one_language),
         "--multilingual and --one-language, or --language with one language, exclude each other"},
        {p->other.one_language && said,
         "--one-language does nothing with --language, unless that names several"},
        {(is_param_given(p, "language-detection-segments") ||
          is_param_given(p, "language-detection-threshold")) &&
             said,
         "--language-detection-segments and -threshold do nothing with --language"},
        {(is_param_given(p, "language-detection-segments") ||
          is_param_given(p, "language-detection-threshold")) &&
             !q->vad_model[0],
         "--language-detection-segments and -threshold do nothing without voice activity (--vad): "
         "the first window with speech decides then"},
    };

    if (vad_option && !q->vad_model[0])
        return err_set(err, ERR_USAGE, "--%s does nothing without voice activity (--vad)",
                       vad_option);
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].wrong)
            return err_set(err, ERR_USAGE, "%s", rules[i].what);
    return transcribe_params_check(q, err);
}
