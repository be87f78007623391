/* The filter bank on several threads and over several pieces: the same bits as on one, piece by
 * piece. What the values are is held in tests/parity/diarization. */
#include "tests/common/test.h"

#include <math.h>

#include "workers/audio/babble.h"
#include "workers/audio/fbank.h"

#define SAMPLES 80000
#define PIECES 6

static float pcm[SAMPLES];
/* Where pieces begin and how long they are: one that is all, neighbours that overlap, one shorter
 * than a frame, nothing, and the last samples. */
static const size_t from[PIECES] = {0, 160, 1600, 77, 500, SAMPLES - 1999};
static const size_t length[PIECES] = {SAMPLES, 16320, 17919, 399, 0, 1999};

static struct fbank *fbank_of(enum fbank_kind kind, uint32_t threads)
{
    struct fbank *f = NULL;
    struct err e = {0};

    assert_ok(fbank_new(kind, threads, &f, &e), e);
    return f;
}

static size_t bins_of(enum fbank_kind kind)
{
    return kind == FBANK_KALDI ? FBANK_KALDI_BINS : FBANK_POWER_BINS;
}

/* All pieces in one call; the values of all, one behind the other. */
static float *run_all(enum fbank_kind kind, uint32_t threads, size_t *count)
{
    struct fbank *f = fbank_of(kind, threads);
    struct fbank_piece pieces[PIECES];
    size_t room = 0, at = 0;
    float *ret;

    for (int i = 0; i < PIECES; i++)
        room += fbank_frames(kind, length[i]) * bins_of(kind);
    ret = malloc((room + 1) * sizeof(*ret));
    assert_non_null(ret);
    memset(ret, 0xff, (room + 1) * sizeof(*ret)); /* a value that is not written is no number */
    for (int i = 0; i < PIECES; i++) {
        pieces[i] = (struct fbank_piece){pcm + from[i], length[i], ret + at};
        at += fbank_frames(kind, length[i]) * bins_of(kind);
    }
    fbank_run_all(f, pieces, PIECES);
    fbank_free(f);
    for (size_t i = 0; i < room; i++)
        assert_true(isfinite(ret[i]));
    assert_true(isnan(ret[room]));
    *count = room;
    return ret;
}

static void check_threads(enum fbank_kind kind)
{
    size_t count, same, at = 0;
    float *one = run_all(kind, 1, &count);

    for (uint32_t threads = 2; threads <= 5; threads++) {
        float *many = run_all(kind, threads, &same);

        assert_int_equal(same, count);
        assert_memory_equal(many, one, count * sizeof(*one));
        free(many);
    }
    for (int i = 0; i < PIECES; i++) {
        struct fbank *f = fbank_of(kind, 0);
        size_t values = fbank_frames(kind, length[i]) * bins_of(kind);
        float *alone = malloc((values + 1) * sizeof(*alone));

        assert_non_null(alone);
        fbank_run(f, pcm + from[i], length[i], alone);
        if (values)
            assert_memory_equal(alone, one + at, values * sizeof(*alone));
        at += values;
        free(alone);
        fbank_free(f);
    }
    assert_int_equal(at, count);
    free(one);
}

TEST(test_kaldi) { check_threads(FBANK_KALDI); }

TEST(test_power) { check_threads(FBANK_POWER); }

/* Windows that overlap, by threads; and against sums in long double. */
TEST(test_centre)
{
    enum { WINDOWS = 7, FRAMES = 50, STEP = 9, ALL = STEP * (WINDOWS - 1) + FRAMES };
    static float rows[ALL][FBANK_KALDI_BINS], want[WINDOWS][FRAMES][FBANK_KALDI_BINS],
        have[WINDOWS][FRAMES][FBANK_KALDI_BINS];
    const float *at[WINDOWS];

    for (size_t i = 0; i < ALL * FBANK_KALDI_BINS; i++)
        rows[i / FBANK_KALDI_BINS][i % FBANK_KALDI_BINS] = pcm[i] * 20 - 7;
    for (int w = 0; w < WINDOWS; w++)
        at[w] = rows[w * STEP];
    for (uint32_t threads = 1; threads <= 3; threads++) {
        struct fbank *f = fbank_of(FBANK_KALDI, threads);

        memset(have, 0xff, sizeof(have));
        fbank_centre_all(f, at, WINDOWS, FRAMES, &have[0][0][0]);
        if (threads == 1)
            memcpy(want, have, sizeof(want));
        assert_memory_equal(have, want, sizeof(want));
        fbank_free(f);
    }
    for (int w = 0; w < WINDOWS; w++)
        for (int b = 0; b < FBANK_KALDI_BINS; b++) {
            long double mean = 0;

            for (int i = 0; i < FRAMES; i++)
                mean += (long double)rows[w * STEP + i][b] / FRAMES;
            for (int i = 0; i < FRAMES; i++)
                assert_true(fabsl((long double)have[w][i][b] -
                                  ((long double)rows[w * STEP + i][b] - mean)) < 1e-5L);
        }
}

int main(void)
{
    babble_fill(pcm, SAMPLES);
    return suite_run(NULL, NULL);
}
