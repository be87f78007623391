/* Inputs that are no good: each ends in one clear sentence, quickly, and nothing is made up. */
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/media/media_util.h"

static void truncate_copy(const char *from, const char *to, size_t keep)
{
    size_t len;
    uint8_t *data = slurp(from, &len);
    FILE *f = fopen(to, "wb");

    assert_non_null(f);
    assert_true(keep <= len);
    assert_int_equal(fwrite(data, 1, keep, f), keep);
    assert_int_equal(fclose(f), 0);
    free(data);
}

static size_t size_of(const char *path)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return (size_t)st.st_size;
}

static void expect(const char *path, int code, const char *words)
{
    const struct ask ask = {.want_hash = true};
    struct outcome o = decode_path(path, &ask);

    assert_sentence(&o, code, words);
    assert_int_equal(o.samples, 0);
    assert_false(o.has_end);
    outcome_free(&o);
}

/* Audio comes out, between these bounds, and the damage is told in these words. */
static void expect_damage(const char *path, size_t least, size_t most, const char *words)
{
    struct outcome o = decode_path(path, NULL);

    if (o.rc != 0 || o.samples < least || o.samples > most || !strstr(o.damage, words)) {
        print_error("%s: rc %d, %zu samples, damage \"%s\" %s\n", path, o.rc, o.samples, o.damage,
                    o.rc ? o.err.msg : "");
    }
    assert_int_equal(o.rc, 0);
    assert_in_range(o.samples, least, most);
    assert_non_null(strstr(o.damage, words));
    outcome_free(&o);
}

static void empty_and_text(void **state)
{
    FILE *f = fopen("empty.mp3", "wb");

    (void)state;
    assert_int_equal(fclose(f), 0);
    expect("empty.mp3", ERR_INPUT, "empty file");
    f = fopen("text.mp3", "wb");
    for (int i = 0; i < 5000; i++)
        fprintf(f, "%d. Dear diary, nothing of note was said today.\r\n", i);
    assert_int_equal(fclose(f), 0);
    expect("text.mp3", ERR_INPUT, "not a recording: no known format");
    f = fopen("list.mp3", "wb");
    fputs("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n/etc/passwd\n#EXT-X-ENDLIST\n", f);
    assert_int_equal(fclose(f), 0);
    expect("list.mp3", ERR_INPUT, "not a recording");
    f = fopen("concat.mp3", "wb");
    fputs("ffconcat version 1.0\nfile '/etc/passwd'\n", f);
    assert_int_equal(fclose(f), 0);
    expect("concat.mp3", ERR_INPUT, "not a recording");
    f = fopen("call.sdp", "wb");
    fputs("v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio 5004 RTP/AVP 0\n",
          f);
    assert_int_equal(fclose(f), 0);
    expect("call.sdp", ERR_INPUT, "not a recording");
}

/* Random bytes hold the sync words of every codec there is, here and there. */
static void noise_is_no_recording(void **state)
{
    uint32_t seed = 20240607;

    (void)state;
    for (int round = 0; round < 12; round++) {
        FILE *f = fopen("noise.mp3", "wb");

        assert_non_null(f);
        for (int i = 0; i < (1 << 18) << (round % 3); i++) {
            seed = seed * 1664525u + 1013904223u;
            fputc((int)(seed >> 24), f);
        }
        assert_int_equal(fclose(f), 0);
        expect("noise.mp3", ERR_INPUT, "not a");
    }
}

/* One real frame in a text is a few bytes that look like mp3, and no recording. */
static void a_stray_frame_is_no_recording(void **state)
{
    size_t len;
    uint8_t *mp3;
    FILE *f;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=d=1 -b:a 64k -write_xing 0 -id3v2_version 0 "
       "one.mp3");
    mp3 = slurp("one.mp3", &len);
    f = fopen("stray.mp3", "wb");
    for (int i = 0; i < 40; i++)
        fputs("some words that surround the bytes of one frame, as in a mail or an image ", f);
    fwrite(mp3 + 417, 1, 420, f);
    for (int i = 0; i < 40; i++)
        fputs("some words that surround the bytes of one frame, as in a mail or an image ", f);
    assert_int_equal(fclose(f), 0);
    free(mp3);
    expect("stray.mp3", ERR_INPUT, "not a recording");
}

/* The shortest real mp3 is one, though little speaks for it. */
static void a_short_recording_is_one(void **state)
{
    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=d=0.2 -b:a 64k -write_xing 0 -id3v2_version 0 "
       "short.mp3");
    expect_damage("short.mp3", 2500, 4500, "");
}

static void truncated_mp4(void **state)
{
    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i anoisesrc=d=10:r=44100 -c:a aac end.mp4 && "
       "ffmpeg -v error -nostdin -y -i end.mp4 -c copy -movflags faststart first.mp4 && "
       "ffmpeg -v error -nostdin -y -i end.mp4 -c copy -movflags empty_moov -frag_duration 1000000 "
       "frag.mp4");
    truncate_copy("end.mp4", "cut_end.mp4", size_of("end.mp4") / 2);
    expect("cut_end.mp4", ERR_INPUT, "the index (moov) is missing");
    truncate_copy("first.mp4", "cut_first.mp4", size_of("first.mp4") / 2);
    expect_damage("cut_first.mp4", 50000, 100000, "of 10.0 s: the file is cut short or damaged");
    truncate_copy("frag.mp4", "cut_frag.mp4", size_of("frag.mp4") / 2);
    expect_damage("cut_frag.mp4", 50000, 100000, "");
}

static void other_truncated_files(void **state)
{
    (void)state;
    need_tools("ffmpeg");
    sh("for f in wav flac mp3 mka aiff; do ffmpeg -v error -nostdin -y -f lavfi -i "
       "anoisesrc=d=10:r=44100 whole.$f || exit 1; done");
    for (int i = 0; i < 5; i++) {
        static const char *const ext[] = {"wav", "flac", "mp3", "aiff", "mka"};
        char from[32], to[32];

        snprintf(from, sizeof(from), "whole.%s", ext[i]);
        snprintf(to, sizeof(to), "cut.%s", ext[i]);
        truncate_copy(from, to, size_of(from) / 2 / 4 * 4);
        expect_damage(to, 60000, 100000, "of 10.0 s: the file is cut short or damaged");
    }
    truncate_copy("whole.flac", "head.flac", 60);
    expect("head.flac", ERR_INPUT, "");
}

static void bytes_gone_bad(void **state)
{
    size_t len;
    uint8_t *data;
    FILE *f;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i anoisesrc=d=10:r=44100 good.flac");
    data = slurp("good.flac", &len);
    memset(data + len / 2, 0xa5, 30000);
    f = fopen("bad.flac", "wb");
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    free(data);
    expect_damage("bad.flac", 120000, 161000, "");
    {
        struct outcome o = decode_path("bad.flac", NULL);

        assert_true(o.damage[0] != '\0');
        outcome_free(&o);
    }
}

/* A film without sound is whole, and was heard to its end, whatever was to be heard of it. */
static void expect_no_sound(const char *path, struct hearing hearing)
{
    const struct ask ask = {.want_hash = true, .hearing = hearing};
    struct outcome o = decode_path(path, &ask);

    if (o.rc != 0)
        print_error("%s: %s\n", path, o.err.msg);
    assert_int_equal(o.rc, 0);
    assert_true(o.has_info && o.has_end && o.end.complete && o.end.has_hash);
    assert_int_equal(o.info.tracks, 0);
    assert_int_equal(o.info.channels, 0);
    assert_int_equal(o.info.duration_ms, -1);
    assert_true(o.info.container[0] != '\0');
    assert_int_equal(o.end.total_samples, 0);
    assert_int_equal(o.samples, 0);
    assert_string_equal(o.damage, "");
    outcome_free(&o);
}

static void no_audio_in_it(void **state)
{
    (void)state;
    need_tools("ffmpeg");
    sh("for end in mp4 mkv ts flv avi; do "
       "ffmpeg -v error -nostdin -y -f lavfi -i testsrc=d=1:s=64x48 -an -c:v mpeg2video "
       "$(test $end = flv && echo -c:v flv) mute.$end || exit 1; done");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i testsrc=d=1:s=64x48 -frames:v 1 picture.png && "
       "ffmpeg -v error -nostdin -y -i picture.png -c:v mjpeg -disposition:v:0 attached_pic "
       "cover.mp4");
    expect_no_sound("mute.mp4", (struct hearing){0});
    expect_no_sound("mute.mkv", (struct hearing){0});
    expect_no_sound("mute.ts", (struct hearing){0});
    expect_no_sound("mute.flv", (struct hearing){0});
    expect_no_sound("mute.avi", (struct hearing){0});
    expect_no_sound("mute.mp4", (struct hearing){.tracks = HEARING_ALL});
    expect_no_sound("mute.mp4", (struct hearing){.channel = 2});
    expect("cover.mp4", ERR_INPUT, "no audio track");
    expect("picture.png", ERR_INPUT, "not a recording");
}

/* The nth of these bytes replaced by as many others. */
static void spoil(const char *from, const char *to, const char *find, int nth, const char *put)
{
    const size_t n = strlen(find);
    size_t len, at = 0;
    uint8_t *data = slurp(from, &len);
    FILE *f = fopen(to, "wb");

    for (; at + n <= len; at++)
        if (memcmp(data + at, find, n) == 0 && --nth == 0)
            break;
    assert_int_equal(nth, 0);
    memcpy(data + at, put, n);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
    free(data);
}

/* There is sound in these, and what describes it is damaged: they are not taken as done. */
static void sound_that_is_not_described(void **state)
{
    (void)state;
    need_tools("ffmpeg");
    sh("for end in mp4 avi; do "
       "ffmpeg -v error -nostdin -y -f lavfi -i testsrc=d=1:s=64x48 -f lavfi -i sine=d=1 "
       "-c:v mpeg2video -c:a mp2 spoken.$end || exit 1; done");
    spoil("spoken.mp4", "mdia.mp4", "mdia", 2, "mdka");
    spoil("spoken.avi", "auds.avi", "auds", 1, "aukx");
    expect("mdia.mp4", ERR_INPUT, "");
    expect("auds.avi", ERR_INPUT, "");
}

static void zero_seconds(void **state)
{
    struct outcome o;

    (void)state;
    write_tone("zero.wav", 16000, 0);
    o = decode_path("zero.wav", NULL);
    assert_int_equal(o.rc, 0);
    assert_true(o.has_info && o.has_end && o.end.complete);
    assert_int_equal(o.end.total_samples, 0);
    assert_non_null(strstr(o.damage, "holds no audio"));
    outcome_free(&o);
}

/* 4 GiB that take no room on the disk. */
static void sparse_files(void **state)
{
    FILE *f;

    (void)state;
    f = fopen("sparse.mp4", "wb");
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate("sparse.mp4", (off_t)4 << 30), 0);
    expect("sparse.mp4", ERR_INPUT, "not a recording: no known format");
    f = fopen("sparse.mp4", "r+b"); /* a tag that promises an mp3 behind it */
    fputs("ID3\3", f);
    assert_int_equal(fclose(f), 0);
    expect("sparse.mp4", ERR_INPUT, "not a");
    assert_int_equal(unlink("sparse.mp4"), 0);
}

static void absurd_headers(void **state)
{
    FILE *f;

    (void)state;
    write_tone("slow.wav", 16000, 1);
    f = fopen("slow.wav", "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 24, SEEK_SET), 0);
    fwrite("\1\0\0\0\2\0\0\0", 1, 8, f); /* one sample a second */
    assert_int_equal(fclose(f), 0);
    expect("slow.wav", ERR_INPUT, "1 Hz");
    write_tone("wide.wav", 16000, 1);
    f = fopen("wide.wav", "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 22, SEEK_SET), 0);
    fwrite("\0\4", 1, 2, f); /* 1024 channels */
    assert_int_equal(fclose(f), 0);
    {
        struct outcome o = decode_path("wide.wav", NULL);

        assert_int_equal(o.rc, ERR_INPUT);
        outcome_free(&o);
    }
}

/* Eighteen hours of silence that take no room on the disk, and a second to decode them in. */
static void too_long_to_decode(void **state)
{
    const struct ask ask = {.limits = {.cpu_seconds = 1}, .discard = true};
    struct outcome o;
    FILE *f;

    (void)state;
    write_tone("hours.wav", 16000, 1);
    f = fopen("hours.wav", "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 4, SEEK_SET), 0);
    fwrite("\x24\0\0\x7f", 1, 4, f);
    assert_int_equal(fseek(f, 40, SEEK_SET), 0);
    fwrite("\0\0\0\x7f", 1, 4, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate("hours.wav", 0x7f00002c), 0);
    o = decode_path("hours.wav", &ask);
    assert_sentence(&o, ERR_LIMIT, "more than 1 s of processor time");
    outcome_free(&o);
    assert_int_equal(unlink("hours.wav"), 0);
}

static void what_is_no_file(void **state)
{
    struct outcome o = decode_path(".", NULL);

    (void)state;
    assert_sentence(&o, ERR_INPUT, "not a regular file");
    outcome_free(&o);
    o = decode_path("/dev/zero", NULL);
    assert_sentence(&o, ERR_INPUT, "not a regular file");
    outcome_free(&o);
    o = list_path("/dev/zero", NULL);
    assert_sentence(&o, ERR_INPUT, "not a regular file");
    outcome_free(&o);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(empty_and_text),
    cmocka_unit_test(noise_is_no_recording),
    cmocka_unit_test(a_stray_frame_is_no_recording),
    cmocka_unit_test(a_short_recording_is_one),
    cmocka_unit_test(truncated_mp4),
    cmocka_unit_test(other_truncated_files),
    cmocka_unit_test(bytes_gone_bad),
    cmocka_unit_test(no_audio_in_it),
    cmocka_unit_test(sound_that_is_not_described),
    cmocka_unit_test(zero_seconds),
    cmocka_unit_test(sparse_files),
    cmocka_unit_test(absurd_headers),
    cmocka_unit_test(too_long_to_decode),
    cmocka_unit_test(what_is_no_file),
};

MEDIA_TEST_MAIN(tests)
