/* kernel_times: what a device really did, when and for how long, where no profiler is installed.
 *
 *     CUDA_INJECTION64_PATH=libkernel_times.so KERNEL_TIMES=NAME PROGRAM ...
 *
 * CUDA's driver loads the library before the first context. Every kernel, copy and clearing is
 * recorded by CUPTI as it ran: neither serialized nor repeated, and of a recorded graph each node.
 * The file NAME.PID, written when the program ends, has a line for each:
 *
 *     N number name                           a kernel's name, before its first use
 *     number begin duration stream blocks     begin in us since the first, duration in ns
 *
 * Wants libcupti.so of the same CUDA where the loader looks. tools/dev/gpu-pack builds it, and
 * gpu-suite takes it where nsys is not installed. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cupti.h>

#define BUFFER_BYTES (8u << 20)
#define NAMES_MAX 1024

static FILE *out;
static uint64_t first;
static const char *names[NAMES_MAX];
static unsigned name_count;

/* CUPTI keeps a kernel's name for as long as its module is loaded: a copy. */
static unsigned number_of(const char *name)
{
    for (unsigned i = 0; i < name_count; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    if (name_count == NAMES_MAX)
        return NAMES_MAX;
    names[name_count] = strdup(name);
    fprintf(out, "N %u %s\n", name_count, name);
    return name_count++;
}

static void write_kernel_record(const char *name, uint64_t begin, uint64_t end, uint32_t stream,
                                uint32_t blocks)
{
    unsigned number = number_of(name);

    if (first == 0)
        first = begin;
    fprintf(out, "%u %.3f %" PRIu64 " %u %u\n", number, ((double)begin - (double)first) / 1e3,
            end - begin, stream, blocks);
}

static void CUPTIAPI give(uint8_t **buffer, size_t *size, size_t *records)
{
    *buffer = malloc(BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *records = 0;
}

static void CUPTIAPI take(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                          size_t valid)
{
    CUpti_Activity *record = NULL;

    (void)context, (void)stream, (void)size;
    while (out && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
        if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
            const CUpti_ActivityKernel10 *k = (const CUpti_ActivityKernel10 *)record;

            write_kernel_record(k->name, k->start, k->end, k->streamId,
                                (uint32_t)k->gridX * (uint32_t)k->gridY * (uint32_t)k->gridZ);
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
            const CUpti_ActivityMemcpy6 *m = (const CUpti_ActivityMemcpy6 *)record;

            write_kernel_record(
                m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to the device"
                : m->copyKind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy from the device"
                                                                 : "copy",
                m->start, m->end, m->streamId, (uint32_t)m->bytes);
        } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
            const CUpti_ActivityMemset4 *m = (const CUpti_ActivityMemset4 *)record;

            write_kernel_record("memset", m->start, m->end, m->streamId, (uint32_t)m->bytes);
        }
    }
    free(buffer);
}

static void close_kernel_trace(void)
{
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    if (out)
        fclose(out);
    out = NULL;
}

/* The driver calls it by this name; the program goes on whatever it returns. */
__attribute__((visibility("default"))) int InitializeInjection(void);
int InitializeInjection(void)
{
    static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                               CUPTI_ACTIVITY_KIND_MEMCPY,
                                               CUPTI_ACTIVITY_KIND_MEMSET};
    const char *named = getenv("KERNEL_TIMES");
    char file[4096];

    snprintf(file, sizeof(file), "%s.%d", named ? named : "kernel-times", (int)getpid());
    out = fopen(file, "w");
    if (!out || cuptiActivityRegisterCallbacks(give, take) != CUPTI_SUCCESS) {
        fprintf(stderr, "kernel_times: nothing is recorded\n");
        return 0;
    }
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (cuptiActivityEnable(kinds[i]) != CUPTI_SUCCESS)
            fprintf(stderr, "kernel_times: kind %u is not recorded\n", (unsigned)kinds[i]);
    atexit(close_kernel_trace);
    return 1;
}
