#include "scheduler/control/control_server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "scheduler/control/control_socket.h"
#include "workers/wire/frame.h"

struct client {
    uv_pipe_t pipe;
    uv_timer_t timer;
    uv_write_t req;
    struct control_server *server;
    struct client *next;
    struct buf in, out;
    struct request rq; /* while it is worked on */
    struct request_work *work;
    int open_handles;
    uint64_t since_ms; /* of the loop: it came, or had its last answer */
    bool working, answering, closing, enqueuing, leave; /* leave: close after this answer */
};

struct control_server {
    uv_pipe_t listener;
    uv_loop_t *loop;
    struct control_path path;
    struct control_handler h;
    struct client *clients;
    bool stopping, listener_closed;
};

static void server_release(struct control_server *s)
{
    if (!s->stopping || !s->listener_closed || s->clients)
        return;
    control_path_close(&s->path);
    free(s);
}

static void on_client_closed(uv_handle_t *handle)
{
    struct client *c = handle->data, **p;
    struct control_server *s = c->server;

    if (--c->open_handles)
        return;
    for (p = &s->clients; *p; p = &(*p)->next)
        if (*p == c) {
            *p = c->next;
            break;
        }
    buf_free(&c->in);
    buf_free(&c->out);
    free(c);
    server_release(s);
}

static void client_close(struct client *c)
{
    if (c->closing)
        return;
    c->closing = true;
    c->working = c->enqueuing = false;
    request_work_free(c->work);
    c->work = NULL;
    request_free(&c->rq);
    uv_close((uv_handle_t *)&c->timer, on_client_closed);
    uv_close((uv_handle_t *)&c->pipe, on_client_closed);
}

static void on_slow(uv_timer_t *timer)
{
    log_warn("a command on the run's socket does not take its answer; closing it");
    client_close(timer->data);
}

static void say_and_leave(struct client *c, const struct err *err);

/* It has told nobody what it wants for too long: a command that hangs, or no command at all. Ours
 * come again when they have something to ask. */
static void on_silent(uv_timer_t *timer)
{
    struct client *c = timer->data;
    struct err err = {0};

    err_set(&err, ERR_TIMEOUT, "the run waited %u s for a request and closed the connection",
            c->server->h.patience_ms / 1000);
    say_and_leave(c, &err);
}

static void on_alloc(uv_handle_t *handle, size_t want, uv_buf_t *buf)
{
    struct client *c = handle->data;
    uint8_t *p = buf_reserve(&c->in, 65536);

    (void)want;
    *buf = uv_buf_init((char *)p, p ? 65536 : 0);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);
static void client_serve(struct client *c);

/* Begins to wait for its next request, or goes on to. Between the parts of an enqueue a walk
 * through a slow archive may take any time; a part that has begun may not. */
static void start_silence_timer(struct client *c)
{
    if (!c->working && !c->answering && !c->closing && (!c->enqueuing || c->in.len) &&
        !uv_is_active((uv_handle_t *)&c->timer))
        uv_timer_start(&c->timer, on_silent, c->server->h.patience_ms, 0);
}

static void on_answered(uv_write_t *req, int status)
{
    struct client *c = req->data;

    c->answering = false;
    if (c->closing)
        return;
    uv_timer_stop(&c->timer);
    buf_clear(&c->out);
    if (status < 0 || c->leave) {
        client_close(c);
        return;
    }
    if (uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) != 0) {
        client_close(c);
        return;
    }
    c->since_ms = uv_now(c->server->loop);
    client_serve(c); /* what it had sent already */
    start_silence_timer(c);
}

static void send_answer(struct client *c, uint8_t type, const struct buf *payload)
{
    uv_buf_t b;

    if (payload->failed) {
        client_close(c);
        return;
    }
    frame_put(&c->out, type, payload->data, payload->len);
    if (c->out.failed) {
        client_close(c);
        return;
    }
    b = uv_buf_init((char *)c->out.data, (unsigned)c->out.len);
    c->req.data = c;
    c->answering = true;
    uv_read_stop((uv_stream_t *)&c->pipe);
    uv_timer_start(&c->timer, on_slow, c->server->h.patience_ms, 0);
    if (uv_write(&c->req, (uv_stream_t *)&c->pipe, &b, 1, on_answered) != 0) {
        c->answering = false;
        client_close(c);
    }
}

static void answer_error(struct client *c, const struct err *err)
{
    struct buf b = BUF_INIT;

    control_error_put(&b, err);
    send_answer(c, CONTROL_ERROR, &b);
    buf_free(&b);
}

static void say_and_leave(struct client *c, const struct err *err)
{
    c->leave = true;
    answer_error(c, err);
}

static void on_go_on(uv_timer_t *timer);

/* One piece of the client's request. */
static void process_request_piece(struct client *c)
{
    struct request_reply reply = {0};
    struct buf b = BUF_INIT;
    struct err err = {0};
    int rc = c->server->h.request(c->server->h.arg, &c->rq, &c->work, &reply, &err);

    c->working = rc > 0;
    if (rc > 0) {
        uv_read_stop((uv_stream_t *)&c->pipe);
        uv_timer_start(&c->timer, on_go_on, rc == 2 ? CONTROL_AGAIN_MS : 0, 0);
        return;
    }
    if (rc == 0 && c->rq.type == REQUEST_ENQUEUE_BEGIN)
        c->enqueuing = true;
    if (c->rq.type == REQUEST_ENQUEUE_END)
        c->enqueuing = false;
    request_work_free(c->work);
    c->work = NULL;
    request_free(&c->rq);
    if (rc) {
        answer_error(c, &err);
        return;
    }
    request_reply_put(&b, &reply);
    send_answer(c, CONTROL_REPLY, &b);
    buf_free(&b);
}

static void on_go_on(uv_timer_t *timer) { process_request_piece(timer->data); }

static void serve_request(struct client *c, const struct frame *f)
{
    struct err err = {0};

    if (request_get(f->payload, f->len, &c->rq, &err)) {
        say_and_leave(c, &err);
        return;
    }
    process_request_piece(c);
}

static void serve_status(struct client *c)
{
    struct control_live live = {0};
    struct buf b = BUF_INIT;

    c->server->h.status(c->server->h.arg, &live);
    control_live_put(&b, &live);
    send_answer(c, CONTROL_LIVE, &b);
    buf_free(&b);
}

/* Takes the next question, if there is a whole one and no answer is on its way. */
static void client_serve(struct client *c)
{
    struct err err = {0};
    struct frame f;
    size_t used;
    int rc;

    if (c->working || c->answering || c->closing)
        return;
    rc = frame_take(c->in.data, c->in.len, &f, &used, &err);
    if (rc == ERR_EMPTY)
        return;
    if (rc == 0 && f.type == CONTROL_REQUEST) {
        serve_request(c, &f);
    } else if (rc == 0 && f.type == CONTROL_STATUS) {
        serve_status(c);
    } else {
        if (rc == 0)
            err_set(&err, ERR_PROTOCOL, "the run does not know message %u", f.type);
        used = c->in.len;
        say_and_leave(c, &err);
    }
    buf_consume(&c->in, used);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct client *c = stream->data;

    (void)buf;
    if (n == 0)
        return;
    if (n < 0) {
        client_close(c);
        return;
    }
    c->in.len += (size_t)n;
    client_serve(c);
    start_silence_timer(c);
}

/* Room for a newcomer: who has been idle longest goes. False: all are at work. */
static bool make_room(struct control_server *s, const struct client *newcomer)
{
    struct client *c, *idlest = NULL;
    struct err err = {0};
    unsigned staying = 0;

    for (c = s->clients; c; c = c->next) {
        if (c == newcomer || c->closing || c->leave)
            continue;
        staying++;
        if (!c->working && !c->answering && !c->enqueuing &&
            (!idlest || c->since_ms <= idlest->since_ms)) /* the list begins with the newest */
            idlest = c;
    }
    if (staying < CONTROL_CLIENTS_MAX)
        return true;
    if (!idlest)
        return false;
    err_set(&err, ERR_TIMEOUT, "the run closed this idle connection: others needed the room");
    say_and_leave(idlest, &err);
    return true;
}

static void on_connection(uv_stream_t *listener, int status)
{
    struct control_server *s = listener->data;
    struct err err = {0};
    struct client *c;
    int fd;

    if (status < 0)
        return;
    c = calloc(1, sizeof(*c));
    if (!c)
        return;
    c->server = s;
    c->open_handles = 2;
    uv_pipe_init(s->loop, &c->pipe, 0);
    uv_timer_init(s->loop, &c->timer);
    c->pipe.data = c->timer.data = c;
    c->since_ms = uv_now(s->loop);
    c->next = s->clients;
    s->clients = c;
    if (uv_accept(listener, (uv_stream_t *)&c->pipe) != 0 ||
        uv_fileno((uv_handle_t *)&c->pipe, &fd) != 0) {
        client_close(c);
        return;
    }
    if (control_peer_check(fd, &err) == 0 && !make_room(s, c))
        err_set(&err, ERR_LOCKED,
                "busy: %u commands are at work on this run's socket; try again when one has ended",
                CONTROL_CLIENTS_MAX);
    if (err.code) {
        say_and_leave(c, &err);
        return;
    }
    if (uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) != 0)
        client_close(c);
    start_silence_timer(c);
}

int control_server_start(uv_loop_t *loop, const char *catalog, const struct control_handler *h,
                         struct control_server **ret, struct err *err)
{
    struct control_server *s = calloc(1, sizeof(*s));
    int fd, rc;

    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for the run's socket");
    rc = control_path_open(catalog, &s->path, err);
    if (rc)
        goto fail;
    fd = control_path_listen(&s->path, err);
    if (fd < 0) {
        rc = fd;
        control_path_close(&s->path);
        goto fail;
    }
    s->loop = loop;
    s->h = *h;
    if (s->h.patience_ms == 0)
        s->h.patience_ms = CONTROL_PATIENCE_MS;
    uv_pipe_init(loop, &s->listener, 0);
    s->listener.data = s;
    rc = uv_pipe_open(&s->listener, fd);
    if (rc)
        close(fd);
    else
        rc = uv_listen((uv_stream_t *)&s->listener, 16, on_connection);
    if (rc) {
        err_set(err, ERR_IO, "the run's socket: %s", uv_strerror(rc));
        control_server_stop(s);
        return ERR_IO;
    }
    *ret = s;
    return 0;
fail:
    free(s);
    return rc;
}

bool control_server_busy(const struct control_server *s)
{
    const struct client *c;

    for (c = s ? s->clients : NULL; c; c = c->next)
        if (c->enqueuing || c->answering || c->working)
            return true;
    return false;
}

bool control_server_working(const struct control_server *s)
{
    const struct client *c;

    for (c = s ? s->clients : NULL; c; c = c->next)
        if (c->working)
            return true;
    return false;
}

static void on_listener_closed(uv_handle_t *handle)
{
    struct control_server *s = handle->data;

    s->listener_closed = true;
    server_release(s);
}

void control_server_stop(struct control_server *s)
{
    struct client *c;

    if (!s)
        return;
    s->stopping = true;
    control_path_unlink(&s->path);
    for (c = s->clients; c; c = c->next)
        client_close(c);
    uv_close((uv_handle_t *)&s->listener, on_listener_closed);
}
