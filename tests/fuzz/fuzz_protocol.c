/* Any bytes from a pipe. The first byte says what the rest is: a message of that type, or (0 and
 * types that do not exist) a stream of frames. What is accepted must be said again in the same
 * bytes, and a frame made of any payload must be taken whole. */
#include <stdlib.h>
#include <string.h>

#include "workers/wire/frame.h"
#include "workers/wire/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CASE(number, name)                                 \
    case number: {                                         \
        struct msg_##name m;                               \
        if (msg_##name##_get(data, size, &m, &err) == 0) { \
            msg_##name##_put(&again, &m);                  \
            msg_##name##_free(&m);                         \
            accepted = true;                               \
        }                                                  \
        break;                                             \
    }

static void one_message(uint8_t type, const uint8_t *data, size_t size)
{
    struct buf again = BUF_INIT;
    bool accepted = false;
    struct err err;

    switch (type) {
        CASE(MSG_HELLO, hello)
        CASE(MSG_SETUP, setup)
        CASE(MSG_READY, ready)
        CASE(MSG_FATAL, fatal)
        CASE(MSG_LEASE, lease)
        CASE(MSG_CAP, cap)
        CASE(MSG_CANCEL, cancel)
        CASE(MSG_MEDIA, media)
        CASE(MSG_SHARD_DONE, shard_done)
        CASE(MSG_SHARD_FAILED, shard_failed)
        CASE(MSG_LEASE_END, lease_end)
        CASE(MSG_HEARTBEAT, heartbeat)
        CASE(MSG_LOG, log)
        CASE(MSG_TUNED, tuned)
        CASE(MSG_SETTLE, settle)
        CASE(MSG_VOICES, voices)
        CASE(MSG_SETTLED, settled)
        CASE(MSG_SETTLE_FAILED, settle_failed)
    default:
        break;
    }
    if (accepted && (again.failed || again.len != size || memcmp(again.data, data, size) != 0))
        abort();
    buf_free(&again);
}

static void stream(const uint8_t *data, size_t size)
{
    struct frame f;
    struct err err;
    size_t used;

    while (frame_take(data, size, &f, &used, &err) == 0) {
        if (used < FRAME_HEADER || used > size || f.payload + f.len != data + used)
            abort();
        one_message(f.type, f.payload, f.len);
        data += used;
        size -= used;
    }
}

static void framed(uint8_t type, const uint8_t *data, size_t size)
{
    struct buf b = BUF_INIT;
    struct frame f;
    struct err err;
    size_t used;

    frame_put(&b, type, data, size);
    if (frame_take(b.data, b.len, &f, &used, &err) != 0 || used != b.len || f.type != type ||
        f.len != size || (size && memcmp(f.payload, data, size) != 0))
        abort();
    buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    if (data[0] == 0 || data[0] > MSG_SETTLE_FAILED) {
        stream(data + 1, size - 1);
    } else {
        one_message(data[0], data + 1, size - 1);
        framed(data[0], data + 1, size - 1);
    }
    return 0;
}
