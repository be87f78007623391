/* The networks of diarization on the host against pyannote.audio's and Resemblyzer's, with seeded
 * random weights (make_fixtures.py); and that a result does not depend on what shares a call. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "tests/common/files.h"
#include "tests/parity/diarization/networks.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/models/pyannote/voiceprint_net.h"

#define WINDOWS 3
#define EVERY 4         /* frames of a fixture's scores */
#define FRAMES_APART 37 /* of a fixture's features */
#define BOUND 1e-4      /* relative to the largest value */

static char folder[] = "networks-XXXXXX";
static float pcm[WINDOWS][NETWORK_SAMPLES];
static struct backend *be;

static int setup(void **state)
{
    struct err e;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    for (uint32_t i = 0; i < WINDOWS; i++)
        network_sound(i, pcm[i]);
    assert_ok(backend_open_host(0, &be, &e), e);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    backend_close(be);
    unlink("network.safetensors");
    return chdir("..") != 0 || rmdir(folder) != 0;
}

static void write_network(struct network *n, bool folded)
{
    if (folded)
        network_fold(n);
    network_write(n, "network.safetensors", 0);
    network_free(n);
}

/* ---- segmentation */

static float scores[2][WINDOWS][PYANNET_FRAMES][PYANNET_CLASSES];
static uint8_t sets[WINDOWS][PYANNET_FRAMES];

static void compare_scores(const char *config)
{
    const size_t kept = (PYANNET_FRAMES + EVERY - 1) / EVERY;
    float *want = file_floats(WINDOWS * kept * PYANNET_CLASSES,
                              "tests/parity/diarization/%s.scores.f32", config),
          *at = want;
    double worst = 0.0, largest = 0.0;

    for (size_t w = 0; w < WINDOWS; w++) {
        for (size_t f = 0; f < PYANNET_FRAMES; f += EVERY) {
            for (size_t c = 0; c < PYANNET_CLASSES; c++, at++) {
                worst = distance_larger(worst, fabs((double)scores[0][w][f][c] - (double)*at));
                largest = fmax(largest, fabs((double)*at));
            }
        }
    }
    print_message("%s: %.1e of %.1f\n", config, worst, largest);
    assert_true(worst < BOUND * largest);
    free(want);
}

/* The sets of the likeliest classes, in pyannote's order of classes. */
static void check_sets(void)
{
    static const uint8_t order[PYANNET_CLASSES] = {0, 1, 2, 4, 3, 5, 6};

    for (size_t w = 0; w < WINDOWS; w++) {
        for (size_t f = 0; f < PYANNET_FRAMES; f++) {
            size_t best = 0;

            for (size_t c = 1; c < PYANNET_CLASSES; c++)
                if (scores[0][w][f][c] > scores[0][w][f][best])
                    best = c;
            assert_int_equal(sets[w][f], order[best]);
        }
    }
}

/* alone: from which window on they are computed once more one by one, with the same bits. */
static void check_segmentation(const char *config, bool folded, size_t alone)
{
    struct pyannet *p;
    struct err e;

    write_network(network_segmentation(config), folded);
    assert_ok(pyannet_load("network.safetensors", be, WINDOWS, &p, &e), e);
    assert_int_equal(pyannet_windows(p), WINDOWS);
    assert_ok(pyannet_scores(p, pcm[0], NULL, WINDOWS, scores[0][0][0], &e), e);
    compare_scores(config);
    for (size_t w = WINDOWS; w-- > alone;) {
        assert_ok(pyannet_scores(p, pcm[w], NULL, 1, scores[1][w][0], &e), e);
        assert_memory_equal(scores[0][w], scores[1][w], sizeof(scores[0][w]));
    }
    assert_ok(pyannet_run(p, pcm[0], NULL, WINDOWS, sets[0], &e), e);
    check_sets();
    pyannet_free(p);
}

TEST(segmentation_as_reference)
{
    check_segmentation("pyannet", false, WINDOWS - 1);
    check_segmentation("small", false, 0);
    check_segmentation("small", true, WINDOWS);
}

/* As a device does that gains by it: several windows in a call, fewer than there might be. */
TEST(many_windows_in_a_call)
{
    struct pyannet *p;
    struct err e;

    write_network(network_segmentation("small"), false);
    be->info.wide_batches = true;
    be->info.deterministic = false;
    assert_ok(pyannet_load("network.safetensors", be, 4, &p, &e), e);
    assert_ok(pyannet_scores(p, pcm[0], NULL, WINDOWS, scores[0][0][0], &e), e);
    be->info.wide_batches = false;
    be->info.deterministic = true;
    compare_scores("small");
    pyannet_free(p);
}

/* Its tensors among a training's settings and classes, as Lightning leaves them. */
TEST(reads_lightning)
{
    struct pyannet *p;
    struct err e;

    write_network(network_segmentation("tiny"), false);
    assert_ok(pyannet_load("network.safetensors", be, 1, &p, &e), e);
    assert_ok(pyannet_scores(p, pcm[1], NULL, 1, scores[0][0][0], &e), e);
    pyannet_free(p);
    assert_ok(
        pyannet_load(test_source_path("tests/parity/diarization/lightning.bin"), be, 1, &p, &e), e);
    assert_ok(pyannet_scores(p, pcm[1], NULL, 1, scores[1][0][0], &e), e);
    pyannet_free(p);
    assert_memory_equal(scores[0][0], scores[1][0], sizeof(scores[0][0]));
}

/* ---- features */

static void compare_features(const struct filter_bank_spec *spec, const char *name, size_t frames)
{
    const size_t bins = spec->mel.bins;
    const uint32_t at = 0;
    size_t kept = (frames + FRAMES_APART - 1) / FRAMES_APART;
    float *want = file_floats(kept * bins, "tests/parity/diarization/%s.f32", name),
          *have = malloc(frames * bins * sizeof(float));
    double worst = 0.0, largest = 0.0;
    struct filter_bank *f;
    struct err e;

    assert_non_null(have);
    assert_int_equal(filter_bank_frames(spec, NETWORK_SAMPLES), frames);
    assert_ok(be->ops->filter_bank_new(be, spec, &f, &e), e);
    assert_ok(be->ops->filter_bank(be, f, tensor_of(DTYPE_F32, pcm[0], 1, NETWORK_SAMPLES), &at, 1,
                                   NETWORK_SAMPLES,
                                   tensor_of(DTYPE_F32, have, (int64_t)frames, (int64_t)bins), &e),
              e);
    be->ops->filter_bank_free(be, f);
    for (size_t i = 0; i < kept; i++) {
        for (size_t b = 0; b < bins; b++) {
            double v = (double)want[i * bins + b];

            worst = distance_larger(worst, fabs((double)have[i * FRAMES_APART * bins + b] - v));
            largest = fmax(largest, fabs(v));
        }
    }
    print_message("%s: %.1e of %.1f\n", name, worst, largest);
    assert_true(worst < BOUND * largest);
    free(want);
    free(have);
}

TEST(features_as_reference)
{
    struct filter_bank_spec kaldi = voice_resnet_bank;

    kaldi.centre = false;
    compare_features(&kaldi, "kaldi", 998);
    compare_features(&voice_ge2e_bank, "power", 1001);
}

/* ---- voices */

static float weights[NETWORK_MASKS + 1][NETWORK_MASK_FRAMES];
static struct voice_mask masks[NETWORK_MASKS + 1]; /* the last one covers nothing */
static float vectors[2][(NETWORK_MASKS + 1) * VOICEPRINT_MAX_SIZE];

static void make_masks(void)
{
    for (uint32_t m = 0; m < NETWORK_MASKS; m++)
        masks[m] =
            (struct voice_mask){.window = network_mask(m, weights[m]), .weights = weights[m]};
    masks[NETWORK_MASKS] = (struct voice_mask){.window = 1, .weights = weights[NETWORK_MASKS]};
}

/* Of a single one of the network's frames the deviation is 0 / 1e-4, where the reference has what
 * float32 leaves of the mean divided by that: it is 1e-4 off what it computes in float64 itself. */
static double bound_of(uint32_t m) { return m % 5 < 3 ? BOUND : 1e-3; }

/* Each vector by itself: relative to its largest value. A vector of zeros: there is none. */
static void compare_vectors(const char *config, const float *have, uint32_t size)
{
    float *want = file_floats((size_t)NETWORK_MASKS * size,
                              "tests/parity/diarization/%s.vectors.f32", config);
    double worst[2] = {0.0, 0.0};
    uint32_t none = 0;

    for (uint32_t m = 0; m < NETWORK_MASKS; m++) {
        double off = 0.0, largest = 0.0;

        for (size_t k = m * size; k < (m + 1) * (size_t)size; k++)
            largest = fmax(largest, fabs((double)want[k]));
        for (size_t k = m * size; k < (m + 1) * (size_t)size; k++) {
            assert_int_equal(isnan(have[k]), largest == 0.0);
            off = largest == 0.0 ? 0.0
                                 : distance_larger(off, fabs((double)have[k] - (double)want[k]));
        }
        none += largest == 0.0;
        off = largest == 0.0 ? 0.0 : off / largest;
        assert_true(off < bound_of(m));
        worst[m % 5 >= 3] = distance_larger(worst[m % 5 >= 3], off);
    }
    print_message("%s: %.1e, of few frames %.1e, no vector of %u masks\n", config, worst[0],
                  worst[1], none);
    assert_true(none < NETWORK_MASKS / 2);
    free(want);
}

/* alone: the mask from which on they are computed once more one by one, with the same bits. */
static void check_voices(struct network *n, const char *config, bool folded, uint32_t size,
                         uint32_t alone)
{
    struct voiceprint *v;
    struct err e;

    write_network(n, folded);
    assert_ok(voiceprint_load("network.safetensors", be, WINDOWS, NETWORK_SAMPLES, &v, &e), e);
    assert_int_equal(voiceprint_size(v), size);
    assert_int_equal(voiceprint_windows(v), WINDOWS);
    assert_ok(voiceprint_run(v, pcm[0], NULL, NETWORK_SAMPLES, WINDOWS, masks, NETWORK_MASKS + 1,
                             NETWORK_MASK_FRAMES, vectors[0], &e),
              e);
    compare_vectors(config, vectors[0], size);
    for (uint32_t k = 0; k < size; k++)
        assert_true(isnan(vectors[0][NETWORK_MASKS * size + k]));
    for (uint32_t m = alone; m < NETWORK_MASKS; m++) {
        const struct voice_mask mask = {.window = 0, .weights = masks[m].weights};
        size_t at = (size_t)m * size;

        assert_ok(voiceprint_run(v, pcm[masks[m].window], NULL, NETWORK_SAMPLES, 1, &mask, 1,
                                 NETWORK_MASK_FRAMES, vectors[1] + at, &e),
                  e);
        assert_memory_equal(vectors[0] + at, vectors[1] + at, size * sizeof(float));
    }
    voiceprint_free(v);
}

TEST(voices_as_reference)
{
    make_masks();
    check_voices(network_resnet("resnet34"), "resnet34", false, 256, NETWORK_MASKS - 2);
    check_voices(network_resnet("resnet"), "resnet", false, 48, 0);
    check_voices(network_resnet("resnet"), "resnet", true, 48, NETWORK_MASKS);
    check_voices(network_ge2e("ge2e"), "ge2e", false, 256, 5);
    check_voices(network_ge2e("little"), "little", false, 64, 0);
}

TEST(many_voices_in_a_call)
{
    struct voiceprint *v;
    struct err e;

    make_masks();
    write_network(network_resnet("resnet"), false);
    be->info.wide_batches = true;
    be->info.deterministic = false;
    assert_ok(voiceprint_load("network.safetensors", be, 4, NETWORK_SAMPLES, &v, &e), e);
    assert_ok(voiceprint_run(v, pcm[0], NULL, NETWORK_SAMPLES, WINDOWS, masks, NETWORK_MASKS,
                             NETWORK_MASK_FRAMES, vectors[0], &e),
              e);
    be->info.wide_batches = false;
    be->info.deterministic = true;
    compare_vectors("resnet", vectors[0], 48);
    voiceprint_free(v);
}

TEST_MAIN(setup, teardown)
