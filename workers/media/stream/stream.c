#include "workers/media/stream/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"

void stream_close(struct stream *s)
{
    if (s)
        s->close(s);
}

int64_t stream_read_full(struct stream *s, void *to, size_t n, struct err *err)
{
    size_t done = 0;

    while (done < n) {
        int64_t got = stream_read(s, (uint8_t *)to + done, n - done, err);

        if (got < 0)
            return got;
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

static void send_pulse(const struct stream_pulse *p)
{
    if (p->fn)
        p->fn(p->arg);
}

/* --- a file --- */

struct file_stream {
    struct stream base;
    int fd; /* borrowed */
    int64_t pos;
    struct stream_pulse pulse;
};

static int64_t file_read(struct stream *s, void *to, size_t n, struct err *err)
{
    struct file_stream *f = (struct file_stream *)s;
    ssize_t got;

    if (f->pos >= f->base.size)
        return 0;
    if ((uint64_t)n > (uint64_t)(f->base.size - f->pos))
        n = (size_t)(f->base.size - f->pos);
    do {
        got = pread(f->fd, to, n, (off_t)f->pos);
    } while (got < 0 && errno == EINTR);
    if (got < 0)
        return err_sys(err, errno, "cannot read the file");
    f->pos += got;
    send_pulse(&f->pulse);
    return got;
}

static int file_seek(struct stream *s, int64_t pos, struct err *err)
{
    if (pos < 0)
        return err_set(err, ERR_INPUT, "refers to a place before its beginning");
    ((struct file_stream *)s)->pos = pos;
    return 0;
}

static void file_close(struct stream *s) { free(s); }

int stream_of_file(int fd, uint64_t size, struct stream_pulse pulse_of, struct stream **ret,
                   struct err *err)
{
    struct file_stream *f = calloc(1, sizeof(*f));

    if (!f)
        return err_set(err, ERR_NOMEM, "out of memory");
    f->base = (struct stream){
        file_read, file_seek, file_close, size < INT64_MAX ? (int64_t)size : INT64_MAX, false, 0};
    f->fd = fd;
    f->pulse = pulse_of;
    *ret = &f->base;
    return 0;
}

/* --- memory --- */

struct memory_stream {
    struct stream base;
    const uint8_t *data; /* borrowed */
    int64_t pos;
    struct stream_pulse pulse;
};

static int64_t memory_read(struct stream *s, void *to, size_t n, struct err *err)
{
    struct memory_stream *m = (struct memory_stream *)s;

    (void)err;
    if (m->pos >= m->base.size)
        return 0;
    if ((uint64_t)n > (uint64_t)(m->base.size - m->pos))
        n = (size_t)(m->base.size - m->pos);
    memcpy(to, m->data + m->pos, n);
    m->pos += (int64_t)n;
    send_pulse(&m->pulse);
    return (int64_t)n;
}

static int memory_seek(struct stream *s, int64_t pos, struct err *err)
{
    if (pos < 0)
        return err_set(err, ERR_INPUT, "refers to a place before its beginning");
    ((struct memory_stream *)s)->pos = pos;
    return 0;
}

int stream_of_memory(const void *data, size_t len, struct stream_pulse pulse_of,
                     struct stream **ret, struct err *err)
{
    struct memory_stream *m = calloc(1, sizeof(*m));

    if (!m)
        return err_set(err, ERR_NOMEM, "out of memory");
    m->base = (struct stream){memory_read, memory_seek, file_close, (int64_t)len, false, 0};
    m->data = data;
    m->pulse = pulse_of;
    *ret = &m->base;
    return 0;
}

/* ---- the content hash in the same read as the decoding: bytes that go by in order extend it */

/* A seek forward over no more than this is read through: the disk's read-ahead has fetched it
 * anyway, and so a video whose pictures are skipped is still read only once. */
#define GAP_BYTES (4 << 20)
#define CHUNK_BYTES (256u << 10)

struct hashed_stream {
    struct stream base;
    struct stream *under;
    struct hash *hash;
    int64_t hashed;    /* all bytes below are in the hash */
    int64_t pos;       /* where the reader believes to be */
    int64_t under_pos; /* where `under` is */
    uint8_t *chunk;    /* CHUNK_BYTES */
};

static int move_under(struct hashed_stream *h, int64_t pos, struct err *err)
{
    int rc = h->under_pos == pos ? 0 : stream_seek(h->under, pos, err);

    if (rc == 0)
        h->under_pos = pos;
    return rc;
}

/* Reads at under_pos and extends the hash by what is new. */
static int64_t read_under(struct hashed_stream *h, void *to, size_t n, struct err *err)
{
    int64_t start = h->under_pos;
    int64_t got = stream_read(h->under, to, n, err);

    if (got <= 0)
        return got;
    h->under_pos = start + got;
    if (start <= h->hashed && h->under_pos > h->hashed) {
        hash_put(h->hash, (uint8_t *)to + (h->hashed - start), (size_t)(h->under_pos - h->hashed));
        h->hashed = h->under_pos;
    }
    return got;
}

/* Reads on from the hash's end until `to` or the input's end. */
static int hash_until(struct hashed_stream *h, int64_t to, struct err *err)
{
    int rc = move_under(h, h->hashed, err);

    while (rc == 0 && h->hashed < to) {
        int64_t want = to - h->hashed;
        int64_t got = read_under(h, h->chunk, want < CHUNK_BYTES ? (size_t)want : CHUNK_BYTES, err);

        if (got < 0)
            return (int)got;
        if (got == 0)
            break;
    }
    return rc;
}

static int64_t hashed_read(struct stream *s, void *to, size_t n, struct err *err)
{
    struct hashed_stream *h = (struct hashed_stream *)s;
    int64_t gap = h->pos - h->hashed;
    int64_t got;
    int rc = 0;

    if (gap > 0 && (h->under->sequential || gap <= GAP_BYTES))
        rc = hash_until(h, h->pos, err);
    if (rc == 0)
        rc = move_under(h, h->pos, err);
    if (rc != 0)
        return rc;
    got = read_under(h, to, n, err);
    if (got > 0)
        h->pos += got;
    return got;
}

static int hashed_seek(struct stream *s, int64_t pos, struct err *err)
{
    if (pos < 0)
        return err_set(err, ERR_INPUT, "refers to a place before its beginning");
    ((struct hashed_stream *)s)->pos = pos;
    return 0;
}

static void hashed_close(struct stream *s)
{
    struct hashed_stream *h = (struct hashed_stream *)s;

    stream_close(h->under);
    hash_free(h->hash);
    free(h->chunk);
    free(h);
}

int hashed_open(struct stream *under, struct stream **ret, struct err *err)
{
    struct hashed_stream *h = calloc(1, sizeof(*h));

    if (!h || !(h->hash = hash_new()) || !(h->chunk = malloc(CHUNK_BYTES))) {
        if (h)
            hash_free(h->hash);
        free(h);
        stream_close(under);
        return err_set(err, ERR_NOMEM, "out of memory");
    }
    h->base =
        (struct stream){hashed_read, hashed_seek, hashed_close, under->size, under->sequential, 0};
    h->under = under;
    *ret = &h->base;
    return 0;
}

int hashed_finish(struct stream *s, uint8_t ret[16], struct err *err)
{
    struct hashed_stream *h = (struct hashed_stream *)s;
    int rc = hash_until(h, INT64_MAX, err);

    if (rc == 0)
        hash_get(h->hash, ret);
    return rc;
}
