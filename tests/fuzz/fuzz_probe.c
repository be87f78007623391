/* What `nightshift probe` may answer. Whatever it is: devices have names that may be arguments and
 * keys, texts are printable, and an answer that is not whole leaves no device to be used. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "gpu/devices/probe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct devices all;

static void printable(const char *s, size_t cap)
{
    if (!memchr(s, 0, cap) || !utf8_valid(s, strlen(s)))
        abort();
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 127)
            abort();
}

static void check_device(const struct device *d)
{
    printable(d->model, sizeof(d->model));
    if (strncmp(d->name, "cuda:", 5) != 0 || d->memory_free > d->memory_total)
        abort();
    for (const char *s = d->name + 5; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '-')
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    memset(&all, 0, sizeof(all));
    probe_read((const char *)data, size, "", "", &all);
    if (all.count >= DEVICES_MAX || all.finding_count > DEVICES_FINDINGS ||
        (all.count == 0 && all.no_gpu.code == 0))
        abort();
    for (uint32_t i = 0; i < all.count; i++) {
        check_device(&all.list[i]);
        if (!all.list[i].unusable && data[size - 1] != '\n') /* cut off */
            abort();
    }
    for (uint32_t i = 0; i < all.finding_count; i++) {
        const struct device_finding *f = &all.findings[i];

        printable(f->name, sizeof(f->name));
        printable(f->found, sizeof(f->found));
        printable(f->wanted, sizeof(f->wanted));
        printable(f->todo, sizeof(f->todo));
    }
    return 0;
}
