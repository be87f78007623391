#include "workers/wire/frame.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/clock.h"

#define MAGIC "NSF1"
#define READ_STEP 65536u /* the buffer grows by what arrives, never by what a header announces */

static uint32_t read_le32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_le32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

/* Type and length take part in the sum, so that a flipped bit there is found too. */
static uint32_t compute_frame_checksum(const uint8_t header[FRAME_HEADER], const void *payload,
                                       size_t len)
{
    return XXH32(len ? payload : "", len, read_le32(header + 4) ^ read_le32(header + 8));
}

static uint16_t length_sum(const uint8_t header[FRAME_HEADER])
{
    return (uint16_t)XXH32(header + 8, 4, (uint32_t)header[4] | (uint32_t)header[5] << 8);
}

static void make_header(uint8_t header[FRAME_HEADER], uint8_t type, const void *payload, size_t len)
{
    uint16_t sum;

    memcpy(header, MAGIC, 4);
    header[4] = FRAME_VERSION;
    header[5] = type;
    put_le32(header + 8, (uint32_t)len);
    sum = length_sum(header);
    header[6] = (uint8_t)sum;
    header[7] = (uint8_t)(sum >> 8);
    put_le32(header + 12, compute_frame_checksum(header, payload, len));
}

void frame_put(struct buf *out, uint8_t type, const void *payload, size_t len)
{
    uint8_t header[FRAME_HEADER];

    if (len > FRAME_MAX) {
        out->failed = true;
        return;
    }
    make_header(header, type, payload, len);
    if (!buf_reserve(out, FRAME_HEADER + len)) /* whole or not at all */
        return;
    buf_put(out, header, sizeof(header));
    buf_put(out, payload, len);
}

int frame_take(const uint8_t *data, size_t len, struct frame *ret, size_t *used, struct err *err)
{
    uint32_t n;

    if (len && memcmp(data, MAGIC, len < 4 ? len : 4) != 0)
        return err_set(err, ERR_PROTOCOL, "what arrived is not a message of this program");
    if (len > 4 && data[4] != FRAME_VERSION)
        return err_set(err, ERR_PROTOCOL,
                       "the other side speaks version %u of the protocol, this program version %u",
                       data[4], FRAME_VERSION);
    if (len < FRAME_HEADER)
        return err_set(err, ERR_EMPTY, "the message is not complete yet");
    n = read_le32(data + 8);
    if ((data[6] | data[7] << 8) != length_sum(data) || n > FRAME_MAX)
        return err_set(err, ERR_PROTOCOL, "a message's header is damaged (type %u, %u bytes)",
                       data[5], n);
    if (len - FRAME_HEADER < n)
        return err_set(err, ERR_EMPTY, "the message is not complete yet");
    if (compute_frame_checksum(data, data + FRAME_HEADER, n) != read_le32(data + 12))
        return err_set(err, ERR_PROTOCOL, "a message's checksum is wrong (type %u, %u bytes)",
                       data[5], n);
    *ret = (struct frame){.type = data[5], .payload = data + FRAME_HEADER, .len = n};
    *used = FRAME_HEADER + n;
    return 0;
}

/* Waits for `events` until deadline_ms (-1: for ever). */
static int wait_fd(int fd, short events, int64_t deadline_ms, struct err *err)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int64_t left = deadline_ms < 0 ? -1 : deadline_ms - clock_mono_ms();
        int n;

        if (deadline_ms >= 0 && left < 0)
            left = 0;
        n = poll(&p, 1, (int)left);
        if (n > 0)
            return 0;
        if (n == 0)
            return err_set(err, ERR_TIMEOUT, "nothing arrived in time");
        if (errno != EINTR)
            return err_sys(err, errno, "wait for the other side");
    }
}

/* A socket's writer must not be killed by a reader that is gone; a pipe has no such flag, and its
 * writer ignores SIGPIPE itself. */
static ssize_t write_some(int fd, struct iovec *iov, int count)
{
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);

    return n < 0 && errno == ENOTSOCK ? writev(fd, iov, count) : n;
}

int frame_write_fd(int fd, uint8_t type, const void *payload, size_t len, struct err *err)
{
    uint8_t header[FRAME_HEADER];
    size_t done = 0;

    if (len > FRAME_MAX)
        return err_set(err, ERR_LIMIT, "a message of %zu bytes is too long", len);
    make_header(header, type, payload, len);
    while (done < FRAME_HEADER + len) {
        size_t h = done < FRAME_HEADER ? FRAME_HEADER - done : 0;
        size_t p = done < FRAME_HEADER ? 0 : done - FRAME_HEADER;
        struct iovec iov[2];
        int count = 0, rc;
        ssize_t n;

        if (h)
            iov[count++] = (struct iovec){header + done, h};
        if (len > p)
            iov[count++] = (struct iovec){(uint8_t *)payload + p, len - p};
        n = write_some(fd, iov, count);
        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            rc = wait_fd(fd, POLLOUT, -1, err);
            if (rc != 0)
                return rc;
        } else if (errno != EINTR) {
            return err_sys(err, errno, "send a message");
        }
    }
    return 0;
}

/* One read. 0: something was added; ERR_EMPTY: the peer has closed. */
static int read_some(int fd, struct buf *in, int64_t deadline_ms, struct err *err)
{
    uint8_t *p;
    ssize_t n;
    int rc;

    for (;;) {
        rc = wait_fd(fd, POLLIN, deadline_ms, err);
        if (rc != 0)
            return rc;
        p = buf_reserve(in, READ_STEP);
        if (!p) {
            in->failed = false;
            return err_set(err, ERR_NOMEM, "no memory to receive a message");
        }
        n = read(fd, p, READ_STEP);
        if (n > 0) {
            in->len += (size_t)n;
            return 0;
        }
        if (n == 0)
            return err_set(err, ERR_EMPTY, "the other side has closed");
        if (errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
            err_sys(err, errno, "receive a message");
            return err->code = ERR_IO;
        }
    }
}

int frame_read_fd(int fd, struct frame_reader *fr, int timeout_ms, struct frame *ret,
                  struct err *err)
{
    int64_t deadline_ms = timeout_ms < 0 ? -1 : clock_mono_ms() + timeout_ms;
    size_t used = 0;
    int rc;

    for (;;) {
        rc = fr->in.len > fr->taken
                 ? frame_take(fr->in.data + fr->taken, fr->in.len - fr->taken, ret, &used, err)
                 : ERR_EMPTY;
        if (rc == 0) {
            fr->taken += used;
            return 0;
        }
        if (rc != ERR_EMPTY)
            return rc;
        if (fr->taken) { /* only now, not per frame: a read may bring hundreds of small ones */
            buf_consume(&fr->in, fr->taken);
            fr->taken = 0;
        }
        rc = read_some(fd, &fr->in, deadline_ms, err);
        if (rc == ERR_EMPTY && fr->in.len)
            return err_set(err, ERR_IO, "the other side closed in the middle of a message");
        if (rc != 0)
            return rc;
    }
}

void frame_reader_free(struct frame_reader *fr)
{
    buf_free(&fr->in);
    fr->taken = 0;
}
