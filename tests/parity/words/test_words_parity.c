/* Word times against openai-whisper's own: paths, words of texts, and words of recordings through
 * the model. make_fixtures.py beside this file made what is compared with. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/number.h"
#include "gpu/backend.h"
#include "tests/common/nano.h"
#include "tests/parity/nano/fixture.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/transcribe/decode/token_rules.h"
#include "workers/stages/transcribe/transcribe.h"
#include "workers/stages/transcribe/outcome/words.h"

#define FRAME_SECONDS 0.02f
#define LINE_MAX_BYTES (1 << 16)
#define TOKENS_MAX 448

static char line[LINE_MAX_BYTES];

static FILE *open_fixture(const char *name)
{
    char rel[128];
    FILE *f;

    snprintf(rel, sizeof(rel), "tests/parity/words/%s", name);
    f = fopen(test_source_path(rel), "r");
    assert_non_null(f);
    return f;
}

static bool next_line(FILE *f)
{
    if (!fgets(line, sizeof(line), f))
        return false;
    line[strcspn(line, "\n")] = 0;
    return true;
}

/* Integers parted by commas or blanks. */
static uint32_t integers(const char *s, int32_t *ret, uint32_t max)
{
    uint32_t n = 0;
    char *end;

    for (;; s = end + (*end == ',')) {
        long x = strtol(s, &end, 10);

        if (end == s)
            return n;
        assert_true(n < max);
        ret[n++] = (int32_t)x;
    }
}

/* "-": none. */
static void unhex(const char *hex, size_t len, char *ret, size_t room)
{
    size_t n = 0;

    for (; n * 2 + 1 < len; n++) {
        unsigned byte;

        assert_true(n + 1 < room && sscanf(hex + n * 2, "%2x", &byte) == 1);
        ret[n] = (char)byte;
    }
    ret[n] = 0;
}

/* ---- paths */

static float *make_matrix(const char *kind, uint64_t seed, uint32_t n, uint32_t m)
{
    float *x = calloc((size_t)n * m, sizeof(*x));
    double reach = fmax(1.0, 0.6 * m / n);

    assert_non_null(x);
    for (size_t i = 0; strcmp(kind, "same") != 0 && i < (size_t)n * m; i++) {
        double u = number_uniform(seed, i);

        if (strcmp(kind, "steps") == 0)
            u = floor(u * 4.0);
        else if (strcmp(kind, "ridge") == 0 &&
                 fabs((double)(i % m) - ((double)(i / m) + 0.5) * m / n) < reach)
            u -= 3.0;
        x[i] = (float)u;
    }
    return x;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

TEST(paths_agree)
{
    FILE *f = open_fixture("dtw.txt");
    struct backend *be;
    struct err e;
    int cases = 0;

    assert_ok(backend_open_host(0, &be, &e), e);

    while (next_line(f)) {
        static int32_t want[TOKENS_MAX + 1];
        static uint32_t have[TOKENS_MAX + 1];
        char kind[16];
        uint32_t n, m;
        int at;
        unsigned long long seed;
        struct align_window window;
        double began;
        float *cost, *work;

        assert_int_equal(sscanf(line, "%15s %llu %u %u%n", kind, &seed, &n, &m, &at), 4);
        assert_int_equal(integers(line + at, want, TOKENS_MAX + 1), n);
        cost = make_matrix(kind, seed, n, m);
        window = (struct align_window){n, m, 0, n};
        began = seconds();
        for (size_t i = 0; i < (size_t)n * m; i++)
            cost[i] = -cost[i];
        work = malloc((size_t)n * m * sizeof(*work));
        assert_non_null(work);
        assert_ok(be->ops->warp(be, tensor_of(DTYPE_F32, cost, n, m), &window, 1, NULL,
                                tensor_of(DTYPE_F32, work, n, m), have, &e),
                  e);
        free(work);
        if (n * m > 100000)
            print_message("  %s %u x %u: %.2f ms\n", kind, n, m, (seconds() - began) * 1e3);
        for (uint32_t i = 0; i < n; i++)
            if (have[i] != (uint32_t)want[i])
                fail_msg("%s %llu, row %u: %u, not %d", kind, seed, i, have[i], want[i]);
        free(cost);
        cases++;
    }
    fclose(f);
    backend_close(be);
    assert_true(cases >= 18);
}

/* ---- words of texts */

/* "HEX:COUNT|HEX:COUNT" */
static void check_words(const struct words *w, const char *want, const int32_t *tokens, uint32_t n)
{
    uint32_t i = 0, at = 0;
    char text[1024];

    for (const char *s = want; *s; i++) {
        size_t len = strcspn(s, ":");
        unsigned long count = strtoul(s + len + 1, NULL, 10);

        unhex(s, len, text, sizeof(text));
        assert_true(i < w->count);
        assert_string_equal(w->words[i].text, text);
        assert_int_equal(w->words[i].first, at);
        assert_int_equal(w->words[i].count, count);
        at += (uint32_t)count;
        s += strcspn(s, "|");
        s += *s == '|';
    }
    assert_int_equal(i, w->count);
    assert_int_equal(at, n);
    (void)tokens;
}

TEST(words_agree)
{
    FILE *f = open_fixture("split.txt");
    int cases = 0;

    while (next_line(f)) {
        static int32_t tokens[2048];
        char *language = strtok(line, "\t"), *ids = strtok(NULL, "\t");
        char *split = strtok(NULL, "\t"), *merged = strtok(NULL, "\t");
        uint32_t n = integers(ids, tokens, 2048);
        struct words w;
        struct err e;

        assert_non_null(merged);
        assert_ok(words_split(nano, language, tokens, n, &w, &e), e);
        check_words(&w, split, tokens, n);
        assert_ok(words_merge_punctuation(&w, &e), e);
        check_words(&w, merged, tokens, n);
        words_free(&w);
        cases++;
    }
    fclose(f);
    assert_true(cases >= 29);
}

/* ---- words of recordings */

struct wanted_word {
    float start, end, probability;
    char text[64];
};

struct wanted_segment {
    float start, end, fitted_start, fitted_end;
    uint32_t first, count; /* tokens */
    uint32_t word, word_count;
};

struct wanted {
    char audio[128], language[8];
    size_t first, samples;
    int32_t tokens[TOKENS_MAX];
    uint32_t token_count;
    struct wanted_segment segments[64];
    uint32_t segment_count;
    struct wanted_word words[TOKENS_MAX];
    uint32_t word_count;
};

static void take_segment(struct wanted *w)
{
    struct wanted_segment *s = &w->segments[w->segment_count++];
    int at;

    assert_true(w->segment_count < 64);
    *s = (struct wanted_segment){.first = w->token_count, .word = w->word_count};
    assert_int_equal(sscanf(line, "segment %f %f%n", &s->start, &s->end, &at), 2);
    s->count = integers(line + at, w->tokens + w->token_count, TOKENS_MAX - w->token_count);
    w->token_count += s->count;
}

static void take_word(struct wanted *w)
{
    struct wanted_word *x = &w->words[w->word_count++];
    char hex[128] = "";

    assert_true(w->word_count < TOKENS_MAX);
    assert_int_equal(sscanf(line, "word %f %f %f %127s", &x->start, &x->end, &x->probability, hex),
                     4);
    unhex(hex, strlen(hex), x->text, sizeof(x->text));
    w->segments[w->segment_count - 1].word_count++;
}

/* One window's lines; `line` holds its first. False at the end of the file. */
static bool next_window(FILE *f, struct wanted *w)
{
    struct wanted_segment *s;

    *w = (struct wanted){0};
    if (sscanf(line, "window %127s %7s %zu %zu", w->audio, w->language, &w->first, &w->samples) !=
        4)
        return false;
    while (next_line(f) && strncmp(line, "window", 6) != 0) {
        if (strncmp(line, "segment", 7) == 0)
            take_segment(w);
        else if (strncmp(line, "word", 4) == 0)
            take_word(w);
        else {
            s = &w->segments[w->segment_count - 1];
            assert_int_equal(sscanf(line, "fitted %f %f", &s->fitted_start, &s->fitted_end), 2);
        }
    }
    if (feof(f))
        line[0] = 0;
    return true;
}

struct bench {
    struct backend *be;
    struct asr_model *model;
    struct asr_session *session;
    struct token_rules *rules;
    struct whisper_head heads[WHISPER_MAX_ALIGN_HEADS];
    uint32_t head_count;
};

static void open_bench(struct bench *b)
{
    struct transcribe_params params;
    const struct whisper_config *c;
    struct err e;

    transcribe_params_default(&params);
    assert_ok(backend_open_host(0, &b->be, &e), e);
    assert_ok(whisper_load(test_source_path("workers/models/whisper-nano"), b->be, PRECISION_F32,
                           &b->model, &e),
              e);
    c = whisper_config(b->model);
    b->head_count = whisper_heads(nano, c, b->heads, WHISPER_MAX_ALIGN_HEADS);
    assert_int_equal(b->head_count, 2);
    assert_ok(whisper_session_new(b->model,
                                  (struct asr_shape){.slots = 2, .align_heads = b->head_count},
                                  &b->session, &e),
              e);
    assert_ok(token_rules_new(nano, c->vocab_size, &params, &b->rules, &e), e);
    assert_ok(whisper_session_rules(b->session, token_rules_spec(b->rules), &e), e);
}

static void close_bench(struct bench *b)
{
    whisper_session_free(b->session);
    token_rules_free(b->rules);
    whisper_free(b->model);
    backend_close(b->be);
}

static void align_window(struct bench *b, const struct wanted *want, const float *pcm,
                         struct words *ret)
{
    const struct vocabulary_ids *ids = vocabulary_ids(nano);
    struct asr_window window = {.slot = 1, .pcm = pcm, .n = want->samples};
    uint32_t frames = (uint32_t)(want->samples / 320), rows = 4 + want->token_count + 1;
    int32_t tokens[TOKENS_MAX] = {ids->sot, vocabulary_language_id(nano, want->language),
                                  ids->transcribe, ids->no_timestamps};
    uint32_t first_frame[TOKENS_MAX];
    double logprob[TOKENS_MAX];
    const struct asr_alignment a = {1, frames, tokens, rows, 4, NULL, first_frame, logprob};
    struct err e;

    assert_true(rows <= TOKENS_MAX);
    memcpy(tokens + 4, want->tokens, want->token_count * sizeof(*tokens));
    tokens[rows - 1] = ids->eot;
    assert_ok(whisper_encode(b->session, &window, 1, &e), e);
    assert_ok(whisper_align(b->session, &a, 1, b->heads, b->head_count, NULL, &e), e);
    assert_ok(words_align(nano, want->language, want->tokens, want->token_count, first_frame,
                          logprob + 4, 50, ret, &e),
              e);
}

/* Largest differences so far. */
struct worst {
    float time, probability;
    uint32_t words;
};

static void close_to(float have, float want, float bound, float *worst, const char *what)
{
    float d = fabsf(have - want);

    if (!(d <= bound))
        fail_msg("%s: %.4f, not %.4f", what, (double)have, (double)want);
    *worst = fmaxf(*worst, d);
}

static void check_window(const struct wanted *want, struct words *have, struct worst *worst)
{
    /* Times are whole frames; the reference rounds those that come of a median to 10 ms. */
    const float bound = FRAME_SECONDS + 1e-4f;
    double last_speech = 0.0;
    uint32_t at = 0;

    for (uint32_t i = 0; i < want->segment_count; i++) {
        const struct wanted_segment *s = &want->segments[i];
        float start = s->start, end = s->end;
        uint32_t n = 0;

        while (at + n < have->count && have->words[at + n].first < s->first + s->count)
            n++;
        assert_int_equal(n, s->word_count);
        if (!n)
            continue;
        words_fit(have->words + at, n, have->median, last_speech, 0.0, &start, &end);
        close_to(start, s->fitted_start, bound, &worst->time, "a segment's start");
        close_to(end, s->fitted_end, bound, &worst->time, "a segment's end");
        for (uint32_t k = 0; k < n; k++, at++) {
            const struct wanted_word *w = &want->words[s->word + k];

            assert_string_equal(have->words[at].text, w->text);
            close_to(have->words[at].start, w->start, bound, &worst->time, w->text);
            close_to(have->words[at].end, w->end, bound, &worst->time, w->text);
            close_to(have->words[at].probability, w->probability, 1e-3f, &worst->probability,
                     w->text);
        }
        last_speech = (double)end;
        worst->words += n;
    }
    assert_int_equal(at, have->count);
}

static int load_audio(const char *rel, float **pcm, size_t *n)
{
    const char *path = test_source_path(rel);

    return strstr(rel, ".wav") ? fixture_wav(path, pcm, n) : fixture_ffmpeg(path, pcm, n);
}

TEST(times_agree)
{
    static struct wanted want;
    FILE *f = open_fixture("words.txt");
    struct worst worst = {0};
    struct bench b;

    open_bench(&b);
    assert_true(next_line(f));
    while (next_window(f, &want)) {
        struct words have;
        float *pcm;
        size_t n;

        if (load_audio(want.audio, &pcm, &n) != 0) {
            assert_null(strstr(want.audio, ".wav"));
            print_message("  %s SKIPPED: no ffmpeg to decode it\n", want.audio);
            continue;
        }
        assert_true(want.first + want.samples <= n);
        align_window(&b, &want, pcm + want.first, &have);
        check_window(&want, &have, &worst);
        words_free(&have);
        free(pcm);
    }
    fclose(f);
    print_message("  %u words: times within %.4f s, probabilities within %.1e\n", worst.words,
                  (double)worst.time, (double)worst.probability);
    assert_true(worst.words > 50);
    close_bench(&b);
}

TEST_MAIN(nano_open, nano_close)
