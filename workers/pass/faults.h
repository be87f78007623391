/* workers/pass/faults.h - faults on demand, so that tests can see what the scheduler
 * does.
 *
 * $NIGHTSHIFT_FAULT holds one or several of these, separated by commas:
 *
 *   crash-on-path:TEXT   SIGKILL oneself when a recording whose path or member holds TEXT begins
 *   hang-on-path:TEXT    at that moment the whole worker falls silent: no heartbeat any more
 *   stall-on-path:TEXT   the engine stops at its next step; heartbeats go on, their beat does not
 *   exit-after-shards:N  leave with status 1 once N results were sent
 *   device-after-shards:N  the engine reports a lost device after N results
 *   slow-step:MS         every step of the engine takes so much longer
 *
 * With $NIGHTSHIFT_FAULT_ONCE naming a file, a fault that ends or stops the worker happens only if
 * that file does not exist yet, and creates it: the next worker is spared. Read once at the start;
 * no other part of the worker reads the environment for tests. Any thread may ask afterwards. */
#ifndef NIGHTSHIFT_WORKERS_PASS_FAULTS_H
#define NIGHTSHIFT_WORKERS_PASS_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

struct faults {
    char crash[256], hang[256], stall[256]; /* "": none */
    int64_t exit_after, device_after;       /* -1: never */
    uint32_t slow_ms;
    char once[4096]; /* "": every time */
};

/* From the values of the two variables, NULL when they are not set. Unreadable entries are ignored:
 * a test with a typing error fails by itself. */
void faults_read(const char *fault, const char *once, struct faults *ret);

enum fault_kind { FAULT_NONE, FAULT_CRASH, FAULT_HANG, FAULT_STALL };
/* The fault that is due when this recording begins; creates the file of $NIGHTSHIFT_FAULT_ONCE. */
enum fault_kind faults_on_recording(const struct faults *f, const char *path, const char *member);
bool faults_exit_now(const struct faults *f, uint64_t shards_sent);
bool faults_device_now(const struct faults *f, uint64_t shards_done);

#endif
