/* Kinds that their bytes alone do not tell: which of them are read, and that what cannot be is
 * named. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/media/media_util.h"

#include "workers/media/stream/sniff.h"

/* Three seconds of a tone of 440 Hz, through FFmpeg's own encoders. */
static const struct {
    const char *file, *arguments;
} made[] = {
    {"a.ul", "-ar 8000 -c:a pcm_mulaw -f mulaw"},
    {"a.ulaw", "-ar 8000 -c:a pcm_mulaw -f mulaw"},
    {"a.al", "-ar 8000 -c:a pcm_alaw -f alaw"},
    {"A.SLN", "-ar 8000 -f s16le"},
    {"a.sln16", "-ar 16000 -f s16le"},
    {"a.sln48", "-ar 48000 -f s16le"},
    {"a.g722", "-ar 16000 -f g722"},
    {"a.g723", "-ar 8000 -b:a 6300 -f g723_1"},
    {"a.g726-32", "-ar 8000 -c:a g726le -code_size 4 -f g726le"},
    {"a.g726-16", "-ar 8000 -c:a g726le -code_size 2 -f g726le"},
    {"a.gsm", "-ar 8000 -c:a libgsm -f gsm"},
};

/* Of the samples, the share of their loudness that a tone of 440 Hz has: 1 of a pure one. */
static double tone_share(const struct outcome *o)
{
    double re = 0, im = 0, all = 0;

    for (size_t i = 0; i < o->samples; i++) {
        const double at = 2 * M_PI * 440 * (double)i / DECODER_RATE_HZ;

        re += o->pcm[i] * cos(at);
        im += o->pcm[i] * sin(at);
        all += (double)o->pcm[i] * o->pcm[i];
    }
    return all > 0 ? 2 * (re * re + im * im) / ((double)o->samples * all) : 0;
}

static void hear(const char *path)
{
    struct outcome o = decode_path(path, &(struct ask){.want_hash = true});

    if (o.rc != 0)
        fail_msg("%s: %s", path, o.err.msg);
    if (o.damage[0] || fabs((double)o.samples / DECODER_RATE_HZ - 3) > 0.1 || tone_share(&o) < 0.8)
        fail_msg("%s: %.2f s, %.2f of it the tone: %s", path, (double)o.samples / DECODER_RATE_HZ,
                 tone_share(&o), o.damage);
    assert_true(o.end.has_hash);
    outcome_free(&o);
}

TEST(telephone_formats_are_read_by_their_names)
{
    need_tools("ffmpeg");
    for (size_t i = 0; i < sizeof(made) / sizeof(made[0]); i++) {
        sh("ffmpeg -nostdin -v error -y -f lavfi -i sine=440:duration=3 -ac 1 %s %s",
           made[i].arguments, made[i].file);
        hear(made[i].file);
    }
}

/* No encoder of FFmpeg's makes it: Dialogic's own description, as sox has it. */
static void make_vox(const char *path)
{
    static const int steps[49] = {
        16,  17,  19,  21,  23,  25,  28,  31,  34,  37,  41,   45,   50,   55,   60,  66,  73,
        80,  88,  97,  107, 118, 130, 143, 157, 173, 190, 209,  230,  253,  279,  307, 337, 371,
        408, 449, 494, 544, 598, 658, 724, 796, 876, 963, 1060, 1166, 1282, 1411, 1552};
    static const int moves[8] = {-1, -1, -1, -1, 2, 4, 6, 8};
    FILE *f = fopen(path, "wb");
    int last = 0, at = 0;
    unsigned byte = 0;

    assert_non_null(f);
    for (int i = 0; i < 3 * 8000; i++) {
        const int want = (int)(1000 * sin(2 * M_PI * 440 * i / 8000)), step = steps[at];
        int gap = want - last, code = gap < 0 ? 8 : 0, moved = step / 8;

        gap = abs(gap);
        for (int bit = 4, part = step; bit; bit >>= 1, part /= 2)
            if (gap >= part) {
                code |= bit;
                gap -= part;
                moved += part;
            }
        last += code & 8 ? -moved : moved;
        last = last > 2047 ? 2047 : last < -2048 ? -2048 : last;
        at += moves[code & 7];
        at = at < 0 ? 0 : at > 48 ? 48 : at;
        byte = (byte << 4 | (unsigned)code) & 255;
        if (i % 2)
            fputc((int)byte, f);
    }
    assert_int_equal(fclose(f), 0);
}

TEST(dialogic_adpcm)
{
    make_vox("a.vox");
    hear("a.vox");
    sh("cp a.vox nameless"); /* of which nothing is known */
    struct outcome o = decode_path("nameless", NULL);

    assert_int_equal(o.rc, ERR_INPUT);
    outcome_free(&o);
}

/* What has a header is what that says, whatever its name. */
TEST(a_header_goes_before_a_name)
{
    need_tools("ffmpeg");
    sh("ffmpeg -nostdin -v error -y -f lavfi -i sine=440:duration=3 -ac 1 -f wav b.vox");
    hear("b.vox");
    sh("ffmpeg -nostdin -v error -y -f lavfi -i sine=440:duration=3 -ac 1 -f ogg b.sln");
    hear("b.sln");
}

/* By the name inside an archive, too. */
TEST(members)
{
    struct outcome o;

    need_tools("zip");
    make_vox("c.vox");
    sh("rm -f c.zip; (printf '\\003ds2'; head -c 500 /dev/zero) > dictation");
    sh("zip -q c.zip c.vox dictation");
    o = list_path("c.zip", NULL);
    assert_int_equal(o.rc, 0);
    assert_int_equal(o.entry_count, 2);
    assert_string_equal(o.entries[0].member, "c.vox");
    assert_int_equal(o.entries[0].code, 0);
    assert_int_equal(o.entries[1].code, ERR_INPUT);
    assert_non_null(strstr(o.entries[1].message, "DS2"));
    outcome_free(&o);
    o = decode_path("c.zip", &(struct ask){.member = "c.vox"});
    assert_int_equal(o.rc, 0);
    assert_true(tone_share(&o) > 0.8);
    outcome_free(&o);
}

TEST(what_nobody_decodes_is_named)
{
    static const struct {
        const char *name, *bytes, *says;
        size_t len;
    } rows[] = {
        {"x.ds2", "\3ds2\0\0", "SpeechExec", 6},
        {"x", "\3ds2\0\0", "DS2", 6},
        {"x.amr", "#!SILK_V3\0\1", "SILK", 11},
        {"x.amr", "\2#!SILK_V3\0\1", "WeChat", 12},
        {"x.dvf", "MS_VOICE\0\0", "Sony", 10},
        {"x.NMF", "\0\1\2", "NICE", 3},
        {"x.aup3", "SQLite format 3\0", "Audacity", 16},
        {"x.cda", "RIFF\x24\0\0\0CDDAfmt ", "CD", 16},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *says = undecodable(rows[i].name, rows[i].bytes, rows[i].len);

        if (!says || !strstr(says, rows[i].says))
            fail_msg("%s: %s", rows[i].name, says ? says : "nothing");
        assert_false(sniff_has_header(rows[i].bytes, rows[i].len));
    }
    assert_null(undecodable("x.nmf", "a list of words", 15));
    assert_null(undecodable("x.wav", "RIFF\x24\0\0\0WAVEfmt ", 16));
    assert_null(undecodable("nmf", "\0\1", 2));
}

/* Other programs use these endings, too. */
TEST(other_files_of_such_names_are_left)
{
    assert_int_equal(kind_of_file("POSIX/al.al", "# NOTE: Derived from POSIX.pm\n", 30),
                     MEDIA_OTHER);
    assert_int_equal(kind_of_file("castle.vox", "VOX \x96\0\0\0MAIN\0\0", 14), MEDIA_OTHER);
    assert_int_equal(kind_of_file("a.ul", "", 0), MEDIA_OTHER);
    assert_int_equal(kind_of_file("a.ul", "\xff\x7f\xff\xfe", 4), MEDIA_RECORDING);
    assert_int_equal(kind_of_file("a.ul", "PK\3\4\0\0", 6), MEDIA_ARCHIVE);
    assert_int_equal(kind_of_file("a.raw", "\xff\x7f\xff\xfe", 4), MEDIA_OTHER);
    assert_int_equal(headerless_of(".ul"), 0);
    assert_int_equal(headerless_of("a.ul/b"), 0);
    assert_null(headerless_at(0));
    assert_null(headerless_at(255));
}

TEST(the_decoder_names_them_too)
{
    struct outcome o;

    sh("printf '#!SILK_V3\\001\\002\\003' > wechat.amr");
    o = decode_path("wechat.amr", NULL);
    assert_int_equal(o.rc, ERR_INPUT);
    assert_non_null(strstr(o.err.msg, "SILK"));
    outcome_free(&o);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "decoder") == 0)
        return decoder_main(argc, argv);
    return suite_run(NULL, NULL);
}
