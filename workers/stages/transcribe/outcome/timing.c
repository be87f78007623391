#include "workers/stages/transcribe/outcome/timing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/whisper/whisper.h"
#include "workers/stages/transcribe/outcome/hallucination.h"
#include "workers/stages/transcribe/outcome/loudness.h"
#include "workers/stages/transcribe/outcome/words.h"

#define RATE WHISPER_RATE_HZ
#define FRAME 320     /* samples of an encoder's position */
#define SEEK_STEP 160 /* samples: where windows begin, as in the reference */
#define PROMPT_MAX 4  /* start, language, task, no timestamps */
#define HELD 25       /* frames beside its segment in which a word of a known text may be: 0.5 s */
#define NEVER (-1e3f) /* of the matrix, which is of standard deviations */

struct timing {
    const struct vocabulary *vocab; /* borrowed */
    struct whisper_head heads[WHISPER_MAX_ALIGN_HEADS];
    uint32_t head_count, positions;
    float *matrix;   /* [positions][1500] */
    double *logprob; /* [positions] */
    int32_t *tokens; /* [positions] */
    float *pcm;      /* a window's audio, of lanes that do not hold it: [480000] */
    struct loudness loudness;
};

int timing_new(const struct whisper_config *config, const struct vocabulary *vocab,
               struct timing **ret, struct err *err)
{
    uint32_t heads[WHISPER_MAX_ALIGN_HEADS][2], n;
    struct timing *t;

    n = words_heads(vocab, config->decoder_layers, config->decoder_heads, heads,
                    WHISPER_MAX_ALIGN_HEADS);
    if (!n || vocabulary_ids(vocab)->no_timestamps < 0)
        return err_set(err, ERR_USAGE, "the model cannot tell when words are said");
    t = calloc(1, sizeof(*t));
    if (t) {
        t->vocab = vocab;
        t->positions = config->max_target_positions;
        t->matrix = malloc((size_t)t->positions * WHISPER_POSITIONS * sizeof(*t->matrix));
        t->logprob = malloc(t->positions * sizeof(*t->logprob));
        t->tokens = malloc(t->positions * sizeof(*t->tokens));
        t->pcm = malloc(WHISPER_WINDOW_SAMPLES * sizeof(*t->pcm));
    }
    if (!t || !t->matrix || !t->logprob || !t->tokens || !t->pcm) {
        timing_free(t);
        return err_set(err, ERR_NOMEM, "no memory for the times of words");
    }
    t->head_count = n < WHISPER_MAX_ALIGN_HEADS ? n : WHISPER_MAX_ALIGN_HEADS;
    for (uint32_t i = 0; i < t->head_count; i++)
        t->heads[i] = (struct whisper_head){heads[i][0], heads[i][1]};
    *ret = t;
    return 0;
}

void timing_free(struct timing *t)
{
    if (!t)
        return;
    free(t->matrix);
    free(t->logprob);
    free(t->tokens);
    free(t->pcm);
    free(t);
}

/* ---- asking the model */

static bool is_text(const struct timing *t, int32_t token)
{
    return token < vocabulary_ids(t->vocab)->eot;
}

static uint32_t put_prompt(const struct timing *t, const struct decoding_result *r, bool translate)
{
    const struct vocabulary_ids *ids = vocabulary_ids(t->vocab);
    uint32_t n = 0;

    t->tokens[n++] = ids->sot;
    if (vocabulary_multilingual(t->vocab)) {
        t->tokens[n++] = r->language;
        t->tokens[n++] = translate ? ids->translate : ids->transcribe;
    }
    t->tokens[n++] = ids->no_timestamps;
    return n;
}

/* The drafts' text tokens, as many as there are positions for. Returns the end. */
static uint32_t put_text(const struct timing *t, const struct decoding_result *r,
                         const struct outcome *o, uint32_t n)
{
    for (uint32_t i = 0; i < o->count; i++)
        for (size_t k = 0; k < o->drafts[i].span.count; k++) {
            int32_t token = r->tokens[o->drafts[i].span.first + k];

            if (is_text(t, token) && n < t->positions - 1)
                t->tokens[n++] = token;
        }
    return n;
}

static uint32_t frames_of(const struct lane_window *w)
{
    int64_t frames = w->samples / FRAME;

    return frames < 1 ? 1 : frames > WHISPER_POSITIONS ? WHISPER_POSITIONS : (uint32_t)frames;
}

/* Attention wanders, and when the segments of a known text were said is known. Its tokens begin
 * there; the last one of a segment lasts until the next one's first. */
static void hold_to_segments(struct timing *t, const struct outcome *o, uint32_t prompt,
                             uint32_t frames)
{
    float *row = t->matrix + (size_t)(prompt - 1) * frames;

    for (uint32_t i = 0; i < o->count; i++) {
        const struct span *s = &o->drafts[i].span;
        const int64_t from = s->start / FRAME - HELD, to = s->end / FRAME + HELD;

        for (size_t k = 0; k < s->count; k++, row += frames)
            for (int64_t at = 0; at < frames; at++)
                if (at < from || (at >= to && k + 1 < s->count))
                    row[at] = NEVER;
    }
}

static int align(struct timing *t, struct whisper_session *session, uint32_t slot,
                 const struct lane_window *w, const struct decoding_result *r, struct outcome *o,
                 struct err *err)
{
    const struct vocabulary *v = t->vocab;
    const char *code = vocabulary_multilingual(v) ? vocabulary_language_code(v, r->language) : "en";
    uint32_t prompt = put_prompt(t, r, w->lane->policy->params->translate);
    uint32_t end = put_text(t, r, o, prompt), frames = frames_of(w);
    int rc;

    if (end == prompt)
        return 0;
    t->tokens[end] = vocabulary_ids(v)->eot;
    rc = whisper_align(session, slot, t->tokens, end + 1, frames, t->heads, t->head_count,
                       t->matrix, t->logprob, err);
    if (rc)
        return rc;
    if (w->lane->told)
        hold_to_segments(t, o, prompt, frames);
    return words_align(v, code ? code : "", t->tokens + prompt, end - prompt, t->matrix, t->logprob,
                       prompt, frames, &o->words, err);
}

/* ---- words and segments */

/* A word belongs to the segment of its first token. */
static void share_words(const struct timing *t, const struct decoding_result *r, struct outcome *o)
{
    uint32_t at = 0, tokens = 0;

    for (uint32_t i = 0; i < o->count; i++) {
        struct draft *d = &o->drafts[i];

        for (size_t k = 0; k < d->span.count; k++)
            tokens += is_text(t, r->tokens[d->span.first + k]);
        d->first_word = at;
        while (at < o->words.count && o->words.words[at].first < tokens)
            at++;
        d->words = at - d->first_word;
    }
}

/* Words go to where they are heard. The audio is still there: held by the window, or by the source
 * until the window has ended. */
static void place(struct timing *t, const struct lane_window *w, struct outcome *o)
{
    const struct lane *l = w->lane;
    const float *pcm = w->pcm;
    float before = 0, length = (float)w->samples / RATE;

    if (!pcm) {
        if (l->source.read(l->source.arg, w->at, (size_t)w->samples, t->pcm) != w->samples)
            return;
        pcm = t->pcm;
    }
    loudness_measure(pcm, (size_t)w->samples, &t->loudness);
    for (uint32_t i = 0; i < o->count; i++) {
        struct draft *d = &o->drafts[i];
        struct word *words = o->words.words + d->first_word;
        uint32_t next = d->first_word + d->words;

        if (!d->words)
            continue;
        loudness_place(&t->loudness, words, d->words, d->start, d->end, before,
                       next < o->words.count ? o->words.words[next].start : length);
        before = words[d->words - 1].end;
    }
}

/* last: end of the speech before, from the window's begin. */
static void fit(struct outcome *o, double last, double window)
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

/* Where the next window begins: after the last word, unless the text says that it is all. */
static void move_by_words(const struct lane_window *w, double threshold, struct outcome *o)
{
    double end = last_end(o), rest = (double)WHISPER_WINDOW_SAMPLES / RATE - end;

    if (o->closed || end <= 0)
        return;
    o->advance = threshold > 0 && rest <= threshold ? w->samples : seek_of(end, w->samples);
}

/* What ends before `seek` seconds is dropped; what comes behind is heard again from there. */
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
        .at_end = w->samples < WHISPER_WINDOW_SAMPLES,
    };
    double seek;
    uint32_t keep = hallucination_find(&rule, o, &seek);

    if (keep == o->count)
        return;
    drop_from(o, keep, seek);
    o->advance = seek_of(seek, w->samples);
}

int timing_words(struct timing *t, struct whisper_session *session, uint32_t slot,
                 const struct lane_window *w, const struct decoding_result *r, struct outcome *o,
                 struct err *err)
{
    const struct lane *l = w->lane;
    bool packed = l->policy->packed || l->told; /* no window begins where its text says */
    double threshold = (double)l->policy->params->hallucination_silence_threshold;
    double last = packed ? 0 : (double)(l->speech_end - w->at) / RATE, end;
    int rc = align(t, session, slot, w, r, o, err);

    if (rc)
        return rc;
    share_words(t, r, o);
    place(t, w, o);
    fit(o, last, packed ? 0 : (double)(w->at - l->begin) / RATE);
    if (!packed)
        move_by_words(w, threshold, o);
    if (!packed && threshold > 0)
        skip_hallucinations(w, threshold, last, o);
    end = last_end(o);
    o->speech_end = end < 0 ? -1 : llround(end * RATE);
    return 0;
}
