/* The networks of speakers, sounds and vectors on the GPU against the host backend, with weights by
 * formula: in float32 within 1e-3 of each item's largest value, many items in a call as in twos;
 * with `deterministic` the same bits however items are grouped; and which precisions each network
 * may have, with what they cost.
 *
 * What tells voices apart (PyanNet, the voiceprints) and YAMNet ask for float32 and nothing else,
 * but for ResNet's convolutions, which are float16 or else TF32 where there is any: that is
 * checked, not believed. How far the others would be off in tf32 is printed, for whoever wants to
 * decide otherwise; nothing takes it. The rest has a choice, and bounds of the relative L2 error of
 * an item's vector, which leave some eight times what the small networks show in the emulator.
 *
 * $NIGHTSHIFT_GPU_NETWORKS: "small", "published" (the published sizes) or both, the default. */
#include "tests/common/test.h"

#include <math.h>
#include <unistd.h>

#include "tests/common/distance.h"
#include "tests/gpu/device.h"
#include "tests/gpu/nets.h"
#include "tests/gpu/watch.h"
#include "tests/parity/diarization/networks.h"
#include "workers/models/pyannote/voiceprint.h"

#define BOUND 1e-3
#define WINDOW 32000 /* samples of a voice's, of 2 s */

static char folder[] = "networks-XXXXXX";

static int setup(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    return chdir(folder);
}

static int teardown(void **state)
{
    (void)state;
    net_clean();
    return chdir("..") != 0 || rmdir(folder) != 0;
}

/* ---- running */

/* One network on one device, and its values of every item. */
struct bed {
    const struct net *net;
    struct net_setup setup;
    struct backend *be;
    struct net_model *model;
    size_t values; /* of an item */
};

static void lie_down(struct bed *b, struct backend *be, enum precision precision)
{
    struct err e;

    b->be = be;
    b->setup.precision = precision;
    assert_ok(net_open(b->net, &b->setup, be, &b->model, &e), e);
    b->values = b->model->values;
}

static void get_up(struct bed *b)
{
    b->net->close(b->model);
    b->model = NULL;
}

/* All items, so many in a call. Free them. */
static float *values_in(struct bed *b, uint32_t group)
{
    float *ret = malloc((size_t)b->setup.items * b->values * sizeof(*ret));
    struct err e;

    assert_non_null(ret);
    for (uint32_t at = 0; at < b->setup.items; at += group) {
        uint32_t n = b->setup.items - at < group ? b->setup.items - at : group;

        assert_ok(b->net->run(b->model, at, n, ret + (size_t)at * b->values, &e), e);
    }
    return ret;
}

/* The item that is furthest off. */
struct errors {
    double worst; /* of a value, as a share of its item's largest */
    double l2;
};

static struct errors compare(const struct bed *b, const float *got, const float *want)
{
    struct errors e = {0.0, 0.0};

    for (size_t i = 0; i < b->setup.items; i++) {
        const float *g = got + i * b->values, *w = want + i * b->values;

        e.worst = distance_larger(e.worst, gpu_worst(g, w, b->values));
        e.l2 = distance_larger(e.l2, gpu_l2(g, w, b->values));
    }
    return e;
}

static void print_errors(const struct bed *b, const char *precision, struct errors e,
                         const char *remark)
{
    printf("| %s | %s | %.1e | %.1e | %s |\n", net_name(b->net, b->setup.published), precision,
           e.worst, e.l2, remark);
    fflush(stdout);
}

/* ---- float32 */

/* Many at once, and in twos. */
static void in_float32(struct bed *b, const float *want)
{
    struct errors e[2];
    float *got;

    for (uint32_t k = 0; k < 2; k++) {
        got = values_in(b, k ? 2 : b->setup.items);
        e[k] = compare(b, got, want);
        free(got);
    }
    e[0].worst = distance_larger(e[0].worst, e[1].worst);
    e[0].l2 = distance_larger(e[0].l2, e[1].l2);
    print_errors(b, "fp32", e[0],
                 b->net->choice                              ? ""
                 : net_takes(b->net, b->be) == PRECISION_F32 ? "float32 alone"
                                                             : "not taken");
    assert_true(e[0].worst <= BOUND);
}

/* Precision by precision: what was asked of the device when the weights went there. */
static void asks_for(precision_set asked, const struct bed *b)
{
    assert_true(asked != 0);
    if (!b->net->choice) /* ResNet's last layer is float32 */
        assert_int_equal(asked,
                         1u << PRECISION_F32 | (b->net->narrow ? 1u << b->setup.precision : 0));
    assert_false(asked & 1u << PRECISION_AUTO);
}

/* ---- other precisions */

static double bound(enum precision p)
{
    switch (p) {
    case PRECISION_TF32:
    case PRECISION_F16:
        return 1e-2;
    case PRECISION_BF16:
        return 5e-2;
    case PRECISION_INT8:
        return 0.15;
    default:
        return 0.5;
    }
}

static void in_precision(struct bed *b, struct backend *be, enum precision p, const float *want)
{
    bool taken = b->net->choice || p == net_takes(b->net, be);
    struct errors e;
    float *got;

    watch_install(be, taken || b->net->narrow ? PRECISION_AUTO : p);
    lie_down(b, be, p);
    asks_for(watch_take().asked, b);
    got = values_in(b, b->setup.items);
    e = compare(b, got, want);
    get_up(b);
    watch_remove(be);
    free(got);
    print_errors(b, precision_name(p), e, taken ? "" : "not taken");
    assert_true(e.l2 <= (taken ? bound(p) : 1.0)); /* nobody takes the others: a number */
}

/* ---- grouping */

static void without_company(struct bed *b, enum precision p)
{
    struct cuda_options options = {.deterministic = true};
    struct backend *be = gpu_open(&options);
    float *alone, *some, *all;
    size_t bytes;

    assert_true(be->info.deterministic);
    watch_install(be, PRECISION_AUTO);
    lie_down(b, be, b->net->choice ? p : PRECISION_F16); /* nothing is kept from it */
    if (b->net->narrow)
        assert_int_equal(watch_take().asked, 1u << PRECISION_F32 | 1u << net_takes(b->net, be));
    bytes = (size_t)b->setup.items * b->values * sizeof(float);
    alone = values_in(b, 1);
    some = values_in(b, 2);
    all = values_in(b, b->setup.items);
    assert_memory_equal(some, alone, bytes);
    assert_memory_equal(all, alone, bytes);
    free(alone);
    free(some);
    free(all);
    get_up(b);
    watch_remove(be);
    backend_close(be);
}

/* ---- one network */

static float *host_values(struct bed *b)
{
    struct backend *host = gpu_open_host();
    float *want;

    lie_down(b, host, PRECISION_F32);
    want = values_in(b, b->setup.items);
    get_up(b);
    backend_close(host);
    return want;
}

static void one(const struct net *net, bool published)
{
    struct bed b = {.net = net, .setup = {.published = published}};
    struct backend *be;
    float *want;

    if (!net_name(net, published))
        return;
    b.setup.items = b.setup.at_once = published || net->seconds == 0.0 ? 6 : 3;
    net->make(&b.setup);
    want = host_values(&b);
    be = gpu_open(NULL);
    watch_install(be, PRECISION_AUTO);
    lie_down(&b, be, PRECISION_F32);
    asks_for(watch_take().asked, &b);
    in_float32(&b, want);
    get_up(&b);
    watch_remove(be);
    for (int p = PRECISION_TF32; p <= (int)net_last(net); p++)
        if (gpu_wants(be, (enum precision)p))
            in_precision(&b, be, (enum precision)p, want);
    without_company(&b, PRECISION_F32);
    if (net->choice && gpu_wants(be, precision_auto(be->info.have)))
        without_company(&b, precision_auto(be->info.have));
    backend_close(be);
    free(want);
    net_clean();
}

static bool size_wanted(const char *size)
{
    const char *list = getenv("NIGHTSHIFT_GPU_NETWORKS");

    return !list || !*list || strstr(list, size);
}

TEST(networks)
{
    printf("| network | precision | worst value | L2 | |\n| --- | --- | --- | --- | --- |\n");
    for (int published = 0; published < 2; published++)
        for (size_t i = 0; i < NETS && size_wanted(published ? "published" : "small"); i++)
            one(nets[i], published);
}

/* A ResNet whose images are so many times as large. Of sounds on the emulator, 2026-11-27, float16
 * has no room for 0.1 s of full-scale noise in a window of 2 s of silence from 1,500, for half a
 * window from 2,700, three quarters from 3,900, and noise all along from 20,000. */
static void make_large(float times)
{
    struct network *n = network_resnet("speck");
    struct network_tensor *t = network_find(n, "resnet.bn1.weight");

    for (size_t i = 0; i < t->count; i++)
        t->value[i] *= times;
    network_write(n, NET_FILE, 0);
    network_free(n);
}

/* Noise beside silence is, neither of them alone. */
TEST(too_large_for_float16)
{
    struct bed b = {.net = &net_resnet, .setup = {.items = 3, .at_once = 3}};
    struct backend *be;
    precision_set asked = 1u << PRECISION_F32;
    float *want, *got;

    make_large(1e4f);
    want = host_values(&b);
    be = gpu_open(NULL);
    if (net_takes(b.net, be) == PRECISION_F16)
        asked |= 1u << PRECISION_F16 | 1u << PRECISION_TF32;
    watch_install(be, PRECISION_AUTO);
    lie_down(&b, be, PRECISION_F16);
    if (asked != 1u << PRECISION_F32)
        assert_int_equal(watch_take().asked, asked);
    got = values_in(&b, 3);
    assert_true(compare(&b, got, want).l2 <= bound(PRECISION_TF32));
    get_up(&b);
    watch_remove(be);
    backend_close(be);
    free(want);
    free(got);
    net_clean();
}

static void make_burst(float *pcm, size_t n)
{
    uint32_t seed = 7;

    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        pcm[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
}

/* Weights that were loaded in float16 (alone in its group, a window tries half of it), and a sound
 * that wants more: it is to blame, not the model, which goes on with others. */
TEST(one_sound_too_large_for_float16)
{
    static float burst[WINDOW], speech[NETWORK_SAMPLES], ret[VOICEPRINT_MAX_SIZE];
    static const float heard = 1.0f;
    const struct voice_mask mask = {.window = 0, .weights = &heard};
    struct backend *be = gpu_open(NULL);
    bool half = net_takes(&net_resnet, be) == PRECISION_F16;
    struct voiceprint *v;
    struct err e = {0};

    make_large(2e3f);
    make_burst(burst, 1600);
    network_sound(0, speech);
    watch_install(be, PRECISION_AUTO);
    assert_ok(voiceprint_load(NET_FILE, be, 1, WINDOW, &v, &e), e);
    if (half)
        assert_int_equal(watch_take().asked, 1u << PRECISION_F32 | 1u << PRECISION_F16);
    assert_int_equal(voiceprint_run(v, burst, NULL, WINDOW, 1, &mask, 1, 1, ret, &e),
                     half ? ERR_LIMIT : 0);
    assert_int_equal(half, strstr(e.msg, "no room in float16") != NULL);
    assert_ok(voiceprint_run(v, speech, NULL, WINDOW, 1, &mask, 1, 1, ret, &e), e);
    assert_true(isfinite(ret[0]));
    voiceprint_free(v);
    watch_remove(be);
    backend_close(be);
    net_clean();
}

int main(void)
{
    gpu_device();
    return suite_run(setup, teardown);
}
