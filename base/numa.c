#include "base/numa.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NODES 64
#define PREFERRED 1 /* MPOL_PREFERRED: linux/mempolicy.h is not everywhere */

/* The first line of a file below root. */
static bool read_line(const char *root, const char *path, char *ret, int capacity)
{
    char full[PATH_MAX];
    bool ok;
    FILE *f;

    if (snprintf(full, sizeof(full), "%s%s", root, path) >= PATH_MAX)
        return false;
    f = fopen(full, "re");
    if (!f)
        return false;
    ok = fgets(ret, capacity, f) != NULL;
    fclose(f);
    return ok;
}

/* "0-15,64-79": the kernel's lists. */
static void parse_list(const char *s, cpu_set_t *ret)
{
    CPU_ZERO(ret);
    while (*s >= '0' && *s <= '9') {
        char *end;
        unsigned long first = strtoul(s, &end, 10), last = first;

        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (unsigned long i = first; i <= last && i < CPU_SETSIZE; i++)
            CPU_SET(i, ret);
        s = *end == ',' ? end + 1 : end;
    }
}

/* All that the node has. */
static bool read_processors(const char *root, int node, cpu_set_t *ret)
{
    char path[64], list[4096];

    snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", node);
    if (node < 0 || node >= NODES || !read_line(root, path, list, sizeof(list)))
        return false;
    parse_list(list, ret);
    return CPU_COUNT(ret) > 0;
}

uint64_t numa_nodes(const char *root)
{
    uint64_t ret = 0;
    cpu_set_t set;

    for (int i = 0; i < NODES; i++)
        if (read_processors(root, i, &set))
            ret |= UINT64_C(1) << i;
    return ret;
}

/* Those of the node's that this process may run on. */
static bool read_allowed(const char *root, int node, cpu_set_t *ret)
{
    cpu_set_t own, of_node;

    if (!read_processors(root, node, &of_node) || sched_getaffinity(0, sizeof(own), &own) != 0)
        return false;
    CPU_AND(ret, &own, &of_node);
    return CPU_COUNT(ret) > 0;
}

uint32_t numa_processors(const char *root, int node)
{
    cpu_set_t set;

    return read_allowed(root, node, &set) ? (uint32_t)CPU_COUNT(&set) : 0;
}

int numa_node_of_card(const char *root, const char *place)
{
    char path[128], text[32];
    long node;

    /* It becomes a part of a path. */
    if (strlen(place) != 12 || strspn(place, "0123456789abcdef:.") != 12 || place[4] != ':')
        return NUMA_NONE;
    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", place);
    if (!read_line(root, path, text, sizeof(text)))
        return NUMA_NONE;
    node = strtol(text, NULL, 10);
    return node >= 0 && node < NODES ? (int)node : NUMA_NONE;
}

bool numa_bind(const char *root, int node)
{
    unsigned long mask[NODES / (8 * sizeof(unsigned long)) + 1] = {0};
    cpu_set_t set;

    if (!read_allowed(root, node, &set) || sched_setaffinity(0, sizeof(set), &set) != 0)
        return false;
    mask[(size_t)node / (8 * sizeof(mask[0]))] |= 1ul << (size_t)node % (8 * sizeof(mask[0]));
    /* Where this is refused (some containers do) the kernel still prefers the node that a thread
     * runs on when it first touches memory. */
    syscall(SYS_set_mempolicy, PREFERRED, mask, 8 * sizeof(mask));
    return true;
}
