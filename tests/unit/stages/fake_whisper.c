#include "tests/unit/stages/fake_whisper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "workers/models/whisper/whisper.h"

#define VOCAB 2151
#define SOT 641
#define NO_SPEECH 648
#define SOT_PREV 647
#define PROMPT 3

struct fake_state fake;

struct whisper {
    struct whisper_config config;
};

struct fake_slot {
    const struct fake_script *script;
    uint32_t seen[WHISPER_MAX_BRANCHES]; /* tokens since encode */
    uint32_t start;                      /* position of the start token */
    uint32_t attempt;                    /* which one is being played */
    bool begun;
    bool encoding; /* not there yet */
    struct fake_prompt prompt;
};

struct whisper_session {
    uint32_t slots, windows, branches;
    struct backend *be; /* for the rules alone */
    struct rules *rules;
    float *logits; /* [slots][VOCAB] */
    uint32_t asks; /* to go; 0: nothing is under way */
    struct fake_slot slot[64];
};

struct whisper *fake_whisper(void)
{
    static struct whisper w = {{.vocab_size = VOCAB,
                                .decoder_layers = 2,
                                .decoder_heads = 2,
                                .max_target_positions = 448}};

    return &w;
}

float fake_audio(uint32_t script) { return (float)(script + 1) / 1000.0f; }

const struct whisper_config *whisper_config(const struct whisper *w) { return &w->config; }
uint64_t whisper_slot_bytes(const struct whisper *w, uint32_t branches)
{
    return w->config.vocab_size * 1000ull * branches;
}
uint32_t whisper_default_slots(const struct whisper *w, uint32_t branches)
{
    return w->config.vocab_size && branches ? 4 : 0;
}

int whisper_session_new(struct whisper *w, struct whisper_shape shape, struct whisper_session **ret,
                        struct err *err)
{
    uint32_t slots = shape.slots, windows = shape.windows;
    struct whisper_session *s;
    int rc;

    (void)w;
    if (fake.vram_gone || slots > 64 || (fake.session_max && slots > fake.session_max))
        return err_set(err, ERR_VRAM, "no room for %u slots", slots);
    s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a session");
    s->slots = slots;
    if (windows == 0)
        windows = fake.windows ? fake.windows : 1;
    s->windows = windows < slots ? windows : slots;
    s->branches = shape.branches ? shape.branches : 1;
    s->logits = malloc(whisper_session_rows(s) * sizeof(float) * VOCAB);
    rc = s->logits ? backend_open_host(1, &s->be, err) : err_set(err, ERR_NOMEM, "no memory");
    if (rc != 0) {
        whisper_session_free(s);
        return rc;
    }
    *ret = s;
    return 0;
}

int whisper_session_rules(struct whisper_session *s, const struct rules_spec *spec, struct err *err)
{
    return s->be->ops->rules_new(s->be, spec, &s->rules, err);
}

uint32_t whisper_session_windows(const struct whisper_session *s) { return s->windows; }

uint32_t whisper_session_rows(const struct whisper_session *s) { return s->slots * s->branches; }

void whisper_session_free(struct whisper_session *s)
{
    if (s && s->be)
        s->be->ops->rules_free(s->be, s->rules);
    if (s) {
        backend_close(s->be);
        free(s->logits);
    }
    free(s);
}

/* The first sound's; FAKE_SCRIPTS and more: none. */
static uint32_t script_of(const struct whisper_window *w)
{
    for (size_t i = 0; i < w->n; i++)
        if (w->pcm[i] != 0)
            return (uint32_t)(lrintf(w->pcm[i] * 1000.0f) - 1);
    return FAKE_SCRIPTS;
}

int whisper_encoded(struct whisper_session *s, bool wait, bool *done, struct err *err)
{
    (void)err;
    fake.encode_waits += wait && s->asks > 0;
    s->asks = wait || s->asks == 0 ? 0 : s->asks - 1;
    *done = s->asks == 0;
    for (uint32_t i = 0; *done && i < s->slots; i++)
        s->slot[i].encoding = false;
    return 0;
}

int whisper_encode_begin(struct whisper_session *s, const struct whisper_window *windows,
                         uint32_t n, struct err *err)
{
    fake.encode_calls++;
    if (s->asks > 0)
        return err_set(err, ERR_DEVICE, "others are on their way");
    s->asks = fake.encode_asks;
    if (fake.vram_gone || (fake.encode_max && s->slots > fake.encode_max) ||
        (fake.windows_max && s->windows > fake.windows_max))
        return err_set(err, ERR_VRAM, "no room to encode %u", n);
    if (n > fake.largest_encode)
        fake.largest_encode = n;
    usleep(n * fake.encode_ms * 1000);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t script = script_of(&windows[i]);

        if (windows[i].slot >= s->slots || !windows[i].n || windows[i].n > WHISPER_WINDOW_SAMPLES ||
            script >= FAKE_SCRIPTS)
            return err_set(err, ERR_DEVICE, "a window that cannot be");
        s->slot[windows[i].slot] = (struct fake_slot){.script = &fake.scripts[script],
                                                      .encoding = fake.encode_asks > 0,
                                                      .prompt = {.script = script}};
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

static int play(struct fake_slot *slot, const struct whisper_row *row, float *logits,
                struct err *err)
{
    const struct fake_attempt *a;
    uint32_t at;

    if (!slot->script || slot->encoding || row->pos > slot->seen[row->branch])
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

int whisper_choose(struct whisper_session *s, const struct whisper_row *rows,
                   const struct choice_ask *asks, uint32_t n, struct choice *ret,
                   struct candidate *top, struct err *err)
{
    int rc;

    fake.step_calls++;
    if (fake.device_fails_at >= 0 && fake.step_calls > (uint64_t)fake.device_fails_at)
        return err_set(err, ERR_DEVICE, "the device is lost");
    if (fake.step_max && n > fake.step_max)
        return err_set(err, ERR_VRAM, "no room for %u rows", n);
    if (n > fake.largest_step)
        fake.largest_step = n;
    if (n > whisper_session_rows(s) || (top && s->branches == 1))
        return err_set(err, ERR_DEVICE, "%u rows that cannot be", n);
    for (uint32_t i = 0; i < n; i++) {
        float *row = s->logits + (size_t)i * VOCAB;
        struct fake_slot *slot = &s->slot[rows[i].slot];

        for (int k = 0; k < VOCAB; k++)
            row[k] = 0;
        if ((rc = play(slot, &rows[i], row, err)))
            return rc;
        for (int k = 0; slot->script->broken && k < VOCAB; k++)
            row[k] = NAN;
    }
    rc = s->be->ops->choose(s->be, s->rules, tensor_of(DTYPE_F32, s->logits, n, VOCAB), asks, ret,
                            err);
    if (!rc && top)
        rc = s->be->ops->top(s->be, tensor_of(DTYPE_F32, s->logits, n, VOCAB), s->branches + 1, top,
                             err);
    return rc;
}

int whisper_branch(struct whisper_session *s, const struct whisper_move *moves, uint32_t n,
                   struct err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (moves[i].slot >= s->slots || moves[i].from >= s->branches || moves[i].to >= s->branches)
            return err_set(err, ERR_DEVICE, "a copy between branches that are not there");
        s->slot[moves[i].slot].seen[moves[i].to] = s->slot[moves[i].slot].seen[moves[i].from];
    }
    return 0;
}

/* Each text token is heard 200 ms after the one before, and seldom sure. */
int whisper_align(struct whisper_session *s, uint32_t slot, const int32_t *tokens, uint32_t n,
                  uint32_t frames, const struct whisper_head *heads, uint32_t head_count,
                  float *matrix, double *logprob, struct err *err)
{
    (void)heads;
    fake.align_calls++;
    if (slot >= s->slots || !s->slot[slot].script || n < PROMPT + 2 || !frames || !head_count ||
        tokens[0] != SOT)
        return err_set(err, ERR_DEVICE, "an alignment that cannot be");
    if (fake.align_fails && fake.align_calls == fake.align_fails)
        return err_set(err, ERR_VRAM, "no room to align");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = i > PROMPT ? 10 * (i - PROMPT) : 0;

        for (uint32_t k = 0; k < frames; k++)
            matrix[(size_t)i * frames + k] = k >= at && k < at + 10 ? 3.0f : -0.5f;
        logprob[i] = i > PROMPT ? -0.25 : 0;
    }
    return 0;
}
