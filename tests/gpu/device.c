#include "tests/gpu/device.h"

#include <dlfcn.h>
#include <math.h>

#include "tests/common/test.h"
#include "tests/common/distance.h"
#include "tests/parity/nano/fixture.h"

#define WINDOWS 8

static struct {
    const struct cuda_module *module;
    struct cuda_device device;
} gpu;

static void end_skipped(const char *reason)
{
    printf("no usable GPU: %s\n", reason);
    exit(TEST_SKIPPED);
}

static void find(void)
{
    const char *path = getenv("NIGHTSHIFT_CUDA_MODULE"),
               *wanted = getenv("NIGHTSHIFT_TEST_ORDINAL");
    struct cuda_device all[16];
    uint32_t n = 0, i = wanted ? (uint32_t)strtoul(wanted, NULL, 10) : 0;
    char built[4096];
    void *handle;
    struct err err;

    if (!path) {
        const char *build = getenv("NIGHTSHIFT_BUILD_DIR");

        snprintf(built, sizeof(built), "%s/lib/%s", build ? build : ".", CUDA_MODULE_FILE);
        path = built;
    }
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        end_skipped(dlerror());
    gpu.module = dlsym(handle, CUDA_MODULE_SYMBOL);
    if (!gpu.module || gpu.module->abi != CUDA_MODULE_ABI)
        end_skipped("the module is of another version than the tests");
    if (gpu.module->devices(all, 16, &n, &err) != 0)
        end_skipped(err.msg);
    if (i >= n || i >= 16)
        end_skipped("NIGHTSHIFT_TEST_ORDINAL names no device");
    gpu.device = all[i];
    printf("%s, sm_%d%d, %s, module for %s\n", gpu.device.name, gpu.device.major, gpu.device.minor,
           gpu.device.uuid, gpu.module->built_for);
}

const struct cuda_module *gpu_module(void)
{
    if (!gpu.module)
        find();
    return gpu.module;
}

const struct cuda_device *gpu_device(void)
{
    gpu_module();
    return &gpu.device;
}

uint64_t gpu_free_memory(void) { return gpu_module()->free_memory(gpu_device()->ordinal); }

struct backend *gpu_open(const struct cuda_options *options)
{
    struct cuda_options own = {0};
    struct backend *be = NULL;
    char name[16];
    struct err e;

    snprintf(name, sizeof(name), "%u", gpu_device()->ordinal);
    assert_ok(gpu_module()->open(name, options ? options : &own, &be, &e), e);
    return be;
}

struct backend *gpu_open_host(void)
{
    struct backend *be = NULL;
    struct err e;

    assert_ok(backend_open_host(0, &be, &e), e);
    return be;
}

bool gpu_wants(const struct backend *be, enum precision p)
{
    const char *only = getenv("NIGHTSHIFT_GPU_PRECISION");

    return (be->info.have & 1u << p) && (!only || strcmp(only, precision_name(p)) == 0);
}

void gpu_each_model(const char *otherwise, void (*fn)(const char *name))
{
    const char *list = getenv("NIGHTSHIFT_GPU_MODELS");
    char copy[256], *rest = NULL;

    snprintf(copy, sizeof(copy), "%s", list && *list ? list : otherwise);
    for (char *name = strtok_r(copy, ", ", &rest); name; name = strtok_r(NULL, ", ", &rest))
        fn(name);
}

int gpu_load(const char *model, struct backend *be, enum precision precision,
             struct asr_model **ret, struct err *err)
{
    struct whisper_config config;

    if (strcmp(model, "nano") == 0)
        return whisper_load(test_source_path("workers/models/whisper-nano"), be, precision, ret,
                            err);
    if (whisper_preset(model, &config, err) != 0)
        return err->code;
    return whisper_random(&config, 11, be, precision, ret, err);
}

/* A tone whose pitch and loudness wander, in noise. */
static void synthesise(float *pcm, uint32_t seed)
{
    double phase = 0.0, pitch = 110.0 + 70.0 * seed;

    for (size_t i = 0; i < WHISPER_WINDOW_SAMPLES; i++) {
        double t = (double)i / ASR_RATE_HZ, loud = 0.5 + 0.5 * sin(t * (1.7 + seed));

        seed = seed * 1664525u + 1013904223u;
        phase += 6.283185307179586 * pitch * (1.0 + 0.3 * sin(t * 0.9)) / ASR_RATE_HZ;
        pcm[i] = (float)(0.2 * loud * (sin(phase) + 0.5 * sin(3.0 * phase)) +
                         0.02 * ((double)(seed >> 8) / 8388608.0 - 1.0));
    }
}

struct asr_window gpu_window(uint32_t i, uint32_t slot)
{
    static float *windows[WINDOWS];
    float *speech;
    size_t n;

    assert_true(i < WINDOWS);
    if (!windows[i]) {
        windows[i] = calloc(WHISPER_WINDOW_SAMPLES, sizeof(float));
        assert_non_null(windows[i]);
        if (i > 0) {
            synthesise(windows[i], i);
        } else {
            assert_int_equal(
                fixture_wav(test_source_path("tests/samples/01_en_short.wav"), &speech, &n), 0);
            memcpy(windows[0], speech,
                   sizeof(float) * (n < WHISPER_WINDOW_SAMPLES ? n : WHISPER_WINDOW_SAMPLES));
            free(speech);
        }
    }
    return (struct asr_window){.slot = slot, .pcm = windows[i], .n = WHISPER_WINDOW_SAMPLES};
}

int32_t gpu_prompt(const struct asr_model *w, uint32_t pos)
{
    static const int32_t nano[GPU_PROMPT] = {641, 642, 645, 649};
    static const int32_t random[GPU_PROMPT] = {50258, 50259, 50359, 50363};

    return whisper_config(w)->vocab_size > 50363 ? random[pos] : nano[pos];
}

int32_t gpu_likeliest(const float *logits, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

double gpu_l2(const float *a, const float *b, size_t n)
{
    double difference = 0.0, size = 0.0;

    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        size += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / fmax(size, 1e-300));
}

double gpu_worst(const float *a, const float *b, size_t n)
{
    double worst = 0.0, high = 0.0;

    for (size_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);

        worst = distance_larger(worst, d);
        high = fmax(high, fabs((double)b[i]));
    }
    return worst / fmax(high, 1e-300);
}
