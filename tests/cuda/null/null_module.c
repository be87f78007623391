/* The module's interface for the program. */
#include "tests/cuda/null/null.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda_module.h"

#define USUAL_GPUS "139GiB"
#define MOST_GPUS 8
#define GIB ((uint64_t)1 << 30)

extern const struct cuda_module nightshift_cuda_module;

static const char *get_setting(const char *name, const char *usual)
{
    const char *s = getenv(name);

    return s && s[0] != 0 ? s : usual;
}

/* Returns the number of devices; ret has room for MOST_GPUS. 0: the list is none. */
static uint32_t read_memories(uint64_t *ret)
{
    const char *at = get_setting("NIGHTSHIFT_NULL_GPUS", USUAL_GPUS);
    uint32_t n = 0;
    char *end;

    for (; n < MOST_GPUS; at = end + 1) {
        unsigned long gib = strtoul(at, &end, 10);

        if (end == at || strncmp(end, "GiB", 3) != 0 || gib < 1 || gib > 1024)
            return 0;
        end += 3;
        ret[n++] = gib * GIB;
        if (*end == 0)
            return n;
        if (*end != ',')
            return 0;
    }
    return 0;
}

static int read_devices(struct cuda_device *ret, uint32_t *count, struct err *err)
{
    uint64_t memory[MOST_GPUS];
    int major = 9, minor = 0;

    *count = read_memories(memory);
    if (*count == 0)
        return err_set(err, ERR_MISSING,
                       "NIGHTSHIFT_NULL_GPUS is not a list of 1 to %d sizes like 24GiB", MOST_GPUS);
    if (sscanf(get_setting("NIGHTSHIFT_NULL_CC", "9.0"), "%d.%d", &major, &minor) != 2)
        return err_set(err, ERR_MISSING, "NIGHTSHIFT_NULL_CC is no compute capability like 9.0");
    for (uint32_t i = 0; i < *count; i++) {
        struct cuda_device *d = &ret[i];

        *d = (struct cuda_device){.ordinal = i,
                                  .major = major,
                                  .minor = minor,
                                  .memory_total = memory[i],
                                  .processors = 132,
                                  .have = precisions_of_gpu(major, minor)};
        snprintf(d->name, sizeof(d->name), "%.63s",
                 get_setting("NIGHTSHIFT_NULL_NAME", "NVIDIA H200"));
        snprintf(d->uuid, sizeof(d->uuid), "GPU-00000000-0000-0000-0000-%012u", i);
    }
    return 0;
}

static int list_devices(struct cuda_device *ret, uint32_t cap, uint32_t *n, struct err *err)
{
    struct cuda_device all[MOST_GPUS];
    int rc = read_devices(all, n, err);

    for (uint32_t i = 0; rc == 0 && i < *n && i < cap; i++)
        ret[i] = all[i];
    return rc;
}

static uint64_t read_free_memory(uint32_t ordinal)
{
    uint64_t memory[MOST_GPUS];

    return ordinal < read_memories(memory) ? memory[ordinal] : 0;
}

static int open_device(const char *device, const struct cuda_options *options, struct backend **ret,
                       struct err *err)
{
    struct cuda_device all[MOST_GPUS];
    struct backend_info info = {0};
    struct null_device *d;
    uint32_t count = 0, i = 0;
    char ordinal[12] = "";
    int rc = read_devices(all, &count, err);

    for (; rc == 0 && i < count; i++) {
        snprintf(ordinal, sizeof(ordinal), "%u", i);
        if (strcmp(device, all[i].uuid) == 0 || strcmp(device, ordinal) == 0)
            break;
    }
    if (rc != 0 || i == count)
        return rc != 0 ? rc : err_set(err, ERR_MISSING, "no GPU '%.60s' is pretended", device);
    info = (struct backend_info){.memory_total = all[i].memory_total,
                                 .memory_free = all[i].memory_total,
                                 .processors = all[i].processors,
                                 .have = all[i].have,
                                 .deterministic = options->deterministic,
                                 .wide_batches = true};
    snprintf(info.name, sizeof(info.name), "%s", all[i].name);
    snprintf(info.id, sizeof(info.id), "%s", all[i].uuid);
    snprintf(info.features, sizeof(info.features), "sm_%d%d", all[i].major, all[i].minor);
    rc = null_device_new(&info, device_budget(info.memory_free, options->cap), &d, err);
    if (rc == 0)
        *ret = &d->base;
    return rc;
}

static int check_module(unsigned parts, cuda_finding_fn fn, void *arg)
{
    (void)parts;
    fn(arg, &(struct cuda_finding){.state = 0,
                                   .name = "null module",
                                   .found = "answers at once and computes nothing",
                                   .wanted = "",
                                   .todo = ""});
    return 0;
}

__attribute__((visibility("default"))) const struct cuda_module nightshift_cuda_module = {
    .abi = CUDA_MODULE_ABI,
    .built_for = "no GPU: for tests",
    .devices = list_devices,
    .free_memory = read_free_memory,
    .open = open_device,
    .check = check_module,
};
