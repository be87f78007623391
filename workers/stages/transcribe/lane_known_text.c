/* A lane whose text is there: nothing is decoded. Its segments go through the decoder once, as they
 * follow each other in windows, for the times of their words. A segment keeps its known fields; its
 * times follow its words, as in every transcription that has words. A segment that no window holds,
 * or whose language the model does not know, gets no words. */
#include <stdlib.h>
#include <string.h>

#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/outcome/outcome.h"
#include "workers/text/languages.h"

#define SAMPLES_PER_MS (ASR_RATE_HZ / 1000)
#define TAIL (500 * SAMPLES_PER_MS) /* behind a window's text, since timestamps are rough */
#define MOST_BYTES 16384            /* of a text that a window's tokens may hold */
#define SKIP 4096                   /* samples that are passed over at once */

struct known_segment {
    int32_t *tokens; /* owned; NULL: it gets no words */
    uint32_t count;
};

struct known_text {
    const struct result_known_text *of; /* borrowed */
    bool counts;                        /* the shard's account is this lane's */
    struct known_segment *texts;        /* owned: of the lane's yield, which has all segments */
    uint32_t encoded;                   /* texts before it are looked at */
    uint32_t next;                      /* the first one that had no window */
    int64_t at;                         /* audio before it is not wanted any more */
    bool ended;                         /* the lane's audio was seen to its end */
    int32_t *tokens;                    /* owned: of a window, [positions] */
    uint32_t token_max;
    bool is_long; /* a segment has more tokens than a window's decoding writes */
};

int known_text_begin(struct lane *l, const struct result_known_text *known_text, uint32_t source,
                     struct err *err)
{
    struct known_text *t = l->known_text = calloc(1, sizeof(*t));
    int rc = 0;

    if (!t)
        return err_set(err, ERR_NOMEM, "no memory for a lane");
    t->of = known_text;
    t->counts = source <= 1;
    t->at = l->begin;
    /* token_max leaves room for the prompt before an aligned window's text and the end token after
     * it. */
    t->token_max = 2 * l->policy->previous_max - l->policy->model->prompt_max - 1;
    for (uint32_t i = 0; rc == 0 && i < known_text->segment_count; i++) {
        struct result_segment s = known_text->segments[i];

        s.words = NULL;
        s.word_count = 0;
        if (s.source == source)
            rc = yield_add(&l->yield, &s, err);
    }
    t->texts = calloc(l->yield.count + 1, sizeof(*t->texts));
    t->tokens = malloc(t->token_max * sizeof(*t->tokens));
    if (rc == 0 && (!t->texts || !t->tokens))
        rc = err_set(err, ERR_NOMEM, "no memory for a lane");
    return rc;
}

static void drop_text(struct known_segment *text)
{
    free(text->tokens);
    *text = (struct known_segment){0};
}

void known_text_free(struct lane *l)
{
    for (uint32_t i = 0; l->known_text && l->known_text->texts && i < l->yield.count; i++)
        drop_text(&l->known_text->texts[i]);
    if (l->known_text) {
        free(l->known_text->texts);
        free(l->known_text->tokens);
    }
    free(l->known_text);
}

/* ---- texts */

static int64_t window_of(const struct lane *l) { return l->policy->model->window_samples; }

static const char *language_of(const struct lane *l, uint32_t i)
{
    const char *own = l->yield.segments[i].language;

    return own && own[0] ? own : l->known_text->of->language;
}

static bool supports_language(const struct vocabulary *v, const char *language)
{
    return !vocabulary_multilingual(v) || vocabulary_language_id(v, language) >= 0;
}

/* As the model writes it: behind a blank, where its language has them. */
static int encode_segment_text(const struct lane *l, uint32_t i, struct known_segment *ret,
                               struct err *err)
{
    const char *text = l->yield.segments[i].text;
    size_t len = strlen(text), n = 0;
    char *said = malloc(len + 2);
    int rc;

    if (!said)
        return err_set(err, ERR_NOMEM, "no memory for a text");
    said[0] = ' ';
    memcpy(said + 1, text, len + 1);
    rc =
        vocabulary_encode(l->policy->model->vocab,
                          said + language_without_blanks(language_of(l, i)), &ret->tokens, &n, err);
    free(said);
    ret->count = (uint32_t)n;
    if (rc == 0 && (n == 0 || n > l->known_text->token_max))
        drop_text(ret);
    if (ret->count > l->policy->previous_max)
        l->known_text->is_long = true;
    return rc;
}

bool known_text_is_long(const struct lane *l) { return l->known_text->is_long; }

/* Encodes the text if it may have words. Dropped text is not believed, nor timed. */
static int look_at(struct lane *l, uint32_t i, struct err *err)
{
    const struct result_segment *s = &l->yield.segments[i];

    if (s->dropped || !s->text[0] || strlen(s->text) > MOST_BYTES ||
        (s->end_ms - s->start_ms) * SAMPLES_PER_MS > window_of(l) ||
        !supports_language(l->policy->model->vocab, language_of(l, i)))
        return 0;
    return encode_segment_text(l, i, &l->known_text->texts[i], err);
}

/* ---- windows */

/* Segments [first, end) and the audio that they are heard in. */
struct known_text_plan {
    uint32_t first, end, tokens;
    int64_t at, to;
};

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }

static bool fits_same_window(const struct lane *l, const struct known_text_plan *p, uint32_t i)
{
    const uint32_t usual = l->policy->previous_max;

    return l->yield.segments[i].end_ms * SAMPLES_PER_MS - p->at <= window_of(l) &&
           p->tokens + l->known_text->texts[i].count <= usual &&
           strcmp(language_of(l, i), language_of(l, p->first)) == 0;
}

/* From the first segment that may have words on; without one, all are passed over. */
static int plan_window(struct lane *l, struct known_text_plan *p, struct err *err)
{
    struct known_text *t = l->known_text;

    *p = (struct known_text_plan){.first = t->next, .end = t->next};
    for (; p->end < l->yield.count; p->end++) {
        const struct result_segment *s = &l->yield.segments[p->end];
        const int64_t from = s->start_ms * SAMPLES_PER_MS, to = s->end_ms * SAMPLES_PER_MS;
        int rc = p->end == t->encoded ? look_at(l, t->encoded++, err) : 0;

        if (rc)
            return rc;
        if (to <= t->at)
            drop_text(&t->texts[p->end]);
        if (!t->texts[p->end].count)
            continue;
        if (p->tokens && !fits_same_window(l, p, p->end))
            break;
        if (!p->tokens) {
            p->first = p->end;
            p->at = later(later(from, to - window_of(l)), t->at);
        }
        p->tokens += t->texts[p->end].count;
        p->to = later(p->to, to);
    }
    p->to = p->to + TAIL - p->at < window_of(l) ? p->to + TAIL : p->at + window_of(l);
    return 0;
}

/* n samples of its audio are there; what begins behind them is not heard. */
static void queue_window(struct lane *l, struct lane_window *w, const struct known_text_plan *p,
                         int64_t n)
{
    struct lane_window **end = &l->first_window;

    for (uint32_t i = p->first; i < p->end; i++)
        if (l->yield.segments[i].start_ms * SAMPLES_PER_MS - p->at >= n)
            drop_text(&l->known_text->texts[i]);
        else
            w->texts += l->known_text->texts[i].count != 0;
    if (!w->texts) {
        lane_window_free(w);
        return;
    }
    w->samples = n;
    w->first_text = p->first;
    w->end_text = p->end;
    while (*end)
        end = &(*end)->next;
    *end = w;
}

static void fail_source(struct lane *l, int64_t n)
{
    struct err err = {0};

    err_set(&err, ERR_IO, "the audio's source failed (%lld)", (long long)n);
    lane_fail(l, &err);
}

/* *done: its audio was there. */
static int open_window(struct lane *l, const struct known_text_plan *p, bool *done, struct err *err)
{
    struct lane_window *w = NULL;
    int64_t want = p->to - p->at, n;
    int rc = lane_window_new(l, p->at, &w, err);

    if (rc == 0 && !(w->pcm = malloc((size_t)want * sizeof(*w->pcm))))
        rc = err_set(err, ERR_NOMEM, "no memory for a window's audio");
    if (rc) {
        lane_window_free(w);
        return rc;
    }
    n = l->source.read(l->source.arg, p->at, (size_t)want, w->pcm);
    *done = n >= 0 && n <= want;
    if (*done) {
        l->known_text->next = p->end;
        queue_window(l, w, p, n);
        return 0;
    }
    lane_window_free(w);
    if (n != -1)
        fail_source(l, n);
    return 0;
}

/* Audio in which no text is: a piece of what lies before `to`, behind the last window up to the
 * shard's end. */
static void pass_over(struct lane *l, int64_t to, bool *done)
{
    struct known_text *t = l->known_text;
    float room[SKIP];
    int64_t want = to - t->at < SKIP ? to - t->at : SKIP;
    int64_t n = l->source.read(l->source.arg, t->at, (size_t)want, room);

    *done = n >= 0 && n <= want;
    if (*done) {
        t->at += n;
        t->ended = n < want;
        l->source.release(l->source.arg, t->at);
    } else if (n != -1) {
        fail_source(l, n);
    }
}

static void free_finished_windows(struct lane *l)
{
    struct lane_window *w;

    while ((w = l->first_window) && w->place == WINDOW_FINISHED) {
        l->windows++;
        l->first_window = w->next;
        lane_window_free(w);
    }
    l->end = w ? later(l->end, w->at) : l->known_text->at;
    if (!w && l->known_text->ended)
        l->state = LANE_ENDED;
}

int known_text_prepare(struct lane *l, bool *progress, struct err *err)
{
    struct known_text *t = l->known_text;
    bool done = true;
    int rc = 0;

    while (rc == 0 && done && !t->ended && l->state == LANE_OPEN &&
           known_text_queued(l) < l->policy->queue) {
        struct known_text_plan p;

        rc = plan_window(l, &p, err);
        if (rc == 0 && p.tokens && p.at == t->at)
            rc = open_window(l, &p, &done, err);
        else if (rc == 0)
            pass_over(l, p.tokens ? p.at : INT64_MAX, &done);
        *progress = *progress || done;
    }
    if (rc == 0 && l->state == LANE_OPEN)
        free_finished_windows(l);
    return rc;
}

struct lane_window *known_text_next(const struct lane *l)
{
    struct lane_window *w = l->first_window;

    while (w && w->place != WINDOW_QUEUED)
        w = w->next;
    return w;
}

uint32_t known_text_queued(const struct lane *l)
{
    uint32_t n = 0;

    for (const struct lane_window *w = l->first_window; w; w = w->next)
        n += w->place == WINDOW_QUEUED;
    return n;
}

uint32_t known_text_coming(const struct lane *l)
{
    uint32_t queued = known_text_queued(l);

    return l->known_text->ended || queued > l->policy->queue ? queued : l->policy->queue;
}

/* ---- words */

int known_text_drafts(const struct lane_window *w, struct decoding_result *r, struct outcome *o,
                      struct err *err)
{
    const struct lane *l = w->lane;
    const struct vocabulary *v = l->policy->model->vocab;
    uint32_t n = 0;

    o->drafts = calloc(w->texts, sizeof(*o->drafts));
    if (!o->drafts)
        return err_set(err, ERR_NOMEM, "no memory for a window's segments");
    for (uint32_t i = w->first_text; i < w->end_text; i++) {
        const struct known_segment *text = &l->known_text->texts[i];
        const struct result_segment *s = &l->yield.segments[i];
        struct draft *d;

        if (!text->count)
            continue;
        o->drafts[o->count++] = (struct draft){
            .span = {.start = s->start_ms * SAMPLES_PER_MS - w->at,
                     .end = s->end_ms * SAMPLES_PER_MS - w->at,
                     .first = n,
                     .count = text->count},
        };
        d = &o->drafts[o->count - 1];
        d->start = (float)d->span.start / ASR_RATE_HZ;
        d->end = (float)d->span.end / ASR_RATE_HZ;
        memcpy(l->known_text->tokens + n, text->tokens, text->count * sizeof(*text->tokens));
        n += text->count;
    }
    *r = (struct decoding_result){
        .language = vocabulary_language_id(v, language_of(l, w->first_text)),
        .tokens = l->known_text->tokens,
        .count = n,
    };
    return 0;
}

int known_text_take(struct lane_window *w, const struct outcome *o, struct err *err)
{
    struct lane *l = w->lane;
    struct result_word *words = calloc(o->words.count + 1, sizeof(*words));
    int64_t after_ms = w->at / SAMPLES_PER_MS;
    uint32_t draft = 0;
    int rc = words ? 0 : err_set(err, ERR_NOMEM, "no memory for a window's words");

    for (uint32_t i = w->first_text; rc == 0 && i < w->end_text; i++) {
        struct result_segment *s = &l->yield.segments[i];

        if (!l->known_text->texts[i].count)
            continue;
        outcome_place(o, draft++, w, after_ms, words, s);
        after_ms = later(s->start_ms, s->word_count ? words[s->word_count - 1].start_ms : 0);
        rc = yield_own_words(s, err);
        drop_text(&l->known_text->texts[i]);
    }
    free(words);
    if (rc)
        return rc;
    w->place = WINDOW_FINISHED;
    free(w->pcm);
    w->pcm = NULL;
    free_finished_windows(l);
    return 0;
}

void known_text_result(const struct lane *l, struct lane_result *ret)
{
    const struct result_known_text *of = l->known_text->of;
    const bool heard = of->account.speech_ms >= 0;

    ret->language = of->language;
    ret->language_prob = of->language_prob;
    ret->account = of->account;
    if (heard && !l->known_text->counts)
        ret->account = (struct result_account){0};
}
