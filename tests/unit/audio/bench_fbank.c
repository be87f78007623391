/* bench_fbank [ROUNDS [WINDOWS]] - what the filter bank of 80 bins takes for a second of a
 * recording, as the speaker encoder asks for it: windows of 10 s a second apart, 32 (or WINDOWS) in
 * a call, of which a frame is computed once and each window is centred. By threads, in turns, so
 * that other load falls on all alike; the best of ROUNDS (default 15) and the median. Set
 * OMP_WAIT_POLICY=passive, as a worker does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "workers/audio/babble.h"
#include "workers/audio/fbank.h"

#define MOST_WINDOWS 32
#define RATE 16000
#define FRAMES 998 /* of 10 s */
#define MOST_THREADS 8
#define MOST_ROUNDS 101

static float pcm[(MOST_WINDOWS + 9) * RATE];
static float raw[(FRAMES + 100 * MOST_WINDOWS) * FBANK_KALDI_BINS];
static float features[(size_t)MOST_WINDOWS * FRAMES * FBANK_KALDI_BINS];

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double cpu_s(void)
{
    struct timespec t = {0};

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void hear(struct fbank *f, size_t windows)
{
    struct fbank_piece pieces[MOST_WINDOWS];
    const float *rows[MOST_WINDOWS];

    for (size_t i = 0; i < windows; i++) {
        size_t kept = i ? fbank_frames(FBANK_KALDI, 9 * RATE) : 0,
               end = i ? FRAMES + 100 * (i - 1) : 0;

        rows[i] = raw + (end - kept) * FBANK_KALDI_BINS;
        pieces[i] =
            (struct fbank_piece){pcm + i * RATE + kept * FBANK_STEP, 10 * RATE - kept * FBANK_STEP,
                                 raw + end * FBANK_KALDI_BINS};
    }
    fbank_run_all(f, pieces, windows);
    fbank_centre_all(f, rows, windows, FRAMES, features);
}

int main(int argc, char **argv)
{
    static double wall[MOST_THREADS + 1][MOST_ROUNDS], cpu[MOST_THREADS + 1][MOST_ROUNDS];
    struct fbank *f[MOST_THREADS + 1] = {NULL};
    long rounds = argc > 1 ? strtol(argv[1], NULL, 10) : 15;
    size_t windows = argc > 2 ? strtoul(argv[2], NULL, 10) : MOST_WINDOWS;
    const struct timespec pause = {0, 10000000};
    struct err err = {0};
    double seconds; /* that are heard in a call */

    windows = windows < 1 ? 1 : windows > MOST_WINDOWS ? MOST_WINDOWS : windows;
    seconds = (double)(windows + 9);
    rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    babble_fill(pcm, sizeof(pcm) / sizeof(pcm[0]));
    for (uint32_t t = 1; t <= MOST_THREADS; t *= 2) {
        if (fbank_new(FBANK_KALDI, t, &f[t], &err) != 0) {
            fprintf(stderr, "bench_fbank: %s\n", err.msg);
            return 1;
        }
        hear(f[t], windows);
    }
    for (long i = 0; i < rounds; i++)
        for (uint32_t t = 1; t <= MOST_THREADS; t *= 2) {
            int64_t start;
            double before;

            nanosleep(&pause, NULL); /* others run meanwhile, and not during the call */
            start = clock_mono_ns();
            before = cpu_s();
            hear(f[t], windows);
            wall[t][i] = (double)(clock_mono_ns() - start) / 1e6 / seconds;
            cpu[t][i] = (cpu_s() - before) * 1e3 / seconds;
        }
    printf("threads  ms a second: best  median  of a processor  best is faster by\n");
    for (uint32_t t = 1; t <= MOST_THREADS; t *= 2) {
        qsort(wall[t], (size_t)rounds, sizeof(double), by_value);
        qsort(cpu[t], (size_t)rounds, sizeof(double), by_value);
        printf("%7u %18.3f %7.3f %15.3f %18.2f\n", t, wall[t][0], wall[t][rounds / 2], cpu[t][0],
               wall[1][0] / wall[t][0]);
        fbank_free(f[t]);
    }
    return 0;
}
