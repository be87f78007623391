#include "workers/stages/lane.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/models/whisper.h"
#include "workers/stages/segments.h"
#include "workers/text/text.h"

#define RATE WHISPER_RATE_HZ
#define SHORTEST 1600           /* samples; nobody says anything in a tenth of a second */
#define QUIET (1.5f / 32768.0f) /* 16-bit silence with one bit of dither */
#define SHORT_MOVES_MAX 3

void lane_free(struct lane *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; i < l->segment_count; i++)
        free((char *)l->segments[i].text);
    free(l->segments);
    free(l);
}

static void move_on(struct lane *l, int64_t samples)
{
    l->seek += samples;
    l->source.release(l->source.arg, l->seek);
}

static bool is_quiet(const float *pcm, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(pcm[i]) <= QUIET))
            return false;
    return true;
}

int lane_read(struct lane *l, float *pcm, int64_t *passed)
{
    *passed = 0;
    for (;;) {
        int64_t n = l->source.read(l->source.arg, l->seek, WHISPER_WINDOW_SAMPLES, pcm);

        if (n == -1)
            return 0;
        if (n < 0 || n > WHISPER_WINDOW_SAMPLES) {
            l->failed = err_set(&l->err, ERR_IO, "the audio's source failed (%lld)", (long long)n);
            l->state = LANE_ENDED;
            return 0;
        }
        if (n < SHORTEST) {
            *passed += n;
            move_on(l, n);
            l->state = LANE_ENDED;
            return 0;
        }
        if (!is_quiet(pcm, n)) {
            l->window = n;
            return 1;
        }
        l->windows++;
        *passed += n;
        move_on(l, n);
    }
}

/* Down, as shards and durations are: only a recording's end lies between two milliseconds, and its
 * last segment must not end beyond it. */
static int64_t to_ms(int64_t samples) { return samples / (RATE / 1000); }

/* Takes over text. */
static int add_segment(struct lane *l, const struct window *w, const struct span *s, char *text,
                       struct err *err)
{
    if (l->segment_count == l->segment_cap) {
        uint32_t cap = l->segment_cap ? l->segment_cap * 2 : 32;
        struct transcribe_segment *more = realloc(l->segments, cap * sizeof(*more));
        if (!more) {
            free(text);
            return err_set(err, ERR_NOMEM, "no memory for a segment");
        }
        l->segments = more;
        l->segment_cap = cap;
    }
    l->segments[l->segment_count++] = (struct transcribe_segment){
        .start_ms = to_ms(l->seek + s->start),
        .end_ms = to_ms(l->seek + s->end),
        .text = text,
        .avg_logprob = w->avg_logprob,
        .no_speech_prob = w->no_speech_prob,
        .compression_ratio = w->compression_ratio,
        .temperature = w->temperature,
    };
    return 0;
}

static int take_spans(struct lane *l, const struct window *w, const struct span *spans, size_t n,
                      struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        char *text;
        int rc = vocabulary_decode(w->policy->vocab, w->tokens + spans[i].first, spans[i].count,
                                   &text, err);
        if (rc)
            return rc;
        if (!text_clean(text)) {
            free(text);
            continue;
        }
        if ((rc = add_segment(l, w, &spans[i], text, err)))
            return rc;
    }
    return 0;
}

/* The lane's language is that of its first window that holds speech for certain; until then
 * each window speaks its own, and the first that yields words is kept. */
static void take_language(struct lane *l, const struct window *w, bool words)
{
    bool speech = !w->silent && w->no_speech_prob < w->policy->params->no_speech_threshold;

    if (speech || words)
        l->spoke = true;
    if (l->language < 0 && (speech || words)) {
        l->language = w->language;
        l->language_prob = w->language_prob;
    }
}

int lane_take(struct lane *l, const struct window *w, struct err *err)
{
    int64_t advance = l->window;
    uint32_t before = l->segment_count;
    struct span *spans;
    size_t n;
    int rc = 0;

    l->windows++;
    l->state = LANE_WAITING;
    if (!w->silent && w->count) {
        spans = malloc(w->count * sizeof(*spans));
        if (!spans)
            return err_set(err, ERR_NOMEM, "no memory for a window's segments");
        segments_split(w->tokens, w->count, vocabulary_ids(w->policy->vocab)->timestamp_begin,
                       l->window, spans, &n, &advance);
        rc = take_spans(l, w, spans, n, err);
        free(spans);
        if (rc)
            return rc;
    }
    take_language(l, w, l->segment_count > before);
    /* A model that ends every window after a word would need a hundred windows for half a minute.
     */
    l->short_moves = advance < RATE && advance < l->window ? l->short_moves + 1 : 0;
    if (l->short_moves > SHORT_MOVES_MAX)
        advance = l->window < RATE ? l->window : RATE;
    move_on(l, advance);
    return 0;
}

void lane_tell(struct lane *l, const struct vocabulary *v)
{
    const char *code = NULL;
    struct lane_result result = {
        .end_sample = l->seek,
        .windows = l->windows,
        .segment_count = l->segment_count,
        .segments = l->segments,
        .language = "",
    };

    if (l->failed) {
        l->done(l->done_arg, NULL, &l->err);
        return;
    }
    if (l->spoke) {
        code = vocabulary_multilingual(v) ? vocabulary_language_code(v, l->language) : "en";
        result.language = code ? code : "";
        result.language_prob = l->language_prob;
    }
    l->done(l->done_arg, &result, NULL);
}
