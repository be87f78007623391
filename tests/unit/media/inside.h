/* tests/unit/media/inside.h - a process in a decoder's sandbox that tries things, as on this kernel
 * or on an older one, beside a bystander: a process of the same user that must live.
 *
 * An older Landlock is the wish's; a kernel without seccomp is a filter around it all that answers
 * as such a kernel does. */
#ifndef NIGHTSHIFT_TESTS_MEDIA_INSIDE_H
#define NIGHTSHIFT_TESTS_MEDIA_INSIDE_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "workers/media/sandbox.h"

#define NEWEST UINT32_MAX
#define NUMBERS 600
#define ATTEMPTS_MAX 160
#define UNTRIED (-1)

struct kernel {
    uint32_t landlock_most;
    bool seccomp;
};

/* In the place of what is known when the process runs. */
enum {
    SELF = -1000,
    BYSTANDER,
    PIDFD, /* the bystander's, opened before the doors were closed */
    ZEROS,
    PAGE,
    MESSAGE,
    NOW, /* a timespec of nothing */
    PATH_PASSWD,
    PATH_ROOT,
    PATH_TRUE,
    PATH_OURS,
    PATH_NEW,
    NO_ARGS,
    OWNER, /* a struct f_owner_ex of the bystander */
    BYSTANDER_PTR,
};

struct attempt {
    const char *name;
    long nr;
    long args[6];
    int want; /* 0: it works; else its errno */
};

#define CALL(call) #call, SYS_##call

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/* Shared with the test. */
struct inside {
    pid_t bystander;
    int entered; /* as sandbox_enter */
    struct sandbox_report report;
    int got[ATTEMPTS_MAX]; /* errno of each, 0, or UNTRIED */
    int numbers[NUMBERS];
    bool ended;
};

struct bench { /* what attempts point to */
    char zeros[4096];
    void *page;
    struct msghdr message;
    struct iovec part;
    struct timespec now;
    struct f_owner_ex owner;
    int bystander;
    int pidfd;
    char *no_args[1];
};

typedef void (*inside_fn)(struct inside *in, struct bench *b);

/* Runs fn in a sandbox of that kernel, in a process of its own, and fails the test unless the
 * bystander lives. Returns the wait status; *ret is to be freed. */
int run_inside(const struct kernel *kernel, inside_fn fn, struct inside **ret);
void free_inside(struct inside *in);

/* For fn: one call, with the placeholders filled in. Its errno, or 0. */
int call_inside(long nr, const long args[6], struct bench *b);

#endif
