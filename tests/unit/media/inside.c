#include "tests/unit/media/inside.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/common/test.h"

#define MEMORY_BYTES ((uint64_t)1 << 30)

static const char ours[] = "ours";

static long value_of(long arg, struct bench *b)
{
    const long values[] = {
        [SELF - SELF] = getpid(),
        [BYSTANDER - SELF] = b->bystander,
        [PIDFD - SELF] = b->pidfd,
        [ZEROS - SELF] = (long)b->zeros,
        [PAGE - SELF] = (long)b->page,
        [MESSAGE - SELF] = (long)&b->message,
        [NOW - SELF] = (long)&b->now,
        [PATH_PASSWD - SELF] = (long)"/etc/passwd",
        [PATH_ROOT - SELF] = (long)"/",
        [PATH_TRUE - SELF] = (long)"/bin/true",
        [PATH_OURS - SELF] = (long)ours,
        [PATH_NEW - SELF] = (long)"new",
        [NO_ARGS - SELF] = (long)b->no_args,
        [OWNER - SELF] = (long)&b->owner,
        [BYSTANDER_PTR - SELF] = (long)&b->bystander,
    };

    return arg >= SELF && arg <= BYSTANDER_PTR ? values[arg - SELF] : arg;
}

/* A call that starts a process returns twice: the other one must not go on here. */
int call_inside(long nr, const long args[6], struct bench *b)
{
    const pid_t self = getpid();
    long v[6], rc;

    for (int i = 0; i < 6; i++)
        v[i] = value_of(args[i], b);
    memset(b->zeros, 0, sizeof(b->zeros));
    rc = syscall(nr, v[0], v[1], v[2], v[3], v[4], v[5]);
    if (getpid() != self)
        _exit(1);
    return rc < 0 ? errno : 0;
}

/* As a kernel without seccomp answers. */
static void hide_seccomp(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PR_SET_SECCOMP, 2, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
    };
    struct sock_fprog program = {.len = COUNT(code), .filter = code};

    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Descriptors as a decoder has them: 0 and 1 lead nowhere, 3 to the parent, 4 is the file. */
static void take_descriptors(int socket, struct bench *b)
{
    int nowhere = open("/dev/null", O_RDWR), file = open(ours, O_RDONLY);

    /* Out of the way of the numbers below. */
    b->pidfd = (int)syscall(SYS_pidfd_open, b->bystander, 0);
    b->pidfd = b->pidfd < 0 ? -1 : fcntl(b->pidfd, F_DUPFD, 30);
    socket = fcntl(socket, F_DUPFD, 20);
    file = fcntl(file, F_DUPFD, 20);
    dup2(nowhere, 0);
    dup2(nowhere, 1);
    dup2(socket, 3);
    dup2(file, 4);
}

static void live_inside(const struct kernel *kernel, pid_t parent, int socket, inside_fn fn,
                        struct inside *in)
{
    const struct sandbox_wish wish = {.parent_pid = (uint32_t)parent,
                                      .socket = 3,
                                      .memory_bytes = MEMORY_BYTES,
                                      .cpu_seconds = 60,
                                      .landlock_most = kernel->landlock_most};
    struct bench b = {.bystander = in->bystander};
    struct err err = {0};

    b.part = (struct iovec){b.zeros, 1};
    b.message = (struct msghdr){.msg_iov = &b.part, .msg_iovlen = 1};
    b.owner = (struct f_owner_ex){F_OWNER_PID, b.bystander};
    b.page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    take_descriptors(socket, &b);
    alarm(60);
    if (!kernel->seccomp)
        hide_seccomp();
    in->entered = sandbox_enter(&wish, &in->report, &err);
    if (in->entered == 0)
        fn(in, &b);
    in->ended = true;
    _exit(0);
}

/* A process of the same user that has nothing to do with any of this. */
static pid_t start_bystander(void)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    return pid;
}

/* Runs fn in a sandbox of that kernel. The bystander must be there afterwards. Its wait status. */
int run_inside(const struct kernel *kernel, inside_fn fn, struct inside **ret)
{
    struct inside *in =
        mmap(NULL, sizeof(*in), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *f = fopen(ours, "w");
    pid_t pid, parent = getpid();
    int ends[2], status = 0;

    assert_true(in != MAP_FAILED);
    assert_non_null(f);
    fputs("some bytes of a recording", f);
    fclose(f);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    in->entered = UNTRIED;
    for (int i = 0; i < ATTEMPTS_MAX; i++)
        in->got[i] = UNTRIED;
    in->bystander = start_bystander();
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        live_inside(kernel, parent, ends[1], fn, in);
    close(ends[0]);
    close(ends[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    assert_int_equal(waitpid(in->bystander, NULL, WNOHANG), 0);
    kill(in->bystander, SIGKILL);
    waitpid(in->bystander, NULL, 0);
    *ret = in;
    return status;
}

void free_inside(struct inside *in) { munmap(in, sizeof(*in)); }
