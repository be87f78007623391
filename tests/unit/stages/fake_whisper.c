#include "tests/unit/stages/fake_whisper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/warp.h"
#include "workers/models/asr_model.h"
#include "workers/models/whisper/whisper.h"
#include "workers/text/tokenizer/vocabulary.h"

#define VOCAB 2151
#define SOT 641
#define NO_SPEECH 648
#define SOT_PREV 647
#define PROMPT 3

struct fake_state fake;

struct fake_slot {
    const struct fake_script *script;
    uint32_t seen[ASR_BRANCHES_MAX]; /* tokens since encode */
    uint32_t start;                  /* position of the start token */
    uint32_t attempt;                /* which one is being played */
    bool begun;
    uint64_t wave; /* its window is not there yet, but comes in this one, from 1 */
    struct fake_prompt prompt;
    struct token_tail tail; /* as of the backend's operations follow and note */
};

/* Computed when it was begun. */
struct fake_step {
    struct choice *choices; /* [rows] */
    struct candidate *top;  /* [rows][branches + 1] */
    uint32_t n;
};

struct session {
    struct asr_session asr;
    uint32_t slots, branches;
    uint32_t positions; /* of a branch: all, or a short text's */
    struct backend *be; /* for the rules alone */
    struct rules *rules;
    float *logits;                              /* [slots][VOCAB] */
    uint32_t asks[ASR_WAVES], count[ASR_WAVES]; /* to go, and windows, of a wave */
    uint64_t waves_begun, waves_there;
    struct fake_step step[ASR_AHEAD];
    uint64_t begun, ended;
    struct fake_slot slot[64];
};

float fake_audio(uint32_t script) { return (float)(script + 1) / 1000.0f; }

static struct session *of(struct asr_session *s) { return (struct session *)s; }

static uint32_t default_slots(const struct asr_model *m, struct asr_shape shape)
{
    return m->vocab_size && shape.branches ? 4 : 0;
}

static void session_free(struct asr_session *session)
{
    struct session *s = of(session);

    if (s && s->be)
        s->be->ops->rules_free(s->be, s->rules);
    if (s) {
        backend_close(s->be);
        free(s->logits);
        for (int i = 0; i < ASR_AHEAD; i++) {
            free(s->step[i].choices);
            free(s->step[i].top);
        }
    }
    free(s);
}

/* $NIGHTSHIFT_FAKE_AHEAD: as on a device that does not wait for the host. */
static struct asr_session describe(struct asr_shape shape)
{
    uint32_t windows = shape.windows ? shape.windows : fake.windows ? fake.windows : 1;

    return (struct asr_session){
        .rows = shape.slots * shape.branches,
        .windows = windows < shape.slots ? windows : shape.slots,
        .align_tokens = 4 * 448,
        .ahead = shape.branches == 1 && getenv("NIGHTSHIFT_FAKE_AHEAD") != NULL,
    };
}

static int session_new(struct asr_model *m, struct asr_shape shape, struct asr_session **ret,
                       struct err *err)
{
    uint32_t slots = shape.slots;
    struct session *s;
    int rc;

    (void)m;
    if (fake.vram_gone || slots > 64 || (fake.session_max && slots > fake.session_max))
        return err_set(err, ERR_VRAM, "no room for %u slots", slots);
    s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a session");
    shape.branches = shape.branches ? shape.branches : 1;
    s->asr = describe(shape);
    s->slots = slots;
    s->branches = shape.branches;
    s->positions = shape.short_text ? PROMPT + 1 + ASR_SHORT_TEXT + 1 : 448;
    fake.long_sessions += !shape.short_text;
    s->logits = malloc(s->asr.rows * sizeof(float) * VOCAB);
    for (int i = 0; i < ASR_AHEAD; i++) {
        s->step[i].choices = calloc(s->asr.rows, sizeof(struct choice));
        s->step[i].top = calloc((size_t)s->asr.rows * (s->branches + 1), sizeof(struct candidate));
        if (!s->step[i].choices || !s->step[i].top) {
            session_free(&s->asr);
            return err_set(err, ERR_NOMEM, "no memory for a session");
        }
    }
    rc = s->logits ? backend_open_host(1, &s->be, err) : err_set(err, ERR_NOMEM, "no memory");
    if (rc != 0) {
        session_free(&s->asr);
        return rc;
    }
    *ret = &s->asr;
    return 0;
}

static int session_rules(struct asr_session *session, const struct rules_spec *spec,
                         struct err *err)
{
    struct session *s = of(session);
    return s->be->ops->rules_new(s->be, spec, &s->rules, err);
}

/* The first sound's; FAKE_SCRIPTS and more: none. */
static uint32_t script_of(const struct asr_window *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->pcm[i] != 0)
            return (uint32_t)(lrintf(w->pcm[i] * 1000.0f) - 1);
    return FAKE_SCRIPTS;
}

static int encoded(struct asr_session *session, bool wait, uint32_t *ret, struct err *err)
{
    struct session *s = of(session);
    uint32_t *asks = &s->asks[s->waves_there % ASR_WAVES];

    (void)err;
    *ret = 0;
    if (s->waves_there == s->waves_begun)
        return 0;
    fake.encode_waits += wait && *asks > 0;
    *asks = wait || *asks == 0 ? 0 : *asks - 1;
    if (*asks > 0)
        return 0;
    *ret = s->count[s->waves_there++ % ASR_WAVES];
    for (uint32_t i = 0; i < s->slots; i++)
        if (s->slot[i].wave == s->waves_there)
            s->slot[i].wave = 0;
    return 0;
}

static int encode_begin(struct asr_session *session, const struct asr_window *windows, uint32_t n,
                        struct err *err)
{
    struct session *s = of(session);
    uint32_t waves = (uint32_t)(s->waves_begun - s->waves_there);

    fake.encode_calls++;
    if (waves == ASR_WAVES)
        return err_set(err, ERR_DEVICE, "others are on their way");
    if (fake.vram_gone || (fake.encode_max && s->slots > fake.encode_max) ||
        (fake.windows_max && s->asr.windows > fake.windows_max))
        return err_set(err, ERR_VRAM, "no room to encode %u", n);
    if (n > fake.largest_encode)
        fake.largest_encode = n;
    usleep(n * fake.encode_ms * 1000);
    s->asks[s->waves_begun % ASR_WAVES] = fake.encode_asks;
    s->count[s->waves_begun++ % ASR_WAVES] = n;
    if (waves + 1 > fake.most_waves)
        fake.most_waves = waves + 1;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t script = script_of(&windows[i]);

        if (windows[i].slot >= s->slots || !windows[i].n || windows[i].n > 480000 ||
            script >= FAKE_SCRIPTS || s->slot[windows[i].slot].wave)
            return err_set(err, ERR_DEVICE, "a window that cannot be");
        s->slot[windows[i].slot] = (struct fake_slot){
            .script = &fake.scripts[script], .wave = s->waves_begun, .prompt = {.script = script}};
        if (fake.on_window)
            fake.on_window(&windows[i]);
        fake.windows_encoded++;
    }
    return 0;
}

/* Logits with one token ahead of all others. */
static void favour(float *logits, int32_t token, bool unsure)
{
    for (int i = 0; i < VOCAB; i++)
        logits[i] = 0;
    for (int i = 0; unsure && i < 30; i++)
        logits[300 + i] = 19.9f;
    logits[token] = 20;
}

static void start_logits(const struct fake_script *script, float *logits)
{
    /* One or two language tokens and <|nospeech|> share all the probability. */
    double rival = script->rival ? script->rival_prob : 0;

    for (int i = 0; i < VOCAB; i++)
        logits[i] = -50;
    if (script->rival)
        logits[script->rival] = (float)log((1 - script->no_speech) * rival);
    logits[script->language] = (float)log((1 - script->no_speech) * (1 - rival));
    logits[NO_SPEECH] = (float)log(script->no_speech);
}

static int play(struct fake_slot *slot, const struct asr_row *row, float *logits, struct err *err)
{
    const struct fake_attempt *a;
    uint32_t at;

    if (!slot->script || slot->wave || row->pos > slot->seen[row->branch])
        return err_set(err, ERR_DEVICE, "position %u of %u", row->pos, slot->seen[row->branch]);
    slot->seen[row->branch] = row->pos + 1;
    if (row->pos == 0 && row->token != SOT && row->token != SOT_PREV)
        return err_set(err, ERR_DEVICE, "the window does not begin with the start token");
    if (row->token == SOT) {
        slot->start = row->pos;
        slot->prompt.count = row->pos > 0 ? row->pos - 1 : 0;
        start_logits(slot->script, logits);
        return 0;
    }
    if (row->pos == 0)
        slot->start = UINT32_MAX / 2; /* a text before the start */
    else if (row->pos < slot->start && row->pos <= FAKE_PREVIOUS)
        slot->prompt.tokens[row->pos - 1] = row->token;
    if (row->pos < slot->start + PROMPT - 1)
        return 0;
    if (row->pos == slot->start + PROMPT - 1 && row->branch == 0) {
        if (!slot->begun && fake.prompt_count < FAKE_PROMPTS)
            fake.prompts[fake.prompt_count++] = slot->prompt;
        slot->attempt += slot->begun;
        slot->begun = true;
    }
    if (slot->attempt >= slot->script->attempts)
        slot->attempt = slot->script->attempts - 1;
    a = &slot->script->attempt[slot->attempt];
    at = row->pos - slot->start - (PROMPT - 1);
    if (a->endless)
        at %= a->count;
    favour(logits, at < a->count ? a->tokens[at] : 640, a->unsure);
    return 0;
}

/* A row that follows is completed from its slot's tail; false: nothing follows. */
static bool follow(struct session *s, struct asr_row *row, struct choice_ask *ask)
{
    const struct token_tail *tail = &s->slot[row->slot].tail;

    if (row->token != ASR_FOLLOWS)
        return true;
    row->token = ask->last = tail->token;
    ask->count = tail->count;
    ask->before = tail->before;
    ask->last_time = tail->last_time;
    return tail->open;
}

static void note(struct token_tail *tail, const struct choice_ask *ask, const struct choice *c)
{
    if (!(ask->what & CHOOSE_TOKEN))
        return;
    *tail = (struct token_tail){
        .open = c->usable && c->token >= 0 && c->token != 640,
        .token = c->token,
        .count = ask->count + 1,
        .before = ask->last,
        .last_time = c->token >= 650 ? c->token : ask->last_time,
    };
}

static int compute(struct session *s, struct asr_row row, struct choice_ask ask, struct choice *ret,
                   struct candidate *top, struct err *err)
{
    struct tensor logits = tensor_of(DTYPE_F32, s->logits, 1, VOCAB);
    struct fake_slot *slot = &s->slot[row.slot];
    int rc;

    *ret = (struct choice){.token = -1, .language = -1, .logprob = -INFINITY};
    if (!follow(s, &row, &ask))
        return 0;
    for (int k = 0; k < VOCAB; k++)
        s->logits[k] = 0;
    rc = row.pos < s->positions ? play(slot, &row, s->logits, err)
                                : err_set(err, ERR_DEVICE, "no room for position %u", row.pos);
    if (rc)
        return rc;
    for (int k = 0; slot->script->broken && k < VOCAB; k++)
        s->logits[k] = NAN;
    rc = s->be->ops->choose(s->be, s->rules, logits, &ask, ret, err);
    note(&slot->tail, &ask, ret);
    if (!rc && top)
        rc = s->be->ops->top(s->be, logits, s->branches + 1, top, err);
    return rc;
}

static int choose_begin(struct asr_session *session, const struct asr_row *rows,
                        const struct choice_ask *asks, uint32_t n, bool top, struct err *err)
{
    struct session *s = of(session);
    struct fake_step *step = &s->step[s->begun % ASR_AHEAD];
    int rc = 0;

    fake.step_calls++;
    if (fake.device_fails_at >= 0 && fake.step_calls > (uint64_t)fake.device_fails_at)
        return err_set(err, ERR_DEVICE, "the device is lost");
    if (fake.step_max && n > fake.step_max)
        return err_set(err, ERR_VRAM, "no room for %u rows", n);
    if (n > fake.largest_step)
        fake.largest_step = n;
    if (n > s->asr.rows || (top && s->branches == 1) ||
        s->begun - s->ended >= (s->asr.ahead ? ASR_AHEAD : 1))
        return err_set(err, ERR_DEVICE, "%u rows that cannot be", n);
    for (uint32_t i = 0; !rc && i < n; i++)
        rc = compute(s, rows[i], asks[i], &step->choices[i],
                     top ? step->top + (size_t)i * (s->branches + 1) : NULL, err);
    step->n = n;
    s->begun += !rc;
    return rc;
}

static int choose_end(struct asr_session *session, struct choice *ret, struct candidate *top,
                      struct err *err)
{
    struct session *s = of(session);
    const struct fake_step *step = &s->step[s->ended % ASR_AHEAD];

    if (s->begun == s->ended)
        return err_set(err, ERR_DEVICE, "choices that nobody asked for");
    s->ended++;
    memcpy(ret, step->choices, step->n * sizeof(*ret));
    if (top)
        memcpy(top, step->top, (size_t)step->n * (s->branches + 1) * sizeof(*top));
    return 0;
}

static int branch(struct asr_session *session, const struct asr_move *moves, uint32_t n,
                  struct err *err)
{
    struct session *s = of(session);
    for (uint32_t i = 0; i < n; i++) {
        if (moves[i].slot >= s->slots || moves[i].from >= s->branches || moves[i].to >= s->branches)
            return err_set(err, ERR_DEVICE, "a copy between branches that are not there");
        s->slot[moves[i].slot].seen[moves[i].to] = s->slot[moves[i].slot].seen[moves[i].from];
    }
    return 0;
}

/* Each text token is heard 200 ms after the one before, and seldom sure. */
static int align_one(struct session *s, const struct asr_alignment *w, struct err *err)
{
    uint32_t n = w->n - w->text;
    float *value;
    int rc = 0;

    fake.align_calls++;
    if (w->slot >= s->slots || !s->slot[w->slot].script || w->n < PROMPT + 2 || !w->frames ||
        w->tokens[0] != SOT || w->text != PROMPT + 1 || w->n > s->positions)
        return err_set(err, ERR_DEVICE, "an alignment that cannot be");
    if (fake.align_fails && fake.align_calls == fake.align_fails)
        return err_set(err, ERR_VRAM, "no room to align");
    value = malloc((size_t)n * w->frames * sizeof(*value));
    if (!value)
        return err_set(err, ERR_NOMEM, "no memory to align");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < w->frames; k++)
            value[(size_t)i * w->frames + k] = k >= 10 * i && k < 10 * i + 10 ? 3.0f : -0.5f;
    if (!reference_warp(value, w->frames, n, w->frames, w->hold, w->first_frame))
        rc = err_set(err, ERR_NOMEM, "no memory to align");
    for (uint32_t i = 0; i < w->n; i++)
        w->logprob[i] = i > PROMPT ? -0.25 : 0;
    free(value);
    return rc;
}

static int align(struct asr_session *session, const struct asr_alignment *windows, uint32_t n,
                 struct err *err)
{
    uint32_t tokens = 0;
    int rc = 0;

    fake.largest_align = n > fake.largest_align ? n : fake.largest_align;
    for (uint32_t i = 0; i < n; i++)
        tokens += windows[i].n;
    if (n == 0 || tokens > session->align_tokens)
        return err_set(err, ERR_DEVICE, "%u tokens that cannot be", tokens);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = align_one(of(session), &windows[i], err);
    return rc;
}

struct asr_model *fake_whisper(struct vocabulary *vocab)
{
    static const struct asr_ops ops = {
        .default_slots = default_slots,
        .prompt = whisper_prompt,
        .session_new = session_new,
        .session_free = session_free,
        .session_rules = session_rules,
        .encode_begin = encode_begin,
        .encoded = encoded,
        .choose_begin = choose_begin,
        .choose_end = choose_end,
        .branch = branch,
        .align = align,
    };
    static struct asr_model m = {
        .ops = &ops,
        .window_samples = 480000,
        .positions = 448,
        .vocab_size = VOCAB,
        .prompt_max = 4,
        .align_heads = 2,
        .frame_samples = 320,
        .language = "en",
    };

    m.vocab = vocab;
    return &m;
}
