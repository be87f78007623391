/* tests/cuda/emulator/shared.cpp - static shared memory: every block finds it NaN.
 *
 * All kernels' variables lie together (shared.ld), some hundred KB, of which a kernel has a few. So
 * between grids all of it is NaN and closed to writing; a grid's first write to a page opens it
 * (SIGSEGV), and pages that are open are made NaN before every block. */
#include <csignal>
#include <cstdint>

#include <sys/mman.h>
#include <unistd.h>

#include "tests/cuda/emulator/machine.h"

namespace emulated
{
namespace
{
enum : size_t { PAGES_MAX = 1024 };

struct {
    char *begin, *end;
    size_t page;
    bool closed; /* pages are opened one by one; else all are written for every block */
    bool is_open[PAGES_MAX];
    char *open[PAGES_MAX];
    size_t count;
    struct sigaction before;
} s;

#if defined(__clang__)
#define UNSANITIZED __attribute__((no_sanitize("address")))
#else
#define UNSANITIZED \
    __attribute__((no_sanitize_address, optimize("no-tree-loop-distribute-patterns")))
#endif

/* Between grids it is; a module that was closed and opened again has zeros. */
UNSANITIZED bool is_poisoned(const char *begin, const char *end)
{
    return begin == end || *(const volatile uint64_t *)begin == ~(uint64_t)0;
}

/* What is not ours goes to whoever had it before, by faulting once more. */
void open_page(int, siginfo_t *info, void *)
{
    char *at = (char *)info->si_addr;
    size_t i = at >= s.begin && at < s.end ? (size_t)(at - s.begin) / s.page : PAGES_MAX;

    if (i == PAGES_MAX || s.is_open[i]) {
        sigaction(SIGSEGV, &s.before, nullptr);
        return;
    }
    s.is_open[i] = true;
    s.open[s.count++] = s.begin + i * s.page;
    mprotect(s.begin + i * s.page, s.page, PROT_READ | PROT_WRITE);
}

/* All of it, once for a module. */
void take_over(char *begin, char *end)
{
    size_t bytes = (size_t)(end - begin);

    s.page = (size_t)sysconf(_SC_PAGESIZE);
    s.begin = begin;
    s.end = end;
    s.closed = (uintptr_t)begin % s.page == 0 && bytes % s.page == 0 && bytes / s.page <= PAGES_MAX;
    if (!s.closed || bytes == 0)
        return;
    mprotect(begin, bytes, PROT_READ | PROT_WRITE);
    poison_memory(begin, end);
    mprotect(begin, bytes, PROT_READ);
}
} // namespace

/* Not memset: the sanitizer would object. */
UNSANITIZED void poison_memory(char *begin, char *end)
{
    for (; begin + 8 <= end; begin += 8)
        *(volatile uint64_t *)begin = ~(uint64_t)0;
    for (; begin < end; begin++)
        *(volatile char *)begin = (char)0xff;
}

/* cmocka and others take the signal between grids. */
void shared_open(char *begin, char *end)
{
    struct sigaction ours = {};

    if (begin != s.begin || end != s.end || (s.closed && !is_poisoned(begin, end)))
        take_over(begin, end);
    if (!s.closed)
        return;
    ours.sa_sigaction = open_page;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &ours, &s.before);
}

void shared_fresh(void)
{
    if (!s.closed)
        poison_memory(s.begin, s.end);
    for (size_t i = 0; i < s.count; i++)
        poison_memory(s.open[i], s.open[i] + s.page);
}

void shared_close(void)
{
    shared_fresh();
    for (size_t i = 0; i < s.count; i++) {
        mprotect(s.open[i], s.page, PROT_READ);
        s.is_open[(size_t)(s.open[i] - s.begin) / s.page] = false;
    }
    s.count = 0;
    if (s.closed)
        sigaction(SIGSEGV, &s.before, nullptr);
}
} // namespace emulated
