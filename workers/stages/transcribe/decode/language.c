#include "workers/stages/transcribe/decode/language.h"

#include <math.h>
#include <stddef.h>

#include "workers/models/asr_model.h"
#include "workers/text/tokenizer/vocabulary.h"

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

/* ---- changes */

#define STRETCHES_MAX 64
#define CHANGE_PRICE 2.5f /* nats: twelve times likelier; to change and back 150 times */
#define PAUSE_PRICE 1.7f  /* after a pause, when somebody else may speak */
#define PAUSE_SAMPLES 16000
#define STRETCH_SAMPLES 32000 /* a stretch counts by its length in these, at most LONG of them */
#define LONG 2.0f
#define OTHER_LEAST 1e-4f /* even where the model is certain, it may err */
#define OTHERS 3.0f       /* languages that share what the heard one leaves */

struct choice_way {
    float cost;
    uint32_t from;
};

static float cost_of(const struct language_stretch *s, int32_t language)
{
    float prob = language == s->language ? s->prob : (1 - s->prob) / OTHERS;
    float share = (float)(s->end - s->start) / STRETCH_SAMPLES;

    return -logf(fmaxf(prob, OTHER_LEAST)) * fminf(share, LONG);
}

static float price_of(const struct language_stretch *s)
{
    return s->pause >= PAUSE_SAMPLES ? PAUSE_PRICE : CHANGE_PRICE;
}

static uint32_t find_languages(const struct language_stretch *s, uint32_t n, int32_t usual,
                               int32_t *ret)
{
    uint32_t count = 0;

    if (usual >= 0)
        ret[count++] = usual;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;

        while (k < count && ret[k] != s[i].language)
            k++;
        if (k == count)
            ret[count++] = s[i].language;
    }
    return count;
}

void language_smooth(struct language_stretch *s, uint32_t n, int32_t usual)
{
    int32_t languages[STRETCHES_MAX + 1];
    struct choice_way way[STRETCHES_MAX][STRETCHES_MAX + 1];
    uint32_t count, best = 0;

    if (n == 0 || n > STRETCHES_MAX)
        return;
    count = find_languages(s, n, usual, languages);
    for (uint32_t k = 0; k < count; k++)
        way[0][k] = (struct choice_way){
            cost_of(&s[0], languages[k]) + (usual >= 0 && k ? CHANGE_PRICE / 2 : 0), 0};
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t k = 0; k < count; k++) {
            struct choice_way *w = &way[i][k];

            *w = (struct choice_way){way[i - 1][k].cost, k};
            for (uint32_t from = 0; from < count; from++)
                if (way[i - 1][from].cost + price_of(&s[i]) < w->cost)
                    *w = (struct choice_way){way[i - 1][from].cost + price_of(&s[i]), from};
            w->cost += cost_of(&s[i], languages[k]);
        }
    for (uint32_t k = 1; k < count; k++)
        if (way[n - 1][k].cost < way[n - 1][best].cost)
            best = k;
    for (uint32_t i = n; i-- > 0;) {
        if (s[i].language != languages[best])
            s[i].prob = (1 - s[i].prob) / OTHERS;
        s[i].language = languages[best];
        best = way[i][best].from;
    }
}

float language_mean(const struct language_stretch *s, uint32_t n)
{
    double sum = 0, samples = 0;

    for (uint32_t i = 0; i < n; i++) {
        sum += (double)s[i].prob * (double)(s[i].end - s[i].start);
        samples += (double)(s[i].end - s[i].start);
    }
    return samples > 0 ? (float)(sum / samples) : 0;
}

const char *language_code_of(const struct asr_model *m, int32_t language)
{
    const char *code = vocabulary_multilingual(m->vocab)
                           ? vocabulary_language_code(m->vocab, language)
                           : m->language;

    return code ? code : "";
}
