#include "workers/stages/transcribe/outcome/hallucination.h"

#include <string.h>

#define WORDS_LOOKED_AT 8
#define EDGE 2.0 /* seconds at a window's ends that count as silence */

/* How odd a word is: improbable, shorter than anybody speaks, or longer. */
static double score_word_oddness(const struct word *w)
{
    double length = (double)w->end - (double)w->start, score = 0;

    if (w->probability < 0.15f)
        score += 1;
    if (length < 0.133)
        score += (0.133 - length) * 15;
    if (length > 2)
        score += length - 2;
    return score;
}

static bool is_odd(const struct outcome *o, const struct draft *d)
{
    uint32_t n = 0;
    double score = 0;

    for (uint32_t i = 0; i < d->words && n < WORDS_LOOKED_AT; i++) {
        const struct word *w = &o->words.words[d->first_word + i];

        if (strstr(WORDS_PREPEND WORDS_APPEND, w->text))
            continue;
        score += score_word_oddness(w);
        n++;
    }
    return d->words > 0 && (score >= 3 || score + 0.01 >= n);
}

/* The first one from i on that has words; NULL: none. */
static const struct draft *with_words(const struct outcome *o, uint32_t i)
{
    while (i < o->count && !o->drafts[i].words)
        i++;
    return i < o->count ? &o->drafts[i] : NULL;
}

static double begin_of(const struct outcome *o, const struct draft *d)
{
    return (double)o->words.words[d->first_word].start;
}

static bool in_silence(const struct hallucination_rule *rule, const struct outcome *o, uint32_t i,
                       double last)
{
    const struct draft *d = &o->drafts[i], *next = with_words(o, i + 1);
    double start = (double)d->start, end = (double)d->end;
    double following = next ? begin_of(o, next) : rule->length;
    bool before, after;

    before =
        start - last > rule->threshold || rule->begin + start < rule->threshold || start < EDGE;
    after =
        following - end > rule->threshold || (next && is_odd(o, next)) || rule->window - end < EDGE;
    return before && after;
}

uint32_t hallucination_find(const struct hallucination_rule *rule, const struct outcome *o,
                            double *seek)
{
    const struct draft *first = with_words(o, 0);
    double last = rule->last_speech;

    if (first && is_odd(o, first) && (double)first->start > rule->threshold) {
        *seek = (double)first->start;
        return 0;
    }
    for (uint32_t i = 0; i < o->count; i++) {
        const struct draft *d = &o->drafts[i];

        if (!d->words)
            continue;
        if (is_odd(o, d) && in_silence(rule, o, i, last)) {
            *seek = d->start > 1 ? (double)d->start : 1;
            if (rule->at_end && rule->length - (double)d->end < rule->threshold)
                *seek = rule->length;
            return i;
        }
        last = (double)d->end;
    }
    return o->count;
}
