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
#define ECC_CORRECTED 0
#define ECC_UNCORRECTED 1
#define ECC_VOLATILE 0 /* since the driver was loaded */
#define EVENT_XID 8ull
#define EVENTS_MOST 64 /* taken in one look */

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

struct event { /* of nvmlEventSetWait_v2; the older one leaves out the last two */
    device d;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
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
    int (*slowed)(device d, unsigned long long *ret);
    int (*ecc)(device d, int kind, int counter, unsigned long long *ret);
    int (*rows)(device d, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                unsigned *failed);
    int (*lanes)(device d, unsigned *ret);
    int (*lanes_most)(device d, unsigned *ret);
    int (*events_new)(void **set);
    int (*events_of)(device d, unsigned long long types, void *set);
    int (*events_wait)(void *set, struct event *ret, unsigned ms);
    void *events; /* NULL: there are none */
    char driver[80];
};

struct watched { /* one GPU between two looks */
    const char *uuid;
    uint64_t since_us; /* 0 at first, later what the last look left there */
    device d;          /* of events; NULL: none are told of it */
    uint32_t xid[GPU_SAMPLE_XIDS], xid_count;
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
    FIND(n, slowed, "nvmlDeviceGetCurrentClocksEventReasons",
         "nvmlDeviceGetCurrentClocksThrottleReasons");
    FIND(n, ecc, "nvmlDeviceGetTotalEccErrors");
    FIND(n, rows, "nvmlDeviceGetRemappedRows");
    FIND(n, lanes, "nvmlDeviceGetCurrPcieLinkWidth");
    FIND(n, lanes_most, "nvmlDeviceGetMaxPcieLinkWidth");
    FIND(n, events_new, "nvmlEventSetCreate");
    FIND(n, events_of, "nvmlDeviceRegisterEvents");
    FIND(n, events_wait, "nvmlEventSetWait_v2", "nvmlEventSetWait");
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

/* --------------------------------------------------------------------------------- health */

/* Errors that the driver reports are events: asked for once, and taken in each look. */
static void ask_for_events(struct nvml *n, struct watched *all, size_t count)
{
    if (!n->events_new || !n->events_of || !n->events_wait || n->events_new(&n->events) != SUCCESS)
        n->events = NULL;
    for (size_t i = 0; i < count && n->events; i++)
        if (n->by_uuid(all[i].uuid, &all[i].d) != SUCCESS ||
            n->events_of(all[i].d, EVENT_XID, n->events) != SUCCESS)
            all[i].d = NULL;
}

static void take_events(const struct nvml *n, struct watched *all, size_t count)
{
    for (int taken = 0; n->events && taken < EVENTS_MOST; taken++) {
        struct event e = {0};

        if (n->events_wait(n->events, &e, 0) != SUCCESS)
            return;
        for (size_t i = 0; i < count; i++)
            if (e.type == EVENT_XID && all[i].d && all[i].d == e.d &&
                all[i].xid_count < GPU_SAMPLE_XIDS)
                all[i].xid[all[i].xid_count++] = (uint32_t)e.data;
    }
}

static int64_t count_ecc(const struct nvml *n, device d, int kind)
{
    unsigned long long value = 0;

    return n->ecc && n->ecc(d, kind, ECC_VOLATILE, &value) == SUCCESS && value <= INT64_MAX
               ? (int64_t)value
               : -1;
}

static void look_at_health(const struct nvml *n, device d, struct gpu_health *ret)
{
    unsigned long long bits = 0;
    unsigned now = 0, most = 0, corrected = 0, uncorrected = 0, pending = 0, failed = 0;

    if (n->slowed && n->slowed(d, &bits) == SUCCESS)
        ret->slowed = (int64_t)(bits & GPU_SLOWED_ANY);
    ret->ecc_corrected = count_ecc(n, d, ECC_CORRECTED);
    ret->ecc_uncorrected = count_ecc(n, d, ECC_UNCORRECTED);
    if (n->rows && n->rows(d, &corrected, &uncorrected, &pending, &failed) == SUCCESS) {
        ret->rows_remapped = (int64_t)corrected + uncorrected;
        ret->rows_pending = pending != 0;
        ret->rows_failed = failed != 0;
    }
    if (n->lanes && n->lanes_most && n->lanes(d, &now) == SUCCESS &&
        n->lanes_most(d, &most) == SUCCESS && now <= most && most <= INT_MAX) {
        ret->lanes = (int)now;
        ret->lanes_most = (int)most;
    }
}

/* ------------------------------------------------------------------------------------ look */

/* A GPU or MIG instance by its UUID, wherever it stands in whose order. A value stays unknown if
 * the library does not know it, refuses it or has no function for it. Processes' shares and events
 * are of the time between two looks. */
static void nvml_look(struct nvml *n, struct watched *w, struct gpu_sample *ret)
{
    struct utilization load;
    struct memory memory;
    unsigned value;
    device d = NULL;

    gpu_sample_nothing(ret);
    memcpy(ret->health.xid, w->xid, sizeof(w->xid));
    ret->health.xid_count = w->xid_count;
    w->xid_count = 0;
    if (n->by_uuid(w->uuid, &d) != SUCCESS || !d)
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
    list_shares(n, d, &w->since_us, ret);
    look_at_health(n, d, &ret->health);
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

static void add_health(json_t *o, const struct gpu_health *h)
{
    json_t *xids = h->xid_count > 0 ? json_array() : NULL;

    set_known_number(o, "slowed", (uint64_t)h->slowed, h->slowed >= 0);
    set_known_number(o, "ecc_corrected", (uint64_t)h->ecc_corrected, h->ecc_corrected >= 0);
    set_known_number(o, "ecc_uncorrected", (uint64_t)h->ecc_uncorrected, h->ecc_uncorrected >= 0);
    set_known_number(o, "rows_remapped", (uint64_t)h->rows_remapped, h->rows_remapped >= 0);
    if (h->rows_pending)
        json_object_set_new(o, "rows_pending", json_true());
    if (h->rows_failed)
        json_object_set_new(o, "rows_failed", json_true());
    set_known_number(o, "lanes", (uint64_t)h->lanes, h->lanes_most > 0);
    set_known_number(o, "lanes_most", (uint64_t)h->lanes_most, h->lanes_most > 0);
    for (uint32_t i = 0; i < h->xid_count; i++)
        json_array_append_new(xids, json_integer((json_int_t)h->xid[i]));
    if (xids)
        json_object_set_new(o, "xids", xids);
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
    add_health(o, &s->health);
    return o;
}

static int write_gpu_readings(struct nvml *n, struct watched *all, size_t count, FILE *out)
{
    json_t *list = json_array();

    take_events(n, all, count);
    for (size_t i = 0; i < count; i++) {
        struct gpu_sample s;

        nvml_look(n, &all[i], &s);
        json_array_append_new(list, gpu_to_json(&s));
    }
    return write_json_line(out, json_pack("{s:o}", "gpus", list));
}

int gpu_sample_write(int64_t period_ms, const char *const uuids[], size_t n, FILE *out)
{
    const struct timespec period = {period_ms / 1000, period_ms % 1000 * 1000000};
    struct watched *all = calloc(n + 1, sizeof(*all));
    struct nvml *nvml = NULL;
    struct err err = {0};
    json_t *text;

    if (!all)
        return -1;
    for (size_t i = 0; i < n; i++)
        all[i].uuid = uuids[i];
    if (nvml_open(&nvml, &err) != 0) {
        free(all);
        text = json_string(err.msg); /* NULL: it is no UTF-8 */
        return write_json_line(
            out, json_pack("{s:o}", "error", text ? text : json_string("(unreadable)")));
    }
    ask_for_events(nvml, all, n);
    text = json_string(nvml_driver(nvml));
    if (write_json_line(out, json_pack("{s:o}", "driver", text ? text : json_string(""))) == 0)
        while (write_gpu_readings(nvml, all, n, out) == 0)
            nanosleep(&period, NULL);
    nvml_close(nvml);
    free(all);
    return -1;
}

/* ---- the parent's part: what a library that nobody here has seen made a
 * process say */

#define CELSIUS_MOST 200
#define MILLIWATTS_MOST 10000000 /* 10 kW: more is no card's */
#define BYTES_MOST ((json_int_t)1 << 60)
#define COUNT_MOST 1000000000
#define LANES_MOST 64
#define XID_MOST 9999

void gpu_sample_nothing(struct gpu_sample *ret)
{
    memset(ret, 0, sizeof(*ret));
    ret->percent = -1;
    ret->celsius = GPU_SAMPLE_COLD;
    ret->milliwatts = -1;
    ret->health.slowed = ret->health.ecc_corrected = ret->health.ecc_uncorrected =
        ret->health.rows_remapped = -1;
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

static void read_health(const json_t *o, struct gpu_health *ret)
{
    const json_t *xids = json_object_get(o, "xids");

    ret->slowed = read_bounded_integer(o, "slowed", GPU_SLOWED_ANY, -1);
    ret->ecc_corrected = read_bounded_integer(o, "ecc_corrected", COUNT_MOST, -1);
    ret->ecc_uncorrected = read_bounded_integer(o, "ecc_uncorrected", COUNT_MOST, -1);
    ret->rows_remapped = read_bounded_integer(o, "rows_remapped", COUNT_MOST, -1);
    ret->rows_pending = json_is_true(json_object_get(o, "rows_pending"));
    ret->rows_failed = json_is_true(json_object_get(o, "rows_failed"));
    ret->lanes = (int)read_bounded_integer(o, "lanes", LANES_MOST, 0);
    ret->lanes_most = (int)read_bounded_integer(o, "lanes_most", LANES_MOST, 0);
    if (ret->lanes == 0 || ret->lanes > ret->lanes_most)
        ret->lanes = ret->lanes_most = 0;
    for (size_t i = 0; i < json_array_size(xids) && ret->xid_count < GPU_SAMPLE_XIDS; i++) {
        const json_t *v = json_array_get(xids, i);
        const json_int_t xid = json_integer_value(v);

        if (json_is_integer(v) && xid > 0 && xid <= XID_MOST)
            ret->xid[ret->xid_count++] = (uint32_t)xid;
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
    read_health(o, &ret->health);
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
