#include "scheduler/plan/placement.h"

#include <stdio.h>
#include <string.h>

#define GPU_SLOTS 96u /* where nothing was measured yet: the worker measures when it starts */
#define GPU_WINDOWS 8u
#define HOST_SLOTS 16u
/* With many branches there are fewer slots, but not fewer than these. */
#define GPU_SLOTS_LEAST 32u
#define HOST_SLOTS_LEAST 4u
#define MAX_SLOTS 4096u
#define MAX_BRANCHES 65536u /* of all slots */

/* How much of the peaks a whole model reaches: between what engines publish and what ours aims at.
 * Only for estimates, which are told as such. */
#define FLOP_SHARE 0.45
#define BYTES_SHARE 0.55
#define ALIGN_WINDOWS 4 /* as ASR_ALIGN_WINDOWS */
#define HOUR_S 3600.0
#define H200_TFLOPS 989.0

/* ---------------------------------------------------------------------------------- peaks */

/* Published figures: dense 16-bit tensor products with sums in float32 (TFLOP/s), and memory
 * (TB/s). By name, longest first where one begins another; then by compute capability, modest ones
 * of that generation. */
static const struct gpu_peaks {
    const char *name;
    double tflops, tbytes;
} by_name[] = {
    {"GB200", 2250, 8.0},
    {"B200", 2250, 8.0},
    {"GH200", 989, 4.0},
    {"H200", 989, 4.8},
    {"H100 PCIe", 756, 2.0},
    {"H100 NVL", 835, 3.9},
    {"H100", 989, 3.35},
    {"A100-SXM4-80GB", 312, 2.04},
    {"A100", 312, 1.55},
    {"L40S", 362, 0.86},
    {"L40", 181, 0.86},
    {"L4", 121, 0.30},
    {"A10G", 70, 0.60},
    {"A10", 125, 0.60},
    {"A30", 165, 0.93},
    {"A40", 150, 0.70},
    {"T4", 65, 0.32},
    {"RTX PRO 6000", 500, 1.79},
    {"RTX 6000 Ada", 364, 0.96},
    {"RTX A6000", 155, 0.77},
    {"RTX 5090", 210, 1.79},
    {"RTX 5080", 113, 0.96},
    {"RTX 4090", 165, 1.01},
    {"RTX 4080", 97, 0.72},
    {"RTX 4070", 58, 0.50},
    {"RTX 3090", 71, 0.94},
    {"RTX 3080", 60, 0.76},
    {"RTX 3060", 25, 0.36},
    {"RTX 2080 Ti", 54, 0.62},
};

static const struct {
    int major, minor;
    struct gpu_peaks peaks;
} by_capability[] = {
    {12, 0, {"", 100, 0.60}}, {10, 0, {"", 2000, 7.0}}, {9, 0, {"", 750, 2.0}},
    {8, 9, {"", 60, 0.30}},   {8, 6, {"", 30, 0.36}},   {8, 0, {"", 250, 1.5}},
    {7, 5, {"", 30, 0.30}},
};

/* Is `name` in the model's name as words of its own? "L4" is not in "L40S". */
static bool contains_device_name(const char *model, const char *name)
{
    size_t n = strlen(name);
    const char *at = model;

    while ((at = strstr(at, name))) {
        char after = at[n];

        if ((at == model || at[-1] == ' ') && (after == 0 || after == ' ' || after == '-'))
            return true;
        at++;
    }
    return false;
}

static const struct gpu_peaks *gpu_peaks(const struct device *d)
{
    size_t i;

    for (i = 0; i < sizeof(by_name) / sizeof(by_name[0]); i++)
        if (contains_device_name(d->model, by_name[i].name))
            return &by_name[i];
    for (i = 0; i < sizeof(by_capability) / sizeof(by_capability[0]); i++)
        if (d->major > by_capability[i].major ||
            (d->major == by_capability[i].major && d->minor >= by_capability[i].minor))
            return &by_capability[i].peaks;
    return NULL;
}

/* A GPU's speed relative to 16-bit products. */
static double precision_factor(enum precision p)
{
    switch (p) {
    case PRECISION_F32:
        return 1.0 / 8;
    case PRECISION_TF32:
        return 1.0 / 2;
    case PRECISION_INT8:
    case PRECISION_FP8:
        return 2;
    default:
        return 1;
    }
}

bool placement_peaks(const struct device *d, enum precision p, uint32_t threads, double *flop_s,
                     double *bytes_s)
{
    const struct gpu_peaks *g;

    if (d->kind != DEVICE_CUDA) {
        /* of a core of today's servers; attention is not in integers */
        double each = p == PRECISION_F32         ? 60e9
                      : p == PRECISION_INT16     ? 80e9
                      : p == PRECISION_INT8_BF16 ? 160e9
                                                 : 120e9;

        if (threads == 0)
            return false;
        *flop_s = threads * each * (d->speed > 0 ? d->speed : 1);
        *bytes_s = (threads < 8 ? threads : 8) * 8e9 * (d->speed > 0 ? d->speed : 1);
        return true;
    }
    g = gpu_peaks(d);
    if (!g)
        return false;
    *flop_s = g->tflops * 1e12 * precision_factor(p);
    *bytes_s = g->tbytes * 1e12;
    return true;
}

/* A roofline: a window's products, and what its tokens read; one reading of the decoder's weights
 * is shared by all slots. */
static double estimate_speed(const struct device *d, const struct placement_model *m,
                             enum precision p, uint32_t slots, uint32_t threads)
{
    double flop_s, bytes_s, flop, bytes, seconds;
    enum dtype cache;

    if (!placement_peaks(d, p, threads, &flop_s, &bytes_s))
        return 0;
    cache = cache_precision_type(cache_precision_resolve(m->cache, p), p);
    flop = m->encoder_flop + PLACEMENT_TOKENS * m->token_flop + m->align_flop;
    bytes = PLACEMENT_TOKENS * (m->token_values * (double)dtype_size(cache) +
                                m->decoder_weights * precision_weight_bytes(p) / slots);
    if (m->align_flop > 0) /* of a few windows at once, which read the weights once */
        bytes += m->decoder_weights * precision_weight_bytes(p) / ALIGN_WINDOWS;
    seconds = flop / (flop_s * FLOP_SHARE) + bytes / (bytes_s * BYTES_SHARE);
    return seconds > 0 ? PLACEMENT_WINDOW_S / seconds : 0;
}

double placement_other_speed(const struct device *d, double h200_s, double core_s, uint32_t threads)
{
    const struct gpu_peaks *g = d->kind == DEVICE_CUDA ? gpu_peaks(d) : NULL;

    if (g && h200_s > 0)
        return HOUR_S / h200_s * g->tflops / H200_TFLOPS;
    if (d->kind != DEVICE_CUDA && core_s > 0)
        return HOUR_S / core_s * threads * (d->speed > 0 ? d->speed : 1);
    return 0;
}

/* ------------------------------------------------------------------------------- precision */

static bool has(const struct device *d, enum precision p) { return d->precisions >> p & 1; }

bool placement_precision(const struct device *d, enum precision wish, struct placement *ret)
{
    char list[64] = "";
    int p;

    ret->precision = precision_resolve(wish, d->precisions);
    if (has(d, ret->precision))
        return true;
    for (p = PRECISION_F32; p < PRECISION_COUNT; p++)
        if (has(d, (enum precision)p))
            snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", list[0] ? ", " : "",
                     precision_name((enum precision)p));
    if (list[0])
        snprintf(ret->why, sizeof(ret->why), "it has no %s; it has %s",
                 precision_name(ret->precision), list);
    else
        snprintf(ret->why, sizeof(ret->why), "it has no precision that this program knows");
    return false;
}

/* ---------------------------------------------------------------------------------- memory */

char *placement_size(uint64_t bytes, char out[PLACEMENT_SIZE])
{
    double gib = (double)bytes / (1 << 30);

    if (gib >= 1)
        snprintf(out, PLACEMENT_SIZE, gib < 100 ? "%.1f GiB" : "%.0f GiB", gib);
    else
        snprintf(out, PLACEMENT_SIZE, "%.0f MiB", (double)bytes / (1 << 20));
    return out;
}

static uint64_t bytes_of(const struct device *d, const struct placement_model *m, enum precision p,
                         uint32_t slots, uint32_t windows)
{
    return m->bytes(m->arg, d, p, slots, windows);
}

static void too_large(const struct device *d, const struct placement_model *m,
                      struct placement *ret)
{
    char need[PLACEMENT_SIZE], have[PLACEMENT_SIZE];
    int p;

    placement_size(ret->bytes, need);
    placement_size(ret->free, have);
    if (d->memory_limit && ret->budget == d->memory_limit) {
        placement_size(ret->budget, have);
        snprintf(ret->why, sizeof(ret->why), "needs %s, and --device-memory allows %s", need, have);
    } else {
        snprintf(ret->why, sizeof(ret->why), "needs %s, %s of %s free are for use", need,
                 ret->budget < ret->free ? "90 %" : "all", have);
    }
    for (p = PRECISION_F32; p < PRECISION_COUNT; p++) {
        size_t n = strlen(ret->why);

        if (!has(d, (enum precision)p) || bytes_of(d, m, (enum precision)p, 1, 1) > ret->budget)
            continue;
        snprintf(ret->why + n, sizeof(ret->why) - n, "; it would fit with --precision %s",
                 precision_name((enum precision)p));
        return;
    }
}

static const struct placement_tuning *lookup_tuning(const struct device *d,
                                                    const struct placement_model *m,
                                                    enum precision p,
                                                    const struct placement_tuning *t, size_t n)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (strcmp(precision_name(t[i].precision), precision_name(p)) == 0 && t[i].slots &&
            strcmp(t[i].device_id, d->id) == 0 && strcmp(t[i].driver, d->driver) == 0 &&
            strcmp(t[i].model_hash, m->hash) == 0 && strcmp(t[i].decoding, m->decoding) == 0)
            return &t[i];
    return NULL;
}

/* Halves slots and windows, the larger of what they take first, until they fit the budget. */
static void shrink_to_budget(const struct device *d, const struct placement_model *m,
                             struct placement *ret)
{
    for (;;) {
        uint64_t fewer_slots, fewer_windows;

        if (ret->windows > ret->slots)
            ret->windows = ret->slots;
        ret->bytes = bytes_of(d, m, ret->precision, ret->slots, ret->windows);
        if (ret->bytes <= ret->budget || (ret->slots == 1 && ret->windows == 1))
            return;
        fewer_slots = bytes_of(d, m, ret->precision, (ret->slots + 1) / 2, ret->windows);
        fewer_windows = bytes_of(d, m, ret->precision, ret->slots, (ret->windows + 1) / 2);
        if (ret->windows > 1 && (fewer_windows <= fewer_slots || ret->slots == 1))
            ret->windows = (ret->windows + 1) / 2;
        else
            ret->slots = (ret->slots + 1) / 2;
    }
}

/* The most slots that a session can number (whisper.h). */
static uint32_t most_slots(const struct placement_model *m)
{
    uint32_t slots = MAX_BRANCHES / (m->branches ? m->branches : 1);

    return slots < MAX_SLOTS ? slots : MAX_SLOTS;
}

/* Without a measurement, about as many as a worker takes by itself. */
static uint32_t usual_slots(const struct placement_model *m, bool gpu)
{
    uint32_t slots = (gpu ? GPU_SLOTS : HOST_SLOTS) / (m->branches ? m->branches : 1);
    uint32_t least = gpu ? GPU_SLOTS_LEAST : HOST_SLOTS_LEAST;

    return slots > least ? slots : least;
}

static void choose_batch(const struct device *d, const struct placement_model *m,
                         const struct placement_wish *wish, const struct placement_tuning *t,
                         struct placement *ret)
{
    bool gpu = d->kind == DEVICE_CUDA;
    uint32_t asked;

    ret->slots = usual_slots(m, gpu);
    ret->windows = gpu ? GPU_WINDOWS : 1;
    if (t) {
        ret->slots = t->slots;
        ret->windows = t->windows ? t->windows : 1;
    }
    if (wish->slots)
        ret->slots = wish->slots < most_slots(m) ? wish->slots : most_slots(m);
    if (wish->deterministic && gpu)
        ret->windows = 1;
    asked = ret->slots;
    ret->remembered = t && (!wish->slots || wish->slots == t->slots);
    shrink_to_budget(d, m, ret);
    if (ret->bytes <= ret->budget && ret->slots < asked && (wish->slots || t))
        snprintf(ret->note, sizeof(ret->note), "%u slot%s instead of %u%s, for want of memory",
                 ret->slots, ret->slots == 1 ? "" : "s", asked,
                 wish->slots ? "" : " as remembered");
}

void placement_decide(const struct device *d, const struct placement_model *m,
                      const struct placement_wish *wish, const struct placement_tuning *tunings,
                      size_t tuning_count, struct placement *ret)
{
    const struct placement_tuning *t;
    uint32_t sharers = wish->sharers ? wish->sharers : 1;

    memset(ret, 0, sizeof(*ret));
    ret->free = d->memory_free / sharers;
    ret->budget = device_budget(ret->free, d->memory_limit);
    if (d->unusable) {
        snprintf(ret->why, sizeof(ret->why), "it cannot be used; see `nightshift doctor`");
        return;
    }
    if (!placement_precision(d, wish->precision, ret))
        return;
    ret->slots = ret->windows = 1;
    ret->bytes = bytes_of(d, m, ret->precision, 1, 1);
    if (d->memory_free == 0) {
        snprintf(ret->why, sizeof(ret->why), "none of its memory is free");
        return;
    }
    if (ret->bytes > ret->budget) {
        too_large(d, m, ret);
        return;
    }
    ret->fits = true;
    t = lookup_tuning(d, m, ret->precision, tunings, tuning_count);
    choose_batch(d, m, wish, t, ret);
    if (t && t->rate > 0) {
        /* With fewer slots than measured, only a proportional part of the speed is certain. */
        ret->speed = ret->slots < t->slots ? t->rate * ret->slots / t->slots : t->rate;
        ret->source = ret->slots == t->slots ? PLACEMENT_MEASURED : PLACEMENT_ESTIMATED;
    } else {
        ret->speed = estimate_speed(d, m, ret->precision, ret->slots, wish->threads);
        ret->source = ret->speed > 0 ? PLACEMENT_ESTIMATED : PLACEMENT_UNKNOWN;
    }
}

int placement_largest(const struct device *d, const struct placement_model *models, size_t n,
                      const struct placement_wish *wish)
{
    uint64_t most = 0;
    int best = -1;
    size_t i;

    for (i = 0; i < n; i++) {
        struct placement p;
        uint64_t bytes;

        placement_decide(d, &models[i], wish, NULL, 0, &p);
        bytes = p.fits ? bytes_of(d, &models[i], p.precision, 1, 1) : 0;
        if (p.fits && (best < 0 || bytes > most)) {
            most = bytes;
            best = (int)i;
        }
    }
    return best;
}
