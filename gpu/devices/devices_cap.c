/* --device-memory: how much of its memory each device may use. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "gpu/devices/devices.h"

#define ENTRY 160

/* What one entry says: a share of a device's memory, or bytes. */
struct amount {
    uint32_t percent;
    uint64_t bytes;
};

static int refuse(const char *entry, const char *why, struct err *err)
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

static uint32_t sharers(const struct devices *picked, const struct device *d)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < picked->count; i++)
        n += strcmp(picked->list[i].name, d->name) == 0;
    return n;
}

static int cap(const struct devices *picked, struct device *d, const struct amount *a,
               const char *entry, struct err *err)
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
        return refuse(entry, why, err);
    bytes /= sharers(picked, d);
    d->memory_cap = bytes > 0 ? bytes : 1;
    return 0;
}

/* Of all that no other entry names. */
static int cap_rest(struct devices *picked, const bool *named, const struct amount *a,
                    const char *entry, struct err *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < picked->count && rc == 0; i++)
        if (!named[i])
            rc = cap(picked, &picked->list[i], a, entry, err);
    return rc;
}

static int cap_named(struct devices *picked, const char *name, const struct amount *a,
                     const char *entry, bool *named, struct err *err)
{
    struct devices *found = malloc(sizeof(*found));
    int rc = found ? devices_pick(picked, name, ALLOW_CPU_ALWAYS, found, err)
                   : err_set(err, ERR_NOMEM, "no memory for the devices");

    if (rc == 0 && strcmp(name, "auto") == 0)
        rc = refuse(entry, "names no device", err);
    else if (rc != 0)
        err_prefix(err, "--device-memory");
    for (uint32_t i = 0; i < picked->count && rc == 0; i++) {
        if (strcmp(picked->list[i].name, found->list[0].name) != 0)
            continue;
        rc = named[i] ? refuse(entry, "is about a device that another entry names, too", err)
                      : cap(picked, &picked->list[i], a, entry, err);
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
        return refuse(entry, "is no share or size such as 80% or 20G, or cuda:0=20G", err);
    if (sign) {
        snprintf(name, sizeof(name), "%.*s", (int)(sign - entry), entry);
        return name[0] ? cap_named(picked, name, &a, entry, named, err)
                       : refuse(entry, "names no device", err);
    }
    if (rest->percent || rest->bytes)
        return refuse(entry, "is the second one for all devices", err);
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
            return refuse(s, "is too long", err);
        snprintf(entry, sizeof(entry), "%.*s", (int)strcspn(s, ","), s);
        rc = take_entry(picked, entry, named, &rest, rest_entry, err);
    }
    if (rc == 0 && (rest.percent || rest.bytes))
        rc = cap_rest(picked, named, &rest, rest_entry, err);
    return rc;
}
