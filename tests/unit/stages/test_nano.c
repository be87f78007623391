/* The stage with the real nano model on the host backend: the reference's long-form transcripts,
 * its greedy tokens, the word error rate over all samples, silence, and results that do not depend
 * on slots and order. Recordings are decoded by the ffmpeg program. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include <jansson.h>

#include "base/err.h"
#include "base/log.h"
#include "gpu/backend.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/transcribe/decode/decoding.h"
#include "workers/stages/transcribe/decode/token_rules.h"
#include "workers/stages/transcribe/transcribe.h"
#include "workers/text/tokenizer/vocabulary.h"
#include "tools/score/normalize.h"
#include "tools/score/score.h"

#define WORDS_MAX_PERCENT \
    26.41 /* the model's README: 126 of 496 words with the reference, plus 1 */

struct sample {
    const char *name;
    bool outside; /* not in the source tree: real voices under another licence */
    float *pcm;   /* NULL: absent */
    int64_t n;
};

static struct sample samples[] = {
    {"01_en_short.wav", false, NULL, 0},
    {"02_en_flite_rms.mp3", false, NULL, 0},
    {"03_en_noisy.ogg", false, NULL, 0},
    {"04_es_clean.flac", false, NULL, 0},
    {"05_es_video.mp4", false, NULL, 0},
    {"06_digits_real_8k.wav", true, NULL, 0},
    {"07_digits_real_speakers.mp3", true, NULL, 0},
    {"08_two_voices_stereo.wav", false, NULL, 0},
    {"09_long_silences.flac", false, NULL, 0},
    {"10_noise_only.wav", false, NULL, 0},
    {"11_silence.wav", false, NULL, 0},
    {"12_en_long_90s.mp3", false, NULL, 0},
    {"13_es_long_45s.ogg", false, NULL, 0},
};
#define SAMPLES (sizeof(samples) / sizeof(samples[0]))

static struct backend *backend;
static struct asr_model *model;
static struct vocabulary *vocab;

/* ---- audio */

static const char *sample_path(const struct sample *s, const char *name)
{
    char rel[256];

    snprintf(rel, sizeof(rel), "%s/%s", s->outside ? "samples" : "tests/samples", name);
    return s->outside ? test_shared_path(rel) : test_source_path(rel);
}

static void decode(struct sample *s)
{
    char command[4400];
    int16_t chunk[4096];
    size_t n;
    FILE *f;

    if (access(sample_path(s, s->name), R_OK) != 0)
        return;
    snprintf(command, sizeof(command),
             "ffmpeg -nostdin -v error -i '%s' -f s16le -ac 1 -ar 16000 - 2>/dev/null",
             sample_path(s, s->name));
    f = popen(command, "r");
    if (!f)
        return;
    while ((n = fread(chunk, sizeof(chunk[0]), 4096, f)) > 0) {
        s->pcm = realloc(s->pcm, ((size_t)s->n + n) * sizeof(*s->pcm));
        assert_non_null(s->pcm);
        for (size_t i = 0; i < n; i++)
            s->pcm[s->n++] = (float)chunk[i] / 32768.0f;
    }
    pclose(f);
}

static int64_t read_audio(void *arg, int64_t at, size_t n, float *out)
{
    const struct sample *s = arg;
    int64_t left = s->n - at;

    if (left > (int64_t)n)
        left = (int64_t)n;
    memcpy(out, s->pcm + at, (size_t)left * sizeof(*out));
    return left;
}

static void release_audio(void *arg, int64_t at)
{
    (void)arg;
    (void)at;
}

/* ---- transcripts */

/* All of a lane's result as bytes, so that two can be compared. */
struct transcript {
    char lines[16384]; /* "start end text" per segment, hexadecimal floats behind */
    char words[8192];
    char language[8];
    int64_t start_ms[128], end_ms[128];
    char text[128][256];
    uint32_t segments;
};

static void take(void *arg, const struct lane_result *r, const struct err *err)
{
    struct transcript *t = arg;
    size_t at = 0;

    if (err)
        fail_msg("%s", err->msg);
    snprintf(t->language, sizeof(t->language), "%s", r->language);
    at += (size_t)snprintf(t->lines, sizeof(t->lines), "%s %a %u\n", r->language,
                           (double)r->language_prob, r->windows);
    for (uint32_t i = 0; i < r->segment_count; i++) {
        const struct result_segment *s = &r->segments[i];

        assert_true(i < 128);
        at += (size_t)snprintf(t->lines + at, sizeof(t->lines) - at, "%lld %lld %s %a %a %a %a\n",
                               (long long)s->start_ms, (long long)s->end_ms, s->text,
                               (double)s->avg_logprob, (double)s->no_speech_prob,
                               (double)s->compression_ratio, (double)s->temperature);
        assert_true(at < sizeof(t->lines));
        strcat(strcat(t->words, s->text), " ");
        t->start_ms[i] = s->start_ms;
        t->end_ms[i] = s->end_ms;
        snprintf(t->text[i], sizeof(t->text[i]), "%s", s->text);
    }
    t->segments = r->segment_count;
}

/* The samples first[0..n) with so many slots. */
static void transcribe(const size_t *which, size_t n, uint32_t slots, struct transcript *out)
{
    struct transcribe_params p;
    struct transcriber *t;
    bool progress = true;
    struct err e;

    transcribe_params_default(&p);
    assert_ok(transcriber_new(model, NULL, &p, slots, 0, &t, &e), e);
    for (size_t i = 0; i < n; i++) {
        struct lane_source source = {
            .read = read_audio, .release = release_audio, .arg = &samples[which[i]]};

        out[which[i]] = (struct transcript){0};
        assert_ok(transcriber_add(t, 0, NULL, which[i], source, take, &out[which[i]], NULL, &e), e);
    }
    while (progress)
        assert_ok(transcriber_step(t, &progress, &e), e);
    transcriber_free(t);
}

/* "[   0.46 ->    1.80]  farmer from the south." per line. */
static void equals_golden(const struct sample *s, const struct transcript *t)
{
    char name[64], path[4200], line[512];
    uint32_t n = 0;
    FILE *f;

    snprintf(name, sizeof(name), "%.*s.transcript.txt", (int)strcspn(s->name, "."), s->name);
    snprintf(line, sizeof(line), "%s/%s", s->outside ? "golden/whisper-nano" : "tests/parity/nano",
             name);
    snprintf(path, sizeof(path), "%s",
             s->outside ? test_shared_path(line) : test_source_path(line));
    f = fopen(path, "r");
    if (!f)
        fail_msg("%s is missing", path);
    while (fgets(line, sizeof(line), f)) {
        double start, end;
        char *text = strchr(line, ']');

        line[strcspn(line, "\n")] = 0;
        assert_non_null(text);
        assert_int_equal(sscanf(line, "[%lf -> %lf]", &start, &end), 2);
        assert_true(n < t->segments);
        assert_true(fabs((double)t->start_ms[n] / 1000 - start) < 0.0201);
        assert_true(fabs((double)t->end_ms[n] / 1000 - end) < 0.0201);
        assert_string_equal(t->text[n], text + 1 + strspn(text + 1, " "));
        n++;
    }
    fclose(f);
    assert_int_equal(n, t->segments);
}

/* The window's course with one slot, without any lane. */
static void run_window(struct decoding *d, struct asr_session *session, const struct sample *s)
{
    struct asr_window window = {.pcm = s->pcm, .n = (size_t)s->n};
    struct asr_row rows[4];
    struct choice_ask asks[4];
    struct choice choices[4];
    struct err e;

    assert_ok(whisper_encode(session, &window, 1, &e), e);
    decoding_begin(d, 0, NULL, 0);
    while (decoding_state(d) != DECODING_DONE) {
        uint32_t n = decoding_rows(d, rows, asks, session->rows < 4 ? session->rows : 4);
        int32_t language;
        float prob, no_speech;

        if (n > 0) {
            assert_ok(whisper_choose(session, rows, asks, n, choices, NULL, &e), e);
            assert_ok(decoding_feed(d, choices, NULL, n, &e), e);
        }
        decoding_heard(d, &language, &prob, &no_speech);
        decoding_go(d, language, prob);
    }
}

static void equals_tokens(const struct decoding_result *w, const struct sample *s)
{
    char rel[128];
    json_t *root, *tokens;
    const char *base = s->outside ? "golden/whisper-nano" : "tests/parity/nano";

    snprintf(rel, sizeof(rel), "%s/%.*s/tokens.json", base, (int)strcspn(s->name, "."), s->name);
    root = json_load_file(s->outside ? test_shared_path(rel) : test_source_path(rel), 0, NULL);
    assert_non_null(root);
    tokens = json_object_get(root, "tokens_timestamps");
    assert_int_equal(json_array_size(tokens), w->count);
    for (uint32_t i = 0; i < w->count; i++)
        assert_int_equal(json_integer_value(json_array_get(tokens, i)), w->tokens[i]);
    assert_true(fabs(json_number_value(json_object_get(root, "avg_logprob_timestamps")) -
                     (double)w->avg_logprob) < 1e-3);
    assert_true(fabs(json_number_value(json_object_get(root, "nospeech_prob")) -
                     (double)w->no_speech_prob) < 1e-3);
    assert_string_equal(json_string_value(json_object_get(root, "language")),
                        vocabulary_language_code(vocab, w->language));
    json_decref(root);
}

/* The reference's greedy tokens with timestamps; the noise, too, is decoded here. */
TEST(test_tokens)
{
    static const size_t golden[] = {0, 3, 5, 9};
    struct asr_session *session;
    struct transcribe_params params;
    struct token_rules *rules;
    struct decoding_policy policy = {.params = &params,
                                     .vocab = vocab,
                                     .positions = whisper_config(model)->max_target_positions,
                                     .max_tokens = 224,
                                     .branches = 1,
                                     .prompt = whisper_prompt};
    struct decoding_result r;
    struct decoding *d;
    struct err e;

    transcribe_params_default(&params);
    params.no_speech_threshold = 1;
    params.temperature_count = 1;
    assert_ok(token_rules_new(vocab, whisper_config(model)->vocab_size, &params, &rules, &e), e);
    assert_ok(whisper_session_new(model, (struct asr_shape){.slots = 1}, &session, &e), e);
    assert_ok(whisper_session_rules(session, token_rules_spec(rules), &e), e);
    assert_ok(decoding_new(&policy, &d, &e), e);
    for (size_t i = 0; i < 4; i++)
        if (samples[golden[i]].pcm) {
            run_window(d, session, &samples[golden[i]]);
            decoding_result(d, &r);
            equals_tokens(&r, &samples[golden[i]]);
        }
    decoding_free(d);
    whisper_session_free(session);
    token_rules_free(rules);
}

static struct transcript first[SAMPLES], again[SAMPLES];

static size_t present(size_t *which)
{
    size_t n = 0;

    for (size_t i = 0; i < SAMPLES; i++)
        if (samples[i].pcm)
            which[n++] = i;
        else
            print_message("SKIPPED in part: %s is not here\n", samples[i].name);
    return n;
}

TEST(test_golden)
{
    static const size_t golden[] = {0, 3, 5, 9};

    for (size_t i = 0; i < 4; i++)
        if (samples[golden[i]].pcm) {
            transcribe(&golden[i], 1, 1, first);
            equals_golden(&samples[golden[i]], &first[golden[i]]);
        } else {
            print_message("SKIPPED in part: %s is not here\n", samples[golden[i]].name);
        }
}

/* The error count of one sample by Whisper's basic rules, added to the sum. */
static struct score score_sample(const char *reference, const char *hypothesis, struct score *sum)
{
    const struct normalize_options o = {.normalizer = NORMALIZE_BASIC};
    char *ref = NULL, *hyp = NULL;
    struct score one = {0};
    struct err err = {0};

    assert_ok(normalize(&o, reference, strlen(reference), &ref, &err), err);
    assert_ok(normalize(&o, hypothesis, strlen(hypothesis), &hyp, &err), err);
    assert_ok(score_words(ref, hyp, &one, &err), err);
    score_add(sum, &one);
    free(ref);
    free(hyp);
    return one;
}

TEST(test_words)
{
    size_t which[SAMPLES], n = present(which);
    struct score all = {0};

    transcribe(which, n, 8, first);
    for (size_t i = 0; i < n; i++) {
        const struct sample *s = &samples[which[i]];
        char name[64], reference[4096] = "";
        struct score one;
        FILE *f;

        snprintf(name, sizeof(name), "%.*s.txt", (int)strcspn(s->name, "."), s->name);
        f = fopen(sample_path(s, name), "r");
        assert_non_null(f);
        reference[fread(reference, 1, sizeof(reference) - 1, f)] = 0;
        fclose(f);
        one = score_sample(reference, first[which[i]].words, &all);
        print_message("%-28s %2s words %3llu errors %2llu segments %u\n", s->name,
                      first[which[i]].language, (unsigned long long)one.reference,
                      (unsigned long long)score_errors(&one), first[which[i]].segments);
        if (!one.reference)
            assert_int_equal(first[which[i]].segments, 0); /* noise and silence: no text */
    }
    print_message("word error rate %.2f %%\n", 100.0 * score_rate(&all));
    assert_true(all.reference > 400);
    assert_true(100.0 * score_rate(&all) <= WORDS_MAX_PERCENT);
}

/* Byte for byte the same alone, together, in another order, with few and many slots. */
TEST(test_batching)
{
    static const uint32_t slots[] = {1, 16};
    size_t which[SAMPLES], n = present(which);

    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < n / 2; i++) { /* another order each time */
            size_t j = (i * 5 + k) % n, swap = which[i];

            which[i] = which[j];
            which[j] = swap;
        }
        transcribe(which, n, slots[k], again);
        for (size_t i = 0; i < n; i++)
            assert_memory_equal(&first[which[i]], &again[which[i]], sizeof(first[0]));
    }
}

/* Recordings end anywhere: each cut has an end, and no word lies past it. */
TEST(test_cuts)
{
    static const int64_t ends[] = {1599, 1600, 8000, 40000, 90000};
    static struct transcript t[SAMPLES];

    for (size_t k = 0; k < 5; k++) {
        int64_t whole = samples[0].n;
        const size_t zero = 0;

        samples[0].n = ends[k];
        transcribe(&zero, 1, 1, t);
        samples[0].n = whole;
        for (uint32_t i = 0; i < t[0].segments; i++)
            assert_true(t[0].end_ms[i] <= (ends[k] * 1000 + 8000) / 16000);
    }
}

static int setup(void **state)
{
    const struct asr_setup nano = {.dir = test_source_path("workers/models/whisper-nano"),
                                   .precision = PRECISION_F32,
                                   .text = true};
    struct err e;

    (void)state;
    /* One thread: the tests beside this one have the other processors. */
    if (backend_open_host(1, &backend, &e) || whisper_family.open(&nano, backend, &model, &e)) {
        print_error("%s\n", e.msg);
        return -1;
    }
    vocab = model->vocab;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    whisper_free(model);
    backend_close(backend);
    for (size_t i = 0; i < SAMPLES; i++)
        free(samples[i].pcm);
    return 0;
}

int main(void)
{
    for (size_t i = 0; i < SAMPLES; i++)
        decode(&samples[i]);
    if (!samples[0].pcm) {
        printf("SKIPPED: the ffmpeg program is needed to decode the samples\n");
        return TEST_SKIPPED;
    }
    return suite_run(setup, teardown);
}
