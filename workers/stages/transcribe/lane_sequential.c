/* A lane whose windows follow each other, as in openai-whisper's transcribe(): each begins where
 * the timestamps (or the words) of the one before say. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "workers/audio/steady.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/outcome/words.h"
#include "workers/stages/transcribe/outcome/outcome.h"

#define RATE ASR_RATE_HZ
#define SHORTEST 1600           /* samples; nobody says anything in a tenth of a second */
#define QUIET (1.5f / 32768.0f) /* 16-bit silence with one bit of dither */
#define SHORT_MOVES_MAX 3
#define REST_LEAST RATE       /* samples behind the last text that may hold another one, */
#define REST_LOUD_SECONDS 0.5 /*   and how much of them is as loud as speech then */

/* Adds to the text that the next window may go on from; the oldest tokens go. */
static void append_previous_text(struct lane *l, const int32_t *tokens, size_t n)
{
    uint32_t max = l->policy->previous_max, keep;

    if (n > max) {
        tokens += n - max;
        n = max;
    }
    keep = max - (uint32_t)n < l->previous_count ? max - (uint32_t)n : l->previous_count;
    memmove(l->previous, l->previous + l->previous_count - keep, keep * sizeof(*tokens));
    if (n)
        memcpy(l->previous + keep, tokens, n * sizeof(*tokens));
    l->previous_count = keep + (uint32_t)n;
}

int sequential_begin(struct lane *l, struct err *err)
{
    const struct lane_policy *p = l->policy;

    if (!p->initial_count && !p->params->condition_on_previous_text)
        return 0;
    l->previous = malloc(p->previous_max * sizeof(*l->previous));
    if (!l->previous)
        return err_set(err, ERR_NOMEM, "no memory for a lane");
    append_previous_text(l, p->initial, p->initial_count);
    return 0;
}

static bool is_quiet(const float *pcm, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabsf(pcm[i]) <= QUIET))
            return false;
    return true;
}

static int window_at_end(struct lane *l, int64_t samples, struct lane_window **ret, struct err *err)
{
    int rc = l->first_window ? 0 : lane_window_new(l, l->end, &l->first_window, err);

    if (rc)
        return rc;
    l->first_window->samples = samples;
    *ret = l->first_window;
    return 0;
}

/* Windows of digital silence are passed over here, without the model. */
int sequential_next(struct lane *l, float *room, struct lane_window **ret, struct err *err)
{
    if (l->first_window && l->first_window->place != WINDOW_QUEUED)
        return 0;
    for (;;) {
        const int64_t window = l->policy->model->window_samples;
        int64_t n = l->source.read(l->source.arg, l->end, (size_t)window, room);

        if (n == -1)
            return 0;
        if (n < 0 || n > window) {
            struct err e;

            err_set(&e, ERR_IO, "the audio's source failed (%lld)", (long long)n);
            lane_fail(l, &e);
            return 0;
        }
        if (n >= SHORTEST && !is_quiet(room, n))
            return window_at_end(l, n, ret, err);
        l->windows += n >= SHORTEST;
        lane_move(l, l->end + n);
        if (n < SHORTEST) {
            l->state = LANE_ENDED;
            return 0;
        }
    }
}

/* The lane's language is that of its first window that holds speech for certain; until then each
 * window speaks its own, and the first that yields words is kept. */
static void take_language(struct lane *l, const struct lane_window *w,
                          const struct decoding_result *r, const struct outcome *o)
{
    if (!outcome_is_speech(o, w, r))
        return;
    l->spoke = true;
    lane_note_language(l, w, r->language, r->language_prob);
}

/* The text is the next window's condition, unless it was got at a high temperature; a window
 * without text changes nothing. A text that is not believed is none, but at a high temperature it
 * tells that the condition does no good. */
static void take_text(struct lane *l, const struct decoding_result *r, const struct outcome *o)
{
    const struct transcribe_params *p = l->policy->params;
    struct outcome_text n = outcome_text(o);

    if (!l->previous || r->silent)
        return;
    for (uint32_t i = 0; i < o->count && p->condition_on_previous_text; i++)
        if (o->drafts[i].text && !o->drafts[i].dropped)
            append_previous_text(l, r->tokens + o->drafts[i].span.first, o->drafts[i].span.count);
    if (p->condition_on_previous_text ? r->temperature > p->prompt_reset_on_temperature
                                      : n.kept || !n.dropped)
        l->previous_count = 0;
}

static bool is_loud(const float *pcm, int64_t samples, int64_t from)
{
    struct loudness loud;
    float start = (float)from / RATE, end = (float)samples / RATE;

    loudness_measure(pcm, (size_t)samples, &loud);
    return (double)(loudness_share(&loud, start, end) * (end - start)) >= REST_LOUD_SECONDS;
}

/* The audio of a window once more; free it. whole: all of it came. */
static float *audio_of(const struct lane_window *w, bool *whole, struct err *err)
{
    const struct lane *l = w->lane;
    float *pcm = malloc((size_t)w->samples * sizeof(*pcm));

    *whole = pcm && l->source.read(l->source.arg, w->at, (size_t)w->samples, pcm) == w->samples;
    if (!pcm)
        err_set(err, ERR_NOMEM, "no memory for a window's audio");
    return pcm;
}

/* The model doubts that somebody speaks, and by the levels there is steady noise or a tone: two
 * witnesses, whatever it thinks of its text. */
static int judge_noise(const struct lane_window *w, struct decoding_result *r, struct err *err)
{
    float *pcm;
    bool whole;

    if (r->silent || r->no_speech_prob <= w->lane->policy->params->no_speech_threshold)
        return 0;
    pcm = audio_of(w, &whole, err);
    if (!pcm)
        return err->code;
    r->silent = whole && steady_noise(pcm, (size_t)w->samples);
    free(pcm);
    return 0;
}

/* A single timestamp at a text's end says that nothing follows in the window, and published models
 * write it too early at times: where it is loud behind it, listening goes on from there. The
 * reference goes to the window's end. */
static int go_on(const struct lane_window *w, const struct outcome *o, int64_t *advance,
                 struct err *err)
{
    int64_t end = o->closed && o->count ? o->drafts[o->count - 1].span.end : w->samples;
    float *pcm;
    bool whole;

    *advance = o->advance;
    if (o->advance < w->samples || w->samples - end < REST_LEAST)
        return 0;
    pcm = audio_of(w, &whole, err);
    if (!pcm)
        return err->code;
    if (whole && is_loud(pcm, w->samples, end))
        *advance = end;
    free(pcm);
    return 0;
}

int sequential_take(struct lane_window *w, const struct decoding_result *result, struct outcome *o,
                    struct err *err)
{
    struct decoding_result heard = *result, *r = &heard;
    struct lane *l = w->lane;
    int64_t advance;
    int rc;

    l->windows++;
    if ((rc = judge_noise(w, r, err)) || (rc = go_on(w, o, &advance, err)) ||
        (rc = outcome_yield(o, w, r, &l->yield, err)))
        return rc;
    take_language(l, w, r, o);
    take_text(l, r, o);
    if (o->speech_end >= 0)
        l->speech_end = w->at + o->speech_end;
    /* A model that ends every window after a word would need a hundred windows for half a minute.
     */
    l->short_moves = advance < RATE && advance < w->samples ? l->short_moves + 1 : 0;
    if (l->short_moves > SHORT_MOVES_MAX)
        advance = w->samples < RATE ? w->samples : RATE;
    l->first_window = NULL;
    lane_window_free(w);
    lane_move(l, l->end + advance);
    return 0;
}
