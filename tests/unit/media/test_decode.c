/* Decoding: sample for sample what the ffmpeg tool gives, from files and from members of archives.
 */
#include <fcntl.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/hash.h"
#include "tests/unit/media/media_util.h"
#include "workers/media/stream/fingerprint.h"

/* The tool's own answer. */
static int16_t *reference(const char *path, size_t *n)
{
    uint8_t *raw;
    size_t len;

    sh("ffmpeg -v error -nostdin -y -i '%s' -vn -ac 1 -ar 16000 -f s16le ref.raw", path);
    raw = slurp("ref.raw", &len);
    *n = len / 2;
    return (int16_t *)(void *)raw;
}

static void assert_same_audio(const char *path, const struct outcome *o)
{
    size_t n, differ = 0;
    int16_t *want = reference(path, &n);

    if (o->rc != 0 || o->samples != n) {
        print_error("%s: %zu samples, the tool has %zu (%s)\n", path, o->samples, n,
                    o->rc ? o->err.msg : o->damage);
    }
    assert_int_equal(o->rc, 0);
    assert_int_equal(o->samples, n);
    for (size_t i = 0; i < n; i++)
        differ += want[i] != o->pcm[i];
    assert_int_equal(differ, 0);
    assert_int_equal(o->end.total_samples, n);
    assert_int_equal(o->first_sample, n ? 0 : -1);
    assert_true(o->end.complete);
    free(want);
}

static void assert_hash_of_file(const char *path, const struct decoder_end *end)
{
    size_t len;
    uint8_t *data = slurp(path, &len);
    XXH128_canonical_t c;

    assert_true(end->has_hash);
    XXH128_canonicalFromHash(&c, XXH3_128bits(data, len));
    assert_memory_equal(end->content_hash, c.digest, 16);
    free(data);
}

static void samples_equal_the_tool(void **state)
{
    static const char *const names[] = {"01_en_short.wav",          "02_en_flite_rms.mp3",
                                        "03_en_noisy.ogg",          "04_es_clean.flac",
                                        "05_es_video.mp4",          "06_digits_real_8k.wav",
                                        "10_noise_only.wav",        "07_digits_real_speakers.mp3",
                                        "08_two_voices_stereo.wav", "11_silence.wav",
                                        "09_long_silences.flac",    "12_en_long_90s.mp3",
                                        "13_es_long_45s.ogg"};
    const struct ask ask = {.want_hash = true};

    (void)state;
    need_tools("ffmpeg");
    if (!have_file(test_shared_path("samples/01_en_short.wav"))) {
        print_message("skipped: no %s\n", test_shared_path("samples"));
        skip();
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[4096], rel[128];
        struct outcome o;

        snprintf(rel, sizeof(rel), "samples/%s", names[i]);
        snprintf(path, sizeof(path), "%s", test_shared_path(rel));
        o = decode_path(path, &ask);
        assert_same_audio(path, &o);
        assert_string_equal(o.damage, "");
        assert_hash_of_file(path, &o.end);
        outcome_free(&o);
    }
}

/* Every kind that archives hold and this ffmpeg can write. */
static void formats_equal_the_tool(void **state)
{
    static const char *const outputs[][2] = {
        {"t.wav", "-c:a pcm_s24le -ac 2 -ar 44100"},
        {"u8.wav", "-c:a pcm_u8 -ar 11025"},
        {"f.wav", "-c:a pcm_f32le -ac 2 -ar 48000"},
        {"alaw.wav", "-c:a pcm_alaw -ar 8000"},
        {"adpcm.wav", "-c:a adpcm_ms -ar 22050"},
        {"96k.wav", "-c:a pcm_s16le -ac 2 -ar 96000"},
        {"t.aiff", ""},
        {"t.au", ""},
        {"t.caf", ""},
        {"t.w64", ""},
        {"t.mp2", ""},
        {"t.m4a", ""},
        {"alac.m4a", "-c:a alac"},
        {"t.aac", ""},
        {"t.ac3", "-ac 2"},
        {"t.opus", "-c:a libopus"},
        {"t.oga", "-c:a flac"},
        {"t.wma", ""},
        {"t.mka", "-c:a libvorbis"},
        {"t.webm", "-vn -c:a libopus"},
        {"t.wv", ""},
        {"t.tta", ""},
        {"t.amr", "-c:a libopencore_amrnb -ar 8000 -ac 1 -b:a 12.2k"},
        {"t.gsm", "-c:a libgsm -ar 8000 -ac 1"},
        {"t.voc", ""},
        {"t.ts", "-c:a aac"},
        {"t.mpg", "-c:a mp2"},
        {"t.avi", "-c:a mp3"},
        {"t.flv", "-c:a aac"},
        {"t.3gp", "-c:a aac"},
        {"t.mxf", "-f mxf -f lavfi -i testsrc=s=720x576:r=25:d=2 -c:v mpeg2video -c:a pcm_s16le "
                  "-ar 48000 -shortest"},
        {"t.rm", "-c:a ac3"},
        {"spx.ogg", "-c:a libspeex -ar 16000 -ac 1"},
    };
    size_t made = 0;

    (void)state;
    need_tools("ffmpeg");
    for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
        char command[1024];
        struct outcome o;

        snprintf(command, sizeof(command),
                 "ffmpeg -v error -nostdin -y -f lavfi -i "
                 "'aevalsrc=0.3*sin(2*PI*t*(300+200*t)):s=44100:d=2' %s '%s' >>command.log 2>&1",
                 outputs[i][1], outputs[i][0]);
        if (system(command) != 0) {
            print_message("left out: this ffmpeg cannot write %s\n", outputs[i][0]);
            continue;
        }
        made++;
        o = decode_path(outputs[i][0], NULL);
        assert_same_audio(outputs[i][0], &o);
        assert_true(o.info.sample_rate_hz >= 8000 && o.info.channels >= 1);
        outcome_free(&o);
    }
    assert_true(made > 15);
}

static void what_is_in_the_file_is_told(void **state)
{
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=d=3:r=48000 -ac 2 -metadata "
       "title='Entrevista n\xc3\xbamero 3' t.m4a");
    o = decode_path("t.m4a", NULL);
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.info.container, "mp4");
    assert_string_equal(o.info.codec, "aac");
    assert_string_equal(tag_of(&o, "container", "title"), "Entrevista n\xc3\xbamero 3");
    assert_int_equal(o.info.channels, 2);
    assert_int_equal(o.info.sample_rate_hz, 48000);
    assert_in_range(o.info.duration_ms, 2990, 3060);
    outcome_free(&o);
}

/* A stream that changes its shape half way: two files of different rates, one after the other. The
 * tool drops what its resampler holds at the change, some 32 samples; we do not. */
static void shape_may_change(void **state)
{
    struct outcome o;
    int16_t *want;
    size_t n;

    (void)state;
    need_tools("ffmpeg");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=d=2:r=48000 -ac 2 -c:a mp2 a.mp2 && "
       "ffmpeg -v error -nostdin -y -f lavfi -i sine=d=2:r=22050 -ac 1 -c:a mp2 b.mp2 && "
       "cat a.mp2 b.mp2 >ab.mp2");
    o = decode_path("ab.mp2", NULL);
    want = reference("ab.mp2", &n);
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.damage, "");
    assert_in_range(n, 63000, 65500);
    assert_in_range(o.samples, n, n + 64);
    assert_memory_equal(o.pcm, want, 30000 * sizeof(*want));
    assert_memory_equal(o.pcm + o.samples - 30000, want + n - 30000, 30000 * sizeof(*want));
    free(want);
    outcome_free(&o);
}

/* A WAV of 80 channels of 16 bits or of floats: `loud` of them say the tone of tone.wav. */
static void write_wide(const char *path, bool floats, int loud)
{
    enum { WIDE = 80 };
    size_t len;
    uint8_t *mono = slurp("tone.wav", &len);
    const int16_t *tone = (const int16_t *)(const void *)(mono + 44);
    const uint32_t n = (uint32_t)(len - 44) / 2, bytes = floats ? 4 : 2;
    const uint32_t head[] = {36 + n * WIDE * bytes,
                             16,
                             (floats ? 3u : 1u) | WIDE << 16,
                             16000,
                             16000 * WIDE * bytes,
                             WIDE * bytes | bytes * 8 << 16,
                             n * WIDE * bytes};
    FILE *f = fopen(path, "wb");

    fwrite("RIFF", 1, 4, f);
    fwrite(&head[0], 4, 1, f);
    fwrite("WAVEfmt ", 1, 8, f);
    fwrite(&head[1], 4, 5, f);
    fwrite("data", 1, 4, f);
    fwrite(&head[6], 4, 1, f);
    for (uint32_t i = 0; i < n; i++) {
        for (int c = 0; c < WIDE; c++) {
            const int16_t x = c < loud ? tone[i] : 0;
            const float y = x / 32768.0f;

            fwrite(floats ? (const void *)&y : (const void *)&x, bytes, 1, f);
        }
    }
    assert_int_equal(fclose(f), 0);
    free(mono);
}

/* Films have their dialogue in the centre; in layouts without one all channels count alike. */
static void channels_are_weighed(void **state)
{
    static const struct {
        const char *name, *layout, *weights;
    } files[] = {
        {"51.flac", "5.1", "0.12727*c0+0.12727*c1+0.36364*c2+0.12727*c3+0.12727*c4+0.12727*c5"},
        {"71.wav", "7.1",
         "0.10145*c0+0.10145*c1+0.28986*c2+0.10145*c3+0.10145*c4+0.10145*c5+0.10145*c6+0.10145*c7"},
        {"4.wav", "quad", "0.25*c0+0.25*c1+0.25*c2+0.25*c3"},
        {"21.wav", "2.1", "0.33333*c0+0.33333*c1+0.33333*c2"},
    };
    static const char *const rest[] = {
        "|c3=0.7*c0|c4=0.2*c0|c5=0.9*c0",
        "|c3=0.7*c0|c4=0.2*c0|c5=0.9*c0|c6=0.4*c0|c7=0.1*c0",
        "|c3=0.7*c0",
        "",
    };

    (void)state;
    need_tools("ffmpeg");
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct outcome o;
        const int16_t *want;
        uint8_t *raw;
        size_t len;

        sh("ffmpeg -v error -nostdin -y -f lavfi -i anoisesrc=d=2:r=16000:a=0.5 -af "
           "'aformat=channel_layouts=mono,pan=%s|c0=c0|c1=0.5*c0|c2=0.3*c0%s' -c:a %s %s",
           files[i].layout, rest[i], i == 0 ? "flac" : "pcm_s16le", files[i].name);
        o = decode_path(files[i].name, NULL);
        sh("ffmpeg -v error -nostdin -y -i %s -af 'pan=mono|c0=%s' -f s16le ref.raw", files[i].name,
           files[i].weights);
        raw = slurp("ref.raw", &len);
        want = (const int16_t *)(const void *)raw;
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.samples, len / 2);
        for (size_t k = 0; k < o.samples; k++)
            assert_in_range(o.pcm[k] - want[k] + 3, 0, 6);
        outcome_free(&o);
        free(raw);
    }
}

static void save(const char *path, const uint8_t *data, size_t len)
{
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, len, f), len);
    assert_int_equal(fclose(f), 0);
}

/* Of size.wav, and of the same in archives that are unpacked forward alone. */
static void assert_seconds(uint32_t seconds)
{
    static const struct {
        const char *path, *member;
    } places[] = {{"size.wav", NULL},
                  {"size.zip", "size.wav"},
                  {"size.tgz", "size.wav"},
                  {"size.gz", "data"}};

    sh("rm -f size.zip; zip -q size.zip size.wav; tar czf size.tgz size.wav; gzip -c size.wav "
       ">size.gz");
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct outcome o = decode_path(places[i].path, &(struct ask){.member = places[i].member});

        if (o.samples != seconds * (size_t)16000)
            print_error("%s\n", places[i].path);
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.samples, seconds * 16000);
        assert_string_equal(o.damage, "");
        outcome_free(&o);
    }
}

/* A recorder died before it wrote the size, or it wrapped around: what lies behind is sound. A
 * chunk behind the sound is none, nor is somebody's mark, nor is space that was reserved. */
static void sound_behind_the_stated_end_is_heard(void **state)
{
    const size_t begin = 44 + 32000;
    uint8_t *data;
    uint32_t rest;
    size_t len;

    (void)state;
    need_tools("ffmpeg zip tar gzip");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=d=5:r=16000 -c:a pcm_s16le -bitexact "
       "size.wav");
    data = slurp("size.wav", &len);
    for (int stated = 0; stated < 2; stated++) {
        memcpy(data + 40, &(uint32_t){(uint32_t)stated * 32000 + 32000}, 4);
        save("size.wav", data, len);
        assert_seconds(5);
    }
    memcpy(data + 40, &(uint32_t){32000}, 4);
    rest = (uint32_t)(len - begin - 8);
    memcpy(data + begin, "LIST", 4);
    memcpy(data + begin + 4, &rest, 4);
    save("size.wav", data, len); /* a chunk to the end */
    assert_seconds(1);
    rest = (uint32_t)begin + 128 - 8;
    memcpy(data + 4, &rest, 4); /* as long as it is */
    memcpy(data + begin, "TAG\0\0\0\0", 8);
    save("size.wav", data, begin + 128);
    assert_seconds(1);
    memset(data + begin, 0, len - begin);
    save("size.wav", data, len);
    assert_seconds(1);
    free(data);
}

/* In an archive what lies behind is further than what is kept of the way; and damage there is told
 * as it would be anywhere. */
static void far_behind_the_stated_end(void **state)
{
    struct outcome o;
    uint8_t *data;
    size_t len;

    (void)state;
    need_tools("ffmpeg tar gzip");
    sh("ffmpeg -v error -nostdin -y -f lavfi -i anoisesrc=d=200:r=48000:a=0.01 -c:a pcm_s16le "
       "-bitexact far.wav");
    data = slurp("far.wav", &len);
    memcpy(data + 40, &(uint32_t){190 * 96000}, 4);
    save("far.wav", data, len);
    free(data);
    sh("tar czf far.tgz far.wav");
    o = decode_path("far.tgz", &(struct ask){.member = "far.wav", .discard = true});
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.samples, 200 * 16000);
    assert_string_equal(o.damage, "");
    outcome_free(&o);
    /* Also where what lies behind is a chunk, at which FFmpeg looks. */
    for (int chunk = 0; chunk < 2; chunk++) {
        if (chunk) {
            data = slurp("far.wav", &len);
            memcpy(data + 44 + 190 * 96000, "LIST\x04\0\0\0INFO", 12);
            save("far.wav", data, 44 + 190 * 96000 + 12);
            free(data);
            sh("tar czf far.tgz far.wav");
        }
        sh("head -c $(($(stat -c %%s far.tgz) / 2)) far.tgz >half.tgz");
        o = decode_path("half.tgz", &(struct ask){.member = "far.wav", .discard = true});
        assert_int_equal(o.rc, 0);
        assert_in_range(o.samples, 80 * 16000, 120 * 16000);
        assert_string_not_equal(o.damage, "");
        outcome_free(&o);
    }
}

/* More channels than libswresample has masks for are averaged. */
static void very_many_channels(void **state)
{
    struct outcome tone;

    (void)state;
    write_tone("tone.wav", 16000, 0.5);
    tone = decode_path("tone.wav", NULL);
    assert_int_equal(tone.rc, 0);
    for (int i = 0; i < 4; i++) {
        const int loud = i < 2 ? 80 : 20;
        struct outcome o;

        write_wide("wide.wav", i % 2 != 0, loud);
        o = decode_path("wide.wav", NULL);
        if (o.rc != 0)
            print_error("%s\n", o.err.msg);
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.info.channels, 80);
        assert_int_equal(o.samples, tone.samples);
        for (size_t k = 0; k < o.samples; k++)
            assert_in_range(o.pcm[k] - tone.pcm[k] * loud / 80 + 1, 0, 2);
        outcome_free(&o);
        o = decode_path("wide.wav", &(struct ask){.hearing = {.channel = 64}});
        assert_int_equal(o.samples, tone.samples);
        for (size_t k = 0; k < o.samples; k++)
            assert_in_range(o.pcm[k] - (loud == 80 ? tone.pcm[k] : 0) + 1, 0, 2);
        assert_string_equal(o.info.left_out,
                            "channel 1, channel 2, channel 3, channel 4, channel 5, channel 6, "
                            "channel 7, channel 8 and 71 more");
        outcome_free(&o);
    }
    outcome_free(&tone);
}

static void skipping_keeps_positions(void **state)
{
    static const int64_t skips[] = {0, 1, 15999, 16000, 16001, 40000, 79999, 80000, 90000};
    struct outcome all;

    (void)state;
    write_tone("s.wav", 16000, 5);
    all = decode_path("s.wav", NULL);
    assert_int_equal(all.samples, 80000);
    for (size_t i = 0; i < sizeof(skips) / sizeof(skips[0]); i++) {
        const struct ask ask = {.skip_samples = skips[i]};
        struct outcome o = decode_path("s.wav", &ask);
        int64_t rest = skips[i] < 80000 ? 80000 - skips[i] : 0;

        assert_int_equal(o.rc, 0);
        assert_int_equal(o.samples, rest);
        assert_int_equal(o.end.total_samples, 80000);
        assert_int_equal(o.first_sample, rest ? skips[i] : -1);
        if (rest)
            assert_memory_equal(o.pcm, all.pcm + skips[i], (size_t)rest * 2);
        outcome_free(&o);
    }
    outcome_free(&all);
}

/* What others write into a recording's tags is no word on whether it is encrypted. */
static void tags_that_speak_of_encryption(void **state)
{
    static const char *const names[] = {"tag.flac", "tag.mp4", "tag.ogg", "tag.mp3"};

    (void)state;
    need_tools("ffmpeg");
    write_tone("t.wav", 16000, 2);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        struct outcome o;

        sh("ffmpeg -v error -y -i t.wav -movflags use_metadata_tags -metadata encryption=none "
           "-metadata ASF_Protection_Type=none -metadata:s:a:0 enc_key_id=none %s",
           names[i]);
        o = decode_path(names[i], NULL);
        if (o.rc != 0)
            print_error("%s: %s\n", names[i], o.err.msg);
        assert_int_equal(o.rc, 0);
        outcome_free(&o);
    }
}

static void fingerprints_are_compared_first(void **state)
{
    uint8_t fingerprint[16];
    struct ask ask = {.fingerprint = fingerprint, .want_hash = true};
    struct outcome o;
    struct err err;
    size_t len;
    int fd;

    (void)state;
    write_tone("f.wav", 44100, 8);
    free(slurp("f.wav", &len));
    fd = open("f.wav", O_RDONLY | O_CLOEXEC);
    assert_ok(fingerprint_fd(fd, len, fingerprint, &err), err);
    close(fd);
    o = decode_path("f.wav", &ask);
    assert_int_equal(o.rc, 0);
    assert_hash_of_file("f.wav", &o.end);
    outcome_free(&o);
    fingerprint[3] ^= 1;
    o = decode_path("f.wav", &ask);
    assert_sentence(&o, ERR_CHANGED, "changed since it was enqueued");
    assert_false(o.has_info);
    outcome_free(&o);
}

/* Of one that blocks do not tell from another recording. */
static void all_bytes_are_a_fingerprint_too(void **state)
{
    uint8_t whole[16];
    struct ask ask = {.fingerprint = whole, .want_hash = true};
    struct outcome o;
    size_t len;
    uint8_t *data;

    (void)state;
    write_tone("f.wav", 44100, 8);
    data = slurp("f.wav", &len);
    assert_true(len > FINGERPRINT_WHOLE);
    hash_of(data, len, whole);
    free(data);
    o = decode_path("f.wav", &ask);
    assert_int_equal(o.rc, 0);
    assert_hash_of_file("f.wav", &o.end);
    outcome_free(&o);
    whole[15] ^= 1;
    o = decode_path("f.wav", &ask);
    assert_sentence(&o, ERR_CHANGED, "changed since it was enqueued");
    outcome_free(&o);
}

/* An mp4 as most are, its index at the end, packed by deflate: no seeking in there, and yet. */
static void members_equal_files(void **state)
{
    static const char *const members[][3] = {
        {"m.zip", "small.mp4", "small.mp4"},
        {"m.zip", "big.mov", "big.mov"},
        {"m.7z", "small.mp4", "small.mp4"},
        {"m.7z", "big.mov", "big.mov"},
        {"m.tgz", "big.mov", "big.mov"},
        {"m.tar", "small.mp4", "small.mp4"},
        {"outer.zip", "m.tgz//small.mp4", "small.mp4"},
        {"outer.zip", "m.zip//big.mov", "big.mov"},
        {"m.iso", "small.mp4", "small.mp4"},
    };
    const struct ask base = {.want_hash = true};

    (void)state;
    need_tools("ffmpeg zip 7z tar gzip genisoimage");
    /* big.mov is larger than what a member keeps in memory (16 MiB). */
    sh("rm -f m.* outer.zip;"
       "ffmpeg -v error -nostdin -y -f lavfi -i anoisesrc=d=3:r=44100:seed=1 -f lavfi -i "
       "testsrc=s=160x120:r=5:d=3 -c:a aac -c:v mpeg4 small.mp4 && "
       "ffmpeg -v error -nostdin -y -f lavfi -i anoisesrc=d=100:r=48000:seed=2 -ac 2 -c:a "
       "pcm_s16le "
       "big.mov && zip -q -1 m.zip small.mp4 big.mov && 7z a -bso0 -mx1 m.7z small.mp4 big.mov && "
       "tar cf m.tar small.mp4 big.mov && gzip -1 <m.tar >m.tgz && zip -q -1 outer.zip m.zip m.tgz "
       "&& genisoimage -quiet -J -R -o m.iso small.mp4");
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        struct ask ask = base;
        struct outcome o;

        ask.member = members[i][1];
        o = decode_path(members[i][0], &ask);
        assert_same_audio(members[i][2], &o);
        assert_hash_of_file(members[i][2], &o.end);
        outcome_free(&o);
    }
}

/* Ten hours of silence pass through a decoder that may have 768 MiB of addresses, code included. */
static void long_silence_needs_no_memory(void **state)
{
    const struct ask ask = {.discard = true, .limits = {.memory_bytes = (uint64_t)768 << 20}};
    const uint32_t n = 10u * 3600 * 8000;
    struct outcome o;
    FILE *f;

    (void)state;
    write_tone("night.wav", 8000, 0);
    f = fopen("night.wav", "r+b");
    assert_non_null(f);
    for (int i = 0; i < 2; i++) {
        uint32_t v = i == 0 ? 36 + 2 * n : 2 * n;

        assert_int_equal(fseek(f, i == 0 ? 4 : 40, SEEK_SET), 0);
        for (int k = 0; k < 4; k++)
            fputc((int)(v >> (8 * k)) & 255, f);
    }
    assert_int_equal(fclose(f), 0);
    assert_int_equal(truncate("night.wav", 44 + 2 * (off_t)n), 0);
    o = decode_path("night.wav", &ask);
    if (o.rc != 0)
        print_error("%s\n", o.err.msg);
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.damage, "");
    assert_int_equal(o.end.total_samples, 2 * (int64_t)n);
    assert_int_equal(o.samples, 2 * (size_t)n);
    outcome_free(&o);
    assert_int_equal(unlink("night.wav"), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(samples_equal_the_tool),
    cmocka_unit_test(formats_equal_the_tool),
    cmocka_unit_test(what_is_in_the_file_is_told),
    cmocka_unit_test(shape_may_change),
    cmocka_unit_test(channels_are_weighed),
    cmocka_unit_test(sound_behind_the_stated_end_is_heard),
    cmocka_unit_test(far_behind_the_stated_end),
    cmocka_unit_test(very_many_channels),
    cmocka_unit_test(skipping_keeps_positions),
    cmocka_unit_test(tags_that_speak_of_encryption),
    cmocka_unit_test(fingerprints_are_compared_first),
    cmocka_unit_test(all_bytes_are_a_fingerprint_too),
    cmocka_unit_test(members_equal_files),
    cmocka_unit_test(long_silence_needs_no_memory),
};

MEDIA_TEST_MAIN(tests)
