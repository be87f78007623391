/* Audio on its way to the device while that computes: in whatever order things run that is legal,
 * each spectrogram is of its own audio; and marks say how far the device is without holding it up.
 */
#include "tests/cuda/operations.h"

#include <pthread.h>

enum { CALLS = 6, SOUNDS = 3, SAMPLES = 100000, BINS = 80, FRAMES = 3000 };

static bool is_late(void) { return getenv("NIGHTSHIFT_EMULATED_ASYNC") != NULL; }

static void fill(float *pcm, uint32_t sound)
{
    operations_seed = sound + 1;
    float *noise = values(SAMPLES);

    memcpy(pcm, noise, SAMPLES * sizeof(*pcm));
    free(noise);
}

static void begin(struct backend *be, struct mel *m, float *pcm, uint32_t sound, struct tensor out)
{
    const struct audio audio = {pcm, SAMPLES};
    struct err e;

    fill(pcm, sound);
    assert_ok(be->ops->mel(be, m, &audio, 1, out, &e), e);
    memset(pcm, 0, SAMPLES * sizeof(*pcm)); /* it may be reused at once */
}

/* Calls that follow each other without a wait take turns at the device's two buffers, and at the
 * pinned ones: none may be written to while what was in it is still to be read. */
static void test_turns(void **unused)
{
    const size_t n = (size_t)FRAMES * BINS;
    float *pcm = malloc(SAMPLES * sizeof(*pcm)), *alone = malloc(SOUNDS * n * sizeof(*alone)),
          *got = malloc(n * sizeof(*got));
    struct backend *be = open_device(false);
    int64_t races = cuda.count("races");
    struct tensor out[CALLS];
    struct mel *m;
    struct err e;

    (void)unused;
    assert_ok(be->ops->mel_new(be, BINS, 1, &m, &e), e);
    for (int i = 0; i < CALLS; i++)
        out[i] = tensor_new(be, FRAMES, BINS, NULL);
    for (uint32_t i = 0; i < SOUNDS; i++) {
        begin(be, m, pcm, i, out[0]);
        assert_ok(be->ops->get(be, alone + i * n, out[0], &e), e);
    }
    assert_memory_not_equal(alone, alone + n, n * sizeof(*alone));
    for (uint32_t i = 0; i < CALLS; i++)
        begin(be, m, pcm, i % SOUNDS, out[i]);
    for (uint32_t i = 0; i < CALLS; i++) {
        assert_ok(be->ops->get(be, got, out[i], &e), e);
        assert_memory_equal(got, alone + i % SOUNDS * n, n * sizeof(*got));
    }
    assert_int_equal(cuda.count("races") - races, 0);
    be->ops->mel_free(be, m);
    backend_close(be);
    free(pcm);
    free(alone);
    free(got);
}

/* A mark is passed when what was asked for before it has ended, whatever comes behind; to wait for
 * it is not to wait for that. */
static void test_marks(void **unused)
{
    float *pcm = malloc(SAMPLES * sizeof(*pcm));
    struct backend *be = open_device(false), *fork;
    struct tensor out = tensor_new(be, FRAMES, BINS, NULL);
    bool there = true;
    int asked = 0;
    struct mel *m;
    struct err e;

    (void)unused;
    assert_ok(be->ops->fork(be, true, &fork, &e), e);
    assert_int_equal(fork->ops->posted(fork, 0, &there, &e), ERR_DEVICE); /* nothing was */
    assert_int_equal(fork->ops->collect(fork, 0, NULL, 0, &e), ERR_DEVICE);
    assert_int_equal(fork->ops->post(fork, BACKEND_BOXES, NULL, 0, &e), ERR_DEVICE);
    assert_ok(fork->ops->mel_new(fork, BINS, 1, &m, &e), e);
    for (uint32_t box = 0; box < 2; box++) {
        begin(fork, m, pcm, box, out);
        assert_ok(fork->ops->post(fork, box, NULL, 0, &e), e);
    }
    assert_int_equal(fork->ops->posted(fork, BACKEND_BOXES, &there, &e), ERR_DEVICE);
    assert_ok(fork->ops->collect(fork, 0, NULL, 0, &e), e);
    assert_ok(fork->ops->posted(fork, 0, &there, &e), e);
    assert_true(there);
    assert_ok(fork->ops->posted(fork, 1, &there, &e), e);
    assert_int_equal(there, !is_late());
    for (; !there; asked++)
        assert_ok(fork->ops->posted(fork, 1, &there, &e), e);
    assert_true(asked < 100);
    fork->ops->mel_free(fork, m);
    backend_close(fork);
    backend_close(be);
    free(pcm);
}

/* A thread with a backend of its own: a spectrogram each round, with memory and a plan that come
 * and go. */
struct listener {
    struct backend *be;
    uint32_t sound;
    const float *alone; /* what that sound gives */
    uint32_t wrong;
    pthread_t thread;
};

static void *listen_alone(void *arg)
{
    const size_t n = (size_t)FRAMES * BINS;
    struct listener *l = arg;
    float *pcm = malloc(SAMPLES * sizeof(*pcm)), *got = malloc(n * sizeof(*got));
    struct backend *be = l->be;

    memcpy(pcm, l->alone + n, SAMPLES * sizeof(*pcm));
    for (uint32_t i = 0; i < CALLS; i++) {
        const struct audio audio = {pcm, SAMPLES};
        struct tensor out = {.type = DTYPE_F32, .rows = FRAMES, .cols = BINS, .stride = BINS};
        struct mel *m = NULL;
        struct err e;
        bool well = be->ops->alloc(be, n * sizeof(float), &out.data, &e) == 0 &&
                    be->ops->mel_new(be, BINS, 1, &m, &e) == 0 &&
                    be->ops->mel(be, m, &audio, 1, out, &e) == 0 &&
                    be->ops->get(be, got, out, &e) == 0;

        l->wrong += !well || memcmp(got, l->alone, n * sizeof(*got)) != 0;
        if (m)
            be->ops->mel_free(be, m);
        be->ops->release(be, out.data);
    }
    free(pcm);
    free(got);
    return NULL;
}

/* A device and two forks of it, one a fork's, are called by a thread each. */
static void test_threads(void **unused)
{
    const size_t n = (size_t)FRAMES * BINS;
    struct backend *be = open_device(false), *fork[SOUNDS] = {be};
    struct tensor out = tensor_new(be, FRAMES, BINS, NULL);
    struct listener l[SOUNDS];
    float *alone[SOUNDS];
    uint64_t held, now, peak;
    struct mel *m;
    struct err e;

    (void)unused;
    assert_ok(be->ops->mel_new(be, BINS, 1, &m, &e), e);
    for (uint32_t i = 0; i < SOUNDS; i++) {
        alone[i] = malloc((n + SAMPLES) * sizeof(float));
        fill(alone[i] + n, i);
        assert_ok(be->ops->mel(be, m, &(struct audio){alone[i] + n, SAMPLES}, 1, out, &e), e);
        assert_ok(be->ops->get(be, alone[i], out, &e), e);
        if (i > 0)
            assert_ok(be->ops->fork(fork[i - 1], i == 1, &fork[i], &e), e);
        assert_ptr_equal(backend_home(fork[i]), be);
        l[i] = (struct listener){.be = fork[i], .sound = i, .alone = alone[i]};
    }
    be->ops->mel_free(be, m);
    backend_memory(be, &held, &peak);
    for (uint32_t i = 0; i < SOUNDS; i++)
        assert_int_equal(pthread_create(&l[i].thread, NULL, listen_alone, &l[i]), 0);
    for (uint32_t i = 0; i < SOUNDS; i++) {
        pthread_join(l[i].thread, NULL);
        assert_int_equal(l[i].wrong, 0);
        free(alone[i]);
    }
    backend_memory(fork[SOUNDS - 1], &now, &peak);
    assert_int_equal(now, held);
    assert_true(peak > held && be->allocated == held);
    for (uint32_t i = SOUNDS; i-- > 0;)
        backend_close(fork[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(nothing_held),
    };

    return cmocka_run_group_tests_name("cuda audio", tests, open_module, NULL);
}
