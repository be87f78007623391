/* workers/media/sandbox.h - how a decoder process is locked in before it sees untrusted bytes.
 *
 * Each layer holds alone where the kernel lacks another: rlimits (always), no new privileges and no
 * capabilities, Landlock (no file may be opened), seccomp (system calls that decoding needs, all
 * others fail with EPERM: libraries that ask for a processor count take that well, a kill would
 * not). Under the sanitizers the address space is not limited and seccomp refuses a list of calls
 * instead of allowing one; the report says so. */
#ifndef NIGHTSHIFT_WORKERS_MEDIA_SANDBOX_H
#define NIGHTSHIFT_WORKERS_MEDIA_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct sandbox_report {
    bool no_new_privs;
    bool relaxed;          /* a sanitizer build */
    uint32_t landlock_abi; /* 0: not in force */
    bool seccomp;
    uint64_t memory_bytes, cpu_seconds; /* 0: not limited */
    /* Tried from inside, once locked in: */
    bool files_refused, network_refused, processes_refused;
    char text[320]; /* the same in words, and why a layer is missing */
};

/* Locks the calling process in, for good; it keeps the descriptors it has and gets no more.
 * parent_pid is who must stay alive (its thread that started us, by PR_SET_PDEATHSIG). Fails only
 * when an rlimit cannot be set or the parent is gone. Single-threaded callers only. */
int sandbox_enter(uint32_t parent_pid, uint64_t memory_bytes, uint64_t cpu_seconds,
                  struct sandbox_report *ret, struct err *err);

/* Tries what must fail inside and notes the answers. For a process that is locked in: outside, it
 * would really start one. */
void sandbox_try(struct sandbox_report *report);

/* What is in force on this machine: starts a decoder process, locks it in and lets it try. For
 * `nightshift doctor` and the tests; any thread. */
int sandbox_check(struct sandbox_report *ret, struct err *err);

#endif
