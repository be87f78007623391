/* tests/common/nomem.h - memory that runs out in our own code: a test that names ns_nomem among its
 * LIBS is linked so that the allocations of its own objects and of our libraries (not those of
 * other people's) can be made to fail. Any thread may allocate; one arms. */
#ifndef NIGHTSHIFT_TESTS_COMMON_NOMEM_H
#define NIGHTSHIFT_TESTS_COMMON_NOMEM_H

#include <stdbool.h>

struct err;

/* The nth allocation from now on fails, once. */
void nomem_fail(long nth);
/* None fails any more. True when one did since nomem_fail. */
bool nomem_end(void);

/* Calls `call` with its 1st, 2nd, 3rd ... allocation failing, until none was left to fail. Those
 * must give ERR_NOMEM with a sentence (or ERR_VRAM, where it was a device's memory), the last one
 * 0; whatever `call` made it frees, after an
 * error too, so that AddressSanitizer's build sees what is lost and what is freed twice. Behind the
 * first three hundred they are thinned out; NIGHTSHIFT_FAULTS_ALL=1 takes every one. Returns how
 * many allocations there were, about. */
long nomem_each(int (*call)(void *arg, struct err *err), void *arg);

#endif
