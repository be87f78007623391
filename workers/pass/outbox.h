/* workers/pass/outbox.h - the frames on their way to the scheduler.
 *
 * Any thread posts, the control thread sends: a scheduler that is busy never stops the engine. No
 * bound of its own: the scheduler's leases bound the messages. Its lock is the innermost one. */
#ifndef NIGHTSHIFT_WORKERS_PASS_OUTBOX_H
#define NIGHTSHIFT_WORKERS_PASS_OUTBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct outbox {
    pthread_mutex_t lock;
    struct buf bytes;
    int wake_fd;     /* readable when something was posted */
    bool broken;     /* a frame was lost for lack of memory: the worker must leave */
    uint64_t shards; /* results posted so far */
};

int outbox_open(struct outbox *o, struct err *err);
void outbox_close(struct outbox *o);

/* Posts payload as one frame and frees it. */
void outbox_post(struct outbox *o, uint8_t type, struct buf *payload);
void outbox_wake(struct outbox *o);

/* Sends what the socket takes without waiting. 0; ERR_IO: the scheduler is gone; ERR_NOMEM: broken.
 * *left: bytes that still wait; *shards: results posted, all of them sent when *left is 0. */
int outbox_flush(struct outbox *o, int fd, size_t *left, uint64_t *shards, struct err *err);

#endif
