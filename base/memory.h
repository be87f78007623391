/* base/memory.h - how much of the machine's memory this process may use: what its control groups
 * (version 2: a container's, a service's) leave it. Linux. Any thread. */
#ifndef NIGHTSHIFT_BASE_MEMORY_H
#define NIGHTSHIFT_BASE_MEMORY_H

#include <stdint.h>

struct memory {     /* in bytes */
    uint64_t total; /* the machine's, or the lowest limit of a group */
    uint64_t
        available;  /* that can be had without pushing anybody out; 0: unknown. Free memory alone
                       is little where files were read for a night: the kernel keeps them. */
    uint64_t limit; /* the lowest of the groups; 0: there is none */
};

void memory_look(struct memory *ret);
/* The same of /proc and /sys as they lie below root. */
void memory_look_in(const char *root, struct memory *ret);

#endif
