/* Channels of rooms, of music and of damaged recordings are one sound; a microphone for each is
 * not. Made recordings of many shapes are counted by what --channels=auto makes of them:
 *
 *     test_channel_rooms [N [mp3]]     N of each shape (2), and a table of what was decided
 * wrongly; with mp3, after joint stereo of 32 kbit/s (ffmpeg)
 *
 * Rooms are boxes: a direct sound, six walls, and a tail that decays, of each person at each
 * microphone. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/random.h"
#include "tests/common/test.h"
#include "workers/audio/channels.h"

#define RATE 16000
#define SECONDS 60
#define SAMPLES (SECONDS * RATE)
#define PEOPLE 4
#define TAIL_TAPS 40
#define SOUND_M_S 343.0

static float said[PEOPLE][SAMPLES], heard[2][SAMPLES], scratch[SAMPLES];
static uint64_t seed;

static double between(double low, double high)
{
    return low + (high - low) * (double)random_below(&seed, 1000001) / 1000000;
}

static bool chance(double p) { return between(0, 1) < p; }
static double gain_of(double db) { return pow(10, db / 20); }

/* ---- who says what */

/* Noise with most of it below 600 Hz, in syllables that are not equally loud. Added. */
static void phrase(float *to, size_t from, size_t n)
{
    const double loud = gain_of(between(-5, 3)), rate = between(3, 5.5);
    double low = 0, lower = 0, phase = 0, strong = 1;

    for (size_t i = from; i < from + n && i < SAMPLES; i++) {
        phase += rate / RATE;
        if (phase >= 1) {
            phase -= 1;
            strong = gain_of(between(-12, 2));
        }
        low += 0.21 * (between(-1, 1) - low);
        lower += 0.21 * (low - lower);
        to[i] += (float)(loud * strong * sin(M_PI * phase) * (2.2 * lower + 0.25 * low));
    }
}

/* From one moment to another: phrases with breaths between. */
static void turn(float *to, double from_s, double to_s)
{
    for (double at = from_s; at < to_s;) {
        double s = between(0.6, 3.5);

        s = s < to_s - at ? s : to_s - at;
        phrase(to, (size_t)(at * RATE), (size_t)(s * RATE));
        at += s + between(0.12, 0.7);
    }
}

/* One after the other, now and then two at once. share: of the first one's turns. */
static void conversation(uint32_t people, double share)
{
    memset(said, 0, sizeof(said));
    for (double at = between(0, 2); at < SECONDS;) {
        uint32_t who = chance(share) ? 0 : 1 + (uint32_t)random_below(&seed, people - 1);
        double s = between(1.5, 9);

        turn(said[who], at, at + s < SECONDS ? at + s : SECONDS);
        at += s + between(-0.8, 1.2);
    }
}

/* ---- rooms */

struct place {
    double x, y, z;
};

struct microphone {
    struct place at;
    double axis; /* radians in the plane */
    bool cardioid;
};

struct room {
    struct place size;
    double wall; /* what comes back from one */
    double rt60_s;
};

static void add(float *to, const float *from, double gain, size_t delay)
{
    for (size_t i = delay; i < SAMPLES; i++)
        to[i] += (float)gain * from[i - delay];
}

static double distance(struct place a, struct place b)
{
    return sqrt((a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) + (a.z - b.z) * (a.z - b.z));
}

static void add_image(float *to, const float *dry, struct place from, const struct microphone *m,
                      double gain)
{
    double d = distance(from, m->at);
    double turned = atan2(from.y - m->at.y, from.x - m->at.x) - m->axis;

    d = d < 0.05 ? 0.05 : d;
    if (m->cardioid)
        gain *= 0.5 + 0.5 * cos(turned);
    add(to, dry, gain / d, (size_t)lround(d / SOUND_M_S * RATE));
}

static void hear_in(float *to, const float *dry, struct place from, const struct microphone *m,
                    const struct room *r)
{
    const double images[6][3] = {
        {-from.x, from.y, from.z}, {2 * r->size.x - from.x, from.y, from.z},
        {from.x, -from.y, from.z}, {from.x, 2 * r->size.y - from.y, from.z},
        {from.x, from.y, -from.z}, {from.x, from.y, 2 * r->size.z - from.z}};
    const double volume = r->size.x * r->size.y * r->size.z;
    /* As loud as the direct sound at the critical distance. */
    const double diffuse = 1 / (0.057 * sqrt(volume / r->rt60_s));
    double sum = 0, gains[TAIL_TAPS];
    size_t delays[TAIL_TAPS];

    add_image(to, dry, from, m, 1);
    for (int i = 0; i < 6; i++)
        add_image(to, dry, (struct place){images[i][0], images[i][1], images[i][2]}, m, r->wall);
    for (int i = 0; i < TAIL_TAPS; i++) {
        double t = 0.012 + r->rt60_s * 0.7 * (i + between(0, 1)) / TAIL_TAPS;

        delays[i] = (size_t)(t * RATE);
        gains[i] = gain_of(-60 * t / r->rt60_s) * (chance(0.5) ? 1 : -1);
        sum += gains[i] * gains[i];
    }
    for (int i = 0; i < TAIL_TAPS; i++)
        add(to, dry, 0.7 * diffuse * gains[i] / sqrt(sum), delays[i]);
}

static struct room a_room(double driest, double longest)
{
    struct room r = {{between(3, 8), between(3, 7), between(2.4, 3.2)}, between(0.35, 0.75), 0};

    r.rt60_s = between(driest, longest);
    return r;
}

static struct place around(struct place of, double angle, double d)
{
    return (struct place){of.x + d * cos(angle), of.y + d * sin(angle), of.z + between(-0.2, 0.2)};
}

static struct place within(struct place p, const struct room *r)
{
    p.x = fmin(fmax(p.x, 0.1), r->size.x - 0.1);
    p.y = fmin(fmax(p.y, 0.1), r->size.y - 0.1);
    return p;
}

static struct place middle(const struct room *r)
{
    return (struct place){r->size.x * between(0.35, 0.65), r->size.y * between(0.35, 0.65), 1.1};
}

static void noises(double quiet_db, double loud_db)
{
    for (int c = 0; c < 2; c++) {
        const double g = gain_of(between(quiet_db, loud_db)) * 1.7;

        for (size_t i = 0; i < SAMPLES; i++)
            heard[c][i] += (float)(g * between(-1, 1));
    }
}

/* As loud as people record: the louder channel's peak from -1 to -14 dBFS. */
static void level(void)
{
    double peak = 1e-9, g;

    for (int c = 0; c < 2; c++)
        for (size_t i = 0; i < SAMPLES; i++)
            peak = fmax(peak, fabs((double)heard[c][i]));
    g = gain_of(between(-14, -1)) / peak;
    for (int c = 0; c < 2; c++)
        for (size_t i = 0; i < SAMPLES; i++)
            heard[c][i] *= (float)g;
}

static void pair(struct microphone m[2], struct place at, double apart_m, double angle)
{
    const double axis = between(0, 2 * M_PI);

    for (int c = 0; c < 2; c++) {
        m[c].at = around(at, axis + (c ? 0 : M_PI), apart_m / 2);
        m[c].at.z = at.z;
        m[c].axis = axis + M_PI / 2 + (c ? -angle : angle);
        m[c].cardioid = angle > 0;
    }
}

static void room_of(const struct room *r, const struct microphone m[2], const struct place *people,
                    uint32_t n)
{
    for (uint32_t p = 0; p < n; p++)
        for (int c = 0; c < 2; c++)
            hear_in(heard[c], said[p], within(people[p], r), &m[c], r);
    level();
    noises(-80, -58);
}

/* ---- shapes */

static void spaced_pair(void)
{
    const struct room r = a_room(0.2, 0.9);
    const struct place at = middle(&r);
    const uint32_t n = 2 + (uint32_t)random_below(&seed, 3);
    struct microphone m[2];
    struct place who[PEOPLE];

    pair(m, at, between(0.15, 1), 0);
    for (uint32_t p = 0; p < n; p++)
        who[p] = around(at, between(0, 2 * M_PI), between(0.8, 2.5));
    conversation(n, between(0.2, 0.7));
    room_of(&r, m, who, n);
}

static void crossed_pair(void)
{
    const struct room r = a_room(0.2, 0.9);
    const struct place at = middle(&r);
    const uint32_t n = 2 + (uint32_t)random_below(&seed, 3);
    struct microphone m[2];
    struct place who[PEOPLE];

    pair(m, at, between(0.005, 0.2), between(M_PI / 4, M_PI / 3));
    for (uint32_t p = 0; p < n; p++)
        who[p] = around(at, between(0, 2 * M_PI), between(0.6, 2.5));
    conversation(n, between(0.2, 0.7));
    room_of(&r, m, who, n);
}

/* A recorder with crossed microphones on the table, one person on either side of it. */
static void recorder_between(void)
{
    const struct room r = a_room(0.15, 0.5);
    const struct place at = middle(&r);
    struct microphone m[2];
    struct place who[PEOPLE];

    pair(m, at, between(0.005, 0.03), between(M_PI / 4, M_PI / 3));
    for (int p = 0; p < 2; p++)
        who[p] = around(at, m[p].axis + (p ? -1 : 1) * between(0, 0.9), between(0.35, 1.2));
    conversation(2, between(0.3, 0.7));
    room_of(&r, m, who, 2);
}

static void near_and_far(void)
{
    const struct room r = a_room(0.2, 0.9);
    const struct place at = middle(&r);
    struct microphone m[2];
    struct place who[PEOPLE];

    pair(m, at, between(0.1, 0.6), chance(0.5) ? 0 : M_PI / 4);
    who[0] = around(at, between(0, 2 * M_PI), between(0.4, 0.8));
    who[1] = around(at, between(0, 2 * M_PI), between(2, 5));
    conversation(2, between(0.3, 0.7));
    room_of(&r, m, who, 2);
}

static void put_both(const float *from, double left, double right)
{
    add(heard[0], from, left, 0);
    add(heard[1], from, right, 0);
}

/* Notes of an instrument on one beat, with rests. */
static void instrument(double left, double right)
{
    const double beat = between(0.25, 0.6), base = between(90, 500);
    const double play = between(0.5, 0.95);

    memset(scratch, 0, sizeof(scratch));
    for (double at = 0; at < SECONDS; at += beat) {
        const double f = base * pow(2, (double)random_below(&seed, 13) / 12);
        const double g = gain_of(between(-8, 0));

        if (!chance(play))
            continue;
        for (size_t i = 0; i < (size_t)(beat * 1.5 * RATE); i++) {
            size_t k = (size_t)(at * RATE) + i;

            if (k < SAMPLES)
                scratch[k] += (float)(g * exp(-3.0 * (double)i / RATE / beat) *
                                      (sin(2 * M_PI * f * (double)i / RATE) +
                                       0.4 * sin(4 * M_PI * f * (double)i / RATE)));
        }
    }
    put_both(scratch, left, right);
}

static void band(double db)
{
    const uint32_t n = 2 + (uint32_t)random_below(&seed, 4);

    for (uint32_t i = 0; i < n; i++) {
        const double pan = i < 2 ? i : between(0, 1), g = gain_of(db + between(-6, 0));

        instrument(g * cos(pan * M_PI / 2), g * sin(pan * M_PI / 2));
    }
}

static void music_under_speech(void)
{
    conversation(2, between(0.3, 0.9));
    put_both(said[0], 0.7, 0.7);
    put_both(said[1], 0.7, 0.7);
    band(between(-16, 0));
    level();
    noises(-90, -70);
}

static void song(void)
{
    memset(said, 0, sizeof(said));
    turn(said[0], between(5, 15), SECONDS - between(1, 10));
    put_both(said[0], 0.7, 0.7);
    band(between(-6, 6));
    level();
}

static void one_voice_twice(double left, double right)
{
    conversation(2, between(0.3, 0.9));
    put_both(said[0], left, right);
    put_both(said[1], left, right);
}

/* Cloth, wind, handling: on one microphone of dual mono. */
static void rustling_in_one(void)
{
    const double g = gain_of(between(-15, 9));

    one_voice_twice(0.7, 0.7);
    for (double at = between(0, 3); at < SECONDS; at += between(0.5, 6)) {
        const double s = between(0.1, 2);
        double low = 0;

        for (size_t i = 0; i < (size_t)(s * RATE); i++) {
            size_t k = (size_t)(at * RATE) + i;

            low += 0.15 * (between(-1, 1) - low);
            if (k < SAMPLES)
                heard[1][k] += (float)(g * low * sin(M_PI * (double)i / (s * RATE)));
        }
    }
    level();
    noises(-80, -60);
}

static void one_delayed(void)
{
    conversation(2, between(0.3, 0.9));
    for (int p = 0; p < 2; p++) {
        put_both(said[p], 0.7, 0);
        add(heard[1], said[p], 0.7, 0);
    }
    memset(scratch, 0, sizeof(scratch));
    add(scratch, heard[1], gain_of(between(-8, 0)), (size_t)(between(0.001, 0.25) * RATE));
    memcpy(heard[1], scratch, sizeof(scratch));
    level();
    noises(-80, -60);
}

static void dropouts(void)
{
    one_voice_twice(0.7, 0.7);
    level();
    noises(-80, -60);
    for (int c = 0; c < 2; c++)
        for (double at = between(0, 5); at < SECONDS; at += between(1, 12)) {
            const size_t from = (size_t)(at * RATE), n = (size_t)(between(0.02, 2) * RATE);

            for (size_t i = from; i < from + n && i < SAMPLES; i++)
                heard[c][i] = 0;
        }
}

static void inverted(void)
{
    one_voice_twice(0.7, -0.7 * gain_of(between(-12, 0)));
    level();
    noises(-80, -55);
}

static void unequal(void)
{
    one_voice_twice(0.7, 0.7 * gain_of(between(-30, 0)));
    level();
    noises(-80, -60);
}

/* Two hosts of a produced show, moved to the sides. */
static void panned(void)
{
    conversation(3, between(0.3, 0.6));
    for (int p = 0; p < 3; p++) {
        const double by = p == 2 ? 0.5 : p == 0 ? between(0.15, 0.4) : between(0.6, 0.85);

        put_both(said[p], cos(by * M_PI / 2), sin(by * M_PI / 2));
    }
    level();
    noises(-90, -60);
}

static double loudness(const float *of)
{
    double sum = 0;

    for (size_t i = 0; i < SAMPLES; i++)
        sum += (double)of[i] * of[i];
    return 10 * log10(sum + 1e-12);
}

/* Two people at a table, a microphone each. How much softer a microphone has the other one than its
 * own, if they spoke equally long, is drawn with the room; at least `apart_db`. */
static void microphone_each(double apart_db)
{
    double least, own[2], others[2];
    size_t spoken[2] = {0};

    conversation(2, between(0.2, 0.8));
    for (int p = 0; p < 2; p++)
        for (size_t i = 0; i < SAMPLES; i++)
            spoken[p] += said[p][i] != 0;
    do {
        const struct room r = a_room(0.15, 0.6);
        const struct place at = middle(&r);
        const double axis = between(0, 2 * M_PI), apart = between(1, 2.5);
        struct microphone m[2];
        struct place who[2];

        for (int c = 0; c < 2; c++) {
            const double side = axis + (c ? M_PI : 0);

            who[c] = within(around(at, side, apart / 2), &r);
            m[c].at = around(who[c], side + M_PI + between(-0.4, 0.4), between(0.1, 0.3));
            m[c].axis = side;
            m[c].cardioid = chance(0.6);
        }
        for (int c = 0; c < 2; c++) {
            memset(heard[c], 0, sizeof(heard[c]));
            hear_in(heard[c], said[c], who[c], &m[c], &r);
            own[c] = loudness(heard[c]) - 10 * log10((double)spoken[c]);
            memset(scratch, 0, sizeof(scratch));
            hear_in(scratch, said[1 - c], who[1 - c], &m[c], &r);
            others[c] = loudness(scratch) - 10 * log10((double)spoken[1 - c]);
            add(heard[c], scratch, 1, 0);
        }
        least = fmin(own[0] - others[0], own[1] - others[1]);
    } while (least < apart_db);
    level();
    noises(-80, -58);
    memset(scratch, 0, sizeof(scratch));
    add(scratch, heard[1], gain_of(between(-15, 0)), 0);
    memcpy(heard[1], scratch, sizeof(scratch));
}

static void close_microphones(void) { microphone_each(15); }

/* No air between them, but a cable or a mixer that leaks. */
static void leaking_mixer(void)
{
    const double leak = gain_of(between(-45, -20));

    conversation(2, between(0.2, 0.8));
    put_both(said[0], 0.7, 0.7 * leak);
    put_both(said[1], 0.7 * leak, 0.7);
    level();
    noises(-80, -55);
}

/* Both ends of a call, with the echo of one in the other. */
static void telephone(void)
{
    conversation(2, between(0.15, 0.85));
    put_both(said[0], 0.7, 0);
    put_both(said[1], 0, 0.7 * gain_of(between(-12, 0)));
    if (chance(0.5))
        add(heard[1], said[0], 0.7 * gain_of(between(-40, -24)),
            (size_t)(between(0.05, 0.3) * RATE));
    level();
    noises(-90, -55);
}

/* With music before, as shows have it. */
static void microphones_after_music(void)
{
    const size_t until = (size_t)(between(3, 8) * RATE);

    band(0);
    for (int c = 0; c < 2; c++)
        memset(heard[c] + until, 0, (SAMPLES - until) * sizeof(float));
    conversation(2, between(0.3, 0.7));
    for (int p = 0; p < 2; p++) {
        memset(said[p], 0, until * sizeof(float));
        put_both(said[p], p ? 0.02 : 1, p ? 1 : 0.02);
    }
    level();
    noises(-80, -60);
}

static const struct shape {
    const char *name;
    void (*make)(void);
    bool split;
    double may_be_wrong; /* of them: what is measured, and no more */
} shapes[] = {
    {"room, spaced pair", spaced_pair, false, 0},
    {"room, crossed pair", crossed_pair, false, 0},
    {"recorder between two people", recorder_between, false, 0},
    {"room, near and far", near_and_far, false, 0},
    {"music to the sides of speech", music_under_speech, false, 0},
    {"song", song, false, 0.1},
    {"dual mono, rustling in one", rustling_in_one, false, 0},
    {"dual mono, one later", one_delayed, false, 0},
    {"dual mono, dropouts in both", dropouts, false, 0},
    {"dual mono, one inverted", inverted, false, 0},
    {"dual mono, one softer", unequal, false, 0},
    {"three voices, panned", panned, false, 0},
    {"microphone each, one room", close_microphones, true, 0.1},
    {"microphone each, leaking mixer", leaking_mixer, true, 0},
    {"both ends of a call", telephone, true, 0.05},
    {"microphone each, after music", microphones_after_music, true, 0},
};
#define SHAPES (sizeof(shapes) / sizeof(shapes[0]))

static bool is_split(void)
{
    int16_t pcm[2][CHANNEL_FRAME];
    const int16_t *frame[2] = {pcm[0], pcm[1]};
    struct channel_choice *c;
    struct err e = {0};
    bool ret;

    assert_ok(channel_choice_new(2, &c, &e), e);
    for (size_t at = 0; at + CHANNEL_FRAME <= SAMPLES; at += CHANNEL_FRAME) {
        for (int k = 0; k < 2; k++)
            for (size_t i = 0; i < CHANNEL_FRAME; i++)
                pcm[k][i] = (int16_t)lround(fmin(fmax(heard[k][at + i] * 32767.0, -32768), 32767));
        channel_choice_feed(c, frame);
    }
    ret = channel_choice_voices(c) != 0;
    channel_choice_free(c);
    return ret;
}

static uint32_t each = 2;
static bool coded;

/* There and back by an encoder that takes two channels for one where it can. */
static void code(void)
{
    FILE *f = fopen("room.raw", "wb");

    assert_non_null(f);
    for (size_t i = 0; i < SAMPLES; i++)
        for (int c = 0; c < 2; c++)
            fwrite(&heard[c][i], sizeof(float), 1, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(
        system("ffmpeg -v error -nostdin -y -f f32le -ar 16000 -ac 2 -i room.raw -c:a libmp3lame "
               "-b:a 32k -joint_stereo 1 room.mp3 && ffmpeg -v error -nostdin -y -i room.mp3 "
               "-f f32le room.raw"),
        0);
    f = fopen("room.raw", "rb");
    assert_non_null(f);
    for (size_t i = 0; i < SAMPLES; i++)
        for (int c = 0; c < 2; c++)
            if (fread(&heard[c][i], sizeof(float), 1, f) != 1)
                heard[c][i] = 0;
    fclose(f);
}

TEST(rooms_are_mixed_and_microphones_are_not)
{
    uint32_t too_many = 0;

    for (size_t s = 0; s < SHAPES; s++) {
        uint32_t wrong = 0;

        for (uint32_t i = 0; i < each; i++) {
            seed = 1000 * s + i + 1;
            memset(heard, 0, sizeof(heard));
            shapes[s].make();
            if (coded)
                code();
            wrong += is_split() != shapes[s].split;
        }
        printf("%-32s %-6s %3u of %u wrong\n", shapes[s].name, shapes[s].split ? "split" : "mixed",
               wrong, each);
        too_many += wrong > shapes[s].may_be_wrong * each;
    }
    assert_int_equal(too_many, 0);
}

int main(int argc, char **argv)
{
    each = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : each;
    coded = argc > 2;
    return suite_run(NULL, NULL);
}
