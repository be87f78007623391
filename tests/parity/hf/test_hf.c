/* The engine against Hugging Face transformers: tiny models with the real Whisper vocabularies.
 * make_fixtures.py says what the files hold and with what they were made. */
#include "tests/common/test.h"

#include <math.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/files.h"
#include "tests/parity/hf/random_weights.h"
#include "workers/models/whisper/whisper.h"

#define PROMPT_LEN 4
#define GREEDY 24
#define MEL_STEP 50
#define ENCODER_STEP 25
#define LOGIT_STEP 61

static const int32_t prompt[PROMPT_LEN] = {50257, 50258, 50358, 50362};

struct fixture {
    const char *name;
    uint32_t vocab, mel_bins;
};

static void read_tokens(const char *name, int32_t *tokens)
{
    char rel[256];
    FILE *f;

    snprintf(rel, sizeof(rel), "tests/parity/hf/%s.tokens.txt", name);
    f = fopen(test_source_path(rel), "r");
    assert_non_null(f);
    for (int i = 0; i < GREEDY; i++)
        assert_int_equal(fscanf(f, "%d", &tokens[i]), 1);
    fclose(f);
}

/* The 16 kHz mono 16-bit file whose header is the plain 44 bytes. */
static float *read_wav(size_t *n)
{
    FILE *f = fopen(test_source_path("tests/samples/01_en_short.wav"), "rb");
    static int16_t raw[WHISPER_WINDOW_SAMPLES];
    uint8_t head[4096];
    size_t at = 12;
    float *pcm;

    assert_non_null(f);
    assert_int_equal(fread(head, 1, sizeof(head), f), sizeof(head));
    while (memcmp(head + at, "data", 4) != 0) {
        at += 8 + (size_t)head[at + 4] + ((size_t)head[at + 5] << 8);
        assert_true(at < 2048);
    }
    assert_int_equal(fseek(f, (long)at + 8, SEEK_SET), 0);
    *n = fread(raw, 2, WHISPER_WINDOW_SAMPLES, f);
    fclose(f);
    assert_true(*n > 16000);
    pcm = malloc(*n * sizeof(*pcm));
    for (size_t i = 0; i < *n; i++)
        pcm[i] = (float)raw[i] / 32768.0f;
    return pcm;
}

/* Largest difference of got[map(i)] from want[i], in units of want's root mean square. */
struct worst {
    double diff, square;
    size_t n;
};

static void compare(struct worst *w, float got, float want)
{
    double d = fabs((double)got - want);

    assert_true(isfinite(got));
    if (d > w->diff)
        w->diff = d;
    w->square += (double)want * want;
    w->n++;
}

static double relative(const struct worst *w) { return w->diff / sqrt(w->square / (double)w->n); }

static void check_mel(struct asr_session *s, const struct fixture *fx)
{
    size_t cols = WHISPER_FRAMES / MEL_STEP;
    float *want = file_floats(fx->mel_bins * cols, "tests/parity/hf/%s.mel.f32", fx->name);
    float *got = malloc((size_t)fx->mel_bins * WHISPER_FRAMES * sizeof(*got));
    struct worst w = {0};
    struct err e = {0};

    assert_ok(whisper_peek_mel(s, 0, got, &e), e);
    for (size_t b = 0; b < fx->mel_bins; b++)
        for (size_t c = 0; c < cols; c++)
            compare(&w, got[b * WHISPER_FRAMES + c * MEL_STEP], want[b * cols + c]);
    print_message("%s: log-mel differs by %.2g at most\n", fx->name, w.diff);
    /* Their features are computed in float32 with an FFT; ours too: 1e-4 absolute is asked for. */
    assert_true(w.diff < 1e-4);
    free(want);
    free(got);
}

static void check_encoder(struct asr_session *s, const struct fixture *fx)
{
    size_t rows = WHISPER_POSITIONS / ENCODER_STEP;
    float *want = file_floats(rows * RANDOM_D_MODEL, "tests/parity/hf/%s.encoder.f32", fx->name);
    float *got = malloc((size_t)WHISPER_POSITIONS * RANDOM_D_MODEL * sizeof(*got));
    struct worst w = {0};
    struct err e = {0};

    assert_ok(whisper_peek_encoder(s, 0, got, &e), e);
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < RANDOM_D_MODEL; c++)
            compare(&w, got[r * ENCODER_STEP * RANDOM_D_MODEL + c], want[r * RANDOM_D_MODEL + c]);
    print_message("%s: encoder differs by %.2g of its root mean square\n", fx->name, relative(&w));
    assert_true(relative(&w) < 1e-3);
    free(want);
    free(got);
}

static int32_t argmax(const float *v, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (v[i] > v[best])
            best = i;
    return (int32_t)best;
}

static void check_decoder(struct asr_session *s, const struct fixture *fx)
{
    size_t cols = (fx->vocab + LOGIT_STEP - 1) / LOGIT_STEP;
    float *want = file_floats(2 * cols, "tests/parity/hf/%s.logits.f32", fx->name);
    float *logits = malloc(fx->vocab * sizeof(*logits));
    struct asr_row row = {0};
    int32_t tokens[GREEDY];
    struct worst w = {0};
    struct err e = {0};

    read_tokens(fx->name, tokens);
    for (uint32_t pos = 0; pos < PROMPT_LEN + GREEDY - 1; pos++) {
        row.pos = pos;
        row.token = pos < PROMPT_LEN ? prompt[pos] : tokens[pos - PROMPT_LEN];
        assert_ok(whisper_step(s, &row, 1, logits, &e), e);
        if (pos == 0 || pos == PROMPT_LEN - 1)
            for (size_t c = 0; c < cols; c++)
                compare(&w, logits[c * LOGIT_STEP], want[(pos ? cols : 0) + c]);
        if (pos >= PROMPT_LEN - 1)
            assert_int_equal(argmax(logits, fx->vocab), tokens[pos - PROMPT_LEN + 1]);
    }
    print_message("%s: logits differ by %.2g of their root mean square\n", fx->name, relative(&w));
    assert_true(relative(&w) < 1e-3);
    free(want);
    free(logits);
}

static void parity(void **state)
{
    const struct fixture *fx = *state;
    char dir[] = "/tmp/nightshift-hf-XXXXXX", path[64];
    struct asr_session *s = NULL;
    struct asr_window win = {0};
    struct backend *be = NULL;
    struct asr_model *w = NULL;
    struct err e = {0};
    float *pcm;

    assert_non_null(mkdtemp(dir));
    assert_int_equal(random_weights_write(dir, fx->name, fx->vocab, fx->mel_bins), 0);
    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(whisper_load(dir, be, PRECISION_F32, &w, &e), e);
    assert_int_equal(whisper_config(w)->vocab_size, fx->vocab);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 2}, &s, &e), e);
    pcm = read_wav(&win.n);
    win.pcm = pcm;
    assert_ok(whisper_encode(s, &win, 1, &e), e);
    check_mel(s, fx);
    check_encoder(s, fx);
    check_decoder(s, fx);
    whisper_session_free(s);
    whisper_free(w);
    backend_close(be);
    free(pcm);
    snprintf(path, sizeof(path), "%s/config.json", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/model.safetensors", dir);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    static struct fixture fixtures[] = {
        {"en", 51864, 80}, {"multilingual", 51865, 80}, {"v3", 51866, 128}};
    const struct CMUnitTest tests[] = {
        {"english_only", parity, NULL, NULL, &fixtures[0]},
        {"multilingual", parity, NULL, NULL, &fixtures[1]},
        {"v3", parity, NULL, NULL, &fixtures[2]},
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
