/* The framing: what is damaged in any way is refused, what is late is waited for. */
#include "tests/common/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "workers/wire/frame.h"

TEST(round_trip)
{
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct frame f;
    size_t used, at = 0;

    frame_put(&b, 7, "hello", 5);
    frame_put(&b, 200, NULL, 0);
    assert_false(b.failed);
    assert_ok(frame_take(b.data, b.len, &f, &used, &e), e);
    assert_int_equal(f.type, 7);
    assert_int_equal(f.len, 5);
    assert_memory_equal(f.payload, "hello", 5);
    at += used;
    assert_ok(frame_take(b.data + at, b.len - at, &f, &used, &e), e);
    assert_int_equal(f.type, 200);
    assert_int_equal(f.len, 0);
    assert_int_equal(at + used, b.len);
    assert_int_equal(frame_take(b.data + b.len, 0, &f, &used, &e), ERR_EMPTY);
    buf_free(&b);
}

TEST(every_truncation_waits)
{
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct frame f;
    size_t used;

    frame_put(&b, 3, "abcdefgh", 8);
    for (size_t n = 0; n < b.len; n++) {
        uint8_t *exact = malloc(n ? n : 1); /* so that a sanitizer sees a read past the end */

        memcpy(exact, b.data, n);
        assert_int_equal(frame_take(exact, n, &f, &used, &e), ERR_EMPTY);
        free(exact);
    }
    buf_free(&b);
}

TEST(every_bit_flip_is_found)
{
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct frame f;
    size_t used;

    frame_put(&b, 3, "some payload", 12);
    for (size_t bit = 0; bit < b.len * 8; bit++) {
        b.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
        /* At once, also where a length became larger: what is waited for would never come. */
        assert_int_equal(frame_take(b.data, b.len, &f, &used, &e), ERR_PROTOCOL);
        b.data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
    }
    assert_ok(frame_take(b.data, b.len, &f, &used, &e), e);
    buf_free(&b);
}

TEST(rubbish_is_refused_at_its_first_byte)
{
    struct err e = {0};
    struct frame f;
    size_t used;

    assert_int_equal(frame_take((const uint8_t *)"G", 1, &f, &used, &e), ERR_PROTOCOL);
    assert_int_equal(frame_take((const uint8_t *)"NSF2", 4, &f, &used, &e), ERR_PROTOCOL);
    for (unsigned version = 0; version < 256; version++) {
        const uint8_t begins[] = {'N', 'S', 'F', '1', (uint8_t)version};

        assert_int_equal(frame_take(begins, sizeof(begins), &f, &used, &e),
                         version == FRAME_VERSION ? ERR_EMPTY : ERR_PROTOCOL);
    }
}

TEST(oversize_is_refused)
{
    uint8_t header[FRAME_HEADER] = {'N', 'S', 'F', '1', FRAME_VERSION, 1, 0, 0, 1, 0, 0, 2};
    const uint32_t sum = XXH32(header + 8, 4, FRAME_VERSION | 1 << 8);
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct frame f;
    uint8_t *big = calloc(1, FRAME_MAX + 1);
    size_t used;

    header[6] = (uint8_t)sum;
    header[7] = (uint8_t)(sum >> 8);
    assert_int_equal(frame_take(header, sizeof(header), &f, &used, &e), ERR_PROTOCOL);
    frame_put(&b, 1, big, FRAME_MAX + 1);
    assert_true(b.failed);
    assert_int_equal(b.len, 0);
    buf_clear(&b);
    frame_put(&b, 1, big, FRAME_MAX);
    assert_ok(frame_take(b.data, b.len, &f, &used, &e), e);
    assert_int_equal(f.len, FRAME_MAX);
    assert_int_equal(frame_write_fd(-1, 1, big, FRAME_MAX + 1, &e), ERR_LIMIT);
    free(big);
    buf_free(&b);
}

struct writer {
    int fd;
    const uint8_t *data;
    size_t len, step;
};

static void *dribble(void *arg)
{
    struct writer *w = arg;

    for (size_t at = 0; at < w->len;) {
        size_t n = w->len - at < w->step ? w->len - at : w->step;
        ssize_t did = write(w->fd, w->data + at, n);

        if (did <= 0)
            break;
        at += (size_t)did;
        if (w->step == 1)
            usleep(200);
    }
    close(w->fd);
    return NULL;
}

/* Three frames through a pipe in pieces of `step` bytes, then the end. */
static void read_in_pieces(size_t step)
{
    struct frame_reader fr = {.in = BUF_INIT};
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct writer w;
    struct frame f;
    pthread_t t;
    int p[2];

    frame_put(&b, 1, "one", 3);
    frame_put(&b, 2, "", 0);
    frame_put(&b, 3, "three, and a little more", 24);
    assert_int_equal(pipe(p), 0);
    w = (struct writer){p[1], b.data, b.len, step};
    assert_int_equal(pthread_create(&t, NULL, dribble, &w), 0);
    assert_ok(frame_read_fd(p[0], &fr, -1, &f, &e), e);
    assert_int_equal(f.type, 1);
    assert_memory_equal(f.payload, "one", 3);
    assert_ok(frame_read_fd(p[0], &fr, 60000, &f, &e), e);
    assert_int_equal(f.type, 2);
    assert_ok(frame_read_fd(p[0], &fr, -1, &f, &e), e);
    assert_int_equal(f.type, 3);
    assert_int_equal(f.len, 24);
    assert_int_equal(frame_read_fd(p[0], &fr, -1, &f, &e), ERR_EMPTY);
    pthread_join(t, NULL);
    close(p[0]);
    frame_reader_free(&fr);
    buf_free(&b);
}

TEST(dribbling_writers)
{
    read_in_pieces(1);
    read_in_pieces(7);
    read_in_pieces(1000);
}

TEST(timeout_keeps_what_came)
{
    struct frame_reader fr = {.in = BUF_INIT};
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct frame f;
    int64_t begin = clock_mono_ms();
    int p[2];

    frame_put(&b, 9, "late", 4);
    assert_int_equal(pipe(p), 0);
    assert_int_equal(write(p[1], b.data, 10), 10);
    assert_int_equal(frame_read_fd(p[0], &fr, 50, &f, &e), ERR_TIMEOUT);
    assert_true(clock_mono_ms() - begin >= 50);
    assert_int_equal(frame_read_fd(p[0], &fr, 0, &f, &e), ERR_TIMEOUT);
    assert_int_equal(write(p[1], b.data + 10, b.len - 10), (ssize_t)(b.len - 10));
    assert_ok(frame_read_fd(p[0], &fr, 0, &f, &e), e);
    assert_int_equal(f.type, 9);
    assert_memory_equal(f.payload, "late", 4);
    close(p[0]);
    close(p[1]);
    frame_reader_free(&fr);
    buf_free(&b);
}

TEST(end_within_a_frame_is_an_error)
{
    struct frame_reader fr = {.in = BUF_INIT};
    struct buf b = BUF_INIT;
    struct err e = {0};
    struct frame f;
    int p[2];

    frame_put(&b, 9, "torn", 4);
    assert_int_equal(pipe(p), 0);
    assert_int_equal(write(p[1], b.data, b.len - 1), (ssize_t)(b.len - 1));
    close(p[1]);
    assert_int_equal(frame_read_fd(p[0], &fr, -1, &f, &e), ERR_IO);
    close(p[0]);
    frame_reader_free(&fr);
    buf_free(&b);
}

static void *write_large(void *arg)
{
    static uint8_t big[FRAME_MAX];
    struct err e = {0};
    int fd = *(int *)arg;

    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)(i * 31);
    assert_ok(frame_write_fd(fd, 4, big, sizeof(big), &e), e);
    assert_ok(frame_write_fd(fd, 5, NULL, 0, &e), e);
    return NULL;
}

/* A non-blocking writer with a frame far larger than the socket's buffer. */
TEST(largest_frame_through_a_socket)
{
    struct frame_reader fr = {.in = BUF_INIT};
    struct err e = {0};
    struct frame f;
    pthread_t t;
    int p[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p), 0);
    fcntl(p[1], F_SETFL, O_NONBLOCK);
    assert_int_equal(pthread_create(&t, NULL, write_large, &p[1]), 0);
    assert_ok(frame_read_fd(p[0], &fr, -1, &f, &e), e);
    assert_int_equal(f.len, FRAME_MAX);
    for (size_t i = 0; i < f.len; i++)
        if (f.payload[i] != (uint8_t)(i * 31))
            fail_msg("byte %zu differs", i);
    assert_ok(frame_read_fd(p[0], &fr, -1, &f, &e), e);
    assert_int_equal(f.type, 5);
    pthread_join(t, NULL);
    close(p[0]);
    /* The reader is gone: an error, and no SIGPIPE (whose default would end this program). */
    assert_int_equal(frame_write_fd(p[1], 5, "x", 1, &e), ERR_IO);
    close(p[1]);
    frame_reader_free(&fr);
}

TEST_MAIN(NULL, NULL)
