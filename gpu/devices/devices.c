#include "gpu/devices/devices.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/numa.h"
#include "base/utf8.h"
#include "gpu/backend.h"
#include "gpu/devices/cuda_load.h"
#include "gpu/devices/nvidia.h"
#include "gpu/devices/probe.h"
#include "gpu/devices/sim.h"
#include "gpu/precision.h"

/* Another root for what the system says: so that tests may have a GPU, or none. */
#define ROOT_ENV "NIGHTSHIFT_SYSTEM_ROOT"
#define SIM_ENV "NIGHTSHIFT_DEVICES"

static const char *read_env_or_empty(const char *name)
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

/* Finds the GPUs that CUDA_VISIBLE_DEVICES hides, and whether that was meant. The run time reads
 * its entries up to the first that names no GPU. */
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
        if (read_env_or_empty(CUDA_MODULE_ENV)[0] != 0)
            d->expects_gpu = true;
        no_module(d, &(struct nvidia){.present = d->expects_gpu}, &why);
        return 0;
    }
    if (!hw->present && read_env_or_empty(CUDA_MODULE_ENV)[0] == 0)
        return 0; /* nothing to look at, and libraries of a gigabyte to load for it */
    if (probe_run(o, hw, d, err) != 0)
        return err->code;
    for (uint32_t i = 0; i < d->count; i++)
        snprintf(d->list[i].driver, sizeof(d->list[i].driver), "%s", hw->version);
    d->expects_gpu |= d->count > 0;
    if (d->count > 0 || (hw->driver && !any_broken(d))) /* else it is not the list's doing */
        find_hidden(d, hw, d->count);
    return 0;
}

static int find_machine_devices(const struct probe_options *o, struct devices *ret, struct err *err)
{
    struct nvidia hw;
    int rc = 0;

    memset(ret, 0, sizeof(*ret));
    if (strcmp(read_env_or_empty(SIM_ENV), "cpu") == 0) {
        err_set(&ret->no_gpu, ERR_MISSING, "%s=cpu leaves GPUs out", SIM_ENV);
    } else if (read_env_or_empty(SIM_ENV)[0] != 0) {
        rc = sim_devices_parse(read_env_or_empty(SIM_ENV), ret->list, DEVICES_MAX - 1, &ret->count,
                               err);
    } else {
        nvidia_look(read_env_or_empty(ROOT_ENV), &hw);
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
    return find_machine_devices(&(struct probe_options){.program = program}, ret, err);
}

int devices_examine(const char *program, const volatile sig_atomic_t *stop, struct devices *ret,
                    struct err *err)
{
    return find_machine_devices(
        &(struct probe_options){.program = program, .thorough = true, .stop = stop}, ret, err);
}

/* ---------------------------------------------------------------------------------- opening */

static int open_cuda(const char *id, const struct device_options *o, struct backend **ret,
                     struct err *err)
{
    const struct cuda_options options = {.cap = o->cap, .deterministic = o->deterministic};
    const struct cuda_module *m;
    char path[PATH_MAX];

    if (cuda_module_find(path, sizeof(path), err) != 0 || cuda_module_load(path, &m, err) != 0)
        return err->code;
    return m->open(id, &options, ret, err);
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

/* ----------------------------------------------------------------------------------- nodes */

static int node_of(const struct device *d)
{
    return d->kind == DEVICE_CUDA && d->place[0] != 0
               ? numa_node_of_card(read_env_or_empty(ROOT_ENV), d->place)
               : NUMA_NONE;
}

int device_node(const struct devices *picked, uint32_t i)
{
    const uint64_t nodes = numa_nodes(read_env_or_empty(ROOT_ENV));
    uint64_t used = 0;

    if ((nodes & (nodes - 1)) == 0) /* one, or none that is known */
        return NUMA_NONE;
    for (uint32_t k = 0; k < picked->count; k++)
        if (node_of(&picked->list[k]) != NUMA_NONE)
            used |= UINT64_C(1) << node_of(&picked->list[k]);
    return (used & nodes) == nodes ? node_of(&picked->list[i]) : NUMA_NONE;
}

uint32_t device_threads(const struct devices *picked, uint32_t i)
{
    const int node = device_node(picked, i);
    uint32_t sharers = 0, processors, threads = cpu_threads(picked->count);

    if (node == NUMA_NONE)
        return threads;
    for (uint32_t k = 0; k < picked->count; k++)
        sharers += device_node(picked, k) == node;
    processors = numa_processors(read_env_or_empty(ROOT_ENV), node) / (sharers ? sharers : 1);
    return processors > 0 && processors < threads ? processors : threads;
}

bool device_bind_node(int node) { return numa_bind(read_env_or_empty(ROOT_ENV), node); }

/* ---- --devices: from what people type to devices that are there */

static bool is_auto(const char *list) { return !list || list[0] == 0 || strcmp(list, "auto") == 0; }

/* The next entry without blanks around it, cut to `cap`; NULL behind the last. */
static const char *next_entry(const char *s, char *ret, size_t cap)
{
    size_t n;

    if (!s)
        return NULL;
    s += strspn(s, " \t");
    n = strcspn(s, ",");
    snprintf(ret, cap, "%.*s", (int)n, s);
    while (ret[0] != 0 && isspace((unsigned char)ret[strlen(ret) - 1]))
        ret[strlen(ret) - 1] = 0;
    return s + n;
}

bool devices_list_wants_gpus(const char *list)
{
    char entry[80];

    if (is_auto(list))
        return true;
    while ((list = next_entry(list, entry, sizeof(entry)))) {
        if (strcmp(entry, "cpu") != 0)
            return true;
        list = *list == ',' ? list + 1 : NULL;
    }
    return false;
}

/* "cuda:0 (NVIDIA H200), cpu": what there is. */
static void name_all(const struct devices *all, char *ret, size_t cap)
{
    size_t n = 0;

    ret[0] = 0;
    for (uint32_t i = 0; i < all->count && n < cap; i++) {
        const struct device *d = &all->list[i];
        bool plain = d->kind == DEVICE_CPU || d->model[0] == 0;

        n += (size_t)snprintf(ret + n, cap - n, "%s%s%s%s%s", i > 0 ? ", " : "", d->label,
                              plain ? "" : " (", plain ? "" : d->model, plain ? "" : ")");
    }
}

static int reject_device_entry(const struct devices *all, const char *entry, struct err *err)
{
    char known[300], *shown = utf8_display(entry, strlen(entry));

    name_all(all, known, sizeof(known));
    if (strncmp(entry, "cuda:", 5) == 0 && all->no_gpu.code != 0)
        err_set(err, all->expects_gpu ? ERR_DEVICE : ERR_USAGE,
                "'%.60s' cannot be used: %.280s; there is: %.120s", shown ? shown : "?",
                all->no_gpu.msg, known);
    else
        err_set(err, ERR_USAGE, "there is no device '%.60s'; there is: %s, or auto",
                shown ? shown : "?", known);
    free(shown);
    return err->code;
}

/* By label or whole name; for UUIDs a beginning will do when only one has it. */
static int match_device(const struct devices *all, const char *entry, const struct device **ret,
                        struct err *err)
{
    const struct device *found = NULL;
    bool uuid = strncmp(entry, "cuda:GPU-", 9) == 0 || strncmp(entry, "cuda:MIG-", 9) == 0;

    for (uint32_t i = 0; i < all->count; i++) {
        const struct device *d = &all->list[i];

        if (strcmp(d->label, entry) == 0 || strcmp(d->name, entry) == 0) {
            *ret = d;
            return 0;
        }
        if (!uuid || strncmp(d->name, entry, strlen(entry)) != 0)
            continue;
        if (found)
            return err_set(err, ERR_USAGE, "'%.60s' could be %s or %s: write more of it", entry,
                           found->label, d->label);
        found = d;
    }
    if (!found)
        return reject_device_entry(all, entry, err);
    *ret = found;
    return 0;
}

static int add_picked_device(const struct devices *all, const struct device *d, struct devices *ret,
                             struct err *err)
{
    if (d->unusable)
        return err_set(err, ERR_DEVICE, "%s (%s) cannot be used: %.380s", d->label, d->model,
                       d->trouble[0] ? d->trouble : all->no_gpu.msg);
    for (uint32_t i = 0; i < ret->count; i++)
        if (d->kind != DEVICE_CPU && strcmp(ret->list[i].name, d->name) == 0)
            return err_set(err, ERR_USAGE, "%s is named twice: a GPU has one worker", d->label);
    if (ret->count == DEVICES_MAX)
        return err_set(err, ERR_USAGE, "more than %u devices", DEVICES_MAX);
    ret->list[ret->count++] = *d;
    return 0;
}

static int pick_auto(const struct devices *all, enum allow_cpu allow, struct devices *ret,
                     struct err *err)
{
    const struct device *cpu = NULL;
    int rc = 0;

    for (uint32_t i = 0; i < all->count && rc == 0; i++)
        if (all->list[i].kind == DEVICE_CPU)
            cpu = &all->list[i];
        else if (!all->list[i].unusable)
            rc = add_picked_device(all, &all->list[i], ret, err);
    if (rc != 0 || ret->count > 0)
        return rc;
    if (allow == ALLOW_CPU_NEVER)
        return err_set(err, ERR_DEVICE, "no GPU can be used, and --no-allow-cpu was given: %.390s",
                       all->no_gpu.msg);
    if (allow == ALLOW_CPU_WITHOUT_HARDWARE && all->expects_gpu)
        return err_set(err, ERR_DEVICE,
                       "no GPU can be used: %.400s; --allow-cpu lets the processor work",
                       all->no_gpu.msg);
    return cpu ? add_picked_device(all, cpu, ret, err)
               : err_set(err, ERR_DEVICE, "there is no device");
}

/* Devices of `ret` alone; the rest of it says what is known of all. */
static void init_picked_devices(const struct devices *all, struct devices *ret)
{
    *ret = *all;
    memset(ret->list, 0, sizeof(ret->list));
    ret->count = 0;
}

int devices_pick(const struct devices *all, const char *list, enum allow_cpu allow,
                 struct devices *ret, struct err *err)
{
    const struct device *d = all->list;
    char entry[80];
    int rc = 0;

    init_picked_devices(all, ret);
    if (is_auto(list))
        return pick_auto(all, allow, ret, err);
    while (rc == 0 && (list = next_entry(list, entry, sizeof(entry)))) {
        if (entry[0] != 0)
            rc = match_device(all, entry, &d, err);
        if (rc == 0 && entry[0] != 0)
            rc = add_picked_device(all, d, ret, err);
        list = *list == ',' ? list + 1 : NULL;
    }
    if (rc == 0 && ret->count == 0)
        rc = err_set(err, ERR_USAGE, "no device is named");
    return rc;
}

/* ---- --device-memory: how much of its memory each device may use */

#define ENTRY 160

/* The amount in one entry: a share of a device's memory, or bytes. */
struct amount {
    uint32_t percent;
    uint64_t bytes;
};

static int refuse_cap(const char *entry, const char *why, struct err *err)
{
    char *shown = utf8_display(entry, strlen(entry));

    err_set(err, ERR_USAGE, "--device-memory: '%.80s' %s", shown ? shown : "?", why);
    free(shown);
    return err->code;
}

/* 0: no unit of ours, or more bytes than there are. */
static uint64_t times_unit(uint64_t n, const char *unit)
{
    static const struct {
        const char *names[2];
        const char *decimal;
        int shift;
        uint64_t thousands;
    } units[] = {{{"M", "MiB"}, "MB", 20, 1000000},
                 {{"G", "GiB"}, "GB", 30, 1000000000},
                 {{"T", "TiB"}, "TB", 40, 1000000000000}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i].names[0]) == 0 || strcmp(unit, units[i].names[1]) == 0)
            return n <= UINT64_MAX >> units[i].shift ? n << units[i].shift : 0;
        if (strcmp(unit, units[i].decimal) == 0)
            return n <= UINT64_MAX / units[i].thousands ? n * units[i].thousands : 0;
    }
    return 0;
}

static bool parse_amount(const char *s, struct amount *ret)
{
    uint64_t n = 0;
    const char *at = s;

    *ret = (struct amount){0};
    for (; *at >= '0' && *at <= '9' && n < UINT32_MAX; at++)
        n = n * 10 + (uint64_t)(*at - '0');
    if (at == s || n == 0)
        return false;
    if (strcmp(at, "%") == 0) {
        ret->percent = (uint32_t)(n <= 100 ? n : 0);
        return n <= 100;
    }
    ret->bytes = times_unit(n, at);
    return ret->bytes > 0;
}

static uint32_t count_device_sharers(const struct devices *picked, const struct device *d)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < picked->count; i++)
        n += strcmp(picked->list[i].name, d->name) == 0;
    return n;
}

static int limit_device_memory(const struct devices *picked, struct device *d,
                               const struct amount *a, const char *entry, struct err *err)
{
    uint64_t bytes = a->percent ? d->memory_total / 100 * a->percent : a->bytes;
    char why[120];

    if (d->memory_total == 0)
        snprintf(why, sizeof(why), "cannot hold: how much memory %s has is not known", d->label);
    else if (bytes > d->memory_total)
        snprintf(why, sizeof(why), "is more than %s has (%.1f GiB)", d->label,
                 (double)d->memory_total / (1 << 30));
    else
        why[0] = 0;
    if (why[0])
        return refuse_cap(entry, why, err);
    bytes /= count_device_sharers(picked, d);
    d->memory_limit = bytes > 0 ? bytes : 1;
    return 0;
}

/* Caps all devices that no other entry names. */
static int cap_rest(struct devices *picked, const bool *named, const struct amount *a,
                    const char *entry, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < picked->count && rc == 0; i++)
        if (!named[i])
            rc = limit_device_memory(picked, &picked->list[i], a, entry, err);
    return rc;
}

static int cap_named(struct devices *picked, const char *name, const struct amount *a,
                     const char *entry, bool *named, struct err *err)
{
    struct devices *found = malloc(sizeof(*found));
    int rc = found ? devices_pick(picked, name, ALLOW_CPU_ALWAYS, found, err)
                   : err_set(err, ERR_NOMEM, "no memory for the devices");

    if (rc == 0 && strcmp(name, "auto") == 0)
        rc = refuse_cap(entry, "names no device", err);
    else if (rc != 0)
        err_prefix(err, "--device-memory");
    for (uint32_t i = 0; i < picked->count && rc == 0; i++) {
        if (strcmp(picked->list[i].name, found->list[0].name) != 0)
            continue;
        rc = named[i] ? refuse_cap(entry, "is about a device that another entry names, too", err)
                      : limit_device_memory(picked, &picked->list[i], a, entry, err);
        named[i] = true;
    }
    free(found);
    return rc;
}

static int take_entry(struct devices *picked, const char *entry, bool *named, struct amount *rest,
                      char rest_entry[ENTRY], struct err *err)
{
    const char *sign = strrchr(entry, '=');
    char name[ENTRY];
    struct amount a;

    if (!parse_amount(sign ? sign + 1 : entry, &a))
        return refuse_cap(entry, "is no share or size such as 80% or 20G, or cuda:0=20G", err);
    if (sign) {
        snprintf(name, sizeof(name), "%.*s", (int)(sign - entry), entry);
        return name[0] ? cap_named(picked, name, &a, entry, named, err)
                       : refuse_cap(entry, "names no device", err);
    }
    if (rest->percent || rest->bytes)
        return refuse_cap(entry, "is the second one for all devices", err);
    *rest = a;
    snprintf(rest_entry, ENTRY, "%s", entry);
    return 0;
}

int devices_cap(struct devices *picked, const char *list, struct err *err)
{
    bool named[DEVICES_MAX] = {0};
    char entry[ENTRY], rest_entry[ENTRY] = "";
    struct amount rest = {0};
    int rc = 0;

    if (!list || !list[0])
        return 0;
    for (const char *s = list; s && rc == 0; s = s[strcspn(s, ",")] ? strchr(s, ',') + 1 : NULL) {
        if (strcspn(s, ",") >= sizeof(entry))
            return refuse_cap(s, "is too long", err);
        snprintf(entry, sizeof(entry), "%.*s", (int)strcspn(s, ","), s);
        rc = take_entry(picked, entry, named, &rest, rest_entry, err);
    }
    if (rc == 0 && (rest.percent || rest.bytes))
        rc = cap_rest(picked, named, &rest, rest_entry, err);
    return rc;
}
