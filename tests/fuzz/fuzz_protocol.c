/* Any bytes from a pipe, of a worker, a finalizer or a decoder. The first byte says what the rest
 * is: a message of that type, or (types that have no fields) a stream of frames. What is accepted
 * must be said again in the same bytes, and a frame made of any payload must be taken whole. */
#include <stdlib.h>
#include <string.h>

#include "workers/media/wire.h"
#include "workers/wire/frame.h"
#include "workers/wire/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct fields *fields_of(uint8_t type)
{
    return type < WIRE_FIRST ? msg_fields(type) : wire_fields(type);
}

/* As it lies on the wire, and as it would be kept. */
static void one_form(const struct fields *k, void *m, bool packed, const uint8_t *data, size_t size)
{
    struct buf again = BUF_INIT;
    struct err err;

    if ((packed ? fields_unpack : fields_get)(data, size, k, m, &err) != 0)
        return;
    (packed ? fields_pack : fields_put)(&again, k, m);
    fields_free(k, m);
    if (again.failed || again.len != size || (size && memcmp(again.data, data, size) != 0))
        abort();
    buf_free(&again);
}

static void one_message(uint8_t type, const uint8_t *data, size_t size)
{
    const struct fields *k = fields_of(type);
    void *m = k ? malloc(k->size) : NULL;

    if (m) {
        one_form(k, m, false, data, size);
        one_form(k, m, true, data, size);
    }
    free(m);
}

static void audio(const uint8_t *data, size_t size)
{
    static int16_t pcm[WIRE_PCM_SAMPLES];
    struct buf again = BUF_INIT;
    struct err err;
    int64_t at;
    size_t n;

    if (wire_get_pcm(data, size, pcm, &n, &at, &err) != 0)
        return;
    wire_put_pcm(&again, pcm, n, at);
    if (again.failed || again.len != size || memcmp(again.data, data, size) != 0)
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
    if (data[0] == WIRE_PCM) {
        audio(data + 1, size - 1);
    } else if (!fields_of(data[0])) {
        stream(data + 1, size - 1);
    } else {
        one_message(data[0], data + 1, size - 1);
        framed(data[0], data + 1, size - 1);
    }
    return 0;
}
