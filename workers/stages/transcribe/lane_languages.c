/* Which languages a packed lane's windows speak.
 *
 * A window is asked for its language when it begins (DECODING_LANGUAGE). If a lane should have one
 * language, its first windows agree on it, and the others wait for that. If the language may change
 * (`multilingual`), a window that is sure of its own goes on with it; Whisper is sure of a window
 * in one language, and unsure of one in two. An unsure window waits while its stretches of speech
 * are asked one by one, as *probes*; then they are smoothed (decode/language.h). If they agree, the
 * window goes on. If not, it is cut at the changes, and its pieces are decoded instead, each in its
 * language. */
#include <stdlib.h>

#include "workers/audio/speech.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/outcome/coverage.h"

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

bool lane_asks(const struct lane *l)
{
    return l->language < 0 && vocabulary_multilingual(l->policy->model->vocab);
}

/* Whether the window has its own answer, and waits for its lane's language or for its probes. */
bool lane_window_waits(const struct lane_window *w)
{
    if (!w->heard || w->whole || w->place == WINDOW_FINISHED)
        return false;
    return w->waits_for || (lane_asks(w->lane) && !(is_many(w->lane) && is_sure(w)));
}

/* ---- the lane's own */

void lane_note_word(struct lane_window *w)
{
    struct lane *l = w->lane;

    if (!w->whole && w->number < LANE_WORDS)
        l->words[w->number] = (struct lane_word){
            .known = true, .mute = w->mute, .language = w->language, .prob = w->language_prob};
}

/* The windows' words in order, as far as they are all known. Mute ones have a word only where the
 * lane ends and nobody else has one. */
bool lane_decide(struct lane *l, bool ended)
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

void lane_probe_answered(struct lane_window *w, int32_t language, float prob)
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

int lane_resolve(struct lane_window *w, struct err *err)
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
