/* Probabilities of voice against those of Silero's own ONNX graph (make_fixtures.py), with the real
 * weights, which lie in ../shared: skipped without them. With a folder as an argument: its weights
 * and probabilities. "speed" as an argument: how many times faster than real time, on one stream
 * and on eight. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "tests/parity/nano/fixture.h"
#include "workers/models/silero/silero.h"

#define TOLERANCE 1e-4

static const struct {
    const char *name, *audio;
    bool outside; /* in ../shared */
} recordings[] = {
    {"01_en_short", "tests/samples/01_en_short.wav", false},
    {"10_noise_only", "tests/samples/10_noise_only.wav", false},
    {"dialogue", "golden/diarization/test_single_speaker.wav", true},
};

#define RECORDINGS (sizeof(recordings) / sizeof(recordings[0]))

struct voice {
    float *pcm, *prob; /* whole steps */
    size_t steps, done;
    struct silero_stream stream;
};

static void voice_open(struct voice *v, size_t which)
{
    char rel[256];
    float *pcm;
    size_t n;

    snprintf(rel, sizeof(rel), "%s", recordings[which].audio);
    assert_int_equal(
        fixture_wav(recordings[which].outside ? test_shared_path(rel) : test_source_path(rel), &pcm,
                    &n),
        0);
    *v = (struct voice){.steps = (n + SILERO_STEP - 1) / SILERO_STEP};
    v->pcm = calloc(v->steps * SILERO_STEP, sizeof(float));
    v->prob = malloc(v->steps * sizeof(float));
    assert_true(v->pcm && v->prob);
    memcpy(v->pcm, pcm, n * sizeof(float));
    free(pcm);
}

static void voice_close(struct voice *v)
{
    free(v->pcm);
    free(v->prob);
}

/* All of them side by side; each block as long as can be, or `longest`. */
static void run(struct silero *s, struct voice *v, size_t n, uint32_t longest)
{
    for (;;) {
        struct silero_block block[8];
        uint32_t blocks = 0;
        struct err e;

        for (size_t i = 0; i < n; i++) {
            size_t left = v[i].steps - v[i].done;

            if (left == 0)
                continue;
            left = left < longest ? left : longest;
            block[blocks++] = (struct silero_block){
                &v[i].stream, v[i].pcm + v[i].done * SILERO_STEP, (uint32_t)left * SILERO_STEP,
                (uint32_t)left, v[i].prob + v[i].done};
            v[i].done += left;
        }
        if (blocks == 0)
            return;
        assert_ok(silero_run(s, block, blocks, &e), e);
    }
}

static const char *folder; /* NULL: the kept probabilities, the weights in ../shared */

static const char *weights_path(void)
{
    static char path[4096];

    if (!folder)
        return test_shared_path("models/" SILERO_NAME "/" SILERO_FILE);
    snprintf(path, sizeof(path), "%s/%s", folder, SILERO_FILE);
    return path;
}

static void compare(const struct voice *v, const char *name)
{
    double worst = 0.0;
    char path[4200], line[64];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s.prob",
             folder ? folder : test_source_path("tests/parity/vad"), name);
    f = fopen(path, "r");
    assert_non_null(f);
    for (size_t i = 0; i < v->steps; i++) {
        assert_non_null(fgets(line, sizeof(line), f));
        worst = distance_larger(worst, fabs(strtod(line, NULL) - (double)v->prob[i]));
    }
    assert_null(fgets(line, sizeof(line), f));
    fclose(f);
    print_message("  %-14s %zu steps, at most %.1e off\n", name, v->steps, worst);
    assert_true(worst <= TOLERANCE);
}

static void load(struct backend **be, struct silero **s)
{
    struct err e;

    assert_ok(backend_open_host(0, be, &e), e);
    assert_ok(silero_load(weights_path(), *be, 8, s, &e), e);
}

TEST(as_onnx)
{
    struct voice v[RECORDINGS];
    struct backend *be;
    struct silero *s;

    load(&be, &s);
    for (size_t i = 0; i < RECORDINGS; i++)
        voice_open(&v[i], i);
    run(s, v, RECORDINGS, 100);
    for (size_t i = 0; i < RECORDINGS; i++) {
        compare(&v[i], recordings[i].name);
        voice_close(&v[i]);
    }
    silero_free(s);
    backend_close(be);
}

static void speed(void)
{
    for (size_t n = 1; n <= 8; n *= 8) {
        struct voice v[8] = {{0}};
        struct timespec begin, end;
        struct backend *be;
        struct silero *s;
        double seconds, audio, cpu;

        load(&be, &s);
        for (size_t i = 0; i < n; i++) {
            v[i].steps = 256 * SILERO_BLOCK / n;
            v[i].pcm = calloc(v[i].steps * SILERO_STEP, sizeof(float));
            v[i].prob = calloc(v[i].steps, sizeof(float));
            assert_true(v[i].pcm && v[i].prob);
            for (size_t k = 0; k < v[i].steps * SILERO_STEP; k++)
                v[i].pcm[k] = sinf((float)(k * (i + 1)) * 0.01f);
        }
        cpu = (double)clock();
        clock_gettime(CLOCK_MONOTONIC, &begin);
        run(s, v, n, SILERO_BLOCK);
        clock_gettime(CLOCK_MONOTONIC, &end);
        seconds =
            (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
        cpu = ((double)clock() - cpu) / (double)CLOCKS_PER_SEC;
        audio = 256.0 * SILERO_BLOCK * SILERO_STEP / 16000.0;
        print_message(
            "%zu streams, %u threads: %.0f s in %.3f s (%.3f s of processor time): %.0f x "
            "real time\n",
            n, be->info.threads, audio, seconds, cpu, audio / seconds);
        for (size_t i = 0; i < n; i++)
            voice_close(&v[i]);
        silero_free(s);
        backend_close(be);
    }
}

int main(int argc, char **argv)
{
    bool is_speed = argc > 1 && strcmp(argv[1], "speed") == 0;

    folder = argc > 1 && !is_speed ? argv[1] : NULL;
    if (access(weights_path(), R_OK) != 0) {
        print_message("skipped: no %s\n", weights_path());
        return TEST_SKIPPED;
    }
    if (is_speed) {
        speed();
        return 0;
    }
    return suite_run(NULL, NULL);
}
