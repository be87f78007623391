#include "gpu/devices/nvidia.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    if (ret->gpus == 0) {
        snprintf(path, sizeof(path), "%s/sys/bus/pci/devices", root);
        ret->gpus = count_entries(path, is_gpu);
    }
    ret->present = ret->driver || ret->gpus > 0;
}
