#include "workers/stages/transcribe/outcome/outcome.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/decode/language.h"
#include "workers/stages/transcribe/outcome/coverage.h"
#include "workers/stages/transcribe/outcome/doubt.h"
#include "workers/stages/transcribe/outcome/pauses.h"
#include "workers/stages/transcribe/outcome/timing.h"
#include "workers/text/codepoints.h"

#define RATE ASR_RATE_HZ

void outcome_free(struct outcome *o)
{
    for (uint32_t i = 0; i < o->count; i++)
        free(o->drafts[i].text);
    free(o->drafts);
    words_free(&o->words);
    *o = (struct outcome){0};
}

/* ---- from tokens to drafts */

static int read_text(const struct vocabulary *v, const int32_t *tokens, struct draft *d,
                     struct err *err)
{
    int rc = vocabulary_decode(v, tokens + d->span.first, d->span.count, &d->text, err);

    if (!rc && !clean_text(d->text)) {
        free(d->text);
        d->text = NULL;
    }
    return rc;
}

static int make_drafts(struct outcome *o, const struct lane_window *w,
                       const struct decoding_result *r, struct err *err)
{
    const struct lane_policy *p = w->lane->policy;
    struct span *spans = malloc(r->count * sizeof(*spans));
    struct split split = {0};
    int rc = 0;

    if (spans) {
        spans_split(r->tokens, r->count, vocabulary_ids(p->model->vocab), w->samples, p->packed,
                    spans, &split);
        o->drafts = calloc(split.count + 1, sizeof(*o->drafts));
    }
    if (!o->drafts) {
        free(spans);
        return err_set(err, ERR_NOMEM, "no memory for a window's segments");
    }
    o->advance = split.advance;
    o->closed = split.closed;
    for (size_t i = 0; !rc && i < split.count; i++) {
        struct draft *d = &o->drafts[o->count++];

        d->span = spans[i];
        d->start = (float)spans[i].start / RATE;
        d->end = (float)spans[i].end / RATE;
        rc = read_text(p->model->vocab, r->tokens, d, err);
    }
    free(spans);
    return rc;
}

int outcome_make(const struct lane_window *w, const struct decoding_result *r,
                 struct timing *timing, struct asr_session *session, uint32_t slot,
                 struct outcome *ret, struct err *err)
{
    struct outcome o = {.advance = w->samples, .speech_end = -1};
    int rc = 0;

    if (r->count) {
        rc = make_drafts(&o, w, r, err);
        if (r->silent) /* its text is not believed, and moves nothing */
            o.advance = w->samples;
        else if (!rc && timing)
            rc = timing_words(timing, session, slot, w, r, &o, err);
    }
    if (rc)
        outcome_free(&o);
    else
        *ret = o;
    return rc;
}

/* ---- from the window's time to the recording's */

/* Down, as shards and durations are: only a recording's end lies between two milliseconds, and its
 * last segment must not end beyond it. */
static int64_t to_ms(int64_t samples) { return samples / (RATE / 1000); }

static int64_t map_window_sample(const struct lane_window *w, int64_t sample, bool is_end)
{
    return w->pack.count ? pack_time(&w->pack, sample, is_end) : w->at + sample;
}

static int64_t sample_of(const struct lane_window *w, float seconds)
{
    int64_t sample = llround((double)seconds * RATE);

    return sample < 0 ? 0 : sample < w->samples ? sample : w->samples;
}

/* One line, and the leading blank stays: false when nothing else is there. */
static bool clean_word(char *text)
{
    bool blank = text[0] == ' ';
    size_t n = clean_text(text);

    if (n && blank) {
        memmove(text + 1, text, n + 1); /* the blank has left room */
        text[0] = ' ';
    }
    return n > 0;
}

/* The words of a draft in the recording, never before the one before. Returns how many. */
static uint32_t place_words(const struct outcome *o, const struct draft *d,
                            const struct lane_window *w, int64_t after_ms, struct result_word *ret)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->words; i++) {
        struct word *word = &o->words.words[d->first_word + i];
        int64_t from = sample_of(w, word->start), to = sample_of(w, word->end);

        if (!clean_word(word->text))
            continue;
        if (w->pack.count) {
            pack_word(&w->pack, from, to, &from, &to);
        } else {
            from += w->at;
            to += w->at;
        }
        ret[n].start_ms = to_ms(from) > after_ms ? to_ms(from) : after_ms;
        ret[n].end_ms = to_ms(to) > ret[n].start_ms ? to_ms(to) : ret[n].start_ms;
        ret[n].text = word->text;
        ret[n].probability = result_probability(word->probability);
        after_ms = ret[n++].start_ms;
    }
    return n;
}

/* Mean log probability of what is read of a segment: how sure its times are is another thing. */
static float mean_text_logprob(const struct vocabulary *v, const struct decoding_result *r,
                               const struct span *span)
{
    int32_t times = vocabulary_ids(v)->timestamp_begin;
    double sum = 0;
    size_t n = 0;

    for (size_t i = span->first; i < span->first + span->count; i++)
        if (r->tokens[i] < times) {
            sum += (double)r->logprobs[i];
            n++;
        }
    return n ? (float)(sum / (double)n) : r->avg_logprob;
}

/* heard_ms: how much of it the model has heard. */
static void mark_segment_doubt(struct result_segment *s, const struct draft *d, int64_t heard_ms,
                               const struct decoding_result *r, const struct transcribe_params *p,
                               char *reason, size_t len)
{
    struct doubt_facts facts = {
        .text = s->text,
        .language = s->language,
        .start_ms = s->start_ms,
        .end_ms = s->start_ms + heard_ms,
        .avg_logprob = r->silent ? fminf(r->avg_logprob, r->text_logprob) : r->avg_logprob,
        .text_logprob = s->avg_logprob,
        .no_speech_prob = s->no_speech_prob,
        .compression_ratio = s->compression_ratio,
        .attempts = s->attempts,
        .was_repetitive = r->repetitive,
        .was_unlikely = r->unlikely,
        .speech_prob = s->speech_prob > 1 ? 1 : s->speech_prob, /* -1 stays */
        .words = s->words,
        .word_count = s->word_count,
        .beside_silence = d->beside_silence,
    };
    uint32_t signs = doubt_signs(&facts, p);

    s->dropped = r->silent || doubt_drops(signs);
    s->reason = doubt_text(signs, reason, len);
}

static int64_t latest(int64_t a, int64_t b) { return a > b ? a : b; }

/* Without words a segment has its timestamps' time; with words theirs, but its own where words_fit
 * found them too far off: then a word may stand out of it, by less than half of one. */
static void place_draft(const struct outcome *o, const struct draft *d, const struct lane_window *w,
                        int64_t after_ms, struct result_word *words, struct result_segment *s)
{
    const struct word *all = o->words.words + d->first_word;
    uint32_t n = d->words ? place_words(o, d, w, after_ms, words) : 0;
    bool own_start = !n || d->start != all[0].start,
         own_end = !n || d->end != all[d->words - 1].end;

    s->word_count = n;
    s->words = n ? words : NULL;
    s->start_ms =
        own_start ? to_ms(map_window_sample(w, sample_of(w, d->start), false)) : words[0].start_ms;
    s->start_ms = latest(s->start_ms, after_ms);
    s->end_ms = own_end ? to_ms(map_window_sample(w, sample_of(w, d->end), true)) : s->start_ms;
    for (uint32_t i = 0; i < n && !(own_end && i == n - 1); i++)
        s->end_ms = latest(s->end_ms, words[i].end_ms);
    if (s->end_ms > s->start_ms)
        return;
    /* Words that attention put into one place tell no duration; the timestamps do. */
    s->start_ms = latest(to_ms(map_window_sample(w, d->span.start, false)), after_ms);
    if (n && words[0].start_ms < s->start_ms)
        s->start_ms = words[0].start_ms;
    s->end_ms = latest(to_ms(map_window_sample(w, d->span.end, true)), s->start_ms);
    if (n)
        s->end_ms = latest(s->end_ms, words[n - 1].end_ms);
}

void outcome_place(const struct outcome *o, uint32_t draft, const struct lane_window *w,
                   int64_t after_ms, struct result_word *words, struct result_segment *s)
{
    place_draft(o, &o->drafts[draft], w, after_ms, words, s);
}

int outcome_yield(struct outcome *o, const struct lane_window *w, const struct decoding_result *r,
                  struct yield *yield, struct err *err)
{
    const struct lane_policy *p = w->lane->policy;
    struct result_word *words = calloc(o->words.count + 1, sizeof(*words));
    int64_t after_ms = to_ms(map_window_sample(w, 0, false));
    int rc = 0;

    if (!words)
        return err_set(err, ERR_NOMEM, "no memory for a window's words");
    for (uint32_t i = 0; !rc && i < o->count; i++) {
        struct draft *d = &o->drafts[i];
        char reason[DOUBT_TEXT_MAX];
        struct result_segment s = {
            .text = d->text,
            .language = language_code_of(p->model, r->language),
            .avg_logprob = mean_text_logprob(p->model->vocab, r, &d->span),
            .no_speech_prob = r->no_speech_prob,
            .compression_ratio = r->compression_ratio,
            .temperature = r->temperature,
            .attempts = r->attempts,
            .speech_prob = pauses_voice(w, d->span.start, d->span.end),
        };

        if (!d->text)
            continue;
        place_draft(o, d, w, after_ms, words, &s);
        mark_segment_doubt(&s, d, pauses_heard_ms(w, s.start_ms, s.end_ms), r, p->params, reason,
                           sizeof(reason));
        d->dropped = s.dropped;
        rc = s.dropped ? yield_add(yield, &s, err) : pauses_yield(w, &d->span, &s, yield, err);
        after_ms =
            latest(s.start_ms, yield->count ? yield->segments[yield->count - 1].start_ms : 0);
        if (s.word_count)
            after_ms = latest(after_ms, words[s.word_count - 1].start_ms);
    }
    free(words);
    return rc;
}

/* ---- speech and text */

/* By the timestamps, also where words have times of their own: windows must be the same with them.
 */
void outcome_cover(const struct outcome *o, const struct lane_window *w, struct coverage *coverage)
{
    for (uint32_t i = 0; i < o->count; i++) {
        const struct draft *d = &o->drafts[i];

        if (d->text)
            coverage_add(coverage, w->offset + d->span.start, w->offset + d->span.end, d->dropped);
    }
}

int outcome_missing(const struct lane_window *w, uint32_t least, struct yield *yield,
                    struct err *err)
{
    struct coverage_gap gap = {0};
    int rc = 0;

    while (!rc && coverage_next_gap(w->coverage, gap.end, w->samples, least, &gap))
        rc = pauses_missing(w, gap.start, gap.end < w->samples ? gap.end : w->samples, yield, err);
    return rc;
}

/* ---- what it tells about the lane */

struct outcome_text outcome_text(const struct outcome *o)
{
    struct outcome_text n = {0};

    for (uint32_t i = 0; i < o->count; i++) {
        n.kept += o->drafts[i].text && !o->drafts[i].dropped;
        n.dropped += o->drafts[i].text && o->drafts[i].dropped;
    }
    return n;
}

bool outcome_is_speech(const struct outcome *o, const struct lane_window *w,
                       const struct decoding_result *r)
{
    struct outcome_text n = outcome_text(o);

    if (n.kept || n.dropped)
        return n.kept > 0;
    return !r->silent && r->no_speech_prob < w->lane->policy->params->no_speech_threshold;
}
