#include "tests/unit/models/nano_answer.h"

#include "gpu/backend.h"
#include "tests/common/test.h"

static int32_t best_of(const float *v, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (v[i] > v[best])
            best = i;
    return (int32_t)best;
}

/* The samples of a short recording of speech: 16 kHz, mono, 16 bits. */
static float *read_speech(size_t *n)
{
    static uint8_t bytes[2 * WHISPER_WINDOW_SAMPLES];
    FILE *f = fopen(test_source_path("tests/samples/01_en_short.wav"), "rb");
    const uint8_t *data;
    int16_t sample;
    size_t len;
    float *pcm;

    assert_non_null(f);
    len = fread(bytes, 1, sizeof(bytes), f);
    fclose(f);
    data = memmem(bytes, len, "data", 4);
    assert_non_null(data);
    data += 8;
    *n = (len - (size_t)(data - bytes)) / 2;
    pcm = malloc(*n * sizeof(*pcm));
    assert_non_null(pcm);
    for (size_t i = 0; i < *n; i++) {
        memcpy(&sample, data + 2 * i, 2);
        pcm[i] = (float)sample / 32768.0f;
    }
    return pcm;
}

void nano_answer(const char *dir, struct backend *be, struct answer *ret)
{
    static const int32_t prompt[] = {641, 642, 645, 649};
    struct asr_session *s = NULL;
    struct asr_window window = {0};
    struct asr_model *w = NULL;
    struct err e = {0};
    float *pcm = read_speech(&window.n);

    window.pcm = pcm;
    assert_ok(whisper_load(dir, be, PRECISION_F32, &w, &e), e);
    ret->config = *whisper_config(w);
    assert_true(ret->config.vocab_size <= 4096);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 1, .windows = 1}, &s, &e), e);
    assert_ok(whisper_encode(s, &window, 1, &e), e);
    for (uint32_t i = 0; i < 3 + STEPS; i++) {
        struct asr_row row = {0, 0, i, i < 4 ? prompt[i] : ret->tokens[i - 4]};

        assert_ok(whisper_step(s, &row, 1, ret->logits, &e), e);
        if (i >= 3)
            ret->tokens[i - 3] = best_of(ret->logits, ret->config.vocab_size);
    }
    whisper_session_free(s);
    whisper_free(w);
    free(pcm);
}
