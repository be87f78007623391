#include "workers/stages/transcribe/decode/language.h"

#include <stddef.h>

void language_add(struct language_tally *t, int32_t language, float prob)
{
    uint32_t i = 0;

    while (i < t->count && t->counts[i].language != language)
        i++;
    if (i == LANGUAGE_TALLY)
        return;
    if (i == t->count)
        t->counts[t->count++] = (struct language_count){.language = language};
    t->counts[i].windows++;
    t->counts[i].prob += (double)prob;
    t->windows++;
}

bool language_most(const struct language_tally *t, int32_t *language, float *prob)
{
    const struct language_count *best = NULL;

    for (uint32_t i = 0; i < t->count; i++) {
        const struct language_count *c = &t->counts[i];

        if (!best || c->windows > best->windows ||
            (c->windows == best->windows && c->prob > best->prob))
            best = c;
    }
    if (!best)
        return false;
    *language = best->language;
    *prob = (float)(best->prob / best->windows);
    return true;
}

bool language_ask(struct language_tally *t, const struct language_rule *rule, int32_t heard,
                  float heard_prob, int32_t *language, float *prob)
{
    if (heard_prob >= rule->threshold) {
        *language = heard;
        *prob = heard_prob;
        return true;
    }
    language_add(t, heard, heard_prob);
    return t->windows >= rule->windows && language_most(t, language, prob);
}
