/* The voice activity network on the host against plain loops, whatever else is computed with it;
 * and files that are no such model. */
#include "tests/common/test.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "tests/common/distance.h"
#include "tests/unit/models/silero_model.h"
#include "workers/models/silero/silero.h"

#define STEPS 300
#define STREAMS 5
#define FILE_NAME "voice.safetensors"
#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static struct silero_model *model;
static float pcm[STREAMS][STEPS * SILERO_STEP];
static double want[STREAMS][STEPS];

static float noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (float)(*state >> 40) * 0x1p-23f - 1.0f;
}

/* A folder of its own: the same test may run twice at once, on other kernels. */
static char folder[] = "voice-XXXXXX";

static int setup(void **state)
{
    uint64_t seed = 7;

    (void)state;
    model = silero_model_new(3);
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    silero_model_write(model, FILE_NAME, 0);
    for (size_t i = 0; i < STREAMS; i++) {
        struct silero_model_stream s = {0};

        for (size_t k = 0; k < (size_t)STEPS * SILERO_STEP; k++)
            pcm[i][k] = noise(&seed) * fabsf(sinf((float)(k * (i + 1)) * 2e-5f));
        for (size_t k = 0; k < STEPS; k++)
            want[i][k] = silero_model_step(model, &s, pcm[i] + k * SILERO_STEP);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    silero_model_free(model);
    unlink(FILE_NAME);
    unlink("bad.safetensors");
    return chdir("..") != 0 || rmdir(folder) != 0;
}

struct result {
    float prob[STREAMS][STEPS];
    struct silero_stream stream[STREAMS];
};

/* Streams from .. past - 1, each block of random length up to `longest`, a random choice of streams
 * in each call. */
static void run(struct silero *s, size_t from, size_t past, uint32_t longest, uint64_t seed,
                struct result *ret)
{
    size_t done[STREAMS] = {0};
    struct err e;

    memset(ret->stream, 0, sizeof(ret->stream));
    for (bool more = true; more;) {
        struct silero_block block[STREAMS];
        uint32_t n = 0;

        more = false;
        for (size_t i = from; i < past; i++) {
            uint32_t left = (uint32_t)(STEPS - done[i]);

            more = more || left;
            if (!left || (past - from > 1 && noise(&seed) < -0.3f))
                continue;
            left = left < longest ? left : longest;
            block[n++] = (struct silero_block){&ret->stream[i], pcm[i] + done[i] * SILERO_STEP,
                                               left * SILERO_STEP, left, ret->prob[i] + done[i]};
            done[i] += left;
        }
        assert_ok(silero_run(s, block, n, &e), e);
    }
}

static double worst(const struct result *r, size_t from, size_t past)
{
    double most = 0.0;

    for (size_t i = from; i < past; i++)
        for (size_t k = 0; k < STEPS; k++)
            most = distance_larger(most, fabs((double)r->prob[i][k] - want[i][k]));
    return most;
}

static struct result alone, together, other;

TEST(as_plain_loops)
{
    double least = 1.0, most = 0.0;
    struct backend *be;
    struct silero *s;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    assert_ok(silero_load(FILE_NAME, be, STREAMS, &s, &e), e);
    assert_int_equal(silero_blocks(s), STREAMS);
    run(s, 0, STREAMS, SILERO_BLOCK, 1, &together);
    print_message("at most %.1e off\n", worst(&together, 0, STREAMS));
    assert_true(worst(&together, 0, STREAMS) < 2e-6);
    for (size_t k = 0; k < STEPS; k++) { /* it says something */
        least = fmin(least, want[0][k]);
        most = fmax(most, want[0][k]);
    }
    assert_true(most - least > 0.1);
    for (size_t i = 0; i < STREAMS; i++) { /* nor do others matter */
        run(s, i, i + 1, SILERO_BLOCK, 1, &alone);
        assert_memory_equal(alone.prob[i], together.prob[i], sizeof(alone.prob[i]));
        assert_memory_equal(&alone.stream[i], &together.stream[i], sizeof(alone.stream[i]));
    }
    run(s, 0, STREAMS, 37, 2, &other);
    assert_true(worst(&other, 0, STREAMS) < 2e-6);
    silero_free(s);
    backend_close(be);
}

/* As a device does that gains by it: several blocks in a call, fewer than there might be. */
TEST(many_in_a_call)
{
    struct backend *be;
    struct silero *s;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    be->info.wide_batches = true;
    be->info.deterministic = false;
    assert_ok(silero_load(FILE_NAME, be, 4, &s, &e), e);
    run(s, 0, 4, 90, 1, &together);
    assert_true(worst(&together, 0, 4) < 2e-6);
    silero_free(s);
    assert_ok(silero_load(FILE_NAME, be, 0, &s, &e), e);
    assert_true(silero_blocks(s) > 8);
    silero_free(s);
    be->info.deterministic = true;
    assert_ok(silero_load(FILE_NAME, be, 0, &s, &e), e);
    assert_int_equal(silero_blocks(s), 1);
    silero_free(s);
    backend_close(be);
}

/* Blocks whose audio lies over each other, or ends within a step: as each has it by itself, with
 * zeros where there is none. */
TEST(shared_audio)
{
    static const struct {
        uint32_t at, steps, samples;
    } lies[] = {{0, 128, 65536},
                {16000, 128, 65536},
                {33000, 5, 2560},
                {16000, 128, 65536},
                {32000, 57, 29184 - 256},
                {48064, 1, 512 - 128},
                {48128, 1, 512 - 64},
                {32064, 3, 1536 - 64},
                {48064, 2, 777},
                {48128, 3, 1536},
                {48192, 3, 1536 - 576},
                {16000, 9, 4096},
                {16064, 2, 777},
                {48064, 1, 448},
                {48064, 3, 1030},
                {16000, 1, 0},
                {48064, 3, 0},
                {60000, 100, 51008}};
    static float own[COUNT(lies)][SILERO_BLOCK * SILERO_STEP], prob[2][COUNT(lies)][SILERO_BLOCK];
    static struct silero_stream stream[2][COUNT(lies)];
    const size_t end = 60000 + 51008; /* of the last block: nothing is read behind it */
    float *shared = malloc(end * sizeof(float));
    struct silero_block block[2][COUNT(lies)];
    struct backend *be;
    struct silero *s;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    be->info.wide_batches = true;
    be->info.deterministic = false;
    assert_ok(silero_load(FILE_NAME, be, 2 * COUNT(lies), &s, &e), e);
    memcpy(shared, pcm[0], end * sizeof(float));
    for (size_t i = 0; i < COUNT(lies); i++) {
        for (size_t k = 0; k < SILERO_CONTEXT; k++)
            stream[0][i].context[k] = stream[1][i].context[k] = i % 2 ? pcm[1][k + i] : 0.0f;
        memcpy(own[i], shared + lies[i].at, lies[i].samples * sizeof(float));
        block[0][i] = (struct silero_block){&stream[0][i], shared + lies[i].at, lies[i].samples,
                                            lies[i].steps, prob[0][i]};
        block[1][i] = (struct silero_block){&stream[1][i], own[i], lies[i].steps * SILERO_STEP,
                                            lies[i].steps, prob[1][i]};
    }
    assert_ok(silero_run(s, block[0], COUNT(lies), &e), e);
    assert_ok(silero_run(s, block[1], COUNT(lies), &e), e);
    for (size_t i = 0; i < COUNT(lies); i++) {
        assert_memory_equal(prob[0][i], prob[1][i], lies[i].steps * sizeof(float));
        assert_memory_equal(&stream[0][i], &stream[1][i], sizeof(stream[0][i]));
        assert_true(prob[0][i][0] > 0.0f);
    }
    free(shared);
    silero_free(s);
    backend_close(be);
}

TEST(memory)
{
    struct backend *be;
    struct silero *s;
    struct err e;
    uint64_t taken, left; /* left: scratch that the backend keeps */

    assert_ok(backend_open_host(0, &be, &e), e);
    be->info.wide_batches = true;
    be->info.deterministic = false;
    for (uint32_t blocks = 1; blocks <= 9; blocks += 8) {
        double ratio;

        assert_ok(silero_load(FILE_NAME, be, blocks, &s, &e), e);
        taken = be->allocated;
        silero_free(s);
        left = be->allocated;
        assert_true(left < taken / 4);
        ratio = (double)silero_predict_bytes(blocks) / (double)(taken - left);
        if (!(ratio > 0.9 && ratio < 1.1))
            print_error("%u blocks: %.2f of what was taken was foretold\n", blocks, ratio);
        assert_true(ratio > 0.9 && ratio < 1.1);
    }
    for (be->budget = left + 1; be->budget < taken;
         be->budget += taken / 40) { /* at every allocation */
        assert_int_equal(silero_load(FILE_NAME, be, 9, &s, &e), ERR_VRAM);
        assert_int_equal(be->allocated, left);
    }
    be->budget = 0;
    assert_ok(silero_load(FILE_NAME, be, 9, &s, &e), e);
    silero_free(s);
    assert_int_equal(be->allocated, left);
    backend_close(be);
}

TEST(misuse)
{
    struct silero_stream stream = {.h = {0}};
    float prob[SILERO_BLOCK];
    struct silero_block block[2] = {{&stream, pcm[0], 0, 0, prob}, {&stream, pcm[0], 512, 1, prob}};
    struct backend *be;
    struct silero *s;
    struct err e;

    assert_ok(backend_open_host(1, &be, &e), e);
    assert_ok(silero_load(FILE_NAME, be, 0, &s, &e), e);
    assert_ok(silero_run(s, block, 0, &e), e);
    assert_int_equal(silero_run(s, block, 2, &e), ERR_DEVICE);
    assert_int_equal(silero_run(s, block, 1, &e), ERR_DEVICE);
    block[0].steps = SILERO_BLOCK + 1;
    assert_int_equal(silero_run(s, block, 1, &e), ERR_DEVICE);
    block[1].samples = SILERO_STEP + 1;
    assert_int_equal(silero_run(s, &block[1], 1, &e), ERR_DEVICE);
    silero_free(s);
    silero_free(NULL);
    backend_close(be);
}

/* ---- files */

static struct backend *host;

static void refused(const char *tensor, const char *sentence)
{
    struct silero *s = NULL;
    struct err e = {0};
    int rc = silero_load("bad.safetensors", host, 1, &s, &e);

    if (rc != ERR_MODEL || !strstr(e.msg, sentence) || !strstr(e.msg, tensor))
        print_error("%s, %s: %d, %s\n", tensor, sentence, rc, e.msg);
    assert_int_equal(rc, ERR_MODEL);
    assert_non_null(strstr(e.msg, sentence));
    assert_non_null(strstr(e.msg, tensor));
    assert_null(s);
}

/* The model but for one tensor, which has this type and shape, and so many values. */
static void refused_as(size_t i, const char *type, const char *shape, size_t count,
                       const char *sentence)
{
    struct silero_tensor *t = &model->tensor[i], kept = *t;

    *t = (struct silero_tensor){kept.name, type, shape, count, kept.value};
    silero_model_write(model, "bad.safetensors", 0);
    *t = kept;
    refused(kept.name, sentence);
}

static void refused_value(size_t i, float value)
{
    struct silero_tensor *t = &model->tensor[i];
    float kept = t->value[t->count - 1];

    t->value[t->count - 1] = value;
    silero_model_write(model, "bad.safetensors", 0);
    t->value[t->count - 1] = kept;
    refused(t->name, "no finite number");
}

TEST(hostile_tensors)
{
    struct err e;

    assert_ok(backend_open_host(1, &host, &e), e);
    for (size_t i = 0; i < SILERO_TENSORS; i++) {
        struct silero_tensor *t = &model->tensor[i], kept = *t;
        char shape[64];

        t->name = NULL;
        silero_model_write(model, "bad.safetensors", 0);
        *t = kept;
        refused(kept.name, "is missing");
        refused_as(i, "I32", t->shape, t->count, "I32");
        snprintf(shape, sizeof(shape), "%zu,1,1,1", t->count);
        refused_as(i, "F32", shape, t->count, " x 1 x 1 x 1, but");
        snprintf(shape, sizeof(shape), "1,1,%zu", t->count - 1);
        refused_as(i, "F32", t->count > 1 ? shape : "1,1", t->count > 1 ? t->count - 1 : 1,
                   "is 1 x 1");
        refused_as(i, "F32", "0", 0, "is 0, but");
        refused_as(i, "F32", "", 1, "is a single value, but");
        refused_value(i, NAN);
        refused_value(i, -INFINITY);
    }
    backend_close(host);
}

TEST(hostile_files)
{
    struct silero *s = NULL;
    struct err e;

    assert_ok(backend_open_host(1, &host, &e), e);
    silero_model_write(model, "bad.safetensors", 1);
    refused("final_conv.bias", "past the end");
    assert_int_equal(truncate("bad.safetensors", 3), 0);
    refused("", "bad.safetensors");
    assert_int_equal(truncate("bad.safetensors", 0), 0);
    refused("", "bad.safetensors");
    assert_int_equal(silero_load("absent.safetensors", host, 1, &s, &e), ERR_MODEL);
    assert_true(silero_load(".", host, 1, &s, &e) < 0);
    assert_null(s);
    backend_close(host);
}

/* A state that is no number, as a device in trouble might leave: said, and not passed on. */
TEST(no_numbers)
{
    struct silero_stream stream = {.h = {0}};
    float prob[2] = {0.0f, 0.0f};
    struct silero_block block = {&stream, pcm[0], 1024, 2, prob};
    struct silero *s;
    struct err e;

    assert_ok(backend_open_host(1, &host, &e), e);
    assert_ok(silero_load(FILE_NAME, host, 1, &s, &e), e);
    stream.c[17] = NAN;
    assert_int_equal(silero_run(s, &block, 1, &e), ERR_MODEL);
    assert_non_null(strstr(e.msg, "no number"));
    assert_true(stream.h[17] == 0.0f);
    stream.c[17] = 0.0f;
    assert_ok(silero_run(s, &block, 1, &e), e);
    assert_true(fabs((double)prob[1] - want[0][1]) < 2e-6);
    silero_free(s);
    backend_close(host);
}

TEST_MAIN(setup, teardown)
