#include "workers/pass/state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/utf8.h"
#include "workers/wire/frame.h"

/* ---- the outbox */

int outbox_open(struct outbox *o, struct err *err)
{
    *o = (struct outbox){.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (o->wake_fd < 0)
        return err_sys(err, errno, "make an eventfd");
    pthread_mutex_init(&o->lock, NULL);
    return 0;
}

void outbox_close(struct outbox *o)
{
    if (o->wake_fd < 0)
        return;
    close(o->wake_fd);
    o->wake_fd = -1;
    buf_free(&o->bytes);
    pthread_mutex_destroy(&o->lock);
}

void outbox_wake(struct outbox *o)
{
    uint64_t one = 1;

    /* A full counter fails with EAGAIN, and then the fd is readable anyway. */
    if (write(o->wake_fd, &one, sizeof(one)) < 0)
        return;
}

void outbox_post(struct outbox *o, uint8_t type, struct buf *payload)
{
    pthread_mutex_lock(&o->lock);
    if (payload->failed)
        o->broken = true;
    else
        frame_put(&o->bytes, type, payload->data, payload->len);
    if (o->bytes.failed)
        o->broken = true;
    if (type == MSG_SHARD_DONE)
        o->shards++;
    pthread_mutex_unlock(&o->lock);
    buf_free(payload);
    outbox_wake(o);
}

int outbox_flush(struct outbox *o, int fd, size_t *left, uint64_t *shards, struct err *err)
{
    int rc = 0;

    pthread_mutex_lock(&o->lock);
    if (o->broken)
        rc = err_set(err, ERR_NOMEM, "no memory to report a result");
    while (rc == 0 && o->bytes.len) {
        ssize_t n = send(fd, o->bytes.data, o->bytes.len, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0)
            buf_consume(&o->bytes, (size_t)n);
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            break;
        else if (errno != EINTR)
            rc = err_set(err, ERR_IO, "the scheduler is gone");
    }
    *left = o->bytes.len;
    *shards = o->shards;
    pthread_mutex_unlock(&o->lock);
    return rc;
}

/* ---- what is said to all */

void worker_changed(struct worker *w)
{
    w->changes++;
    pthread_cond_broadcast(&w->work);
    pthread_cond_broadcast(&w->room);
}

char *worker_sentence(const struct err *e)
{
    size_t n = strlen(e->msg);

    return utf8_valid(e->msg, n) ? strdup(e->msg) : utf8_repair(e->msg, n);
}

void worker_post_fatal(struct worker *w, const struct err *why)
{
    struct buf b = BUF_INIT;
    char *sentence = worker_sentence(why);
    struct msg_fatal m = {.code = why->code, .message = sentence};

    msg_fatal_put(&b, &m);
    outbox_post(&w->out, MSG_FATAL, &b);
    free(sentence);
}
