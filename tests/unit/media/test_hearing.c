/* Which of a file's tracks and channels are decoded, sample for sample as the ffmpeg tool takes
 * them out, and what is said of the others. */
#include <math.h>

#include "tests/unit/media/media_util.h"
#include "workers/audio/babble.h"
#include "workers/media/track/sources.h"

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
    const struct ask ask = {.hearing = {HEARING_MIX, channel, track ? 1u << (track - 1) : 0}};

    return decode_path(path, &ask);
}

static struct outcome apart(const char *path, enum hearing_channels channels, uint32_t tracks)
{
    return decode_path(path, &(struct ask){.hearing = {(uint8_t)channels, 0, tracks}});
}

/* Source k of what came, as if it were all. */
static void assert_source(const struct outcome *o, uint32_t k, const char *input, const char *how)
{
    const uint32_t stride = o->info.source_count + 1;
    struct outcome one = {.samples = o->samples};

    assert_int_equal(o->rc, 0);
    one.pcm = malloc(o->samples * sizeof(*one.pcm) + 1);
    for (size_t i = 0; i < o->samples; i++)
        one.pcm[i] = o->pcm[i * stride + k];
    assert_as_tool(&one, input, how);
    free(one.pcm);
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

static void channels_side_by_side(void **state)
{
    static const int64_t skips[] = {0, 1, 15999, 20001, 31999};
    struct outcome all, o;

    (void)state;
    need_tools("ffmpeg");
    make_channels();
    all = apart("two.flac", HEARING_SPLIT, 0);
    assert_int_equal(all.info.source_count, 2);
    assert_string_equal(all.info.left_out, "");
    assert_string_equal(all.labels[1], "channel 2");
    assert_int_equal(all.end.total_samples, all.samples);
    assert_source(&all, 0, "two.flac", "");
    assert_source(&all, 1, "two.flac", "-af 'pan=mono|c0=c0'");
    assert_source(&all, 2, "two.flac", "-af 'pan=mono|c0=c1'");
    for (size_t i = 0; i < sizeof(skips) / sizeof(skips[0]); i++) {
        o = decode_path("two.flac",
                        &(struct ask){.hearing = {HEARING_SPLIT, 0, 0}, .skip_samples = skips[i]});
        assert_int_equal(o.first_sample, skips[i]);
        assert_int_equal(o.samples + (size_t)skips[i], all.samples);
        assert_memory_equal(o.pcm, all.pcm + 3 * skips[i], o.samples * 6);
        outcome_free(&o);
    }
    outcome_free(&all);
    /* Two tones are no speech, and one channel is no more than one. */
    o = apart("two.flac", HEARING_AUTO, 0);
    assert_int_equal(o.info.source_count, 0);
    assert_as_tool(&o, "two.flac", "");
    outcome_free(&o);
    write_tone("tone.wav", 16000, 1);
    o = apart("tone.wav", HEARING_SPLIT, 0);
    assert_int_equal(o.info.source_count, 0);
    assert_as_tool(&o, "tone.wav", "");
    outcome_free(&o);
}

/* Two that speak in turn and a channel of nobody, in a file that does not name channels. */
static void the_mix_has_what_no_source_has(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i 'aevalsrc=0.3*sin(2*PI*t*300)*lt(mod(t\\,4)\\,1.5)|"
       "0.3*sin(2*PI*t*500)*gt(mod(t\\,4)\\,2)|0.001*sin(2*PI*t*50):s=16000:d=40' nobody.au");
    o = apart("nobody.au", HEARING_AUTO, 0);
    assert_int_equal(o.info.source_count, 2);
    assert_string_equal(o.info.left_out, "channel 3");
    assert_string_equal(o.info.mix_left_out, "");
    outcome_free(&o);
    o = decoded("nobody.au", 2, 0);
    assert_string_equal(o.info.left_out, "channel 1, channel 3");
    assert_string_equal(o.info.mix_left_out, "channel 1, channel 3");
    outcome_free(&o);
}

/* One sound twice, once inverted: mixed there would be nothing. */
static void of_two_that_cancel_out_one_is_heard(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i 'aevalsrc=-0.28*sin(2*PI*t*300)*lt(mod(t\\,4)\\,2)|"
       "0.3*sin(2*PI*t*300)*lt(mod(t\\,4)\\,2):s=16000:d=20:c=stereo' inverted.wav");
    o = apart("inverted.wav", HEARING_AUTO, 0);
    assert_int_equal(o.info.source_count, 0);
    assert_string_equal(o.info.left_out, "");
    assert_as_tool(&o, "inverted.wav", "-af 'pan=mono|c0=c1'");
    outcome_free(&o);
    o = apart("inverted.wav", HEARING_MIX, 0);
    assert_string_equal(o.info.left_out, "");
    assert_as_tool(&o, "inverted.wav", "-af 'pan=mono|c0=c1'");
    outcome_free(&o);
}

/* Of samples from .. to. */
static double power(const struct outcome *o, double from, double to)
{
    double sum = 0;

    for (size_t i = (size_t)(from * 16000); i < (size_t)(to * 16000) && i < o->samples; i++)
        sum += (double)o->pcm[i] * o->pcm[i];
    return sqrt(sum / ((to - from) * 16000)) / 32768;
}

/* Equally loud but for noise: the louder one changes from frame to frame, and the phase must not.
 */
static void two_that_cancel_out_do_not_change_places(void **state)
{
    double sine = 0, cosine = 0;
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i 'aevalsrc=0.3*sin(2*PI*t*300)+0.01*(random(0)-0.5)|"
       "-0.3*sin(2*PI*t*300)+0.01*(random(1)-0.5):s=16000:d=8:c=stereo' inverted.wav");
    o = apart("inverted.wav", HEARING_AUTO, 0);
    assert_int_equal(o.rc, 0);
    for (size_t at = 0; at + 1600 <= o.samples; at += 1600) { /* 30 periods */
        double s = 0, c = 0;

        for (size_t i = at; i < at + 1600; i++) {
            s += o.pcm[i] * sin(2 * M_PI * 300 * (double)i / 16000);
            c += o.pcm[i] * cos(2 * M_PI * 300 * (double)i / 16000);
        }
        sine = at ? sine : s;
        cosine = at ? cosine : c;
        assert_true(s * sine + c * cosine > 0.9 * (sine * sine + cosine * cosine));
    }
    outcome_free(&o);
}

/* Samples of float32 that are not finite say nothing of what two channels do to each other: the
 * tone beside it is heard in the same frame. */
static void damaged_samples_cost_no_others(void **state)
{
    static const char *const damaged[] = {"1/0", "-1/0", "0/0"};

    (void)state;
    need_tools("ffmpeg");
    for (int i = 0; i < 6; i++) {
        char bad[64];
        struct outcome o;

        snprintf(bad, sizeof(bad), "if(between(n\\,8000\\,8002)\\,%s\\,0)", damaged[i / 2]);
        sh("ffmpeg -v error -nostdin -y -f lavfi -i 'aevalsrc=%s|%s:s=16000:d=1:c=stereo' "
           "-c:a pcm_f32le damaged.wav",
           i % 2 ? bad : "0.3*sin(2*PI*t*300)", i % 2 ? "0.3*sin(2*PI*t*300)" : bad);
        o = apart("damaged.wav", HEARING_MIX, 0);
        assert_int_equal(o.rc, 0);
        assert_true(fabs(power(&o, 0.501, 0.511) - 0.15 / sqrt(2)) < 0.01);
        outcome_free(&o);
    }
}

/* A plug that was turned in the middle of a recording. */
static void a_channel_may_be_inverted_for_a_while(void **state)
{
    static const char *const codecs[] = {"pcm_s16le", "pcm_f32le", "flac", "libmp3lame -b:a 256k"};

    (void)state;
    need_tools("ffmpeg");
    for (size_t i = 0; i < 4; i++) {
        struct outcome o;

        sh("ffmpeg -v error -nostdin -y -f lavfi -i "
           "'aevalsrc=0.3*sin(2*PI*t*300)|0.28*sin(2*PI*t*300)*(1-2*gte(t\\,4)*lt(t\\,8)):s=44100:"
           "d=12"
           ":c=stereo' -c:a %s half.mka",
           codecs[i]);
        o = apart("half.mka", HEARING_AUTO, 0);
        assert_int_equal(o.rc, 0);
        assert_true(power(&o, 0.1, 3.9) > 0.19);
        assert_true(power(&o, 4.1, 7.9) > 0.19);
        assert_true(power(&o, 8.1, 11.9) > 0.19);
        outcome_free(&o);
    }
}

/* A tone on one channel of so many, with names or without. */
static void write_place(const char *path, uint32_t channels, uint32_t place, uint32_t names)
{
    const uint32_t n = 32000, bytes = n * channels * 2;
    const uint16_t format[] = {0xfffe,
                               (uint16_t)channels,
                               16000,
                               0,
                               0,
                               0,
                               (uint16_t)(channels * 2),
                               16,
                               22,
                               16,
                               (uint16_t)names,
                               (uint16_t)(names >> 16),
                               1,
                               0,
                               0,
                               0x10,
                               0x80,
                               0xaa00,
                               0x3800,
                               0x719b};
    const uint32_t riff = 60 + bytes, size = 40;
    uint16_t head[20];
    FILE *f = fopen(path, "wb");

    memcpy(head, format, sizeof(head));
    memcpy(&head[4], &(uint32_t){32000 * channels}, 4);
    memcpy(&head[12], "\x01\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71", 16);
    assert_non_null(f);
    fwrite("RIFF", 1, 4, f);
    fwrite(&riff, 4, 1, f);
    fwrite("WAVEfmt ", 1, 8, f);
    fwrite(&size, 4, 1, f);
    fwrite(head, 2, 20, f);
    fwrite("data", 1, 4, f);
    fwrite(&bytes, 4, 1, f);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < channels; c++) {
            int16_t v = c == place ? (int16_t)(8000 * sin(i * 0.1)) : 0;

            fwrite(&v, 2, 1, f);
        }
    assert_int_equal(fclose(f), 0);
}

/* Whoever named the channels may have been wrong, and most recorders name none. */
static void a_voice_is_heard_on_whichever_channel(void **state)
{
    /* Unnamed, and as a speaker layout of so many. */
    static const uint32_t masks[][2] = {{0, 0},    {0, 4},    {0, 3},     {0, 0xb},  {0, 0x107},
                                        {0, 0x37}, {0, 0x3f}, {0, 0x13f}, {0, 0x63f}};

    (void)state;
    for (uint32_t channels = 1; channels <= 8; channels++)
        for (uint32_t place = 0; place < channels; place++)
            for (int named = 0; named < 2; named++) {
                struct outcome o;

                write_place("place.wav", channels, place, masks[channels][named]);
                o = decode_path("place.wav", NULL);
                assert_int_equal(o.rc, 0);
                assert_int_equal(o.info.channels, channels);
                if (power(&o, 0.5, 1.5) < 0.17 / 10)
                    print_error("channel %u of %u%s\n", place + 1, channels,
                                named ? ", named" : "");
                assert_true(power(&o, 0.5, 1.5) >= 0.17 / 10);
                assert_int_equal(o.end.channel_count, channels);
                for (uint32_t c = 0; c < channels; c++)
                    assert_int_equal(sound_of(&o, 1, c + 1, true), c == place ? 2000 : 0);
                outcome_free(&o);
            }
}

/* A voice, and a channel of hum that is louder; the length is no whole number of frames. */
static void write_beside_hum(const char *path, bool hum_first)
{
    enum { SAMPLES = 24 * 16000 + 333 };
    static float voice[SAMPLES];
    FILE *f = fopen("beside.raw", "wb");

    assert_non_null(f);
    babble_fill(voice, SAMPLES);
    for (size_t i = 0; i < SAMPLES; i++) {
        const int16_t said = (int16_t)(voice[i] * 60000), hum = i / 160 % 2 ? 12000 : -12000;
        const int16_t both[2] = {hum_first ? hum : said, hum_first ? said : hum};

        assert_int_equal(fwrite(both, sizeof(both), 1, f), 1);
    }
    assert_int_equal(fclose(f), 0);
    sh("ffmpeg -v error -nostdin -y -f s16le -ar 16000 -ac 2 -i beside.raw '%s'", path);
}

static void noise_beside_a_voice_is_left_out(void **state)
{
    (void)state;
    need_tools("ffmpeg");
    for (int first = 0; first < 2; first++) {
        struct outcome o;

        write_beside_hum("beside.wav", first);
        o = apart("beside.wav", HEARING_AUTO, 0);
        assert_int_equal(o.info.source_count, 0);
        assert_string_equal(o.info.left_out, first ? "channel 1" : "channel 2");
        assert_string_equal(o.info.mix_left_out, o.info.left_out);
        assert_as_tool(&o, "beside.wav", first ? "-af 'pan=mono|c0=c1'" : "-af 'pan=mono|c0=c0'");
        outcome_free(&o);
        o = apart("beside.wav", HEARING_MIX, 0);
        assert_string_equal(o.info.left_out, "");
        assert_as_tool(&o, "beside.wav", "");
        outcome_free(&o);
    }
}

/* Of two tracks, one of which has a noise: they stay beside each other to the end. */
static void a_noise_is_left_out_of_one_track(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    write_beside_hum("beside.wav", true);
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=500:d=20:r=16000 -i beside.wav -map 0 -map 1 "
       "-c:a pcm_s16le beside.mkv");
    o = apart("beside.mkv", HEARING_AUTO, HEARING_ALL);
    assert_int_equal(o.info.source_count, 2);
    assert_string_equal(o.info.left_out, "track 2 channel 1");
    assert_source(&o, 2, "beside.wav", "-af 'pan=mono|c0=c1'");
    outcome_free(&o);
}

static void tracks_side_by_side(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    make_tracks();
    o = apart("tracks.mkv", HEARING_MIX, HEARING_ALL);
    assert_int_equal(o.info.source_count, 3);
    assert_string_equal(o.info.left_out, "");
    assert_string_equal(o.labels[2], "track 3");
    assert_int_equal(o.samples, 48000); /* the longest */
    assert_source(&o, 2, "tracks.mkv", "-map 0:a:1");
    for (size_t i = 32100; i < o.samples; i++) /* of the first, which has 2 s */
        assert_int_equal(o.pcm[4 * i + 1], 0);
    o.samples = 30000;
    assert_source(&o, 1, "tracks.mkv", "-map 0:a:0 -af aresample=16000,atrim=end_sample=30000");
    outcome_free(&o);
    o = apart("tracks.mkv", HEARING_AUTO, 1 | 4 | 32);
    assert_int_equal(o.info.source_count, 2);
    assert_string_equal(o.info.left_out, "track 2 (spa)");
    outcome_free(&o);
}

/* Of each track the channel that is named; which has none is not heard, and that is said. */
static void one_channel_of_all_tracks(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    make_channels();
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=900:d=2 -i two.flac -i two.flac -map 0 -map 1 "
       "-map 2 -metadata:s:a:0 language=eng -c:a flac some.mkv");
    o = decode_path("some.mkv", &(struct ask){.hearing = {HEARING_MIX, 2, HEARING_ALL}});
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.info.source_count, 2);
    assert_string_equal(o.labels[0], "track 2");
    assert_string_equal(o.info.left_out,
                        "track 1 (eng, no channel 2), track 2 channel 1, track 3 channel 1");
    assert_string_equal(o.info.mix_left_out, o.info.left_out);
    assert_source(&o, 1, "two.flac", "-af 'pan=mono|c0=c1'");
    outcome_free(&o);
    o = decode_path("some.mkv", &(struct ask){.hearing = {HEARING_MIX, 3, HEARING_ALL}});
    assert_sentence(&o, ERR_INPUT, "channel 3 was requested, but no requested track has it");
    outcome_free(&o);
}

/* One that begins 700 ms later. */
static void a_later_track_is_where_it_belongs(void **state)
{
    struct outcome o;
    size_t first = 0;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i anullsrc=r=16000:cl=mono -itsoffset 0.7 -f lavfi "
       "-i "
       "sine=500:d=1:r=16000 -map 0 -map 1 -t 3 -c:a pcm_s16le late.mkv");
    o = apart("late.mkv", HEARING_MIX, HEARING_ALL);
    assert_int_equal(o.rc, 0);
    while (first < o.samples && o.pcm[first * 3 + 2] == 0)
        first++;
    assert_in_range(first, 11184, 11264);
    outcome_free(&o);
}

/* And where it is the others that begin later. */
static void an_earlier_track_is_heard_from_its_begin(void **state)
{
    struct outcome o;
    size_t first = 0;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -itsoffset 0.7 -f lavfi -i sine=500:d=1:r=16000 -f lavfi -i "
       "sine=300:d=3:r=16000 -map 0 -map 1 -c:a pcm_s16le early.mkv");
    o = apart("early.mkv", HEARING_MIX, HEARING_ALL);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.samples, 48000);
    while (first < o.samples && o.pcm[first * 3 + 1] == 0)
        first++;
    assert_in_range(first, 11184, 11264);
    assert_int_not_equal(o.pcm[100 * 3 + 2], 0);
    outcome_free(&o);
}

/* Nobody waited for it. */
static void a_track_that_begins_very_late_is_where_it_belongs(void **state)
{
    static const uint8_t how[] = {HEARING_MIX, HEARING_SPLIT, HEARING_AUTO};

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i anullsrc=r=16000:cl=mono:d=100 -itsoffset 90 -f "
       "lavfi -i sine=500:d=5:r=16000 -map 0 -map 1 -c:a pcm_s16le very-late.mkv");
    for (size_t i = 0; i < sizeof(how); i++) {
        struct outcome o = apart("very-late.mkv", how[i], HEARING_ALL);
        size_t first = 0;

        assert_int_equal(o.rc, 0);
        assert_int_equal(o.samples, 1600000);
        while (first < o.samples && o.pcm[first * 3 + 2] == 0)
            first++;
        assert_in_range(first, 1440000 - 64, 1440000 + 64);
        outcome_free(&o);
    }
}

static int count_given(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    (void)pcm;
    (void)err;
    *(size_t *)arg += n;
    return 0;
}

/* One track of which no more comes does not have the others kept to the end of the file. */
static void a_track_that_ends_is_not_waited_for(void **state)
{
    static int16_t second[2 * 16000];
    struct sources *s = NULL;
    struct err err = {0};
    size_t given = 0;

    (void)state;
    assert_int_equal(sources_new(2, HEARING_AUTO, count_given, &given, &s, &err), 0);
    assert_int_equal(sources_begin(s, 0, 2, false, &err), 0);
    assert_int_equal(sources_begin(s, 1, 0, false, &err), 0);
    assert_int_equal(sources_channels(s, 0, second, 16000, &err), 0);
    assert_int_equal(sources_mix(s, 0, second, 16000, &err), 0);
    for (int i = 0; i < 800; i++)
        assert_int_equal(sources_mix(s, 1, second, 16000, &err), 0);
    assert_in_range(given, 730 * 16000, 745 * 16000);
    assert_int_equal(sources_end(s, &err), 0);
    assert_int_equal(given, 800 * 16000);
    sources_free(s);
}

/* Somebody speaks on one of several tracks, and the container prefers another one. */
static void a_track_with_nothing_to_hear_is_not_chosen(void **state)
{
    static const char *const first[] = {"anullsrc=r=48000:cl=mono,atrim=end=12",
                                        "sine=1000:d=12:r=48000", "anoisesrc=d=12:r=48000:a=0.1"};
    char speech[4096];
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    snprintf(speech, sizeof(speech), "%s", test_shared_path("samples/01_en_short.wav"));
    if (!have_file(speech)) {
        print_message("skipped: no %s\n", speech);
        skip();
    }
    for (size_t i = 0; i < 3; i++)
        for (int place = 1; place < 4; place++) {
            sh("ffmpeg -v error -nostdin -y -f lavfi -i '%s' -i '%s' -map 0 -map %d -map %d -map "
               "%d -c:a "
               "pcm_s16le choice.mov",
               first[i], speech, place == 1, place == 2, place == 3);
            o = decode_path("choice.mov", NULL);
            assert_int_equal(o.rc, 0);
            assert_int_equal(o.info.tracks, 4);
            sh("ffmpeg -v error -nostdin -y -i choice.mov -map 0:a:%d -ac 1 -ar 16000 -f s16le "
               "ref.raw",
               place);
            {
                size_t len;
                uint8_t *want = slurp("ref.raw", &len);

                assert_int_equal(o.samples, len / 2);
                assert_memory_equal(o.pcm, want, len);
                free(want);
            }
            assert_non_null(strstr(o.info.left_out, "track 1, "));
            for (int track = 1; track <= 4; track++)
                assert_int_equal(
                    sound_of(&o, (uint32_t)track, track == place + 1, track == place + 1) < 0,
                    track != place + 1);
            outcome_free(&o);
        }
    /* Where somebody speaks on the first, it is heard. */
    sh("ffmpeg -v error -nostdin -y -i '%s' -i '%s' -map 0 -map 1 -c:a pcm_s16le choice.mov",
       speech, speech);
    o = decode_path("choice.mov", NULL);
    assert_string_equal(o.info.left_out, "track 2");
    outcome_free(&o);
}

/* How long, of a length that is no whole number of blocks, with pauses, at rates and in formats of
 * all kinds; and a track that is not decoded is as long as its container says. */
static void sound_is_measured(void **state)
{
    static const struct {
        const char *codec, *file;
        int rate;
    } kinds[] = {{"pcm_s16le", "measured.wav", 16000},  {"pcm_u8", "measured.wav", 8000},
                 {"pcm_s24le", "measured.wav", 48000},  {"pcm_f32le", "measured.wav", 44100},
                 {"pcm_f64le", "measured.wav", 11025},  {"flac", "measured.flac", 96000},
                 {"libmp3lame", "measured.mp3", 44100}, {"aac", "measured.mp4", 48000},
                 {"libopus", "measured.ogg", 48000}};

    (void)state;
    need_tools("ffmpeg");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        struct outcome o, skipped;

        /* Left: 3 s of 9.33; right: all of it, at -62 dB, but for 1 s. */
        sh("ffmpeg -v error -nostdin -y -f lavfi -i "
           "'aevalsrc=0.1*sin(2*PI*t*300)*gt(t\\,2)*lt(t\\,5)"
           "|0.0011*sin(2*PI*t*440)+0.1*sin(2*PI*t*440)*gt(t\\,7)*lt(t\\,8):s=%d:d=9.33:c=stereo' "
           "-c:a %s %s",
           kinds[i].rate, kinds[i].codec, kinds[i].file);
        o = decode_path(kinds[i].file, NULL);
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.end.channel_count, 2);
        assert_in_range(sound_of(&o, 1, 1, true), 2900, 3150);
        assert_in_range(sound_of(&o, 1, 2, true), 900, 1150);
        assert_in_range(o.channels[0].length_ms, 9320, 9400);
        /* Who skips has heard it all the same. */
        skipped = decode_path(kinds[i].file, &(struct ask){.skip_samples = 8 * 16000});
        assert_int_equal(skipped.end.channel_count, 2);
        assert_int_equal(sound_of(&skipped, 1, 1, true), sound_of(&o, 1, 1, true));
        assert_int_equal(sound_of(&skipped, 1, 2, true), sound_of(&o, 1, 2, true));
        outcome_free(&skipped);
        outcome_free(&o);
    }
    make_tracks();
    {
        struct outcome o = decoded("tracks.mkv", 0, 2);

        assert_int_equal(o.end.channel_count, 3);
        assert_int_equal(sound_of(&o, 1, 0, false), -1);
        assert_true(sound_of(&o, 2, 1, true) > 0);
        assert_int_equal(sound_of(&o, 3, 0, false), -1);
        outcome_free(&o);
    }
}

/* A broadcast's sound goes on with another PID, before the other stream, behind it, or both. */
static void a_track_goes_on_as_another_stream(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    for (int length = 1; length <= 9; length += 4) {
        sh("for i in 1 2 3; do ffmpeg -v error -nostdin -y -f lavfi -i "
           "sine=$((300*i)):d=%d:r=48000 -c:a "
           "mp2 -streamid 0:$((256+i)) -output_ts_offset $((i*%d)) piece$i.ts; done; cat piece1.ts "
           "piece2.ts piece3.ts >pids.ts",
           length, length);
        o = decode_path("pids.ts", NULL);
        assert_int_equal(o.rc, 0);
        assert_in_range(o.samples, 3 * length * 16000 - 3000, 3 * length * 16000 + 3000);
        assert_string_equal(o.damage, "");
        for (int i = 0; i < 3; i++)
            assert_true(power(&o, i * length + 0.1, (i + 1) * length - 0.1) > 0.05);
        /* FFmpeg sees them all at the beginning where the pieces are short. */
        assert_string_equal(o.info.left_out, "");
        assert_int_equal(o.end.channel_count, 1);
        assert_in_range(sound_of(&o, 1, 1, true), 3 * length * 1000 - 150, 3 * length * 1000 + 150);
        outcome_free(&o);
    }
    /* Two at once are two tracks. */
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=300:d=8:r=48000 -f lavfi -i "
       "sine=500:d=10:r=48000 "
       "-map 0 -map 1 -c:a mp2 pids.ts");
    o = decode_path("pids.ts", NULL);
    assert_string_equal(o.info.left_out, "track 2");
    assert_in_range(o.samples, 8 * 16000 - 3000, 10 * 16000 + 3000);
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
    assert_sentence(&o, ERR_INPUT, "channel 3 was requested, but it has 2");
    outcome_free(&o);
    o = decoded("tracks.mkv", 0, 4);
    assert_sentence(&o, ERR_INPUT, "it has 3 audio tracks, and none of the requested");
    outcome_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(one_channel_is_heard),
    cmocka_unit_test(one_track_is_heard),
    cmocka_unit_test(channels_side_by_side),
    cmocka_unit_test(the_mix_has_what_no_source_has),
    cmocka_unit_test(two_that_cancel_out_do_not_change_places),
    cmocka_unit_test(a_channel_may_be_inverted_for_a_while),
    cmocka_unit_test(damaged_samples_cost_no_others),
    cmocka_unit_test(a_voice_is_heard_on_whichever_channel),
    cmocka_unit_test(of_two_that_cancel_out_one_is_heard),
    cmocka_unit_test(noise_beside_a_voice_is_left_out),
    cmocka_unit_test(a_noise_is_left_out_of_one_track),
    cmocka_unit_test(tracks_side_by_side),
    cmocka_unit_test(one_channel_of_all_tracks),
    cmocka_unit_test(a_later_track_is_where_it_belongs),
    cmocka_unit_test(an_earlier_track_is_heard_from_its_begin),
    cmocka_unit_test(a_track_that_begins_very_late_is_where_it_belongs),
    cmocka_unit_test(a_track_that_ends_is_not_waited_for),
    cmocka_unit_test(a_track_with_nothing_to_hear_is_not_chosen),
    cmocka_unit_test(sound_is_measured),
    cmocka_unit_test(a_track_goes_on_as_another_stream),
    cmocka_unit_test(what_is_not_there_is_no_recording),
};

MEDIA_TEST_MAIN(tests)
