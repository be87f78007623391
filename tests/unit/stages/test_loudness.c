/* Words moved to where they are heard: audio of tones and pauses made by hand. */
#include "tests/common/test.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "workers/stages/transcribe/outcome/words.h"

#define RATE 16000
#define SECONDS 30

static float pcm[SECONDS * RATE];

/* Noise of this level all over. */
static void quiet(float level)
{
    for (size_t i = 0; i < SECONDS * RATE; i++)
        pcm[i] = level * (2 * (float)number_uniform(7, i) - 1);
}

static void sound(float from, float to, float level)
{
    for (size_t i = (size_t)(from * RATE); i < (size_t)(to * RATE); i++)
        pcm[i] += level * sinf((float)i * 0.2f);
}

static struct word word(float start, float end, const char *text)
{
    return (struct word){.start = start, .end = end, .text = (char *)text, .probability = 1};
}

#define NEAR(a, b) assert_true(fabsf((a) - (b)) <= 0.03f)

static void measure(struct loudness *l)
{
    loudness_measure(pcm, SECONDS * RATE, l);
    assert_int_equal(l->steps, 3000);
}

TEST(test_shares)
{
    struct loudness l;

    quiet(0.001f);
    sound(5, 7, 0.3f);
    measure(&l);
    NEAR(loudness_share(&l, 5.1f, 6.9f), 1);
    NEAR(loudness_share(&l, 0, 4.9f), 0);
    NEAR(loudness_share(&l, 4, 8), 0.5f);
    assert_true(loudness_share(&l, 6, 6) == 0);
    assert_true(loudness_share(&l, -5, -1) == 0);
    assert_true(loudness_share(&l, 40, 50) == 0);
}

/* Edges in the pauses go to the sound; those within the sound stay. */
TEST(test_edges)
{
    struct word w[] = {word(4.7f, 5.4f, " one"), word(5.4f, 6.8f, " two")};
    struct loudness l;

    quiet(0.001f);
    sound(5, 7, 0.3f);
    measure(&l);
    loudness_place(&l, w, 2, 4.7f, 6.8f, 0, 30);
    NEAR(w[0].start, 5);
    NEAR(w[0].end, 5.4f);
    NEAR(w[1].start, 5.4f);
    NEAR(w[1].end, 7);

    w[1].end = 9; /* beyond it, in the pause */
    loudness_place(&l, w, 2, 5, 9, 0, 30);
    NEAR(w[1].end, 7);
}

/* The sound of a word may begin after the place where it was thought to end. */
TEST(test_wholly_before)
{
    struct word w = word(4.3f, 4.6f, " one");
    struct loudness l;

    quiet(0.001f);
    sound(5, 5.5f, 0.3f);
    measure(&l);
    loudness_place(&l, &w, 1, 4.3f, 4.6f, 0, 30);
    NEAR(w.start, 5);
    NEAR(w.end, 5.5f);
}

/* A sound that goes on belongs to what comes after, too: the end stays. */
TEST(test_neighbours)
{
    struct word w = word(5.1f, 5.5f, " one");
    struct loudness l;

    quiet(0.001f);
    sound(5, 12, 0.3f);
    measure(&l);
    loudness_place(&l, &w, 1, 5, 6, 0, 30);
    NEAR(w.end, 5.5f);
    loudness_place(&l, &w, 1, 5, 6, 0, 5.7f);
    assert_true(w.end <= 5.7f + 1e-6f);
    assert_true(w.start >= 5.09f);
}

/* Placed seconds away from the only sound that the timestamps know of. */
TEST(test_misplaced)
{
    struct word w[] = {word(20, 21, " a"), word(21, 21, " longer"), word(21, 21, " one")};
    struct loudness l;

    quiet(0.001f);
    sound(25, 26, 0.3f);
    measure(&l);
    loudness_place(&l, w, 3, 25, 26, 10, 30);
    NEAR(w[0].start, 25);
    NEAR(w[2].end, 26);
    for (int i = 0; i < 3; i++)
        assert_true(w[i].start < w[i].end);
    assert_true(w[1].end - w[1].start > w[0].end - w[0].start);
    for (int i = 1; i < 3; i++)
        assert_true(w[i].start >= w[i - 1].end - 1e-6f);

    /* Not when the timestamps have nothing to show for it. */
    w[0] = word(20, 21, " a");
    loudness_place(&l, w, 1, 27, 28, 10, 30);
    NEAR(w[0].start, 20);
    NEAR(w[0].end, 21);
}

/* Where all is about as loud, nothing is known, and nothing moves. */
TEST(test_no_difference)
{
    struct word w = word(3, 4, " one");
    struct loudness l;

    quiet(0.2f);
    loudness_measure(pcm, SECONDS * RATE, &l);
    assert_int_equal(l.steps, 0);
    loudness_place(&l, &w, 1, 0, 30, 0, 30);
    assert_true(w.start == 3 && w.end == 4);
    memset(pcm, 0, sizeof(pcm));
    loudness_measure(pcm, SECONDS * RATE, &l);
    assert_int_equal(l.steps, 0);
    loudness_measure(pcm, 100, &l);
    assert_int_equal(l.steps, 0);
    for (size_t i = 0; i < SECONDS * RATE; i++)
        pcm[i] = NAN;
    loudness_measure(pcm, SECONDS * RATE, &l);
    assert_int_equal(l.steps, 0);
}

/* Whatever the words were: in order, within their neighbours, none with a negative length. */
TEST(test_random)
{
    for (uint64_t seed = 0; seed < 20000; seed++) {
        struct loudness l;
        struct word w[12];
        float at = 0, before, from, to;
        uint64_t k = 0;
        uint32_t n = 1 + (uint32_t)(number_uniform(seed, k++) * 11.99);

        memset(&l, 0, sizeof(l));
        l.steps = LOUDNESS_MAX;
        for (int i = 0; i < 6; i++) {
            uint32_t begin = (uint32_t)(number_uniform(seed, k++) * 2800);
            memset(l.loud + begin, 1, (size_t)(number_uniform(seed, k++) * 200));
        }
        before = at = (float)(number_uniform(seed, k++) * 4);
        for (uint32_t i = 0; i < n; i++) {
            float start = at + (float)number_uniform(seed, k++) / 2;
            at = start + (float)(number_uniform(seed, k++) * 2);
            w[i] = word(start, at, " w");
        }
        /* Timestamps anywhere: near the words, or seconds away, beyond the neighbours too. */
        from = seed % 2 ? w[0].start - 1 : (float)(number_uniform(seed, k++) * 28);
        to = from + (float)(number_uniform(seed, k++) * 5);
        loudness_place(&l, w, n, from, to, before, at + 0.5f);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(w[i].start <= w[i].end);
            assert_true(w[i].start >= (i ? w[i - 1].end : before) - 1e-4f);
        }
        assert_true(w[n - 1].end <= at + 0.5f + 1e-4f);
    }
}

TEST_MAIN(NULL, NULL)
