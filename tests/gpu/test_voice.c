/* Voice activity on the device, with made-up weights: against plain loops in double precision, many
 * blocks in a call; and, with `deterministic`, the same bits whatever else is computed. */
#include "tests/common/test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/common/distance.h"
#include "tests/gpu/device.h"
#include "tests/unit/models/silero_model.h"
#include "workers/models/silero/silero.h"

#define STREAMS 3
#define STEPS 140 /* more than a block */
#define FILE_NAME "voice.safetensors"

static float pcm[STREAMS][STEPS * SILERO_STEP];
static double want[STREAMS][STEPS];

/* A folder of its own: the same test may run twice at once, on other kernels. */
static char folder[] = "voice-XXXXXX";

static int setup(void **state)
{
    struct silero_model *model = silero_model_new(3);
    uint64_t seed = 11;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    silero_model_write(model, FILE_NAME, 0);
    for (size_t i = 0; i < STREAMS; i++) {
        struct silero_model_stream s = {.context = {0}};

        for (size_t k = 0; k < (size_t)STEPS * SILERO_STEP; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            pcm[i][k] =
                ((float)(seed >> 40) * 0x1p-23f - 1.0f) * fabsf(sinf((float)(k * (i + 1)) * 2e-5f));
        }
        for (size_t k = 0; k < STEPS; k++)
            want[i][k] = silero_model_step(model, &s, pcm[i] + k * SILERO_STEP);
    }
    silero_model_free(model);
    return 0;
}

/* Streams from .. past - 1 side by side. */
static void run(struct silero *s, size_t from, size_t past, float prob[STREAMS][STEPS])
{
    struct silero_stream stream[STREAMS] = {{.h = {0}}};
    struct err e;

    for (size_t done = 0, steps; done < STEPS; done += steps) {
        struct silero_block block[STREAMS];

        steps = STEPS - done < SILERO_BLOCK ? STEPS - done : SILERO_BLOCK;
        for (size_t i = from; i < past; i++)
            block[i] = (struct silero_block){&stream[i], pcm[i] + done * SILERO_STEP,
                                             (uint32_t)steps * SILERO_STEP, (uint32_t)steps,
                                             prob[i] + done};
        assert_ok(silero_run(s, block + from, (uint32_t)(past - from), &e), e);
    }
}

static int teardown(void **state)
{
    (void)state;
    unlink(FILE_NAME);
    return chdir("..") != 0 || rmdir(folder) != 0;
}

static void one(bool deterministic)
{
    static float together[STREAMS][STEPS], alone[STREAMS][STEPS];
    struct cuda_options options = {.deterministic = deterministic};
    struct backend *be = gpu_open(&options);
    struct silero *s;
    double worst = 0.0;
    struct err e;

    assert_ok(silero_load(FILE_NAME, be, STREAMS, &s, &e), e);
    run(s, 0, STREAMS, together);
    for (size_t i = 0; i < STREAMS; i++) {
        run(s, i, i + 1, alone);
        if (deterministic)
            assert_memory_equal(alone[i], together[i], sizeof(alone[i]));
        for (size_t k = 0; k < STEPS; k++) {
            worst = distance_larger(worst, fabs((double)together[i][k] - want[i][k]));
            worst = distance_larger(worst, fabs((double)alone[i][k] - want[i][k]));
        }
    }
    print_message("%-13s at most %.1e off\n", deterministic ? "deterministic" : "free", worst);
    assert_true(worst < 1e-5);
    silero_free(s);
    backend_close(be);
}

TEST(free_grouping) { one(false); }

TEST(deterministic) { one(true); }

int main(void)
{
    gpu_device();
    return suite_run(setup, teardown);
}
