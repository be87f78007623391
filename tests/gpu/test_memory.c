/* Too little device memory is an ordinary error: it says so, takes nothing, and what was there
 * before goes on working; and everything that was taken is given back. */
#include "tests/common/test.h"

#include "tests/gpu/device.h"

#define MIB (1ull << 20)

/* The first logits of window 1, decoded alone. */
static void first_logits(struct asr_model *w, struct asr_session *s, float *ret)
{
    struct asr_window window = gpu_window(1, 0);
    struct asr_row row = {0, 0, 0, gpu_prompt(w, 0)};
    struct err e;

    assert_ok(whisper_encode(s, &window, 1, &e), e);
    assert_ok(whisper_step(s, &row, 1, ret, &e), e);
}

TEST(too_small_for_the_weights)
{
    struct cuda_options options = {.cap = 200 * MIB}; /* half of it is the module's own */
    struct backend *be = gpu_open(&options);
    struct asr_model *w = NULL;
    struct err e = {0};
    uint64_t before;

    /* small: 1 GB in float32. The first time also makes what the backend keeps. */
    assert_int_equal(gpu_load("small", be, PRECISION_F32, &w, &e), ERR_VRAM);
    before = be->allocated;
    for (int again = 0; again < 2; again++) {
        assert_int_equal(gpu_load("small", be, PRECISION_F32, &w, &e), ERR_VRAM);
        assert_true(strlen(e.msg) > 10);
        assert_int_equal(be->allocated, before);
    }
    printf("  %s\n", e.msg);
    assert_ok(gpu_load("nano", be, PRECISION_F32, &w, &e), e);
    whisper_free(w);
    backend_close(be);
}

TEST(too_many_slots)
{
    struct backend *roomy = gpu_open(NULL), *tight;
    struct cuda_options options = {0};
    struct asr_session *s = NULL, *more = NULL;
    struct asr_model *w;
    float *want, *got;
    uint64_t loaded;
    struct err e = {0};
    size_t bytes;

    assert_ok(gpu_load("nano", roomy, PRECISION_F32, &w, &e), e);
    bytes = sizeof(float) * whisper_config(w)->vocab_size;
    want = malloc(bytes);
    got = malloc(bytes);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 2, .windows = 1}, &s, &e), e);
    first_logits(w, s, got);
    options.cap = roomy->peak + 32 * MIB; /* room for this, and not for 512 slots */
    whisper_session_free(s);
    whisper_free(w);
    backend_close(roomy);

    tight = gpu_open(&options);
    assert_ok(gpu_load("nano", tight, PRECISION_F32, &w, &e), e);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 2, .windows = 1}, &s, &e), e);
    first_logits(w, s, want); /* by this device's own choice of algorithms */
    loaded = tight->allocated;
    for (int again = 0; again < 3; again++) {
        assert_int_equal(
            whisper_session_new(w, (struct asr_shape){.slots = 512, .windows = 1}, &more, &e),
            ERR_VRAM);
        assert_int_equal(tight->allocated, loaded);
    }
    printf("  %s\n", e.msg);
    first_logits(w, s, got); /* the session that was there */
    assert_memory_equal(got, want, bytes);
    assert_true(tight->peak <= options.cap);
    whisper_session_free(s);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 1, .windows = 1}, &s, &e),
              e); /* half the slots, and on */
    first_logits(w, s, got);
    assert_memory_equal(got, want, bytes);
    whisper_session_free(s);
    whisper_free(w);
    backend_close(tight);
    free(want);
    free(got);
}

/* What the model says that it will take is what it takes. */
TEST(told_and_taken)
{
    struct backend *be = gpu_open(NULL);
    uint64_t empty, loaded, told, taken, kept;
    struct asr_session *s;
    struct asr_model *w;
    struct err e;

    /* What is made at first use, and kept; but for the scratch memory of the encoder, which goes
     * with the model: so each session here makes its own of two windows. */
    assert_ok(gpu_load("nano", be, PRECISION_F16, &w, &e), e);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 6, .windows = 2}, &s, &e), e);
    whisper_session_free(s);
    whisper_free(w);
    empty = be->allocated;
    assert_ok(gpu_load("nano", be, PRECISION_F16, &w, &e), e);
    loaded = be->allocated;
    told = whisper_session_bytes(w, (struct asr_shape){.slots = 6, .windows = 2});
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 6, .windows = 2}, &s, &e), e);
    printf("  weights %.1f MiB, session %.1f MiB, told %.1f MiB\n", (double)(loaded - empty) / MIB,
           (double)(be->allocated - loaded) / MIB, (double)told / MIB);
    assert_true(be->allocated - loaded <= told);
    assert_true(told <= be->allocated - loaded + told / 20 + MIB);
    taken = be->allocated - loaded;
    whisper_session_free(s);
    kept = be->allocated - loaded;
    assert_true(kept < taken / 10); /* scratch memory, which serves the next one */
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 6, .windows = 2}, &s, &e), e);
    assert_int_equal(be->allocated - loaded, taken);
    whisper_session_free(s);
    assert_int_equal(be->allocated - loaded, kept);
    assert_int_equal(whisper_session_bytes(w, (struct asr_shape){.slots = 6, .windows = 2}), told);
    whisper_free(w);
    assert_int_equal(be->allocated, empty);
    backend_close(be);
}

/* Every allocation that a full device refuses, with a session at work between them. */
TEST(full_device)
{
    struct cuda_options options = {.cap = 256 * MIB};
    struct backend *be = gpu_open(&options);
    struct asr_session *s;
    void *blocks[64];
    struct asr_model *w;
    float *want, *got;
    size_t n = 0;
    struct err e;

    assert_ok(gpu_load("nano", be, PRECISION_F32, &w, &e), e);
    assert_ok(whisper_session_new(w, (struct asr_shape){.slots = 1, .windows = 1}, &s, &e), e);
    want = malloc(sizeof(float) * whisper_config(w)->vocab_size);
    got = malloc(sizeof(float) * whisper_config(w)->vocab_size);
    first_logits(w, s, want);
    while (n < 64 && be->ops->alloc(be, 8 * MIB, &blocks[n], &e) == 0)
        n++;
    assert_true(n < 64);
    assert_int_equal(e.code, ERR_VRAM);
    first_logits(w, s, got); /* in steady state nothing more is needed */
    assert_memory_equal(got, want, sizeof(float) * whisper_config(w)->vocab_size);
    while (n > 0)
        be->ops->release(be, blocks[--n]);
    assert_ok(be->ops->alloc(be, 8 * MIB, &blocks[0], &e), e);
    be->ops->release(be, blocks[0]);
    whisper_session_free(s);
    whisper_free(w);
    backend_close(be);
    free(want);
    free(got);
}

int main(void)
{
    gpu_device();
    return suite_run(NULL, NULL);
}
