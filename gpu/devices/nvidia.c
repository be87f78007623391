#include "gpu/devices/nvidia.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"

#define PCI_VENDOR 0x10deu
#define PCI_DISPLAY 0x03u /* base class: VGA and 3D controllers */

static bool rooted_path_exists(const char *root, const char *path)
{
    char full[PATH_MAX];

    return snprintf(full, sizeof(full), "%s%s", root, path) < PATH_MAX && access(full, F_OK) == 0;
}

/* Calls fn for each entry of a folder and counts those that it takes. */
static uint32_t count_entries(const char *folder, bool (*fn)(const char *folder, const char *name))
{
    DIR *dir = opendir(folder);
    const struct dirent *e;
    uint32_t n = 0;

    if (!dir)
        return 0;
    while ((e = readdir(dir)))
        n += e->d_name[0] != '.' && fn(folder, e->d_name);
    closedir(dir);
    return n;
}

static bool accept_any_name(const char *folder, const char *name)
{
    (void)folder;
    (void)name;
    return true;
}

bool nvidia_uuid_fits(const char *s)
{
    size_t n = strlen(s);

    for (const char *p = s; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-')
            return false;
    return n >= 5 && n < 48;
}

static void copy_printable(const char *s, char *ret, size_t cap)
{
    char *shown = utf8_display(s, strlen(s));

    utf8_copy(ret, cap, shown ? shown : "");
    free(shown);
}

/* "0x10de" of a file in /sys; 0 when it cannot be read. */
static unsigned long read_hex(const char *folder, const char *device, const char *what)
{
    char path[PATH_MAX], text[32] = "";
    unsigned long ret = 0;
    FILE *f;

    if (snprintf(path, sizeof(path), "%s/%s/%s", folder, device, what) >= PATH_MAX)
        return 0;
    f = fopen(path, "re");
    if (!f)
        return 0;
    if (fgets(text, sizeof(text), f))
        ret = strtoul(text, NULL, 16);
    fclose(f);
    return ret;
}

static bool is_gpu(const char *folder, const char *name)
{
    return read_hex(folder, name, "vendor") == PCI_VENDOR &&
           read_hex(folder, name, "class") >> 16 == PCI_DISPLAY;
}

/* "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue Sep ...": the first word that
 * is a number with a point. */
static void read_version(const char *path, char *ret, size_t cap)
{
    char line[300], *word, *save = NULL;
    FILE *f = fopen(path, "re");

    if (!f)
        return;
    word = fgets(line, sizeof(line), f) ? strtok_r(line, " \t\n", &save) : NULL;
    while (word && (!isdigit((unsigned char)word[0]) || word[strspn(word, "0123456789")] != '.'))
        word = strtok_r(NULL, " \t\n", &save);
    if (word && word[strspn(word, "0123456789.")] == 0)
        snprintf(ret, cap, "%s", word);
    fclose(f);
}

/* "GPU UUID: 	 GPU-8f3c...", of which only what can be a UUID is believed: one that the driver
 * does not know yet is "GPU-????????-...". */
static void read_card(const char *folder, const char *place, struct nvidia_card *ret)
{
    char path[PATH_MAX], line[300];
    FILE *f;

    *ret = (struct nvidia_card){0};
    utf8_copy(ret->place, sizeof(ret->place), place);
    if (snprintf(path, sizeof(path), "%s/%s/information", folder, place) >= PATH_MAX)
        return;
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f)) {
        char *value = strchr(line, ':');

        if (!value)
            continue;
        value += 1 + strspn(value + 1, " \t");
        value[strcspn(value, "\n")] = 0;
        if (strncmp(line, "GPU UUID:", 9) == 0 && nvidia_uuid_fits(value))
            snprintf(ret->uuid, sizeof(ret->uuid), "%.47s", value);
        else if (strncmp(line, "Model:", 6) == 0)
            copy_printable(value, ret->model, sizeof(ret->model));
    }
    if (f)
        fclose(f);
}

static int by_place(const void *a, const void *b)
{
    return strcmp(((const struct nvidia_card *)a)->place, ((const struct nvidia_card *)b)->place);
}

static void read_cards(const char *folder, struct nvidia *ret)
{
    DIR *dir = opendir(folder);
    const struct dirent *e;

    while (dir && ret->cards < NVIDIA_CARDS && (e = readdir(dir)))
        if (e->d_name[0] != '.')
            read_card(folder, e->d_name, &ret->card[ret->cards++]);
    if (dir)
        closedir(dir);
    qsort(ret->card, ret->cards, sizeof(ret->card[0]), by_place);
}

void nvidia_look(const char *root, struct nvidia *ret)
{
    char path[PATH_MAX];

    *ret = (struct nvidia){0};
    if (strlen(root) > PATH_MAX / 2)
        return;
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/version", root);
    read_version(path, ret->version, sizeof(ret->version));
    /* Windows' Linux and the Tegra boards have drivers of other names, and nothing on the bus. */
    ret->driver = access(path, F_OK) == 0 || rooted_path_exists(root, "/dev/nvidiactl") ||
                  (rooted_path_exists(root, "/dev/dxg") &&
                   rooted_path_exists(root, "/usr/lib/wsl/lib/libcuda.so.1")) ||
                  rooted_path_exists(root, "/dev/nvhost-ctrl-gpu");
    snprintf(path, sizeof(path), "%s/proc/driver/nvidia/gpus", root);
    ret->gpus = count_entries(path, accept_any_name);
    read_cards(path, ret);
    if (ret->gpus == 0) {
        snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
        ret->gpus = count_entries(path, is_gpu);
    }
    ret->present = ret->driver || ret->gpus > 0;
}
