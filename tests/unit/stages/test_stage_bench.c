/* What is measured of a stage: as much sound as is said, each window once. The models beside
 * Whisper's are fakes, so that their times are of nothing, but the counts are a real stage's. */
#include "tests/common/test.h"

#include <math.h>

#include "gpu/backend.h"
#include "tests/unit/stages/fake_voices.h"
#include "workers/audio/babble.h"
#include "workers/stages/stage_bench.h"

static int bench(const char *name, uint32_t rounds, struct stage_bench_result *ret, struct err *err)
{
    const struct stage_bench_params params = {
        .setup = {.name = name, .dir = "/model", .params = "{}"}, .rounds = rounds};
    struct backend *be = NULL;
    struct err e = {0};
    int rc;

    assert_ok(backend_open_host(1, &be, &e), e);
    rc = stage_bench_run(be, &params, ret, err);
    backend_close(be);
    return rc;
}

/* Somebody in each window. */
static void one_speaks(float first, uint8_t *sets)
{
    (void)first;
    memset(sets, 1, 589);
}

/* A window a second, and a voice in each. */
TEST(test_voices)
{
    struct stage_bench_result r = {0};
    struct err e = {0};

    fake_models = (struct fake_models){.sets = one_speaks};
    assert_ok(bench("diarize", 2, &r, &e), e);
    assert_int_equal(r.rounds, 2);
    assert_int_equal(r.at_once, 16);
    assert_true(r.seconds >= 32 && fmod(r.seconds, 32) < 1e-9);
    assert_true(r.times_real_time > 0 && r.times_real_time_cpu > 0);
    assert_true(fabs(r.items_per_second / r.times_real_time - 1) < 1e-9);
    assert_true(fabs(r.vectors_per_item - 1) < 1e-9);
}

/* A window each 0.48 s: as many as begin within the shards. */
TEST(test_sounds)
{
    struct stage_bench_result r = {0};
    struct err e = {0};

    fake_models = (struct fake_models){0};
    assert_ok(bench("sounds", 1, &r, &e), e);
    assert_true(fabs(r.items_per_second / r.times_real_time * 0.48 - 1) < 0.01);
    assert_true(r.vectors_per_item < 1e-9);
}

/* What a lane ends with is what the measurement ends with. */
TEST(test_errors)
{
    struct stage_bench_result r = {.rounds = 77};
    struct err e = {0};

    fake_models = (struct fake_models){.fails_after = 3, .fails_with = ERR_INPUT};
    assert_int_equal(bench("sounds", 1, &r, &e), ERR_INPUT);
    assert_int_equal(bench("transcribe", 1, &r, &e), ERR_MODEL);
    assert_int_equal(bench("dance", 1, &r, &e), ERR_USAGE);
    assert_int_equal(bench("sounds", 1001, &r, &e), ERR_USAGE);
    assert_int_equal(r.rounds, 77);
    fake_models = (struct fake_models){0};
}

/* Whisper's own networks: every figure is there, and they agree with each other. */
TEST(test_networks)
{
    static const uint32_t ladder[] = {1, 2};
    struct stage_bench_params params = {
        .setup = {.name = "transcribe", .dir = "nano", .slots = 2}, .tokens = 3, .rounds = 1};
    struct stage_bench_result r = {0};
    const struct stage_bench_networks *n = &r.networks;
    struct backend *be = NULL;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(stage_bench_run(be, &params, &r, &e), e);
    assert_true(n->mel_ms > 0 && n->encoder_ms > 0 && n->cross_ms > 0 && n->step_ms > 0);
    assert_true(n->align_ms > 0);
    assert_true(n->peak_gflops_s > 0 && n->encoder_share > 0 && r.items_per_second > 0);
    assert_int_equal(r.slots, 2);
    assert_int_equal(n->tokens, 3);
    assert_true(r.seconds == 60);
    assert_true(fabs(r.times_real_time / r.items_per_second - 30) < 1e-6);
    assert_true(fabs(1 / n->encoder_windows_s + 1 / n->decoder_windows_s - 1 / r.items_per_second) <
                1e-9);
    assert_true(n->mel_ms + n->encoder_ms + n->cross_ms <= 1e3 / n->encoder_windows_s);
    params.setup.slots = 0;
    params.ladder = ladder;
    params.ladder_count = 2;
    assert_ok(stage_bench_run(be, &params, &r, &e), e);
    assert_true(r.slots == 1 || r.slots == 2);
    params.setup.dir = "huge";
    assert_int_equal(stage_bench_run(be, &params, &r, &e), ERR_USAGE);
    params.setup.dir = "nano";
    params.tokens = 445;
    assert_int_equal(stage_bench_run(be, &params, &r, &e), ERR_USAGE);
    backend_close(be);
}

/* Within its bounds, loud where somebody talks and nearly silent between turns, the same ever. */
TEST(test_babble)
{
    static float a[6 * 16000], b[6 * 16000];
    double speech = 0, pause = 0;

    babble_fill(a, sizeof(a) / sizeof(a[0]));
    babble_fill(b, sizeof(b) / sizeof(b[0]));
    assert_memory_equal(a, b, sizeof(a));
    for (size_t i = 0; i < sizeof(a) / sizeof(a[0]); i++)
        assert_true(fabsf(a[i]) <= 1.0f);
    for (size_t i = 0; i < 16000 / 5; i++) {
        speech += (double)a[16000 + i] * (double)a[16000 + i];
        pause += (double)a[39000 + i] * (double)a[39000 + i]; /* 2.44 to 2.64 s of 2.7 */
    }
    assert_true(sqrt(speech / 3200) > 0.02 && sqrt(speech / 3200) < 0.3);
    assert_true(sqrt(pause / 3200) < 0.001);
}

TEST_MAIN(NULL, NULL)
