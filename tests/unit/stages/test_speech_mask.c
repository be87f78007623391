/* Where nobody is heard nobody speaks: which frames of a window are emptied. The ear is a fake,
 * that hears a voice wherever a sample is not zero. */
#include "tests/common/test.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/stages/fake_silero.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/stages/speech_mask.h"

#define WINDOWS 5
#define FIRST 495 /* the centre of the first frame, */
#define STEP 270  /*   and from one to the next */
#define STEP_OF_EAR 512
#define PAD 6400 /* 400 ms */

static float *windows; /* [WINDOWS][PYANNET_SAMPLES] */
static uint8_t sets[WINDOWS][PYANNET_FRAMES];

static void speak(uint32_t window, int from, int to)
{
    for (int i = from; i < to; i++)
        windows[(size_t)window * PYANNET_SAMPLES + (size_t)i] = 0.1f;
}

/* Silence, a word within, two with a pause between them, everything, and a word at the end. */
static int set_up(void **state)
{
    (void)state;
    windows = calloc((size_t)WINDOWS * PYANNET_SAMPLES, sizeof(*windows));
    assert_non_null(windows);
    speak(1, 32000, 64000);
    speak(2, 16000, 24000);
    speak(2, 96000, 112000);
    speak(3, 0, PYANNET_SAMPLES);
    speak(4, 150000, PYANNET_SAMPLES);
    fake_ear = (struct fake_ear){.fails_at = -1};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(windows);
    return 0;
}

/* Tiles of one window each. */
static int run(uint32_t blocks, struct err *err)
{
    struct speech_tile tiles[WINDOWS];
    struct speech_mask *m = NULL;
    int rc;

    for (size_t i = 0; i < WINDOWS; i++)
        tiles[i] = (struct speech_tile){windows + i * PYANNET_SAMPLES, 1, sets[i]};
    memset(sets, 5, sizeof(sets));
    fake_ear.blocks = blocks;
    assert_ok(speech_mask_new("silero", NULL, &m, err), *err);
    rc = speech_mask_run(m, tiles, WINDOWS, err);
    speech_mask_free(m);
    return rc;
}

/* Speech is known in steps of the ear, and padded; a frame counts by its centre. */
static bool within(int64_t centre, int64_t from, int64_t to)
{
    const int64_t begin = from / STEP_OF_EAR * STEP_OF_EAR - PAD;
    const int64_t end = (to + STEP_OF_EAR - 1) / STEP_OF_EAR * STEP_OF_EAR + PAD;

    return centre >= begin && centre < end;
}

static void expect(void)
{
    for (uint32_t f = 0; f < PYANNET_FRAMES; f++) {
        const int64_t at = FIRST + (int64_t)f * STEP;

        assert_int_equal(sets[0][f], 0);
        assert_int_equal(sets[1][f], within(at, 32000, 64000) ? 5 : 0);
        assert_int_equal(sets[2][f], within(at, 16000, 24000) || within(at, 96000, 112000) ? 5 : 0);
        assert_int_equal(sets[3][f], 5);
        assert_int_equal(sets[4][f], within(at, 150000, PYANNET_SAMPLES) ? 5 : 0);
    }
}

TEST_BOTH(nobody_speaks_where_nobody_is_heard, set_up, tear_down)
{
    struct err e = {0};

    assert_ok(run(1, &e), e);
    expect();
    assert_int_equal(fake_ear.largest, 1);
    assert_int_equal(fake_ear.steps, WINDOWS * 313);
}

/* Windows share calls where the device takes several: what is found is the same. */
TEST_BOTH(windows_heard_together_are_heard_as_alone, set_up, tear_down)
{
    struct err e = {0};

    assert_ok(run(2, &e), e);
    expect();
    assert_int_equal(fake_ear.largest, 2);
    assert_ok(run(32, &e), e);
    expect();
    assert_int_equal(fake_ear.largest, WINDOWS);
}

/* The windows of a tile hear its sound once, and each has the speech at its own place; so has a
 * shorter tile beside it. */
TEST_BOTH(windows_of_a_tile_share_what_is_heard, set_up, tear_down)
{
    static uint8_t many[SPEECH_MASK_WINDOWS][PYANNET_FRAMES], few[3][PYANNET_FRAMES];
    const struct speech_tile tiles[] = {{windows, SPEECH_MASK_WINDOWS, many[0]},
                                        {windows + (size_t)2 * PYANNET_SAMPLES, 3, few[0]}};
    struct speech_mask *m = NULL;
    struct err e = {0};

    memset(many, 5, sizeof(many));
    memset(few, 5, sizeof(few));
    fake_ear.blocks = 2;
    assert_ok(speech_mask_new("silero", NULL, &m, &e), e);
    assert_ok(speech_mask_run(m, tiles, 2, &e), e);
    speech_mask_free(m);
    assert_int_equal(fake_ear.steps, 782 + 375);
    for (uint32_t w = 0; w < SPEECH_MASK_WINDOWS; w++)
        for (uint32_t f = 0; f < PYANNET_FRAMES; f++) {
            const int64_t at = (int64_t)w * PYANNET_STEP + FIRST + (int64_t)f * STEP;
            const int64_t second = PYANNET_SAMPLES, third = 2 * PYANNET_SAMPLES;

            assert_int_equal(many[w][f], within(at, second + 32000, second + 64000) ||
                                                 within(at, third + 16000, third + 24000)
                                             ? 5
                                             : 0);
            if (w < 3)
                assert_int_equal(few[w][f], within(at, 16000, 24000) || within(at, 96000, 112000) ||
                                                    within(at, PYANNET_SAMPLES, third)
                                                ? 5
                                                : 0);
        }
}

TEST_BOTH(an_error_of_the_device_is_told, set_up, tear_down)
{
    struct err e = {0};

    fake_ear.lacks = 1;
    assert_int_equal(run(2, &e), ERR_VRAM);
    fake_ear.fails_at = 4;
    e = (struct err){0};
    assert_int_equal(run(2, &e), ERR_DEVICE);
}

TEST_MAIN(NULL, NULL)
