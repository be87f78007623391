/* Which channels hold different speech: on made-up recordings of each kind. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/common/random.h"
#include "tests/common/test.h"
#include "workers/audio/channels.h"

#define SECONDS 60
#define SAMPLES (SECONDS * 16000)
#define CHANNELS 6

static int16_t *pcm[CHANNELS];
static uint64_t seed;

/* Noise with the pauses and syllables of speech, as loud as `db` below full scale where it is
 * loudest; in seconds [from, to) of each `period`. Added to a channel. */
static void speak(int16_t *to, double db, double from, double to_s, double period, size_t delay)
{
    const double gain = 32768 * pow(10, -db / 20);
    uint64_t of = seed;

    for (size_t i = 0; i + delay < SAMPLES; i++) {
        double t = (double)i / 16000, at = fmod(t, period);
        double syllable = 0.5 + 0.5 * sin(2 * M_PI * 4 * t + 3 * sin(t));
        double noise = (double)(int64_t)random_below(&of, 2000001) / 1000000 - 1;

        if (at >= from && at < to_s)
            to[i + delay] = (int16_t)(to[i + delay] + lround(gain * syllable * syllable * noise));
    }
}

/* Another voice from now on. */
static void next_voice(void) { seed += 1000003; }

static void hum(int16_t *to, double db)
{
    for (size_t i = 0; i < SAMPLES; i++)
        to[i] = (int16_t)(to[i] + lround(32768 * pow(10, -db / 20) * sin((double)i * 0.04)));
}

static int silence(void **state)
{
    (void)state;
    seed = 5;
    for (uint32_t c = 0; c < CHANNELS; c++) {
        pcm[c] = pcm[c] ? pcm[c] : malloc(SAMPLES * sizeof(**pcm));
        memset(pcm[c], 0, SAMPLES * sizeof(**pcm));
    }
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

static uint32_t voices(uint32_t channels)
{
    struct channel_choice *c = looked(channels);
    uint32_t ret = channel_choice_voices(c);

    channel_choice_free(c);
    return ret;
}

/* An interview: one asks for 5 s of each 20, the other answers; each is heard `bleed` dB softer by
 * the other's microphone, a little later. */
static void interview(double loud, double other, double bleed)
{
    speak(pcm[0], loud, 0, 5, 20, 0);
    speak(pcm[1], other + bleed, 0, 5, 20, 40);
    next_voice();
    speak(pcm[1], other, 4.5, 19, 20, 0);
    speak(pcm[0], loud + bleed, 4.5, 19, 20, 40);
}

TEST_SETUP(two_microphones_are_two_voices, silence)
{
    interview(10, 10, 20);
    assert_int_equal(voices(2), 3);
}

TEST_SETUP(however_they_are_turned_up, silence)
{
    interview(10, 28, 18);
    assert_int_equal(voices(2), 3);
}

TEST_SETUP(without_any_crosstalk_too, silence)
{
    interview(12, 12, 200);
    assert_int_equal(voices(2), 3);
}

TEST_SETUP(in_a_hum_too, silence)
{
    interview(10, 10, 20);
    hum(pcm[0], 50);
    hum(pcm[1], 50);
    assert_int_equal(voices(2), 3);
}

TEST_SETUP(dual_mono_is_one, silence)
{
    speak(pcm[0], 10, 0, 15, 20, 0);
    memcpy(pcm[1], pcm[0], SAMPLES * sizeof(**pcm));
    assert_int_equal(voices(2), 0);
    hum(pcm[1], 60);
    assert_int_equal(voices(2), 0);
}

/* One of them inverted: one sound all the same. */
TEST_SETUP(what_cancels_out_is_one, silence)
{
    speak(pcm[0], 12, 0, 15, 20, 0);
    for (size_t i = 0; i < SAMPLES; i++)
        pcm[1][i] = (int16_t)(-pcm[0][i] * 5 / 4);
    assert_int_equal(voices(2), 0);
}

/* Two people before a pair of microphones, nearer to one each: 6 dB, half a millisecond apart. */
TEST_SETUP(a_room_is_one, silence)
{
    interview(10, 10, 6);
    assert_int_equal(voices(2), 0);
}

TEST_SETUP(a_silent_channel_is_none, silence)
{
    speak(pcm[0], 10, 0, 15, 20, 0);
    assert_int_equal(voices(2), 0);
    hum(pcm[1], 20); /* louder than many a voice, and all the time */
    assert_int_equal(voices(2), 0);
}

TEST_SETUP(a_word_on_the_other_channel_is_not_enough, silence)
{
    speak(pcm[0], 10, 0, 15, 20, 0);
    next_voice();
    speak(pcm[1], 10, 16, 18, 60, 0);
    assert_int_equal(voices(2), 0);
}

/* The dialogue in the middle, music to both sides and, softer, behind. */
TEST_SETUP(a_film_is_one, silence)
{
    speak(pcm[2], 10, 0, 12, 20, 0);
    next_voice();
    speak(pcm[0], 16, 0, 20, 20, 0);
    memcpy(pcm[1], pcm[0], SAMPLES * sizeof(**pcm));
    next_voice();
    speak(pcm[1], 26, 0, 20, 20, 0);
    speak(pcm[4], 24, 0, 20, 20, 100);
    speak(pcm[5], 24, 0, 20, 20, 130);
    hum(pcm[3], 20);
    assert_int_equal(voices(6), 0);
}

TEST_SETUP(of_four_microphones_those_that_are_used, silence)
{
    interview(10, 14, 20);
    memcpy(pcm[3], pcm[1], SAMPLES * sizeof(**pcm));
    memset(pcm[1], 0, SAMPLES * sizeof(**pcm));
    assert_int_equal(voices(4), 1 | 8);
}

TEST_SETUP(silence_is_mixed, silence) { assert_int_equal(voices(2), 0); }

TEST_SETUP(enough_is_two_minutes_of_sound, silence)
{
    struct channel_choice *c = looked(2);
    const int16_t *frame[] = {pcm[0], pcm[1]};

    assert_false(channel_choice_has_enough(c));
    hum(pcm[0], 10);
    for (uint32_t i = 0; i < CHANNEL_SOUND_FRAMES; i++)
        channel_choice_feed(c, frame);
    assert_true(channel_choice_has_enough(c));
    channel_choice_free(c);
}

/* ---- crosstalk */

static double energy(const int16_t *x, double from, double to)
{
    double sum = 0;

    for (size_t i = (size_t)(from * 16000); i < (size_t)(to * 16000); i++)
        sum += (double)x[i] * x[i];
    return sum;
}

/* In place, of so many samples. */
static void take_out(struct crosstalk *x, size_t n)
{
    size_t ahead = 0;

    for (size_t at = 0; at < n; at += CHANNEL_FRAME) {
        size_t m = n - at < CHANNEL_FRAME ? n - at : CHANNEL_FRAME;
        int16_t *frame[2] = {pcm[0] + at, pcm[1] + at};

        for (; ahead < n && ahead <= at + CROSSTALK_AHEAD * CHANNEL_FRAME; ahead += CHANNEL_FRAME) {
            const int16_t *next[2] = {pcm[0] + ahead, pcm[1] + ahead};

            crosstalk_look(x, next, n - ahead < CHANNEL_FRAME ? n - ahead : CHANNEL_FRAME);
        }
        crosstalk_take_out(x, frame, m);
    }
}

TEST_SETUP(crosstalk_is_taken_out_and_speech_stays, silence)
{
    struct channel_choice *c;
    struct crosstalk x = {.channels = 2};
    int16_t *was = malloc(SAMPLES * sizeof(*was));

    interview(10, 20, 18);
    memcpy(was, pcm[0], SAMPLES * sizeof(*was));
    c = looked(2);
    assert_int_equal(channel_choice_voices(c), 3);
    x.loud[0] = channel_choice_loud(c, 0);
    x.loud[1] = channel_choice_loud(c, 1);
    take_out(&x, SAMPLES - 7);
    /* The one who asks alone, to whom the other's microphone listens. */
    assert_true(energy(pcm[1], 20.5, 24) < 1e-3 * energy(pcm[0], 20.5, 24));
    assert_true(energy(pcm[0], 25.5, 38.5) < 1e-3 * energy(was, 25.5, 38.5));
    /* Nothing is lost of who speaks, also where both do. */
    for (size_t i = 20 * 16000 + 8000; i < 24 * 16000; i++)
        if (pcm[0][i] != was[i] && abs(was[i]) > 1000)
            fail_msg("sample %zu of speech is %d, and was %d", i, pcm[0][i], was[i]);
    assert_true(energy(pcm[1], 24.6, 24.9) > 0 && energy(pcm[0], 24.6, 24.9) > 0);
    channel_choice_free(c);
    free(was);
}

static int free_all(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < CHANNELS; c++)
        free(pcm[c]);
    return 0;
}

TEST_MAIN(NULL, free_all)
