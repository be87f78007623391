#include "scheduler/plan/gpu_health.h"

#include <stdarg.h>
#include <stdio.h>

struct news {
    struct gpu_health_news *list;
    size_t count;
};

static void add_news(struct news *n, const char *kind, bool good, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void add_news(struct news *n, const char *kind, bool good, const char *fmt, ...)
{
    struct gpu_health_news *one = &n->list[n->count];
    va_list ap;

    if (n->count == GPU_HEALTH_NEWS)
        return;
    n->count++;
    one->kind = kind;
    one->good = good;
    va_start(ap, fmt);
    vsnprintf(one->text, sizeof(one->text), fmt, ap);
    va_end(ap);
}

/* ---------------------------------------------------------------------------------- slowness */

/* The gravest of the reasons; NULL: none that is worth a word. */
static const char *why_slow(int64_t slowed)
{
    if (slowed <= 0)
        return NULL;
    if (slowed & (GPU_SLOWED_OVERHEATED | GPU_SLOWED_HEAT))
        return "it is too hot";
    if (slowed & GPU_SLOWED_BRAKE)
        return "the power supply limits it";
    if (slowed & GPU_SLOWED_HARDWARE)
        return "the hardware asks for it, because of heat or power";
    return NULL;
}

static void look_at_speed(struct gpu_health_told *told, const char *label,
                          const struct gpu_sample *s, int64_t now, struct news *n)
{
    const char *why = why_slow(s->health.slowed);
    char heat[32] = "";

    if (why) {
        if (told->slow_since_ms == 0)
            told->slow_since_ms = now;
        told->slow_seen_ms = now;
        if (told->slow_told || now - told->slow_since_ms < GPU_HEALTH_SLOW_MS ||
            told->slow_count == GPU_HEALTH_SLOW_MOST)
            return;
        if (s->celsius != GPU_SAMPLE_COLD)
            snprintf(heat, sizeof(heat),
                     " (%d \xC2\xB0"
                     "C)",
                     s->celsius);
        told->slow_told = true;
        told->slow_count++;
        add_news(n, "device-slow", false, "%s is slowed down: %s%s", label, why, heat);
    } else if (told->slow_since_ms != 0 && now - told->slow_seen_ms >= GPU_HEALTH_FAST_MS) {
        if (told->slow_told)
            add_news(n, "device-slow", true,
                     "%s is at full speed again: it was slowed down for %lld s", label,
                     (long long)(told->slow_seen_ms - told->slow_since_ms) / 1000);
        told->slow_since_ms = 0;
        told->slow_told = false;
    }
}

/* ------------------------------------------------------------------------------------ errors */

static void look_at_memory(struct gpu_health_told *told, const char *label,
                           const struct gpu_health *h, struct news *n)
{
    const int64_t more = told->counted ? h->ecc_uncorrected - told->uncorrected : 0;

    if (more > 0)
        add_news(n, "device-memory", false,
                 "%s: %lld %s of its memory that ECC could not correct (%lld since the driver was "
                 "loaded). What worked on it then is done again. If this repeats, have the card "
                 "replaced",
                 label, (long long)more, more == 1 ? "error" : "errors",
                 (long long)h->ecc_uncorrected);
    if (h->ecc_uncorrected >= 0) {
        told->uncorrected = h->ecc_uncorrected;
        told->counted = true;
    }
    if (h->rows_pending && !told->pending)
        add_news(n, "device-memory", false,
                 "%s: part of its memory failed, and spare memory takes its place after a reset: "
                 "restart the machine",
                 label);
    if (h->rows_failed && !told->failed)
        add_news(n, "device-memory", false,
                 "%s: part of its memory failed, and no spare memory is left: have the card "
                 "replaced",
                 label);
    told->pending |= h->rows_pending;
    told->failed |= h->rows_failed;
}

/* A card that idles may have fewer lanes. */
static void look_at_lanes(struct gpu_health_told *told, const char *label,
                          const struct gpu_sample *s, struct news *n)
{
    const struct gpu_health *h = &s->health;

    if (h->lanes >= h->lanes_most || s->percent <= 0) {
        told->narrow = 0;
        return;
    }
    if (++told->narrow < GPU_HEALTH_NARROW || told->lanes)
        return;
    told->lanes = true;
    add_news(
        n, "device-link", false,
        "%s uses %d of %d PCIe lanes: what is copied to it takes longer; seat the card anew, or "
        "try another slot",
        label, h->lanes, h->lanes_most);
}

/* NVIDIA's page "XID Errors" has them all. */
static const char *name_xid(uint32_t xid)
{
    static const struct {
        uint32_t xid;
        const char *words;
    } known[] = {
        {13, "a program's kernel failed on it"},
        {31, "a program touched memory that is not its own"},
        {43, "a program's work on it was stopped"},
        {45, "a program's work on it was cleared away"},
        {48, "an error of its memory that ECC could not correct"},
        {61, "its firmware stopped at a breakpoint"},
        {62, "its firmware stopped"},
        {63, "part of its memory is to be replaced by spare memory"},
        {64, "part of its memory failed and could not be replaced"},
        {74, "an error of NVLink"},
        {79, "it fell off the bus; restart the machine"},
        {92, "many errors of its memory, which ECC corrected"},
        {94, "an error of its memory, which only one program felt"},
        {95, "an error of its memory, which all programs felt; reset the GPU"},
        {119, "its firmware did not answer; restart the machine"},
        {120, "its firmware failed; restart the machine"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].xid == xid)
            return known[i].words;
    return "see NVIDIA's list of XID errors, and `dmesg`";
}

static void look_at_xids(struct gpu_health_told *told, const char *label,
                         const struct gpu_health *h, struct news *n)
{
    for (uint32_t i = 0; i < h->xid_count; i++) {
        uint32_t k = 0;

        while (k < told->xid_count && told->xid[k] != h->xid[i])
            k++;
        if (k < told->xid_count || k == GPU_HEALTH_XIDS)
            continue;
        told->xid[told->xid_count++] = h->xid[i];
        add_news(n, "device-xid", false, "%s: the driver reported error Xid %u: %s", label,
                 h->xid[i], name_xid(h->xid[i]));
    }
}

size_t gpu_health_look(struct gpu_health_told *told, const char *label, const struct gpu_sample *s,
                       int64_t now_ms, struct gpu_health_news ret[GPU_HEALTH_NEWS])
{
    struct news n = {.list = ret};

    look_at_speed(told, label, s, now_ms, &n);
    look_at_memory(told, label, &s->health, &n);
    look_at_lanes(told, label, s, &n);
    look_at_xids(told, label, &s->health, &n);
    return n.count;
}

/* --------------------------------------------------------------------------------------- now */

void gpu_health_say(const struct gpu_health *h, char *ret, size_t capacity)
{
    const char *slow = why_slow(h->slowed);
    size_t n = 0;

    ret[0] = 0;
    if (slow)
        n += (size_t)snprintf(ret, capacity, "slowed down: %s", slow);
    else if (h->slowed > 0 && (h->slowed & GPU_SLOWED_POWER_LIMIT))
        n += (size_t)snprintf(ret, capacity, "at its power limit");
    if (n < capacity && h->ecc_uncorrected > 0)
        n += (size_t)snprintf(ret + n, capacity - n, "%s%lld uncorrected memory %s",
                              n > 0 ? ", " : "", (long long)h->ecc_uncorrected,
                              h->ecc_uncorrected == 1 ? "error" : "errors");
    if (n < capacity && (h->rows_pending || h->rows_failed))
        n += (size_t)snprintf(ret + n, capacity - n, "%spart of its memory failed",
                              n > 0 ? ", " : "");
    if (n < capacity && h->lanes < h->lanes_most)
        snprintf(ret + n, capacity - n, "%s%d of %d PCIe lanes", n > 0 ? ", " : "", h->lanes,
                 h->lanes_most);
}
