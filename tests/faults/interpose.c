/* tests/faults/interpose.c - preloaded into the program: faults in calls of the C library.
 *
 * $NIGHTSHIFT_FAULT_PAGE names a file that all processes of a command map: the one fault that is
 * wanted (`struct page`; page.py beside this file writes it), and how often each kind of process
 * made each kind of call, counted over all processes of that kind. So a fault strikes once, and not
 * again in the process that takes the place of the one it ended. Pipes and event counters never
 * fail: nothing in the world makes them, and libuv aborts where its own do. Any thread.
 *
 * With `log` every change to the files below `dir` is appended to it in its order, of which disk.py
 * makes what a disk may hold after the power was cut. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* page.py has the same lists, in the same order. */
enum role { CLI, SCHEDULER, WORKER, DECODER, FINALIZE, ROLES };
enum call {
    MALLOC, /* calloc, realloc and the aligned kinds, too */
    MMAP,
    READ, /* of regular files */
    RECEIVE,
    WRITE, /* to regular files */
    SEND,
    SYNC,
    OPEN,
    TRUNCATE,
    RENAME,
    UNLINK,
    SOCKET,
    SPAWN,
    THREAD,
    SIGNAL, /* SIGKILL to a process group */
    STEP,   /* any that changes or syncs a file below `dir` */
    ANY,    /* all but the first two and SIGNAL */
    CALLS
};
enum action { NONE, FAIL, SHORT, TORN, GARBAGE, KILL, STOP, SLOW };
enum op { OP_OPEN, OP_WRITE, OP_TRUNCATE, OP_SYNC, OP_SYNC_ALL, OP_RENAME, OP_UNLINK, OP_MKDIR };

#define DIR_LEN 512
struct page {
    /* What is wanted. */
    uint64_t role, call, action, nth, error, lasting, seed, slow_ms;
    uint64_t byte;            /* of a message the one that is spoilt, from 1; 0: any */
    uint64_t warp;            /* so much faster goes the scheduler's time, once it has struck */
    atomic_llong disk_left;   /* bytes by which the files below `dir` may grow; -1: no limit */
    atomic_llong disk_denies; /* so many writes more; then there is room. 0: never */
    /* What has been. */
    atomic_ullong struck, struck_pid, struck_ns;
    atomic_ullong counts[ROLES][CALLS];
    char dir[DIR_LEN], log[DIR_LEN];
};

static struct page *page;
static enum role role;

#define TRACKED 1024 /* descriptors */
static bool tracked[TRACKED];
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;

static enum role role_of(const char *command)
{
    static const char *const names[] = {"", "run", "worker", "decoder", "finalize"};

    for (int i = SCHEDULER; i < ROLES; i++)
        if (strcmp(command, names[i]) == 0)
            return (enum role)i;
    return CLI;
}

/* No allocation in here: it runs before main, and malloc is one of the calls. */
__attribute__((constructor)) static void map_page(void)
{
    const char *path = getenv("NIGHTSHIFT_FAULT_PAGE");
    char command[4096];
    ssize_t n;
    size_t program;
    void *at;
    int fd;

    if (!path)
        return;
    fd = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY);
    n = syscall(SYS_read, fd, command, sizeof(command) - 1);
    syscall(SYS_close, fd);
    if (n <= 0)
        return;
    command[n] = 0;
    program = strlen(command) + 1;
    role = program < (size_t)n ? role_of(command + program) : CLI;
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR);
    if (fd < 0)
        return;
    at = (void *)syscall(SYS_mmap, NULL, sizeof(struct page), PROT_READ | PROT_WRITE, MAP_SHARED,
                         fd, 0);
    syscall(SYS_close, fd);
    page = at == MAP_FAILED ? NULL : at;
}

/* ------------------------------------------------------------------------------------ striking */

static int64_t monotonic_ns(void)
{
    struct timespec t;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The decoder may not sleep. */
static void pass_ms(uint64_t ms)
{
    int64_t until = monotonic_ns() + (int64_t)ms * 1000000;
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

    if (syscall(SYS_nanosleep, &t, NULL) != 0)
        while (monotonic_ns() < until)
            ;
}

static void note_strike(void)
{
    unsigned long long never = 0;

    atomic_compare_exchange_strong(&page->struck_ns, &never, (unsigned long long)monotonic_ns());
    page->struck_pid = (unsigned long long)syscall(SYS_getpid);
    atomic_fetch_add(&page->struck, 1);
}

/* By the one call that the decoder's sandbox allows. */
static void signal_self(int number)
{
    syscall(SYS_tgkill, syscall(SYS_getpid), syscall(SYS_gettid), number);
}

static enum action strikes(enum call call)
{
    uint64_t n = atomic_fetch_add(&page->counts[role][call], 1) + 1;

    if (page->role != role || page->call != call || !page->nth || n < page->nth ||
        n - page->nth >= page->lasting)
        return NONE;
    note_strike();
    switch ((enum action)page->action) {
    case KILL:
        signal_self(SIGKILL);
        return NONE;
    case STOP:
        signal_self(SIGSTOP);
        return NONE;
    case SLOW:
        pass_ms(page->slow_ms);
        return NONE;
    default:
        errno = (int)page->error;
        return (enum action)page->action;
    }
}

static enum action meet(enum call call, bool step)
{
    enum action one = NONE, other = NONE, third = NONE;

    if (!page)
        return NONE;
    one = strikes(call);
    if (call > MMAP)
        other = strikes(ANY);
    if (step)
        third = strikes(STEP);
    return one ? one : other ? other : third;
}

/* The call fails, whatever else it could do. */
static bool fails(enum call call, bool step) { return meet(call, step) != NONE; }

/* ------------------------------------------------------------------------------------- signals */

/* Of a process in uninterruptible sleep: the kernel accepts the signal, and nothing happens. */
int kill(pid_t pid, int number)
{
    if (page && number == SIGKILL && pid < 0 && strikes(SIGNAL) != NONE)
        return 0;
    return (int)syscall(SYS_kill, pid, number);
}

/* -------------------------------------------------------------------------------------- memory */

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

void *malloc(size_t n) { return fails(MALLOC, false) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails(MALLOC, false) ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails(MALLOC, false) ? NULL : __libc_realloc(p, n); }
void *memalign(size_t a, size_t n) { return fails(MALLOC, false) ? NULL : __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }

int posix_memalign(void **ret, size_t a, size_t n)
{
    void *p = memalign(a, n);

    if (!p)
        return ENOMEM;
    *ret = p;
    return 0;
}

void *mmap(void *at, size_t n, int protection, int flags, int fd, off_t offset)
{
    if (fails(MMAP, false))
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, protection, flags, fd, offset);
}

void *mmap64(void *at, size_t n, int protection, int flags, int fd, off64_t offset)
{
    return mmap(at, n, protection, flags, fd, offset);
}

/* ------------------------------------------------------------------------- what was changed */

static bool is_below(const char *path)
{
    size_t n = strlen(page->dir);

    return n && strncmp(path, page->dir, n) == 0 && (path[n] == '/' || path[n] == 0);
}

/* The path behind a descriptor, as the kernel has it. */
static bool path_of(int fd, char ret[PATH_MAX])
{
    char link[64] = "/proc/self/fd/";
    char digits[16];
    size_t at = strlen(link), count = 0;
    ssize_t n;

    if (fd < 0)
        return false;
    do
        digits[count++] = (char)('0' + fd % 10);
    while ((fd /= 10) > 0);
    while (count)
        link[at++] = digits[--count];
    link[at] = 0;
    n = syscall(SYS_readlinkat, AT_FDCWD, link, ret, PATH_MAX - 1);
    ret[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* The path that a call names, without following the last link. */
static bool named_path(int dir, const char *path, char ret[PATH_MAX])
{
    size_t n = 0;

    if (path[0] != '/') {
        ssize_t got = dir == AT_FDCWD ? syscall(SYS_getcwd, ret, PATH_MAX) : path_of(dir, ret);

        if (got <= 0)
            return false;
        n = strlen(ret);
        ret[n++] = '/';
    }
    if (n + strlen(path) >= PATH_MAX)
        return false;
    memcpy(ret + n, path, strlen(path) + 1);
    return is_below(ret);
}

struct record {
    uint64_t op, ino, at, path_len, len;
};

/* Callers hold log_lock. errno stays. */
static void log_put(enum op op, uint64_t ino, uint64_t at, const char *path,
                    const struct iovec *data, int count, size_t len)
{
    struct record r = {op, ino, at, path ? strlen(path) : 0, len};
    struct iovec v[3 + 8] = {{&r, sizeof(r)}, {(void *)path, r.path_len}};
    int n = 2, kept = errno;

    if (!page->log[0])
        return;
    if (log_fd < 0) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, page->log, O_WRONLY | O_APPEND | O_CLOEXEC);

        log_fd = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);
        syscall(SYS_close, fd);
    }
    for (int i = 0; i < count && len; i++) {
        size_t part = data[i].iov_len < len ? data[i].iov_len : len;

        v[n++] = (struct iovec){data[i].iov_base, part};
        len -= part;
    }
    syscall(SYS_writev, log_fd, v, n);
    errno = kept;
}

static void begin_change(void) { pthread_mutex_lock(&log_lock); }
static void end_change(void) { pthread_mutex_unlock(&log_lock); }

/* ------------------------------------------------------------------------------------- writing */

static bool is_tracked(int fd) { return fd >= 0 && fd < TRACKED && tracked[fd]; }

static size_t sum_of(const struct iovec *v, int n)
{
    size_t sum = 0;

    for (int i = 0; i < n; i++)
        sum += v[i].iov_len;
    return sum;
}

/* The first `len` bytes of v, in `ret`; returns how many pieces that takes. */
static int head_of(const struct iovec *v, int n, size_t len, struct iovec ret[8])
{
    int count = 0;

    for (int i = 0; i < n && i < 8 && len; i++) {
        size_t part = v[i].iov_len < len ? v[i].iov_len : len;

        ret[count++] = (struct iovec){v[i].iov_base, part};
        len -= part;
    }
    return count;
}

/* How many of `len` bytes at `at` the full disk has room for; -1: none. */
static ssize_t room_for(const struct stat *st, uint64_t at, size_t len)
{
    uint64_t size = (uint64_t)st->st_size;
    long long grows = at + len > size ? (long long)(at + len - (at > size ? at : size)) : 0, left;

    if (page->disk_left < 0 || grows == 0)
        return (ssize_t)len;
    left = atomic_fetch_sub(&page->disk_left, grows) - grows;
    if (left >= 0)
        return (ssize_t)len;
    atomic_fetch_add(&page->disk_left, grows);
    note_strike();
    if (page->disk_denies && atomic_fetch_sub(&page->disk_denies, 1) == 1)
        page->disk_left = -1;
    left += grows;
    return left > 0 ? (ssize_t)(len - (size_t)grows + (size_t)left) : -1;
}

static ssize_t write_pieces(int fd, const struct iovec *v, int n, int64_t at)
{
    return at < 0 ? syscall(SYS_writev, fd, v, n) : syscall(SYS_pwritev, fd, v, n, at, 0);
}

/* A regular file below `dir`. at: -1, where it stands. */
static ssize_t change_file(int fd, const struct stat *st, const struct iovec *v, int n, int64_t at)
{
    uint64_t from = at < 0 ? (uint64_t)syscall(SYS_lseek, fd, 0, SEEK_CUR) : (uint64_t)at;
    struct iovec head[8];
    ssize_t room, did;

    if (at < 0 && (fcntl(fd, F_GETFL) & O_APPEND))
        from = (uint64_t)st->st_size;
    room = room_for(st, from, sum_of(v, n));
    if (room < 0) {
        errno = ENOSPC;
        return -1;
    }
    n = head_of(v, n, (size_t)room, head);
    did = write_pieces(fd, head, n, at);
    if (did > 0)
        log_put(OP_WRITE, st->st_ino, from, NULL, head, n, (size_t)did);
    return did;
}

static ssize_t write_file(int fd, const struct iovec *v, int n, int64_t at)
{
    const bool step = is_tracked(fd);
    const enum action a = meet(WRITE, step);
    struct iovec half[8];
    struct stat st;
    ssize_t did;

    if (a == FAIL || a == GARBAGE)
        return -1;
    if (a == SHORT || a == TORN) {
        n = head_of(v, n, (sum_of(v, n) + 1) / 2, half);
        v = half;
    }
    if (step && fstat(fd, &st) == 0) {
        begin_change();
        did = change_file(fd, &st, v, n, at);
        end_change();
    } else {
        did = write_pieces(fd, v, n, at);
    }
    if (a == TORN) {
        errno = (int)page->error;
        return -1;
    }
    return did;
}

/* Some bits of what is sent are others. */
static void spoil(char *data, size_t n)
{
    uint64_t x = page->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;

    if (page->byte) {
        if (page->byte <= n)
            data[page->byte - 1] ^= (char)(1u << page->seed % 8);
        return;
    }
    for (unsigned k = 0; n && k <= page->seed % 4; k++) {
        data[(x >> 33) % n] ^= (char)(1u << (x >> 29 & 7) | (k & 1));
        x = x * UINT64_C(6364136223846793005) + 1442695040888963407u;
    }
}

static ssize_t send_pieces(int fd, const struct msghdr *m, int flags)
{
    static char copy[1 << 16];
    const enum action a = meet(SEND, false);
    struct msghdr part = *m;
    struct iovec v[8];
    size_t n = 0;
    ssize_t did;

    if (a == FAIL)
        return -1;
    if (a == NONE || m->msg_control || m->msg_iovlen > 8)
        return syscall(SYS_sendmsg, fd, m, flags);
    part.msg_iov = v;
    if (a != GARBAGE) {
        part.msg_iovlen = (size_t)head_of(m->msg_iov, (int)m->msg_iovlen,
                                          (sum_of(m->msg_iov, (int)m->msg_iovlen) + 1) / 2, v);
        did = syscall(SYS_sendmsg, fd, &part, flags);
        errno = a == TORN ? (int)page->error : errno;
        return a == TORN ? -1 : did;
    }
    begin_change();
    for (size_t i = 0; i < m->msg_iovlen; i++) {
        size_t room = sizeof(copy) - n, len = m->msg_iov[i].iov_len;

        memcpy(copy + n, m->msg_iov[i].iov_base, len < room ? len : room);
        n += len < room ? len : room;
    }
    spoil(copy, n);
    v[0] = (struct iovec){copy, n};
    part.msg_iovlen = 1;
    did = syscall(SYS_sendmsg, fd, &part, flags);
    end_change();
    return did;
}

static ssize_t put(int fd, const struct iovec *v, int n, int64_t at)
{
    struct stat st;

    if (!page || n > 8 || fstat(fd, &st) != 0)
        return write_pieces(fd, v, n, at);
    if (S_ISREG(st.st_mode))
        return write_file(fd, v, n, at);
    if (S_ISSOCK(st.st_mode))
        return send_pieces(
            fd, &(struct msghdr){.msg_iov = (struct iovec *)v, .msg_iovlen = (size_t)n}, 0);
    return write_pieces(fd, v, n, at);
}

ssize_t write(int fd, const void *p, size_t n)
{
    return put(fd, &(struct iovec){(void *)p, n}, 1, -1);
}
ssize_t writev(int fd, const struct iovec *v, int n) { return put(fd, v, n, -1); }
ssize_t pwrite(int fd, const void *p, size_t n, off_t at)
{
    return put(fd, &(struct iovec){(void *)p, n}, 1, at);
}
ssize_t pwrite64(int fd, const void *p, size_t n, off64_t at) { return pwrite(fd, p, n, at); }

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    return page ? send_pieces(fd, m, flags) : syscall(SYS_sendmsg, fd, m, flags);
}

ssize_t send(int fd, const void *p, size_t n, int flags)
{
    struct iovec v = {(void *)p, n};

    return sendmsg(fd, &(struct msghdr){.msg_iov = &v, .msg_iovlen = 1}, flags);
}

int ftruncate(int fd, off_t size)
{
    const bool step = page && is_tracked(fd);
    struct stat st;
    int rc;

    if (fails(TRUNCATE, step))
        return -1;
    if (!step || fstat(fd, &st) != 0)
        return (int)syscall(SYS_ftruncate, fd, size);
    begin_change();
    rc = (int)syscall(SYS_ftruncate, fd, size);
    if (rc == 0)
        log_put(OP_TRUNCATE, st.st_ino, (uint64_t)size, NULL, NULL, 0, 0);
    end_change();
    return rc;
}
int ftruncate64(int fd, off64_t size) { return ftruncate(fd, size); }

/* ------------------------------------------------------------------------------------- syncing */

/* Nothing is really synced: no power is cut here, and thousands of rounds want to be short. */
static int sync_file(int fd, enum op op)
{
    char path[PATH_MAX] = "";
    const bool step = page && path_of(fd, path) && is_below(path);
    struct stat st;

    if (fails(SYNC, step))
        return -1;
    if (!step || fstat(fd, &st) != 0)
        return 0;
    begin_change();
    log_put(op, st.st_ino, S_ISDIR(st.st_mode), path, NULL, 0, 0);
    end_change();
    return 0;
}

int fsync(int fd) { return page ? sync_file(fd, OP_SYNC) : (int)syscall(SYS_fsync, fd); }
int fdatasync(int fd) { return page ? sync_file(fd, OP_SYNC) : (int)syscall(SYS_fdatasync, fd); }
int syncfs(int fd) { return page ? sync_file(fd, OP_SYNC_ALL) : (int)syscall(SYS_syncfs, fd); }

/* --------------------------------------------------------------------------------------- names */

static int open_at(int dir, const char *path, int flags, mode_t mode)
{
    const bool makes = flags & O_CREAT;
    char full[PATH_MAX];
    struct stat st;
    bool step = false;
    int fd;

    if (page)
        step = makes && named_path(dir, path, full);
    if (fails(OPEN, step))
        return -1;
    if (!page)
        return (int)syscall(SYS_openat, dir, path, flags, mode);
    begin_change();
    fd = (int)syscall(SYS_openat, dir, path, flags, mode);
    if (fd >= 0 && fd < TRACKED) {
        tracked[fd] = (flags & O_ACCMODE) != O_RDONLY && path_of(fd, full) && is_below(full);
        if (tracked[fd] && fstat(fd, &st) == 0)
            log_put(OP_OPEN, st.st_ino, flags & O_TRUNC, full, NULL, 0, 0);
    }
    end_change();
    return fd;
}

#define OPEN_AS(dir, path)                      \
    {                                           \
        mode_t mode = 0;                        \
        va_list more;                           \
        va_start(more, flags);                  \
        if (flags & (O_CREAT | __O_TMPFILE))    \
            mode = va_arg(more, mode_t);        \
        va_end(more);                           \
        return open_at(dir, path, flags, mode); \
    }
int open(const char *path, int flags, ...)
    OPEN_AS(AT_FDCWD, path) int open64(const char *path, int flags, ...)
        OPEN_AS(AT_FDCWD, path) int openat(int dir, const char *path, int flags, ...)
            OPEN_AS(dir, path) int openat64(int dir, const char *path, int flags, ...)
                OPEN_AS(dir, path)

                    int renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    char one[PATH_MAX], two[PATH_MAX];
    const bool step = page && named_path(from_dir, from, one) && named_path(to_dir, to, two);
    struct iovec v;
    int rc;

    if (fails(RENAME, step))
        return -1;
    begin_change();
    rc = (int)syscall(SYS_renameat, from_dir, from, to_dir, to);
    if (rc == 0 && step) {
        v = (struct iovec){two, strlen(two)};
        log_put(OP_RENAME, 0, 0, one, &v, 1, v.iov_len);
    }
    end_change();
    return rc;
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int unlinkat(int dir, const char *path, int flags)
{
    char full[PATH_MAX];
    const bool step = page && named_path(dir, path, full);
    int rc;

    if (fails(UNLINK, step))
        return -1;
    begin_change();
    rc = (int)syscall(SYS_unlinkat, dir, path, flags);
    if (rc == 0 && step)
        log_put(OP_UNLINK, 0, 0, full, NULL, 0, 0);
    end_change();
    return rc;
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }

int mkdirat(int dir, const char *path, mode_t mode)
{
    char full[PATH_MAX];
    const bool step = page && named_path(dir, path, full);
    int rc;

    begin_change();
    rc = (int)syscall(SYS_mkdirat, dir, path, mode);
    if (rc == 0 && step)
        log_put(OP_MKDIR, 0, 0, full, NULL, 0, 0);
    end_change();
    return rc;
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

/* ------------------------------------------------------------------------------------- reading */

static ssize_t get(int fd, void *data, size_t n, int64_t at)
{
    struct stat st;
    enum action a = NONE;

    if (page && n && fstat(fd, &st) == 0) {
        if (S_ISREG(st.st_mode))
            a = meet(READ, false);
        else if (S_ISSOCK(st.st_mode))
            a = meet(RECEIVE, false);
    }
    if (a == SHORT)
        n = (n + 1) / 2;
    else if (a != NONE)
        return -1;
    return at < 0 ? syscall(SYS_read, fd, data, n) : syscall(SYS_pread64, fd, data, n, at);
}

ssize_t read(int fd, void *data, size_t n) { return get(fd, data, n, -1); }
ssize_t pread(int fd, void *data, size_t n, off_t at) { return get(fd, data, n, at); }
ssize_t pread64(int fd, void *data, size_t n, off64_t at) { return get(fd, data, n, at); }

/* --------------------------------------------------------------------- sockets and processes */

int socket(int domain, int type, int protocol)
{
    return fails(SOCKET, false) ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int fds[2])
{
    return fails(SOCKET, false) ? -1 : (int)syscall(SYS_socketpair, domain, type, protocol, fds);
}

/* The real function of that name and type, looked up once (twice in a race, to the same end). */
#define REAL(name)                 \
    static __typeof__(&name) real; \
    real = real ? real : (__typeof__(&name))dlsym(RTLD_NEXT, #name)

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attr, char *const argv[], char *const envp[])
{
    REAL(posix_spawn);
    return fails(SPAWN, false) ? errno : real(pid, path, actions, attr, argv, envp);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    REAL(pthread_create);
    return fails(THREAD, false) ? errno : real(thread, attr, run, arg);
}

/* ---------------------------------------------------------------------------------------- time */

/* Nobody wants to wait for the pauses after a fault: they pass faster, for the scheduler alone. */
static uint64_t haste(void)
{
    return page && role == SCHEDULER && page->struck_ns && page->warp > 1 ? page->warp : 1;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, ret);
    uint64_t factor = haste();
    int64_t ns;

    if (rc != 0 || factor == 1 || clock == CLOCK_PROCESS_CPUTIME_ID ||
        clock == CLOCK_THREAD_CPUTIME_ID)
        return rc;
    ns = ret->tv_nsec + (monotonic_ns() - (int64_t)page->struck_ns) * (int64_t)(factor - 1);
    ret->tv_sec += ns / 1000000000;
    ret->tv_nsec = ns % 1000000000;
    return 0;
}

int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout, const sigset_t *set)
{
    if (timeout > 0)
        timeout = (int)(((uint64_t)timeout + haste() - 1) / haste());
    return (int)syscall(SYS_epoll_pwait, fd, events, most, timeout, set, _NSIG / 8);
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout)
{
    return epoll_pwait(fd, events, most, timeout, NULL);
}
