/* Does a result depend on its neighbours? With `deterministic` it must not, bit for bit, however
 * windows and rows are grouped; without it, the same groups must at least repeat.
 *
 * Seven windows decoded one by one, then all in one session: encoded in twos and threes, rows in an
 * order that turns, windows starting at different steps. */
#include "tests/common/test.h"

#include "tests/gpu/device.h"

#define SLOTS 7
#define STEPS 6

struct rig {
    struct backend *be;
    struct asr_model *w;
    size_t vocab;
    float *alone; /* [SLOTS][STEPS][vocab] */
};

static int32_t token_of(const struct rig *r, uint32_t window, uint32_t pos)
{
    return (int32_t)((window * 733 + pos * 97) % r->vocab);
}

static void decode_alone(struct rig *r)
{
    struct asr_session *s;
    struct err e;

    assert_ok(whisper_session_new(r->w, (struct asr_shape){.slots = 1, .windows = 1}, &s, &e), e);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct asr_window window = gpu_window(i, 0);

        assert_ok(whisper_encode(s, &window, 1, &e), e);
        for (uint32_t pos = 0; pos < STEPS; pos++) {
            struct asr_row row = {0, 0, pos, token_of(r, i, pos)};

            assert_ok(whisper_step(s, &row, 1, r->alone + (i * STEPS + pos) * r->vocab, &e), e);
        }
    }
    whisper_session_free(s);
}

/* turn: the order of the rows. Window i is in slot i and starts at step i / 2. */
static void decode_together(struct rig *r, uint32_t turn, float *ret)
{
    float *logits = malloc(sizeof(float) * SLOTS * r->vocab);
    struct asr_window windows[SLOTS];
    struct asr_session *s;
    struct err e;

    assert_non_null(logits);
    assert_ok(whisper_session_new(r->w, (struct asr_shape){.slots = SLOTS}, &s, &e), e);
    for (uint32_t at = 0, n; at < SLOTS; at += n) {
        n = at + 2 + at % 2 <= SLOTS ? 2 + at % 2 : SLOTS - at;
        for (uint32_t i = 0; i < n; i++)
            windows[i] = gpu_window(at + i, at + i);
        assert_ok(whisper_encode(s, windows, n, &e), e);
    }
    for (uint32_t step = 0; step < STEPS + SLOTS / 2; step++) {
        struct asr_row rows[SLOTS];
        uint32_t n = 0;

        for (uint32_t k = 0; k < SLOTS; k++) {
            uint32_t i = (k + turn * step) % SLOTS, pos = step - i / 2;

            if (step >= i / 2 && pos < STEPS)
                rows[n++] = (struct asr_row){i, 0, pos, token_of(r, i, pos)};
        }
        assert_ok(whisper_step(s, rows, n, logits, &e), e);
        for (uint32_t k = 0; k < n; k++)
            memcpy(ret + (rows[k].slot * STEPS + rows[k].pos) * r->vocab, logits + k * r->vocab,
                   sizeof(float) * r->vocab);
    }
    whisper_session_free(s);
    free(logits);
}

static void one(const char *model, enum precision p, bool deterministic)
{
    struct cuda_options options = {.deterministic = deterministic};
    struct rig r = {.be = gpu_open(&options)};
    size_t n;
    float *together, *again;
    struct err e;

    if (!(r.be->info.have & 1u << p)) {
        backend_close(r.be);
        return;
    }
    assert_int_equal(r.be->info.deterministic, deterministic);
    assert_ok(gpu_load(model, r.be, p, &r.w, &e), e);
    r.vocab = whisper_config(r.w)->vocab_size;
    n = SLOTS * STEPS * r.vocab;
    r.alone = calloc(n, sizeof(float));
    together = calloc(n, sizeof(float));
    again = calloc(n, sizeof(float));
    assert_true(r.alone && together && again);
    decode_alone(&r);
    decode_together(&r, 1, together);
    decode_together(&r, deterministic ? 3 : 1, again);
    printf("  %s, %s, %s: together differs from alone by %.1e, again by %.1e\n", model,
           precision_name(p), deterministic ? "deterministic" : "free",
           gpu_worst(together, r.alone, n), gpu_worst(again, together, n));
    fflush(stdout);
    assert_memory_equal(again, together, n * sizeof(float));
    if (deterministic)
        assert_memory_equal(together, r.alone, n * sizeof(float));
    free(again);
    free(together);
    free(r.alone);
    whisper_free(r.w);
    backend_close(r.be);
}

/* $NIGHTSHIFT_GPU_PRECISION: that one alone, where time matters. */
static void one_model(const char *model)
{
    const char *only = getenv("NIGHTSHIFT_GPU_PRECISION");

    for (int p = PRECISION_F32; p < PRECISION_COUNT; p++) {
        if (only && strcmp(only, precision_name((enum precision)p)) != 0)
            continue;
        one(model, (enum precision)p, true);
        one(model, (enum precision)p, false);
    }
}

TEST(grouping) { gpu_each_model("nano,base", one_model); }

int main(void)
{
    gpu_device();
    return suite_run(NULL, NULL);
}
