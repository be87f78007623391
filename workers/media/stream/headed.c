/* A header that a kind of file has not, before its bytes. */
#include "workers/media/stream/stream.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 46

struct headed_stream {
    struct stream base;
    struct stream *under;
    uint8_t head[HEAD_BYTES];
    int64_t pos;
};

static int64_t headed_read(struct stream *s, void *to, size_t n, struct err *err)
{
    struct headed_stream *h = (struct headed_stream *)s;
    int64_t got;

    if (h->pos < HEAD_BYTES) {
        got = HEAD_BYTES - h->pos < (int64_t)n ? HEAD_BYTES - h->pos : (int64_t)n;
        memcpy(to, h->head + h->pos, (size_t)got);
    } else {
        got = stream_read(h->under, to, n, err);
    }
    h->pos += got > 0 ? got : 0;
    return got;
}

static int headed_seek(struct stream *s, int64_t pos, struct err *err)
{
    struct headed_stream *h = (struct headed_stream *)s;
    int rc;

    if (pos < 0)
        return err_set(err, ERR_INPUT, "refers to a place before its beginning");
    rc = stream_seek(h->under, pos > HEAD_BYTES ? pos - HEAD_BYTES : 0, err);
    if (rc == 0)
        h->pos = pos;
    return rc;
}

static void headed_close(struct stream *s) { free(s); }

static void write_le16(uint8_t *to, uint32_t n)
{
    to[0] = (uint8_t)n;
    to[1] = (uint8_t)(n >> 8);
}

static void write_le32(uint8_t *to, uint32_t n)
{
    write_le16(to, n);
    write_le16(to + 2, n >> 16);
}

int headed_open_wav(struct stream *under, uint16_t tag, uint16_t bits, uint32_t rate_hz,
                    struct stream **ret, struct err *err)
{
    struct headed_stream *h = calloc(1, sizeof(*h));
    const bool told = under->size >= 0 && under->size < UINT32_MAX - HEAD_BYTES;

    if (!h)
        return err_set(err, ERR_NOMEM, "out of memory");
    h->base = (struct stream){.read = headed_read,
                              .seek = headed_seek,
                              .close = headed_close,
                              .size = under->size < 0 ? -1 : under->size + HEAD_BYTES,
                              .sequential = under->sequential};
    h->under = under;
    memcpy(h->head, "RIFF....WAVEfmt \x12\0\0", 20);
    write_le32(h->head + 4, told ? (uint32_t)under->size + HEAD_BYTES - 8 : UINT32_MAX);
    write_le16(h->head + 20, tag);
    write_le16(h->head + 22, 1);
    write_le32(h->head + 24, rate_hz);
    write_le32(h->head + 28, rate_hz * bits / 8);
    write_le16(h->head + 32, 1);
    write_le16(h->head + 34, bits);
    memcpy(h->head + 38, "data", 4);
    write_le32(h->head + 42, told ? (uint32_t)under->size : UINT32_MAX);
    *ret = &h->base;
    return 0;
}
