/* A header that a kind of file has not, before its bytes. */
#include "workers/media/stream/stream.h"

#include <stdlib.h>
#include <string.h>

struct headed_stream {
    struct stream base;
    struct stream *under;
    const uint8_t *head;
    int64_t len, pos;
};

static int64_t headed_read(struct stream *s, void *to, size_t n, struct err *err)
{
    struct headed_stream *h = (struct headed_stream *)s;
    int64_t got;

    if (h->pos < h->len) {
        got = h->len - h->pos < (int64_t)n ? h->len - h->pos : (int64_t)n;
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
    rc = stream_seek(h->under, pos > h->len ? pos - h->len : 0, err);
    if (rc == 0)
        h->pos = pos;
    return rc;
}

static void headed_close(struct stream *s) { free(s); }

int headed_open(struct stream *under, const void *head, size_t len, struct stream **ret,
                struct err *err)
{
    struct headed_stream *h = calloc(1, sizeof(*h));

    if (!h)
        return err_set(err, ERR_NOMEM, "out of memory");
    h->base = (struct stream){.read = headed_read,
                              .seek = headed_seek,
                              .close = headed_close,
                              .size = under->size < 0 ? -1 : under->size + (int64_t)len,
                              .sequential = under->sequential};
    h->under = under;
    h->head = head;
    h->len = (int64_t)len;
    *ret = &h->base;
    return 0;
}
