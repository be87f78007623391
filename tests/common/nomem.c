#include "tests/common/nomem.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "base/err.h"
#include "tests/common/test.h"

static atomic_long left; /* the one that finds 1 fails; 0: none */
static atomic_bool given;

void nomem_fail(long nth)
{
    atomic_store(&given, false);
    atomic_store(&left, nth);
}

bool nomem_end(void)
{
    atomic_store(&left, 0);
    return atomic_load(&given);
}

static bool fails(void)
{
    long n = atomic_load(&left);

    while (n > 0 && !atomic_compare_exchange_weak(&left, &n, n - 1))
        ;
    if (n == 1) {
        errno = ENOMEM;
        atomic_store(&given, true);
    }
    return n == 1;
}

static long after(long nth)
{
    return nth + 1 + (nth < 300 || getenv("NIGHTSHIFT_FAULTS_ALL") ? 0 : nth / 16);
}

long nomem_each(int (*call)(void *arg, struct err *err), void *arg)
{
    long nth = 0;
    bool failed;

    do {
        struct err e = {0};
        int rc;

        nth = after(nth);
        nomem_fail(nth);
        rc = call(arg, &e);
        failed = nomem_end();
        if (failed ? (rc != ERR_NOMEM && rc != ERR_VRAM) || e.code != rc || e.msg[0] == 0 : rc != 0)
            fail_msg("allocation %ld%s: %d %s", nth, failed ? "" : ", which is none", rc, e.msg);
    } while (failed);
    print_message("%ld allocations\n", nth - 1);
    return nth - 1;
}

/* What the linker puts in the place of the C library's (--wrap). */
#define WRAPPED(type, name, parameters, arguments) \
    type __real_##name parameters;                 \
    type __wrap_##name parameters;                 \
    type __wrap_##name parameters { return fails() ? NULL : __real_##name arguments; }

WRAPPED(void *, malloc, (size_t n), (n))
WRAPPED(void *, calloc, (size_t n, size_t size), (n, size))
WRAPPED(void *, realloc, (void *p, size_t n), (p, n))
WRAPPED(void *, aligned_alloc, (size_t to, size_t n), (to, n))
WRAPPED(char *, strdup, (const char *s), (s))
WRAPPED(char *, strndup, (const char *s, size_t n), (s, n))

void *__real_mmap(void *at, size_t n, int may, int how, int fd, off_t from);
void *__wrap_mmap(void *at, size_t n, int may, int how, int fd, off_t from);
void *__wrap_mmap(void *at, size_t n, int may, int how, int fd, off_t from)
{
    return (how & MAP_ANONYMOUS) && fails() ? MAP_FAILED : __real_mmap(at, n, may, how, fd, from);
}

char *__real_realpath(const char *path, char *ret);
char *__wrap_realpath(const char *path, char *ret);
char *__wrap_realpath(const char *path, char *ret)
{
    return !ret && fails() ? NULL : __real_realpath(path, ret);
}

int __wrap_asprintf(char **ret, const char *format, ...) __attribute__((format(printf, 2, 3)));
int __wrap_asprintf(char **ret, const char *format, ...)
{
    va_list args;
    int n = -1;

    va_start(args, format);
    if (!fails())
        n = vasprintf(ret, format, args);
    va_end(args);
    return n;
}
