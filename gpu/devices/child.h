/* gpu/devices/child.h - runs a program that may crash, hang or talk without end, and gets back what
 * it said.
 *
 * The program has empty standard input. Any thread, unless something else reaps children. */
#ifndef NIGHTSHIFT_GPU_DEVICES_CHILD_H
#define NIGHTSHIFT_GPU_DEVICES_CHILD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

#define CHILD_WORDS 240
#define CHILD_MOST 64u /* at once */

struct child_options {
    const char *program;               /* a path; NULL: this program */
    const char *const *argv;           /* ends with NULL; argv[0] is what it is called */
    int64_t limit_ms;                  /* then it is killed, with its process group */
    size_t max_bytes;                  /* of standard output; more kills it, too */
    const volatile sig_atomic_t *stop; /* NULL, or: kill it when this is set */
};

struct child_result {
    struct buf out;          /* standard output; buf_free it */
    char words[CHILD_WORDS]; /* the last line of standard error that has any, printable; "" */
    int status;              /* as of waitpid; -1: it could not be learnt */
    bool timed_out, too_much, stopped;
};

/* *ret is filled when it returns 0: the program was started, however it ended. */
int child_run(const struct child_options *o, struct child_result *ret, struct err *err);
/* The same with n programs at once, CHILD_MOST at most: returns when each has ended. All or none of
 * ret[0 .. n) is filled. */
int child_run_all(const struct child_options *o, struct child_result *ret, size_t n,
                  struct err *err);
/* "crashed (signal 11, Segmentation fault)", "left with status 3", "did not answer within 60 s",
 * ...; "" when it ended in order. */
void child_fate(const struct child_options *o, const struct child_result *r, char *ret, size_t cap);

#endif
