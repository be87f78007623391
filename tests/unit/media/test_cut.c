/* Where recordings are cut: in silence, alike from both sides, whatever is handed in. */
#include <math.h>
#include <stdbool.h>

#include "tests/common/test.h"
#include "workers/audio/cut.h"

#define RATE 16000
#define STRETCH (2 * CUT_REACH_MS * 16)

/* A little noise that everybody computes alike. */
static int16_t noise(uint32_t *seed, int amplitude)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (int16_t)((int)((*seed >> 16) % (2u * (unsigned)amplitude + 1)) - amplitude);
}

static void fill(int16_t *pcm, size_t from, size_t to, int amplitude, uint32_t seed)
{
    for (size_t i = from; i < to; i++)
        pcm[i] = amplitude ? noise(&seed, amplitude) : 0;
}

static int16_t *stretch(void)
{
    int16_t *pcm = malloc(STRETCH * sizeof(*pcm));

    assert_non_null(pcm);
    return pcm;
}

static void assert_within(int64_t cut, int64_t from, int64_t to)
{
    if (cut < from || cut > to) {
        print_error("cut at %lld, not in %lld..%lld\n", (long long)cut, (long long)from,
                    (long long)to);
    }
    assert_true(cut >= from && cut <= to);
    assert_int_equal(cut % CUT_FRAME_SAMPLES, 0);
}

TEST(silence_is_cut_in_its_middle)
{
    int16_t *pcm = stretch();

    fill(pcm, 0, STRETCH, 0, 1);
    assert_int_equal(cut_find(pcm, STRETCH, 4800000), 4800000 + STRETCH / 2);
    free(pcm);
}

TEST(pauses_of_speech_decide)
{
    int16_t *pcm = stretch();
    size_t at = 0;
    bool loud = true;

    /* Bursts of half a second, pauses of 0.2 s over room noise; one pause of 1.2 s at 20 s. */
    while (at < STRETCH) {
        size_t len = loud ? RATE / 2 : RATE / 5;
        size_t end;

        if (!loud && at > 20 * RATE - RATE && at <= 20 * RATE)
            len = RATE * 6 / 5;
        end = at + len < STRETCH ? at + len : STRETCH;
        fill(pcm, at, end, loud ? 9000 : 60, (uint32_t)at);
        at = end;
        loud = !loud;
    }
    assert_within(cut_find(pcm, STRETCH, 0), 19 * RATE, 22 * RATE);
    free(pcm);
}

TEST(the_longest_of_two_pauses_wins)
{
    int16_t *pcm = stretch();

    fill(pcm, 0, STRETCH, 5000, 7);
    fill(pcm, 5 * RATE, 6 * RATE, 20, 8);
    fill(pcm, 20 * RATE, 23 * RATE, 20, 9);
    assert_within(cut_find(pcm, STRETCH, 0), 21 * RATE, 22 * RATE);
    fill(pcm, 5 * RATE, 9 * RATE, 20, 10);
    assert_within(cut_find(pcm, STRETCH, 0), 6 * RATE, 8 * RATE);
    free(pcm);
}

TEST(the_earlier_of_equals_wins)
{
    int16_t *pcm = stretch();

    fill(pcm, 0, STRETCH, 5000, 3);
    fill(pcm, 10 * RATE, 12 * RATE, 0, 0);
    fill(pcm, 20 * RATE, 22 * RATE, 0, 0);
    assert_int_equal(cut_find(pcm, STRETCH, 0), 11 * RATE);
    free(pcm);
}

/* A neighbour may have the stretch at another place in its memory; the cut is the same place of the
 * recording, also when the stretch does not begin at a frame. */
TEST(neighbours_agree)
{
    int16_t *all = malloc(3 * STRETCH * sizeof(*all));
    uint32_t seed = 42;

    assert_non_null(all);
    for (size_t i = 0; i < 3 * STRETCH; i++)
        all[i] = noise(&seed, (i / 8000) % 5 == 0 ? 30 : 4000);
    for (int64_t first = 0; first < 2 * STRETCH; first += 12345) {
        int16_t *copy = malloc(STRETCH * sizeof(*copy));
        int64_t a, b;

        assert_non_null(copy);
        memcpy(copy, all + first, STRETCH * sizeof(*copy));
        a = cut_find(all + first, STRETCH, first);
        b = cut_find(copy, STRETCH, first);
        assert_int_equal(a, b);
        assert_within(a, first, first + STRETCH);
        free(copy);
    }
    free(all);
}

/* Of the same audio at a later place of the recording: the cut moves along. */
TEST(the_place_shifts_the_cut)
{
    int16_t *pcm = stretch();

    fill(pcm, 0, STRETCH, 5000, 3);
    fill(pcm, 7 * RATE, 11 * RATE, 9, 4);
    assert_int_equal(cut_find(pcm, STRETCH, 0), 9 * RATE);
    assert_int_equal(cut_find(pcm, STRETCH, 320000000) - 320000000, cut_find(pcm, STRETCH, 0));
    free(pcm);
}

TEST(any_length_will_do)
{
    int16_t pcm[1000];

    fill(pcm, 0, 1000, 100, 5);
    assert_int_equal(cut_find(NULL, 0, 777), 777);
    for (size_t n = 0; n <= 1000; n++) {
        for (int64_t first = 0; first < 700; first += 97) {
            int64_t cut = cut_find(pcm, n, first);

            assert_true(cut >= first && cut <= first + (int64_t)n);
            if (cut != first)
                assert_int_equal(cut % CUT_FRAME_SAMPLES, 0);
        }
    }
}

TEST(full_scale_does_not_overflow)
{
    int16_t *pcm = stretch();

    for (size_t i = 0; i < STRETCH; i++)
        pcm[i] = INT16_MIN;
    fill(pcm, 12 * RATE, 14 * RATE, 1, 5);
    /* 1/15 of the stretch is quiet: the 10th percentile is loud, so all of it counts as quiet. */
    assert_within(cut_find(pcm, STRETCH, 0), STRETCH / 2, STRETCH / 2);
    fill(pcm, 12 * RATE, 16 * RATE, 1, 5);
    assert_within(cut_find(pcm, STRETCH, 0), 14 * RATE, 14 * RATE);
    free(pcm);
}

TEST_MAIN(NULL, NULL)
