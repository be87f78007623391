#include "workers/stages/transcribe/outcome/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/decode/language.h"
#include "workers/stages/transcribe/outcome/words.h"

#define RATE ASR_RATE_HZ
#define SEEK_STEP 160   /* samples: where windows begin, as in the reference */
#define HELD (RATE / 2) /* samples beside its segment in which a word of a known text may be */
/* One of the windows that are asked for together. */
struct asked {
    struct asr_alignment a; /* n 0: it has no text, and is not asked for */
    int32_t language;
    struct loudness loudness; /* steps 0: not known */
};

struct timing {
    const struct asr_model *model; /* borrowed */
    uint32_t frames_max;           /* of a window */
    uint32_t room;                 /* tokens of all windows: */
    int32_t *tokens;
    double *logprob;
    uint32_t *first_frame;
    struct align_hold *hold;
    uint32_t used;                      /* of them so far */
    struct asked asked[TIMING_WINDOWS]; /* so many: */
    uint32_t count;
    struct asr_alignment to[TIMING_WINDOWS]; /* those that have text */
    float *pcm; /* a window's audio, of lanes that do not hold it: [window_samples] */
};

int timing_new(const struct asr_model *model, struct timing **ret, struct err *err)
{
    size_t room = (size_t)model->positions * ASR_ALIGN_WINDOWS;
    struct timing *t;

    if (!model->align_heads)
        return err_set(err, ERR_USAGE, "the model cannot tell when words are said");
    t = calloc(1, sizeof(*t));
    if (t) {
        t->model = model;
        t->frames_max = model->window_samples / model->frame_samples;
        t->room = (uint32_t)room;
        t->tokens = malloc(room * sizeof(*t->tokens));
        t->logprob = malloc(room * sizeof(*t->logprob));
        t->first_frame = malloc(room * sizeof(*t->first_frame));
        t->hold = malloc(room * sizeof(*t->hold));
        t->pcm = malloc(model->window_samples * sizeof(*t->pcm));
    }
    if (!t || !t->tokens || !t->logprob || !t->first_frame || !t->hold || !t->pcm) {
        timing_free(t);
        return err_set(err, ERR_NOMEM, "no memory for the times of words");
    }
    *ret = t;
    return 0;
}

void timing_free(struct timing *t)
{
    if (!t)
        return;
    free(t->tokens);
    free(t->logprob);
    free(t->first_frame);
    free(t->hold);
    free(t->pcm);
    free(t);
}

/* ---- asking the model */

void timing_begin(struct timing *t) { t->used = t->count = 0; }

static bool is_text(const struct timing *t, int32_t token)
{
    return token < vocabulary_ids(t->model->vocab)->eot;
}

/* The drafts' text tokens behind a prompt of n tokens, as many as there are positions for. Returns
 * the end. */
static uint32_t put_text(const struct timing *t, const struct decoding_result *r, struct outcome *o,
                         int32_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < o->count; i++) {
        struct draft *d = &o->drafts[i];

        d->texts = 0;
        for (size_t k = 0; k < d->span.count; k++) {
            int32_t token = r->tokens[d->span.first + k];

            if (!is_text(t, token))
                continue;
            d->texts++;
            if (n < t->model->positions - 1)
                tokens[n++] = token;
        }
    }
    return n;
}

static uint32_t frames_of(const struct timing *t, const struct lane_window *w)
{
    int64_t frames = w->samples / t->model->frame_samples;

    return frames < 1 ? 1 : frames > t->frames_max ? t->frames_max : (uint32_t)frames;
}

static uint32_t frame_number(int64_t frame) { return frame > 0 ? (uint32_t)frame : 0; }

/* Attention wanders, and when the segments of a known text were said is known. Its tokens begin
 * there; the last one of a segment lasts until the next one's first. hold: of n tokens. */
static void hold_to_segments(const struct timing *t, const struct outcome *o, uint32_t n,
                             struct align_hold *hold)
{
    const int64_t frame = t->model->frame_samples, held = HELD / frame;
    uint32_t at = 0;

    for (uint32_t i = 0; i < o->count; i++) {
        const struct span *s = &o->drafts[i].span;

        for (size_t k = 0; k < s->count && at < n; k++)
            hold[at++] = (struct align_hold){frame_number(s->start / frame - held),
                                             k + 1 < s->count ? frame_number(s->end / frame + held)
                                                              : UINT32_MAX};
    }
    while (at < n)
        hold[at++] = (struct align_hold){0, UINT32_MAX};
}

/* The audio is still there: held by the window, or by the source until the window has ended. */
static void measure_window(struct timing *t, const struct lane_window *w, struct loudness *ret)
{
    const struct lane *l = w->lane;
    const float *pcm = w->pcm;

    ret->steps = 0;
    if (!pcm) {
        if (l->source.read(l->source.arg, w->at, (size_t)w->samples, t->pcm) != w->samples)
            return;
        pcm = t->pcm;
    }
    loudness_measure(pcm, (size_t)w->samples, ret);
}

bool timing_add(struct timing *t, const struct asr_session *session, uint32_t slot,
                const struct lane_window *w, const struct decoding_result *r, struct outcome *o)
{
    const struct asr_model *m = t->model;
    const struct asr_task task = {.language = r->language,
                                  .translate = w->lane->policy->params->translate};
    uint32_t room = t->room < session->align_tokens ? t->room : session->align_tokens;
    uint32_t at = t->used, prompt, end;
    struct asked *asked = &t->asked[t->count];

    if (t->count == TIMING_WINDOWS || room - at < (t->count ? m->prompt_max + r->count + 1 : 1))
        return false;
    prompt = m->ops->prompt(m->vocab, task, t->tokens + at);
    end = put_text(t, r, o, t->tokens + at, prompt);
    asked->language = r->language;
    asked->a = (struct asr_alignment){.slot = slot, .text = prompt};
    if (end > prompt) {
        t->tokens[at + end] = vocabulary_ids(m->vocab)->eot;
        asked->a.n = end + 1;
        asked->a.frames = frames_of(t, w);
        asked->a.tokens = t->tokens + at;
        asked->a.logprob = t->logprob + at;
        asked->a.first_frame = t->first_frame + at;
        if (w->lane->known_text) {
            hold_to_segments(t, o, end + 1 - prompt, t->hold + at);
            asked->a.hold = t->hold + at;
        }
        t->used += end + 1;
    }
    measure_window(t, w, &asked->loudness);
    t->count++;
    return true;
}

int timing_align(struct timing *t, struct asr_session *session, struct err *err)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->count; i++)
        if (t->asked[i].a.n)
            t->to[n++] = t->asked[i].a;
    return n ? t->model->ops->align(session, t->to, n, err) : 0;
}

/* ---- text that seems invented */

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

/* ---- words and segments */

/* A word belongs to the segment of its first token. */
static void share_words(struct outcome *o)
{
    uint32_t at = 0, tokens = 0;

    for (uint32_t i = 0; i < o->count; i++) {
        struct draft *d = &o->drafts[i];

        tokens += d->texts;
        d->first_word = at;
        while (at < o->words.count && o->words.words[at].first < tokens)
            at++;
        d->words = at - d->first_word;
    }
}

/* Words go to where they are heard. */
static void place_words_by_loudness(const struct loudness *l, const struct lane_window *w,
                                    struct outcome *o)
{
    float before = 0, length = (float)w->samples / RATE;

    for (uint32_t i = 0; i < o->count; i++) {
        struct draft *d = &o->drafts[i];
        struct word *words = o->words.words + d->first_word;
        uint32_t next = d->first_word + d->words;

        if (!d->words)
            continue;
        loudness_place(l, words, d->words, d->start, d->end, before,
                       next < o->words.count ? o->words.words[next].start : length);
        before = words[d->words - 1].end;
    }
}

/* last: end of the speech before, from the window's begin. */
static void fit_words_to_window(struct outcome *o, double last, double window)
{
    for (uint32_t i = 0; i < o->count; i++) {
        struct draft *d = &o->drafts[i];

        if (!d->words)
            continue;
        words_fit(o->words.words + d->first_word, d->words, o->words.median, last, window,
                  &d->start, &d->end);
        last = (double)d->end;
    }
}

/* Seconds from the window's begin; -1 without segments. */
static double last_end(const struct outcome *o)
{
    double end = -1;

    for (uint32_t i = o->count; i-- > 0;) {
        if (o->drafts[i].beside_silence)
            continue;
        if (o->drafts[i].words)
            return (double)o->words.words[o->drafts[i].first_word + o->drafts[i].words - 1].end;
        if (end < 0)
            end = (double)o->drafts[i].end;
    }
    return end;
}

static int64_t seek_of(double seconds, int64_t window)
{
    int64_t at = llrint(seconds * RATE / SEEK_STEP) * SEEK_STEP;

    return at < 1 ? window : at < window ? at : window;
}

/* The length of the model's window in seconds. */
static double window_of(const struct lane_window *w)
{
    return (double)w->lane->policy->model->window_samples / RATE;
}

/* The next window begins after the last word, unless the text closes its window. */
static void move_by_words(const struct lane_window *w, double threshold, struct outcome *o)
{
    double end = last_end(o), rest = window_of(w) - end;

    if (o->closed || end <= 0)
        return;
    o->advance = threshold > 0 && rest <= threshold ? w->samples : seek_of(end, w->samples);
}

/* Marks draft `first` and later ones that end by `seek` seconds as beside silence. Removes those
 * after them: the next window decodes their audio again. */
static void drop_from(struct outcome *o, uint32_t first, double seek)
{
    uint32_t n = first;

    while (n < o->count && (n == first || (double)o->drafts[n].end <= seek))
        o->drafts[n++].beside_silence = true;
    for (uint32_t i = n; i < o->count; i++)
        free(o->drafts[i].text);
    o->count = n;
}

static void skip_hallucinations(const struct lane_window *w, double threshold, double last,
                                struct outcome *o)
{
    struct hallucination_rule rule = {
        .threshold = threshold,
        .begin = (double)(w->at - w->lane->begin) / RATE,
        .length = (double)w->samples / RATE,
        .last_speech = last,
        .window = window_of(w),
        .at_end = w->samples < w->lane->policy->model->window_samples,
    };
    double seek;
    uint32_t keep = hallucination_find(&rule, o, &seek);

    if (keep == o->count)
        return;
    drop_from(o, keep, seek);
    o->advance = seek_of(seek, w->samples);
}

int timing_words(const struct timing *t, uint32_t number, const struct lane_window *w,
                 struct outcome *o, struct err *err)
{
    const struct asr_model *m = t->model;
    const struct asked *asked = &t->asked[number];
    const struct asr_alignment *a = &asked->a;
    const struct lane *l = w->lane;
    bool packed = l->policy->packed || l->known_text; /* no window begins where its text says */
    double threshold = (double)l->policy->params->hallucination_silence_threshold;
    double last = packed ? 0 : (double)(l->speech_end - w->at) / RATE, end;
    int rc = a->n ? words_align(m->vocab, language_code_of(m, asked->language), a->tokens + a->text,
                                a->n - a->text - 1, a->first_frame, a->logprob + a->text,
                                (float)RATE / (float)m->frame_samples, &o->words, err)
                  : 0;

    if (rc)
        return rc;
    share_words(o);
    place_words_by_loudness(&asked->loudness, w, o);
    fit_words_to_window(o, last, packed ? 0 : (double)(w->at - l->begin) / RATE);
    if (!packed)
        move_by_words(w, threshold, o);
    if (!packed && threshold > 0)
        skip_hallucinations(w, threshold, last, o);
    end = last_end(o);
    o->speech_end = end < 0 ? -1 : llround(end * RATE);
    return 0;
}
