/* tests/unit/scheduler/fake_finalizer.h - `nightshift finalize` as the fake worker plays it. */
#ifndef NIGHTSHIFT_TESTS_UNIT_SCHEDULER_FAKE_FINALIZER_H
#define NIGHTSHIFT_TESTS_UNIT_SCHEDULER_FAKE_FINALIZER_H

/* Speaks on WORKER_SOCKET_FD until it is told to leave; the exit status. */
int fake_finalizer(void);

#endif
