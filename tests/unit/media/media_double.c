/* A program in the decoder's place that does what a decoder in hostile hands might do: as the
 * environment variable MEDIA_DOUBLE says. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "workers/wire/frame.h"
#include "workers/media/decoder.h"
#include "workers/media/fork_server.h"
#include "workers/media/wire.h"

static void say(enum wire_type type, struct buf *b)
{
    struct err err;

    if (frame_write_fd(3, (uint8_t)type, b->data, b->len, &err) != 0)
        _exit(9);
    buf_clear(b);
}

static void say_sources(uint32_t count)
{
    static const struct result_source sources[] = {{"channel 1"}, {"channel 2"}};
    struct decoder_info info = {.duration_ms = 1000,
                                .sample_rate_hz = 16000,
                                .channels = 1,
                                .tracks = 1,
                                .container = "wav",
                                .codec = "pcm",
                                .sources = sources,
                                .source_count = count};
    struct buf b = BUF_INIT;

    wire_put_info(&b, &info);
    say(WIRE_INFO, &b);
    buf_free(&b);
}

static void say_info(void) { say_sources(0); }

static void say_pcm(int64_t at)
{
    static const int16_t pcm[1600];
    struct buf b = BUF_INIT;

    wire_put_pcm(&b, pcm, 1600, at);
    say(WIRE_PCM, &b);
    buf_free(&b);
}

static void say_error(int code)
{
    struct err what;
    struct buf b = BUF_INIT;

    err_set(&what, code, "an error of its own");
    wire_put_error(&b, &what);
    say(WIRE_ERROR, &b);
    buf_free(&b);
}

static void say_entry(void)
{
    struct decoder_entry e = {.member = "x.wav", .mtime_ms = -1, .message = ""};
    struct buf b = BUF_INIT;

    wire_put_entry(&b, &e);
    say(WIRE_ENTRY, &b);
    buf_free(&b);
}

static void say_bad_entry(void)
{
    struct decoder_entry e = {
        .member = "x.wav", .mtime_ms = -1, .code = ERR_INPUT, .message = "damaged"};
    struct buf b = BUF_INIT;

    wire_put_entry(&b, &e);
    say(WIRE_ENTRY, &b);
    buf_free(&b);
}

/* An entry of ten bytes, and some bytes of it. */
static void say_bytes(size_t n, bool ask)
{
    static const char zeros[32];
    struct decoder_entry e = {.member = "x.wav", .size_bytes = 10, .mtime_ms = -1, .message = ""};
    struct buf b = BUF_INIT;

    wire_put_entry(&b, &e);
    if (ask)
        say(WIRE_ENTRY, &b);
    buf_clear(&b);
    buf_put(&b, zeros, n);
    say(WIRE_BYTES, &b);
    buf_free(&b);
}

static void say_end(int64_t total)
{
    struct decoder_end end = {.total_samples = total, .damage = ""};
    struct buf b = BUF_INIT;

    wire_put_end(&b, &end);
    say(WIRE_END, &b);
    buf_free(&b);
}

static void die_by(int sig)
{
    const struct rlimit none = {0, 0};

    setrlimit(RLIMIT_CORE, &none);
    signal(sig, SIG_DFL); /* a sanitizer would turn it into an exit */
    raise(sig);
}

static void write_raw(const void *data, size_t len)
{
    if (write(3, data, len) < 0)
        _exit(9);
}

/* The beginning of a message, whose length was damaged. */
static void say_piece(size_t len, bool damaged)
{
    static const uint8_t payload[255];
    struct buf b = BUF_INIT;

    frame_put(&b, WIRE_INFO, payload, sizeof(payload));
    if (damaged)
        b.data[11] = 0x7f;
    write_raw(b.data, len);
    buf_free(&b);
}

static int count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count - 3; /* ".", ".." and the folder itself */
}

static void flood(int fd, size_t bytes)
{
    char block[4096];

    memset(block, 'x', sizeof(block));
    block[100] = '\n';
    for (size_t i = 0; i < bytes; i += sizeof(block))
        if (write(fd, block, sizeof(block)) < 0)
            continue; /* a full pipe: the writer must not block */
}

static int misbehave(void)
{
    const char *how = getenv("MEDIA_DOUBLE");
    int number;

    if (!how)
        return 2;
    if (sscanf(how, "signal %d", &number) == 1) {
        say_info();
        die_by(number);
    } else if (sscanf(how, "exit %d", &number) == 1) {
        return number;
    } else if (sscanf(how, "error %d", &number) == 1) {
        say_error(number);
    } else if (sscanf(how, "type %d", &number) == 1) {
        struct buf b = BUF_INIT;

        say((enum wire_type)number, &b);
    } else if (strcmp(how, "hang") == 0) {
        say_info();
        pause();
    } else if (strcmp(how, "fds") == 0) {
        return 100 + count_fds();
    } else if (strcmp(how, "garbage") == 0) {
        write_raw("GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
        pause();
    } else if (strcmp(how, "half") == 0) {
        say_piece(12, false);
    } else if (strcmp(how, "giant") == 0) {
        say_piece(FRAME_HEADER, true);
        pause();
    } else if (strcmp(how, "stderr") == 0) {
        flood(2, 64 << 20);
        die_by(SIGABRT);
    } else if (strcmp(how, "early pcm") == 0) {
        say_pcm(0);
    } else if (strcmp(how, "gap") == 0) {
        say_info();
        say_pcm(0);
        say_pcm(5000);
    } else if (strcmp(how, "infos") == 0) { /* once more, and with what it has */
        for (int i = 0; i < 2; i++)
            say_info();
        say_end(0);
    } else if (strcmp(how, "three infos") == 0) {
        for (int i = 0; i < 3; i++)
            say_info();
    } else if (strcmp(how, "other sources") == 0) {
        say_info();
        say_sources(2);
    } else if (strcmp(how, "late pcm") == 0) {
        say_info();
        say_info();
        say_pcm(0);
    } else if (sscanf(how, "bytes %d", &number) == 1) {
        say_bytes((size_t)number, true);
        pause();
    } else if (strcmp(how, "early bytes") == 0) {
        say_bytes(10, false);
    } else if (strcmp(how, "deaf") == 0) {
        for (;;)
            say_entry();
    } else if (strcmp(how, "entry") == 0) {
        say_entry();
    } else if (strcmp(how, "entries") == 0) {
        for (int i = 0; i < 100; i++) {
            say_entry();
            say_bytes(0, false);
        }
    } else if (strcmp(how, "unfinished entries") == 0) {
        say_entry();
        say_entry();
    } else if (strcmp(how, "unfinished listing") == 0) {
        say_bytes(9, true);
        say_end(0);
    } else if (strcmp(how, "listed, and damaged") == 0) {
        say_bytes(9, true);
        say_bad_entry();
        say_end(0);
    } else if (sscanf(how, "listed %d", &number) == 1) {
        say_bytes((size_t)number, true);
        say_bytes(0, false);
        say_end(0);
    } else if (strcmp(how, "wrong end") == 0) {
        say_info();
        say_pcm(0);
        say_end(99);
    } else if (strcmp(how, "good") == 0) {
        say_info();
        say_pcm(0);
        say_end(1600);
        pause(); /* and does not leave */
    } else if (strcmp(how, "unloaded") == 0) {
        const struct sandbox_report report = {.seccomp = true, .cpu_seconds = 1};
        struct buf b = BUF_INIT;

        wire_put_sandbox(&b, &report);
        say(WIRE_SANDBOX, &b);
        buf_free(&b);
    } else if (strcmp(how, "drip") == 0) {
        say_info();
        for (int i = 0; i < 200; i++) {
            say_pcm(1600 * i);
            usleep(50000);
        }
        say_end(1600 * 200);
    } else if (strcmp(how, "endless") == 0) {
        say_info();
        for (int64_t at = 0;; at += 1600)
            say_pcm(at);
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = getenv("MEDIA_DOUBLE");
    int rc;

    /* One whose libraries cannot be opened. */
    if (how && strcmp(how, "unloaded") == 0 && !(argc > 2 && strcmp(argv[2], DECODER_BARE) == 0))
        return 69;
    rc = fork_server_main(misbehave);
    return rc < 0 ? 2 : rc;
}
