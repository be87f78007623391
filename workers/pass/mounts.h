/* workers/pass/mounts.h - disks and shares that do not answer. Opening a file on one may hang, and
 * a decoder that reads it cannot be killed. One thread waits for a bounded time; then everybody
 * leaves the mount alone for a while. One state for the process; any thread. */
#ifndef NIGHTSHIFT_WORKERS_PASS_MOUNTS_H
#define NIGHTSHIFT_WORKERS_PASS_MOUNTS_H

#include <stdint.h>

#include "base/err.h"

/* Opens a file for reading, without waiting for a FIFO. The caller owns *ret. ERR_STALLED: its
 * mount did not answer in time, which sets the mount apart, or it is apart already; else the errors
 * of open. */
int mounts_open(const char *path, int *ret, struct err *err);
/* Sets the path's mount apart, because it does not answer. *err says so (ERR_STALLED). */
int mounts_put_apart(const char *path, struct err *err);
/* Replaces, in tests, how long an open may take, and how long a mount stays apart. */
void mounts_set_patience(int64_t open_ms, int64_t apart_ms);

#endif
