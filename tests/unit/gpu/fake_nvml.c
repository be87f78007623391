/* A libnvidia-ml.so.1 that is none. What it does stands in the file $FAKE_NVML, read anew at each
 * call: a word, and a line for each GPU in the driver's own order
 *
 *   well | noinit | hang | crash | print | refuse
 *   UUID PERCENT USED TOTAL CELSIUS MILLIWATTS COUNT PID:SM PID:SM ...
 *
 * COUNT is what it says how many processes there are; SM is what a process that computes took of
 * the time, or, behind a '-' as the PID's sign, one that only draws. Behind the GPUs may stand
 *
 *   +UUID SLOWED CORRECTED UNCORRECTED ROWS PENDING FAILED LANES LANES_MOST XID XID ...
 *
 * of whose XIDs each is an event, once to a process. NVML_FEW leaves out all that
 * it can, and has the oldest list of processes; NVML_NONE has nothing of NVML. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))

#ifdef NVML_NONE
API int nothing_of_nvml(void);
int nothing_of_nvml(void) { return 0; }
#else

#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define LISTED 8

struct gpu {
    char uuid[80];
    unsigned long long percent, used, total, celsius, milliwatts, count;
    long pid[LISTED];
    unsigned sm[LISTED];
    unsigned listed;
    unsigned long long health[8]; /* SLOWED to LANES_MOST */
    unsigned long long xid[LISTED];
    unsigned xids;
};

static struct gpu gpus[4];
static char mode[16];

static void read_gpu(struct gpu *g, char *line)
{
    char *save = NULL, *word = strtok_r(line, " \n", &save);
    unsigned long long *const values[] = {&g->percent, &g->used,       &g->total,
                                          &g->celsius, &g->milliwatts, &g->count};

    memset(g, 0, sizeof(*g));
    snprintf(g->uuid, sizeof(g->uuid), "%s", word ? word : "");
    for (size_t i = 0; i < 6; i++) {
        word = strtok_r(NULL, " \n", &save);
        *values[i] = word ? strtoull(word, NULL, 10) : 0;
    }
    while (g->listed < LISTED && (word = strtok_r(NULL, " \n", &save))) {
        g->pid[g->listed] = strtol(word, &word, 10);
        g->sm[g->listed++] = *word == ':' ? (unsigned)strtoul(word + 1, NULL, 10) : 0;
    }
}

static void read_health(char *line)
{
    char *save = NULL, *word = strtok_r(line, " \n", &save);

    for (size_t i = 0; i < 4; i++) {
        struct gpu *g = &gpus[i];

        if (strcmp(g->uuid, word) != 0)
            continue;
        for (size_t k = 0; k < 8; k++) {
            word = strtok_r(NULL, " \n", &save);
            g->health[k] = word ? strtoull(word, NULL, 10) : 0;
        }
        while (g->xids < LISTED && (word = strtok_r(NULL, " \n", &save)))
            g->xid[g->xids++] = strtoull(word, NULL, 10);
        return;
    }
}

static void look(void)
{
    FILE *f = fopen(getenv("FAKE_NVML"), "re");
    char line[400] = "";

    memset(gpus, 0, sizeof(gpus));
    if (!f)
        abort();
    if (fgets(line, sizeof(line), f))
        snprintf(mode, sizeof(mode), "%.*s", (int)strcspn(line, "\n"), line);
    for (size_t i = 0; i < 4 && fgets(line, sizeof(line), f);)
        if (line[0] == '+')
            read_health(line + 1);
        else
            read_gpu(&gpus[i++], line);
    fclose(f);
}

static int is(const char *what) { return strcmp(mode, what) == 0; }

API int nvmlInit_v2(void);
int nvmlInit_v2(void)
{
    look();
    if (is("print") && write(STDOUT_FILENO, "{\"gpus\":[]}\n", 12) < 0)
        return 999;
    return is("noinit") ? 9 : 0;
}

API int nvmlDeviceGetHandleByUUID(const char *uuid, void **ret);
int nvmlDeviceGetHandleByUUID(const char *uuid, void **ret)
{
    look();
    for (size_t i = 0; i < 4; i++)
        if (strcmp(gpus[i].uuid, uuid) == 0) {
            *ret = &gpus[i];
            return 0;
        }
    return NOT_FOUND;
}

#ifdef NVML_FEW

struct process_v1 {
    unsigned pid;
    unsigned long long used;
};
API int nvmlDeviceGetComputeRunningProcesses(void *d, unsigned *count, struct process_v1 *ret);
int nvmlDeviceGetComputeRunningProcesses(void *d, unsigned *count, struct process_v1 *ret)
{
    const struct gpu *g = d;

    for (unsigned i = 0; i < g->listed; i++)
        ret[i] = (struct process_v1){(unsigned)g->pid[i], 1};
    *count = g->listed;
    return 0;
}

#else

struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};
struct sample {
    unsigned pid;
    unsigned long long at_us;
    unsigned sm, memory, encoder, decoder;
};
struct utilization {
    unsigned gpu, memory;
};
struct memory {
    unsigned long long total, free, used;
};

API const char *nvmlErrorString(int code);
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : NULL; }

API int nvmlSystemGetDriverVersion(char *ret, unsigned cap);
int nvmlSystemGetDriverVersion(char *ret, unsigned cap)
{
    memset(ret, 'x', cap); /* and no end */
    return 0;
}

API int nvmlDeviceGetUtilizationRates(void *d, struct utilization *ret);
int nvmlDeviceGetUtilizationRates(void *d, struct utilization *ret)
{
    *ret = (struct utilization){(unsigned)((struct gpu *)d)->percent, 0};
    return is("refuse") ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetMemoryInfo(void *d, struct memory *ret);
int nvmlDeviceGetMemoryInfo(void *d, struct memory *ret)
{
    const struct gpu *g = d;

    *ret = (struct memory){g->total, g->total - g->used, g->used};
    return is("refuse") ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *ret);
int nvmlDeviceGetTemperature(void *d, int sensor, unsigned *ret)
{
    while (is("hang"))
        pause();
    if (is("crash"))
        abort();
    *ret = (unsigned)((struct gpu *)d)->celsius;
    return is("refuse") || sensor != 0 ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetPowerUsage(void *d, unsigned *ret);
int nvmlDeviceGetPowerUsage(void *d, unsigned *ret)
{
    *ret = (unsigned)((struct gpu *)d)->milliwatts;
    return is("refuse") ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, struct process *ret);
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *count, struct process *ret)
{
    const struct gpu *g = d;
    unsigned n = 0;

    for (unsigned i = 0; i < g->listed && n < *count; i++)
        if (g->pid[i] > 0)
            ret[n++] = (struct process){(unsigned)g->pid[i], 1, 0, 0};
    *count = (unsigned)g->count;
    return is("refuse") ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetCurrentClocksEventReasons(void *d, unsigned long long *ret);
int nvmlDeviceGetCurrentClocksEventReasons(void *d, unsigned long long *ret)
{
    *ret = ((struct gpu *)d)->health[0];
    return is("refuse") ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *ret);
int nvmlDeviceGetTotalEccErrors(void *d, int kind, int counter, unsigned long long *ret)
{
    *ret = ((struct gpu *)d)->health[kind == 1 ? 2 : 1];
    return is("refuse") || counter != 0 ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected,
                                  unsigned *pending, unsigned *failed);
int nvmlDeviceGetRemappedRows(void *d, unsigned *corrected, unsigned *uncorrected,
                              unsigned *pending, unsigned *failed)
{
    const struct gpu *g = d;

    *corrected = 0;
    *uncorrected = (unsigned)g->health[3];
    *pending = (unsigned)g->health[4];
    *failed = (unsigned)g->health[5];
    return is("refuse") ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *ret);
int nvmlDeviceGetCurrPcieLinkWidth(void *d, unsigned *ret)
{
    *ret = (unsigned)((struct gpu *)d)->health[6];
    return is("refuse") ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *ret);
int nvmlDeviceGetMaxPcieLinkWidth(void *d, unsigned *ret)
{
    *ret = (unsigned)((struct gpu *)d)->health[7];
    return is("refuse") ? NOT_SUPPORTED : 0;
}

struct event {
    void *d;
    unsigned long long type, data;
    unsigned gpu_instance, compute_instance;
};
static void *registered[4];
static unsigned told_xids[4];

API int nvmlEventSetCreate(void **set);
int nvmlEventSetCreate(void **set)
{
    *set = registered;
    return is("refuse") ? NOT_SUPPORTED : 0;
}

API int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set);
int nvmlDeviceRegisterEvents(void *d, unsigned long long types, void *set)
{
    registered[(struct gpu *)d - gpus] = types == 8 && set == registered ? d : NULL;
    return 0;
}

API int nvmlEventSetWait_v2(void *set, struct event *ret, unsigned ms);
int nvmlEventSetWait_v2(void *set, struct event *ret, unsigned ms)
{
    for (size_t i = 0; i < 4 && set == registered; i++)
        if (registered[i] && told_xids[i] < gpus[i].xids) {
            *ret = (struct event){&gpus[i], 8, gpus[i].xid[told_xids[i]++], 0, 0};
            return 0;
        }
    return ms == 0 ? 10 /* NVML_ERROR_TIMEOUT */ : 1;
}

/* One sample of each, newer at each call. */
API int nvmlDeviceGetProcessUtilization(void *d, struct sample *ret, unsigned *count,
                                        unsigned long long since_us);
int nvmlDeviceGetProcessUtilization(void *d, struct sample *ret, unsigned *count,
                                    unsigned long long since_us)
{
    const struct gpu *g = d;
    unsigned n = 0;

    for (unsigned i = 0; i < g->listed && n < *count; i++)
        ret[n++] = (struct sample){(unsigned)labs(g->pid[i]), since_us + 1, g->sm[i], 0, 0, 0};
    *count = n;
    return is("refuse") ? NOT_SUPPORTED : n > 0 ? 0 : NOT_FOUND;
}
#endif
#endif
