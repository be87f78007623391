#include "workers/media/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <seccomp.h>

#include "base/utf8.h"

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

static int limit(int resource, const char *what, uint64_t value, struct err *err)
{
    struct rlimit now, want;

    if (getrlimit((__rlimit_resource_t)resource, &now) != 0) {
        return err_sys(err, errno, "cannot read the limit on %s", what);
    }
    want.rlim_max = now.rlim_max < value ? now.rlim_max : value;
    want.rlim_cur = want.rlim_max;
    if (resource == RLIMIT_CPU && now.rlim_max > value + LAST_SECONDS) {
        want.rlim_max = value + LAST_SECONDS;
    } else if (resource == RLIMIT_CPU && want.rlim_cur > 1) {
        want.rlim_cur--; /* an administrator's own limit is as tight: earlier by a second */
    }
    if (setrlimit((__rlimit_resource_t)resource, &want) != 0) {
        return err_sys(err, errno, "cannot limit %s", what);
    }
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
        if (limits[i].resource == RLIMIT_NOFILE && SANITIZED) {
            continue; /* their reports read /proc/self/maps; Landlock refuses files all the same */
        }
        rc = limit(limits[i].resource, limits[i].what, limits[i].value, err);
    }
    r->cpu_seconds = cpu_seconds;
    /* A sanitizer's shadow memory takes terabytes of addresses. */
    if (rc == 0 && !SANITIZED) {
        rc = limit(RLIMIT_AS, "memory", memory_bytes, err);
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
    if (abi >= 2) {
        a.fs |= 1u << 13; /* rename and link across folders */
    }
    if (abi >= 3) {
        a.fs |= 1u << 14; /* truncate */
    }
    if (abi >= 4) {
        a.net = 3; /* bind and connect by TCP */
        *size = offsetof(struct landlock_attr, scoped);
    }
    if (abi >= 5) {
        a.fs |= 1u << 15; /* ioctl on devices */
    }
    if (abi >= 6) {
        a.scoped = 3; /* abstract sockets and signals to the outside */
        *size = sizeof(a);
    }
    return a;
}

/* The version in force, or 0 and why not. */
static uint32_t enter_landlock(char *why, size_t cap)
{
    long abi = syscall(LANDLOCK_CREATE, NULL, (size_t)0, LANDLOCK_VERSION);
    struct landlock_attr attr;
    size_t size;
    long fd, rc;

    if (abi < 1) {
        snprintf(why, cap, "%s",
                 errno == EOPNOTSUPP ? "switched off in this kernel" : "not in this kernel");
        return 0;
    }
    attr = landlock_all(abi, &size);
    fd = syscall(LANDLOCK_CREATE, &attr, size, 0);
    rc = fd < 0 ? -1 : syscall(LANDLOCK_RESTRICT, fd, 0);
    if (rc != 0) {
        snprintf(why, cap, "refused by this system (error %d)", errno);
    }
    if (fd >= 0) {
        close((int)fd);
    }
    return rc == 0 ? (uint32_t)abi : 0;
}

/* --- seccomp --- */

/* What decoding a file that is open already needs. Reading and writing, memory, time, an end. */
static const char *const allowed_calls[] = {
    "read",
    "readv",
    "pread64",
    "preadv",
    "write",
    "writev",
    "sendmsg",
    "sendto",
    "recvmsg",
    "recvfrom",
    "poll",
    "ppoll",
    "lseek",
    "_llseek",
    "fstat",
    "fstat64",
    "fcntl",
    "close",
    "brk",
    "munmap",
    "mremap",
    "madvise",
    "futex",
    "futex_time64",
    "clock_gettime",
    "clock_gettime64",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "time",
    "getrandom",
    "getpid",
    "getppid",
    "gettid",
    "sched_yield",
    "sched_getaffinity",
    "getrusage",
    "times",
    "getrlimit",
    "rt_sigreturn",
    "sigreturn",
    "rt_sigaction",
    "rt_sigprocmask",
    "sigaltstack",
    "restart_syscall",
    "exit",
    "exit_group",
    "tgkill",
    "set_robust_list",
    "membarrier",
    "rseq",
    "shutdown",
};

/* Under a sanitizer, whose runtime calls what it likes: what must never be allowed. */
static const char *const refused_calls[] = {
    "socket",
    "socketpair",
    "connect",
    "bind",
    "listen",
    "accept",
    "accept4",
    "execve",
    "execveat",
    "fork",
    "vfork",
    "mount",
    "umount2",
    "chroot",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "mkdir",
    "mkdirat",
    "chmod",
    "fchmodat",
    "chown",
    "fchownat",
    "truncate",
    "kill",
    "setuid",
    "bpf",
    "perf_event_open",
    "keyctl",
    "add_key",
    "io_uring_setup",
    "userfaultfd",
    "init_module",
    "finit_module",
    "kexec_load",
    "reboot",
    "process_vm_readv",
    "process_vm_writev",
};

static int add_call(scmp_filter_ctx ctx, uint32_t action, const char *name)
{
    int nr = seccomp_syscall_resolve_name(name);
    int rc = nr == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(ctx, action, nr, 0);

    /* A call that this architecture lacks needs no rule; an action equal to the default neither. */
    return rc == -EDOM || rc == -EACCES ? 0 : rc;
}

/* Memory may be mapped, but nothing written may be run. */
static int add_memory(scmp_filter_ctx ctx)
{
    int rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, 4 /* PROT_EXEC */, 0));

    if (rc == 0) {
        rc = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
                              SCMP_A2(SCMP_CMP_MASKED_EQ, 4, 0));
    }
    return rc;
}

static int fill_filter(scmp_filter_ctx ctx)
{
    const char *const *calls = SANITIZED ? refused_calls : allowed_calls;
    size_t count = SANITIZED ? sizeof(refused_calls) / sizeof(refused_calls[0])
                             : sizeof(allowed_calls) / sizeof(allowed_calls[0]);
    uint32_t action = SANITIZED ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_ALLOW;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = add_call(ctx, action, calls[i]);
    }
    if (rc == 0 && !SANITIZED) {
        rc = add_memory(ctx);
    }
    /* LeakSanitizer's clone shares memory; one that does not is a fork. clone3 hides its flags. */
    if (rc == 0 && SANITIZED) {
        rc = seccomp_rule_add(ctx, action, SCMP_SYS(clone), 1,
                              SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_VM, 0));
    }
    if (rc == 0 && SANITIZED) {
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    }
    return rc;
}

static bool enter_seccomp(char *why, size_t cap)
{
    scmp_filter_ctx ctx = seccomp_init(SANITIZED ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(EPERM));
    int rc = ctx ? 0 : -ENOMEM;

    if (rc == 0) {
        /* Threads that a library may have started at load are locked in too. */
        seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1);
        rc = fill_filter(ctx);
    }
    if (rc == 0) {
        rc = seccomp_load(ctx);
    }
    if (rc != 0) {
        snprintf(why, cap, "refused by this system (error %d)", -rc);
    }
    seccomp_release(ctx);
    return rc == 0;
}

/* --- all of it --- */

static void drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct none[2] = {{0, 0, 0}, {0, 0, 0}};

    (void)syscall(SYS_capset, &header, none); /* only root has any, and may be left with some */
}

static void describe(struct sandbox_report *r, const char *no_landlock, const char *no_seccomp)
{
    char memory[64] = "no memory limit (sanitizer build)";
    char landlock[96], seccomp[96];

    if (r->memory_bytes > 0) {
        snprintf(memory, sizeof(memory), "%llu MiB of memory",
                 (unsigned long long)(r->memory_bytes >> 20));
    }
    snprintf(landlock, sizeof(landlock), r->landlock_abi ? "Landlock %u" : "no Landlock",
             r->landlock_abi);
    snprintf(seccomp, sizeof(seccomp), "%s",
             !r->seccomp  ? "no seccomp"
             : r->relaxed ? "seccomp (relaxed: sanitizer build)"
                          : "seccomp");
    snprintf(r->text, sizeof(r->text), "%s, %llu s of processor time, %s%s%s%s, %s%s%s%s", memory,
             (unsigned long long)r->cpu_seconds, landlock, r->landlock_abi ? "" : " (",
             r->landlock_abi ? "" : no_landlock, r->landlock_abi ? "" : ")", seccomp,
             r->seccomp ? "" : " (", r->seccomp ? "" : no_seccomp, r->seccomp ? "" : ")");
}

int sandbox_enter(uint32_t parent_pid, uint64_t memory_bytes, uint64_t cpu_seconds,
                  struct sandbox_report *ret, struct err *err)
{
    struct sandbox_report r = {.relaxed = SANITIZED != 0};
    char no_landlock[64] = "", no_seccomp[64] = "";
    int rc;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((uint32_t)getppid() != parent_pid) {
        return err_set(err, ERR_IO, "the process that started the decoder is gone");
    }
    prctl(PR_SET_DUMPABLE, 0);
    r.no_new_privs = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
    r.landlock_abi = enter_landlock(no_landlock, sizeof(no_landlock));
    drop_capabilities();
    rc = set_limits(memory_bytes, cpu_seconds, &r, err);
    if (rc != 0) {
        return rc;
    }
    r.seccomp = enter_seccomp(no_seccomp, sizeof(no_seccomp));
    describe(&r, no_landlock, no_seccomp);
    *ret = r;
    return 0;
}

static bool refused_process(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        _exit(0);
    }
    if (pid > 0) {
        waitpid(pid, NULL, 0);
    }
    return pid < 0;
}

void sandbox_try(struct sandbox_report *report)
{
    char name[] = "true";
    char *const argv[] = {name, NULL};
    int file = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int net = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int local = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    report->files_refused = file < 0 && folder < 0;
    report->network_refused = net < 0 && local < 0;
    /* If this worked the process would be another, and no report would come: as good an answer. */
    report->processes_refused = refused_process() && execv("/bin/true", argv) != 0;
    for (int i = 0; i < 4; i++) {
        int fd = i == 0 ? file : i == 1 ? folder : i == 2 ? net : local;

        if (fd >= 0) {
            close(fd);
        }
    }
}
