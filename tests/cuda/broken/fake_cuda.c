/* A driver's library, libcuda.so.1, that does not work: every call gives FAKE_CUDA_ERROR (of the
 * environment, a CUresult), its version is FAKE_CUDA_VERSION. The CUDA run time looks its functions
 * up through cuGetProcAddress. With FAKE_CUDA_ERROR=0 it starts, and has no devices. */
#include <stdlib.h>
#include <string.h>

static int from_environment(const char *name, int otherwise)
{
    const char *s = getenv(name);

    return s ? atoi(s) : otherwise;
}

int cuInit(unsigned flags);
int cuInit(unsigned flags)
{
    (void)flags;
    return from_environment("FAKE_CUDA_ERROR", 999);
}

int cuDriverGetVersion(int *ret);
int cuDriverGetVersion(int *ret)
{
    *ret = from_environment("FAKE_CUDA_VERSION", 13000);
    return 0;
}

int cuDeviceGetCount(int *ret);
int cuDeviceGetCount(int *ret)
{
    *ret = 0;
    return from_environment("FAKE_CUDA_ERROR", 999);
}

static int anything(void)
{
    int error = from_environment("FAKE_CUDA_ERROR", 999);

    return error ? error : 100;
}

typedef void (*function)(void);

/* CUresult cuGetProcAddress(symbol, pfn, version, flags[, status]): the later form has one argument
 * more, which this convention lets us ignore. */
int cuGetProcAddress(const char *symbol, function *ret, int version, unsigned long long flags);
int cuGetProcAddress(const char *symbol, function *ret, int version, unsigned long long flags)
{
    (void)version;
    (void)flags;
    if (strcmp(symbol, "cuInit") == 0)
        *ret = (function)cuInit;
    else if (strcmp(symbol, "cuDriverGetVersion") == 0)
        *ret = (function)cuDriverGetVersion;
    else if (strcmp(symbol, "cuDeviceGetCount") == 0)
        *ret = (function)cuDeviceGetCount;
    else if (strncmp(symbol, "cuGetProcAddress", 16) == 0)
        *ret = (function)cuGetProcAddress;
    else
        *ret = (function)anything;
    return 0;
}

int cuGetProcAddress_v2(const char *symbol, function *ret, int version, unsigned long long flags,
                        int *status);
int cuGetProcAddress_v2(const char *symbol, function *ret, int version, unsigned long long flags,
                        int *status)
{
    if (status)
        *status = 0;
    return cuGetProcAddress(symbol, ret, version, flags);
}
