#include "base/memory.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS "/sys/fs/cgroup"

/* The beginning of a small file; "" when it cannot be read. */
static void read_text(const char *root, const char *folder, const char *name, char *to, size_t size)
{
    char path[PATH_MAX];
    FILE *f = NULL;

    if (snprintf(path, sizeof(path), "%s%s%s", root, folder, name) < (int)sizeof(path))
        f = fopen(path, "re");
    to[f ? fread(to, 1, size - 1, f) : 0] = '\0';
    if (f)
        fclose(f);
}

/* The number behind a word at the beginning of a line; 0: there is no such line. */
static uint64_t number_behind(const char *text, const char *word)
{
    const size_t len = strlen(word);

    while (text && strncmp(text, word, len) != 0) {
        text = strchr(text, '\n');
        text = text ? text + 1 : NULL;
    }
    return text ? strtoull(text + len, NULL, 10) : 0;
}

/* A group may use the memory left below its limit, and its inactive file cache. */
static void look_at_group(const char *root, const char *group, struct memory *ret)
{
    char text[8192];
    uint64_t limit, used, left;

    read_text(root, group, "/memory.max", text, sizeof(text));
    if (text[0] < '0' || text[0] > '9') /* "max" */
        return;
    limit = strtoull(text, NULL, 10);
    read_text(root, group, "/memory.current", text, sizeof(text));
    used = strtoull(text, NULL, 10);
    read_text(root, group, "/memory.stat", text, sizeof(text));
    left = (limit > used ? limit - used : 0) + number_behind(text, "inactive_file ");
    left = left < limit ? left : limit;
    if (ret->limit == 0 || limit < ret->limit)
        ret->limit = limit;
    if (limit < ret->total)
        ret->total = limit;
    if (left < ret->available)
        ret->available = left > 0 ? left : 1; /* it is known */
}

void memory_look_in(const char *root, struct memory *ret)
{
    char text[4096], group[PATH_MAX], *path, *slash;

    *ret = (struct memory){0};
    read_text(root, "/proc", "/meminfo", text, sizeof(text));
    ret->total = number_behind(text, "MemTotal:") * 1024;
    ret->available = number_behind(text, "MemAvailable:") * 1024;
    read_text(root, "/proc", "/self/cgroup", text, sizeof(text));
    path = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");
    path = path ? strchr(path, '/') : (char *)"";
    if (path[0])
        path[strcspn(path, "\n")] = '\0';
    snprintf(group, sizeof(group), GROUPS "%s", strcmp(path, "/") == 0 ? "" : path);
    do { /* the group, and those that it lies in */
        look_at_group(root, group, ret);
        slash = strrchr(group, '/');
        *slash = '\0';
    } while (strlen(group) >= strlen(GROUPS));
}

void memory_look(struct memory *ret) { memory_look_in("", ret); }
