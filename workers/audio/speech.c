/* How a stretch is found. One pass, one step at a time; all that is kept are marks:
 *
 *             prob >= threshold
 *   silent ----------------------> speaking   start: here
 *      ^                              |
 *      |  quiet for min_silence:      |       quiet:  where the silence began that lasts still
 *      |  start .. quiet              |       cut:    where the last silence over 98 ms began
 *      |  longer than max_speech:     |       resume: where speech went on after `cut`
 *      |  start .. cut, or .. here    |
 *      +------------------------------+       (cut, and speech went on: speaking, from `resume`)
 *
 * A silence begins below neg_threshold and lasts until threshold is reached again. A stretch that
 * was found is held back until it is known how far its end may be padded: until the next one is
 * certain, or too far away to matter. */

#include "workers/audio/speech.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PER_MS 16                 /* samples */
#define CUT_SILENCE (98 * PER_MS) /* longer ones may be cut at */
#define KEPT 16384                /* probabilities kept for speech_mean: 524 s */
#define PUSHES 3                  /* stretches that one step may finish */

/* A step's first sample: the sum of all the steps before it. 0: not set (no mark but `start` can be
 * there). */
struct mark {
    int64_t at;
    double sum;
};

struct speech {
    float threshold, neg_threshold;
    int64_t min_speech, max_speech, min_silence, pad; /* samples */

    int64_t steps; /* fed */
    double sum;    /* of their probabilities */
    bool speaking, ended;
    struct mark start, quiet, cut, resume;
    int64_t lead; /* samples of padding before `start`; -1: not known yet */

    bool found_any, held;    /* held: `last` is not among the finished yet */
    struct speech_span last; /* its end is not padded */

    struct speech_span *done; /* [cap]; those from `head` on have not been fetched */
    size_t head, count, capacity;

    float kept[KEPT]; /* step i at i % KEPT */
};

float speech_neg_threshold(float threshold, float neg_threshold)
{
    if (neg_threshold <
        0.0f) /* from the decimal number that a person wrote, not the float nearest */
        neg_threshold = (float)fmax(round((double)threshold * 1e6) / 1e6 - 0.15, 0.01);
    return fminf(neg_threshold, threshold); /* or stretches could be empty */
}

int speech_new(const struct speech_params *p, struct speech **ret, struct err *err)
{
    struct speech *s;

    if (!(p->threshold >= 0.0f && p->threshold <= 1.0f) || !(p->neg_threshold <= 1.0f))
        return err_set(err, ERR_USAGE, "the thresholds of voice activity are not probabilities");
    s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NOMEM, "no memory to look for speech");
    s->threshold = p->threshold;
    s->neg_threshold = speech_neg_threshold(p->threshold, p->neg_threshold);
    s->min_speech = (int64_t)p->min_speech_ms * PER_MS;
    s->min_silence = (int64_t)p->min_silence_ms * PER_MS;
    s->pad = (int64_t)p->pad_ms * PER_MS;
    s->max_speech = (int64_t)p->max_speech_ms * PER_MS - SPEECH_STEP - 2 * s->pad;
    if (p->max_speech_ms == 0)
        s->max_speech = INT64_MAX;
    s->lead = -1;
    *ret = s;
    return 0;
}

void speech_free(struct speech *s)
{
    if (!s)
        return;
    free(s->done);
    free(s);
}

/* ---- padding */

static void finish_last(struct speech *s, int64_t end)
{
    s->last.end = end;
    s->done[s->count++] = s->last;
    s->held = false;
}

/* The next stretch will begin at `start`, before padding: shares the silence before it. */
static void divide_silence_before(struct speech *s, int64_t start)
{
    int64_t silence = start - s->last.end;

    s->lead = s->pad;
    if (!s->found_any) {
        s->lead = start < s->pad ? start : s->pad;
    } else if (s->held) {
        if (silence < 2 * s->pad)
            s->lead = silence / 2;
        finish_last(s, s->last.end + s->lead);
    }
}

/* A stretch was found that nothing takes away any more. */
static void record_stretch(struct speech *s, struct mark end)
{
    int64_t steps = (end.at - s->start.at + SPEECH_STEP - 1) / SPEECH_STEP;

    if (s->lead < 0)
        divide_silence_before(s, s->start.at);
    s->last.start = s->start.at - s->lead;
    s->last.end = end.at;
    s->last.prob = (float)((end.sum - s->start.sum) / (double)steps);
    s->found_any = s->held = true;
}

/* Finishes held stretches as soon as later steps cannot change them. at: of the newest step. The
 * stream may end within that step, so it does not count as silence that has passed. */
static void finish_early(struct speech *s, int64_t at)
{
    if (s->speaking && s->lead < 0 && !s->quiet.at && at - s->start.at > s->min_speech)
        divide_silence_before(s, s->start.at); /* wherever this one ends, it is long enough */
    else if (s->held && (s->speaking ? s->start.at : at) - s->last.end >= 2 * s->pad)
        finish_last(s, s->last.end + s->pad);
}

/* ---- finding */

static void begin_stretch(struct speech *s, struct mark at)
{
    s->speaking = true;
    s->start = at;
    s->quiet = s->cut = s->resume = (struct mark){0};
    s->lead = -1;
}

static void fall_silent(struct speech *s)
{
    s->speaking = false;
    s->quiet = s->cut = s->resume = (struct mark){0};
    s->lead = -1;
}

/* The stretch has become too long. False: what follows begins with the next step. */
static bool cut_long(struct speech *s, struct mark here)
{
    struct mark resume = s->resume;
    bool resumed = resume.at >= s->cut.at;

    if (!s->cut.at) {
        record_stretch(s, here);
        fall_silent(s);
        return false;
    }
    record_stretch(s, s->cut);
    if (resumed)
        begin_stretch(s, resume);
    else
        fall_silent(s);
    return true;
}

static void hear_silence(struct speech *s, struct mark here)
{
    int64_t lasted;

    if (!s->quiet.at)
        s->quiet = here;
    lasted = here.at - s->quiet.at;
    if (lasted > CUT_SILENCE)
        s->cut = s->quiet;
    if (lasted < s->min_silence)
        return;
    if (s->quiet.at - s->start.at > s->min_speech)
        record_stretch(s, s->quiet);
    fall_silent(s);
}

static void process_probability(struct speech *s, float prob, struct mark here)
{
    if (prob >= s->threshold) {
        if (s->quiet.at && s->resume.at < s->cut.at)
            s->resume = here;
        s->quiet = (struct mark){0};
        if (!s->speaking) {
            begin_stretch(s, here);
            return;
        }
    }
    if (!s->speaking)
        return;
    if (here.at - s->start.at > s->max_speech && !cut_long(s, here))
        return;
    if (s->speaking && prob < s->neg_threshold)
        hear_silence(s, here);
}

static int reserve_spans(struct speech *s, struct err *err)
{
    struct speech_span *done;
    size_t capacity;

    if (s->head == s->count)
        s->head = s->count = 0;
    if (s->capacity - s->count >= PUSHES)
        return 0;
    if (s->head) {
        memmove(s->done, s->done + s->head, (s->count - s->head) * sizeof(*s->done));
        s->count -= s->head;
        s->head = 0;
    }
    if (s->capacity - s->count >= (s->capacity + 1) / 2 && s->capacity - s->count >= PUSHES)
        return 0; /* or every few steps would move everything */
    capacity = s->capacity ? 2 * s->capacity : 16;
    done = realloc(s->done, capacity * sizeof(*done));
    if (!done)
        return err_set(err, ERR_NOMEM, "no memory for %zu stretches of speech", capacity);
    s->done = done;
    s->capacity = capacity;
    return 0;
}

int speech_feed(struct speech *s, const float *prob, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        struct mark here = {s->steps * SPEECH_STEP, s->sum};
        float p = prob[i] >= 0.0f ? fminf(prob[i], 1.0f) : 0.0f; /* a NaN is silence */
        int rc = reserve_spans(s, err);

        if (rc != 0)
            return rc;
        s->kept[s->steps % KEPT] = p;
        s->steps++;
        s->sum += (double)p;
        process_probability(s, p, here);
        finish_early(s, here.at);
    }
    return 0;
}

int speech_end(struct speech *s, int64_t samples, struct err *err)
{
    struct mark end = {samples, s->sum};
    int64_t newest = s->steps ? (s->steps - 1) * SPEECH_STEP : 0;
    int rc;

    if (s->ended)
        return 0;
    rc = reserve_spans(s, err);
    if (rc != 0)
        return rc;
    if (end.at > s->steps * SPEECH_STEP)
        end.at = s->steps * SPEECH_STEP;
    if (end.at <= newest) { /* nothing of the newest step was sound */
        end.at = newest;
        end.sum -= s->steps ? (double)s->kept[(s->steps - 1) % KEPT] : 0.0;
    }
    if (s->speaking && end.at - s->start.at > s->min_speech)
        record_stretch(s, end);
    if (s->held)
        finish_last(s, s->last.end + s->pad < end.at ? s->last.end + s->pad : end.at);
    fall_silent(s);
    s->ended = true;
    return 0;
}

bool speech_next(struct speech *s, struct speech_span *ret)
{
    if (s->head == s->count)
        return false;
    *ret = s->done[s->head++];
    return true;
}

/* ---- asking */

int64_t speech_horizon(const struct speech *s)
{
    int64_t lead = s->lead < 0 ? s->pad : s->lead, at;

    if (s->head < s->count)
        return s->done[s->head].start;
    if (s->held)
        return s->last.start;
    if (s->ended)
        return s->steps * SPEECH_STEP;
    at = (s->speaking ? s->start.at : s->steps * SPEECH_STEP) - lead;
    return at > 0 ? at : 0;
}

float speech_mean(const struct speech *s, int64_t start, int64_t end)
{
    int64_t first = start > 0 ? start / SPEECH_STEP : 0;
    int64_t past = end > 0 ? (end - 1) / SPEECH_STEP + 1 : 0;
    double sum = 0.0;

    if (first < s->steps - KEPT)
        first = s->steps - KEPT;
    if (past > s->steps)
        past = s->steps;
    if (first >= past)
        return -1.0f;
    for (int64_t i = first; i < past; i++)
        sum += (double)s->kept[i % KEPT];
    return (float)(sum / (double)(past - first));
}

/* ---- packs */

void pack_free(struct pack *p)
{
    free(p->spans);
    *p = (struct pack){0};
}

static int64_t length(const struct speech_span *span) { return span->end - span->start; }

bool pack_fits(const struct pack *p, const struct speech_span *span, int64_t max)
{
    return p->count == 0 || p->samples + length(span) <= max;
}

int pack_add(struct pack *p, const struct speech_span *span, struct err *err)
{
    if (p->count == p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : 8;
        struct speech_span *spans = realloc(p->spans, capacity * sizeof(*spans));

        if (!spans)
            return err_set(err, ERR_NOMEM, "no memory for a window of %u stretches of speech",
                           capacity);
        p->spans = spans;
        p->capacity = capacity;
    }
    p->spans[p->count++] = *span;
    p->samples += length(span);
    return 0;
}

int pack_slice(const struct pack *of, int64_t from, int64_t to, struct pack *ret, struct err *err)
{
    int64_t begin = 0;
    int rc = 0;

    for (uint32_t i = 0; !rc && i < of->count; begin += length(&of->spans[i++])) {
        struct speech_span span = of->spans[i];
        int64_t first = from - begin, end = to - begin;

        if (end < length(&span))
            span.end = span.start + end;
        if (first > 0)
            span.start += first;
        if (span.start < span.end)
            rc = pack_add(ret, &span, err);
    }
    if (rc)
        pack_free(ret);
    return rc;
}

/* The stretch that sample `at` belongs to, the first or the last where it lies outside. begin: the
 * sample of the window at which that stretch begins. NULL: an empty window. */
static const struct speech_span *find_stretch_at(const struct pack *p, int64_t at, bool is_end,
                                                 int64_t *begin)
{
    uint32_t i = 0;

    *begin = 0;
    if (p->count == 0)
        return NULL;
    for (; i + 1 < p->count; i++) {
        int64_t end = *begin + length(&p->spans[i]);

        if (at < end || (is_end && at == end))
            break;
        *begin = end;
    }
    return &p->spans[i];
}

/* Sample `at` of the window, taken to be in `span`, which begins at `begin` there. */
static int64_t map_into_span(const struct speech_span *span, int64_t begin, int64_t at)
{
    if (at <= begin)
        return span->start;
    return at - begin < length(span) ? span->start + (at - begin) : span->end;
}

int64_t pack_time(const struct pack *p, int64_t at, bool is_end)
{
    int64_t begin;
    const struct speech_span *span = find_stretch_at(p, at, is_end, &begin);

    return span ? map_into_span(span, begin, at) : 0;
}

void pack_word(const struct pack *p, int64_t start, int64_t end, int64_t *from, int64_t *to)
{
    int64_t begin, unused;
    const struct speech_span *span = find_stretch_at(p, start, false, &begin);

    *from = *to = 0;
    if (!span)
        return;
    if (end < start)
        end = start;
    if (end > start && find_stretch_at(p, end, true, &unused) != span)
        span = find_stretch_at(p, start + (end - start) / 2, false, &begin);
    *from = map_into_span(span, begin, start);
    *to = map_into_span(span, begin, end);
}

bool pack_next_run(const struct pack *p, int64_t least, struct pack_run *run)
{
    uint32_t i = run->next;

    if (i >= p->count)
        return false;
    *run = (struct pack_run){.start = p->spans[i].start, .at = run->at + run->samples};
    do {
        run->samples += length(&p->spans[i]);
        run->end = p->spans[i++].end;
    } while (i < p->count && p->spans[i].start - run->end < least);
    run->next = i;
    return true;
}
