/* workers/media/sandbox.h - how a decoder process is locked in before it sees untrusted bytes.
 *
 * Each layer holds alone where the kernel lacks another: rlimits (always), no new privileges and no
 * capabilities, Landlock (no file may be opened), seccomp (system calls that decoding needs, with
 * the arguments that it needs; all others fail with EPERM: libraries that ask for a processor count
 * take that well, a kill would not). Rlimits alone do not hold: without Landlock and seccomp
 * nothing is parsed that the user has not said to (sandbox_judge). Under the sanitizers the address
 * space is not limited and seccomp refuses a list of calls instead of allowing one; the report says
 * so. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_SANDBOX_H
#define NIGHTSHIFT_WORKERS_MEDIA_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define SANDBOX_WORDS 320
#define SANDBOX_WHY 64

struct sandbox_wish {
    uint32_t parent_pid; /* who must stay alive (its thread that started us, by PR_SET_PDEATHSIG) */
    int socket;          /* to the parent */
    uint64_t memory_bytes, cpu_seconds;
    uint32_t landlock_most; /* no later version of Landlock than this, as in an older kernel: for
                               tests; else UINT32_MAX */
};

struct sandbox_report {
    bool no_new_privs;
    bool relaxed;          /* a sanitizer build */
    uint32_t landlock_abi; /* 0: not in force */
    bool seccomp;
    char no_landlock[SANDBOX_WHY], no_seccomp[SANDBOX_WHY]; /* why not; "" where it is in force */
    uint64_t memory_bytes, cpu_seconds;                     /* 0: not limited */
    /* Tried from inside, once locked in: */
    bool files_refused, network_refused, processes_refused;
};

/* Locks the calling process in, for good; it keeps the descriptors it has and gets no more. Fails
 * only when an rlimit cannot be set, the parent is gone, or memory is short. Single-threaded
 * callers only. */
int sandbox_enter(const struct sandbox_wish *wish, struct sandbox_report *ret, struct err *err);

/* Tries calls that must fail inside and notes the results. Only a sandboxed process may call it:
 * elsewhere it would really start a process. Closes standard input. */
void sandbox_try(struct sandbox_report *report);

/* Reports the layers in force on this machine: starts a decoder process, sandboxes it and lets it
 * try. Any thread. Uses the shared fork server, if there is one, with the decoders' libraries; else
 * runs without them, which takes a fifth of the time. */
int sandbox_check(struct sandbox_report *ret, struct err *err);

/* The layers in words. */
void sandbox_words(const struct sandbox_report *r, char ret[SANDBOX_WORDS]);

/* May media be parsed under these layers? ERR_DENIED where neither Landlock nor seccomp is in
 * force, unless the user said that this is well (unsandboxed). warning: which layer is missing, ""
 * when none is. */
int sandbox_judge(const struct sandbox_report *r, bool unsandboxed, char warning[SANDBOX_WORDS],
                  struct err *err);

/* sandbox_check and sandbox_judge, for a command that is about to have media parsed. */
int sandbox_demand(bool unsandboxed, char warning[SANDBOX_WORDS], struct err *err);

#endif
