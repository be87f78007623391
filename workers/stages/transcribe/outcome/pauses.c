#include "workers/stages/transcribe/outcome/pauses.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/asr_model.h"
#include "workers/text/codepoints.h"

#define PER_MS (ASR_RATE_HZ / 1000)
#define VOICE_LEAST 4800 /* samples: with less voice of it no part of a text is said in a run */

float pauses_voice(const struct lane_window *w, int64_t start, int64_t end)
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

int64_t pauses_heard_ms(const struct lane_window *w, int64_t start_ms, int64_t end_ms)
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

int pauses_yield(const struct lane_window *w, const struct span *span,
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

int pauses_missing(const struct lane_window *w, int64_t start, int64_t end, struct yield *yield,
                   struct err *err)
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
