/* tests/cuda/module.h - the emulated module in a test, and the controls of its emulator. */
#ifndef NIGHTSHIFT_TESTS_CUDA_MODULE_H
#define NIGHTSHIFT_TESTS_CUDA_MODULE_H

#include "tests/common/test.h"

#include <dlfcn.h>

#include "gpu/backend.h"
#include "gpu/cuda_module.h"

struct emulated {
    const struct cuda_module *module;
    void (*inject)(const char *spec);   /* emulator/machine.h: nightshift_emulated_fail */
    int64_t (*count)(const char *what); /* nightshift_emulated_count */
};

static inline void *emulated_symbol(void *handle, const char *name)
{
    void *p = dlsym(handle, name);

    if (!p)
        print_error("%s: %s\n", name, dlerror());
    assert_non_null(p);
    return p;
}

/* From $NIGHTSHIFT_CUDA_MODULE. It stays open. */
static inline struct emulated emulated_open(void)
{
    const char *path = getenv("NIGHTSHIFT_CUDA_MODULE");
    struct emulated e;
    void *handle, *p;

    assert_non_null(path);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        print_error("%s\n", dlerror());
    assert_non_null(handle);
    e.module = emulated_symbol(handle, CUDA_MODULE_SYMBOL);
    assert_int_equal(e.module->abi, CUDA_MODULE_ABI);
    p = emulated_symbol(handle, "nightshift_emulated_fail");
    memcpy(&e.inject, &p, sizeof(p));
    p = emulated_symbol(handle, "nightshift_emulated_count");
    memcpy(&e.count, &p, sizeof(p));
    return e;
}

/* What of CUDA's is held: two such sums that are equal, and nothing was left behind in between. */
static inline int64_t emulated_held(const struct emulated *e)
{
    return e->count("blocks") + e->count("pinned") * 10000 + e->count("events") * 1000000 +
           e->count("streams") * 100000000 + e->count("graphs") * 10000000000;
}

#endif
