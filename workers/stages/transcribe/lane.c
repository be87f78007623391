#include "workers/stages/transcribe/lane.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "workers/models/asr_model.h"

/* ---- lists of segments */

static void free_words(const struct result_word *words, uint32_t n)
{
    for (uint32_t i = 0; words && i < n; i++)
        free((char *)words[i].text);
    free((struct result_word *)words);
}

static void free_segment(struct result_segment *s)
{
    free((char *)s->text);
    free((char *)s->reason);
    free_words(s->words, s->word_count);
}

void yield_free(struct yield *y)
{
    for (uint32_t i = 0; i < y->count; i++)
        free_segment(&y->segments[i]);
    free(y->segments);
    *y = (struct yield){0};
}

static int make_room(struct yield *y, uint32_t more, struct err *err)
{
    struct result_segment *segments;
    uint32_t capacity = y->capacity ? y->capacity : 8;

    if (y->capacity - y->count >= more)
        return 0;
    while (capacity - y->count < more)
        capacity *= 2;
    segments = realloc(y->segments, capacity * sizeof(*segments));
    if (!segments)
        return err_set(err, ERR_NOMEM, "no memory for a segment");
    y->segments = segments;
    y->capacity = capacity;
    return 0;
}

/* NULL: no memory; what was copied is freed again. */
static struct result_word *copy_words(const struct result_word *words, uint32_t n)
{
    struct result_word *copy = calloc(n, sizeof(*copy));

    for (uint32_t i = 0; copy && i < n; i++) {
        copy[i] = words[i];
        copy[i].text = strdup(words[i].text);
        if (!copy[i].text) {
            free_words(copy, i);
            return NULL;
        }
    }
    return copy;
}

int yield_add(struct yield *y, const struct result_segment *segment, struct err *err)
{
    struct result_segment s = *segment;
    int rc = make_room(y, 1, err);

    if (rc)
        return rc;
    s.text = strdup(segment->text);
    s.reason = strdup(segment->reason);
    s.words = s.word_count ? copy_words(segment->words, s.word_count) : NULL;
    if (!s.text || !s.reason || (s.word_count && !s.words)) {
        free_segment(&s);
        return err_set(err, ERR_NOMEM, "no memory for a segment");
    }
    y->segments[y->count++] = s;
    return 0;
}

int yield_own_words(struct result_segment *s, struct err *err)
{
    s->words = s->word_count ? copy_words(s->words, s->word_count) : NULL;
    if (!s->word_count || s->words)
        return 0;
    s->word_count = 0;
    return err_set(err, ERR_NOMEM, "no memory for the words of a segment");
}

int yield_move(struct yield *to, struct yield *from, struct err *err)
{
    int rc = make_room(to, from->count, err);

    if (rc || !from->count)
        return rc;
    memcpy(to->segments + to->count, from->segments, from->count * sizeof(*from->segments));
    to->count += from->count;
    from->count = 0;
    yield_free(from);
    return 0;
}

/* Nearly sorted already: only pieces that were heard again stand behind what comes after them. */
void yield_sort(struct yield *y)
{
    for (uint32_t i = 1; i < y->count; i++) {
        struct result_segment s = y->segments[i];
        uint32_t at = i;

        for (; at > 0 && y->segments[at - 1].start_ms > s.start_ms; at--)
            y->segments[at] = y->segments[at - 1];
        y->segments[at] = s;
    }
}

/* ---- lanes of all kinds */

static struct lane *new_lane(const struct lane_policy *policy, int64_t begin,
                             struct lane_source source, struct err *err)
{
    struct lane *l = calloc(1, sizeof(*l));

    if (!l) {
        err_set(err, ERR_NOMEM, "no memory for a lane");
        return NULL;
    }
    l->policy = policy;
    l->source = source;
    l->begin = l->end = l->counted = l->speech_end = begin;
    l->account.speech_ms = policy->packed ? 0 : -1;
    return l;
}

int lane_new(const struct lane_policy *policy, int64_t begin, int32_t language, uint64_t seed,
             struct lane_source source, struct lane **ret, struct err *err)
{
    struct lane *l = new_lane(policy, begin, source, err);
    int rc;

    if (!l)
        return err->code;
    l->seed = seed;
    l->language = language;
    l->is_given = language >= 0;
    l->language_prob = 1;
    rc = policy->packed ? packed_begin(l, err) : sequential_begin(l, err);
    if (rc) {
        lane_free(l);
        return rc;
    }
    *ret = l;
    return 0;
}

int lane_new_known_text(const struct lane_policy *policy, int64_t begin,
                        const struct result_known_text *known_text, uint32_t text_source,
                        struct lane_source source, struct lane **ret, struct err *err)
{
    struct lane *l = new_lane(policy, begin, source, err);
    int rc = l ? known_text_begin(l, known_text, text_source, err) : err->code;

    if (rc)
        lane_free(l);
    else
        *ret = l;
    return rc;
}

void lane_free(struct lane *l)
{
    if (!l)
        return;
    while (l->first_window) {
        struct lane_window *next = l->first_window->next;
        lane_window_free(l->first_window);
        l->first_window = next;
    }
    packed_free(l->listening);
    known_text_free(l);
    yield_free(&l->yield);
    free(l->previous);
    free(l);
}

void lane_fail(struct lane *l, const struct err *why)
{
    if (l->state == LANE_ENDED)
        return;
    l->failed = why->code;
    l->err = *why;
    l->state = LANE_ENDED;
}

int64_t lane_count(struct lane *l)
{
    int64_t n = l->end - l->counted;

    l->counted = l->end;
    return n;
}

void lane_move(struct lane *l, int64_t to)
{
    l->end = to;
    l->source.release(l->source.arg, to);
}

/* ---- windows */

int lane_window_new(struct lane *l, int64_t at, struct lane_window **ret, struct err *err)
{
    struct lane_window *w = calloc(1, sizeof(*w));

    if (!w)
        return err_set(err, ERR_NOMEM, "no memory for a window");
    w->lane = l;
    w->at = at;
    *ret = w;
    return 0;
}

void lane_window_free(struct lane_window *w)
{
    if (!w)
        return;
    yield_free(&w->yield);
    pack_free(&w->pack);
    free(w->pcm);
    free(w->voice);
    free(w->coverage);
    free(w);
}

/* The window's place (a piece may begin where its whole does), not its number: a lane's windows do
 * not depend on how it was cut into calls.
 */
uint64_t lane_window_seed(const struct lane_window *w)
{
    uint64_t seed = number_seed(w->lane->seed, (uint64_t)(w->at - w->lane->begin));

    return w->depth ? number_seed(seed, w->depth) : seed;
}

int lane_next(struct lane *l, float *room, const float **pcm, struct lane_window **ret,
              struct err *err)
{
    int rc;

    *ret = NULL;
    if (l->state == LANE_ENDED)
        return 0;
    if (l->known_text)
        *ret = known_text_next(l);
    rc = l->known_text       ? 0
         : l->policy->packed ? packed_next(l, ret, err)
                             : sequential_next(l, room, ret, err);
    *pcm = *ret && (*ret)->pcm ? (*ret)->pcm : room;
    return rc;
}

uint32_t lane_queued(const struct lane *l)
{
    if (l->state == LANE_ENDED)
        return 0;
    if (l->known_text)
        return known_text_queued(l);
    if (l->policy->packed)
        return packed_queued(l);
    return !l->first_window || l->first_window->place == WINDOW_QUEUED;
}

uint32_t lane_coming(const struct lane *l)
{
    if (l->state == LANE_ENDED)
        return 0;
    if (l->known_text)
        return known_text_coming(l);
    return l->policy->packed ? packed_coming(l) : 1;
}

const int32_t *lane_previous(const struct lane_window *w, uint32_t *n)
{
    const struct lane *l = w->lane;
    const struct lane_policy *p = l->policy;

    if (l->previous_count) {
        *n = l->previous_count;
        return l->previous;
    }
    if (p->packed && p->initial_count) {
        *n = p->initial_count;
        return p->initial;
    }
    *n = p->hotwords_count;
    return p->hotwords;
}

/* Without a text before it such a window is over by now (decoding.h). */
static bool is_mute(const struct lane *l, float no_speech)
{
    return no_speech > (float)NO_SPEECH_CERTAIN &&
           no_speech > l->policy->params->no_speech_threshold;
}

/* Windows that follow each other speak one language, their first one's, unless many are expected:
 * then each that is sure of its own speaks that. */
static void sequential_language(const struct lane_window *w, int32_t heard, float heard_prob,
                                int32_t *language, float *prob)
{
    const struct lane *l = w->lane;
    bool many = l->policy->params->multilingual;
    bool own = l->language < 0 || (many && (heard_prob >= LANGUAGE_SURE));

    *language = own ? heard : l->language;
    *prob = own ? heard_prob : 1;
}

int lane_language(struct lane_window *w, int32_t heard, float heard_prob, float no_speech,
                  int32_t *language, float *prob, enum lane_hearing *ret, struct err *err)
{
    const struct lane *l = w->lane;

    w->mute = is_mute(l, no_speech);
    *language = heard;
    *prob = heard_prob;
    *ret = LANE_GOES;
    if (!vocabulary_multilingual(l->policy->model->vocab))
        return 0;
    if (!l->policy->packed) {
        sequential_language(w, heard, heard_prob, language, prob);
        return 0;
    }
    /* Its lane may never have a language, and may have one by now or not: it waits for nobody. */
    if (w->whole && w->whole->unasked && !l->is_given)
        return 0;
    if (l->language >= 0 && !l->policy->params->multilingual) {
        *language = l->language;
        *prob = 1;
        return 0;
    }
    return packed_language(w, heard, heard_prob, language, prob, ret, err);
}

int lane_take(struct lane_window *w, const struct decoding_result *r, struct outcome *o,
              struct err *err)
{
    return w->lane->policy->packed ? packed_take(w, r, o, err) : sequential_take(w, r, o, err);
}

/* ---- the end */

void lane_note_language(struct lane *l, const struct lane_window *w, int32_t language, float prob)
{
    language_add(&l->spoken, language, prob);
    if (l->language < 0 && !w->mute && !l->policy->packed) {
        l->language = language;
        l->language_prob = prob;
    }
}

void lane_tell(struct lane *l)
{
    const struct asr_model *m = l->policy->model;
    struct lane_result result = {
        .end_sample = l->end,
        .windows = l->windows,
        .segment_count = l->yield.count,
        .segments = l->yield.segments,
        .language = "",
        .account = l->account,
    };

    if (l->failed) {
        l->done(l->done_arg, NULL, &l->err);
        return;
    }
    yield_sort(&l->yield);
    if (l->policy->params->multilingual || l->language < 0)
        language_most(&l->spoken, &l->language, &l->language_prob);
    if (l->known_text) {
        known_text_result(l, &result);
    } else if (l->spoke) {
        result.language = language_code_of(m, l->language);
        result.language_prob = l->language_prob;
    }
    l->done(l->done_arg, &result, NULL);
}
