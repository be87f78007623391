#include "workers/text/hash_seed.h"

#include <sys/random.h>
#include <time.h>

uint64_t hash_seed(void)
{
    struct timespec now = {0};
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == (ssize_t)sizeof(seed))
        return seed;
    /* Right after the machine's start there may be no random numbers yet. A file's author does not
     * know the time and the stack's address either. */
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_nsec * UINT64_C(0x9E3779B97F4A7C15) ^ (uint64_t)(uintptr_t)&now;
}
