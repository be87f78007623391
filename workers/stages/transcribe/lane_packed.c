/* A lane whose speech is found first and packed into windows, as in faster-whisper's batched
 * pipeline. A window holds its audio itself: the source is released as the voice activity moves on,
 * so that hours of silence hold nothing. */
#include <stdlib.h>
#include <string.h>

#include "workers/audio/speech.h"
#include "workers/models/asr_model.h"
#include "workers/models/silero/silero.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/outcome/coverage.h"
#include "workers/stages/transcribe/outcome/outcome.h"

/* ---- pieces of a window */

struct listening {
    struct silero_stream stream;
    struct speech *speech;
    int64_t heard;            /* samples from the lane's begin that the model has heard */
    int64_t offered;          /* of the block that it hears now */
    bool last;                /* and it is the lane's last */
    bool ended;               /* the lane's audio was heard to its end */
    struct lane_window *open; /* owned: being filled; NULL: none */
};

/* All of its windows are in the list, or were. */
static bool lane_heard_all(const struct lane *l) { return l->listening->ended; }

static struct lane_window *whole_of(struct lane_window *w) { return w->whole ? w->whole : w; }

/* A window of samples [from, to) of the whole that w is, or is a piece of; they lie in w, whose
 * audio is still there. It stands behind the other pieces. */
static int lane_piece(struct lane_window *w, int64_t from, int64_t to, struct lane_window **ret,
                      struct err *err)
{
    struct lane_window *whole = whole_of(w), *at = whole, *piece;
    size_t n = (size_t)(to - from), steps = (n + SPEECH_STEP - 1) / SPEECH_STEP;
    int rc = lane_window_new(w->lane, 0, &piece, err);

    if (rc)
        return rc;
    piece->pcm = malloc(n * sizeof(*piece->pcm));
    piece->voice = malloc(steps * sizeof(*piece->voice));
    rc = piece->pcm && piece->voice ? pack_slice(&whole->pack, from, to, &piece->pack, err)
                                    : err_set(err, ERR_NOMEM, "no memory for a window");
    if (rc) {
        lane_window_free(piece);
        return rc;
    }
    memcpy(piece->pcm, w->pcm + (from - w->offset), n * sizeof(*piece->pcm));
    memcpy(piece->voice, w->voice + (from - w->offset) / SPEECH_STEP,
           steps * sizeof(*piece->voice));
    piece->samples = piece->pcm_room = to - from;
    piece->at = pack_time(&piece->pack, 0, false);
    piece->whole = whole;
    piece->offset = from;
    piece->depth = w->depth + 1;
    piece->language = w->language;
    while (at->next && at->next->whole == whole)
        at = at->next;
    piece->next = at->next;
    at->next = piece;
    whole->pieces++;
    whole->waits_for++;
    *ret = piece;
    return 0;
}

/* The place with the least voice activity, in the middle third of samples [from, to) of w. */
static int64_t lane_quietest(const struct lane_window *w, int64_t from, int64_t to)
{
    const int64_t steps = (to - from) / SPEECH_STEP;
    const float *voice = w->voice + from / SPEECH_STEP;
    int64_t best = steps / 2;

    for (int64_t i = steps / 3; i <= steps * 2 / 3; i++)
        if (voice[i] < voice[best])
            best = i;
    return from / SPEECH_STEP * SPEECH_STEP + best * SPEECH_STEP;
}

/* The whole window's coverage, made where it is not there yet, while w is the whole. */
static int coverage_of(struct lane_window *w, struct err *err)
{
    if (w->coverage)
        return 0;
    w->coverage = malloc(sizeof(*w->coverage));
    if (!w->coverage)
        return err_set(err, ERR_NOMEM, "no memory for a window");
    coverage_begin(w->coverage, w->voice, w->samples, w->lane->policy->params->vad_threshold);
    return 0;
}

/* ---- which languages a packed lane's windows speak
 *
 * A window is asked for its language when it begins (DECODING_LANGUAGE). If a lane should have one
 * language, its first windows agree on it, and the others wait for that. If the language may change
 * (`multilingual`), a window that is sure of its own goes on with it; Whisper is sure of a window
 * in one language, and unsure of one in two. An unsure window waits while its stretches of speech
 * are asked one by one, as *probes*; then they are smoothed (decode/language.h). If they agree, the
 * window goes on. If not, it is cut at the changes, and its pieces are decoded instead, each in its
 * language. */

#define STRETCH_LEAST 32000 /* samples: of less Whisper does not know the language well */
#define STRETCH_MOST 112000 /* and one that is longer without a pause is halved */
#define STRETCHES_MAX 12

static bool is_many(const struct lane *l)
{
    return l->policy->params->multilingual && vocabulary_multilingual(l->policy->model->vocab);
}

static bool is_language_sure(const struct lane_window *w, float prob)
{
    return prob >= LANGUAGE_SURE && w->samples >= STRETCH_LEAST;
}

static bool is_sure(const struct lane_window *w) { return is_language_sure(w, w->language_prob); }

/* its language is still to be found */
static bool lane_asks(const struct lane *l)
{
    return l->language < 0 && vocabulary_multilingual(l->policy->model->vocab);
}

/* Whether the window has its own answer, and waits for its lane's language or for its probes. */
static bool lane_window_waits(const struct lane_window *w)
{
    if (!w->heard || w->whole || w->place == WINDOW_FINISHED)
        return false;
    return w->waits_for || (lane_asks(w->lane) && !(is_many(w->lane) && is_sure(w)));
}

/* ---- the lane's own */

/* A whole window's word for the lane's language. */
static void lane_note_word(struct lane_window *w)
{
    struct lane *l = w->lane;

    if (!w->whole && w->number < LANE_WORDS)
        l->words[w->number] = (struct lane_word){
            .known = true, .mute = w->mute, .language = w->language, .prob = w->language_prob};
}

/* The windows' words in order, as far as they are all known. Mute ones have a word only where the
 * lane ends and nobody else has one. */
static bool lane_decide(struct lane *l, bool ended)
{
    const struct transcribe_params *p = l->policy->params;
    struct language_rule rule = {p->language_detection_segments, p->language_detection_threshold};
    struct language_tally tally = {0}, mute = {0};

    for (uint32_t i = 0; i < l->numbered && i < LANE_WORDS; i++) {
        const struct lane_word *word = &l->words[i];

        if (!word->known)
            return false;
        if (word->mute && word->language >= 0)
            language_add(&mute, word->language, word->prob);
        else if (!word->mute && language_ask(&tally, &rule, word->language, word->prob,
                                             &l->language, &l->language_prob))
            return true;
    }
    return (ended || l->numbered >= LANE_WORDS) &&
           language_most(tally.windows ? &tally : &mute, &l->language, &l->language_prob);
}

/* ---- stretches of a window */

struct stretches {
    int64_t end[STRETCHES_MAX]; /* samples of the window; the last one is its end */
    uint32_t count;
};

/* At the pauses that voice activity found; those that are too short go with what follows, or, at
 * the end, with what is before. */
static void find_stretches(const struct lane_window *w, struct stretches *ret)
{
    int64_t least = w->samples / (STRETCHES_MAX - 2), begin = 0, at = 0;

    least = least > STRETCH_LEAST ? least : STRETCH_LEAST;
    ret->count = 0;
    for (uint32_t i = 0; i < w->pack.count; i++) {
        at += w->pack.spans[i].end - w->pack.spans[i].start;
        if (i + 1 < w->pack.count && (at - begin < least || w->samples - at < STRETCH_LEAST))
            continue;
        if (at - begin > STRETCH_MOST && ret->count + 2 < STRETCHES_MAX)
            ret->end[ret->count++] = lane_quietest(w, begin, at);
        ret->end[ret->count++] = begin = at;
    }
}

static int64_t stretch_begin(const struct stretches *s, uint32_t i)
{
    return i ? s->end[i - 1] : 0;
}

/* Asks them: *asked: there are several. */
static int ask_stretches(struct lane_window *w, bool *asked, struct err *err)
{
    struct stretches s;
    int rc = 0;

    find_stretches(w, &s);
    *asked = s.count > 1;
    for (uint32_t i = 0; !rc && *asked && i < s.count; i++) {
        struct lane_window *probe;

        rc = lane_piece(w, stretch_begin(&s, i), s.end[i], &probe, err);
        if (!rc)
            probe->is_probe = true;
    }
    return rc;
}

/* ---- what the probes say */

static void lane_probe_answered(struct lane_window *w, int32_t language, float prob)
{
    w->language = language;
    w->language_prob = prob;
    w->place = WINDOW_FINISHED;
    w->whole->waits_for--;
}

/* Takes the probes out of the list. Returns how many there were. */
static uint32_t take_probes(struct lane_window *w, struct language_stretch *ret)
{
    int64_t end = w->at;
    uint32_t n = 0;

    while (w->next && w->next->whole == w && n < STRETCHES_MAX) {
        struct lane_window *probe = w->next;

        ret[n++] = (struct language_stretch){.start = probe->offset,
                                             .end = probe->offset + probe->samples,
                                             .pause = probe->at - end,
                                             .language = probe->language,
                                             .prob = probe->language_prob};
        end = pack_time(&probe->pack, probe->samples, true);
        w->next = probe->next;
        lane_window_free(probe);
    }
    w->pieces = 0;
    return n;
}

/* A window in several languages is done with; its pieces are decoded. */
static int split_by_language(struct lane_window *w, const struct language_stretch *s, uint32_t n,
                             struct err *err)
{
    int rc = coverage_of(w, err);

    for (uint32_t i = 0, end; !rc && i < n; i = end) {
        struct lane_window *piece;

        for (end = i + 1; end < n && s[end].language == s[i].language; end++)
            continue;
        rc = lane_piece(w, s[i].start, s[end - 1].end, &piece, err);
        if (rc)
            break;
        piece->is_known = true;
        piece->language = s[i].language;
        piece->language_prob = language_mean(&s[i], end - i);
    }
    if (!rc)
        w->place = WINDOW_FINISHED;
    return rc;
}

/* Call it when all probes of a window have answered. The window goes on in one language, or is cut
 * into pieces and FINISHED. */
static int lane_resolve(struct lane_window *w, struct err *err)
{
    struct language_stretch s[STRETCHES_MAX];
    uint32_t n = take_probes(w, s), same = 1;

    language_smooth(s, n, w->lane->language);
    while (same < n && s[same].language == s[0].language)
        same++;
    w->is_known = true;
    w->language = s[0].language;
    w->language_prob = language_mean(s, n);
    return same < n ? split_by_language(w, s, n, err) : 0;
}

/* ---- a window that was asked */

static enum lane_hearing use_known_language(const struct lane_window *w, int32_t *language,
                                            float *prob)
{
    *language = w->language;
    *prob = w->language_prob;
    return LANE_GOES;
}

/* In a lane of many languages. */
static int hear_many(struct lane_window *w, int32_t heard, float heard_prob, enum lane_hearing *ret,
                     struct err *err)
{
    struct lane *l = w->lane;
    bool asked = false;
    int rc = 0;

    *ret = LANE_GOES;
    if (w->is_known)
        return 0;
    if (w->whole) { /* heard again: in its own language where it is sure, else in its whole's */
        if (is_language_sure(w, heard_prob)) {
            w->language = heard;
            w->language_prob = heard_prob;
        }
        return 0;
    }
    if (is_sure(w))
        return 0;
    *ret = LANE_WAITS;
    if (!w->is_asked) {
        w->is_asked = true;
        rc = ask_stretches(w, &asked, err);
    }
    if (rc || w->waits_for || lane_asks(l))
        return rc;
    if (w->pieces) {
        rc = lane_resolve(w, err);
        *ret = w->place == WINDOW_FINISHED ? LANE_IS_DONE : LANE_GOES;
        return rc;
    }
    /* One stretch, and unsure: as its lane, unless it is likelier than all others together, and
     * long enough for that to mean something. */
    *ret = LANE_GOES;
    if (heard_prob < 0.5f || w->samples < STRETCH_LEAST) {
        w->language = l->language;
        w->language_prob = l->language_prob;
    }
    return 0;
}

int packed_language(struct lane_window *w, int32_t heard, float heard_prob, int32_t *language,
                    float *prob, enum lane_hearing *ret, struct err *err)
{
    struct lane *l = w->lane;
    int rc = 0;

    if (w->is_probe) {
        lane_probe_answered(w, heard, heard_prob);
        *ret = LANE_IS_DONE;
        return 0;
    }
    if (!w->whole && !w->heard) {
        w->heard = true;
        w->language = heard;
        w->language_prob = heard_prob;
        lane_note_word(w);
    }
    if (lane_asks(l))
        lane_decide(l, lane_heard_all(l));
    if (is_many(l)) {
        rc = hear_many(w, heard, heard_prob, ret, err);
        use_known_language(w, language, prob);
        return rc;
    }
    *ret = lane_asks(l) ? LANE_WAITS : LANE_GOES;
    *language = l->language;
    *prob = l->language_prob;
    return 0;
}

/* ---- the lane */

#define BLOCK ((int64_t)SILERO_BLOCK * SILERO_STEP)
#define SHORTEST 1600 /* samples; nobody says anything in a tenth of a second */

/* Speech without text is decoded again by itself from so many steps on (0.64 s). If half a second
 * or more still has no text, it is reported as missing. */
#define GAP_LEAST 20
#define MISSING_LEAST 16
#define GAP_PAD (4 * (int64_t)SPEECH_STEP) /* kept on both sides of it */
#define SPLIT_LEAST 128000 /* samples: without any text, a longer window is halved */
#define DEPTH_MAX 3
#define PIECES_MAX 16

static int64_t window_of(const struct lane *l) { return l->policy->model->window_samples; }

static size_t voice_steps(const struct lane *l)
{
    return (size_t)(window_of(l) + SPEECH_STEP - 1) / SPEECH_STEP;
}

int packed_begin(struct lane *l, struct err *err)
{
    const struct transcribe_params *p = l->policy->params;
    const struct speech_params speech = {
        .threshold = p->vad_threshold,
        .neg_threshold = p->vad_neg_threshold,
        .min_speech_ms = p->vad_min_speech_duration_ms,
        .max_speech_ms = (uint32_t)(window_of(l) / (ASR_RATE_HZ / 1000)),
        .min_silence_ms = p->vad_min_silence_duration_ms,
        .pad_ms = p->vad_speech_pad_ms,
    };

    l->listening = calloc(1, sizeof(*l->listening));
    if (!l->listening)
        return err_set(err, ERR_NOMEM, "no memory for a lane");
    return speech_new(&speech, &l->listening->speech, err);
}

void packed_free(struct listening *h)
{
    if (!h)
        return;
    speech_free(h->speech);
    lane_window_free(h->open);
    free(h);
}

/* ---- what is done with */

static void advance_lane_end(struct lane *l, int64_t to)
{
    if (to > l->end)
        l->end = to;
}

/* Nothing before the oldest window that is not finished, or before what is still listened to. */
static void note_progress(struct lane *l)
{
    const struct listening *h = l->listening;
    int64_t horizon = speech_horizon(h->speech);

    if (l->first_window)
        advance_lane_end(l, l->first_window->at);
    else if (h->open)
        advance_lane_end(l, h->open->at);
    else
        advance_lane_end(l, l->begin + (h->ended || horizon > h->heard ? h->heard : horizon));
}

/* A whole window is done with, and its pieces: what became of its speech. */
static int count_window_coverage(struct lane *l, struct lane_window *w, struct err *err)
{
    if (!w->coverage)
        return 0;
    coverage_close(w->coverage, MISSING_LEAST);
    coverage_count(w->coverage, &l->account);
    return outcome_missing(w, 1, &w->yield, err);
}

/* Takes what the finished windows at the front have yielded; the last one ends the lane. */
static int apply_finished_windows(struct lane *l, struct err *err)
{
    struct lane_window *w;
    int rc = 0;

    while (!rc && (w = l->first_window) && w->place == WINDOW_FINISHED && !w->waits_for) {
        if ((rc = count_window_coverage(l, w, err)) || (rc = yield_move(&l->yield, &w->yield, err)))
            break;
        l->windows++;
        l->spoke = l->spoke || w->spoke;
        if (w->spoke)
            lane_note_language(l, w, w->language, w->language_prob);
        l->first_window = w->next;
        lane_window_free(w);
    }
    note_progress(l);
    if (!rc && !l->first_window && l->listening->ended)
        l->state = LANE_ENDED;
    return rc;
}

/* ---- filling windows */

/* The window that is being filled has all it can hold. */
static void queue_open(struct lane *l)
{
    struct lane_window *w = l->listening->open, **end = &l->first_window;

    l->listening->open = NULL;
    if (!w || w->samples < SHORTEST) {
        lane_window_free(w);
        return;
    }
    while (*end)
        end = &(*end)->next;
    w->number = l->numbered++;
    *end = w;
}

static int grow_window_audio(struct lane_window *w, int64_t samples, struct err *err)
{
    int64_t room = 2 * w->pcm_room > samples ? 2 * w->pcm_room : samples;
    float *pcm;

    if (samples <= w->pcm_room)
        return 0;
    if (room > window_of(w->lane))
        room = window_of(w->lane);
    pcm = realloc(w->pcm, (size_t)room * sizeof(*pcm));
    if (!pcm)
        return err_set(err, ERR_NOMEM, "no memory for a window's audio");
    w->pcm = pcm;
    w->pcm_room = room;
    return 0;
}

/* The probabilities of the steps in which the window's own steps begin. */
static void note_voice(struct lane_window *w, const struct speech *speech, int64_t start,
                       int64_t samples)
{
    int64_t i = (w->samples + SPEECH_STEP - 1) / SPEECH_STEP;

    for (; i * SPEECH_STEP < w->samples + samples; i++) {
        int64_t at = start + i * SPEECH_STEP - w->samples;
        float prob = speech_mean(speech, at, at + 1);

        w->voice[i] = prob > 0 ? prob : 0;
    }
}

/* A stretch of at most a window, whose samples count from the lane's begin. */
static int append_speech_span(struct lane *l, const struct speech_span *span, struct err *err)
{
    struct listening *h = l->listening;
    struct speech_span placed = {l->begin + span->start, l->begin + span->end, span->prob};
    int64_t n = span->end - span->start;
    struct lane_window *w;
    int rc;

    if (h->open && !pack_fits(&h->open->pack, span, window_of(l)))
        queue_open(l);
    if (!h->open && (rc = lane_window_new(l, placed.start, &h->open, err)))
        return rc;
    w = h->open;
    if (!w->voice && !(w->voice = calloc(voice_steps(l), sizeof(*w->voice))))
        return err_set(err, ERR_NOMEM, "no memory for a window");
    if ((rc = grow_window_audio(w, w->samples + n, err)) || (rc = pack_add(&w->pack, &placed, err)))
        return rc;
    if (l->source.read(l->source.arg, placed.start, (size_t)n, w->pcm + w->samples) != n)
        return err_set(err, ERR_IO, "the audio's source has lost what it had");
    note_voice(w, h->speech, span->start, n);
    w->samples += n;
    return 0;
}

static int take_speech(struct lane *l, struct err *err)
{
    struct speech_span span;
    int rc = 0;

    while (!rc && speech_next(l->listening->speech, &span)) {
        while (!rc && span.end - span.start > window_of(l)) {
            struct speech_span piece = span;

            piece.end = span.start = span.start + window_of(l);
            rc = append_speech_span(l, &piece, err);
        }
        if (!rc)
            rc = append_speech_span(l, &span, err);
    }
    return rc;
}

/* ---- listening */

static uint32_t queue_of(const struct lane *l)
{
    return l->policy->queue ? l->policy->queue : LANE_QUEUE;
}

/* Whether the lane holds as many windows as it should. Those that wait for its language count: so
 * many that they can decide on it have room. Mute ones cannot, and do not count. */
static bool is_full(const struct lane *l)
{
    uint32_t ask = lane_asks(l) ? l->policy->params->language_detection_segments : 0, n = 0;

    for (const struct lane_window *w = l->first_window; w; w = w->next)
        n += w->place == WINDOW_QUEUED && !(lane_window_waits(w) && w->mute);
    return n >= (ask > queue_of(l) ? ask : queue_of(l));
}

uint32_t packed_queued(const struct lane *l)
{
    uint32_t n = 0;

    for (const struct lane_window *w = l->first_window; w; w = w->next)
        n += w->place == WINDOW_QUEUED && !lane_window_waits(w);
    return n;
}

uint32_t packed_coming(const struct lane *l)
{
    uint32_t queued = packed_queued(l);

    return l->listening->ended || queued > queue_of(l) ? queued : queue_of(l);
}

int lane_listen(struct lane *l, float *pcm, struct silero_block *block, struct err *err)
{
    struct listening *h = l->listening;
    int64_t n;

    if (l->state == LANE_ENDED || h->ended || is_full(l))
        return 0;
    n = l->source.read(l->source.arg, l->begin + h->heard, (size_t)BLOCK, pcm);
    if (n == -1)
        return 0;
    if (n < 0 || n > BLOCK) {
        err_set(err, ERR_IO, "the audio's source failed (%lld)", (long long)n);
        lane_fail(l, err);
        return 0;
    }
    h->offered = n;
    h->last = n < BLOCK;
    block->stream = &h->stream;
    block->pcm = pcm;
    block->samples = (uint32_t)n;
    block->steps = h->last ? (uint32_t)speech_steps(n) : SILERO_BLOCK;
    return 1;
}

int lane_heard(struct lane *l, const struct silero_block *block, struct err *err)
{
    struct listening *h = l->listening;
    int64_t horizon;
    int rc = speech_feed(h->speech, block->prob, block->steps, err);

    h->heard += h->offered;
    if (!rc && h->last)
        rc = speech_end(h->speech, h->heard, err);
    if (!rc)
        rc = take_speech(l, err);
    if (rc)
        return rc;
    h->ended = h->last;
    if (h->ended)
        queue_open(l);
    horizon = speech_horizon(h->speech);
    l->source.release(l->source.arg,
                      l->begin + (h->ended || horizon > h->heard ? h->heard : horizon));
    return apply_finished_windows(l, err);
}

int packed_next(struct lane *l, struct lane_window **ret, struct err *err)
{
    int rc = 0;

    if (lane_asks(l))
        lane_decide(l, l->listening->ended);
    *ret = NULL;
    for (struct lane_window *w = l->first_window; !rc && w && !*ret; w = w->next) {
        if (w->place != WINDOW_QUEUED || lane_window_waits(w))
            continue;
        if (w->is_asked && !w->is_known && w->pieces)
            rc = lane_resolve(w, err);
        if (w->place == WINDOW_QUEUED)
            *ret = w;
    }
    return rc;
}

/* ---- what has no text is heard again */

static int add_piece(struct lane_window *w, int64_t from, int64_t to, struct err *err)
{
    struct lane_window *piece;

    return lane_piece(w, from, to, &piece, err);
}

static int halve_textless_window(struct lane_window *w, struct err *err)
{
    int64_t at = w->offset + lane_quietest(w, 0, w->samples);
    int rc = w->samples < SPLIT_LEAST ? 0 : add_piece(w, w->offset, at, err);

    if (!rc && w->samples >= SPLIT_LEAST)
        rc = add_piece(w, at, w->offset + w->samples, err);
    return rc;
}

static int hear_again(struct lane_window *w, const struct outcome *o, struct err *err)
{
    const struct lane_window *whole = whole_of(w);
    const int64_t begin = w->offset, end = w->offset + w->samples;
    struct coverage_gap gap = {.end = begin};
    int rc = 0;

    if (w->depth == DEPTH_MAX)
        return 0;
    if (!outcome_text(o).kept)
        return halve_textless_window(w, err);
    while (!rc && whole->pieces < PIECES_MAX &&
           coverage_next_gap(whole->coverage, gap.end, end, GAP_LEAST, &gap)) {
        int64_t from = gap.start - GAP_PAD, to = gap.end + GAP_PAD;

        rc = add_piece(w, from > begin ? from : begin, to < end ? to : end, err);
    }
    return rc;
}

static int cover_and_queue_gaps(struct lane_window *w, const struct outcome *o, struct err *err)
{
    struct lane_window *whole = whole_of(w);
    int rc = coverage_of(whole, err);

    if (rc)
        return rc;
    outcome_cover(o, w, whole->coverage);
    return hear_again(w, o, err);
}

/* ---- results */

int packed_take(struct lane_window *w, const struct decoding_result *r, struct outcome *o,
                struct err *err)
{
    int rc;

    if (w->is_probe) { /* silence beyond doubt */
        lane_probe_answered(w, r->language, r->language_prob < 0.5f ? r->language_prob : 0.5f);
        return 0;
    }
    if ((rc = outcome_yield(o, w, r, &w->yield, err)))
        return rc;
    w->place = WINDOW_FINISHED;
    w->spoke = outcome_is_speech(o, w, r);
    if (!w->heard && !w->whole) { /* silence beyond doubt: nobody asked it */
        w->mute = true;
        w->language = -1;
        lane_note_word(w);
    }
    w->unasked = r->silent && !r->attempts;
    w->language = r->language;
    w->language_prob = r->language_prob;
    if ((rc = cover_and_queue_gaps(w, o, err)))
        return rc;
    if (w->whole)
        w->whole->waits_for--;
    free(w->pcm);
    w->pcm = NULL;
    return apply_finished_windows(w->lane, err);
}
