/* Whisper on the GPU against the host backend: in float32 the encoder to 1e-3 and the same greedy
 * tokens; in every other precision how far it is from float32, printed as rows of a table and held
 * against bounds.
 *
 * Bounds of the relative L2 error of the encoder's output, against the host in float32. Every
 * product's inputs are rounded to 2^-11 (tf32, fp16), 2^-8 (bf16), 1/254 of the largest (int8) or
 * 2^-4 (fp8), at random; layers add up as square roots. The nano model gives 3e-4 (tf32, fp16),
 * 3e-3 (bf16) and 1e-2 (int8) in the emulator; the bounds leave some eight times that to deeper
 * models. */
#include "tests/common/test.h"

#include "tests/gpu/device.h"

#define WINDOWS 2
#define MOST_TOKENS 48

struct outcome {
    float *encoder; /* of the last window */
    float *logits;  /* [WINDOWS][steps][vocab], of forced or of own tokens */
    int32_t tokens[WINDOWS][MOST_TOKENS];
    size_t encoder_n, vocab;
    uint32_t steps;
};

static void outcome_free(struct outcome *o)
{
    free(o->encoder);
    free(o->logits);
}

/* Decodes every window greedily; with `forced`, what it fed, so that one slip does not make all
 * that follows incomparable. */
static void decode(struct asr_model *w, struct asr_session *s, const struct outcome *forced,
                   struct outcome *o)
{
    struct err e;

    for (uint32_t pos = 0; pos + 1 < GPU_PROMPT + o->steps; pos++) {
        struct asr_row rows[WINDOWS];
        float *logits = malloc(sizeof(float) * WINDOWS * o->vocab);
        uint32_t step = pos + 1 - GPU_PROMPT;

        assert_non_null(logits);
        for (uint32_t i = 0; i < WINDOWS; i++) {
            const struct outcome *from = forced ? forced : o;

            rows[i] = (struct asr_row){i, 0, pos,
                                       pos < GPU_PROMPT ? gpu_prompt(w, pos)
                                                        : from->tokens[i][pos - GPU_PROMPT]};
        }
        assert_ok(whisper_step(s, rows, WINDOWS, logits, &e), e);
        for (uint32_t i = 0; pos + 1 >= GPU_PROMPT && i < WINDOWS; i++) {
            memcpy(o->logits + (i * o->steps + step) * o->vocab, logits + i * o->vocab,
                   sizeof(float) * o->vocab);
            o->tokens[i][step] = gpu_likeliest(logits + i * o->vocab, (uint32_t)o->vocab);
        }
        free(logits);
    }
}

static void run(const char *model, struct backend *be, enum precision precision, uint32_t steps,
                const struct outcome *forced, struct outcome *o)
{
    struct asr_window windows[WINDOWS];
    struct asr_session *s;
    struct asr_model *w;
    struct err e;

    assert_ok(gpu_load(model, be, precision, &w, &e), e);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = WINDOWS}, &s, &e), e);
    *o = (struct outcome){.vocab = whisper_config(w)->vocab_size, .steps = steps};
    o->encoder_n = (size_t)WHISPER_POSITIONS * whisper_config(w)->d_model;
    o->encoder = malloc(sizeof(float) * o->encoder_n);
    o->logits = calloc(WINDOWS * steps * o->vocab, sizeof(float));
    assert_non_null(o->encoder);
    assert_non_null(o->logits);
    for (uint32_t i = 0; i < WINDOWS; i++)
        windows[i] = gpu_window(i, i);
    assert_ok(whisper_encode(s, windows, WINDOWS, &e), e);
    assert_ok(whisper_peek_encoder(s, WINDOWS - 1, o->encoder, &e), e);
    decode(w, s, forced, o);
    whisper_session_free(s);
    whisper_free(w);
}

/* Large models take seconds a window on the processor. $NIGHTSHIFT_GPU_TOKENS: at most so many. */
static uint32_t steps_of(const char *model)
{
    const char *most = getenv("NIGHTSHIFT_GPU_TOKENS");

    if (most && strtoul(most, NULL, 10) >= 1 && strtoul(most, NULL, 10) <= 8)
        return (uint32_t)strtoul(most, NULL, 10);
    return strncmp(model, "large", 5) == 0 ? 8 : strcmp(model, "nano") == 0 ? MOST_TOKENS : 32;
}

static uint32_t alike(const struct outcome *a, const struct outcome *b)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < WINDOWS; i++)
        for (uint32_t k = 0; k < a->steps; k++)
            n += a->tokens[i][k] == b->tokens[i][k];
    return n;
}

static double bound(enum precision p)
{
    switch (p) {
    case PRECISION_TF32:
    case PRECISION_F16:
        return 3e-3;
    case PRECISION_BF16:
        return 3e-2;
    case PRECISION_INT8:
        return 8e-2;
    default:
        return 2e-1;
    }
}

static void one_precision(const char *model, struct backend *be, enum precision p,
                          const struct outcome *want)
{
    size_t logits = WINDOWS * want->steps * want->vocab;
    struct outcome got;
    double encoder;

    run(model, be, p, want->steps, want, &got);
    encoder = gpu_l2(got.encoder, want->encoder, want->encoder_n);
    printf("| %s | %s | %.1e | %.1e | %.1e | %u of %u |\n", model, precision_name(p), encoder,
           gpu_worst(got.encoder, want->encoder, want->encoder_n),
           gpu_l2(got.logits, want->logits, logits), alike(&got, want), WINDOWS * want->steps);
    fflush(stdout);
    assert_true(encoder <= bound(p));
    outcome_free(&got);
}

static void one_model(const char *model)
{
    struct backend *host = gpu_open_host(), *be = gpu_open(NULL);
    struct outcome want, got;
    double encoder;

    run(model, host, PRECISION_F32, steps_of(model), NULL, &want);
    run(model, be, PRECISION_F32, steps_of(model), NULL, &got);
    encoder = gpu_worst(got.encoder, want.encoder, want.encoder_n);
    printf("| %s | fp32 | %.1e | %.1e | %.1e | %u of %u |\n", model,
           gpu_l2(got.encoder, want.encoder, want.encoder_n), encoder,
           gpu_l2(got.logits, want.logits, WINDOWS * want.steps * want.vocab), alike(&got, &want),
           WINDOWS * want.steps);
    fflush(stdout);
    assert_true(encoder <= 1e-3);
    assert_memory_equal(got.tokens, want.tokens, sizeof(got.tokens));
    outcome_free(&got);
    for (int p = PRECISION_TF32; p < PRECISION_COUNT; p++)
        if (gpu_wants(be, (enum precision)p))
            one_precision(model, be, (enum precision)p, &want);
    outcome_free(&want);
    backend_close(be);
    backend_close(host);
}

TEST(parity)
{
    printf("| model | precision | encoder, L2 | encoder, worst | logits, L2 | same token |\n"
           "| --- | --- | --- | --- | --- | --- |\n");
    gpu_each_model("nano,tiny,base,large-v3-turbo", one_model);
}

int main(void)
{
    gpu_device();
    return suite_run(NULL, NULL);
}
