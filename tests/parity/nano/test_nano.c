/* The nano model against results of the numpy reference: spectrogram, encoder, logits, tokens.
 *
 * References of samples 01, 04 and 10 lie beside this file, thinned (thin.py). Sample 06 is used
 * from ../shared only, whole, and decoded by ffmpeg: where either is absent it is reported as
 * skipped. */
#include "tests/common/test.h"

#include <math.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/parity/nano/fixture.h"
#include "workers/models/whisper/whisper.h"

#define EOT 640
#define NO_TIMESTAMPS 649
#define MAX_TOKENS 224

struct sample {
    const char *name, *audio; /* audio: below the source tree, NULL: from ../shared */
};

static const struct sample samples[] = {
    {"01_en_short", "tests/samples/01_en_short.wav"},
    {"04_es_clean", "tests/parity/nano/04_es_clean/audio.wav"},
    {"10_noise_only", "tests/samples/10_noise_only.wav"},
    {"06_digits_real_8k", NULL},
};

struct bench {
    struct backend *be;
    struct asr_model *w;
    struct asr_session *s;
};

/* Path of a reference, in a static buffer. */
static const char *reference(const struct sample *sample, const char *file)
{
    char rel[256];

    snprintf(rel, sizeof(rel), "%s/%s/%s",
             sample->audio ? "tests/parity/nano" : "golden/whisper-nano", sample->name, file);
    return sample->audio ? test_source_path(rel) : test_shared_path(rel);
}

static int load_audio(const struct sample *sample, float **pcm, size_t *n)
{
    return sample->audio
               ? fixture_wav(test_source_path(sample->audio), pcm, n)
               : fixture_ffmpeg(test_shared_path("samples/06_digits_real_8k.wav"), pcm, n);
}

static void open_bench(struct bench *b, enum precision precision, enum cache_precision cache)
{
    struct err e;

    assert_ok(backend_open_host(0, &b->be, &e), e);
    assert_ok(
        whisper_load(test_source_path("workers/models/whisper-nano"), b->be, precision, &b->w, &e),
        e);
    whisper_keep(b->w, cache);
    assert_int_equal(b->w->cache, cache);
    assert_ok(whisper_session_new(b->w, (struct asr_shape){.slots = 2}, &b->s, &e), e);
}

static void close_bench(struct bench *b)
{
    whisper_session_free(b->s);
    whisper_free(b->w);
    backend_close(b->be);
}

/* Largest |have - want|; have is walked with steps so that thinned references fit. */
static double worst(const float *have, size_t row_step, size_t row, size_t col_step,
                    const struct array *want)
{
    double high = 0.0;

    for (size_t r = 0; r < want->rows; r++) {
        for (size_t c = 0; c < want->cols; c++) {
            double d = fabs((double)have[r * row_step * row + c * col_step] -
                            (double)want->data[r * want->cols + c]);

            if (!(d <= high))
                high = d;
        }
    }
    return high;
}

static double highest(const struct array *a)
{
    double high = 0.0;

    for (size_t i = 0; i < a->rows * a->cols; i++)
        high = fmax(high, fabs((double)a->data[i]));
    return high;
}

static void check_mel(struct bench *b, const struct sample *sample)
{
    float *mel = malloc(80 * WHISPER_FRAMES * sizeof(float));
    struct array want;
    struct err e;
    double d;

    assert_non_null(mel);
    assert_int_equal(fixture_npy(reference(sample, "mel.npy"), &want), 0);
    assert_ok(whisper_peek_mel(b->s, 1, mel, &e), e);
    d = worst(mel, 1, WHISPER_FRAMES, want.cols == WHISPER_FRAMES ? 1 : 7, &want);
    print_message("  %-18s log-mel: %.1e\n", sample->name, d);
    assert_true(d <= 1e-4);
    free(want.data);
    free(mel);
}

static void check_encoder(struct bench *b, const struct sample *sample, double bound)
{
    size_t d = whisper_config(b->w)->d_model;
    float *out = malloc(WHISPER_POSITIONS * d * sizeof(float));
    struct array want;
    struct err e;
    double diff;

    assert_non_null(out);
    assert_int_equal(fixture_npy(reference(sample, "encoder.npy"), &want), 0);
    assert_ok(whisper_peek_encoder(b->s, 1, out, &e), e);
    diff = worst(out, want.rows == WHISPER_POSITIONS ? 1 : 7, d, 1, &want) / highest(&want);
    print_message("  %-18s encoder: %.1e of the largest value\n", sample->name, diff);
    assert_true(diff <= bound);
    free(want.data);
    free(out);
}

static void check_logits(const float *logits, const struct sample *sample, const char *file,
                         double bound)
{
    struct array want;
    double d;

    assert_int_equal(fixture_npy(reference(sample, file), &want), 0);
    d = worst(logits, 1, want.cols, 1, &want) / highest(&want);
    print_message("  %-18s %s: %.1e of the largest value\n", sample->name, file, d);
    assert_true(d <= bound);
    free(want.data);
}

/* The reference's greedy choice without timestamps. */
static int32_t choose(const float *logits, size_t n, bool first)
{
    int32_t best = -1;

    for (int32_t i = 0; i < (int32_t)n && i < NO_TIMESTAMPS; i++) {
        if (i > EOT || (first && (i == 220 || i == EOT)))
            continue;
        if (best < 0 || logits[i] > logits[best])
            best = i;
    }
    return best;
}

/* Tokens are chosen behind those of the reference. others: that many may be others. */
static void check_tokens(struct bench *b, const struct sample *sample, double bound, int others)
{
    size_t vocab = whisper_config(b->w)->vocab_size;
    float *logits = malloc(vocab * sizeof(float));
    int32_t prompt[8], want[MAX_TOKENS];
    int prompt_n =
        fixture_ints(reference(sample, "tokens.json"), "prompt_no_timestamps", prompt, 8);
    int n =
        fixture_ints(reference(sample, "tokens.json"), "tokens_no_timestamps", want, MAX_TOKENS);
    struct asr_row row = {.slot = 1};
    int differ = 0;
    struct err e;

    assert_non_null(logits);
    assert_int_equal(prompt_n, 4);
    assert_true(n > 0);
    for (int i = 0; i < 4; i++, row.pos++) {
        row.token = prompt[i];
        assert_ok(whisper_step(b->s, &row, 1, logits, &e), e);
        if (i == 0)
            check_logits(logits, sample, "logits_sot.npy", bound);
    }
    check_logits(logits, sample, "logits_first.npy", bound);
    for (int i = 0; i <= n; i++, row.pos++) {
        row.token = i < n ? want[i] : EOT;
        differ += choose(logits, vocab, i == 0) != row.token;
        if (i < n)
            assert_ok(whisper_step(b->s, &row, 1, logits, &e), e);
    }
    print_message("  %-18s %d of %d greedy tokens agree\n", sample->name, n + 1 - differ, n + 1);
    assert_true(differ <= others);
    free(logits);
}

/* bound: of the encoder's output; wide: of logits; others: of a sample's tokens. */
static void check_all(enum precision precision, enum cache_precision cache, double bound,
                      double wide, int others)
{
    struct bench b;
    struct err e;

    open_bench(&b, precision, cache);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        const struct sample *sample = &samples[i];
        struct asr_window window = {.slot = 1};
        float *pcm;

        if (!sample->audio && access(reference(sample, "tokens.json"), R_OK) != 0) {
            print_message("  %-18s SKIPPED: ../shared is not there\n", sample->name);
            continue;
        }
        if (load_audio(sample, &pcm, &window.n) != 0) {
            assert_null(sample->audio);
            print_message("  %-18s SKIPPED: no ffmpeg to decode it\n", sample->name);
            continue;
        }
        window.pcm = pcm;
        assert_ok(whisper_encode(b.s, &window, 1, &e), e);
        check_mel(&b, sample);
        check_encoder(&b, sample, bound);
        check_tokens(&b, sample, wide, others);
        free(pcm);
    }
    close_bench(&b);
}

TEST(float32_agrees) { check_all(PRECISION_F32, CACHE_16, 1e-3, 1e-3, 0); }

/* Windows' keys and values in 8 bits: the tokens are the very same, and logits within some
 * multiples of what bf16 costs. */
TEST(eight_bits_agree) { check_all(PRECISION_F32, CACHE_8, 1e-3, 3e-2, 0); }

/* How far logits of random weights are from those of float32 caches, of the largest value: eight
 * tokens after noise. */
static void random_weights(const char *model, double bound)
{
    enum { ROWS = 8, SAMPLES = 480000 };
    float *pcm = malloc(SAMPLES * sizeof(*pcm)), *logits[2];
    struct asr_row rows[ROWS];
    struct whisper_config config;
    double high = 0.0, off = 0.0;
    struct bench b = {0};
    uint32_t seed = 1;
    size_t n;
    struct err e;

    assert_non_null(pcm);
    for (size_t i = 0; i < SAMPLES; i++) {
        seed = seed * 1664525u + 1013904223u;
        pcm[i] = ((float)(seed >> 8) / 8388608.0f - 1.0f) * 0.3f;
    }
    for (uint32_t i = 0; i < ROWS; i++)
        rows[i] = (struct asr_row){.pos = i, .token = (int32_t)(17 * i + 1)};
    assert_ok(whisper_preset(model, &config, &e), e);
    assert_ok(backend_open_host(0, &b.be, &e), e);
    assert_ok(whisper_random(&config, 3, b.be, PRECISION_F32, &b.w, &e), e);
    n = ROWS * (size_t)config.vocab_size;
    for (int i = 0; i < 2; i++) {
        const struct asr_window window = {.pcm = pcm, .n = SAMPLES};

        whisper_keep(b.w, i ? CACHE_8 : CACHE_16);
        assert_ok(whisper_session_new(b.w, (struct asr_shape){.slots = 1}, &b.s, &e), e);
        assert_ok(whisper_encode(b.s, &window, 1, &e), e);
        logits[i] = malloc(n * sizeof(float));
        assert_non_null(logits[i]);
        assert_ok(whisper_step(b.s, rows, ROWS, logits[i], &e), e);
        whisper_session_free(b.s);
    }
    for (size_t i = 0; i < n; i++) {
        high = fmax(high, fabs((double)logits[0][i]));
        off = fmax(off, fabs((double)logits[1][i] - (double)logits[0][i]));
    }
    print_message("  %-18s logits: %.1e of the largest value\n", model, off / high);
    assert_true(off > 0.0 && off <= bound * high);
    free(logits[0]);
    free(logits[1]);
    free(pcm);
    whisper_free(b.w);
    backend_close(b.be);
}

TEST(random_weights_agree)
{
    random_weights("tiny", 1e-2);
    random_weights("base", 1e-2);
}

/* bf16 rounds at 2^-9; the sums of a few layers stay within some multiples of it. That the tokens
 * are the very same is what lets AUTO choose it. */
TEST(bf16_agrees)
{
    struct backend_info info;

    backend_host_info(&info);
    if (!(info.have & 1u << PRECISION_BF16)) {
        print_message("SKIPPED: this processor has no bf16\n");
        skip();
    }
    check_all(PRECISION_BF16, CACHE_16, 3e-2, 3e-2, 0);
    check_all(PRECISION_BF16, CACHE_8, 3e-2, 3e-2, 0);
}

/* Real voices, which nano has hardly heard, may be other words: why AUTO does not choose it. */
TEST(int8_agrees)
{
    struct backend_info info;

    backend_host_info(&info);
    if (!(info.have & 1u << precision_resolve(PRECISION_INT8, info.have))) {
        print_message("SKIPPED: this processor has no VNNI\n");
        skip();
    }
    check_all(PRECISION_INT8, CACHE_16, 1e-1, 3e-2, 1);
    check_all(PRECISION_INT8, CACHE_8, 1e-1, 3e-2, 1); /* what AUTO is beside it */
}

TEST_MAIN(NULL, NULL)
