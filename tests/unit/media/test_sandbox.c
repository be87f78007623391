/* What holds a decoder: every call that is allowed and a list of those that are refused, one by one
 * from inside, on this kernel and on older ones. Where this kernel itself lacks a layer the test
 * says so and checks the others. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/media/inside.h"
#include "tests/unit/media/media_util.h"
#include "workers/media/sandbox.h"

#define LAST_ABI 7 /* versions beyond it bring no right that is refused */

static const struct attempt allowed[] = {
    {CALL(pread64), {4, ZEROS, 16, 0}, 0},
    {CALL(sendmsg), {3, MESSAGE, MSG_NOSIGNAL}, 0},
    {CALL(sendmsg), {4, MESSAGE, MSG_NOSIGNAL}, EPERM},
    {CALL(read), {3, ZEROS, 0}, 0},
    {CALL(read), {4, ZEROS, 16}, EPERM},
    {CALL(write), {1, ZEROS, 1}, 0},
    {CALL(writev), {1, ZEROS, 0}, 0},
#ifdef SYS_poll
    {CALL(poll), {0, 0, 0}, 0},
#endif
    {CALL(ppoll), {0, 0, NOW, 0, 8}, 0},
    {CALL(fstat), {4, ZEROS}, 0},
    {CALL(mmap), {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}, 0},
    {CALL(mmap), {0, 4096, PROT_READ, MAP_PRIVATE, 4, 0}, 0},
    {CALL(mmap), {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}, EPERM},
    {CALL(mmap), {0, 4096, PROT_EXEC, MAP_PRIVATE, 4, 0}, EPERM},
    {CALL(mmap), {0, 4096, 7, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}, EPERM},
    {CALL(mprotect), {PAGE, 4096, PROT_READ | PROT_WRITE}, 0},
    {CALL(mprotect), {PAGE, 4096, PROT_READ | PROT_EXEC}, EPERM},
    {CALL(mprotect), {PAGE, 4096, PROT_EXEC}, EPERM},
    {CALL(brk), {0}, 0},
    {CALL(madvise), {PAGE, 4096, MADV_DONTNEED}, 0},
    {CALL(mremap), {PAGE, 4096, 4096, 0}, 0},
    {CALL(futex), {ZEROS, FUTEX_WAKE, 1}, 0},
    {CALL(clock_gettime), {CLOCK_MONOTONIC, ZEROS}, 0},
    {CALL(clock_getres), {CLOCK_MONOTONIC, ZEROS}, 0},
    {CALL(clock_nanosleep), {CLOCK_MONOTONIC, 0, NOW, 0}, 0},
    {CALL(nanosleep), {NOW, 0}, 0},
    {CALL(gettimeofday), {ZEROS, 0}, 0},
#ifdef SYS_time
    {CALL(time), {0}, 0},
#endif
    {CALL(getrandom), {ZEROS, 8, 0}, 0},
    {CALL(sched_yield), {0}, 0},
    {CALL(sched_getaffinity), {0, 128, ZEROS}, 0},
    {CALL(sched_getaffinity), {BYSTANDER, 128, ZEROS}, EPERM},
    {CALL(getpid), {0}, 0},
    {CALL(gettid), {0}, 0},
    {CALL(rt_sigaction), {SIGUSR1, 0, ZEROS, 8}, 0},
    {CALL(rt_sigprocmask), {SIG_BLOCK, 0, ZEROS, 8}, 0},
    {CALL(tgkill), {SELF, SELF, 0}, 0},
    {CALL(munmap), {PAGE, 4096}, 0},
    {CALL(close), {0}, 0},
};

/* That work, too, but not in a list: they end the process, or take what only the kernel makes. */
static const long ending[] = {SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_restart_syscall};

/* Ways to end a process of the same user. These must fail in a sanitizer build, too. */
static const struct attempt signals[] = {
    {CALL(tgkill), {BYSTANDER, BYSTANDER, SIGKILL}, EPERM},
    {CALL(kill), {BYSTANDER, SIGKILL}, EPERM},
    {CALL(tkill), {BYSTANDER, SIGKILL}, EPERM},
    {CALL(kill), {SELF, 0}, EPERM},
    {CALL(tkill), {SELF, 0}, EPERM},
    {CALL(tgkill), {-1, BYSTANDER, SIGKILL}, EPERM},
    {CALL(rt_sigqueueinfo), {BYSTANDER, SIGKILL, ZEROS}, EPERM},
    {CALL(rt_tgsigqueueinfo), {BYSTANDER, BYSTANDER, SIGKILL, ZEROS}, EPERM},
    {CALL(pidfd_open), {BYSTANDER, 0}, EPERM},
    {CALL(pidfd_send_signal), {PIDFD, SIGKILL, 0, 0}, EPERM},
    /* Who gets which signal when there is something to read, or to write. */
    {CALL(fcntl), {3, F_SETSIG, SIGKILL}, EPERM},
    {CALL(fcntl), {3, F_SETOWN, BYSTANDER}, EPERM},
    {CALL(fcntl), {3, F_SETOWN_EX, OWNER}, EPERM},
};

static const struct attempt refused[] = {
    {CALL(fcntl), {3, F_SETFL, O_ASYNC}, EPERM},
    {CALL(fcntl), {4, F_SETLK, ZEROS}, EPERM},
    {CALL(fcntl), {4, F_DUPFD, 0}, EPERM},
    {CALL(ioctl), {3, FIOSETOWN, BYSTANDER_PTR}, EPERM},
    {CALL(ioctl), {3, SIOCSPGRP, BYSTANDER_PTR}, EPERM},
    {CALL(ioctl), {0, TIOCSTI, ZEROS}, EPERM},
    {CALL(prctl), {PR_SET_PDEATHSIG, 0}, EPERM},
    {CALL(prctl), {PR_SET_DUMPABLE, 1}, EPERM},
    {CALL(prctl), {PR_SET_NAME, ZEROS}, EPERM},
    {CALL(ptrace), {PTRACE_SEIZE, BYSTANDER, 0, 0}, EPERM},
    {CALL(process_vm_readv), {BYSTANDER, ZEROS, 1, ZEROS, 1, 0}, EPERM},
    {CALL(process_vm_writev), {BYSTANDER, ZEROS, 1, ZEROS, 1, 0}, EPERM},
    {CALL(prlimit64), {BYSTANDER, RLIMIT_CPU, ZEROS, 0}, EPERM},
    {CALL(prlimit64), {0, RLIMIT_CPU, 0, ZEROS}, EPERM},
    {CALL(sched_setaffinity), {BYSTANDER, 128, ZEROS}, EPERM},
    {CALL(sched_setscheduler), {BYSTANDER, SCHED_IDLE, ZEROS}, EPERM},
    {CALL(setpriority), {PRIO_PROCESS, BYSTANDER, 19}, EPERM},
    {CALL(openat), {AT_FDCWD, PATH_PASSWD, O_RDONLY}, EPERM},
    {CALL(openat), {AT_FDCWD, PATH_ROOT, O_RDONLY | O_DIRECTORY}, EPERM},
    {CALL(openat), {AT_FDCWD, PATH_ROOT, O_PATH}, EPERM},
    {CALL(openat), {AT_FDCWD, PATH_NEW, O_WRONLY | O_CREAT, 0600}, EPERM},
    {CALL(newfstatat), {AT_FDCWD, PATH_PASSWD, ZEROS, 0}, EPERM},
    {CALL(unlinkat), {AT_FDCWD, PATH_OURS, 0}, EPERM},
    {CALL(mkdirat), {AT_FDCWD, PATH_NEW, 0700}, EPERM},
    {CALL(renameat2), {AT_FDCWD, PATH_OURS, AT_FDCWD, PATH_NEW, 0}, EPERM},
    {CALL(truncate), {PATH_OURS, 0}, EPERM},
    {CALL(ftruncate), {4, 0}, EPERM},
    {CALL(execve), {PATH_TRUE, NO_ARGS, NO_ARGS}, EPERM},
    {CALL(execveat), {AT_FDCWD, PATH_TRUE, NO_ARGS, NO_ARGS, 0}, EPERM},
    {CALL(clone), {SIGCHLD, 0, 0, 0, 0}, EPERM},
    {CALL(clone), {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD}, EPERM},
    {CALL(clone3), {ZEROS, 64}, EPERM},
    {CALL(unshare), {CLONE_NEWUSER}, EPERM},
    {CALL(socket), {AF_INET, SOCK_STREAM, 0}, EPERM},
    {CALL(socket), {AF_UNIX, SOCK_DGRAM, 0}, EPERM},
    {CALL(socketpair), {AF_UNIX, SOCK_STREAM, 0, ZEROS}, EPERM},
    {CALL(connect), {3, ZEROS, 2}, EPERM},
    {CALL(sendto), {3, ZEROS, 1, MSG_NOSIGNAL, 0, 0}, EPERM},
    {CALL(sendmmsg), {3, ZEROS, 0, 0}, EPERM},
    {CALL(recvmsg), {3, MESSAGE, MSG_DONTWAIT}, EPERM},
    {CALL(setsockopt), {3, SOL_SOCKET, SO_SNDBUF, ZEROS, 4}, EPERM},
    {CALL(lseek), {4, 0, SEEK_SET}, EPERM},
    {CALL(memfd_create), {ZEROS, 0}, EPERM},
    {CALL(io_uring_setup), {1, ZEROS}, EPERM},
    {CALL(membarrier), {1, 0, 0}, EPERM},
};

static void try_list(struct inside *in, struct bench *b, const struct attempt *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        in->got[i] = call_inside(list[i].nr, list[i].args, b);
}

static unsigned compare(const struct kernel *kernel, const struct attempt *list, size_t n,
                        const struct inside *in)
{
    unsigned wrong = 0;

    for (size_t i = 0; i < n; i++) {
        if (in->got[i] == list[i].want)
            continue;
        print_error("%s(%ld, %ld, %ld ...), Landlock %u, %s: error %d, wanted %d\n", list[i].name,
                    list[i].args[0], list[i].args[1], list[i].args[2], in->report.landlock_abi,
                    kernel->seccomp ? "seccomp" : "no seccomp", in->got[i], list[i].want);
        wrong++;
    }
    return wrong;
}

/* The layers of this machine, tried once. */
static struct sandbox_report here;

static int look_around(void **state)
{
    struct err err;

    (void)state;
    return here.cpu_seconds > 0 ? 0 : sandbox_check(&here, &err);
}

/* Every kernel that can be played here: Landlock as it is, each version before it, none. */
static size_t kernels_here(bool seccomp, struct kernel *ret)
{
    uint32_t abi = here.landlock_abi;
    size_t n = 0;

    ret[n++] = (struct kernel){NEWEST, seccomp};
    for (uint32_t older = abi > LAST_ABI ? LAST_ABI : abi; older-- > 0;)
        ret[n++] = (struct kernel){older, seccomp};
    return n;
}

static bool have_seccomp(bool strict)
{
    if (here.seccomp && (!strict || !here.relaxed))
        return true;
    print_message("skipped: %s\n", here.seccomp ? "a sanitizer build's seccomp allows more"
                                                : "no seccomp in this kernel");
    return false;
}

static void check_list(const struct attempt *list, size_t n, inside_fn fn)
{
    struct kernel kernels[LAST_ABI + 2];
    size_t count = kernels_here(true, kernels);
    unsigned wrong = 0;

    assert_true(n <= ATTEMPTS_MAX);
    for (size_t k = 0; k < count; k++) {
        struct inside *in;
        int status = run_inside(&kernels[k], fn, &in);

        assert_int_equal(in->entered, 0);
        assert_true(in->report.seccomp);
        if (kernels[k].landlock_most < here.landlock_abi)
            assert_int_equal(in->report.landlock_abi, kernels[k].landlock_most);
        wrong += compare(&kernels[k], list, n, in);
        assert_int_equal(status, 0);
        assert_true(in->ended);
        free_inside(in);
    }
    assert_int_equal(wrong, 0);
}

/* --- tests --- */

static void nothing_gets_out(void **state)
{
    char words[SANDBOX_WORDS];

    (void)state;
    sandbox_words(&here, words);
    print_message("in force: %s\n", words);
    assert_non_null(strstr(words, "seccomp"));
    assert_non_null(strstr(words, "Landlock"));
    assert_non_null(strstr(words, "processor time"));
    assert_true(here.no_new_privs);
    assert_true(here.cpu_seconds > 0);
    if (!here.relaxed)
        assert_true(here.memory_bytes > 0);
    if (here.seccomp || here.landlock_abi > 0)
        assert_true(here.files_refused);
    if (!have_seccomp(false))
        skip();
    assert_true(here.network_refused);
    assert_true(here.processes_refused);
}

static void try_allowed(struct inside *in, struct bench *b)
{
    try_list(in, b, allowed, COUNT(allowed));
}

static void what_decoding_needs_works(void **state)
{
    (void)state;
    if (!have_seccomp(true))
        skip();
    check_list(allowed, COUNT(allowed), try_allowed);
}

static void try_signals(struct inside *in, struct bench *b)
{
    try_list(in, b, signals, COUNT(signals));
}

static void a_bystander_lives(void **state)
{
    (void)state;
    if (!have_seccomp(false))
        skip();
    check_list(signals, COUNT(signals), try_signals);
}

static void try_refused(struct inside *in, struct bench *b)
{
    try_list(in, b, refused, COUNT(refused));
}

static void what_decoding_does_not_need_fails(void **state)
{
    (void)state;
    if (!have_seccomp(true))
        skip();
    check_list(refused, COUNT(refused), try_refused);
}

static bool is_allowed(long nr)
{
    for (size_t i = 0; i < COUNT(ending); i++)
        if (nr == ending[i])
            return true;
    for (size_t i = 0; i < COUNT(allowed); i++)
        if (nr == allowed[i].nr)
            return true;
    return false;
}

/* uretprobe and uprobe of x86: the kernel lets them past every filter, and ends whom they come from
 * unless it has put them there itself. */
static bool is_unfiltered(long nr)
{
#ifdef __x86_64__
    return nr == 335 || nr == 336;
#else
    (void)nr;
    return false;
#endif
}

/* With arguments that no call takes, should one be allowed after all. */
static void try_numbers(struct inside *in, struct bench *b)
{
    static const long nonsense[6] = {-1, -1, -1, -1, -1, -1};

    if (!in->report.seccomp)
        return;
    for (long nr = 0; nr < NUMBERS; nr++) {
        in->numbers[nr] =
            is_allowed(nr) || is_unfiltered(nr) ? EPERM : call_inside(nr, nonsense, b);
    }
}

static void every_other_number_fails(void **state)
{
    const struct kernel kernel = {0, true};
    struct inside *in;
    unsigned wrong = 0;

    (void)state;
    if (!have_seccomp(true))
        skip();
    assert_int_equal(run_inside(&kernel, try_numbers, &in), 0);
    for (int nr = 0; nr < NUMBERS; nr++) {
        if (in->numbers[nr] != EPERM) {
            print_error("system call %d: error %d\n", nr, in->numbers[nr]);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
    free_inside(in);
}

static void try_abort(struct inside *in, struct bench *b)
{
    (void)in;
    (void)b;
    abort();
}

static void it_can_still_abort(void **state)
{
    const struct kernel kernel = {NEWEST, true};
    struct inside *in;
    int status;

    (void)state;
    status = run_inside(&kernel, try_abort, &in);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    free_inside(in);
}

#ifdef __x86_64__
/* getpid by the table of x32, and of i386. */
static void try_x32(struct inside *in, struct bench *b)
{
    (void)b;
    in->got[0] = syscall(0x40000000 + SYS_getpid) > 0 ? 0 : errno;
}

static void try_i386(struct inside *in, struct bench *b)
{
    long rc;

    (void)b;
    __asm__ volatile("int $0x80" : "=a"(rc) : "a"(20L) : "memory");
    in->got[0] = (int)rc;
}

/* The numbers of another architecture mean other calls: the first one ends the process. */
static void other_tables_of_calls_are_closed(void **state)
{
    static const inside_fn tries[] = {try_x32, try_i386};
    const struct kernel kernel = {NEWEST, true};

    (void)state;
    if (!have_seccomp(false))
        skip();
    for (size_t i = 0; i < COUNT(tries); i++) {
        struct inside *in;
        int status = run_inside(&kernel, tries[i], &in);

        assert_int_equal(in->entered, 0);
        assert_int_equal(in->got[0], UNTRIED);
        assert_true(WIFSIGNALED(status));
        assert_false(in->ended);
        free_inside(in);
    }
}
#endif

/* Landlock alone. Signals are sent for real only where they must not arrive. */
enum {
    LL_FILE,
    LL_FOLDER,
    LL_MAKE,
    LL_REMOVE,
    LL_RUN,
    LL_TRUNCATE,
    LL_CONNECT,
    LL_BIND,
    LL_ABSTRACT,
    LL_KILL,
    LL_TGKILL,
    LL_COUNT,
};

static int connect_to(int type, const void *address, size_t len, bool binding)
{
    int fd = socket(((const struct sockaddr *)address)->sa_family, type, 0), rc;

    if (fd < 0)
        return errno;
    rc = binding ? bind(fd, address, (socklen_t)len) : connect(fd, address, (socklen_t)len);
    rc = rc == 0 ? 0 : errno;
    close(fd);
    return rc;
}

static void try_landlock(struct inside *in, struct bench *b)
{
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_port = htons(9)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    const struct attempt list[] = {
        [LL_FILE] = {CALL(openat), {AT_FDCWD, PATH_PASSWD, O_RDONLY}, 0},
        [LL_FOLDER] = {CALL(openat), {AT_FDCWD, PATH_ROOT, O_RDONLY | O_DIRECTORY}, 0},
        [LL_MAKE] = {CALL(mkdirat), {AT_FDCWD, PATH_NEW, 0700}, 0},
        [LL_REMOVE] = {CALL(unlinkat), {AT_FDCWD, PATH_OURS, 0}, 0},
        [LL_RUN] = {CALL(execve), {PATH_TRUE, NO_ARGS, NO_ARGS}, 0},
        [LL_TRUNCATE] = {CALL(truncate), {PATH_OURS, 0}, 0},
        [LL_KILL] = {CALL(kill), {BYSTANDER, SIGKILL}, 0},
        [LL_TGKILL] = {CALL(tgkill), {BYSTANDER, BYSTANDER, SIGKILL}, 0},
    };

    close(0); /* else the limit on open files would answer */
    for (int i = 0; i <= LL_REMOVE; i++)
        in->got[i] = call_inside(list[i].nr, list[i].args, b);
    if (in->report.landlock_abi >= 3)
        in->got[LL_TRUNCATE] = call_inside(list[LL_TRUNCATE].nr, list[LL_TRUNCATE].args, b);
    tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(local.sun_path + 1, "nightshift-test-sandbox", 23);
    if (in->report.landlock_abi >= 4) {
        in->got[LL_CONNECT] = connect_to(SOCK_STREAM, &tcp, sizeof(tcp), false);
        in->got[LL_BIND] = connect_to(SOCK_STREAM, &tcp, sizeof(tcp), true);
    }
    if (in->report.landlock_abi >= 6) {
        in->got[LL_ABSTRACT] =
            connect_to(SOCK_STREAM, &local, offsetof(struct sockaddr_un, sun_path) + 24, false);
        in->got[LL_KILL] = call_inside(list[LL_KILL].nr, list[LL_KILL].args, b);
        in->got[LL_TGKILL] = call_inside(list[LL_TGKILL].nr, list[LL_TGKILL].args, b);
    }
    in->got[LL_RUN] = call_inside(list[LL_RUN].nr, list[LL_RUN].args, b);
}

static void landlock_alone_holds_what_its_version_can(void **state)
{
    /* From which version on, and with which error. The abstract socket is anybody's: it listens
     * outside. */
    static const struct {
        uint32_t since;
        int error;
    } promised[LL_COUNT] = {
        [LL_FILE] = {1, EACCES},    [LL_FOLDER] = {1, EACCES}, [LL_MAKE] = {1, EACCES},
        [LL_REMOVE] = {1, EACCES},  [LL_RUN] = {1, EACCES},    [LL_TRUNCATE] = {3, EACCES},
        [LL_CONNECT] = {4, EACCES}, [LL_BIND] = {4, EACCES},   [LL_ABSTRACT] = {6, EPERM},
        [LL_KILL] = {6, EPERM},     [LL_TGKILL] = {6, EPERM},
    };
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct kernel kernels[LAST_ABI + 2];
    size_t count = kernels_here(false, kernels);
    int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    unsigned wrong = 0;

    (void)state;
    if (here.landlock_abi == 0) {
        print_message("skipped: no Landlock in this kernel (%s)\n", here.no_landlock);
        skip();
    }
    memcpy(local.sun_path + 1, "nightshift-test-sandbox", 23);
    (void)bind(listening, (struct sockaddr *)&local, offsetof(struct sockaddr_un, sun_path) + 24);
    listen(listening, 8);
    for (size_t k = 0; k + 1 < count; k++) { /* the last one has no Landlock either */
        struct inside *in;
        int status = run_inside(&kernels[k], try_landlock, &in);

        assert_int_equal(in->entered, 0);
        assert_false(in->report.seccomp);
        assert_string_equal(in->report.no_seccomp, "not in this kernel");
        for (int i = 0; i < LL_COUNT; i++) {
            if (in->report.landlock_abi >= promised[i].since && in->got[i] != promised[i].error) {
                print_error("Landlock %u alone, attempt %d: error %d\n", in->report.landlock_abi, i,
                            in->got[i]);
                wrong++;
            }
        }
        assert_int_equal(status, 0);
        assert_true(in->ended);
        free_inside(in);
    }
    close(listening);
    assert_int_equal(wrong, 0);
}

static void look_only(struct inside *in, struct bench *b)
{
    (void)in;
    (void)b;
}

/* The report of each kernel, and what is made of it. */
static void a_missing_layer_is_said(void **state)
{
    const struct {
        struct kernel kernel;
        int refused, accepted;
        const char *words, *warning;
    } cases[] = {
        {{NEWEST, true}, 0, 0, "seccomp", ""},
        {{2, true}, 0, 0, "Landlock 2, seccomp", ""},
        {{0, true}, 0, 0, "no Landlock (not in this kernel), seccomp", "without Landlock (not in"},
        {{2, false}, 0, 0, "Landlock 2, no seccomp (not in this kernel)", "your other processes"},
        {{6, false}, 0, 0, "Landlock 6, no seccomp", "not from every socket"},
        {{0, false},
         ERR_DENIED,
         0,
         "no Landlock (not in this kernel), no seccomp (not",
         "whatever"},
    };

    (void)state;
    if (here.landlock_abi < 6 || !have_seccomp(false)) {
        print_message("skipped: Landlock %u\n", here.landlock_abi);
        skip();
    }
    for (size_t i = 0; i < COUNT(cases); i++) {
        char words[SANDBOX_WORDS], warning[SANDBOX_WORDS] = "untouched";
        struct err err = {0};
        struct inside *in;

        assert_int_equal(run_inside(&cases[i].kernel, look_only, &in), 0);
        sandbox_words(&in->report, words);
        assert_non_null(strstr(words, cases[i].words));
        assert_int_equal(sandbox_judge(&in->report, false, warning, &err), cases[i].refused);
        if (cases[i].refused != 0) {
            assert_string_equal(warning, "untouched");
            assert_non_null(strstr(err.msg, "--allow-unsandboxed"));
        }
        assert_int_equal(sandbox_judge(&in->report, true, warning, &err), cases[i].accepted);
        if (cases[i].warning[0] == '\0')
            assert_string_equal(warning, "");
        assert_non_null(strstr(warning, cases[i].warning));
        free_inside(in);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup(nothing_gets_out, look_around),
    cmocka_unit_test_setup(what_decoding_needs_works, look_around),
    cmocka_unit_test_setup(a_bystander_lives, look_around),
    cmocka_unit_test_setup(what_decoding_does_not_need_fails, look_around),
    cmocka_unit_test_setup(every_other_number_fails, look_around),
    cmocka_unit_test_setup(it_can_still_abort, look_around),
#ifdef __x86_64__
    cmocka_unit_test_setup(other_tables_of_calls_are_closed, look_around),
#endif
    cmocka_unit_test_setup(landlock_alone_holds_what_its_version_can, look_around),
    cmocka_unit_test_setup(a_missing_layer_is_said, look_around),
};

MEDIA_TEST_MAIN(tests)
