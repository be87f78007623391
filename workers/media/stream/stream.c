#include "workers/media/stream/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
