/* A long recording with made-up voices through diarize_recording: prints seconds and memory. Not a
 * test of speed: run by hand, `bench_speakers [hours [speakers [ahc|vbx [flat]]]]` (10, 12, ahc).
 * It fails when the speakers that are found are not those that were made.
 *
 * Windows of 10 s each second, one to three voices heard in each. A voice in a window is its
 * speaker's mean and noise that changes slowly from window to window, as windows that overlap hear
 * nearly the same. The noise has a few strong directions and many weak ones, as vectors of real
 * voices have; with "flat" all 256 are equally strong, which is the worst that can come: nothing
 * then tells far from near but the whole vector. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/clock.h"
#include "tests/unit/speakers/made.h"
#include "workers/speakers/vbx.h"

#define SIZE 256u
#define LDA 128u
#define FRAMES 589u

static double normal(uint64_t seed, uint64_t i)
{
    double sum = 0;

    for (uint64_t k = 0; k < 4; k++)
        sum += made_noise(seed, 4 * i + k);
    return sum * 1.7320508075688772;
}

struct voices {
    double *mean, *noise, *strength;
    uint64_t drawn;
};

static void speak(struct voices *v, uint32_t speaker, float *ret)
{
    for (uint32_t k = 0; k < SIZE; k++) {
        double *at = &v->noise[speaker * SIZE + k];

        *at = 0.8 * *at + 0.6 * v->strength[k] * normal(7, v->drawn++);
        ret[k] = (float)(v->mean[speaker * SIZE + k] + *at);
    }
}

static struct voices voices_of(uint32_t speakers, int flat)
{
    struct voices v = {calloc(speakers * SIZE, sizeof(double)),
                       calloc(speakers * SIZE, sizeof(double)), calloc(SIZE, sizeof(double)), 0};
    double all = 0;

    for (uint32_t k = 0; k < SIZE; k++) {
        v.strength[k] = flat ? 1 : 1 / sqrt(1 + k / 16.0);
        all += v.strength[k] * v.strength[k];
    }
    for (uint32_t k = 0; k < SIZE; k++)
        v.strength[k] *= 0.7 / sqrt(all); /* noise of length 0.7 beside means of length 1 */
    for (uint32_t i = 0; i < speakers * SIZE; i++)
        v.mean[i] = normal(3, i) / 16;
    return v;
}

static struct made record(uint32_t windows, uint32_t speakers, int flat)
{
    struct made m = {.active = calloc(windows, FRAMES),
                     .vectors = calloc((size_t)windows * 3, SIZE * sizeof(float))};
    struct voices v = voices_of(speakers, flat);
    uint32_t now = 0;

    m.in = (struct diarize_input){windows,   FRAMES,        3,        10,   1,        0.016875,
                                  0.0619375, windows + 9.0, m.active, SIZE, m.vectors};
    for (uint32_t w = 0; w < windows; w++) {
        uint32_t heard = made_noise(5, w) < 0.15 ? 1 : made_noise(5, w) < 0.45 ? 2 : 3;

        if (made_noise(4, w) > 0.3)
            now = (uint32_t)((made_noise(6, w) + 0.5) * speakers);
        for (uint32_t s = 0; s < heard; s++) {
            memset(m.active + (size_t)w * FRAMES + s * 190, 1 << s, 185);
            speak(&v, (now + s) % speakers, m.vectors + ((size_t)w * 3 + s) * SIZE);
        }
        for (uint32_t s = heard; s < 3; s++)
            m.vectors[((size_t)w * 3 + s) * SIZE] = NAN;
    }
    free(v.mean);
    free(v.noise);
    free(v.strength);
    return m;
}

static struct plda *transform(void)
{
    double *zero = calloc(SIZE, sizeof(double)), *matrix = calloc(SIZE * LDA, sizeof(double));
    double *tr = calloc(LDA * LDA, sizeof(double)), *psi = calloc(LDA, sizeof(double));
    const struct plda_arrays a = {SIZE, LDA, zero, zero, matrix, zero, tr, psi};
    struct plda *p = NULL;
    struct err e = {0};

    for (uint32_t i = 0; i < SIZE * LDA; i++)
        matrix[i] = normal(11, i);
    for (uint32_t i = 0; i < LDA; i++) {
        tr[i * LDA + i] = 1;
        psi[i] = 2.0 / (1 + i / 16.0);
    }
    if (plda_new(&a, 0, &p, &e) != 0)
        fprintf(stderr, "%s\n", e.msg);
    free(zero);
    free(matrix);
    free(tr);
    free(psi);
    return p;
}

int main(int argc, char **argv)
{
    double hours = argc > 1 ? strtod(argv[1], NULL) : 10;
    uint32_t speakers = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 12;
    int vbx = argc > 3 && strcmp(argv[3], "vbx") == 0, flat = argc > 4;
    struct made m = record((uint32_t)(hours * 3600), speakers, flat);
    struct diarize_params p;
    struct diarize_result r = {0};
    struct plda *plda = vbx ? transform() : NULL;
    struct err e = {0};
    struct rusage u;
    int64_t since = clock_mono_ms();
    clock_t processor = clock();
    int rc;

    diarize_params_default(vbx ? DIARIZE_VBX : DIARIZE_AHC, &p);
    rc = diarize_recording(&m.in, &p, plda, &r, &e);
    getrusage(RUSAGE_SELF, &u);
    if (rc != 0)
        fprintf(stderr, "%s\n", e.msg);
    printf(
        "%g h, %u speakers, %s%s: %.1f s, %.1f s of processors, %ld MiB peak, %u speakers found in "
        "%u turns\n",
        hours, speakers, vbx ? "vbx" : "ahc", flat ? ", flat noise" : "",
        (double)(clock_mono_ms() - since) / 1000, (double)(clock() - processor) / CLOCKS_PER_SEC,
        u.ru_maxrss / 1024, r.speakers, r.turn_count);
    rc = rc != 0 || r.speakers != speakers;
    diarize_free(&r);
    plda_free(plda);
    made_free(&m);
    return rc;
}
