/* Three hours' worth of windows, one after the other, as a worker's engine thread sends them: does
 * device memory or host memory grow?
 *
 * $NIGHTSHIFT_GPU_SOAK windows (default 360), $NIGHTSHIFT_GPU_SOAK_TOKENS (default 60) tokens each,
 * in as many slots as a run would choose, at most 32; windows of different lengths, decoded to
 * different lengths, so that steps have every number of rows. After the first two rounds, in which
 * plans, scratch and recordings are made, nothing may be added. */
#include "tests/common/test.h"

#include <unistd.h>

#include "base/clock.h"
#include "tests/gpu/device.h"

#define SLOTS 32
#define MIB (1024.0 * 1024.0)
#define HOST_GROWTH (8u << 20)    /* of the resident size: the allocator's own fluctuation */
#define DEVICE_GROWTH (16u << 20) /* of what is free: other programs may be there */

struct soak {
    struct backend *be;
    struct asr_model *w;
    struct asr_session *s;
    uint32_t slots, tokens, done;
};

static uint32_t number(const char *name, uint32_t otherwise)
{
    const char *s = getenv(name);

    return s && *s ? (uint32_t)strtoul(s, NULL, 10) : otherwise;
}

static uint64_t resident(void)
{
    FILE *f = fopen("/proc/self/statm", "re");
    unsigned long long total = 0, pages = 0;

    if (f && fscanf(f, "%llu %llu", &total, &pages) != 2)
        pages = 0;
    if (f)
        fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void set_rules(struct soak *k)
{
    int32_t vocab = (int32_t)whisper_config(k->w)->vocab_size,
            times = vocab > 3002 ? 1501 : vocab / 2;
    struct rules_spec spec = {.vocab = (uint32_t)vocab,
                              .eot = vocab - times - 1,
                              .no_speech = -1,
                              .timestamp_begin = vocab - times,
                              .timestamp_end = vocab - 1,
                              .max_initial = vocab - times + 50};
    struct err e;

    assert_ok(whisper_session_rules(k->s, &spec, &e), e);
}

/* All slots once; slot i decodes (i + round) % 4 + 1 quarters of the tokens. */
static void one_round(struct soak *k, uint32_t round)
{
    struct asr_window windows[SLOTS];
    struct asr_row rows[SLOTS];
    struct choice_ask asks[SLOTS];
    struct choice choices[SLOTS];
    int32_t next[SLOTS];
    struct err e;

    for (uint32_t i = 0; i < k->slots; i++) {
        windows[i] = gpu_window((i + round) % 8, i);
        windows[i].n -= (size_t)(i * 4001 + round * 977) % 240000;
        next[i] = 1;
    }
    assert_ok(whisper_encode(k->s, windows, k->slots, &e), e);
    for (uint32_t pos = 0; pos < k->tokens; pos++) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < k->slots; i++) {
            if (pos >= k->tokens * ((i + round) % 4 + 1) / 4)
                continue;
            rows[n] = (struct asr_row){i, 0, pos, next[i]};
            asks[n++] = (struct choice_ask){.count = (int32_t)pos,
                                            .last = pos ? next[i] : -1,
                                            .before = -1,
                                            .last_time = -1,
                                            .what = CHOOSE_TOKEN};
        }
        if (n == 0)
            break;
        assert_ok(whisper_choose(k->s, rows, asks, n, choices, NULL, &e), e);
        for (uint32_t i = 0; i < n; i++) {
            assert_true(choices[i].usable && choices[i].token >= 0);
            next[rows[i].slot] = choices[i].token;
        }
    }
    k->done += k->slots;
}

static void one_model(const char *model)
{
    uint32_t wanted = number("NIGHTSHIFT_GPU_SOAK", 360), rounds;
    struct soak k = {.be = gpu_open(NULL), .tokens = number("NIGHTSHIFT_GPU_SOAK_TOKENS", 60)};
    uint64_t host = 0, device = 0, allocated = 0, host_after, device_after;
    enum precision p;
    int64_t start;
    struct err e;

    assert_ok(backend_precision(k.be, PRECISION_AUTO, &p, &e), e);
    assert_ok(gpu_load(model, k.be, p, &k.w, &e), e);
    k.slots = whisper_default_slots(k.w, (struct asr_shape){.branches = 1});
    k.slots = k.slots > SLOTS ? SLOTS : k.slots;
    while (k.slots > 1 && wanted / k.slots < 4) /* few windows: rounds all the same */
        k.slots /= 2;
    assert_ok(whisper_session_new(k.w, (struct asr_shape){.slots = k.slots}, &k.s, &e), e);
    set_rules(&k);
    for (uint32_t i = 0; i < 8; i++) /* what is fed is made before it is looked for */
        gpu_window(i, 0);
    start = clock_mono_ms();
    rounds = (wanted + k.slots - 1) / k.slots;
    for (uint32_t round = 0; round < rounds; round++) {
        one_round(&k, round);
        if (round == 1) {
            host = resident();
            device = gpu_free_memory();
            allocated = k.be->allocated;
        }
    }
    host_after = resident();
    device_after = gpu_free_memory();
    printf(
        "  %s, %s: %u windows in %.1f s, %u slots; resident %.1f -> %.1f MiB, device free %.1f -> "
        "%.1f MiB, ours %.1f -> %.1f MiB\n",
        model, precision_name(p), k.done, (double)(clock_mono_ms() - start) / 1e3, k.slots,
        (double)host / MIB, (double)host_after / MIB, (double)device / MIB,
        (double)device_after / MIB, (double)allocated / MIB, (double)k.be->allocated / MIB);
    assert_true(rounds >= 3);
    assert_int_equal(k.be->allocated, allocated);
    assert_true(host_after <= host + HOST_GROWTH);
    assert_true(device_after + DEVICE_GROWTH >= device);
    whisper_session_free(k.s);
    whisper_free(k.w);
    backend_close(k.be);
}

TEST(soak) { gpu_each_model("tiny,large-v3-turbo", one_model); }

int main(void)
{
    gpu_device();
    return suite_run(NULL, NULL);
}
