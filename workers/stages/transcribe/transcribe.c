#include "workers/stages/transcribe/transcribe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "workers/models/silero/silero.h"
#include "workers/models/asr_model.h"
#include "workers/stages/transcribe/flight.h"
#include "workers/stages/transcribe/lane.h"
#include "workers/stages/transcribe/outcome/timing.h"
#include "workers/stages/transcribe/decode/token_rules.h"
#include "workers/text/tokenizer/vocabulary.h"

#define SLOTS_MAX 4096
/* Voice activity may take so long between two steps of the decoder, to fill free slots. */
#define LISTEN_NS INT64_C(50000000)
#define BLOCK ((size_t)SILERO_BLOCK * SILERO_STEP)

struct transcriber {
    struct asr_model *model;         /* borrowed */
    struct silero *vad;              /* borrowed; NULL: none */
    struct transcribe_params params; /* copied */
    struct token_rules *rules;
    struct timing *timing; /* NULL: no words */
    int32_t *initial, *hotwords;
    struct lane_policy policy;
    struct flight flight;
    struct silero_block *blocks; /* that the voice activity takes at once: */
    struct lane **listeners;     /*   whose they are, */
    float *pcm, *voice;          /*   their audio and its probabilities */
    struct lane *lanes;          /* owned; oldest first */
    uint32_t lane_count;
    int64_t samples_done;
    struct err lack; /* why it takes less at once than it was made with */
};

/* ---- making */

static int check_language(const struct asr_model *m, const char *code, int32_t *id, struct err *err)
{
    const struct vocabulary *v = m->vocab;

    *id = -1;
    if (!code || !code[0])
        return 0;
    if (!vocabulary_multilingual(v)) {
        if (strcmp(code, m->language) == 0)
            return 0;
        return err_set(err, ERR_USAGE,
                       "the model knows '%s' alone; language '%.15s' needs another model",
                       m->language, code);
    }
    *id = vocabulary_language_id(v, code);
    if (*id < 0)
        return err_set(err, ERR_USAGE,
                       "the model knows no language '%.15s'; it has %u, such as '%s'", code,
                       vocabulary_language_count(v),
                       vocabulary_language_code(v, vocabulary_ids(v)->first_language));
    return 0;
}

static int check_languages(const struct asr_model *m, const struct transcribe_params *p,
                           struct err *err)
{
    const char *list = p->language;
    char code[TRANSCRIBE_CODE_LEN];
    int32_t id;
    int rc = 0;

    if (!transcribe_many_languages(p))
        return check_language(m, list, &id, err);
    while (!rc && transcribe_next_language(&list, code))
        rc = check_language(m, code, &id, err);
    return rc;
}

static int check_params(const struct asr_model *m, const struct transcribe_params *p,
                        struct err *err)
{
    if (p->translate &&
        (!vocabulary_multilingual(m->vocab) || vocabulary_ids(m->vocab)->translate < 0))
        return err_set(err, ERR_USAGE, "the model cannot translate; take a multilingual one");
    return check_languages(m, p, err);
}

static int set_lane_policy(struct transcriber *t, struct err *err)
{
    struct lane_policy *p = &t->policy;
    int rc;

    p->params = &t->params;
    p->model = t->model;
    p->packed = t->vad != NULL;
    p->previous_max = t->model->positions / 2;
    rc = prompt_encode(t->model->vocab, t->params.initial_prompt, &t->initial, &p->initial_count,
                       err);
    if (!rc)
        rc = prompt_encode(t->model->vocab, t->params.hotwords, &t->hotwords, &p->hotwords_count,
                           err);
    p->initial = t->initial;
    p->hotwords = t->hotwords;
    return rc;
}

void transcribe_shape(const struct transcribe_params *p, uint32_t align_heads,
                      struct asr_shape *ret)
{
    *ret = (struct asr_shape){.branches = p->beam_size > p->best_of ? p->beam_size : p->best_of};
    if (ret->branches < 1)
        ret->branches = 1;
    ret->align_heads = p->word_timestamps ? align_heads : 0;
    ret->short_text = !p->condition_on_previous_text && !p->initial_prompt[0] && !p->hotwords[0] &&
                      p->max_tokens <= ASR_SHORT_TEXT;
}

uint32_t transcribe_rows(const struct transcribe_params *p)
{
    return p->beam_size > 1 ? p->beam_size : 1;
}

void transcribe_decoding(const struct transcribe_params *p, char ret[TRANSCRIBE_DECODING_LEN])
{
    char beams[24] = "", candidates[24] = "";
    struct asr_shape shape;

    transcribe_shape(p, 0, &shape);
    if (p->beam_size > 1)
        snprintf(beams, sizeof(beams), " beam_size=%u", p->beam_size);
    if (p->best_of > 1)
        snprintf(candidates, sizeof(candidates), " best_of=%u", p->best_of);
    snprintf(ret, TRANSCRIBE_DECODING_LEN, "%s%s%s%s", beams, candidates,
             p->word_timestamps ? " word_timestamps" : "", shape.short_text ? "" : " long_text");
    if (ret[0])
        memmove(ret, ret + 1, strlen(ret));
}

static int set_decoding_policy(struct transcriber *t, struct err *err)
{
    const struct asr_model *m = t->model;
    uint32_t positions = m->positions, max = t->params.max_tokens;
    uint32_t capacity = positions + 1 - m->prompt_max; /* the last token is not fed */

    transcribe_shape(&t->params, m->align_heads, &t->flight.shape);
    if (positions < m->prompt_max + 3)
        return err_set(err, ERR_MODEL, "the model's decoder has %u positions only", positions);
    if (!max)
        max = positions / 2;
    if (t->params.word_timestamps)
        capacity -= 2; /* all are fed, and the end: or the last ones' words could not be timed */
    if (max > capacity)
        max = capacity;
    t->flight.policy = (struct decoding_policy){
        .params = &t->params,
        .vocab = m->vocab,
        .positions = positions,
        .max_tokens = max,
        .branches = t->flight.shape.branches,
        .prompt = m->ops->prompt,
    };
    return 0;
}

static int make_ears(struct transcriber *t, struct err *err)
{
    size_t n = t->vad ? silero_blocks(t->vad) : 0;

    if (!n)
        return 0;
    t->blocks = calloc(n, sizeof(*t->blocks));
    t->listeners = calloc(n, sizeof(struct lane *));
    t->pcm = malloc(n * BLOCK * sizeof(*t->pcm));
    t->voice = malloc(n * SILERO_BLOCK * sizeof(*t->voice));
    if (!t->blocks || !t->listeners || !t->pcm || !t->voice)
        return err_set(err, ERR_NOMEM, "no memory for the voice activity");
    return 0;
}

static int build_transcriber(struct transcriber *t, uint32_t slots, uint32_t windows,
                             struct err *err)
{
    const struct asr_model *m = t->model;
    int rc = token_rules_new(m->vocab, m->vocab_size, &t->params, &t->rules, err);

    if (!rc)
        rc = set_lane_policy(t, err);
    if (!rc)
        rc = set_decoding_policy(t, err);
    if (!rc && t->params.word_timestamps)
        rc = timing_new(m, &t->timing, err);
    if (!rc)
        rc = make_ears(t, err);
    if (rc)
        return rc;
    t->flight.rules = token_rules_spec(t->rules);
    t->flight.timing = t->timing;
    rc = flight_open(&t->flight, slots ? slots : m->ops->default_slots(m, t->flight.shape), windows,
                     err);
    if (!rc) /* a single lane can have a batch waiting */
        t->policy.queue = t->flight.batch > LANE_QUEUE ? t->flight.batch : LANE_QUEUE;
    return rc;
}

int transcriber_new(struct asr_model *model, struct silero *vad,
                    const struct transcribe_params *params, uint32_t slots, uint32_t windows,
                    struct transcriber **ret, struct err *err)
{
    struct transcriber *t;
    int rc;

    if (!vad != !params->vad_model[0])
        return err_set(err, ERR_USAGE, "voice activity and its parameters do not go together");
    if (slots > SLOTS_MAX)
        return err_set(err, ERR_USAGE, "%u windows at once are too many; the limit is %u", slots,
                       SLOTS_MAX);
    if (model->window_samples == 0 || model->window_samples > ASR_WINDOW_MAX)
        return err_set(err, ERR_MODEL, "the model's windows have %u samples; the limit is %d",
                       model->window_samples, ASR_WINDOW_MAX);
    if (model->prompt_max == 0 || model->prompt_max > ASR_PROMPT_MAX)
        return err_set(err, ERR_MODEL, "the model's prompts have %u tokens; the limit is %d",
                       model->prompt_max, ASR_PROMPT_MAX);
    if (model->align_heads && model->frame_samples == 0)
        return err_set(err, ERR_MODEL, "the model aligns words, and says no length of a frame");
    if (!model->language && !vocabulary_multilingual(model->vocab))
        return err_set(err, ERR_MODEL, "the model knows one language, and does not say which");
    if ((rc = transcribe_params_check(params, err)) || (rc = check_params(model, params, err)))
        return rc;
    t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_NOMEM, "no memory for a transcriber");
    t->model = t->flight.model = model;
    t->vad = vad;
    t->params = *params;
    rc = build_transcriber(t, slots, windows, err);
    if (rc) {
        transcriber_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void transcriber_free(struct transcriber *t)
{
    if (!t)
        return;
    while (t->lanes) {
        struct lane *next = t->lanes->next;
        lane_free(t->lanes);
        t->lanes = next;
    }
    flight_close(&t->flight);
    timing_free(t->timing);
    token_rules_free(t->rules);
    free(t->initial);
    free(t->hotwords);
    free(t->blocks);
    free(t->listeners);
    free(t->pcm);
    free(t->voice);
    free(t);
}

uint32_t transcriber_slots(const struct transcriber *t) { return t->flight.slot_count; }

uint32_t transcriber_windows(const struct transcriber *t) { return t->flight.session->windows; }

const struct err *transcriber_lack(const struct transcriber *t) { return &t->lack; }

/* ---- lanes */

static struct lane *link_lane(struct transcriber *t, struct lane *l, lane_done done, void *done_arg)
{
    struct lane **end = &t->lanes;

    l->done = done;
    l->done_arg = done_arg;
    while (*end)
        end = &(*end)->next;
    *end = l;
    t->lane_count++;
    return l;
}

int transcriber_add(struct transcriber *t, int64_t start_sample, const char *language,
                    uint64_t seed, struct lane_source source, lane_done done, void *done_arg,
                    struct lane **ret, struct err *err)
{
    struct lane *l;
    int32_t id;
    int rc;

    if (!language || !language[0])
        language = transcribe_many_languages(&t->params) ? "" : t->params.language;
    if ((rc = check_language(t->model, language, &id, err)) ||
        (rc = lane_new(&t->policy, start_sample, id, seed, source, &l, err)))
        return rc;
    link_lane(t, l, done, done_arg);
    if (ret)
        *ret = l;
    return 0;
}

int transcriber_add_known_text(struct transcriber *t, int64_t start_sample,
                               const struct result_known_text *known_text, uint32_t text_source,
                               struct lane_source source, lane_done done, void *done_arg,
                               struct lane **ret, struct err *err)
{
    struct lane *l;
    int rc;

    if (!t->timing)
        return err_set(err, ERR_USAGE, "a text is there, and no times of its words are wanted");
    rc = lane_new_known_text(&t->policy, start_sample, known_text, text_source, source, &l, err);
    if (rc == 0)
        *ret = link_lane(t, l, done, done_arg);
    return rc;
}

static void unlink_lane(struct transcriber *t, struct lane *lane)
{
    struct lane **at = &t->lanes;

    while (*at && *at != lane)
        at = &(*at)->next;
    if (*at) {
        *at = lane->next;
        t->lane_count--;
    }
    flight_drop(&t->flight, lane);
}

void transcriber_remove(struct transcriber *t, struct lane *lane)
{
    unlink_lane(t, lane);
    lane_free(lane);
}

/* From the list's head again after each call: done may add and remove lanes. */
static void tell_ended(struct transcriber *t)
{
    struct lane *l = t->lanes;

    while (l) {
        if (l->state != LANE_ENDED) {
            l = l->next;
            continue;
        }
        unlink_lane(t, l);
        lane_tell(l);
        lane_free(l);
        l = t->lanes;
    }
}

/* ---- voice activity */

static uint32_t count_queued_windows(const struct transcriber *t)
{
    uint32_t n = 0;

    for (const struct lane *l = t->lanes; l; l = l->next)
        n += lane_queued(l);
    return n;
}

/* A piece of each lane that has one, oldest first, as many as the model takes. */
static int listen_once(struct transcriber *t, uint32_t *heard, struct err *err)
{
    uint32_t n = 0, most = silero_blocks(t->vad);
    int rc = 0;

    for (struct lane *l = t->lanes; l && n < most; l = l->next) {
        t->blocks[n].prob = t->voice + (size_t)n * SILERO_BLOCK;
        if (!l->known_text && lane_listen(l, t->pcm + n * BLOCK, &t->blocks[n], err))
            t->listeners[n++] = l;
    }
    *heard = n;
    if (n)
        rc = silero_run(t->vad, t->blocks, n, err);
    for (uint32_t i = 0; !rc && i < n; i++) {
        rc = lane_heard(t->listeners[i], &t->blocks[i], err);
        if (rc == ERR_IO) {
            lane_fail(t->listeners[i], err);
            rc = 0;
        }
    }
    return rc;
}

/* Once for each step of the decoder, and again while free slots wait for windows: where speech is
 * sparse, one needs many blocks. More windows than the slots hold are not waited with: each holds
 * its audio. */
static int detect_speech(struct transcriber *t, bool *progress, struct err *err)
{
    uint32_t slots = t->flight.slot_count, vacant = flight_vacant(&t->flight);
    uint32_t ready = t->vad ? count_queued_windows(t) : slots, heard = 1;
    int64_t end = clock_mono_ns() + LISTEN_NS;

    for (bool first = true; heard && ready < (first ? slots : vacant); first = false) {
        int rc;

        if (!first && clock_mono_ns() >= end)
            break;
        if ((rc = listen_once(t, &heard, err)))
            return rc;
        if (heard) {
            *progress = true;
            flight_beat(&t->flight);
            ready = count_queued_windows(t);
        }
    }
    return 0;
}

/* ---- a round */

/* Windows of texts that are there. */
static int prepare_text_windows(struct transcriber *t, bool *progress, struct err *err)
{
    int rc = 0;

    for (struct lane *l = t->lanes; l && rc == 0; l = l->next)
        if (l->known_text && l->state == LANE_OPEN)
            rc = known_text_prepare(l, progress, err);
    return rc;
}

/* A known text may be longer than what is decoded: for it, and from then on, branches get room for
 * all positions. */
static int make_room_for_text(struct transcriber *t, struct err *err)
{
    bool any = false;

    if (!t->flight.shape.short_text)
        return 0;
    for (const struct lane *l = t->lanes; l; l = l->next)
        any = any || (l->known_text && known_text_is_long(l));
    if (!any)
        return 0;
    t->lack = (struct err){.msg = "a text is longer than what is decoded"};
    return flight_lengthen(&t->flight, err);
}

static int run_decode_tick(struct transcriber *t, bool *progress, struct err *err)
{
    int rc = flight_fill(&t->flight, t->lanes, progress, err);

    return rc ? rc : flight_step(&t->flight, progress, err);
}

/* The voice activity has moved nothing on either: it hears the same again. */
static int shrink_slots(struct transcriber *t, struct err *err)
{
    struct err why = *err;
    int rc = flight_shrink(&t->flight, err);

    if (rc == 0)
        t->lack = why;
    return rc;
}

int transcriber_step(struct transcriber *t, bool *progress, struct err *err)
{
    int rc;

    *progress = false;
    rc = detect_speech(t, progress, err);
    if (!rc)
        rc = prepare_text_windows(t, progress, err);
    if (!rc && (rc = make_room_for_text(t, err)))
        return rc; /* there is no session that could be smaller */
    if (!rc)
        rc = run_decode_tick(t, progress, err);
    if (rc == ERR_VRAM) {
        *progress = true;
        rc = shrink_slots(t, err);
    }
    if (rc)
        return rc;
    for (struct lane *l = t->lanes; l; l = l->next) {
        int64_t samples = lane_count(l);

        t->samples_done += l->source.again ? 0 : samples;
        *progress = *progress || samples || l->state == LANE_ENDED;
    }
    tell_ended(t);
    return 0;
}

void transcriber_on_beat(struct transcriber *t, void (*fn)(void *arg), void *arg)
{
    t->flight.beat = fn;
    t->flight.beat_arg = arg;
}

void transcriber_stats(const struct transcriber *t, uint32_t *lanes, uint32_t *windows,
                       int64_t *samples_done)
{
    *lanes = t->lane_count;
    *windows = flight_count(&t->flight);
    *samples_done = t->samples_done;
}
