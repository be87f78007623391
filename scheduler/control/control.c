#include "scheduler/control/control.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/control/control_socket.h"
#include "workers/wire/frame.h"

/* The run answers between commits; a commit may wait for a full disk for a minute, and a request of
 * some million rows takes minutes. A run that has died is learnt at once. */
#define ANSWER_MS 900000
#define STATUS_MS 10000 /* the catalog tells most of it, too */

struct control {
    int fd;
    struct frame_reader in;
};

int control_connect(const char *catalog, struct control **ret, struct err *err)
{
    struct control_path path;
    struct control *c;
    int rc, fd = -1;

    rc = control_path_open(catalog, &path, err);
    if (rc == ERR_MISSING)
        return err_set(err, ERR_EMPTY, "no run is active");
    if (rc)
        return rc;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        rc = err_sys(err, errno, "a socket");
        goto out;
    }
    if (connect(fd, (const struct sockaddr *)&path.addr, sizeof(path.addr)) != 0) {
        /* A socket that nobody listens on was left by a run that was killed. */
        if (errno == ENOENT || errno == ECONNREFUSED)
            rc = err_set(err, ERR_EMPTY, "no run is active");
        else
            rc = err_sys(err, errno, "the run's socket");
        goto out;
    }
    rc = control_peer_check(fd, err);
    if (rc)
        goto out;
    c = calloc(1, sizeof(*c));
    if (!c) {
        rc = err_set(err, ERR_NOMEM, "no memory");
        goto out;
    }
    c->fd = fd;
    fd = -1;
    *ret = c;
out:
    if (fd >= 0)
        close(fd);
    control_path_close(&path);
    return rc;
}

/* One frame out, one frame in; an error that the run reports is returned as such. */
static int exchange_frames(struct control *c, uint8_t type, struct buf *payload, uint8_t wanted,
                           int timeout_ms, struct frame *ret, struct err *err)
{
    int rc;

    if (payload->failed)
        rc = err_set(err, ERR_NOMEM, "no memory for the request");
    else
        rc = frame_write_fd(c->fd, type, payload->data, payload->len, err);
    buf_free(payload);
    /* A run that does not listen to this connection any more has said why. */
    if (rc == 0 || rc == ERR_IO)
        rc = frame_read_fd(c->fd, &c->in, rc ? 0 : timeout_ms, ret, err);
    if (rc == ERR_EMPTY || rc == ERR_IO)
        return err_set(err, ERR_TIMEOUT, "the run ended before it answered; try again");
    if (rc)
        return err_prefix(err, "asking the run");
    if (ret->type == CONTROL_ERROR)
        return control_error_get(ret->payload, ret->len, err);
    if (ret->type != wanted)
        return err_set(err, ERR_PROTOCOL, "the run's answer is not understood");
    return 0;
}

int control_request(struct control *c, const struct request *rq, struct request_reply *ret,
                    struct err *err)
{
    struct buf b = BUF_INIT;
    struct frame f = {0};
    int rc;

    request_put(&b, rq);
    rc = exchange_frames(c, CONTROL_REQUEST, &b, CONTROL_REPLY, ANSWER_MS, &f, err);
    return rc ? rc : request_reply_get(f.payload, f.len, ret, err);
}

int control_status(struct control *c, struct control_live *ret, struct err *err)
{
    struct buf b = BUF_INIT;
    struct frame f = {0};
    int rc = exchange_frames(c, CONTROL_STATUS, &b, CONTROL_LIVE, STATUS_MS, &f, err);

    return rc ? rc : control_live_get(f.payload, f.len, ret, err);
}

bool control_look(const char *catalog, struct control_live *ret)
{
    struct control *c = NULL;
    struct err none = {0};
    bool on;

    if (control_connect(catalog, &c, &none) != 0)
        return false;
    on = control_status(c, ret, &none) == 0;
    control_close(c);
    return on;
}

void control_close(struct control *c)
{
    if (!c)
        return;
    close(c->fd);
    frame_reader_free(&c->in);
    free(c);
}
