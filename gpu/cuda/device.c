/* Which devices there are, and why there are none. */
#include "gpu/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 13000 -> 13, 0 */
#define CUDA_MAJOR(v) ((v) / 1000)
#define CUDA_MINOR(v) ((v) % 1000 / 10)

static int driver_missing(struct err *err)
{
    return err_set(
        err, ERR_MISSING,
        "there is no NVIDIA driver: libcuda.so.1 was not found (install the driver; in a "
        "container, start it with access to the GPUs)");
}

static int driver_old(int version, struct err *err)
{
    return err_set(err, ERR_MISSING,
                   "the NVIDIA driver is too old: it can do CUDA %d.%d, and %d.%d is wanted",
                   CUDA_MAJOR(version), CUDA_MINOR(version), CUDA_MAJOR(CUDART_VERSION),
                   CUDA_MINOR(CUDART_VERSION));
}

static int no_device(struct err *err)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    if (visible)
        return err_set(err, ERR_MISSING, "CUDA_VISIBLE_DEVICES=\"%.80s\" hides every GPU", visible);
    return err_set(err, ERR_MISSING,
                   "the NVIDIA driver sees no GPU (nvidia-smi shows what it sees)");
}

/* The sentence for a driver that does not start. */
static int no_start(cudaError_t status, struct err *err)
{
    int driver = 0;

    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    (void)cudaGetLastError();
    switch (status) {
    case cudaErrorNoDevice:
        return no_device(err);
    case cudaErrorInsufficientDriver:
        return driver == 0 ? driver_missing(err) : driver_old(driver, err);
    case cudaErrorStubLibrary:
        return err_set(err, ERR_MISSING,
                       "the libcuda.so.1 that was found is the toolkit's stub, not a driver: take "
                       "its directory out of LD_LIBRARY_PATH");
    case cudaErrorSystemDriverMismatch:
        return err_set(err, ERR_MISSING,
                       "libcuda.so.1 and the NVIDIA kernel module are of different versions: "
                       "restart the machine after the update of the driver");
    case cudaErrorSystemNotReady:
        return err_set(err, ERR_MISSING,
                       "the NVIDIA driver is not ready: is nvidia-fabricmanager running?");
    case cudaErrorCompatNotSupportedOnDevice:
        return err_set(err, ERR_MISSING,
                       "CUDA's forward compatibility libraries do not support this GPU: take them "
                       "out of LD_LIBRARY_PATH, or update the driver");
    default:
        return err_set(err, ERR_MISSING, "the NVIDIA driver does not start: %s (%s)",
                       cudaGetErrorString(status), cudaGetErrorName(status));
    }
}

static void format_uuid(const cudaUUID_t *uuid, char *ret, size_t capacity)
{
    const unsigned char *b = (const unsigned char *)uuid->bytes;

    snprintf(ret, capacity,
             "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
}

int cuda_device_describe(int ordinal, struct cuda_device *ret, struct err *err)
{
    struct cudaDeviceProp p;
    cudaError_t status;

    memset(&p, 0, sizeof(p));
    status = cudaGetDeviceProperties(&p, ordinal);
    if (status != cudaSuccess)
        return cuda_status(err, status, "asking for a GPU's properties");
    *ret = (struct cuda_device){
        .ordinal = (uint32_t)ordinal,
        .major = p.major,
        .minor = p.minor,
        .memory_total = p.totalGlobalMem,
        .processors = (uint32_t)p.multiProcessorCount,
        .have = precisions_of_gpu(p.major, p.minor),
    };
    snprintf(ret->name, sizeof(ret->name), "%.63s", p.name);
    format_uuid(&p.uuid, ret->uuid, sizeof(ret->uuid));
    snprintf(ret->place, sizeof(ret->place), "%04x:%02x:%02x.0", (unsigned)p.pciDomainID & 0xffff,
             (unsigned)p.pciBusID & 0xff, (unsigned)p.pciDeviceID & 0xff);
    return 0;
}

static int device_count(int *ret, struct err *err)
{
    cudaError_t status = cudaGetDeviceCount(ret);

    if (status != cudaSuccess)
        return no_start(status, err);
    return *ret > 0 ? 0 : no_device(err);
}

/* 0 where it cannot be asked: a GPU that another program has for itself, or that is lost. */
uint64_t cuda_free_memory(uint32_t ordinal)
{
    size_t free_bytes = 0, total = 0;

    if (cudaSetDevice((int)ordinal) != cudaSuccess ||
        cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) {
        (void)cudaGetLastError();
        return 0;
    }
    return free_bytes;
}

int cuda_devices(struct cuda_device *ret, uint32_t capacity, uint32_t *n, struct err *err)
{
    struct cuda_device d, old = {0};
    uint32_t n_found = 0;
    int count, rc;

    rc = device_count(&count, err);
    if (rc != 0)
        return rc;
    for (int i = 0; i < count; i++) {
        /* One that does not answer must not hide the others. */
        if (cuda_device_describe(i, &d, err) != 0) {
            (void)cudaGetLastError();
            d = (struct cuda_device){.ordinal = (uint32_t)i};
            snprintf(d.trouble, sizeof(d.trouble), "%.199s", err->msg);
        } else if (d.major * 10 + d.minor < CUDA_MIN_SM) {
            old = d;
            continue;
        }
        if (n_found < capacity)
            ret[n_found] = d;
        n_found++;
    }
    *err = (struct err){0};
    if (n_found == 0)
        return err_set(err, ERR_MISSING,
                       "no GPU is new enough: %s has compute capability %d.%d, and 7.5 is wanted",
                       old.name, old.major, old.minor);
    *n = n_found;
    return 0;
}

int cuda_device_find(const char *name, int *ret, struct err *err)
{
    char *end;
    long ordinal = strtol(name, &end, 10);
    struct cuda_device d;
    int count, rc;

    rc = device_count(&count, err);
    if (rc != 0)
        return rc;
    if (*name && *end == '\0') {
        if (ordinal < 0 || ordinal >= count)
            return err_set(err, ERR_MISSING, "there is no GPU %.20s: there are %d", name, count);
        *ret = (int)ordinal;
        return 0;
    }
    for (int i = 0; i < count; i++) {
        if (cuda_device_describe(i, &d, err) != 0) {
            (void)cudaGetLastError();
            continue;
        }
        if (strcmp(d.uuid, name) == 0) {
            *ret = i;
            return 0;
        }
    }
    return err_set(err, ERR_MISSING, "the GPU %.60s is not there (any more)", name);
}
