/* Sound stays where its container has it: files with late tracks, holes and damage, made by chance,
 * beside what the ffmpeg tool makes of them when it resamples by their clock.
 *
 * NIGHTSHIFT_SEED repeats a run, NIGHTSHIFT_CLOCK_FILES says how many files (20). */
#include <math.h>

#include "tests/unit/media/media_util.h"

#define RATE 16000
#define STEP 160    /* samples: 10 ms */
#define NEAR 5      /* steps: what is here must be there within 50 ms */
#define NEAR_WMA 10 /* its decoder is late by up to 0.1 s, which the tool's clock does not know */

static uint32_t seed;

static uint32_t chance(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* How a container is made, and what it can hold. */
static const struct kind {
    const char *name, *sound; /* extension; the sound's encoder */
    bool picture, holes;      /* it has a clock of pictures; it knows holes, and late tracks */
} kinds[] = {
    {"mkv", "-c:a aac", true, true},        {"mkv", "-c:a libopus", true, true},
    {"webm", "-c:a libopus", false, true},  {"mp4", "-c:a aac", true, true},
    {"mov", "-c:a pcm_s16le", true, false}, {"ts", "-c:a mp2", true, true},
    {"ts", "-c:a aac", true, true},         {"flv", "-c:a aac", true, true},
    {"flv", "-c:a libmp3lame", true, true}, {"ogg", "-c:a libvorbis", false, true},
    {"ogg", "-c:a libopus", false, true},   {"avi", "-c:a libmp3lame", true, false},
    {"avi", "-c:a pcm_s16le", true, false}, {"wav", "-c:a pcm_s16le", false, false},
    {"asf", "-c:a wmav2", true, true},      {"mxf", "-c:a pcm_s16le -ar 48000", true, false},
};

/* Bursts of a tone whose distances differ, so that none is taken for another. */
#define BURSTS "aevalsrc='0.4*sin(2*PI*%d*t)*lt(mod(t+0.02*t*t\\,1)\\,0.3)':s=%d:d=%d"

struct plan {
    const struct kind *kind;
    int seconds, rate;
    double late, hole_at, hole;
    bool damaged;
};

static struct plan plan_by_chance(void)
{
    static const int rates[] = {44100, 48000}; /* lower ones have encoders' delays of 60 ms */
    struct plan p = {.kind = &kinds[chance(sizeof(kinds) / sizeof(kinds[0]))]};

    p.rate = strstr(p.kind->sound, "opus")      ? 48000
             : strcmp(p.kind->name, "flv") == 0 ? 44100
                                                : rates[chance(2)];
    p.seconds = 8 + (int)chance(12);
    if (p.kind->picture && chance(2))
        p.late = 0.1 * chance(80);
    if (p.kind->holes && chance(3)) {
        p.hole_at = 1 + 0.1 * chance((uint32_t)p.seconds * 10 - 20);
        p.hole = 0.1 * (1 + chance(chance(2) ? 10 : 250));
    }
    p.damaged = p.kind->holes && chance(3) == 0;
    return p;
}

static void make(const struct plan *p, const char *path)
{
    const double all = p->seconds + p->late + p->hole;
    char picture[200] = "", codec[80] = "";

    if (p->kind->picture) {
        snprintf(picture, sizeof(picture), "-f lavfi -i testsrc=size=%s:rate=25:d=%.1f",
                 strcmp(p->kind->name, "mxf") ? "64x48" : "720x608", all);
        snprintf(codec, sizeof(codec), "-map 0:v -c:v %s",
                 strcmp(p->kind->name, "flv") == 0 ? "flv"
                 : strcmp(p->kind->name, "ts") == 0 || strcmp(p->kind->name, "mxf") == 0
                     ? "mpeg2video"
                     : "mpeg4");
    }
    sh("ffmpeg -v error -nostdin -y %s -itsoffset %.1f -f lavfi -i " BURSTS
       " -filter_complex \"[%d:a]asetpts='PTS+gte(T,%.1f)*%.1f/TB'[a]\" %s -map '[a]' %s -bitexact "
       "'%s'",
       picture, p->late, 500 + (int)chance(5) * 100, p->rate, p->seconds, p->kind->picture ? 1 : 0,
       p->hole_at + p->late, p->hole, codec, p->kind->sound, path);
}

/* A run of its bytes is something else. */
static void damage(const char *path)
{
    size_t len, from, n;
    uint8_t *data = slurp(path, &len);
    FILE *out = fopen(path, "wb");

    from = len / 3 + chance((uint32_t)(len / 3));
    n = len / 100 + chance((uint32_t)(len / 20));
    for (size_t i = from; i < from + n; i++)
        data[i] = (uint8_t)chance(256);
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, len, out), len);
    fclose(out);
    free(data);
}

/* Which steps of 10 ms are loud. */
static bool *loud_steps(const int16_t *pcm, size_t n, size_t stride, size_t *count)
{
    bool *ret = calloc(n / STEP + 1, sizeof(*ret));

    assert_non_null(ret);
    *count = n / STEP;
    for (size_t i = 0; i < *count; i++) {
        double sum = 0;

        for (size_t k = 0; k < STEP; k++)
            sum += fabs((double)pcm[(i * STEP + k) * stride]);
        ret[i] = sum / STEP > 1500;
    }
    return ret;
}

/* Steps of a that are loud without a loud one of b nearby. */
static size_t astray(const bool *a, size_t na, const bool *b, size_t nb, size_t near)
{
    size_t ret = 0;

    for (size_t i = 0; i < na; i++) {
        bool found = !a[i];

        for (size_t k = i > near ? i - near : 0; !found && k <= i + near && k < nb; k++)
            found = b[k];
        ret += !found;
    }
    return ret;
}

/* What the file was made to say; free it. */
static bool *said_steps(const struct plan *p, size_t *count)
{
    const double all = p->seconds + p->late + p->hole;
    bool *ret;

    *count = (size_t)(all * RATE / STEP);
    ret = calloc(*count + 1, sizeof(*ret));
    assert_non_null(ret);
    for (size_t i = 0; i < *count; i++) {
        double t = (double)i * STEP / RATE - p->late;
        const bool silent = t < 0 || (t >= p->hole_at && t < p->hole_at + p->hole);

        t -= t >= p->hole_at ? p->hole : 0;
        ret[i] = !silent && fmod(t + 0.02 * t * t, 1) < 0.3;
    }
    return ret;
}

/* What the tool has; free it. It counts a transport stream's time from the streams that it reads,
 * so that it reads the pictures, too. */
static bool *tool_steps(const char *path, uint32_t track, size_t *count)
{
    size_t len;
    bool *ret;
    uint8_t *raw;

    sh("ffmpeg -v quiet -nostdin -y -analyzeduration 3600M -probesize 200M "
       "-dts_delta_threshold 100000 -i '%s' -map 0:a:%u -af "
       "aresample=async=1:first_pts=0:min_hard_comp=0.03 -ac 1 -ar 16000 -f s16le clock.raw -map "
       "0:v? -c copy -map 0:a:%u -f null - || test -s clock.raw",
       path, track, track);
    raw = slurp("clock.raw", &len);
    ret = loud_steps((int16_t *)(void *)raw, len / 2, 1, count);
    free(raw);
    return ret;
}

static void assert_as_clock(const int16_t *pcm, size_t n, size_t stride, const char *path,
                            uint32_t track, const struct plan *p)
{
    const size_t near = strstr(p->kind->sound, "wma") ? NEAR_WMA : NEAR;
    /* An Ogg has a hole where a page ends; an FLV does not tell of its encoder's delay. */
    const bool by_tool = p->damaged || !p->kind->holes || strcmp(p->kind->name, "ogg") == 0 ||
                         strcmp(p->kind->name, "flv") == 0;
    size_t ours, theirs, wrong;
    bool *a = loud_steps(pcm, n, stride, &ours);
    bool *b = by_tool ? tool_steps(path, track, &theirs) : said_steps(p, &theirs);

    wrong = astray(a, ours, b, theirs, near) + astray(b, theirs, a, ours, near);
    if (wrong > 0)
        print_error("%s (%s, %d Hz, %d s, late %.1f, hole of %.1f at %.1f%s): %zu steps astray, "
                    "%.2f s, not %.2f s\n",
                    path, p->kind->sound, p->rate, p->seconds, p->late, p->hole, p->hole_at,
                    p->damaged ? ", damaged" : "", wrong, (double)n / RATE,
                    (double)theirs * STEP / RATE);
    /* A hole begins and ends with an encoder's frame; decoders differ in what they make of noise.
     */
    assert_in_range(wrong, 0, p->damaged ? 5 : 2);
    free(a);
    free(b);
}

/* Whoever goes on in the middle hears the same. */
static void assert_resumes(const char *path, const struct outcome *whole)
{
    struct ask ask = {.skip_samples = (int64_t)chance((uint32_t)whole->samples)};
    struct outcome o = decode_path(path, &ask);

    assert_int_equal(o.rc, 0);
    assert_int_equal(o.first_sample, ask.skip_samples);
    assert_int_equal(o.samples, whole->samples - (size_t)ask.skip_samples);
    assert_memory_equal(o.pcm, whole->pcm + ask.skip_samples, o.samples * sizeof(*o.pcm));
    outcome_free(&o);
}

static void one_file(void)
{
    struct plan p = plan_by_chance();
    struct outcome o;
    char path[40];

    snprintf(path, sizeof(path), "clock.%s", p.kind->name);
    make(&p, path);
    if (p.damaged)
        damage(path);
    o = decode_path(path, NULL);
    if (o.rc != 0)
        print_error("%s: %s\n", path, o.err.msg);
    assert_int_equal(o.rc, 0);
    if (!p.damaged && o.damage[0])
        print_error("%s (%s): %s\n", path, p.kind->sound, o.damage);
    if (!p.damaged)
        assert_string_equal(o.damage, "");
    assert_as_clock(o.pcm, o.samples, 1, path, 0, &p);
    assert_resumes(path, &o);
    outcome_free(&o);
}

static void begin(void)
{
    const char *text = getenv("NIGHTSHIFT_SEED");

    need_tools("ffmpeg");
    seed = text ? (uint32_t)strtoul(text, NULL, 10) : 20261129;
    print_message("NIGHTSHIFT_SEED=%u\n", seed);
}

TEST(sound_is_where_its_clock_has_it)
{
    const char *files = getenv("NIGHTSHIFT_CLOCK_FILES");

    begin();
    for (unsigned long i = files ? strtoul(files, NULL, 10) : 20; i > 0; i--) {
        print_message("file of seed %u\n", seed);
        one_file();
    }
}

/* Each track by its own clock, whichever of them begins late, has a hole, or ends first. */
TEST(tracks_are_side_by_side_by_their_clocks)
{
    const struct kind mkv = {"mkv", "two tracks", true, true};

    begin();
    for (int i = 0; i < 4; i++) {
        struct plan p[2] = {{.kind = &mkv, .rate = 44100, .seconds = 12},
                            {.kind = &mkv, .rate = 48000, .seconds = 15}};
        struct outcome o;

        p[0].late = 0.1 * (1 + chance(50));
        p[1].hole_at = 1 + 0.1 * chance(40);
        p[1].hole = 0.1 * (1 + chance(900));
        sh("ffmpeg -v error -nostdin -y -f lavfi -i testsrc=size=64x48:rate=5:d=20 -itsoffset %.1f "
           "-f "
           "lavfi -i " BURSTS " -f lavfi -i " BURSTS
           " -filter_complex \"[2:a]asetpts='PTS+gte(T,%.1f)*%.1f/TB'[h]\" -map 0:v -map %s -map "
           "%s "
           "-c:v mpeg4 -c:a aac -bitexact two.mkv",
           p[0].late, 500, p[0].rate, p[0].seconds, 800, p[1].rate, p[1].seconds, p[1].hole_at,
           p[1].hole, i % 2 ? "1:a" : "'[h]'", i % 2 ? "'[h]'" : "1:a");
        o = decode_path("two.mkv", &(struct ask){.hearing = {HEARING_SPLIT, 0, HEARING_ALL}});
        assert_int_equal(o.rc, 0);
        assert_string_equal(o.damage, "");
        assert_int_equal(o.info.source_count, 2);
        for (uint32_t k = 0; k < 2; k++)
            assert_as_clock(o.pcm + k + 1, o.samples, 3, "two.mkv", k, &p[i % 2 ? k : 1 - k]);
        outcome_free(&o);
    }
}

/* A broadcast, or a camera, whose sound is switched on long after the picture. */
TEST(sound_may_begin_minutes_behind_the_picture)
{
    static const char *const files[] = {"late.ts", "late.flv", "late.mkv", "late.mp4"};

    begin();
    for (size_t i = 0; i < 4; i++) {
        struct outcome o;

        sh("ffmpeg -v error -nostdin -y -f lavfi -i testsrc=size=64x48:rate=5:d=210 -itsoffset 200 "
           "-f "
           "lavfi -i sine=d=8:r=44100 -map 0 -map 1 -c:v %s -c:a %s %s",
           i == 0   ? "mpeg4"
           : i == 1 ? "flv"
                    : "mpeg4",
           i == 0 ? "mp2" : "aac", files[i]);
        o = decode_path(files[i], NULL);
        assert_int_equal(o.rc, 0);
        assert_in_range(o.samples, 207.9 * RATE, 208.1 * RATE);
        for (size_t k = 0; k < (size_t)(199.9 * RATE); k++)
            assert_int_equal(o.pcm[k], 0);
        assert_true(abs(o.pcm[(size_t)(204 * RATE)]) + abs(o.pcm[(size_t)(204 * RATE) + 10]) > 100);
        outcome_free(&o);
    }
}

/* A file that was appended to another: its clock begins anew, and nothing of either is missing. */
TEST(a_clock_that_begins_anew_goes_on)
{
    static const char *const offsets[] = {"0", "36000", "7"};
    struct outcome o;

    begin();
    for (size_t i = 0; i < 3; i++) {
        sh("ffmpeg -v error -nostdin -y -f lavfi -i " BURSTS " -c:a mp2 -bitexact one.ts", 500,
           48000, 6);
        sh("ffmpeg -v error -nostdin -y -f lavfi -i " BURSTS
           " -c:a mp2 -bitexact -output_ts_offset %s two.ts && cat one.ts two.ts >both.ts",
           700, 48000, 5, offsets[i]);
        o = decode_path("both.ts", NULL);
        assert_int_equal(o.rc, 0);
        assert_string_equal(o.damage, "");
        assert_in_range(o.samples, (i == 2 ? 11.5 : 10.9) * RATE, (i == 2 ? 12.2 : 11.2) * RATE);
        outcome_free(&o);
    }
    sh("ffmpeg -v error -nostdin -y -f lavfi -i " BURSTS " -c:a flac -bitexact one.oga", 500, 16000,
       6);
    sh("cat one.oga one.oga >both.oga");
    o = decode_path("both.oga", NULL);
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.damage, "");
    assert_in_range(o.samples, 11.9 * RATE, 12.1 * RATE);
    outcome_free(&o);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "decoder") == 0)
        return decoder_main(argc, argv);
    return suite_run(NULL, NULL);
}
