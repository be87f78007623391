#include "gpu/devices/devices.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/utf8.h"
#include "gpu/backend.h"
#include "gpu/devices/cuda_load.h"
#include "gpu/devices/nvidia.h"
#include "gpu/precision.h"
#include "gpu/devices/probe.h"
#include "gpu/devices/sim.h"

/* Another root for what the system says: so that tests may have a GPU, or none. */
#define ROOT_ENV "NIGHTSHIFT_SYSTEM_ROOT"
#define SIM_ENV "NIGHTSHIFT_DEVICES"

static const char *env(const char *name)
{
    const char *s = getenv(name);

    return s ? s : "";
}

/* ---------------------------------------------------------------------------------- finding */

static void add_processor(struct devices *d)
{
    struct device *c = &d->list[d->count++];
    struct backend_info info = {0};

    backend_host_info(&info);
    *c = (struct device){.kind = DEVICE_CPU,
                         .memory_total = info.memory_total,
                         .memory_free = info.memory_free,
                         .precisions = info.have,
                         .speed = 1};
    snprintf(c->name, sizeof(c->name), "cpu");
    snprintf(c->label, sizeof(c->label), "cpu");
    snprintf(c->id, sizeof(c->id), "cpu");
    utf8_copy(c->model, sizeof(c->model), info.name);
}

void devices_processor(struct devices *ret)
{
    memset(ret, 0, sizeof(*ret));
    err_set(&ret->no_gpu, ERR_MISSING, "no GPU was looked for");
    add_processor(ret);
}

/* The i-th entry of a list with commas, for a sentence. */
static void list_entry(const char *list, uint32_t i, char *ret, size_t cap)
{
    while (i > 0 && strchr(list, ',')) {
        list = strchr(list, ',') + 1;
        i--;
    }
    snprintf(ret, cap, "%.*s", (int)strcspn(list, ","), list);
}

/* What CUDA_VISIBLE_DEVICES hides, and whether that was meant. The run time takes its entries up
 * to the first that names no GPU. */
static void find_hidden(struct devices *d, const struct nvidia *hw, uint32_t seen)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    uint32_t entries = 0;
    char found[200], entry[60], wanted[200];

    if (!list)
        return;
    for (const char *s = list; *s != 0; s += strcspn(s, ","), s += *s == ',')
        entries++;
    if (hw->gpus > 0)
        snprintf(found, sizeof(found),
                 "CUDA_VISIBLE_DEVICES=%.80s shows %u of this machine's %u GPU%s", list, seen,
                 hw->gpus, hw->gpus == 1 ? "" : "s");
    else
        snprintf(found, sizeof(found), "CUDA_VISIBLE_DEVICES=%.80s shows %u GPU%s", list, seen,
                 seen == 1 ? "" : "s");
    if (seen >= entries && entries > 0) {
        devices_add_finding(d, FINDING_WELL, "CUDA_VISIBLE", found, "", "");
        return;
    }
    list_entry(list, seen, entry, sizeof(entry));
    snprintf(wanted, sizeof(wanted),
             entries == 0 ? "a list of GPUs: this one is empty and hides them all"
                          : "entries that name GPUs: the list ends before '%s'",
             entry);
    devices_add_finding(d, FINDING_WARNING, "CUDA_VISIBLE", found, wanted,
                        "correct or unset CUDA_VISIBLE_DEVICES; `nvidia-smi -L` lists the GPUs");
}

static bool any_broken(const struct devices *d)
{
    for (uint32_t i = 0; i < d->finding_count; i++)
        if (d->findings[i].state == FINDING_BROKEN)
            return true;
    return false;
}

static void no_module(struct devices *d, const struct nvidia *hw, const struct err *why)
{
    if (!hw->present)
        return;
    err_set(&d->no_gpu, ERR_MISSING, "%s", why->msg);
    devices_add_finding(d, FINDING_BROKEN, "CUDA module", why->msg,
                        "the module that lets this program use NVIDIA GPUs",
                        "install the package with CUDA, or build with -DNIGHTSHIFT_CUDA=ON; or "
                        "leave the GPUs out: nightshift run --devices cpu");
}

static int find_cuda(const struct probe_options *o, const struct nvidia *hw, struct devices *d,
                     struct err *err)
{
    char path[PATH_MAX];
    struct err why = {0};

    if (cuda_module_find(path, sizeof(path), &why) != 0) {
        /* One that was named and is not there is a fault on any machine. */
        if (env(CUDA_MODULE_ENV)[0] != 0)
            d->expects_gpu = true;
        no_module(d, &(struct nvidia){.present = d->expects_gpu}, &why);
        return 0;
    }
    if (!hw->present && env(CUDA_MODULE_ENV)[0] == 0)
        return 0; /* nothing to look at, and libraries of a gigabyte to load for it */
    if (probe_run(o, d, err) != 0)
        return err->code;
    for (uint32_t i = 0; i < d->count; i++)
        snprintf(d->list[i].driver, sizeof(d->list[i].driver), "%s", hw->version);
    d->expects_gpu |= d->count > 0;
    if (d->count > 0 || (hw->driver && !any_broken(d))) /* else it is not the list's doing */
        find_hidden(d, hw, d->count);
    return 0;
}

static int find(const struct probe_options *o, struct devices *ret, struct err *err)
{
    struct nvidia hw;
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    if (strcmp(env(SIM_ENV), "cpu") == 0) {
        err_set(&ret->no_gpu, ERR_MISSING, "%s=cpu leaves GPUs out", SIM_ENV);
    } else if (env(SIM_ENV)[0] != 0) {
        rc = sim_devices_parse(env(SIM_ENV), ret->list, DEVICES_MAX - 1, &ret->count, err);
    } else {
        nvidia_look(env(ROOT_ENV), &hw);
        ret->expects_gpu = hw.present;
        rc = find_cuda(o, &hw, ret, err);
        if (ret->count == 0 && ret->no_gpu.code == 0)
            err_set(&ret->no_gpu, ERR_MISSING, "this machine has no NVIDIA GPU");
    }
    if (rc == 0)
        add_processor(ret);
    return rc;
}

int devices_find(const char *program, struct devices *ret, struct err *err)
{
    return find(&(struct probe_options){.program = program}, ret, err);
}

int devices_examine(const char *program, const volatile sig_atomic_t *stop, struct devices *ret,
                    struct err *err)
{
    return find(&(struct probe_options){.program = program, .thorough = true, .stop = stop}, ret,
                err);
}

/* ---------------------------------------------------------------------------------- opening */

static int open_cuda(const char *id, const struct device_options *o, struct backend **ret,
                     struct err *err)
{
    const struct cuda_options options = {.cap = o->cap, .deterministic = o->deterministic};
    const struct cuda_module *m;
    char path[PATH_MAX];
    int rc;

    if (cuda_module_find(path, sizeof(path), err) != 0 || cuda_module_load(path, &m, err) != 0)
        return err->code;
    rc = m->open(id, &options, ret, err);
    if (rc == 0)
        (*ret)->info.host_threads = o->threads ? o->threads : cpu_threads(1);
    return rc;
}

int device_open(const char *name, const struct device_options *o, struct backend **ret,
                struct err *err)
{
    int rc;

    if (strcmp(name, "cpu") == 0) {
        rc = backend_open_host(o->threads, ret, err);
        if (rc == 0)
            (*ret)->budget = o->cap; /* without a cap it has no bound of ours */
        return rc;
    }
    if (strncmp(name, "cuda:", 5) == 0 && name[5] != 0)
        return open_cuda(name + 5, o, ret, err);
    if (strncmp(name, "sim:", 4) == 0)
        return backend_open_sim(name, o, ret, err);
    return err_set(err, ERR_USAGE, "there is no device '%.60s'", name);
}
