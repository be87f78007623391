#include "gpu/gpu_sample.h"

#include <dlfcn.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/utf8.h"

/* ---- NVIDIA's management library (libnvidia-ml.so.1, which comes with the driver), opened at run
 * time: nothing links to it. Has run on an H200.
 *
 * Any call may crash, hang or return nonsense, as the driver likes: use it where that may be
 * afforded, in the process that `nightshift probe --watch` is. One thread.
 *
 * The parts of its interface that we use are declared here, since its header belongs to the CUDA
 * toolkit and the library to the driver. Each function has the name of the newest known version,
 * then of older ones, and each may be missing. */

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
    int (*version)(char *ret, unsigned capacity);
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

static void *find_nvml_symbol(const struct nvml *n, const char *const names[])
{
    void *ret = NULL;

    for (; *names && !ret; names++)
        ret = dlsym(n->library, *names);
    return ret;
}

/* ISO C knows no way from a pointer to data to one to a function but through memory. */
#define FIND(n, member, ...)                                                           \
    do {                                                                               \
        void *found = find_nvml_symbol((n), (const char *const[]){__VA_ARGS__, NULL}); \
        memcpy(&(n)->member, &found, sizeof(found));                                   \
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

static int open_nvml(struct nvml *n, struct err *err)
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

/* ERR_MISSING: there is no such library, it cannot be used, or no driver answers it. */
static int nvml_open(struct nvml **ret, struct err *err)
{
    struct nvml *n = calloc(1, sizeof(*n));
    int rc = n ? open_nvml(n, err) : err_set(err, ERR_NOMEM, "no memory for NVML");

    if (rc == 0)
        *ret = n;
    else
        free(n); /* the library stays: unloading it is more than some stand */
    return rc;
}

/* NULL is fine */
static void nvml_close(struct nvml *n)
{
    if (n && n->shutdown)
        n->shutdown();
    free(n);
}

/* "580.95.05"; "" */
static const char *nvml_driver(struct nvml *n) { return n->driver; }

/* ------------------------------------------------------------------------------ processes */

static struct gpu_process *process_of(struct gpu_sample *s, uint32_t pid, bool computes)
{
    struct gpu_process *p = s->process;

    while (p < s->process + s->process_count && p->pid != pid)
        p++;
    if (p == s->process + GPU_SAMPLE_PROCESSES)
        return NULL;
    if (p == s->process + s->process_count) {
        *p = (struct gpu_process){.pid = pid, .percent = -1};
        s->process_count++;
    }
    p->computes |= computes;
    return p;
}

/* The library may return a larger count than the list has. */
static unsigned bounded(unsigned count) { return count < PROCESSES_MOST ? count : PROCESSES_MOST; }

static void list_computing(const struct nvml *n, device d, struct gpu_sample *ret)
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

/* Each process's share of the GPU since the last look. The first look reports none, because the
 * driver then reports the last minutes. The driver reports nothing else about processes that only
 * draw. */
static void list_shares(const struct nvml *n, device d, uint64_t *since_us, struct gpu_sample *ret)
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

/* A GPU or MIG instance by its UUID, wherever it stands in whose order. A value stays unknown if
 * the library does not know it, refuses it or has no function for it. *since_us: 0 at first, later
 * the value that the last look at it left there: processes' shares are of the time between two
 * looks. */
static void nvml_look(struct nvml *n, const char *uuid, uint64_t *since_us, struct gpu_sample *ret)
{
    struct utilization load;
    struct memory memory;
    unsigned value;
    device d = NULL;

    gpu_sample_nothing(ret);
    if (n->by_uuid(uuid, &d) != SUCCESS || !d)
        return;
    if (n->load && n->load(d, &load) == SUCCESS)
        ret->percent = load.gpu <= 100 ? (int)load.gpu : -1;
    if (n->temperature && n->temperature(d, TEMPERATURE_GPU, &value) == SUCCESS)
        ret->celsius = value <= INT_MAX ? (int)value : GPU_SAMPLE_COLD;
    if (n->power && n->power(d, &value) == SUCCESS)
        ret->milliwatts = value;
    if (n->memory && n->memory(d, &memory) == SUCCESS) {
        ret->used_bytes = memory.used;
        ret->total_bytes = memory.total;
    }
    list_computing(n, d, ret);
    list_shares(n, d, since_us, ret);
}

/* ---- the child's part: what it sees, as lines */

/* Takes the object. */
static int write_json_line(FILE *out, json_t *object)
{
    const int rc = object ? json_dumpf(object, out, JSON_COMPACT) : -1;

    json_decref(object);
    if (rc != 0 || fputc('\n', out) < 0)
        return -1;
    return fflush(out) != 0 ? -1 : 0;
}

static void set_known_number(json_t *o, const char *key, uint64_t value, bool known)
{
    if (known)
        json_object_set_new(o, key, json_integer((json_int_t)value));
}

static json_t *processes(const struct gpu_sample *s)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < s->process_count; i++) {
        const struct gpu_process *p = &s->process[i];
        json_t *o = json_object();

        set_known_number(o, "pid", p->pid, true);
        set_known_number(o, "percent", (uint64_t)p->percent, p->percent >= 0);
        json_object_set_new(o, "computes", json_boolean(p->computes));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *gpu_to_json(const struct gpu_sample *s)
{
    json_t *o = json_object();

    set_known_number(o, "percent", (uint64_t)s->percent, s->percent >= 0);
    set_known_number(o, "celsius", (uint64_t)s->celsius, s->celsius >= 0);
    set_known_number(o, "milliwatts", (uint64_t)s->milliwatts, s->milliwatts >= 0);
    /* The value goes out unchanged, if it is a number that JSON has: the reader judges it. */
    set_known_number(o, "used", s->used_bytes, s->total_bytes > 0 && s->used_bytes <= INT64_MAX);
    set_known_number(o, "total", s->total_bytes, s->total_bytes > 0 && s->total_bytes <= INT64_MAX);
    if (s->lists)
        json_object_set_new(o, "processes", processes(s));
    return o;
}

static int write_gpu_readings(struct nvml *n, const char *const uuids[], uint64_t since_us[],
                              size_t count, FILE *out)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        struct gpu_sample s;

        nvml_look(n, uuids[i], &since_us[i], &s);
        json_array_append_new(list, gpu_to_json(&s));
    }
    return write_json_line(out, json_pack("{s:o}", "gpus", list));
}

int gpu_sample_write(int64_t period_ms, const char *const uuids[], size_t n, FILE *out)
{
    const struct timespec period = {period_ms / 1000, period_ms % 1000 * 1000000};
    uint64_t *since_us = calloc(n + 1, sizeof(*since_us));
    struct nvml *nvml = NULL;
    struct err err = {0};
    json_t *text;

    if (!since_us)
        return -1;
    if (nvml_open(&nvml, &err) != 0) {
        free(since_us);
        text = json_string(err.msg); /* NULL: it is no UTF-8 */
        return write_json_line(
            out, json_pack("{s:o}", "error", text ? text : json_string("(unreadable)")));
    }
    text = json_string(nvml_driver(nvml));
    if (write_json_line(out, json_pack("{s:o}", "driver", text ? text : json_string(""))) == 0)
        while (write_gpu_readings(nvml, uuids, since_us, n, out) == 0)
            nanosleep(&period, NULL);
    nvml_close(nvml);
    free(since_us);
    return -1;
}

/* ---- the parent's part: what a library that nobody here has seen made a
 * process say */

#define CELSIUS_MOST 200
#define MILLIWATTS_MOST 10000000 /* 10 kW: more is no card's */
#define BYTES_MOST ((json_int_t)1 << 60)

void gpu_sample_nothing(struct gpu_sample *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->percent = -1;
    ret->celsius = GPU_SAMPLE_COLD;
    ret->milliwatts = -1;
}

/* A whole number up to `most`; else what stands for one that is not known. */
static json_int_t read_bounded_integer(const json_t *o, const char *key, json_int_t most,
                                       json_int_t unknown)
{
    const json_t *v = json_object_get(o, key);
    const json_int_t n = json_integer_value(v);

    return json_is_integer(v) && n >= 0 && n <= most ? n : unknown;
}

static void read_processes(const json_t *list, struct gpu_sample *ret)
{
    for (size_t i = 0; i < json_array_size(list) && i < GPU_SAMPLE_PROCESSES; i++) {
        const json_t *o = json_array_get(list, i);
        struct gpu_process *p = &ret->process[ret->process_count];

        p->pid = (uint32_t)read_bounded_integer(o, "pid", INT32_MAX, 0);
        p->percent = (int)read_bounded_integer(o, "percent", 100, -1);
        p->computes = json_is_true(json_object_get(o, "computes"));
        ret->process_count += p->pid > 0;
    }
}

static void read_gpu(const json_t *o, struct gpu_sample *ret)
{
    const json_t *list = json_object_get(o, "processes");

    gpu_sample_nothing(ret);
    ret->percent = (int)read_bounded_integer(o, "percent", 100, -1);
    ret->celsius = (int)read_bounded_integer(o, "celsius", CELSIUS_MOST, GPU_SAMPLE_COLD);
    ret->milliwatts = read_bounded_integer(o, "milliwatts", MILLIWATTS_MOST, -1);
    ret->total_bytes = (uint64_t)read_bounded_integer(o, "total", BYTES_MOST, 0);
    ret->used_bytes = (uint64_t)read_bounded_integer(o, "used", BYTES_MOST, BYTES_MOST);
    if (ret->used_bytes > ret->total_bytes)
        ret->used_bytes = ret->total_bytes = 0;
    ret->lists = json_is_array(list);
    read_processes(list, ret);
}

static void copy_printable_text(const json_t *text, char *ret, size_t capacity)
{
    const char *s = json_string_value(text);
    char *shown = utf8_display(s, strlen(s));

    utf8_copy(ret, capacity, shown ? shown : "");
    free(shown);
}

enum gpu_sample_line gpu_sample_read(const char *line, size_t len, struct gpu_sample *ret, size_t n,
                                     char *words, size_t capacity)
{
    json_t *o = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *error = json_object_get(o, "error"), *gpus = json_object_get(o, "gpus");
    enum gpu_sample_line said = GPU_SAMPLE_NONSENSE;

    if (json_is_string(error)) {
        copy_printable_text(error, words, capacity);
        said = GPU_SAMPLE_ERROR;
    } else if (json_is_string(json_object_get(o, "driver"))) {
        said = GPU_SAMPLE_BEGUN;
    } else if (json_is_array(gpus) && json_array_size(gpus) == n) {
        for (size_t i = 0; i < n; i++)
            read_gpu(json_array_get(gpus, i), &ret[i]);
        said = GPU_SAMPLE_SEEN;
    }
    json_decref(o);
    return said;
}
