/* Where a window changes its language: the likeliest way through what its stretches were heard to
 * speak, by hand. */
#include "tests/common/test.h"

#include <math.h>

#include "workers/stages/transcribe/decode/language.h"

#define EN 1
#define ES 2
#define DE 3
#define MOST 80

/* A stretch in tenths of seconds, its language, and how sure the model is of it in hundredths. */
struct heard {
    int tenths, language, percent;
};

static uint32_t place(const struct heard *heard, uint32_t n, struct language_stretch *ret)
{
    int64_t at = 0;

    for (uint32_t i = 0; i < n && heard[i].tenths; i++) {
        ret[i] = (struct language_stretch){at, at + heard[i].tenths * 1600, heard[i].language,
                                           (float)heard[i].percent / 100, 0};
        at = ret[i].end;
        if (i + 1 == n || !heard[i + 1].tenths)
            return i + 1;
    }
    return 0;
}

static const struct {
    struct heard heard[6];
    int usual; /* -1: none */
    int want[6];
} cases[] = {
    /* One change, between languages that are sure, or nearly. */
    {{{30, EN, 99}, {30, EN, 99}, {30, ES, 99}, {30, ES, 99}}, EN, {EN, EN, ES, ES}},
    {{{30, EN, 70}, {30, EN, 70}, {30, ES, 70}, {30, ES, 70}}, EN, {EN, EN, ES, ES}},
    /* Between two sure ones: short and unsure; long and unsure; short and sure; long and sure. */
    {{{30, EN, 99}, {5, ES, 50}, {30, EN, 99}}, EN, {EN, EN, EN}},
    {{{30, EN, 99}, {30, ES, 50}, {30, EN, 99}}, EN, {EN, EN, EN}},
    {{{30, EN, 99}, {5, ES, 99}, {30, EN, 99}}, EN, {EN, EN, EN}},
    {{{30, EN, 99}, {30, ES, 99}, {30, EN, 99}}, EN, {EN, ES, EN}},
    {{{30, EN, 100}, {30, ES, 100}, {30, EN, 100}}, -1, {EN, ES, EN}},
    /* Between two languages it goes with one of them: one change, not two. */
    {{{30, EN, 99}, {30, DE, 40}, {30, ES, 99}}, -1, {EN, ES, ES}},
    {{{30, EN, 99}, {30, DE, 99}, {30, ES, 99}}, -1, {EN, DE, ES}},
    /* The usual language has what is unsure at the begin, no matter which one was heard. */
    {{{30, ES, 60}}, EN, {ES}},
    {{{30, ES, 40}}, EN, {EN}},
    {{{30, ES, 40}}, -1, {ES}},
    {{{30, ES, 40}}, ES, {ES}},
    {{{5, ES, 60}}, EN, {EN}}, /* short: its word counts less */
    {{{30, ES, 40}, {30, DE, 40}, {30, ES, 40}}, EN, {ES, ES, ES}},
};

TEST(test_by_hand)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct language_stretch s[6] = {0};
        uint32_t n = place(cases[i].heard, 6, s);

        assert_true(n > 0);
        language_smooth(s, n, cases[i].usual);
        for (uint32_t k = 0; k < n; k++) {
            float sure = (float)cases[i].heard[k].percent / 100;

            if (s[k].language != cases[i].want[k])
                fail_msg("case %zu: stretch %u is in %d", i, k, s[k].language);
            if (s[k].language != cases[i].heard[k].language) /* its share of what is left */
                sure = (1 - sure) / 3;
            assert_true(fabsf(s[k].prob - sure) < 1e-6f);
            assert_int_equal(s[k].end - s[k].start, cases[i].heard[k].tenths * 1600);
        }
    }
}

/* After a pause somebody else may speak: what is too unsure between words is a change there. */
TEST(test_after_a_pause)
{
    for (int paused = 0; paused < 2; paused++) {
        struct language_stretch s[] = {{0, 32000, EN, 0.99f, 0},
                                       {32000, 64000, ES, 0.7f, paused ? 16000 : 15999}};

        language_smooth(s, 2, EN);
        assert_int_equal(s[0].language, EN);
        assert_int_equal(s[1].language, paused ? ES : EN);
    }
}

/* None, one, as many as there may be, and more: those stay. */
TEST(test_counts)
{
    static const uint32_t counts[] = {0, 1, 2, 63, 64, 65, MOST};

    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        struct language_stretch s[MOST], before[MOST];
        uint32_t n = counts[i];

        for (uint32_t k = 0; k < MOST; k++)
            s[k] = (struct language_stretch){k * 48000, (k + 1) * 48000, k % 2 ? ES : EN,
                                             k % 2 ? 0.5f : 0.99f, 0};
        memcpy(before, s, sizeof(s));
        language_smooth(s, n, EN);
        for (uint32_t k = 0; k < MOST; k++) {
            bool smoothed = n <= 64 && k < n;

            assert_int_equal(s[k].language, smoothed ? EN : before[k].language);
        }
    }
}

/* As many languages as stretches. */
TEST(test_all_differ)
{
    for (int sure = 0; sure < 2; sure++) {
        struct language_stretch s[64];

        for (int k = 0; k < 64; k++)
            s[k] = (struct language_stretch){k * 48000, (k + 1) * 48000, 100 + k,
                                             sure ? 0.99f : 0.3f, 0};
        language_smooth(s, 64, 7);
        for (int k = 0; k < 64; k++)
            assert_int_equal(s[k].language, sure ? 100 + k : 7);
    }
}

TEST(test_mean)
{
    struct language_stretch s[] = {
        {0, 16000, EN, 0.5f, 0}, {16000, 64000, EN, 0.9f, 0}, {64000, 64000, EN, 1, 0}};

    assert_true(fabsf(language_mean(s, 1) - 0.5f) < 1e-6f);
    assert_true(fabsf(language_mean(s, 3) - 0.8f) < 1e-6f);
    assert_true(language_mean(s + 2, 1) == 0); /* nothing was said */
}

TEST_MAIN(NULL, NULL)
