#include "tests/unit/stages/fake_whisper.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "workers/models/whisper.h"

#define VOCAB 2151
#define SOT 641
#define NO_SPEECH 648
#define PROMPT 3

struct fake_state fake;

struct whisper {
    struct whisper_config config;
};

struct fake_slot {
    const struct fake_script *script;
    uint32_t seen;    /* tokens since encode */
    uint32_t attempt; /* which one is being played */
    bool begun;
};

struct whisper_session {
    uint32_t slots, windows;
    struct backend *be; /* for the rules alone */
    struct rules *rules;
    float *logits; /* [slots][VOCAB] */
    struct fake_slot slot[64];
};

struct whisper *fake_whisper(void)
{
    static struct whisper w = {{.vocab_size = VOCAB, .max_target_positions = 448}};

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
    s->logits = malloc(slots * sizeof(float) * VOCAB);
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

int whisper_encode(struct whisper_session *s, const struct whisper_window *windows, uint32_t n,
                   struct err *err)
{
    fake.encode_calls++;
    if (fake.vram_gone || (fake.encode_max && s->slots > fake.encode_max) ||
        (fake.windows_max && s->windows > fake.windows_max))
        return err_set(err, ERR_VRAM, "no room to encode %u", n);
    if (n > fake.largest_encode)
        fake.largest_encode = n;
    usleep(n * fake.encode_ms * 1000);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t script = (uint32_t)(lrintf(windows[i].pcm[0] * 1000.0f) - 1);

        if (windows[i].slot >= s->slots || !windows[i].n || windows[i].n > WHISPER_WINDOW_SAMPLES ||
            script >= FAKE_SCRIPTS)
            return err_set(err, ERR_DEVICE, "a window that cannot be");
        s->slot[windows[i].slot] = (struct fake_slot){.script = &fake.scripts[script]};
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
    /* One language token and <|nospeech|> share all the probability. */
    for (int i = 0; i < VOCAB; i++)
        logits[i] = -50;
    logits[script->language] = (float)log(1 - script->no_speech);
    logits[NO_SPEECH] = (float)log(script->no_speech);
}

static int play(struct fake_slot *slot, const struct whisper_row *row, float *logits,
                struct err *err)
{
    const struct fake_attempt *a;
    uint32_t at;

    if (!slot->script || row->pos > slot->seen)
        return err_set(err, ERR_DEVICE, "position %u of %u", row->pos, slot->seen);
    slot->seen = row->pos + 1;
    if (row->pos == 0 && row->token != SOT)
        return err_set(err, ERR_DEVICE, "the window does not begin with the start token");
    if (row->pos == 0) {
        start_logits(slot->script, logits);
        return 0;
    }
    if (row->pos < PROMPT - 1)
        return 0;
    if (row->pos == PROMPT - 1) {
        slot->attempt += slot->begun;
        slot->begun = true;
    }
    if (slot->attempt >= slot->script->attempts)
        slot->attempt = slot->script->attempts - 1;
    a = &slot->script->attempt[slot->attempt];
    at = row->pos - (PROMPT - 1);
    if (a->endless)
        at %= a->count;
    favour(logits, at < a->count ? a->tokens[at] : 640, a->unsure);
    return 0;
}

int whisper_choose(struct whisper_session *s, const struct whisper_row *rows,
                   const struct choice_ask *asks, uint32_t n, struct choice *ret,
                   struct candidate *top, struct err *err)
{
    (void)top;
    fake.step_calls++;
    if (fake.device_fails_at >= 0 && fake.step_calls > (uint64_t)fake.device_fails_at)
        return err_set(err, ERR_DEVICE, "the device is lost");
    if (fake.step_max && n > fake.step_max)
        return err_set(err, ERR_VRAM, "no room for %u rows", n);
    if (n > fake.largest_step)
        fake.largest_step = n;
    for (uint32_t i = 0; i < n; i++) {
        float *row = s->logits + (size_t)i * VOCAB;
        struct fake_slot *slot = &s->slot[rows[i].slot];
        int rc;

        for (int k = 0; k < VOCAB; k++)
            row[k] = 0;
        if ((rc = play(slot, &rows[i], row, err)))
            return rc;
        for (int k = 0; slot->script->broken && k < VOCAB; k++)
            row[k] = NAN;
    }
    return s->be->ops->choose(s->be, s->rules, tensor_of(DTYPE_F32, s->logits, n, VOCAB), asks, ret,
                              err);
}
