#include "workers/stages/transcribe.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "gpu/backend.h"
#include "workers/models/whisper.h"
#include "workers/stages/lane.h"
#include "workers/stages/token_rules.h"
#include "workers/stages/window.h"

#define SLOTS_MAX 4096
#define ENCODE_MAX 16                 /* windows whose audio is held at once: 1.9 MB each */
#define IDLE_SHARE 8                  /* an eighth of the slots may wait for a batch to be whole */
#define ENCODE_NS INT64_C(1000000000) /* what one call may take, when windows are short enough */

struct slot {
    struct lane *lane; /* NULL: free */
    struct window window;
};

struct transcriber {
    struct whisper *model;           /* borrowed */
    const struct vocabulary *vocab;  /* borrowed */
    struct transcribe_params params; /* copied */
    struct token_rules *rules;
    struct window_policy policy;
    struct whisper_session *session;
    struct slot *slots;
    uint32_t slot_count;
    uint32_t encode_max; /* windows per call that the device has memory for */
    uint32_t fill_from;  /* free slots that are worth a call of the encoder */
    float *pcm;          /* encode_max windows' audio */
    struct whisper_window *windows;
    struct whisper_row *rows; /* a row per slot, what is asked of it, and the answer */
    struct choice_ask *asks;
    struct choice *choices;
    struct lane *lanes; /* owned; oldest first */
    uint32_t lane_count;
    int64_t samples_done;
    int64_t window_ns; /* what a window of the last call took to encode; 0: not known yet */
    struct err lack;   /* why it takes less at once than it was made with */
    void (*beat)(void *arg);
    void *beat_arg;
};

/* ---- making */

static int check_language(const struct vocabulary *v, const char *code, int32_t *id,
                          struct err *err)
{
    *id = -1;
    if (!code || !code[0])
        return 0;
    if (!vocabulary_multilingual(v)) {
        if (strcmp(code, "en") == 0)
            return 0;
        return err_set(err, ERR_USAGE, "the model is English-only; language '%.15s' needs another",
                       code);
    }
    *id = vocabulary_language_id(v, code);
    if (*id < 0)
        return err_set(err, ERR_USAGE,
                       "the model knows no language '%.15s'; it has %u, such as '%s'", code,
                       vocabulary_language_count(v),
                       vocabulary_language_code(v, vocabulary_ids(v)->first_language));
    return 0;
}

static int check_params(const struct vocabulary *v, const struct transcribe_params *p,
                        struct err *err)
{
    int32_t id;

    if (p->translate && (!vocabulary_multilingual(v) || vocabulary_ids(v)->translate < 0))
        return err_set(err, ERR_USAGE, "the model cannot translate; take a multilingual one");
    return check_language(v, p->language, &id, err);
}

/* A session with as many of the wanted slots as the device has memory for. */
static int open_session(struct transcriber *t, uint32_t slots, uint32_t windows, struct err *err)
{
    int rc;

    while ((rc = whisper_session_new(t->model,
                                     (struct whisper_shape){.slots = slots, .windows = windows},
                                     &t->session, err)) == ERR_VRAM &&
           slots > 1) {
        log_warn("no device memory for %u windows at once; trying %u", slots, slots / 2);
        slots /= 2;
    }
    t->slot_count = slots;
    return rc != 0 ? rc : whisper_session_rules(t->session, token_rules_spec(t->rules), err);
}

static int set_policy(struct transcriber *t, struct err *err)
{
    uint32_t positions = whisper_config(t->model)->max_target_positions, max = t->params.max_tokens;

    if (positions < PROMPT_MAX + 2)
        return err_set(err, ERR_MODEL, "the model's decoder has %u positions only", positions);
    if (!max)
        max = positions / 2;
    if (max > positions - PROMPT_MAX)
        max = positions - PROMPT_MAX;
    t->policy = (struct window_policy){&t->params, t->vocab, max};
    return 0;
}

static int make_slots(struct transcriber *t, struct err *err)
{
    uint32_t windows = whisper_session_windows(t->session);

    t->encode_max = windows > ENCODE_MAX ? windows : ENCODE_MAX;
    if (t->encode_max > t->slot_count)
        t->encode_max = t->slot_count;
    t->fill_from = t->slot_count / IDLE_SHARE < windows ? t->slot_count / IDLE_SHARE : windows;
    t->slots = calloc(t->slot_count, sizeof(*t->slots));
    t->rows = calloc(t->slot_count, sizeof(*t->rows));
    t->asks = calloc(t->slot_count, sizeof(*t->asks));
    t->choices = calloc(t->slot_count, sizeof(*t->choices));
    t->windows = calloc(t->encode_max, sizeof(*t->windows));
    t->pcm = malloc(t->encode_max * (size_t)WHISPER_WINDOW_SAMPLES * sizeof(*t->pcm));
    if (!t->slots || !t->rows || !t->asks || !t->choices || !t->windows || !t->pcm)
        return err_set(err, ERR_NOMEM, "no memory for %u windows at once", t->slot_count);
    for (uint32_t i = 0; i < t->slot_count; i++) {
        int rc = window_init(&t->slots[i].window, &t->policy, err);
        if (rc)
            return rc;
    }
    return 0;
}

int transcriber_new(struct whisper *model, struct silero *vad, const struct vocabulary *vocab,
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
    if ((rc = transcribe_params_check(params, err)) || (rc = check_params(vocab, params, err)))
        return rc;
    t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(err, ERR_NOMEM, "no memory for a transcriber");
    t->model = model;
    t->vocab = vocab;
    t->params = *params;
    rc = token_rules_new(vocab, whisper_config(model)->vocab_size, &t->params, &t->rules, err);
    if (!rc)
        rc = set_policy(t, err);
    if (!rc)
        rc = open_session(t, slots ? slots : whisper_default_slots(model, 1), windows, err);
    if (!rc)
        rc = make_slots(t, err);
    if (rc) {
        transcriber_free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

static void free_slots(struct transcriber *t)
{
    for (uint32_t i = 0; t->slots && i < t->slot_count; i++)
        window_free(&t->slots[i].window);
    free(t->slots);
    free(t->rows);
    free(t->asks);
    free(t->choices);
    free(t->windows);
    free(t->pcm);
    t->slots = NULL;
    t->rows = NULL;
    t->asks = NULL;
    t->choices = NULL;
    t->windows = NULL;
    t->pcm = NULL;
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
    free_slots(t);
    whisper_session_free(t->session);
    token_rules_free(t->rules);
    free(t);
}

uint32_t transcriber_slots(const struct transcriber *t) { return t->slot_count; }

uint32_t transcriber_windows(const struct transcriber *t)
{
    return whisper_session_windows(t->session);
}

const struct err *transcriber_lack(const struct transcriber *t) { return &t->lack; }

/* ---- lanes */

int transcriber_add(struct transcriber *t, int64_t start_sample, const char *language,
                    uint64_t seed, struct lane_source source, lane_done done, void *done_arg,
                    struct lane **ret, struct err *err)
{
    struct lane **end = &t->lanes, *l;
    int32_t id;
    int rc;

    if (!language || !language[0])
        language = t->params.language;
    if ((rc = check_language(t->vocab, language, &id, err)))
        return rc;
    l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(err, ERR_NOMEM, "no memory for a lane");
    l->source = source;
    l->done = done;
    l->done_arg = done_arg;
    l->seed = seed;
    l->begin = l->seek = start_sample;
    l->language = id;
    l->language_prob = 1;
    while (*end)
        end = &(*end)->next;
    *end = l;
    t->lane_count++;
    if (ret)
        *ret = l;
    return 0;
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
    for (uint32_t i = 0; i < t->slot_count; i++)
        if (t->slots[i].lane == lane)
            t->slots[i].lane = NULL;
}

void transcriber_remove(struct transcriber *t, struct lane *lane)
{
    unlink_lane(t, lane);
    lane_free(lane);
}

/* ---- a round */

static struct slot *free_slot(struct transcriber *t)
{
    for (uint32_t i = 0; i < t->slot_count; i++)
        if (!t->slots[i].lane)
            return &t->slots[i];
    return NULL;
}

/* Where the encoder takes many windows at once, slots that become free one by one wait until they
 * are a batch; never all of them. */
static bool worth_filling(const struct transcriber *t)
{
    uint32_t vacant = 0;

    for (uint32_t i = 0; i < t->slot_count; i++)
        vacant += t->slots[i].lane == NULL;
    return vacant > 0 && (vacant >= t->fill_from || vacant == t->slot_count);
}

/* Puts windows that are ready into free slots, at most encode_max of them. */
static uint32_t fill(struct transcriber *t, struct whisper_window *windows, bool *progress)
{
    uint32_t n = 0;

    for (struct lane *l = worth_filling(t) ? t->lanes : NULL; l && n < t->encode_max; l = l->next) {
        float *pcm = t->pcm + (size_t)n * WHISPER_WINDOW_SAMPLES;
        struct slot *slot;
        int64_t passed;
        int ready;

        if (l->state != LANE_WAITING)
            continue;
        slot = free_slot(t);
        if (!slot)
            break;
        ready = lane_read(l, pcm, &passed);
        t->samples_done += passed;
        *progress = *progress || passed || l->state == LANE_ENDED;
        if (!ready)
            continue;
        slot->lane = l;
        l->state = LANE_FLYING;
        /* The window's place, not its number: a lane's windows do not depend on how it was cut into
         * calls. */
        window_begin(&slot->window, number_seed(l->seed, (uint64_t)(l->seek - l->begin)),
                     l->language);
        windows[n++] = (struct whisper_window){(uint32_t)(slot - t->slots), pcm, (size_t)l->window};
    }
    return n;
}

static void beat(const struct transcriber *t)
{
    if (t->beat)
        t->beat(t->beat_arg);
}

/* Windows for the next call out of n: those whose audio is held, and not so many that nothing is
 * heard of the engine for long. What they yield does not depend on it. */
static uint32_t encode_share(const struct transcriber *t, uint32_t n)
{
    int64_t most = t->window_ns ? ENCODE_NS / t->window_ns : 1;

    if (n > t->encode_max)
        n = t->encode_max;
    if (n > most)
        n = (uint32_t)most;
    return n < 1 ? 1 : n;
}

static int encode(struct transcriber *t, const struct whisper_window *windows, uint32_t n,
                  struct err *err)
{
    for (uint32_t at = 0; at < n;) {
        uint32_t k = encode_share(t, n - at);
        int64_t start = clock_mono_ns();
        int rc = whisper_encode(t->session, windows + at, k, err);

        if (rc)
            return rc;
        at += k;
        t->window_ns = (clock_mono_ns() - start) / k + 1;
        beat(t);
    }
    return 0;
}

static int step_rows(struct transcriber *t, uint32_t n, struct err *err)
{
    int rc = whisper_choose(t->session, t->rows, t->asks, n, t->choices, NULL, err);

    if (rc == 0)
        beat(t);
    return rc;
}

/* Gives a window its choice; when it has ended, its lane moves on and its slot is free. A model
 * that yields no numbers fails the lane, lack of memory the whole. */
static int settle(struct transcriber *t, struct slot *slot, const struct choice *choice,
                  struct err *err)
{
    struct lane *l = slot->lane;
    int64_t before = l->seek;
    int rc = window_feed(&slot->window, choice, err);

    if (!rc && slot->window.state != WINDOW_DONE)
        return 0;
    if (!rc)
        rc = lane_take(l, &slot->window, err);
    slot->lane = NULL;
    t->samples_done += l->seek - before;
    if (rc == ERR_NOMEM)
        return rc;
    if (rc) {
        l->failed = rc;
        l->err = *err;
        l->state = LANE_ENDED;
    }
    return 0;
}

static int decode(struct transcriber *t, bool *progress, struct err *err)
{
    uint32_t n = 0;
    int rc;

    for (uint32_t i = 0; i < t->slot_count; i++)
        if (t->slots[i].lane) {
            t->rows[n].slot = i;
            window_row(&t->slots[i].window, &t->rows[n].token, &t->rows[n].pos);
            window_ask(&t->slots[i].window, &t->asks[n]);
            n++;
        }
    if (!n)
        return 0;
    *progress = true;
    if ((rc = step_rows(t, n, err)))
        return rc;
    for (uint32_t k = 0; k < n; k++)
        if ((rc = settle(t, &t->slots[t->rows[k].slot], &t->choices[k], err)))
            return rc;
    return 0;
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
        lane_tell(l, t->vocab);
        lane_free(l);
        l = t->lanes;
    }
}

/* After ERR_VRAM: half as many windows at once in the encoder, and when that is one already, half
 * as many slots. What was in flight begins again: its audio is still held, and a window yields the
 * same however often it is begun. */
static int shrink(struct transcriber *t, struct err *err)
{
    uint32_t slots = t->slot_count, windows = whisper_session_windows(t->session);

    if (slots == 1 && windows == 1)
        return err->code;
    t->lack = *err;
    if (windows > 1)
        windows /= 2;
    else
        slots /= 2;
    log_warn("%s; going on with %u windows in flight, %u at once in the encoder", err->msg, slots,
             windows);
    for (uint32_t i = 0; i < t->slot_count; i++)
        if (t->slots[i].lane)
            t->slots[i].lane->state = LANE_WAITING;
    free_slots(t);
    whisper_session_free(t->session);
    t->session = NULL;
    if (open_session(t, slots, windows, err) == 0 && make_slots(t, err) == 0)
        return 0;
    free_slots(t);
    t->slot_count = 0;
    return err->code;
}

static int round_once(struct transcriber *t, bool *progress, struct err *err)
{
    uint32_t n;
    int rc;

    n = fill(t, t->windows, progress);
    if (n) {
        *progress = true;
        if ((rc = encode(t, t->windows, n, err)))
            return rc;
    }
    return decode(t, progress, err);
}

int transcriber_step(struct transcriber *t, bool *progress, struct err *err)
{
    int rc;

    *progress = false;
    rc = round_once(t, progress, err);
    if (rc == ERR_VRAM) {
        *progress = true;
        rc = shrink(t, err);
    }
    if (rc == 0)
        tell_ended(t);
    return rc;
}

void transcriber_on_beat(struct transcriber *t, void (*fn)(void *arg), void *arg)
{
    t->beat = fn;
    t->beat_arg = arg;
}

void transcriber_stats(const struct transcriber *t, uint32_t *lanes, uint32_t *windows,
                       int64_t *samples_done)
{
    *lanes = t->lane_count;
    *windows = 0;
    for (uint32_t i = 0; i < t->slot_count; i++)
        *windows += t->slots[i].lane != NULL;
    *samples_done = t->samples_done;
}
