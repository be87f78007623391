#include "workers/media/stream/wav.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "workers/media/stream/stream.h"

#define CHUNKS_MAX 1000
#define FORWARD_MAX ((int64_t)1 << 20) /* read through in a stream that cannot leap */

static uint32_t read_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* The size of `data` in a file of more than 4 GiB; -1: there is none. */
static int64_t long_data(struct stream *in, uint32_t size, struct err *err)
{
    uint8_t ds64[16];
    int64_t got = size < sizeof(ds64) ? 0 : stream_read_full(in, ds64, sizeof(ds64), err);
    uint64_t n =
        got == sizeof(ds64) ? read_le32(ds64 + 8) | (uint64_t)read_le32(ds64 + 12) << 32 : 0;

    if (got < 0)
        return got;
    return n > 0 && n < (uint64_t)INT64_MAX / 2 ? (int64_t)n : 0;
}

static int take_chunk(struct stream *in, uint32_t size, struct riff_chunk *ret, struct err *err)
{
    char *data;
    int64_t got;

    if (size == 0 || size > RIFF_CHUNK_MAX)
        return 0;
    data = malloc((size_t)size + 1);
    if (!data)
        return err_set(err, ERR_NOMEM, "out of memory");
    got = stream_read_full(in, data, size, err);
    if (got < 0) {
        free(data);
        return (int)got;
    }
    data[got] = '\0';
    ret->data = data;
    ret->len = (size_t)got;
    return 0;
}

static struct riff_chunk *wanted_of(const uint8_t *head, struct riff_chunk *wanted, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (memcmp(head, wanted[i].name, 4) == 0 && !wanted[i].data)
            return &wanted[i];
    return NULL;
}

#define BEHIND_LEAST 4096 /* bytes: less may be padding, or somebody's mark */

/* The state of a walk over the chunks. */
struct walk {
    int64_t at;    /* the next chunk */
    int64_t large; /* the size of `data` by a ds64 chunk */
    int64_t sound; /* where the size of `data` is stated; 0: it was not met, or its size is open */
    int64_t sound_end;
    bool lost; /* what follows `data` are no chunks */
};

/* Letters, digits and blanks, and it ends within the file. */
static bool is_chunk(const uint8_t head[8], int64_t at, int64_t file_size)
{
    for (int i = 0; i < 4; i++)
        if (head[i] < 0x20 || head[i] > 0x7e)
            return false;
    return at + 8 + (int64_t)read_le32(head + 4) <= file_size;
}

/* The chunk at w->at, where the stream is moved. 1: w->at is that of the next one; 0: no more. */
static int one_chunk(struct stream *in, struct walk *w, struct riff_chunk *wanted, size_t count,
                     struct err *err)
{
    struct riff_chunk *it;
    uint8_t head[8];
    int64_t got, size;
    bool sound;
    int rc = stream_seek(in, w->at, err);

    got = rc == 0 ? stream_read_full(in, head, sizeof(head), err) : rc;
    if (got < (int64_t)sizeof(head))
        return got < 0 ? (int)got : 0;
    if (w->sound && !is_chunk(head, w->at, in->size) && w->at - 1 == w->sound_end) {
        /* Some leave out the byte that makes an odd size even. */
        w->at--;
        rc = stream_seek(in, w->at, err);
        got = rc == 0 ? stream_read_full(in, head, sizeof(head), err) : rc;
        if (got < (int64_t)sizeof(head))
            return got < 0 ? (int)got : 0;
    }
    if (w->sound && !is_chunk(head, w->at, in->size)) {
        w->lost = true;
        return 0;
    }
    size = read_le32(head + 4);
    sound = memcmp(head, "data", 4) == 0;
    it = wanted_of(head, wanted, count);
    if (it && (rc = take_chunk(in, (uint32_t)size, it, err)) != 0)
        return rc;
    if (memcmp(head, "ds64", 4) == 0 && (w->large = long_data(in, (uint32_t)size, err)) < 0)
        return (int)w->large;
    if (sound && size == UINT32_MAX)
        size = w->large;
    else if (sound && size > 0 && !w->sound)
        w->sound = w->at + 4;
    if (sound && size == 0) /* a length that was never filled in */
        return 0;
    if (w->sound == w->at + 4)
        w->sound_end = w->at + 8 + size;
    w->at += 8 + size + (size & 1);
    if (in->sequential && (sound || w->sound))
        return w->sound_end > 0 && in->size - w->at > BEHIND_LEAST;
    return (in->size < 0 || w->at < in->size) && (!in->sequential || w->at <= FORWARD_MAX);
}

/* Space that a recorder had reserved: zeros in three places behind the sound. */
static int is_reserved(struct stream *in, int64_t from, bool *ret, struct err *err)
{
    uint8_t bytes[BEHIND_LEAST];
    const int64_t last = in->size - BEHIND_LEAST;

    *ret = true;
    for (int i = 0; i < 3 && *ret; i++) {
        int rc = stream_seek(in, from + (last - from) / 2 * i, err);
        int64_t got = rc == 0 ? stream_read_full(in, bytes, sizeof(bytes), err) : rc;

        if (got < 0)
            return (int)got;
        for (int64_t k = 0; k < got; k++)
            *ret &= bytes[k] == 0;
    }
    return 0;
}

int riff_chunks(struct stream *in, struct riff_chunk *wanted, size_t count, int64_t *wrong_size,
                struct err *err)
{
    uint8_t head[12];
    struct walk w = {.at = sizeof(head)};
    int64_t got = stream_read_full(in, head, sizeof(head), err);
    int rc = got < 0 ? (int)got : 0, chunks = 0;

    if (got == sizeof(head) && memcmp(head + 8, "WAVE", 4) == 0 &&
        (memcmp(head, "RIFF", 4) == 0 || memcmp(head, "RF64", 4) == 0 ||
         memcmp(head, "BW64", 4) == 0))
        do
            rc = one_chunk(in, &w, wanted, count, err);
        while (rc == 1 && ++chunks < CHUNKS_MAX);
    w.lost &= in->size - w.sound_end > BEHIND_LEAST;
    if (rc >= 0 && w.lost) {
        bool reserved = false;

        rc = is_reserved(in, w.sound_end, &reserved, err);
        w.lost = !reserved;
    }
    if (rc == ERR_INPUT && in->sequential && w.sound_end > 0) { /* who decodes it comes by there */
        w.lost = false;
        rc = 0;
    }
    *wrong_size = w.lost ? w.sound : 0;
    if (rc >= 0)
        rc = stream_seek(in, 0, err);
    for (size_t i = 0; rc < 0 && i < count; i++) {
        free(wanted[i].data);
        wanted[i].data = NULL;
    }
    return rc;
}

/* ---- a header that a kind of file has not, before its bytes */

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
