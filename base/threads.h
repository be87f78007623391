/* base/threads.h - the same work on many parts, on several threads.
 *
 * The parts do not depend on the number of threads, so neither do their results. */
#ifndef NIGHTSHIFT_BASE_THREADS_H
#define NIGHTSHIFT_BASE_THREADS_H

#include <stdint.h>

/* More gain little, and others want the processor, too. */
#define THREADS_MOST 16u

/* cpu_threads, at most THREADS_MOST. */
uint32_t threads_available(void);

/* Calls work(arg, part) for each part below `parts` once, in any order, from at most `threads`
 * threads (0: 1), the caller's among them; returns when all have returned. Work must not allocate:
 * each thread would get an arena of its own from the C library. A thread that cannot be made is
 * done without. */
void threads_run(uint32_t threads, uint32_t parts, void (*work)(void *arg, uint32_t part),
                 void *arg);

#endif
