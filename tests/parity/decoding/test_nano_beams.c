/* Beam search with the nano model's weights on a real session, against openai-whisper's
 * (make_nano_fixtures.py): branches, their copies and candidates as the host makes them. The sample
 * is ../shared's; skipped where that is absent. */
#include "tests/common/test.h"

#include <jansson.h>
#include <math.h>

#include "gpu/backend.h"
#include "tests/parity/nano/fixture.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/transcribe/decode/decoding.h"
#include "workers/stages/transcribe/decode/token_rules.h"

#define ROWS 16

static struct backend *be;
static struct asr_model *model;
static struct vocabulary *vocab;
static json_t *cases;

static float *load_noisy(const json_t *c, size_t *n)
{
    float amplitude = (float)json_number_value(json_object_get(c, "noise"));
    char rel[256];
    const char *name = json_string_value(json_object_get(c, "sample"));
    float *pcm;

    snprintf(rel, sizeof(rel), "samples/%s", name);
    if (fixture_wav(test_shared_path(rel), &pcm, n))
        return NULL;
    if (*n > WHISPER_WINDOW_SAMPLES)
        *n = WHISPER_WINDOW_SAMPLES;
    for (uint32_t i = 0; i < *n; i++) {
        uint32_t x = (i ^ (i >> 16)) * 0x7FEB352Du;

        x = (x ^ (x >> 15)) * 0x846CA68Bu;
        x ^= x >> 16;
        pcm[i] += amplitude * (((float)(x >> 16) - 32768.0f) / 32768.0f);
    }
    return pcm;
}

static void set_params(const json_t *c, struct transcribe_params *p)
{
    transcribe_params_default(p);
    p->beam_size = (uint32_t)json_integer_value(json_object_get(c, "beam_size"));
    p->patience = (float)json_number_value(json_object_get(c, "patience"));
    p->length_penalty = (float)json_number_value(json_object_get(c, "length_penalty"));
    p->without_timestamps = json_is_true(json_object_get(c, "without_timestamps"));
    p->temperature_count = 1;
    p->no_speech_threshold = 1; /* never silent: the reference decodes all */
}

static struct asr_session *open_session(const struct transcribe_params *p)
{
    struct asr_shape shape = {.slots = 1, .branches = p->beam_size};
    struct asr_session *s;
    struct token_rules *rules;
    struct err e;

    assert_ok(token_rules_new(vocab, whisper_config(model)->vocab_size, p, &rules, &e), e);
    assert_ok(whisper_session_new(model, shape, &s, &e), e);
    assert_ok(whisper_session_rules(s, token_rules_spec(rules), &e), e);
    token_rules_free(rules);
    return s;
}

static void step(struct asr_session *s, struct decoding *d, uint32_t branches)
{
    struct asr_move moves[ASR_BRANCHES_MAX];
    struct candidate top[ROWS * ROWS];
    struct choice_ask asks[ROWS];
    struct asr_row rows[ROWS];
    struct choice choices[ROWS];
    uint32_t n = decoding_moves(d, moves), room = s->rows;
    struct err e;

    if (n > 0)
        assert_ok(whisper_branch(s, moves, n, &e), e);
    n = decoding_rows(d, rows, asks, room < ROWS ? room : ROWS);
    assert_ok(whisper_choose(s, rows, asks, n, choices, branches > 1 ? top : NULL, &e), e);
    assert_ok(decoding_feed(d, choices, branches > 1 ? top : NULL, n, &e), e);
}

static void begin(struct decoding *d, const json_t *c)
{
    const json_t *prompt = json_object_get(c, "prompt");
    uint32_t n = (uint32_t)json_array_size(prompt);
    int32_t previous[64];

    assert_true(n <= 64);
    for (uint32_t i = 0; i < n; i++)
        previous[i] = (int32_t)json_integer_value(json_array_get(prompt, i));
    decoding_begin(d, 0, previous, n);
}

static int compare(size_t number, const json_t *c, const struct decoding_result *got)
{
    const json_t *want = json_object_get(c, "tokens");
    double avg_logprob = json_number_value(json_object_get(c, "avg_logprob"));
    double no_speech = json_number_value(json_object_get(c, "no_speech_prob"));
    bool same = json_array_size(want) == got->count;

    for (uint32_t i = 0; same && i < got->count; i++)
        same = json_integer_value(json_array_get(want, i)) == got->tokens[i];
    same = same && fabs((double)got->avg_logprob - avg_logprob) < 1e-3 &&
           fabs((double)got->no_speech_prob - no_speech) < 1e-3;
    if (same)
        return 0;
    print_error("case %zu: avg_logprob %f, not %f; no_speech %f, not %f; tokens:", number,
                (double)got->avg_logprob, avg_logprob, (double)got->no_speech_prob, no_speech);
    for (uint32_t i = 0; i < got->count; i++)
        print_error(" %d", got->tokens[i]);
    print_error("\n");
    return 1;
}

static int run_case(size_t number, const json_t *c, const float *pcm, size_t n)
{
    struct asr_window window = {.pcm = pcm, .n = n};
    struct transcribe_params p;
    struct decoding_policy policy = {.params = &p,
                                     .vocab = vocab,
                                     .positions = whisper_config(model)->max_target_positions,
                                     .max_tokens = 224,
                                     .prompt = whisper_prompt};
    const char *language = json_string_value(json_object_get(c, "language"));
    struct asr_session *s;
    struct decoding_result got;
    struct decoding *d;
    struct err e;
    int differences;

    set_params(c, &p);
    if (language) /* no other is tried */
        snprintf(p.language, sizeof(p.language), "%s", language);
    policy.branches = p.beam_size;
    s = open_session(&p);
    assert_ok(decoding_new(&policy, &d, &e), e);
    assert_ok(whisper_encode(s, &window, 1, &e), e);
    begin(d, c);
    while (decoding_state(d) != DECODING_DONE)
        if (decoding_state(d) == DECODING_LANGUAGE)
            decoding_go(d, vocabulary_language_id(vocab, language), 1);
        else
            step(s, d, p.beam_size);
    decoding_result(d, &got);
    differences = compare(number, c, &got);
    decoding_free(d);
    whisper_session_free(s);
    return differences;
}

TEST(test_beams)
{
    size_t n = json_array_size(cases), samples;
    int differences = 0;

    assert_true(n >= 20);
    for (size_t i = 0; i < n; i++) {
        const json_t *c = json_array_get(cases, i);
        float *pcm = load_noisy(c, &samples);

        assert_non_null(pcm);
        differences += run_case(i, c, pcm, samples);
        free(pcm);
    }
    assert_int_equal(differences, 0);
}

static int setup(void **state)
{
    const char *dir = test_source_path("workers/models/whisper-nano");
    struct err e;

    (void)state;
    if (backend_open_host(2, &be, &e) || whisper_load(dir, be, PRECISION_F32, &model, &e) ||
        vocabulary_load(dir, &vocab, &e)) {
        print_error("%s\n", e.msg);
        return -1;
    }
    cases = json_load_file(test_source_path("tests/parity/decoding/nano.json"), 0, NULL);
    return cases ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    json_decref(cases);
    vocabulary_free(vocab);
    whisper_free(model);
    backend_close(be);
    return 0;
}

int main(void)
{
    FILE *f = fopen(test_shared_path("samples/01_en_short.wav"), "r");

    if (!f) {
        print_message("SKIPPED: ../shared/samples is not here\n");
        return TEST_SKIPPED;
    }
    fclose(f);
    return suite_run(setup, teardown);
}
