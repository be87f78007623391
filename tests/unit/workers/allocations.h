/* tests/unit/workers/allocations.h - memory that runs out, in our own code: for programs that are
 * linked with --wrap=malloc,--wrap=calloc,--wrap=realloc. */
#ifndef NIGHTSHIFT_TESTS_UNIT_WORKERS_ALLOCATIONS_H
#define NIGHTSHIFT_TESTS_UNIT_WORKERS_ALLOCATIONS_H

/* The nth allocation from now on fails, once. */
void allocations_fail(long nth);

#endif
