#include "tests/unit/stages/other_family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/backend.h"
#include "tests/common/warp.h"
#include "workers/models/asr_model.h"
#include "workers/text/tokenizer/vocabulary.h"

/* Tokens: the words, then these. */
#define END OTHER_WORDS
#define START (END + 1)
#define GERMAN (END + 2)
#define FRENCH (END + 3)
#define WRITE (END + 4)
#define TIME (END + 5)
#define STEPS 120 /* of 80 ms in a window */
#define SIZE (TIME + STEPS + 1)

#define POSITIONS 64
#define UNITS (OTHER_WINDOW / OTHER_WORD)
#define UNIT_STEPS (STEPS / UNITS)
#define NONE UINT32_MAX

static const char *const words[OTHER_WORDS] = {
    " eins", " zwei", " drei",  " vier",   " fuenf", " sechs", " sieben", " acht",
    " un",   " deux", " trois", " quatre", " cinq",  " six",   " sept",   " huit"};

struct other_seen other_seen;
int32_t other_damaged = -1;

struct model {
    struct asr_model asr;
    struct other_kind kind;
    struct backend *be; /* for the rules alone */
};

/* What a window says: tokens, and the unit of each. */
struct slot {
    bool encoded;
    int32_t language;
    int32_t text[3 * UNITS];
    uint32_t unit[3 * UNITS], count;
    uint32_t seen[ASR_BRANCHES_MAX];
};

struct session {
    struct asr_session asr;
    struct model *m;
    struct rules *rules;
    struct slot *slots;
    uint32_t slot_count, branches, coming;
    float logits[SIZE];
    /* Of the step under way. */
    struct choice *choices;
    struct candidate *top;
    uint32_t n;
};

const char *other_word(uint32_t number) { return words[number]; }

/* ---- the model */

static struct model *model_of(const struct asr_model *m) { return (struct model *)(uintptr_t)m; }

static void model_free(struct asr_model *m)
{
    if (!m)
        return;
    vocabulary_free(m->vocab);
    backend_close(model_of(m)->be);
    free(m);
}

static uint32_t default_slots(const struct asr_model *m, struct asr_shape shape)
{
    return m->positions / 16 / shape.branches + 1;
}

static uint32_t prompt(const struct vocabulary *v, struct asr_task task, int32_t *ret)
{
    uint32_t n = 0;

    ret[n++] = START;
    if (vocabulary_multilingual(v))
        ret[n++] = task.language;
    ret[n++] = WRITE;
    other_seen.prompts++;
    other_seen.prompt_len = n;
    return n;
}

static int add_languages(struct vocabulary_rules *r, struct err *err)
{
    r->languages = calloc(2, sizeof(*r->languages));
    if (!r->languages)
        return err_set(err, ERR_NOMEM, "no memory for languages");
    r->languages[0] = (struct language){"de", GERMAN};
    r->languages[1] = (struct language){"fr", FRENCH};
    r->language_count = 2;
    r->ids.first_language = GERMAN;
    return 0;
}

static int make_vocabulary(struct other_kind kind, struct vocabulary **ret, struct err *err)
{
    static const char *const specials[] = {"</s>", "<s>", "<de>", "<fr>", "<write>"};
    struct vocabulary_token tokens[TIME];
    struct vocabulary_rules rules = {
        .ids = {.eot = END,
                .sot = START,
                .translate = -1,
                .transcribe = WRITE,
                .sot_prev = -1,
                .sot_lm = -1,
                .no_speech = -1,
                .no_timestamps = -1,
                .timestamp_begin = TIME,
                .timestamp_end = kind.timed ? TIME + STEPS : TIME - 1,
                .timestamp_ms = 80,
                .first_language = -1},
        .size = kind.timed ? SIZE : TIME,
        .max_initial_timestamp_index = STEPS,
    };
    struct vocabulary_source source = {
        .tokens = tokens, .token_count = TIME, .text_count = OTHER_WORDS, .rules = &rules};
    int rc = kind.languages ? add_languages(&rules, err) : 0;

    for (uint32_t i = 0; i < TIME; i++) {
        const char *text = i < OTHER_WORDS ? words[i] : specials[i - OTHER_WORDS];

        tokens[i] = (struct vocabulary_token){text, strlen(text)};
    }
    return rc ? rc : vocabulary_parse(&source, ret, err);
}

/* ---- sessions */

static struct session *of(struct asr_session *s) { return (struct session *)s; }

static void session_free(struct asr_session *session)
{
    struct session *s = of(session);

    if (!s)
        return;
    s->m->be->ops->rules_free(s->m->be, s->rules);
    free(s->slots);
    free(s->choices);
    free(s->top);
    free(s);
}

static int session_new(struct asr_model *m, struct asr_shape shape, struct asr_session **ret,
                       struct err *err)
{
    struct session *s = calloc(1, sizeof(*s));

    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a session");
    s->m = model_of(m);
    s->slot_count = shape.slots;
    s->branches = shape.branches ? shape.branches : 1;
    s->asr = (struct asr_session){.rows = s->slot_count * s->branches + 8,
                                  .windows = 1,
                                  .align_tokens = 2 * POSITIONS + POSITIONS / 2};
    s->slots = calloc(s->slot_count, sizeof(*s->slots));
    s->choices = calloc(s->asr.rows, sizeof(*s->choices));
    s->top = calloc((size_t)s->asr.rows * (s->branches + 1), sizeof(*s->top));
    if (!s->slots || !s->choices || !s->top) {
        session_free(&s->asr);
        return err_set(err, ERR_NOMEM, "no memory for a session");
    }
    *ret = &s->asr;
    return 0;
}

static int session_rules(struct asr_session *session, const struct rules_spec *spec,
                         struct err *err)
{
    struct backend *be = of(session)->m->be;

    return be->ops->rules_new(be, spec, &of(session)->rules, err);
}

/* ---- the encoder */

/* The word of a stretch, by its loudest sample. */
static uint32_t word_of(const float *pcm, size_t n)
{
    float level = 0;

    for (size_t i = 0; i < n; i++)
        level = fmaxf(level, pcm[i]);
    return level > 0 ? (uint32_t)lrintf(level * 1000) - 1 : NONE;
}

static void say(struct slot *slot, int32_t token, uint32_t unit)
{
    slot->unit[slot->count] = unit;
    slot->text[slot->count++] = token;
}

static void hear(const struct session *s, const struct asr_window *w)
{
    struct slot *slot = &s->slots[w->slot];
    uint32_t before = NONE, units = (uint32_t)((w->n + OTHER_WORD - 1) / OTHER_WORD);

    *slot = (struct slot){.encoded = true, .language = -1};
    for (uint32_t u = 0; u < units; u++) {
        size_t at = (size_t)u * OTHER_WORD, left = w->n - at;
        uint32_t word = word_of(w->pcm + at, left < OTHER_WORD ? left : OTHER_WORD);

        if (s->m->kind.timed && (word == NONE) != (before == NONE))
            say(slot, TIME + (int32_t)(u * UNIT_STEPS), u);
        if (word != NONE)
            say(slot, (int32_t)word, u);
        if (word != NONE && slot->language < 0)
            slot->language = word < OTHER_WORDS / 2 ? GERMAN : FRENCH;
        before = word;
    }
    if (s->m->kind.timed && before != NONE)
        say(slot, TIME + (int32_t)(units * UNIT_STEPS), units);
}

static int encode_begin(struct asr_session *session, const struct asr_window *windows, uint32_t n,
                        struct err *err)
{
    struct session *s = of(session);

    if (s->coming)
        return err_set(err, ERR_DEVICE, "windows are on their way");
    for (uint32_t i = 0; i < n; i++) {
        if (windows[i].slot >= s->slot_count || windows[i].n < 1 || windows[i].n > OTHER_WINDOW)
            return err_set(err, ERR_DEVICE, "a window of %zu samples", windows[i].n);
        hear(s, &windows[i]);
        other_seen.windows++;
        if (windows[i].n > other_seen.longest)
            other_seen.longest = (uint32_t)windows[i].n;
    }
    s->coming = n;
    return 0;
}

static int encoded(struct asr_session *session, bool wait, uint32_t *ret, struct err *err)
{
    (void)wait;
    (void)err;
    *ret = of(session)->coming;
    of(session)->coming = 0;
    return 0;
}

/* ---- the decoder */

static uint32_t prompt_len(const struct session *s)
{
    int32_t start[ASR_PROMPT_MAX];

    return prompt(s->m->asr.vocab, (struct asr_task){0}, start);
}

/* One token ahead of all others. At the start it is the language. */
static void favour(struct session *s, const struct slot *slot, const struct asr_row *row)
{
    uint32_t last = prompt_len(s) - 1;
    int32_t token = slot->language;

    if (row->pos >= last)
        token = row->pos - last < slot->count ? slot->text[row->pos - last] : END;
    for (uint32_t i = 0; i < s->m->asr.vocab_size; i++)
        s->logits[i] = 0;
    if (token >= 0)
        s->logits[token] = 20;
}

static int compute(struct session *s, const struct asr_row *row, const struct choice_ask *ask,
                   struct choice *ret, struct candidate *top, struct err *err)
{
    struct tensor logits = tensor_of(DTYPE_F32, s->logits, 1, s->m->asr.vocab_size);
    struct backend *be = s->m->be;
    struct slot *slot = &s->slots[row->slot];
    int rc;

    if (row->slot >= s->slot_count || row->branch >= s->branches || !slot->encoded ||
        row->pos > slot->seen[row->branch] || (row->pos == 0 && row->token != START))
        return err_set(err, ERR_DEVICE, "a row that cannot be");
    slot->seen[row->branch] = row->pos + 1;
    favour(s, slot, row);
    rc = be->ops->choose(be, s->rules, logits, ask, ret, err);
    return rc == 0 && top ? be->ops->top(be, logits, s->branches + 1, top, err) : rc;
}

static int choose_begin(struct asr_session *session, const struct asr_row *rows,
                        const struct choice_ask *asks, uint32_t n, bool top, struct err *err)
{
    struct session *s = of(session);
    int rc = n > s->asr.rows || s->n ? err_set(err, ERR_DEVICE, "%u rows that cannot be", n) : 0;

    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = compute(s, &rows[i], &asks[i], &s->choices[i],
                     top ? s->top + (size_t)i * (s->branches + 1) : NULL, err);
    s->n = n;
    return rc;
}

static int choose_end(struct asr_session *session, struct choice *ret, struct candidate *top,
                      struct err *err)
{
    struct session *s = of(session);

    (void)err;
    memcpy(ret, s->choices, s->n * sizeof(*ret));
    if (top)
        memcpy(top, s->top, (size_t)s->n * (s->branches + 1) * sizeof(*top));
    s->n = 0;
    return 0;
}

static int branch(struct asr_session *session, const struct asr_move *moves, uint32_t n,
                  struct err *err)
{
    const struct session *s = of(session);

    for (uint32_t i = 0; i < n; i++) {
        if (moves[i].slot >= s->slot_count || moves[i].from >= s->branches ||
            moves[i].to >= s->branches)
            return err_set(err, ERR_DEVICE, "a move that cannot be");
        s->slots[moves[i].slot].seen[moves[i].to] = s->slots[moves[i].slot].seen[moves[i].from];
    }
    return 0;
}

/* A text token is said in its word's time, the end after the last. */
static int align_one(const struct session *s, const struct asr_alignment *a, struct err *err)
{
    const struct slot *w = &s->slots[a->slot];
    uint32_t n = a->n - a->text, k = 0;
    float *value;
    int rc = 0;

    if (a->tokens[0] != START || a->tokens[a->n - 1] != END || a->frames > STEPS ||
        a->text != prompt_len(s))
        return err_set(err, ERR_DEVICE, "an alignment that cannot be");
    if (a->tokens[a->text] == other_damaged)
        return err_set(err, ERR_MODEL, "its numbers are none");
    other_seen.aligned++;
    value = malloc((size_t)n * a->frames * sizeof(*value));
    if (!value)
        return err_set(err, ERR_NOMEM, "no memory to align");
    for (uint32_t i = 0; i < n; i++) {
        uint32_t from;

        while (k < w->count && w->text[k] >= END)
            k++;
        from = k < w->count ? w->unit[k++] * UNIT_STEPS : a->frames;
        for (uint32_t f = 0; f < a->frames; f++)
            value[(size_t)i * a->frames + f] = f >= from && f < from + UNIT_STEPS ? 3.0f : -0.5f;
    }
    if (!reference_warp(value, a->frames, n, a->frames, a->hold, a->first_frame))
        rc = err_set(err, ERR_NOMEM, "no memory to align");
    for (uint32_t i = 0; i < a->n; i++)
        a->logprob[i] = i >= a->text && a->tokens[i] < END ? -0.25 : 0;
    free(value);
    return rc;
}

static int align(struct asr_session *session, const struct asr_alignment *windows, uint32_t n,
                 struct err *err)
{
    uint32_t tokens = 0;
    int rc = 0;

    other_seen.most_aligned = n > other_seen.most_aligned ? n : other_seen.most_aligned;
    for (uint32_t i = 0; i < n; i++)
        tokens += windows[i].n;
    if (n == 0 || tokens > session->align_tokens)
        return err_set(err, ERR_DEVICE, "%u tokens that cannot be", tokens);
    for (uint32_t i = 0; rc == 0 && i < n; i++)
        rc = align_one(of(session), &windows[i], err);
    return rc;
}

/* ---- opening */

int other_open(struct other_kind kind, struct asr_model **ret, struct err *err)
{
    static const struct asr_ops ops = {
        .free = model_free,
        .default_slots = default_slots,
        .prompt = prompt,
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
    struct model *m = calloc(1, sizeof(*m));
    int rc;

    if (!m)
        return err_set(err, ERR_NOMEM, "no memory for a model");
    m->kind = kind;
    m->asr = (struct asr_model){
        .ops = &ops,
        .window_samples = OTHER_WINDOW,
        .positions = POSITIONS,
        .vocab_size = kind.timed ? SIZE : TIME,
        .prompt_max = kind.languages ? 3 : 2,
        .align_heads = kind.aligns,
        .frame_samples = OTHER_WINDOW / STEPS,
        .language = "eo",
        .precision = PRECISION_F32,
        .cache = CACHE_16,
    };
    other_seen = (struct other_seen){0};
    rc = make_vocabulary(kind, &m->asr.vocab, err);
    if (rc == 0)
        rc = backend_open_host(1, &m->be, err);
    if (rc != 0)
        model_free(&m->asr);
    else
        *ret = &m->asr;
    return rc;
}
