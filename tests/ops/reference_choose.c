#include "tests/ops/reference_choose.h"

#include <math.h>
#include <stdbool.h>

static const int32_t never[] = {7, 300, EOT}; /* the end in it is to be ignored */
static const int32_t never_first[] = {220, EOT};
static const int32_t languages[] = {642, 643};

const struct rules_spec reference_rules = {
    .vocab = VOCAB,
    .eot = EOT,
    .no_speech = NO_SPEECH,
    .timestamp_begin = TS,
    .timestamp_end = TS_END,
    .max_initial = TS + 50,
    .never = never,
    .never_count = 3,
    .never_first = never_first,
    .never_first_count = 2,
    .languages = languages,
    .language_count = 2,
};

void reference_mask(const int32_t *seq, size_t n, float *l)
{
    bool last = n >= 1 && seq[n - 1] >= TS, penultimate = n < 2 || seq[n - 2] >= TS;
    int32_t previous = -1;

    l[7] = l[300] = -INFINITY;         /* SuppressTokens: those of the model's files */
    for (int i = EOT + 1; i < TS; i++) /* and the specials */
        l[i] = -INFINITY;
    for (int i = TS_END + 1; i < VOCAB; i++)
        l[i] = -INFINITY;
    if (n == 0) /* SuppressBlank */
        l[220] = l[EOT] = -INFINITY;
    if (last)
        for (int i = 0; i < VOCAB; i++)
            if (penultimate ? i >= TS : i < EOT)
                l[i] = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (seq[i] >= TS)
            previous = seq[i];
    if (previous >= 0)
        for (int i = TS; i < (last && !penultimate ? previous : previous + 1); i++)
            l[i] = -INFINITY;
    if (n == 0)
        for (int i = 0; i < VOCAB; i++)
            if (i < TS || i > TS + 50)
                l[i] = -INFINITY;
}

double reference_log_sum(const float *l, int from, int to)
{
    double max = -INFINITY, sum = 0;

    for (int i = from; i < to; i++)
        max = (double)l[i] > max ? (double)l[i] : max;
    if (isinf(max))
        return -INFINITY;
    for (int i = from; i < to; i++)
        sum += isnan(l[i]) ? 0.0 : exp((double)l[i] - max);
    return max + log(sum);
}

void reference_mass(float *l, double *margin)
{
    double time = reference_log_sum(l, TS, VOCAB), text = -INFINITY;

    for (int i = 0; i < TS; i++)
        text = (double)l[i] > text ? (double)l[i] : text;
    *margin = isinf(time) || isinf(text) ? INFINITY : fabs(time - text);
    if (time > text)
        for (int i = 0; i < TS; i++)
            l[i] = -INFINITY;
}

struct choice_ask reference_ask(const int32_t *seq, size_t n)
{
    struct choice_ask ask = {.count = (int32_t)n, .last = -1, .before = -1, .last_time = -1};

    ask.what = CHOOSE_TOKEN;
    ask.last = n > 0 ? seq[n - 1] : -1;
    ask.before = n > 1 ? seq[n - 2] : -1;
    for (size_t i = 0; i < n; i++)
        ask.last_time = seq[i] >= TS ? seq[i] : ask.last_time;
    return ask;
}
