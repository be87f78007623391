/* What is used of NVML's interface is written down here, since its header belongs to the CUDA
 * toolkit and the library to the driver: each function by the name of the newest version that is
 * known, then of older ones, and each may be missing. */
#include "gpu/sight/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"
#define SUCCESS 0
#define INSUFFICIENT_SIZE 7
#define TEMPERATURE_GPU 0
#define PROCESSES_MOST 1024u

typedef void *device;

struct utilization { /* percent of the time in which kernels ran; in which memory was used */
    unsigned gpu, memory;
};
struct memory {
    unsigned long long total, free, used;
};
struct process { /* since _v2 */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct process_v1 {
    unsigned pid;
    unsigned long long used;
};
struct sample { /* of a process */
    unsigned pid;
    unsigned long long at_us;
    unsigned sm, memory, encoder, decoder; /* percent */
};

struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error)(int code);
    int (*version)(char *ret, unsigned cap);
    int (*by_uuid)(const char *uuid, device *ret);
    int (*load)(device d, struct utilization *ret);
    int (*memory)(device d, struct memory *ret);
    int (*temperature)(device d, int sensor, unsigned *ret);
    int (*power)(device d, unsigned *milliwatts);
    int (*processes)(device d, unsigned *count, struct process *ret);
    int (*processes_v1)(device d, unsigned *count, struct process_v1 *ret);
    int (*samples)(device d, struct sample *ret, unsigned *count, unsigned long long since_us);
    char driver[80];
};

static void *find(const struct nvml *n, const char *const names[])
{
    void *ret = NULL;

    for (; *names && !ret; names++)
        ret = dlsym(n->library, *names);
    return ret;
}

/* ISO C knows no way from a pointer to data to one to a function but through memory. */
#define FIND(n, member, ...)                                               \
    do {                                                                   \
        void *found = find((n), (const char *const[]){__VA_ARGS__, NULL}); \
        memcpy(&(n)->member, &found, sizeof(found));                       \
    } while (0)

static void find_all(struct nvml *n)
{
    FIND(n, init, "nvmlInit_v2", "nvmlInit");
    FIND(n, shutdown, "nvmlShutdown");
    FIND(n, error, "nvmlErrorString");
    FIND(n, version, "nvmlSystemGetDriverVersion");
    FIND(n, by_uuid, "nvmlDeviceGetHandleByUUID");
    FIND(n, load, "nvmlDeviceGetUtilizationRates");
    FIND(n, memory, "nvmlDeviceGetMemoryInfo");
    FIND(n, temperature, "nvmlDeviceGetTemperature");
    FIND(n, power, "nvmlDeviceGetPowerUsage");
    FIND(n, processes, "nvmlDeviceGetComputeRunningProcesses_v3",
         "nvmlDeviceGetComputeRunningProcesses_v2");
    FIND(n, processes_v1, "nvmlDeviceGetComputeRunningProcesses");
    FIND(n, samples, "nvmlDeviceGetProcessUtilization");
}

static int begin(struct nvml *n, struct err *err)
{
    const char *words;
    int rc;

    n->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!n->library)
        return err_set(err, ERR_MISSING, "NVML cannot be opened: %.300s", dlerror());
    find_all(n);
    if (!n->init || !n->by_uuid)
        return err_set(err, ERR_MISSING, LIBRARY " is no NVML that this program knows");
    rc = n->init();
    if (rc != SUCCESS) {
        words = n->error ? n->error(rc) : NULL;
        return err_set(err, ERR_MISSING, "NVML does not begin: %.200s (%d)", words ? words : "?",
                       rc);
    }
    if (!n->version || n->version(n->driver, sizeof(n->driver) - 1) != SUCCESS)
        n->driver[0] = 0;
    n->driver[sizeof(n->driver) - 1] = 0;
    return 0;
}

int nvml_open(struct nvml **ret, struct err *err)
{
    struct nvml *n = calloc(1, sizeof(*n));
    int rc = n ? begin(n, err) : err_set(err, ERR_NOMEM, "no memory for NVML");

    if (rc == 0)
        *ret = n;
    else
        free(n); /* the library stays: unloading it is more than some stand */
    return rc;
}

void nvml_close(struct nvml *n)
{
    if (n && n->shutdown)
        n->shutdown();
    free(n);
}

const char *nvml_driver(struct nvml *n) { return n->driver; }

/* ------------------------------------------------------------------------------ processes */

static struct gpu_process *process_of(struct gpu_sight *s, uint32_t pid, bool computes)
{
    struct gpu_process *p = s->process;

    while (p < s->process + s->process_count && p->pid != pid)
        p++;
    if (p == s->process + GPU_SIGHT_PROCESSES)
        return NULL;
    if (p == s->process + s->process_count) {
        *p = (struct gpu_process){.pid = pid, .percent = -1};
        s->process_count++;
    }
    p->computes |= computes;
    return p;
}

/* Whatever count it gives back: what is not in the list was not told. */
static unsigned bounded(unsigned count) { return count < PROCESSES_MOST ? count : PROCESSES_MOST; }

static void list_computing(const struct nvml *n, device d, struct gpu_sight *ret)
{
    static struct process list[PROCESSES_MOST];
    static struct process_v1 old[PROCESSES_MOST];
    unsigned count = PROCESSES_MOST;
    const bool is_new = n->processes != NULL;
    int rc = -1;

    if (is_new)
        rc = n->processes(d, &count, list);
    else if (n->processes_v1)
        rc = n->processes_v1(d, &count, old);
    if (rc != SUCCESS && rc != INSUFFICIENT_SIZE)
        return;
    ret->lists = true;
    for (unsigned i = 0; i < bounded(count); i++)
        process_of(ret, is_new ? list[i].pid : old[i].pid, true);
}

/* What they took of it since the last look; at the first one the driver tells of minutes, which say
 * nothing of now. Of those that only draw this is all that is told. */
static void list_shares(const struct nvml *n, device d, uint64_t *since_us, struct gpu_sight *ret)
{
    static struct sample list[PROCESSES_MOST];
    const uint64_t before = *since_us;
    unsigned count = PROCESSES_MOST;

    if (!n->samples || n->samples(d, list, &count, before) != SUCCESS)
        return;
    for (unsigned i = 0; i < bounded(count); i++) {
        struct gpu_process *p = NULL;

        if (list[i].at_us > *since_us)
            *since_us = list[i].at_us;
        if (before > 0 && list[i].at_us > before && list[i].sm <= 100)
            p = process_of(ret, list[i].pid, false);
        if (p && p->percent < (int)list[i].sm)
            p->percent = (int)list[i].sm;
    }
}

/* ------------------------------------------------------------------------------------ look */

void nvml_look(struct nvml *n, const char *uuid, uint64_t *since_us, struct gpu_sight *ret)
{
    struct utilization load;
    struct memory memory;
    unsigned value;
    device d = NULL;

    gpu_sight_nothing(ret);
    if (n->by_uuid(uuid, &d) != SUCCESS || !d)
        return;
    if (n->load && n->load(d, &load) == SUCCESS)
        ret->percent = load.gpu <= 100 ? (int)load.gpu : -1;
    if (n->temperature && n->temperature(d, TEMPERATURE_GPU, &value) == SUCCESS)
        ret->celsius = value <= INT_MAX ? (int)value : GPU_SIGHT_COLD;
    if (n->power && n->power(d, &value) == SUCCESS)
        ret->milliwatts = value;
    if (n->memory && n->memory(d, &memory) == SUCCESS) {
        ret->used_bytes = memory.used;
        ret->total_bytes = memory.total;
    }
    list_computing(n, d, ret);
    list_shares(n, d, since_us, ret);
}
