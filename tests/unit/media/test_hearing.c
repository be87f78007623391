/* Which of a file's tracks and channels are decoded, sample for sample as the ffmpeg tool takes
 * them out, and what is said of the others. */
#include "tests/unit/media/media_util.h"

static void assert_as_tool(const struct outcome *o, const char *input, const char *how)
{
    size_t len, apart = 0;
    int16_t *want;

    sh("ffmpeg -v error -nostdin -y -i '%s' %s -ac 1 -ar 16000 -f s16le ref.raw", input, how);
    want = (int16_t *)(void *)slurp("ref.raw", &len);
    if (o->rc != 0)
        print_error("%s: %s\n", input, o->err.msg);
    assert_int_equal(o->rc, 0);
    assert_int_equal(o->samples, len / 2);
    for (size_t i = 0; i < o->samples; i++)
        apart += o->pcm[i] != want[i];
    assert_int_equal(apart, 0);
    free(want);
}

/* Each of its channels has a tone of its own. */
static void make_channels(void)
{
    sh("ffmpeg -v error -nostdin -y -f lavfi -i "
       "'aevalsrc=0.3*sin(2*PI*t*300)|0.2*sin(2*PI*t*500)|0.1*sin(2*PI*t*700):s=48000:d=2:c=3.0' "
       "-c:a pcm_s16le three.wav");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i "
       "'aevalsrc=0.3*sin(2*PI*t*300)|0.2*sin(2*PI*t*500):s=48000:d=2:c=stereo' two.flac");
}

static void make_tracks(void)
{
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=300:d=2 -f lavfi -i sine=500:d=3 -f lavfi -i "
       "sine=700:d=1 -map 0 -map 1 -map 2 -metadata:s:a:0 language=eng -metadata:s:a:1 "
       "language=spa -c:a flac tracks.mkv");
}

static struct outcome decoded(const char *path, uint32_t channel, uint32_t track)
{
    const struct ask ask = {.hearing = {channel, track}};

    return decode_path(path, &ask);
}

static void one_channel_is_heard(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    make_channels();
    for (uint32_t c = 1; c <= 2; c++) {
        char how[64];

        snprintf(how, sizeof(how), "-af 'pan=mono|c0=c%u'", c - 1);
        o = decoded("two.flac", c, 0);
        assert_as_tool(&o, "two.flac", how);
        assert_string_equal(o.info.left_out, c == 1 ? "channel 2" : "channel 1");
        assert_int_equal(o.info.channels, 2);
        outcome_free(&o);
    }
    o = decoded("three.wav", 2, 0);
    assert_as_tool(&o, "three.wav", "-af 'pan=mono|c0=c1'");
    assert_string_equal(o.info.left_out, "channel 1, channel 3");
    outcome_free(&o);
    o = decoded("two.flac", 0, 0);
    assert_as_tool(&o, "two.flac", "");
    assert_string_equal(o.info.left_out, "");
    outcome_free(&o);
}

static void one_track_is_heard(void **state)
{
    static const char *const others[] = {"track 1 (eng), track 3", "track 2 (spa), track 3",
                                         "track 1 (eng), track 3", "track 1 (eng), track 2 (spa)"};
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    make_tracks();
    for (uint32_t t = 1; t <= 3; t++) {
        char how[32];

        snprintf(how, sizeof(how), "-map 0:a:%u", t - 1);
        o = decoded("tracks.mkv", 0, t);
        assert_as_tool(&o, "tracks.mkv", how);
        assert_string_equal(o.info.left_out, others[t]);
        assert_int_equal(o.info.tracks, 3);
        outcome_free(&o);
    }
    o = decoded("tracks.mkv", 0, 0);
    assert_int_equal(o.rc, 0);
    assert_non_null(strstr(o.info.left_out, "track 3"));
    outcome_free(&o);
}

static void what_is_not_there_is_no_recording(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    make_channels();
    make_tracks();
    o = decoded("two.flac", 3, 0);
    assert_sentence(&o, ERR_INPUT, "channel 3 is to be heard, and it has 2");
    outcome_free(&o);
    o = decoded("tracks.mkv", 0, 4);
    assert_sentence(&o, ERR_INPUT, "audio track 4 is to be heard, and it has 3");
    outcome_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_channel_is_heard),
    cmocka_unit_test(one_track_is_heard),
    cmocka_unit_test(what_is_not_there_is_no_recording),
};

MEDIA_TEST_MAIN(tests)
