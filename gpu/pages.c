#include "gpu/pages.h"

#include <stdint.h>
#include <sys/mman.h>

void *pages_new(size_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t before;

    if (p == MAP_FAILED)
        return NULL;
    before = (PAGES_HUGE - (uintptr_t)p % PAGES_HUGE) % PAGES_HUGE;
    if (bytes >= before + PAGES_HUGE)
        madvise(p + before, (bytes - before) / PAGES_HUGE * PAGES_HUGE, MADV_HUGEPAGE);
    return p;
}

void pages_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}
