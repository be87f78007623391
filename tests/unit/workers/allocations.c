#include "tests/unit/workers/allocations.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static atomic_long left = -1; /* the one that finds 1 fails; -1: none */

void allocations_fail(long nth) { atomic_store(&left, nth); }

static bool fails(void)
{
    long n = atomic_load(&left);

    while (n > 0 && !atomic_compare_exchange_weak(&left, &n, n - 1))
        ;
    return n == 1;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { return fails() ? NULL : __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }
