/* Loaded before the program (LD_PRELOAD): its clock on the wall is ahead by as many seconds as the
 * first eight bytes of the file $WALL_CLOCK say, now. No other clock is touched. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_s;

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("WALL_CLOCK");
    int fd = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    void *page = fd >= 0 ? mmap(NULL, sizeof(*ahead_s), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

    if (page != MAP_FAILED)
        ahead_s = page;
    if (fd >= 0)
        close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);

    if (rc == 0 && ahead_s && clock == CLOCK_REALTIME)
        ret->tv_sec += *ahead_s;
    return rc;
}
