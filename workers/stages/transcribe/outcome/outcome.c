#include "workers/stages/transcribe/outcome/outcome.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/decode/language.h"
#include "workers/stages/transcribe/outcome/coverage.h"
#include "workers/stages/transcribe/outcome/doubt.h"
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

/* ---- the pauses that voice activity left out of a window
 *
 * In a packed window speech from both sides of a pause stands together, and the model may make one
 * segment of it, which in the recording would last over all of the pause. Such a segment is parted
 * there. The pause counts from PAUSES_LEAST_MS on, with what was kept of it at both ends. */

#define PAUSES_LEAST_MS 1000
#define PER_MS (ASR_RATE_HZ / 1000)
#define VOICE_LEAST 4800 /* samples: with less voice of it no part of a text is said in a run */

/* Mean voice activity over samples [start, end) of the window; -1: it was not measured. */
static float pauses_voice(const struct lane_window *w, int64_t start, int64_t end)
{
    double sum = 0;
    int64_t first = start / SPEECH_STEP, last = (end + SPEECH_STEP - 1) / SPEECH_STEP;

    if (!w->voice)
        return -1;
    for (int64_t i = first; i < last; i++)
        sum += (double)w->voice[i];
    return (float)(sum / (double)(last > first ? last - first : 1));
}

/* Samples that must be left out of a pause for it to count. */
static int64_t least_gap(const struct lane_window *w)
{
    int64_t kept_ms = 2 * (int64_t)w->lane->policy->params->vad_speech_pad_ms;

    return kept_ms < PAUSES_LEAST_MS ? (PAUSES_LEAST_MS - kept_ms) * PER_MS : 1;
}

/* How much of [start_ms, end_ms) of the recording the model has heard: all but such pauses. */
static int64_t pauses_heard_ms(const struct lane_window *w, int64_t start_ms, int64_t end_ms)
{
    struct pack_run run = {0};
    int64_t heard = end_ms - start_ms, before = -1;

    while (pack_next_run(&w->pack, least_gap(w), &run)) {
        if (before >= start_ms * PER_MS && run.start < end_ms * PER_MS)
            heard -= (run.start - before) / PER_MS;
        before = run.end;
    }
    return heard;
}

/* ---- parts */

struct parting {
    const struct lane_window *w;
    const struct span *span;
    const struct result_segment *whole;
    struct yield *yield;
};

static int64_t latest(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t earliest(int64_t a, int64_t b) { return a < b ? a : b; }

/* The samples of the window that the segment has in the run: false when there are none. */
static bool piece_of(const struct parting *p, const struct pack_run *run, int64_t *from,
                     int64_t *to)
{
    *from = latest(p->span->start, run->at);
    *to = earliest(p->span->end, run->at + run->samples);
    return *from < *to;
}

/* text: owned, freed here; NULL: no memory. Nothing of it lies outside of the run. */
static int add_segment_part(const struct parting *p, const struct pack_run *run,
                            struct result_segment *part, char *text, struct err *err)
{
    int64_t from, to;
    int rc = 0;

    if (!text)
        return err_set(err, ERR_NOMEM, "no memory for a segment's text");
    part->text = text;
    part->start_ms = latest(part->start_ms, run->start / PER_MS);
    part->end_ms = latest(earliest(part->end_ms, run->end / PER_MS), part->start_ms);
    if (piece_of(p, run, &from, &to)) {
        part->speech_prob = pauses_voice(p->w, from, to);
        /* Words that attention put into one place tell no duration; the timestamps do. */
        if (part->end_ms == part->start_ms)
            part->end_ms = latest(pack_time(&p->w->pack, to, true) / PER_MS, part->start_ms);
    }
    if (clean_text(text))
        rc = yield_add(p->yield, part, err);
    free(text);
    return rc;
}

/* ---- by words */

static char *join_word_texts(const struct result_word *words, uint32_t n)
{
    size_t size = 1, used = 0;
    char *text;

    for (uint32_t i = 0; i < n; i++)
        size += strlen(words[i].text);
    text = malloc(size);
    for (uint32_t i = 0; text && i < n; i++) {
        size_t len = strlen(words[i].text);

        memcpy(text + used, words[i].text, len);
        used += len;
    }
    if (text)
        text[used] = 0;
    return text;
}

/* Words [first, end) of the whole, which are said in the run. */
static int add_words(const struct parting *p, const struct pack_run *run, uint32_t first,
                     uint32_t end, struct err *err)
{
    const struct result_segment *whole = p->whole;
    struct result_segment part = *whole;

    part.words = whole->words + first;
    part.word_count = end - first;
    if (first)
        part.start_ms = part.words[0].start_ms;
    if (end < whole->word_count)
        part.end_ms = 0;
    for (uint32_t i = 0; end < whole->word_count && i < part.word_count; i++)
        part.end_ms = latest(part.end_ms, part.words[i].end_ms);
    return add_segment_part(p, run, &part,
                            end - first == whole->word_count
                                ? strdup(whole->text)
                                : join_word_texts(part.words, end - first),
                            err);
}

static int by_words(const struct parting *p, struct err *err)
{
    const struct pack *pack = &p->w->pack;
    int64_t gap = least_gap(p->w);
    struct pack_run run = {0}, next;
    uint32_t first = 0, n = p->whole->word_count;
    bool more = pack_next_run(pack, gap, &run);
    int rc = 0;

    next = run;
    more = more && pack_next_run(pack, gap, &next);

    for (uint32_t i = 0; !rc && i < n; i++) {
        const struct pack_run in = run;

        /* A millisecond is its samples: a word may begin at the run's first one. */
        while (more && (p->whole->words[i].start_ms + 1) * PER_MS > next.start) {
            run = next;
            more = pack_next_run(pack, gap, &next);
        }
        if (i && run.start != in.start) {
            rc = add_words(p, &in, first, i, err);
            first = i;
        }
    }
    return rc ? rc : add_words(p, &run, first, n, err);
}

/* ---- without words */

/* Samples of voice; more than 0 where there is any of the segment. */
static double voice_in(const struct parting *p, const struct pack_run *run)
{
    int64_t from, to;
    float voice;

    if (!piece_of(p, run, &from, &to))
        return 0;
    voice = pauses_voice(p->w, from, to);
    return (double)(to - from) * (voice < 0 ? 1.0 : fmax((double)voice, 1e-3));
}

/* The cost of a cut before s[i], in bytes on the wrong side; -1: no cut there. */
static int cut_cost(const char *s, size_t i)
{
    const unsigned char *u = (const unsigned char *)s;
    size_t lead = i;

    if ((u[i] & 0xC0) == 0x80)
        return -1;
    while (lead && (u[--lead] & 0xC0) == 0x80)
        continue;
    if ((strchr(".!?", s[i - 1]) && s[i] == ' ') || memcmp(s + lead, "。", 3) == 0)
        return 0;
    if (strchr(",;:", s[i - 1]) && s[i] == ' ')
        return 3;
    return s[i] == ' ' || (u[lead] >= 0xE3 && u[lead] <= 0xE9) ? 6 : -1; /* characters, kana */
}

/* A text dealt out to the runs that its segment has. */
struct deal {
    struct dealt {
        struct pack_run run;
        double bytes; /* as many as it should get */
        size_t end;   /* of what it gets */
    } * to;           /* [runs] */
    uint32_t runs, cuts;
    size_t *cut;    /* [cuts]: where the text may be cut, its begin and its end among them */
    double *cost;   /* [runs + 1][cuts]: of the text up to there, when so many runs have theirs */
    uint32_t *from; /* the same: where the last one's begins */
};

static void deal_free(struct deal *d)
{
    free(d->to);
    free(d->cut);
    free(d->cost);
    free(d->from);
}

static void find_runs(const struct parting *p, size_t length, struct deal *d)
{
    double least = 0, all = 0;
    uint32_t n = 0;

    for (struct pack_run run = {0}; pack_next_run(&p->w->pack, least_gap(p->w), &run);) {
        d->to[d->runs++] = (struct dealt){.run = run, .bytes = voice_in(p, &run)};
        least = fmax(least, d->to[d->runs - 1].bytes);
    }
    least = fmin(least, VOICE_LEAST);
    for (uint32_t r = 0; r < d->runs; r++)
        if (d->to[r].bytes >= least && d->to[r].bytes > 0) {
            all += d->to[r].bytes;
            d->to[n++] = d->to[r];
        }
    d->runs = n;
    for (uint32_t r = 0; r < n; r++)
        d->to[r].bytes *= (double)length / all;
}

static int deal_new(const struct parting *p, size_t length, struct deal *ret, struct err *err)
{
    const char *text = p->whole->text;
    struct deal d = {.to = calloc(p->w->pack.count, sizeof(*d.to)),
                     .cut = malloc((length + 1) * sizeof(*d.cut))};
    size_t capacity;

    if (d.to && d.cut) {
        find_runs(p, length, &d);
        d.cut[d.cuts++] = 0;
        for (size_t i = 1; i < length; i++)
            if (cut_cost(text, i) >= 0)
                d.cut[d.cuts++] = i;
        d.cut[d.cuts++] = length;
        capacity = (d.runs + (size_t)1) * d.cuts;
        d.cost = malloc(capacity * sizeof(*d.cost));
        d.from = calloc(capacity, sizeof(*d.from));
    }
    *ret = d;
    return d.cost && d.from ? 0 : err_set(err, ERR_NOMEM, "no memory to part a segment");
}

/* The least cost of run r - 1 having its text up to cut k, and all before it theirs. */
static void deal_one(const struct deal *d, const char *text, uint32_t r, uint32_t k)
{
    const double *before = d->cost + (size_t)(r - 1) * d->cuts;
    size_t at = (size_t)r * d->cuts + k;
    double bytes = d->to[r - 1].bytes;

    d->cost[at] = INFINITY;
    for (uint32_t i = 0; i <= k; i++) {
        double off = (double)(d->cut[k] - d->cut[i]) - bytes;
        double cost = before[i] + off * off / bytes;

        if (cost < d->cost[at]) {
            d->cost[at] = cost;
            d->from[at] = i;
        }
    }
    if (k && k + 1 < d->cuts)
        d->cost[at] += cut_cost(text, d->cut[k]);
}

static void deal_all(struct deal *d, const char *text)
{
    for (uint32_t k = 0; k < d->cuts; k++)
        d->cost[k] = k ? (double)INFINITY : 0.0;
    for (uint32_t r = 1; r <= d->runs; r++)
        for (uint32_t k = 0; k < d->cuts; k++)
            deal_one(d, text, r, k);
    for (uint32_t r = d->runs, k = d->cuts - 1; r > 0; r--) {
        d->to[r - 1].end = d->cut[k];
        k = d->from[(size_t)r * d->cuts + k];
    }
}

static int by_voice(const struct parting *p, struct err *err)
{
    const char *text = p->whole->text;
    size_t first = 0, length = strlen(text);
    struct deal d;
    int rc = deal_new(p, length, &d, err);

    if (!rc && !d.runs) /* a span without samples: no text is lost for that */
        rc = yield_add(p->yield, p->whole, err);
    else if (!rc)
        deal_all(&d, text);
    for (uint32_t r = 0; !rc && r < d.runs; r++) {
        struct result_segment part = *p->whole;

        rc = add_segment_part(p, &d.to[r].run, &part, strndup(text + first, d.to[r].end - first),
                              err);
        first = d.to[r].end;
    }
    deal_free(&d);
    return rc;
}

/* Adds the segment, whose samples in the window are `span`'s, parted at the pauses that it lasts
 * over: by its words' times, or without words by how long somebody speaks on either side, at a
 * blank, better at the end of a sentence (text and time are then right but for a few words). Each
 * part keeps the whole segment's doubts. ERR_NOMEM. */
static int pauses_yield(const struct lane_window *w, const struct span *span,
                        const struct result_segment *segment, struct yield *yield, struct err *err)
{
    struct parting p = {w, span, segment, yield};

    if (pauses_heard_ms(w, segment->start_ms, segment->end_ms) ==
        segment->end_ms - segment->start_ms)
        return yield_add(yield, segment, err);
    return segment->word_count ? by_words(&p, err) : by_voice(&p, err);
}

/* ---- without text */

/* Whether there is speech, counted as in coverage.h. A piece without is the quiet at a pause's
 * edge. */
static bool is_spoken(const struct lane_window *w, int64_t from, int64_t to)
{
    for (int64_t i = from / SPEECH_STEP; i * SPEECH_STEP < to; i++)
        if (w->voice[i] >= w->lane->policy->params->vad_threshold)
            return true;
    return false;
}

/* Adds samples [start, end) of the window as speech without text, parted in the same way: a dropped
 * segment for each side that has speech. ERR_NOMEM. */
static int pauses_missing(const struct lane_window *w, int64_t start, int64_t end,
                          struct yield *yield, struct err *err)
{
    struct pack_run run = {0};
    int rc = 0;

    while (!rc && pack_next_run(&w->pack, least_gap(w), &run)) {
        int64_t from = start > run.at ? start : run.at;
        int64_t to = end < run.at + run.samples ? end : run.at + run.samples;
        struct result_segment s = {
            .text = "", .language = "", .attempts = 1, .dropped = true, .reason = RESULT_MISSING};

        s.speech_prob = from < to ? pauses_voice(w, from, to) : 0;
        s.start_ms = pack_time(&w->pack, from, false) / PER_MS;
        s.end_ms = pack_time(&w->pack, to, true) / PER_MS;
        if (from < to && s.end_ms > s.start_ms && is_spoken(w, from, to))
            rc = yield_add(yield, &s, err);
    }
    return rc;
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

int outcome_make(const struct lane_window *w, const struct decoding_result *r, struct outcome *ret,
                 struct err *err)
{
    struct outcome o = {.advance = w->samples, .speech_end = -1};
    int rc = 0;

    if (r->count) {
        rc = make_drafts(&o, w, r, err);
        if (r->silent) /* its text is not believed, and moves nothing */
            o.advance = w->samples;
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
