/* tests/faults/fail_nth.c - preloaded into the program: one call of the C library fails.
 *
 *   NIGHTSHIFT_FAULT=ROLE:CALL:N:ERRNO[:on]   in processes whose first argument is ROLE ("run",
 *                                             "worker" ...), the Nth CALL fails with that errno;
 *                                             with ":on" all after it, too
 *   NIGHTSHIFT_FAULT_STRUCK=FILE              is made when a call was failed
 *
 * CALL: malloc (calloc and realloc count as it), write (all kinds, to regular files), send (all
 * kinds, to sockets), read (all kinds), sync, open, truncate, rename, socket (socketpair, too),
 * spawn, mmap. Pipes and event counters never fail, neither to read nor to write: nothing in the
 * world makes them, and libuv aborts where its own do. Any thread. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static char call_name[16];
static long fault_at; /* 0: not in this process */
static int fault_errno;
static bool fault_on;
static atomic_long calls;

/* No allocation in here: it runs before main, and malloc is one of the calls. */
__attribute__((constructor)) static void read_wish(void)
{
    const char *wish = getenv("NIGHTSHIFT_FAULT"), *end;
    char command[4096];
    ssize_t n;
    size_t program;
    int fd;

    if (!wish)
        return;
    fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
    n = syscall(SYS_read, fd, command, sizeof(command) - 1);
    syscall(SYS_close, fd);
    if (n <= 0)
        return;
    command[n] = 0;
    program = strlen(command) + 1;
    end = strchr(wish, ':');
    if (program >= (size_t)n || !end || strlen(command + program) != (size_t)(end - wish) ||
        memcmp(command + program, wish, (size_t)(end - wish)) != 0)
        return;
    wish = end + 1;
    end = strchr(wish, ':');
    if (!end || (size_t)(end - wish) >= sizeof(call_name))
        return;
    memcpy(call_name, wish, (size_t)(end - wish));
    fault_at = strtol(end + 1, (char **)&end, 10);
    fault_errno = (int)strtol(end + 1, (char **)&end, 10);
    fault_on = strcmp(end, ":on") == 0;
}

static bool strikes(const char *name)
{
    const char *struck;
    long n;

    if (fault_at == 0 || strcmp(name, call_name) != 0)
        return false;
    n = atomic_fetch_add(&calls, 1) + 1;
    if (n != fault_at && !(fault_on && n > fault_at))
        return false;
    struck = getenv("NIGHTSHIFT_FAULT_STRUCK");
    if (struck)
        syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, struck, O_CREAT | O_WRONLY, 0600));
    errno = fault_errno;
    return true;
}

static bool write_strikes(int fd)
{
    struct stat st;

    if (fault_at == 0 || fstat(fd, &st) != 0)
        return false;
    return S_ISREG(st.st_mode) ? strikes("write") : S_ISSOCK(st.st_mode) && strikes("send");
}

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

void *malloc(size_t n) { return strikes("malloc") ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return strikes("malloc") ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return strikes("malloc") ? NULL : __libc_realloc(p, n); }

/* The real function of that name and type, looked up once (twice in a race, to the same end). */
#define REAL(name)                 \
    static __typeof__(&name) real; \
    real = real ? real : (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t n)
{
    REAL(write);
    return write_strikes(fd) ? -1 : real(fd, data, n);
}

ssize_t writev(int fd, const struct iovec *v, int n)
{
    REAL(writev);
    return write_strikes(fd) ? -1 : real(fd, v, n);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    REAL(pwrite);
    return write_strikes(fd) ? -1 : real(fd, data, n, at);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off64_t at)
{
    REAL(pwrite64);
    return write_strikes(fd) ? -1 : real(fd, data, n, at);
}

ssize_t send(int fd, const void *data, size_t n, int flags)
{
    REAL(send);
    return write_strikes(fd) ? -1 : real(fd, data, n, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    REAL(sendmsg);
    return write_strikes(fd) ? -1 : real(fd, m, flags);
}

static bool read_strikes(int fd)
{
    struct stat info;

    return fault_at && fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISSOCK(info.st_mode)) &&
           strikes("read");
}

ssize_t read(int fd, void *data, size_t n)
{
    REAL(read);
    return read_strikes(fd) ? -1 : real(fd, data, n);
}

ssize_t pread(int fd, void *data, size_t n, off_t at)
{
    REAL(pread);
    return strikes("read") ? -1 : real(fd, data, n, at);
}

ssize_t pread64(int fd, void *data, size_t n, off64_t at)
{
    REAL(pread64);
    return strikes("read") ? -1 : real(fd, data, n, at);
}

int fsync(int fd)
{
    REAL(fsync);
    return strikes("sync") ? -1 : real(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync);
    return strikes("sync") ? -1 : real(fd);
}

int ftruncate(int fd, off_t size)
{
    REAL(ftruncate);
    return strikes("truncate") ? -1 : real(fd, size);
}

int ftruncate64(int fd, off64_t size)
{
    REAL(ftruncate64);
    return strikes("truncate") ? -1 : real(fd, size);
}

int rename(const char *from, const char *to)
{
    REAL(rename);
    return strikes("rename") ? -1 : real(from, to);
}

int socket(int domain, int type, int protocol)
{
    REAL(socket);
    return strikes("socket") ? -1 : real(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
    REAL(socketpair);
    return strikes("socket") ? -1 : real(domain, type, protocol, fds);
}

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
    REAL(posix_spawn);
    return strikes("spawn") ? errno : real(pid, path, actions, attr, argv, envp);
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    REAL(mmap);
    return strikes("mmap") ? MAP_FAILED : real(at, n, protection, flags, fd, offset);
}

#define OPEN(name, ...)                                               \
    {                                                                 \
        mode_t mode = 0;                                              \
        va_list more;                                                 \
        REAL(name);                                                   \
        va_start(more, flags);                                        \
        if (flags & (O_CREAT | __O_TMPFILE))                          \
            mode = va_arg(more, mode_t);                              \
        va_end(more);                                                 \
        return strikes("open") ? -1 : real(__VA_ARGS__, flags, mode); \
    }

int open(const char *path, int flags, ...)
    OPEN(open, path) int open64(const char *path, int flags, ...)
        OPEN(open64, path) int openat(int dir, const char *path, int flags, ...)
            OPEN(openat, dir, path) int openat64(int dir, const char *path, int flags, ...)
                OPEN(openat64, dir, path)
