/* workers/pass/mounts.h - disks and shares that do not answer. A file on one cannot be opened, or a
 * decoder that reads it cannot be killed; who opens there waits so long alone, and everybody else
 * leaves it alone for a while. Of the process; any thread. */
#ifndef NIGHTSHIFT_WORKERS_PASS_MOUNTS_H
#define NIGHTSHIFT_WORKERS_PASS_MOUNTS_H

#include <stdint.h>

#include "base/err.h"

/* Opens it for reading, without waiting for a FIFO. *ret is the caller's. ERR_STALLED: what it lies
 * on did not answer in time, which sets that apart, or is apart already; else as open's. */
int mounts_open(const char *path, int *ret, struct err *err);
/* What the path lies on does not answer: it is set apart, and *err says so (ERR_STALLED). */
int mounts_put_apart(const char *path, struct err *err);
/* Replaces how long an open may take, and how long a mount stays apart. For tests. */
void mounts_set_patience(int64_t open_ms, int64_t apart_ms);

#endif
