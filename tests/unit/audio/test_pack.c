/* Windows of speech, and the way back from their time to the recording's. */
#include "tests/common/test.h"

#include <stdbool.h>

#include "tests/common/random.h"
#include "workers/audio/speech.h"

static void add(struct pack *p, int64_t start, int64_t end)
{
    struct speech_span span = {start, end, 0.5f};
    struct err e;

    assert_ok(pack_add(p, &span, &e), e);
}

TEST(fits)
{
    struct speech_span span = {1000, 1100, 0.5f}, huge = {0, 1000000, 0.5f};
    struct pack p = {0};

    assert_true(pack_fits(&p, &huge, 100)); /* or it would fit nowhere */
    add(&p, 100, 200);
    assert_true(pack_fits(&p, &span, 200));
    assert_false(pack_fits(&p, &span, 199));
    pack_free(&p);
    assert_int_equal(p.count, 0);
    assert_int_equal(p.samples, 0);
}

/* [100, 200) [300, 350) [1000, 1001) are samples 0 .. 100, 100 .. 150 and 150 .. 151. */
TEST(seams)
{
    struct pack p = {0};

    assert_int_equal(pack_time(&p, 5, false), 0); /* an empty window has no time */
    add(&p, 100, 200);
    add(&p, 300, 350);
    add(&p, 1000, 1001);
    assert_int_equal(p.samples, 151);
    assert_int_equal(pack_time(&p, 0, false), 100);
    assert_int_equal(pack_time(&p, 0, true), 100);
    assert_int_equal(pack_time(&p, 99, false), 199);
    assert_int_equal(pack_time(&p, 100, false), 300);
    assert_int_equal(pack_time(&p, 100, true), 200);
    assert_int_equal(pack_time(&p, 101, true), 301);
    assert_int_equal(pack_time(&p, 150, false), 1000);
    assert_int_equal(pack_time(&p, 150, true), 350);
    assert_int_equal(pack_time(&p, 151, false), 1001);
    assert_int_equal(pack_time(&p, 151, true), 1001);
    assert_int_equal(pack_time(&p, 1000, true), 1001);
    assert_int_equal(pack_time(&p, -5, false), 100);
    pack_free(&p);
}

static void check_word(const struct pack *p, int64_t start, int64_t end, int64_t from, int64_t to)
{
    int64_t have_from, have_to;

    pack_word(p, start, end, &have_from, &have_to);
    assert_int_equal(have_from, from);
    assert_int_equal(have_to, to);
}

TEST(words_stay_whole)
{
    struct pack p = {0};

    check_word(&p, 3, 4, 0, 0);
    add(&p, 100, 200);
    add(&p, 300, 350);
    add(&p, 1000, 1100);
    check_word(&p, 10, 20, 110, 120);
    check_word(&p, 10, 100, 110, 200);  /* up to the seam */
    check_word(&p, 100, 150, 300, 350); /* from seam to seam */
    check_word(&p, 80, 110, 180, 200);  /* middle before the seam */
    check_word(&p, 90, 120, 300, 320);  /* and after it */
    check_word(&p, 90, 160, 300, 350);  /* over a whole stretch: its middle's */
    check_word(&p, 100, 100, 300, 300); /* without length: as a beginning */
    check_word(&p, 120, 110, 320, 320); /* no length is negative */
    check_word(&p, 240, 9999, 1090, 1100);
    pack_free(&p);
}

/* Beginnings and ends rise with the window's time, and samples come back where they lay. */
TEST(random_windows)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        uint64_t r = seed;
        uint32_t count = 1 + random_below(&r, 40);
        int64_t at = 0, begin = 0, last[2] = {0, 0};
        struct pack p = {0};

        for (uint32_t i = 0; i < count; i++) {
            int64_t start = at + (random_below(&r, 4) ? random_below(&r, 100) : 0);

            at = start + 1 + random_below(&r, 60);
            add(&p, start, at);
        }
        for (uint32_t i = 0; i < count; i++) {
            for (int64_t k = p.spans[i].start; k < p.spans[i].end; k++) {
                assert_int_equal(pack_time(&p, begin + k - p.spans[i].start, false), k);
                assert_int_equal(pack_time(&p, begin + k - p.spans[i].start + 1, true), k + 1);
            }
            begin += p.spans[i].end - p.spans[i].start;
        }
        assert_int_equal(begin, p.samples);
        for (int64_t k = -2; k < p.samples + 3; k++) {
            int64_t from, to, length = random_below(&r, 50);

            for (int is_end = 0; is_end < 2; is_end++) {
                assert_true(pack_time(&p, k, is_end) >= last[is_end]);
                last[is_end] = pack_time(&p, k, is_end);
            }
            assert_true(last[1] <= last[0]);
            pack_word(&p, k, k + length, &from, &to);
            assert_true(from <= to && to - from <= length);
        }
        pack_free(&p);
    }
}

/* [100, 200) [200, 260) [270, 300) [400, 410): gaps of 0, 10 and 100. */
TEST(runs)
{
    static const struct {
        int64_t least;
        uint32_t runs;
    } cases[] = {{1, 3}, {10, 3}, {11, 2}, {100, 2}, {101, 1}};
    struct pack p = {0};
    struct pack_run run = {0};

    assert_false(pack_next_run(&p, 1, &run));
    add(&p, 100, 200);
    add(&p, 200, 260);
    add(&p, 270, 300);
    add(&p, 400, 410);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t n = 0;
        int64_t at = 0;

        run = (struct pack_run){0};
        for (; pack_next_run(&p, cases[i].least, &run); n++) {
            assert_int_equal(run.at, at);
            at += run.samples;
        }
        assert_int_equal(at, p.samples);
        assert_int_equal(n, cases[i].runs);
    }
    run = (struct pack_run){0};
    assert_true(pack_next_run(&p, 11, &run));
    assert_int_equal(run.start, 100);
    assert_int_equal(run.end, 300);
    assert_int_equal(run.samples, 190);
    assert_true(pack_next_run(&p, 11, &run));
    assert_int_equal(run.start, 400);
    assert_int_equal(run.end, 410);
    assert_int_equal(run.at, 190);
    pack_free(&p);
}

static void slice_is(const struct pack *of, int64_t from, int64_t to, const int64_t *want,
                     uint32_t n)
{
    struct pack p = {0};
    int64_t samples = 0;
    struct err e;

    assert_ok(pack_slice(of, from, to, &p, &e), e);
    assert_int_equal(p.count, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(p.spans[i].start, want[2 * i]);
        assert_int_equal(p.spans[i].end, want[2 * i + 1]);
        assert_true(p.spans[i].prob == 0.5f);
        samples += want[2 * i + 1] - want[2 * i];
    }
    assert_int_equal(p.samples, samples);
    pack_free(&p);
}

/* A part of a window is where those samples are. */
TEST(slices)
{
    struct pack p = {0};

    slice_is(&p, 0, 10, NULL, 0);
    add(&p, 100, 200);
    add(&p, 300, 350);
    add(&p, 1000, 1001);
    slice_is(&p, 0, 151, (int64_t[]){100, 200, 300, 350, 1000, 1001}, 3);
    slice_is(&p, 0, 100, (int64_t[]){100, 200}, 1);
    slice_is(&p, 100, 150, (int64_t[]){300, 350}, 1);
    slice_is(&p, 99, 101, (int64_t[]){199, 200, 300, 301}, 2);
    slice_is(&p, 20, 30, (int64_t[]){120, 130}, 1);
    slice_is(&p, 140, 151, (int64_t[]){340, 350, 1000, 1001}, 2);
    slice_is(&p, 150, 151, (int64_t[]){1000, 1001}, 1);
    slice_is(&p, -5, 1000, (int64_t[]){100, 200, 300, 350, 1000, 1001}, 3);
    slice_is(&p, 50, 50, NULL, 0);
    slice_is(&p, 151, 200, NULL, 0);
    pack_free(&p);
}

/* Cut anywhere, two parts have each sample of the window once, in its place. */
TEST(slices_at_random)
{
    uint64_t seed = 7;

    for (int round = 0; round < 300; round++) {
        struct pack p = {0}, first = {0}, second = {0};
        int64_t at = 0, cut;
        struct err e;

        for (uint32_t i = 0, n = 1 + random_below(&seed, 6); i < n; i++) {
            int64_t start = at + 1 + random_below(&seed, 50);

            at = start + 1 + random_below(&seed, 50);
            add(&p, start, at);
        }
        cut = random_below(&seed, (uint32_t)p.samples + 1);
        assert_ok(pack_slice(&p, 0, cut, &first, &e), e);
        assert_ok(pack_slice(&p, cut, p.samples, &second, &e), e);
        assert_int_equal(first.samples, cut);
        assert_int_equal(second.samples, p.samples - cut);
        for (int64_t i = 0; i < p.samples; i++) {
            const struct pack *of = i < cut ? &first : &second;

            assert_int_equal(pack_time(of, i < cut ? i : i - cut, false), pack_time(&p, i, false));
        }
        pack_free(&p);
        pack_free(&first);
        pack_free(&second);
    }
}

TEST_MAIN(NULL, NULL)
