/* Any bytes on a run's socket. The first byte says what the rest is: a message of that type, or
 * else a stream of frames as the run takes it. What is accepted must be said again in the same
 * bytes (an error: in the same words). */
#include <stdlib.h>
#include <string.h>

#include "scheduler/control/control_socket.h"
#include "store/requests/request.h"
#include "workers/wire/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void same(struct buf *again, const uint8_t *data, size_t size)
{
    if (again->failed || again->len != size || (size && memcmp(again->data, data, size) != 0))
        abort();
    buf_free(again);
}

static void request(const uint8_t *data, size_t size)
{
    struct request d;
    struct buf again = BUF_INIT;
    struct err err;

    if (request_get(data, size, &d, &err) != 0)
        return;
    request_put(&again, &d);
    same(&again, data, size);
    request_free(&d);
}

static void reply(const uint8_t *data, size_t size)
{
    struct request_reply r;
    struct buf again = BUF_INIT;
    struct err err;

    if (request_reply_get(data, size, &r, &err) != 0)
        return;
    request_reply_put(&again, &r);
    same(&again, data, size);
}

/* Its speed is rounded, so only the length is held. */
static void live(const uint8_t *data, size_t size)
{
    struct control_live m;
    struct buf again = BUF_INIT;
    struct err err;

    if (control_live_get(data, size, &m, &err) != 0)
        return;
    control_live_put(&again, &m);
    if (again.failed || again.len != size)
        abort();
    buf_free(&again);
}

static void error(const uint8_t *data, size_t size)
{
    struct buf b = BUF_INIT;
    struct err err, again;
    int code = control_error_get(data, size, &err);

    if (code >= 0 || err.code != code || memchr(err.msg, '\n', strlen(err.msg)))
        abort();
    control_error_put(&b, &err);
    if (control_error_get(b.data, b.len, &again) != code || strcmp(again.msg, err.msg) != 0)
        abort();
    buf_free(&b);
}

static bool one_message(uint8_t type, const uint8_t *data, size_t size)
{
    switch (type) {
    case CONTROL_REQUEST:
        request(data, size);
        return true;
    case CONTROL_REPLY:
        reply(data, size);
        return true;
    case CONTROL_ERROR:
        error(data, size);
        return true;
    case CONTROL_LIVE:
        live(data, size);
        return true;
    default:
        return false;
    }
}

static void stream(const uint8_t *data, size_t size)
{
    struct frame f;
    struct err err;
    size_t used;

    while (frame_take(data, size, &f, &used, &err) == 0) {
        if (used < FRAME_HEADER || used > size)
            abort();
        one_message(f.type, f.payload, f.len);
        data += used;
        size -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && !one_message(data[0], data + 1, size - 1))
        stream(data + 1, size - 1);
    return 0;
}
