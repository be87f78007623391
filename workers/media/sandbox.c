#include "workers/media/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <seccomp.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* --- rlimits --- */

/* Beyond the processor time that is allowed, by which the kernel's SIGXCPU comes; it sends SIGKILL
 * instead when both limits are one, and that would look like somebody's hand. */
#define LAST_SECONDS 5

static int set_resource_limit(int resource, const char *what, uint64_t value, struct err *err)
{
    struct rlimit now, want;

    if (getrlimit((__rlimit_resource_t)resource, &now) != 0)
        return err_sys(err, errno, "cannot read the limit on %s", what);
    want.rlim_max = now.rlim_max < value ? now.rlim_max : value;
    want.rlim_cur = want.rlim_max;
    if (resource == RLIMIT_CPU && now.rlim_max > value + LAST_SECONDS)
        want.rlim_max = value + LAST_SECONDS;
    else if (resource == RLIMIT_CPU && want.rlim_cur > 1)
        want.rlim_cur--; /* an administrator's own limit is as tight: earlier by a second */
    if (setrlimit((__rlimit_resource_t)resource, &want) != 0)
        return err_sys(err, errno, "cannot limit %s", what);
    return 0;
}

static int set_limits(uint64_t memory_bytes, uint64_t cpu_seconds, struct sandbox_report *r,
                      struct err *err)
{
    const struct {
        int resource;
        const char *what;
        uint64_t value;
    } limits[] = {
        {RLIMIT_CORE, "core files", 0},         {RLIMIT_FSIZE, "file sizes", 0},
        {RLIMIT_NPROC, "processes", 0},         {RLIMIT_MEMLOCK, "locked memory", 0},
        {RLIMIT_MSGQUEUE, "message queues", 0}, {RLIMIT_CPU, "processor time", cpu_seconds},
        {RLIMIT_NOFILE, "open files", 5}, /* 0 to 4 are open already */
    };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].resource == RLIMIT_NOFILE && SANITIZED)
            continue; /* their reports read /proc/self/maps; Landlock refuses files all the same */
        rc = set_resource_limit(limits[i].resource, limits[i].what, limits[i].value, err);
    }
    r->cpu_seconds = cpu_seconds;
    /* A sanitizer's shadow memory takes terabytes of addresses. */
    if (rc == 0 && !SANITIZED) {
        rc = set_resource_limit(RLIMIT_AS, "memory", memory_bytes, err);
        r->memory_bytes = memory_bytes;
    }
    return rc;
}

/* --- Landlock ---
 * By hand: glibc has no wrappers, and Debian 12's header ends at the first version. */

struct landlock_attr {
    uint64_t fs, net, scoped;
};

#define LANDLOCK_CREATE 444
#define LANDLOCK_RESTRICT 446
#define LANDLOCK_VERSION 1u

/* All rights of the file system that a version knows are refused: there is no rule that gives one.
 */
static struct landlock_attr landlock_all(long abi, size_t *size)
{
    struct landlock_attr a = {.fs = (1u << 13) - 1};

    *size = sizeof(a.fs);
    if (abi >= 2)
        a.fs |= 1u << 13; /* rename and link across folders */
    if (abi >= 3)
        a.fs |= 1u << 14; /* truncate */
    if (abi >= 4) {
        a.net = 3; /* bind and connect by TCP */
        *size = offsetof(struct landlock_attr, scoped);
    }
    if (abi >= 5)
        a.fs |= 1u << 15; /* ioctl on devices */
    if (abi >= 6) {
        a.scoped = 3; /* abstract sockets and signals to the outside */
        *size = sizeof(a);
    }
    return a;
}

/* 0 and the version in force, or an errno. */
static int enter_landlock(uint32_t most, uint32_t *ret)
{
    long abi = most == 0 ? -1 : syscall(LANDLOCK_CREATE, NULL, (size_t)0, LANDLOCK_VERSION);
    struct landlock_attr attr;
    size_t size;
    int error = 0;
    long fd;

    if (abi < 1)
        return most == 0 || errno == 0 ? ENOSYS : errno;
    abi = abi < most ? abi : most;
    attr = landlock_all(abi, &size);
    fd = syscall(LANDLOCK_CREATE, &attr, size, 0);
    if (fd < 0 || syscall(LANDLOCK_RESTRICT, fd, 0) != 0)
        error = errno;
    if (fd >= 0)
        close((int)fd);
    if (error == 0)
        *ret = (uint32_t)abi;
    return error;
}

/* --- seccomp --- */

/* A system call, and the required values of its arguments. */
struct call {
    const char *name;
    unsigned count;
    struct scmp_arg_cmp args[2];
};

/* clang-format off */
#define IS(arg, value) {(arg), SCMP_CMP_EQ, (value), 0}
#define WITHOUT(arg, bits) {(arg), SCMP_CMP_MASKED_EQ, (bits), 0}
/* clang-format on */

/* In the place of values that are known later. */
#define OWN_PID UINT64_MAX
#define OWN_SOCKET (UINT64_MAX - 1)

/* The calls that decoding an open file needs: reading at an offset, frames to the parent and its
 * answers, text to standard error, memory, time, exit. Calls with a descriptor may use only 0 to 4.
 * fcntl, ioctl and prctl are not among them: F_SETOWN and its like send signals to any process. */
static const struct call allowed_calls[] = {
    {.name = "pread64"},
    {.name = "sendmsg", .count = 1, .args = {IS(0, OWN_SOCKET)}},
    {.name = "read", .count = 1, .args = {IS(0, OWN_SOCKET)}},
    {.name = "write"},
    {.name = "writev"},
    {.name = "poll"},
    {.name = "ppoll"},
    {.name = "fstat"},
    {.name = "fstat64"},
    {.name = "close"},
    /* Memory may be mapped, but nothing written may be run. */
    {.name = "mmap", .count = 1, .args = {WITHOUT(2, PROT_EXEC)}},
    {.name = "mmap2", .count = 1, .args = {WITHOUT(2, PROT_EXEC)}},
    {.name = "mprotect", .count = 1, .args = {WITHOUT(2, PROT_EXEC)}},
    {.name = "brk"},
    {.name = "munmap"},
    {.name = "mremap"},
    {.name = "madvise"},
    {.name = "futex"},
    {.name = "futex_time64"},
    {.name = "clock_gettime"},
    {.name = "clock_gettime64"},
    {.name = "clock_getres"},
    {.name = "clock_nanosleep"},
    {.name = "nanosleep"},
    {.name = "restart_syscall"},
    {.name = "gettimeofday"},
    {.name = "time"},
    {.name = "getrandom"},
    {.name = "sched_yield"},
    {.name = "sched_getaffinity", .count = 1, .args = {IS(0, 0)}},
    /* abort() */
    {.name = "getpid"},
    {.name = "gettid"},
    {.name = "rt_sigaction"},
    {.name = "rt_sigprocmask"},
    {.name = "rt_sigreturn"},
    {.name = "tgkill", .count = 1, .args = {IS(0, OWN_PID)}},
    {.name = "exit"},
    {.name = "exit_group"},
};

/* Under a sanitizer, whose runtime calls what it likes: what must never be allowed. */
static const struct call refused_calls[] = {
    {.name = "socket"},
    {.name = "socketpair"},
    {.name = "connect"},
    {.name = "bind"},
    {.name = "listen"},
    {.name = "accept"},
    {.name = "accept4"},
    {.name = "execve"},
    {.name = "execveat"},
    {.name = "fork"},
    {.name = "vfork"},
    {.name = "mount"},
    {.name = "umount2"},
    {.name = "chroot"},
    {.name = "unlink"},
    {.name = "unlinkat"},
    {.name = "rename"},
    {.name = "renameat"},
    {.name = "renameat2"},
    {.name = "link"},
    {.name = "linkat"},
    {.name = "symlink"},
    {.name = "mkdir"},
    {.name = "mkdirat"},
    {.name = "chmod"},
    {.name = "fchmodat"},
    {.name = "chown"},
    {.name = "fchownat"},
    {.name = "truncate"},
    {.name = "kill"},
    {.name = "tkill"},
    {.name = "rt_sigqueueinfo"},
    {.name = "rt_tgsigqueueinfo"},
    {.name = "pidfd_open"},
    {.name = "pidfd_send_signal"},
    {.name = "setuid"},
    {.name = "bpf"},
    {.name = "perf_event_open"},
    {.name = "keyctl"},
    {.name = "add_key"},
    {.name = "io_uring_setup"},
    {.name = "userfaultfd"},
    {.name = "init_module"},
    {.name = "finit_module"},
    {.name = "kexec_load"},
    {.name = "reboot"},
    {.name = "process_vm_readv"},
    {.name = "process_vm_writev"},
    {.name = "tgkill", .count = 1, .args = {{0, SCMP_CMP_NE, OWN_PID, 0}}},
    /* Signals by way of a descriptor. */
    {.name = "fcntl", .count = 1, .args = {IS(1, F_SETOWN)}},
    {.name = "fcntl", .count = 1, .args = {IS(1, F_SETOWN_EX)}},
    {.name = "fcntl", .count = 1, .args = {IS(1, F_SETSIG)}},
    /* LeakSanitizer's clone shares memory; one that does not is a fork. */
    {.name = "clone", .count = 1, .args = {WITHOUT(0, CLONE_VM)}},
};

static int add_call(scmp_filter_ctx ctx, uint32_t action, const struct call *call, int socket)
{
    struct scmp_arg_cmp args[2];
    int nr = seccomp_syscall_resolve_name(call->name);
    int rc;

    memcpy(args, call->args, sizeof(args));
    for (unsigned i = 0; i < call->count; i++)
        if (args[i].datum_a == OWN_PID)
            args[i].datum_a = (uint64_t)getpid();
        else if (args[i].datum_a == OWN_SOCKET)
            args[i].datum_a = (uint64_t)socket;
    rc = nr == __NR_SCMP_ERROR ? 0 : seccomp_rule_add_array(ctx, action, nr, call->count, args);
    /* A call that this architecture lacks needs no rule; an action equal to the default neither. */
    return rc == -EDOM || rc == -EACCES ? 0 : rc;
}

static int fill_filter(scmp_filter_ctx ctx, int socket)
{
    const struct call *calls = SANITIZED ? refused_calls : allowed_calls;
    size_t count = SANITIZED ? sizeof(refused_calls) / sizeof(refused_calls[0])
                             : sizeof(allowed_calls) / sizeof(allowed_calls[0]);
    uint32_t action = SANITIZED ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = add_call(ctx, action, &calls[i], socket);
    /* Its flags cannot be seen: the C library then takes clone. */
    if (rc == 0 && SANITIZED)
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    return rc;
}

/* 0 or an errno. */
static int enter_seccomp(int socket)
{
    scmp_filter_ctx ctx = seccomp_init(SANITIZED ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM));
    int rc = ctx ? 0 : -ENOMEM;

    if (rc == 0) {
        /* Threads that a library may have started at load are locked in too. */
        seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
        seccomp_attr_set(ctx, SCMP_FLTATR_API_SYSRAWRC, 1); /* the kernel's own error */
        rc = fill_filter(ctx, socket);
    }
    if (rc == 0)
        rc = seccomp_load(ctx);
    seccomp_release(ctx);
    return -rc;
}

/* --- all of it --- */

static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};

    (void)syscall(SYS_capset, &header, none); /* only root has any, and may be left with some */
}

static void why_not(int error, char *why, size_t capacity)
{
    if (error == ENOSYS || error == EINVAL)
        snprintf(why, capacity, "not in this kernel");
    else if (error == EOPNOTSUPP)
        snprintf(why, capacity, "switched off in this kernel");
    else
        snprintf(why, capacity, "refused by this system, error %d", error);
}

int sandbox_enter(const struct sandbox_wish *wish, struct sandbox_report *ret, struct err *err)
{
    struct sandbox_report r = {.relaxed = SANITIZED != 0};
    int rc, no_landlock, no_seccomp;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((uint32_t)getppid() != wish->parent_pid)
        return err_set(err, ERR_IO, "the process that started the decoder is gone");
    prctl(PR_SET_DUMPABLE, 0);
    r.no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    no_landlock = enter_landlock(wish->landlock_most, &r.landlock_abi);
    drop_capabilities();
    rc = set_limits(wish->memory_bytes, wish->cpu_seconds, &r, err);
    if (rc != 0)
        return rc;
    no_seccomp = enter_seccomp(wish->socket);
    if (no_landlock == ENOMEM || no_seccomp == ENOMEM)
        return err_set(err, ERR_NOMEM, "out of memory"); /* it is there, and must hold */
    r.seccomp = no_seccomp == 0;
    if (no_landlock != 0)
        why_not(no_landlock, r.no_landlock, sizeof(r.no_landlock));
    if (no_seccomp != 0)
        why_not(no_seccomp, r.no_seccomp, sizeof(r.no_seccomp));
    *ret = r;
    return 0;
}

static bool refused_process(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    if (pid > 0)
        waitpid(pid, NULL, 0);
    return pid < 0;
}

/* A descriptor that should not have been had. */
static bool was_refused(int fd)
{
    if (fd >= 0)
        close(fd);
    return fd < 0;
}

void sandbox_try(struct sandbox_report *report)
{
    char name[] = "true";
    char *const argv[] = {name, NULL};

    close(STDIN_FILENO); /* else the limit on open files would answer for all */
    report->files_refused = was_refused(open("/etc/passwd", O_RDONLY | O_CLOEXEC)) &&
                            was_refused(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    report->network_refused = was_refused(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) &&
                              was_refused(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    /* If this worked the process would be another, and no report would come: as good an answer. */
    report->processes_refused = refused_process() && execv("/bin/true", argv) != 0;
}

/* --- what is made of it --- */

void sandbox_words(const struct sandbox_report *r, char ret[SANDBOX_WORDS])
{
    char memory[64] = "no memory limit (sanitizer build)", landlock[96], seccomp[96];

    if (r->memory_bytes > 0) {
        snprintf(memory, sizeof(memory), "%llu MiB of memory",
                 (unsigned long long)(r->memory_bytes >> 20));
    }
    if (r->landlock_abi > 0)
        snprintf(landlock, sizeof(landlock), "Landlock %u", r->landlock_abi);
    else
        snprintf(landlock, sizeof(landlock), "no Landlock (%s)", r->no_landlock);
    if (r->seccomp) {
        snprintf(seccomp, sizeof(seccomp), "seccomp%s",
                 r->relaxed ? " (relaxed: sanitizer build)" : "");
    } else {
        snprintf(seccomp, sizeof(seccomp), "no seccomp (%s)", r->no_seccomp);
    }
    snprintf(ret, SANDBOX_WORDS, "%s, %llu s of processor time, %s, %s", memory,
             (unsigned long long)r->cpu_seconds, landlock, seccomp);
}

int sandbox_judge(const struct sandbox_report *r, bool unsandboxed, char warning[SANDBOX_WORDS],
                  struct err *err)
{
    if (r->landlock_abi == 0 && !r->seccomp && !unsandboxed) {
        return err_set(err, ERR_DENIED,
                       "neither Landlock (%s) nor seccomp (%s) would hold the decoders, and a "
                       "recording made to do harm could do whatever you may; --allow-unsandboxed "
                       "takes that risk, `nightshift doctor` says more",
                       r->no_landlock, r->no_seccomp);
    }
    warning[0] = '\0';
    if (r->landlock_abi == 0 && !r->seccomp) {
        snprintf(warning, SANDBOX_WORDS,
                 "decoders run without Landlock (%s) and without seccomp (%s): a recording made to "
                 "do harm could do whatever you may",
                 r->no_landlock, r->no_seccomp);
    } else if (r->landlock_abi == 0) {
        snprintf(warning, SANDBOX_WORDS,
                 "decoders run without Landlock (%s): seccomp alone holds them", r->no_landlock);
    } else if (!r->seccomp) {
        snprintf(warning, SANDBOX_WORDS,
                 "decoders run without seccomp (%s): Landlock keeps them from files, but not from "
                 "%s",
                 r->no_seccomp,
                 r->landlock_abi >= 6 ? "every socket" : "sockets and your other processes");
    }
    return 0;
}
