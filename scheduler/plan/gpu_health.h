/* scheduler/plan/gpu_health.h - what of a GPU's health people should learn, and in which words.
 * Pure: the driver's figures come in (gpu/gpu_sample.h), sentences go out. */
#ifndef NIGHTSHIFT_SCHEDULER_PLAN_GPU_HEALTH_H
#define NIGHTSHIFT_SCHEDULER_PLAN_GPU_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu/gpu_sample.h"

#define GPU_HEALTH_SLOW_MS 10000 /* slowed down for so long it is told */
#define GPU_HEALTH_FAST_MS 60000 /* not slowed down for so long it is at full speed again */
#define GPU_HEALTH_SLOW_MOST 10u /* so often in a run */
#define GPU_HEALTH_NARROW 3u     /* looks at work with too few lanes, in a row */
#define GPU_HEALTH_XIDS 16u      /* different ones in a run; each is told once */
#define GPU_HEALTH_NEWS (GPU_SAMPLE_XIDS + 6u)

struct gpu_health_told {                 /* of one GPU in a run; all zero at first */
    int64_t slow_since_ms, slow_seen_ms; /* monotonic; 0: it is not slowed down */
    bool slow_told;
    uint32_t slow_count;
    bool counted; /* uncorrected is what it was last */
    int64_t uncorrected;
    bool pending, failed, lanes;
    uint32_t narrow;
    uint32_t xid[GPU_HEALTH_XIDS], xid_count;
};

struct gpu_health_news {
    const char
        *kind; /* of the event: "device-slow", "device-memory", "device-link", "device-xid" */
    bool good; /* it is over: nothing to be warned of */
    char text[280];
};

/* One look, at now_ms. label: "cuda:0". Errors of memory from before the first look are no news.
 * Returns how many sentences there are in ret. */
size_t gpu_health_look(struct gpu_health_told *told, const char *label, const struct gpu_sample *s,
                       int64_t now_ms, struct gpu_health_news ret[GPU_HEALTH_NEWS]);
/* What it is like now, for a line of figures: "slowed down: it is too hot"; "" when all is well or
 * not known. */
void gpu_health_say(const struct gpu_health *h, char *ret, size_t capacity);

#endif
