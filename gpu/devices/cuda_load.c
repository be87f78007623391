#include "gpu/devices/cuda_load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* From the program's folder: unpacked, installed, run from a build. */
static const char *const places[] = {"", "../" NIGHTSHIFT_LIBDIR "/nightshift/",
                                     "../lib/nightshift/", "../lib/"};

static int find_named(const char *named, char *ret, size_t cap, struct err *err)
{
    if (access(named, R_OK) != 0)
        return err_set(err, ERR_MISSING, "%s names '%.300s', which cannot be read", CUDA_MODULE_ENV,
                       named);
    if ((size_t)snprintf(ret, cap, "%s", named) >= cap)
        return err_set(err, ERR_MISSING, "%s is too long a path", CUDA_MODULE_ENV);
    return 0;
}

int cuda_module_find(char *ret, size_t cap, struct err *err)
{
    const char *named = getenv(CUDA_MODULE_ENV);
    char self[PATH_MAX];
    ssize_t n;

    if (named && named[0] != 0)
        return find_named(named, ret, cap, err);
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n < 0 ? 0 : n] = 0;
    if (strrchr(self, '/'))
        strrchr(self, '/')[1] = 0;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if ((size_t)snprintf(ret, cap, "%s%s%s", self, places[i], CUDA_MODULE_FILE) < cap &&
            access(ret, R_OK) == 0)
            return 0;
    return err_set(err, ERR_MISSING, "this installation has no CUDA module (%s)", CUDA_MODULE_FILE);
}

int cuda_module_load(const char *path, const struct cuda_module **ret, struct err *err)
{
    const struct cuda_module *m;
    const char *slash = strchr(path, '/');
    char here[PATH_MAX];
    void *handle;

    /* A name without a slash would be looked for in the system's folders. */
    snprintf(here, sizeof(here), "%s%s", slash ? "" : "./", path);
    handle = dlopen(here, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return err_set(err, ERR_MISSING, "the CUDA module cannot be opened: %.400s", dlerror());
    m = dlsym(handle, CUDA_MODULE_SYMBOL);
    if (!m)
        return err_set(err, ERR_MISSING, "'%.300s' is no CUDA module of nightshift's", path);
    if (m->abi != CUDA_MODULE_ABI)
        return err_set(err, ERR_VERSION,
                       "the CUDA module '%.200s' is of another build (interface %u, this program "
                       "has %u): install the one that came with it",
                       path, m->abi, CUDA_MODULE_ABI);
    *ret = m;
    return 0;
}
