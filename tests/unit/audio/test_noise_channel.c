/* A channel of noise beside a voice is told from one that may hold a voice: made signals of each
 * kind, on either side, at many levels. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/random.h"
#include "tests/common/test.h"
#include "workers/audio/babble.h"
#include "workers/audio/channels.h"
#include "workers/audio/steady.h"

#define RATE 16000
#define SECONDS 30
#define SAMPLES (SECONDS * RATE)
#define CHANNELS 8

static float voice[SAMPLES], noise[SAMPLES];
static int16_t pcm[CHANNELS][SAMPLES];
static uint64_t seed;

static double drawn(double low, double high)
{
    return low + (high - low) * (double)random_below(&seed, 1000001) / 1000000;
}

static double power(const float *x)
{
    double sum = 0;

    for (size_t i = 0; i < SAMPLES; i++)
        sum += (double)x[i] * x[i];
    return sum / SAMPLES;
}

/* ---- kinds of noise; how loud does not matter */

static void white(void)
{
    for (size_t i = 0; i < SAMPLES; i++)
        noise[i] = (float)drawn(-1, 1);
}

static void brown(void)
{
    double y = 0;

    for (size_t i = 0; i < SAMPLES; i++)
        noise[i] = (float)(y = 0.999 * y + drawn(-1, 1));
}

/* Several first-order filters, an octave or two apart (of white noise, as usual). */
static void pink(void)
{
    double a = 0, b = 0, c = 0;

    for (size_t i = 0; i < SAMPLES; i++) {
        const double w = drawn(-1, 1);

        a = 0.99765 * a + w * 0.0990460;
        b = 0.96300 * b + w * 0.2965164;
        c = 0.57000 * c + w * 1.0526913;
        noise[i] = (float)(a + b + c + w * 0.1848);
    }
}

static double mains(void) { return (random_below(&seed, 2) ? 50 : 60) + drawn(-0.4, 0.4); }

static void square_hum(void)
{
    const double hz = mains();

    for (size_t i = 0; i < SAMPLES; i++)
        noise[i] = sin(2 * M_PI * hz * (double)i / RATE) > 0 ? 1 : -1;
}

static void harmonic_hum(void)
{
    const double hz = mains(), phase = drawn(0, 6);

    for (size_t i = 0; i < SAMPLES; i++) {
        noise[i] = 0;
        for (int k = 1; k < 14; k++)
            noise[i] += (float)(sin(2 * M_PI * hz * k * (double)i / RATE + k * k * phase) / k);
    }
}

static void sine_hum(void)
{
    const double hz = mains();

    for (size_t i = 0; i < SAMPLES; i++)
        noise[i] = (float)sin(2 * M_PI * hz * (double)i / RATE);
}

/* A pulse in each period, as dimmers make them. */
static void buzz(void)
{
    const double hz = 2 * mains();
    double phase = 0;

    for (size_t i = 0; i < SAMPLES; i++) {
        phase += hz / RATE;
        noise[i] = (float)((phase >= 1) + drawn(-0.001, 0.001));
        phase -= phase >= 1;
    }
}

static void tone(void)
{
    const double hz = 60 * pow(2, drawn(0, 6.8));

    for (size_t i = 0; i < SAMPLES; i++)
        noise[i] = (float)sin(2 * M_PI * hz * (double)i / RATE);
}

/* Two that beat. */
static void carriers(void)
{
    const double hz = drawn(300, 6000), other = hz + drawn(0.3, 3);

    for (size_t i = 0; i < SAMPLES; i++)
        noise[i] = (float)(sin(2 * M_PI * hz * (double)i / RATE) +
                           0.9 * sin(2 * M_PI * other * (double)i / RATE));
}

/* Linear time code: 80 bits a frame in biphase marks, the frames counted, the rest of it constant.
 */
static void time_code(void)
{
    static const double rates[] = {24, 25, 30 / 1.001, 30};
    const double half = RATE / rates[random_below(&seed, 4)] / 160;
    const uint64_t user = random_below(&seed, UINT32_MAX);
    float level = 1;
    double next = 0;
    uint32_t at = 0, count = 0;

    for (size_t i = 0; i < SAMPLES; i++) {
        if ((double)i >= next) {
            const uint32_t bit = at / 2;
            const bool one = bit >= 64   ? (0xbffc >> (bit - 64)) & 1
                             : bit >= 32 ? user >> (bit - 32) & 1
                                         : count >> bit & 1;

            if (at % 2 == 0 || one)
                level = -level;
            at = (at + 1) % 160;
            count += at == 0;
            next += half;
        }
        noise[i] = level;
    }
}

/* Each with its own length, pitch and loudness, over a little hiss. */
static void clicks(double most_a_second)
{
    const double each = drawn(2, most_a_second);

    for (size_t i = 0; i < SAMPLES; i++)
        noise[i] = (float)drawn(-0.001, 0.001);
    for (double n = 0; n < each * SECONDS; n++) {
        const size_t from = (size_t)random_below(&seed, SAMPLES - 300);
        const double loud = pow(10, drawn(-1, 0)), decay = drawn(3, 40), pitch = drawn(0.1, 2.5);

        for (size_t i = 0; i < 300; i++)
            noise[from + i] += (float)(loud * exp(-(double)i / decay) * cos((double)i * pitch));
    }
}

static void few_clicks(void) { clicks(6); }
static void crackle(void) { clicks(50); }

static const struct kind {
    const char *name;
    void (*make)(void);
    double may_be_heard; /* none the less, mixed or by itself: what is measured */
} kinds[] = {
    {"white noise", white, 0},
    {"pink noise", pink, 0},
    {"brown noise", brown, 0.25},
    {"hum, square", square_hum, 0},
    {"hum, harmonics", harmonic_hum, 0},
    {"hum, sine", sine_hum, 0},
    {"buzz", buzz, 0},
    {"tone", tone, 0},
    {"carriers", carriers, 0.35},
    {"time code", time_code, 0.1},
    {"clicks", few_clicks, 0.1},
    {"crackle", crackle, 0.1},
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* ---- */

static void put(int16_t *to, const float *x, double gain)
{
    for (size_t i = 0; i < SAMPLES; i++)
        to[i] = (int16_t)lround(fmin(fmax(to[i] + gain * x[i] * 32768, -32768), 32767));
}

static int silence(void **state)
{
    (void)state;
    seed = 11;
    memset(pcm, 0, sizeof(pcm));
    babble_fill(voice, SAMPLES);
    return 0;
}

static struct channel_choice *looked(uint32_t channels)
{
    struct channel_choice *c;
    struct err e = {0};

    assert_ok(channel_choice_new(channels, &c, &e), e);
    for (size_t at = 0; at + CHANNEL_FRAME <= SAMPLES; at += CHANNEL_FRAME) {
        const int16_t *frame[CHANNELS];

        for (uint32_t i = 0; i < channels; i++)
            frame[i] = pcm[i] + at;
        channel_choice_feed(c, frame);
    }
    return c;
}

struct said {
    uint32_t voices, noises;
};

static struct said of(uint32_t channels)
{
    struct channel_choice *c = looked(channels);
    struct said ret = {channel_choice_voices(c), channel_choice_noises(c)};

    channel_choice_free(c);
    return ret;
}

/* As loud as the voice, and so many decibels more. */
static void put_noise(int16_t *to, double db)
{
    put(to, noise, sqrt(power(voice) / power(noise)) * pow(10, db / 20));
}

static uint32_t each = 4;

TEST_SETUP(noise_of_any_kind_is_left_out, silence)
{
    uint32_t bad = 0;

    for (size_t k = 0; k < KINDS; k++) {
        uint32_t heard = 0, wrong = 0;

        for (uint32_t i = 0; i < each; i++) {
            const uint32_t at = i % 2;
            struct said s;

            seed = 1000 * k + i + 1;
            memset(pcm, 0, sizeof(pcm));
            put(pcm[1 - at], voice, 3);
            kinds[k].make();
            put_noise(pcm[at], 9.5 + drawn(-15, 10));
            s = of(2);
            heard += s.voices == 3 || s.noises == 0;
            wrong += (s.voices != 0 && s.voices != 3) || s.noises == UINT32_C(1) << (1 - at);
        }
        printf("%-16s %3u of %u heard, voice lost %u\n", kinds[k].name, heard, each, wrong);
        bad += wrong > 0 || heard > kinds[k].may_be_heard * each;
    }
    assert_int_equal(bad, 0);
}

/* The voice on any of eight; the others have each kind, or nothing. */
TEST_SETUP(one_of_many_channels_speaks, silence)
{
    for (uint32_t at = 0; at < CHANNELS; at += 3) {
        struct said s;

        memset(pcm, 0, sizeof(pcm));
        for (uint32_t i = 0; i < CHANNELS; i++)
            if (i == at) {
                put(pcm[i], voice, 3);
            } else if (i % 4) {
                seed = 77 + i;
                kinds[i].make();
                put_noise(pcm[i], 10);
            }
        s = of(CHANNELS);
        assert_int_equal(s.voices, 0);
        assert_int_equal(s.noises, 0xff & ~(1u << at));
    }
}

TEST_SETUP(where_nobody_speaks_nothing_is_left_out, silence)
{
    white();
    put_noise(pcm[0], 0);
    square_hum();
    put_noise(pcm[1], 10);
    assert_int_equal(of(2).noises, 0);
}

TEST_SETUP(what_does_no_harm_is_mixed, silence)
{
    put(pcm[0], voice, 3);
    assert_int_equal(of(2).noises, 0);
    white();
    put_noise(pcm[1], -40);
    assert_int_equal(of(2).noises, 0);
}

/* A softer voice in a noise that is as loud as it, while another one speaks. */
TEST_SETUP(a_voice_in_noise_is_not_left_out, silence)
{
    static float later[SAMPLES];

    memcpy(later + 5000, voice, sizeof(voice) - 5000 * sizeof(*voice));
    for (size_t k = 0; k < KINDS; k++) {
        seed = k + 1;
        memset(pcm, 0, sizeof(pcm));
        put(pcm[0], voice, 3);
        kinds[k].make();
        put_noise(pcm[1], -20);
        put(pcm[1], later, 0.1);
        if (of(2).noises)
            fail_msg("a voice in %s is left out", kinds[k].name);
    }
}

/* ---- the gate */

/* Alone, without another channel as a witness. */
TEST_SETUP(a_stretch_of_noise_is_noise, silence)
{
    static float both[SAMPLES];
    const double gain = sqrt(0.001 / power(voice));

    for (size_t k = 0; k < KINDS; k++) {
        uint32_t found = 0;
        float level;

        for (uint32_t n = 0; n < 8; n++) {
            seed = 100 * k + n + 1;
            kinds[k].make();
            level = (float)sqrt(0.001 / power(noise));
            for (size_t i = 0; i < SAMPLES; i++) {
                noise[i] *= level;
                both[i] = noise[i] * 0.1f + (i < SAMPLES / 2 ? 0 : (float)gain * voice[i]);
            }
            found += steady_noise(noise, SAMPLES);
            assert_false(steady_noise(noise, RATE));   /* too short to say */
            assert_false(steady_noise(both, SAMPLES)); /* somebody speaks in its second half */
        }
        if (found < 5 && kinds[k].may_be_heard == 0)
            print_error("%s: %u of 8\n", kinds[k].name, found);
        assert_true(found >= 5 || kinds[k].may_be_heard > 0);
    }
    assert_false(steady_noise(voice, SAMPLES));
}

static int16_t mixed[SAMPLES];

static void through_gate(uint32_t noises)
{
    struct noise_gate *g;
    struct err e = {0};
    size_t given = 0;

    assert_ok(noise_gate_new(2, noises, &g, &e), e);
    for (size_t at = 0; at < SAMPLES; at += CHANNEL_FRAME) {
        const int16_t *frame[] = {pcm[0] + at, pcm[1] + at};

        noise_gate_look(g, frame);
        if (at + CHANNEL_FRAME >= SAMPLES)
            noise_gate_end(g);
        for (; given < SAMPLES && noise_gate_ready(g); given += CHANNEL_FRAME) {
            const int16_t *next[] = {pcm[0] + given, pcm[1] + given};

            noise_gate_mix(g, next, CHANNEL_FRAME, mixed + given);
        }
    }
    assert_int_equal(given, SAMPLES);
    noise_gate_free(g);
}

TEST_SETUP(a_noise_stays_out_of_the_mix, silence)
{
    put(pcm[0], voice, 3);
    square_hum();
    put_noise(pcm[1], 10);
    through_gate(2);
    assert_memory_equal(mixed, pcm[0], sizeof(mixed));
}

/* In the last third, softly. */
TEST_SETUP(who_comes_later_is_heard, silence)
{
    size_t i = 0;

    put(pcm[0], voice, 3);
    white();
    put_noise(pcm[1], -10);
    memset(voice, 0, sizeof(voice) / SECONDS * 22);
    put(pcm[1], voice, 1);
    through_gate(2);
    for (; i < 10 * RATE; i++)
        assert_int_equal(mixed[i], pcm[0][i]);
    for (i += 1000; i < SAMPLES; i++)
        assert_in_range(mixed[i] - (pcm[0][i] + pcm[1][i]) / 2 + 2, 0, 4);
}

int main(int argc, char **argv)
{
    each = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : each;
    return suite_run(NULL, NULL);
}
