/* Diarization and sounds as stages: what is made of what their models say. The models are fakes. */
#include "tests/common/test.h"

#include <math.h>

#include "gpu/backend.h"
#include "tests/common/files.h"
#include "tests/unit/stages/fake_voices.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/yamnet/yamnet.h"
#include "workers/stages/stage.h"

/* A recording whose sample i is (i / unit + 1) / 1000: which window it is can be heard. */
struct shard {
    int64_t start, cut, total, unit;
    bool done;
    struct err err;
    void (*check)(const struct stage_result *r);
};

static int64_t shard_end(void *arg) { return ((const struct shard *)arg)->cut; }

static int64_t shard_read(void *arg, int64_t at, size_t n, float *out)
{
    const struct shard *s = arg;

    if (at + (int64_t)n > s->total)
        n = at < s->total ? (size_t)(s->total - at) : 0;
    for (size_t i = 0; i < n; i++)
        out[i] = (float)((at + (int64_t)i) / s->unit + 1) / 1000;
    return (int64_t)n;
}

static void shard_release(void *arg, int64_t at)
{
    (void)arg;
    (void)at;
}

static int unit_of(float first) { return (int)lrintf(first * 1000) - 1; }

static void on_done(void *arg, const struct stage_result *r, const struct err *err)
{
    struct shard *s = arg;

    s->done = true;
    if (err)
        s->err = *err;
    else
        s->check(r);
}

static void play(const char *name, const char *params, struct shard *s)
{
    const struct stage_setup setup = {.name = name, .dir = "/model", .params = params};
    const struct stage_work work = {
        .start_sample = s->start,
        .end = shard_end,
        .end_arg = s,
        .source = {.read = shard_read, .release = shard_release, .arg = s},
    };
    struct backend *be;
    struct stage *stage;
    struct stage_lane *lane;
    struct err e = {0};
    bool progress = true;

    assert_ok(backend_open_host(1, &be, &e), e);
    assert_ok(stage_open(&setup, be, &stage, &e), e);
    assert_ok(stage_add(stage, &work, on_done, s, &lane, &e), e);
    while (progress)
        assert_ok(stage_step(stage, &progress, &e), e);
    assert_true(s->done);
    assert_int_equal(s->err.code, 0);
    stage_close(stage);
    backend_close(be);
}

/* ---- voices */

static void speak(uint8_t *sets, uint8_t set, int from, int to)
{
    for (int f = from; f < to; f++)
        sets[f] |= set;
}

/* Window 0: two speak, with an overlap. 1: the second one is never long enough alone. 2: nobody.
 * 3: one for a single frame. Others: the third local speaker. */
static void talk(float first, uint8_t *sets)
{
    switch (unit_of(first)) {
    case 0:
        speak(sets, 1, 0, 100);
        speak(sets, 2, 90, 300);
        break;
    case 1:
        speak(sets, 1, 50, 200);
        speak(sets, 2, 193, 250);
        speak(sets, 1, 200, 243); /* 7 frames are left to the second: 243 .. 249 */
        break;
    case 2:
        break;
    case 3:
        speak(sets, 4, 588, 589);
        break;
    default:
        speak(sets, 4, unit_of(first), 580);
    }
}

static void expect_vector(const struct result_voices *v, uint32_t i, uint32_t of, float window,
                          float count, float first, float last)
{
    const float *x = v->vectors + (size_t)i * FAKE_VOICE_SIZE;

    assert_int_equal(v->of[i], of);
    assert_true(fabsf(x[0] - (window + 1) / 1000) < 1e-6f);
    assert_true(x[1] == count && x[2] == first && x[3] == last);
}

static void check_voices(const struct stage_result *r)
{
    const struct result_voices *v = &r->voices;

    assert_int_equal(r->windows, 7); /* 16 s: 0 .. 6, of one tile */
    assert_int_equal(v->first, 0);
    assert_int_equal(v->windows, 7);
    assert_int_equal(v->frames, PYANNET_FRAMES);
    assert_int_equal(v->speakers, 3);
    assert_int_equal(v->size, FAKE_VOICE_SIZE);
    assert_int_equal(v->vector_count, 2 + 2 + 3);
    expect_vector(v, 0, 0, 0, 90, 0, 89);
    expect_vector(v, 1, 1, 0, 200, 100, 299);
    expect_vector(v, 2, 3, 1, 143, 50, 192);
    expect_vector(v, 3, 4, 1, 57, 193, 249); /* too little of it alone: all of it */
    for (uint32_t k = 4; k < 7; k++)
        expect_vector(v, k, 3 * k + 2, (float)k, (float)(580 - k), (float)k, 579);
    assert_int_equal(v->active[95], 3);
    assert_int_equal(v->active[3 * PYANNET_FRAMES + 588], 4); /* heard, though without a vector */
    assert_int_equal(v->active[2 * PYANNET_FRAMES + 100], 0);
}

TEST(voices_are_masked_and_numbered)
{
    struct shard s = {.cut = 256000, .total = 256000, .unit = PYANNET_STEP, .check = check_voices};

    fake_models = (struct fake_models){.sets = talk};
    play("diarize", "{}", &s);
    assert_int_equal(fake_models.largest, 4);
    assert_int_equal(fake_models.largest_voices, 1);
}

/* 60 s: windows 0 .. 50, in four tiles, of which the last has three windows. */
static void check_minute(const struct stage_result *r)
{
    const struct result_voices *v = &r->voices;

    assert_int_equal(r->windows, 51);
    assert_int_equal(v->first, 0);
    assert_int_equal(v->windows, 51);
    assert_int_equal(v->vector_count, 2 + 2 + 47);
    for (uint32_t k = 4; k < 51; k++)
        expect_vector(v, k, 3 * k + 2, (float)k, (float)(580 - k), (float)k, 579);
}

/* Whatever a call takes, the same comes out. */
TEST(voices_do_not_depend_on_batches)
{
    for (uint32_t windows = 1; windows < 80; windows += windows < 16 ? 5 : 16)
        for (uint32_t voices = 1; voices < 4; voices++) {
            struct shard s = {
                .cut = 960000, .total = 960000, .unit = PYANNET_STEP, .check = check_minute};
            uint32_t tiles = (windows + 15) / 16, together = tiles < voices ? tiles : voices;

            fake_models = (struct fake_models){.windows = windows, .voices = voices, .sets = talk};
            play("diarize", "{}", &s);
            assert_int_equal(fake_models.largest_voices, together < 3 ? together : 3);
            fake_models = (struct fake_models){
                .windows = windows, .voices = voices, .sets = talk, .lacks = voices - 1};
            play("diarize", "{}", &s);
        }
}

/* A tile belongs to the shard in which it begins: those of 0 s and 16 s to the first. */
static void check_begin(const struct stage_result *r)
{
    assert_int_equal(r->voices.first, 0);
    assert_int_equal(r->voices.windows, 32);
    expect_vector(&r->voices, 31, 3 * 31 + 2, 31, 580 - 31, 31, 579);
}

static void check_rest(const struct stage_result *r)
{
    assert_int_equal(r->voices.first, 32);
    assert_int_equal(r->voices.windows, 19);
    assert_int_equal(r->voices.vector_count, 19);
    for (uint32_t k = 0; k < 19; k++)
        expect_vector(&r->voices, k, 3 * k + 2, (float)(32 + k), (float)(580 - 32 - k),
                      (float)(32 + k), 579);
}

static void check_none(const struct stage_result *r)
{
    assert_int_equal(r->voices.windows, 0);
    assert_int_equal(r->voices.first, 0);
    assert_int_equal(r->voices.size, 0);
}

TEST(shards_have_their_own_windows)
{
    struct shard begin = {
        .start = 0, .cut = 300000, .total = 960000, .unit = PYANNET_STEP, .check = check_begin};
    struct shard none = {
        .start = 300000, .cut = 500000, .total = 960000, .unit = PYANNET_STEP, .check = check_none};
    struct shard rest = {
        .start = 500000, .cut = 960000, .total = 960000, .unit = PYANNET_STEP, .check = check_rest};

    fake_models = (struct fake_models){.sets = talk};
    play("diarize", "{}", &begin);
    play("diarize", "{}", &none);
    play("diarize", "{}", &rest);
}

/* ---- sounds */

/* Speech in patches 0, 1, 2 and, after a pause of 2 (0.48 s of quiet between them), 5; music in 3
 * alone; applause in every one, too softly. */
static void hear(float first, float *scores)
{
    int p = unit_of(first);

    scores[2] = 0.29f;
    if (p <= 2 || p == 5)
        scores[0] = p == 1 ? 0.9f : 0.5f;
    if (p == 3)
        scores[1] = 0.3f;
}

static void expect_sound(const struct result_sound *s, int64_t start, int64_t end, const char *name,
                         float score)
{
    assert_int_equal(s->start_ms, start);
    assert_int_equal(s->end_ms, end);
    assert_string_equal(s->name, name);
    assert_true(s->score == score);
}

static void check_joined(const struct stage_result *r)
{
    assert_int_equal(r->windows, 7);
    assert_int_equal(r->sound_count, 2);
    expect_sound(&r->sounds[0], 0, 5 * 480 + 960, "Speech", 0.9f);
    expect_sound(&r->sounds[1], 3 * 480, 3 * 480 + 960, "Music", 0.3f);
    assert_int_equal(r->vector_count, 0);
}

static void check_apart(const struct stage_result *r)
{
    assert_int_equal(r->sound_count, 2);
    expect_sound(&r->sounds[0], 0, 2 * 480 + 960, "Speech", 0.9f);
    expect_sound(&r->sounds[1], 5 * 480, 5 * 480 + 960, "Speech", 0.5f);
}

static void check_long(const struct stage_result *r)
{
    assert_int_equal(r->sound_count, 1);
    expect_sound(&r->sounds[0], 0, 5 * 480 + 960, "Speech", 0.9f);
}

static int64_t patches(int n) { return (int64_t)(n - 1) * YAMNET_HOP + YAMNET_PATCH; }

TEST(sounds_are_merged_over_time)
{
    struct shard s = {.cut = patches(7), .total = patches(7), .unit = YAMNET_HOP};

    for (uint32_t windows = 1; windows < 9; windows++) {
        fake_models = (struct fake_models){.windows = windows, .scores = hear};
        s.check = check_joined;
        play("sounds", "{}", &s);
        s.check = check_long; /* the music was too short */
        play("sounds", "{\"min_ms\":961}", &s);
        s.check = check_apart;
        play("sounds", "{\"max_gap_ms\":479,\"threshold\":0.4}", &s);
        s.check = check_long;
        play("sounds", "{\"max_gap_ms\":480,\"threshold\":0.4}", &s);
    }
}

/* The last patch is not whole: what is heard in it ends with the recording. */
static void check_end(const struct stage_result *r)
{
    assert_int_equal(r->windows, 3);
    assert_int_equal(r->sound_count, 1);
    expect_sound(&r->sounds[0], 0, 1460, "Speech", 0.9f);
    assert_int_equal(r->vector_count, 3);
    assert_int_equal(r->vector_size, YAMNET_VECTOR);
    assert_int_equal(r->vectors[2].start_ms, 960);
    assert_int_equal(r->vectors[2].end_ms, 1460);
    for (uint32_t i = 0; i < 3; i++) {
        double x = (double)r->vectors[i].values[0], y = (double)r->vectors[i].values[1];

        assert_true(x > 0 && fabs(x * x + y * y - 1) < 1e-6);
    }
}

TEST(sounds_end_with_the_recording)
{
    struct shard s = {.cut = 23360, .total = 23360, .unit = YAMNET_HOP, .check = check_end};

    fake_models = (struct fake_models){.scores = hear};
    play("sounds", "{\"vectors\":true}", &s);
}

TEST(impossible_parameters_do_not_open)
{
    const char *const names[] = {"diarize", "sounds", "nothing"};
    struct backend *be;
    struct stage *stage;
    struct err e = {0};

    assert_ok(backend_open_host(1, &be, &e), e);
    for (int i = 0; i < 3; i++) {
        const struct stage_setup setup = {.name = names[i], .dir = "/m", .params = "{\"x\":1}"};

        assert_int_equal(stage_open(&setup, be, &stage, &e), ERR_USAGE);
    }
    backend_close(be);
}

static void opens(const char *plda, uint32_t size, int want, const char *says)
{
    const struct stage_setup setup = {.name = "diarize", .dir = "/m", .params = "{}"};
    struct stage *stage = NULL;
    struct backend *be;
    struct err e = {0};

    fake_models = (struct fake_models){.plda = plda, .size = size};
    assert_ok(backend_open_host(1, &be, &e), e);
    assert_int_equal(stage_open(&setup, be, &stage, &e), want);
    assert_says(e.msg, says);
    if (want == 0)
        stage_close(stage);
    backend_close(be);
}

/* Nothing of it is needed before the recording is finalized, which is after the night. */
TEST(a_plda_is_opened_before_the_work)
{
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\nsize 133852\n";

    file_text("pointer.npz", pointer);
    opens(test_source_path("tests/unit/models/plda"), 12, 0, "");
    opens(test_source_path("tests/unit/models/plda"), 16, ERR_MODEL, "12 values");
    opens("pointer.npz", 12, ERR_MODEL, "pointer.npz");
    opens("nowhere", 12, ERR_MODEL, "nowhere");
}

static uint32_t asked(uint32_t windows, bool wide, uint64_t budget)
{
    const struct stage_setup setup = {
        .name = "diarize", .dir = "/m", .params = "{}", .windows = windows};
    struct stage *stage;
    struct backend *be;
    struct err e = {0};

    fake_models = (struct fake_models){0};
    assert_ok(backend_open_host(1, &be, &e), e);
    be->info.wide_batches = wide;
    be->info.deterministic = false;
    be->budget = budget;
    assert_ok(stage_open(&setup, be, &stage, &e), e);
    stage_close(stage);
    backend_close(be);
    return fake_models.asked;
}

/* A window takes 1000 bytes of the fakes, and a tile of 16 of them 100 more. */
TEST(a_small_device_has_fewer_windows_at_once)
{
    assert_int_equal(asked(0, true, UINT64_C(1) << 30), PYANNET_WIDE);
    assert_int_equal(asked(0, true, 128800), PYANNET_WIDE);
    assert_int_equal(asked(0, true, 128799), PYANNET_WIDE / 2);
    assert_int_equal(asked(0, true, 5000), 4);
    assert_int_equal(asked(0, true, 1), 1);
    assert_int_equal(asked(7, true, 1), 7);
    /* It is the networks' choice where there is no bound, and where nothing is done at once. */
    assert_int_equal(asked(0, true, 0), 0);
    assert_int_equal(asked(0, false, 5000), 0);
}

TEST_MAIN(NULL, NULL)
