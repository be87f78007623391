/* What openai-whisper decodes from a model that is a formula, decoded here with the host's choice
 * of tokens: the same tokens, measures and decisions. make_fixtures.py has the formula, too. */
#include "tests/common/test.h"

#include <jansson.h>
#include <math.h>

#include "gpu/backend.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/transcribe/decode/decoding.h"
#include "workers/stages/transcribe/decode/token_rules.h"

#define EOT 50257
#define SOT 50258
#define NO_SPEECH 50362
#define NO_TIMESTAMPS 50363
#define TIMES 50364
#define VOCAB (TIMES + 1501)
#define POSITIONS 448
#define BRANCHES_MAX 8

static json_t *fixtures;
static struct vocabulary *vocab;
static struct backend *be;

/* ---- the model */

static uint32_t mix(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}

static uint32_t state_after(uint32_t seed, const int32_t *tokens, uint32_t n)
{
    uint32_t state = seed;

    for (uint32_t i = 0; i < n; i++)
        state = mix(state ^ ((uint32_t)tokens[i] * 0x9E3779B1u));
    return state;
}

static void logits_after(uint32_t seed, const int32_t *tokens, uint32_t n, float *ret)
{
    uint32_t state = state_after(seed, tokens, n), after = 0;
    bool times = true;

    for (uint32_t i = 0; i < n; i++) {
        after = tokens[i] == SOT ? 0 : after + 1;
        times = times && tokens[i] != NO_TIMESTAMPS;
    }
    for (uint32_t id = 0; id < VOCAB; id++) {
        uint32_t x = mix(state + id * 0x85EBCA6Bu);
        float low = (float)(x & 0xFFFF) / 65536.0f;

        ret[id] = (float)(x ? __builtin_clz(x) : 32) * 1.25f + low;
        if (id == EOT)
            ret[id] = 6 + (float)after * 0.625f + low;
        if (id >= TIMES)
            ret[id] = !times ? -30 : (state >> 3 & 3) == 0 ? ret[id] + 4 : ret[id];
        if (id >= SOT && id < TIMES && tokens[n - 1] != SOT)
            ret[id] = -30;
    }
    if (tokens[n - 1] == SOT && seed % 3 == 0)
        ret[NO_SPEECH] = 20.5f;
}

/* A word for each id, as make_fixtures.py spells them, and the special tokens. */
static char *make_tokenizer(void)
{
    static const char *const names[] = {"endoftext",  "startoftranscript", "translate",
                                        "transcribe", "startoflm",         "startofprev",
                                        "nospeech",   "notimestamps"};
    static const int ids[] = {EOT, SOT, 50358, 50359, 50360, 50361, NO_SPEECH, NO_TIMESTAMPS};
    json_t *root = json_object(), *model = json_object(), *words = json_object();
    json_t *added = json_array();
    char name[32], *text;

    for (int i = 0; i < EOT; i++) {
        snprintf(name, sizeof(name), "\u0120%c%c%c%c", 'a' + i % 26, 'a' + i / 26 % 26,
                 'a' + i / 676 % 26, 'a' + i / 17576 % 26);
        json_object_set_new(words, name, json_integer(i));
    }
    for (size_t i = 0; i < 8; i++) {
        snprintf(name, sizeof(name), "<|%s|>", names[i]);
        json_array_append_new(
            added, json_pack("{s:i,s:s,s:b}", "id", ids[i], "content", name, "special", 1));
    }
    json_object_set_new(model, "type", json_string("BPE"));
    json_object_set_new(model, "vocab", words);
    json_object_set_new(model, "merges", json_array());
    json_object_set_new(root, "model", model);
    json_object_set_new(root, "added_tokens", added);
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    return text;
}

static int make_vocabulary(struct err *err)
{
    char *tokenizer = make_tokenizer();
    char *generation = json_dumps(json_object_get(fixtures, "generation"), JSON_COMPACT);
    struct vocabulary_source s = {.tokenizer = tokenizer, .generation = generation};
    int rc;

    s.tokenizer_len = strlen(tokenizer);
    s.generation_len = strlen(generation);
    rc = vocabulary_parse(&s, &vocab, err);
    free(tokenizer);
    free(generation);
    return rc;
}

/* ---- one case */

struct run {
    const json_t *c;
    struct transcribe_params params;
    struct decoding_policy policy;
    struct decoding *d;
    struct rules *rules;
    uint32_t seed;
    int32_t language; /* -1: to be heard */
    int32_t cache[BRANCHES_MAX][POSITIONS];
    float *logits; /* [BRANCHES_MAX][VOCAB] */
};

static double number(const struct run *r, const char *key)
{
    return json_number_value(json_object_get(r->c, key));
}

static void set_params(struct run *r)
{
    struct transcribe_params *p = &r->params;

    transcribe_params_default(p);
    p->beam_size = (uint32_t)number(r, "beam_size");
    p->patience = (float)number(r, "patience");
    p->length_penalty = (float)number(r, "length_penalty");
    p->translate = !strcmp(json_string_value(json_object_get(r->c, "task")), "translate");
    p->without_timestamps = json_is_true(json_object_get(r->c, "without_timestamps"));
    p->logprob_threshold = (float)number(r, "logprob_threshold");
    p->compression_ratio_threshold = (float)number(r, "compression_ratio_threshold");
    p->no_speech_threshold = (float)number(r, "no_speech_threshold");
    p->temperatures[0] = p->temperatures[1] = 0; /* a fallback gives the same once more */
    p->temperature_count = 2;
    r->policy = (struct decoding_policy){
        p, vocab, POSITIONS, (uint32_t)number(r, "sample_len"), p->beam_size, whisper_prompt};
}

static void open_run(struct run *r, const json_t *c)
{
    struct token_rules *rules;
    const char *language;
    struct err e;

    *r = (struct run){.c = c, .seed = 0};
    r->seed = (uint32_t)json_integer_value(json_object_get(c, "seed"));
    set_params(r);
    language = json_string_value(json_object_get(c, "language"));
    r->language = language ? vocabulary_language_id(vocab, language) : -1;
    if (language) /* nobody else's is tried */
        snprintf(r->params.language, sizeof(r->params.language), "%s", language);
    r->logits = malloc(BRANCHES_MAX * VOCAB * sizeof(*r->logits));
    assert_non_null(r->logits);
    assert_ok(token_rules_new(vocab, VOCAB, &r->params, &rules, &e), e);
    assert_ok(be->ops->rules_new(be, token_rules_spec(rules), &r->rules, &e), e);
    token_rules_free(rules);
    assert_ok(decoding_new(&r->policy, &r->d, &e), e);
}

static void close_run(struct run *r)
{
    decoding_free(r->d);
    be->ops->rules_free(be, r->rules);
    free(r->logits);
}

static void begin(struct run *r)
{
    const json_t *prompt = json_object_get(r->c, "prompt");
    int32_t previous[POSITIONS];
    uint32_t n = (uint32_t)json_array_size(prompt);

    for (uint32_t i = 0; i < n; i++)
        previous[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    decoding_begin(r->d, r->seed, previous, n);
}

static void step(struct run *r)
{
    struct candidate top[BRANCHES_MAX * (BRANCHES_MAX + 1)];
    struct asr_move moves[BRANCHES_MAX];
    struct choice_ask asks[BRANCHES_MAX];
    struct asr_row rows[BRANCHES_MAX];
    struct choice choices[BRANCHES_MAX];
    uint32_t k = r->policy.branches + 1, n = decoding_moves(r->d, moves);
    struct tensor logits;
    struct err e;

    for (uint32_t i = 0; i < n; i++)
        memcpy(r->cache[moves[i].to], r->cache[moves[i].from], sizeof(r->cache[0]));
    n = decoding_rows(r->d, rows, asks, BRANCHES_MAX);
    for (uint32_t i = 0; i < n; i++) {
        int32_t *cache = r->cache[rows[i].branch];

        cache[rows[i].pos] = rows[i].token;
        if (asks[i].what)
            logits_after(r->seed, cache, rows[i].pos + 1, r->logits + (size_t)i * VOCAB);
        else
            memset(r->logits + (size_t)i * VOCAB, 0, VOCAB * sizeof(*r->logits));
    }
    logits = tensor_of(DTYPE_F32, r->logits, n, VOCAB);
    assert_ok(be->ops->choose(be, r->rules, logits, asks, choices, &e), e);
    if (r->policy.branches > 1)
        assert_ok(be->ops->top(be, logits, k, top, &e), e);
    assert_ok(decoding_feed(r->d, choices, r->policy.branches > 1 ? top : NULL, n, &e), e);
}

/* Counts and prints what differs. */
static int differs(const struct run *r, size_t number_of_case, const char *key, double got,
                   double tolerance)
{
    const json_t *value = json_object_get(r->c, key);
    double want = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);

    if (fabs(got - want) <= tolerance)
        return 0;
    print_error("case %zu: %s is %.9g, not %.9g\n", number_of_case, key, got, want);
    return 1;
}

static int tokens_differ(const struct run *r, size_t number_of_case,
                         const struct decoding_result *got)
{
    const json_t *want = json_object_get(r->c, "tokens");
    bool same = json_array_size(want) == got->count;

    for (uint32_t i = 0; same && i < got->count; i++)
        same = json_integer_value(json_array_get(want, i)) == got->tokens[i];
    if (same)
        return 0;
    print_error("case %zu: other tokens:", number_of_case);
    for (uint32_t i = 0; i < got->count; i++)
        print_error(" %d", got->tokens[i]);
    print_error("\n");
    return 1;
}

/* Nightshift's own rule: a window is silent, too, where its text alone is too unlikely, for a
 * likely timestamp before a word or two raises the mean. The reference goes by the mean alone. */
static bool silent_for_its_text(const struct run *r, const struct decoding_result *got)
{
    double sum = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < got->count; i++)
        if (got->tokens[i] < TIMES) {
            sum += (double)got->logprobs[i];
            n++;
        }
    return n && sum / n <= number(r, "logprob_threshold") &&
           (double)got->avg_logprob > number(r, "logprob_threshold") &&
           (double)got->no_speech_prob > number(r, "no_speech_threshold");
}

static uint32_t by_text; /* cases that are silent for their text */

static int run_case(size_t i)
{
    struct decoding_result got;
    struct run r;
    int n;

    open_run(&r, json_array_get(json_object_get(fixtures, "cases"), i));
    begin(&r);
    while (decoding_state(r.d) != DECODING_DONE)
        if (decoding_state(r.d) == DECODING_LANGUAGE)
            decoding_go(r.d, r.language, 1);
        else
            step(&r);
    decoding_result(r.d, &got);
    n = tokens_differ(&r, i, &got);
    n += differs(&r, i, "avg_logprob", (double)got.avg_logprob, 1e-4);
    n += differs(&r, i, "compression_ratio", (double)got.compression_ratio, 1e-6);
    n += differs(&r, i, "no_speech_prob", (double)got.no_speech_prob, 1e-4);
    n += differs(&r, i, "language_id", got.language, 0);
    n += differs(&r, i, "language_prob", (double)got.language_prob, 1e-4);
    if (silent_for_its_text(&r, &got)) {
        by_text++;
        n += !got.silent || got.attempts != 1;
    } else {
        n += differs(&r, i, "fallback", got.attempts == 2, 0);
        n += differs(&r, i, "silent", got.silent, 0);
    }
    close_run(&r);
    return n;
}

TEST(test_cases)
{
    size_t n = json_array_size(json_object_get(fixtures, "cases"));
    int differences = 0;

    assert_true(n >= 60);
    for (size_t i = 0; i < n; i++)
        differences += run_case(i);
    assert_int_equal(differences, 0);
    assert_true(by_text < n / 10); /* in all others the reference decides */
}

static int setup(void **state)
{
    json_error_t why;
    struct err e;

    (void)state;
    fixtures = json_load_file(test_source_path("tests/parity/decoding/fixtures.json"), 0, &why);
    if (!fixtures) {
        print_error("fixtures.json, line %d: %s\n", why.line, why.text);
        return -1;
    }
    if (make_vocabulary(&e) || backend_open_host(1, &be, &e)) {
        print_error("%s\n", e.msg);
        return -1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_close(be);
    vocabulary_free(vocab);
    json_decref(fixtures);
    return 0;
}

TEST_MAIN(setup, teardown)
