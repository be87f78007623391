/* --devices: from what people type to devices that are there. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "gpu/devices/devices.h"

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

static int refuse(const struct devices *all, const char *entry, struct err *err)
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
static int match(const struct devices *all, const char *entry, const struct device **ret,
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
        return refuse(all, entry, err);
    *ret = found;
    return 0;
}

static int add(const struct devices *all, const struct device *d, struct devices *ret,
               struct err *err)
{
    if (d->unusable)
        return err_set(err, ERR_DEVICE, "%s (%s) cannot be used: %.380s", d->label, d->model,
                       all->no_gpu.msg);
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
            rc = add(all, &all->list[i], ret, err);
    if (rc != 0 || ret->count > 0)
        return rc;
    if (allow == ALLOW_CPU_NEVER)
        return err_set(err, ERR_DEVICE, "no GPU can be used, and --no-allow-cpu was given: %.390s",
                       all->no_gpu.msg);
    if (allow == ALLOW_CPU_WITHOUT_HARDWARE && all->expects_gpu)
        return err_set(err, ERR_DEVICE,
                       "no GPU can be used: %.400s; --allow-cpu lets the processor work",
                       all->no_gpu.msg);
    return cpu ? add(all, cpu, ret, err) : err_set(err, ERR_DEVICE, "there is no device");
}

/* Devices of `ret` alone; the rest of it says what is known of all. */
static void begin(const struct devices *all, struct devices *ret)
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

    begin(all, ret);
    if (is_auto(list))
        return pick_auto(all, allow, ret, err);
    while (rc == 0 && (list = next_entry(list, entry, sizeof(entry)))) {
        if (entry[0] != 0)
            rc = match(all, entry, &d, err);
        if (rc == 0 && entry[0] != 0)
            rc = add(all, d, ret, err);
        list = *list == ',' ? list + 1 : NULL;
    }
    if (rc == 0 && ret->count == 0)
        rc = err_set(err, ERR_USAGE, "no device is named");
    return rc;
}
