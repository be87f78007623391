/* The decoder process itself: takes one request, locks itself in, does it, ends. Before that it is
 * a fork server, which has loaded and seen nothing of any file. */
#include "workers/media/decoder.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "workers/wire/frame.h"
#include "workers/media/decode.h"
#include "workers/media/fork_server.h"
#include "workers/media/stream/fingerprint.h"
#include "workers/media/sandbox.h"
#include "workers/media/stream/stream.h"
#include "workers/media/archive_walk.h"
#include "workers/media/wire.h"

#define SOCKET_FD 3
#define FILE_FD 4
#define PULSE_MS 500
#define REQUEST_WAIT_MS 10000
#define INNER_BYTES (32u << 20) /* an archive inside another is listed from memory up to here */

struct session {
    struct wire_request request;
    uint64_t file_size;
    struct unpack_limits unpack;
    struct frame_reader in; /* from the parent */
    struct buf out;         /* payload under construction, kept between messages */
    int64_t sent_ms;        /* when the last frame was sent */
};

/* --- to the parent --- */

static int send_out(struct session *s, enum wire_type type, struct err *err)
{
    int rc = s->out.failed ? err_set(err, ERR_NOMEM, "out of memory")
                           : frame_write_fd(SOCKET_FD, (uint8_t)type, s->out.data, s->out.len, err);

    buf_clear(&s->out);
    s->sent_ms = clock_mono_ms();
    return rc;
}

/* While there is work and nothing comes of it yet, the parent must not take us for dead. */
static void on_life(void *arg)
{
    struct session *s = arg;
    struct err ignored;

    if (clock_mono_ms() - s->sent_ms >= PULSE_MS)
        (void)send_out(s, WIRE_PULSE, &ignored); /* a parent that is gone kills us anyway */
}

static int on_info(void *arg, const struct decoder_info *info, struct err *err)
{
    struct session *s = arg;

    wire_put_info(&s->out, info);
    return send_out(s, WIRE_INFO, err);
}

static int on_pcm(void *arg, const int16_t *pcm, size_t n, int64_t at, struct err *err)
{
    struct session *s = arg;

    wire_put_pcm(&s->out, pcm, n, at);
    return send_out(s, WIRE_PCM, err);
}

static int on_entry(void *arg, const struct decoder_entry *entry, struct err *err)
{
    struct session *s = arg;

    wire_put_entry(&s->out, entry);
    return send_out(s, WIRE_ENTRY, err);
}

/* Like on_entry, and asks whether the parent wants the bytes: 1, 0, or an error. */
static int on_offer(void *arg, const struct decoder_entry *entry, struct err *err)
{
    struct session *s = arg;
    struct wire_answer answer = {0};
    struct frame frame;
    int rc = on_entry(s, entry, err);

    if (rc == 0)
        rc = frame_read_fd(SOCKET_FD, &s->in, -1, &frame, err);
    if (rc == 0 && frame.type != WIRE_ANSWER)
        rc = err_set(err, ERR_PROTOCOL, "no answer");
    if (rc == 0)
        rc = wire_get_answer(frame.payload, frame.len, &answer, err);
    if (rc != 0)
        return err->code = ERR_IO; /* of the parent: nothing is wrong with the archive */
    return answer.wanted;
}

static int on_bytes(void *arg, const void *data, size_t n, struct err *err)
{
    struct session *s = arg;
    int rc = frame_write_fd(SOCKET_FD, WIRE_BYTES, data, n, err);

    s->sent_ms = clock_mono_ms();
    return rc;
}

/* --- decoding --- */

static int open_file(void *arg, struct stream **ret, struct err *err)
{
    struct session *s = arg;

    return stream_of_file(FILE_FD, s->file_size, (struct stream_pulse){on_life, s}, ret, err);
}

/* By its blocks, or by all bytes, which tell of recordings whose blocks are another's. */
struct sums {
    uint8_t blocks[16], whole[HASH_BYTES];
};

/* Reads the whole stream, then seeks back to its beginning. */
static int stream_sums(struct stream *in, struct sums *ret, struct err *err)
{
    struct hash *whole = hash_new();
    uint8_t *chunk = malloc(1 << 18);
    struct fingerprint *f = NULL;
    struct err ignored;
    int64_t got = 1;
    int rc = 0;

    if (!chunk || !whole)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    else if (in->size < 0)
        rc = err_set(err, ERR_INPUT, "its size is unknown: the archive is cut short");
    if (rc == 0)
        rc = fingerprint_new((uint64_t)in->size, &f, err);
    while (rc == 0 && got > 0) {
        got = stream_read(in, chunk, 1 << 18, err);
        if (got > 0) {
            fingerprint_feed(f, chunk, (size_t)got);
            hash_put(whole, chunk, (size_t)got);
        }
    }
    if (rc == 0) {
        rc = fingerprint_end(f, ret->blocks, got < 0 ? &ignored : err);
        rc = got < 0 ? (int)got : rc;
        hash_get(whole, ret->whole);
    }
    hash_free(whole);
    free(chunk);
    return rc != 0 ? rc : stream_seek(in, 0, err);
}

/* The nth member of that name, or the file itself (nth is then 0). */
static int open_input(struct session *s, unsigned nth, struct stream **ret, struct err *err)
{
    struct stream *in;
    int rc = open_file(s, &in, err);

    if (rc == 0 && s->request.member[0])
        rc = member_open(in, s->request.member, nth, &s->unpack, &in, err);
    if (rc == 0 && s->request.want_hash)
        rc = hashed_open(in, &in, err);
    if (rc == 0)
        *ret = in;
    return rc;
}

/* All of a file's bytes are read only where its blocks are not enough. */
static int file_whole(struct session *s, uint8_t ret[HASH_BYTES], struct err *err)
{
    struct stream *in;
    int rc = open_file(s, &in, err);

    if (rc == 0)
        rc = hashed_open(in, &in, err);
    if (rc != 0)
        return rc;
    rc = hashed_finish(in, ret, err);
    stream_close(in);
    return rc;
}

/* 1: it is the recording that was asked for; 0: it is another one. */
static int is_expected(struct session *s, struct stream *in, struct err *err)
{
    const uint8_t *expected = s->request.fingerprint;
    struct sums sums;
    int rc;

    if (!s->request.has_fingerprint)
        return 1;
    if (s->request.member[0]) {
        rc = stream_sums(in, &sums, err);
        return rc != 0 ? rc
                       : memcmp(sums.blocks, expected, sizeof(sums.blocks)) == 0 ||
                             memcmp(sums.whole, expected, sizeof(sums.whole)) == 0;
    }
    rc = fingerprint_fd(FILE_FD, (uint64_t)in->size, sums.blocks, err);
    if (rc == 0 && memcmp(sums.blocks, expected, sizeof(sums.blocks)) == 0)
        return 1;
    if (rc == 0)
        rc = file_whole(s, sums.whole, err);
    return rc != 0 ? rc : memcmp(sums.whole, expected, sizeof(sums.whole)) == 0;
}

/* The order in which members of one name are looked at: the one that was asked for, then the others
 * from the first on. */
static unsigned choose_nth_member(unsigned wanted, unsigned tried)
{
    return tried == 0 ? wanted : tried <= wanted ? tried - 1 : tried;
}

/* An archive may hold several members of one name, and others than when it was enqueued: the
 * fingerprint has the last word on which one is meant, so one that cannot be read only counts when
 * no other fits. */
static int open_expected(struct session *s, struct stream **ret, struct err *err)
{
    const unsigned wanted = s->request.member[0] ? s->request.nth : 0;
    struct err unreadable = {0};

    for (unsigned tried = 0;; tried++) {
        unsigned nth = choose_nth_member(wanted, tried);
        struct stream *in;
        int rc = open_input(s, nth, &in, err);

        if (rc == ERR_MISSING && tried == 0 && nth > 0 && s->request.has_fingerprint)
            continue;
        if (rc == ERR_MISSING && tried > 0 && nth > 0)
            break;
        if (rc != 0)
            return rc;
        rc = is_expected(s, in, err);
        if (rc == 1) {
            *ret = in;
            return 0;
        }
        stream_close(in);
        if (rc != 0 && (rc != ERR_INPUT || !s->request.member[0]))
            return rc;
        if (rc != 0 && unreadable.code == 0)
            unreadable = *err;
        if (!s->request.member[0])
            break;
    }
    if (unreadable.code != 0) {
        *err = unreadable;
        return err->code;
    }
    return err_set(err, ERR_CHANGED, "the file changed since it was enqueued");
}

static int run_decode(struct session *s, struct err *err)
{
    struct decode_task task = {.info = on_info,
                               .pcm = on_pcm,
                               .pulse = {on_life, s},
                               .arg = s,
                               .skip_samples = s->request.skip_samples,
                               .hearing = s->request.hearing};
    struct decoder_end end = {.complete = true};
    struct decode_remarks remarks = {0};
    struct stream *in = NULL;
    struct err hash_err = {0};
    int rc = open_expected(s, &in, err);

    if (rc != 0)
        return rc;
    in->headerless = s->request.headerless;
    rc = decode_stream(in, &task, &end.total_samples, &remarks, err);
    if (rc == 0 && s->request.want_hash) {
        /* A member that cannot be unpacked to its end has been called damaged already. */
        end.has_hash = hashed_finish(in, end.content_hash, &hash_err) == 0;
        if (!end.has_hash && hash_err.code != ERR_INPUT) {
            *err = hash_err;
            rc = hash_err.code;
        } else if (!end.has_hash && !remarks.damage[0]) {
            snprintf(remarks.damage, sizeof(remarks.damage), "%.300s", hash_err.msg);
        }
    }
    stream_close(in);
    if (rc == 0) {
        end.damage = remarks.damage;
        end.clock = remarks.clock;
        end.length = remarks.length;
        end.channels = remarks.channels;
        end.channel_count = remarks.channel_count;
        wire_put_end(&s->out, &end);
        rc = send_out(s, WIRE_END, err);
    }
    return rc;
}

/* Lists an archive, or unpacks of it what the parent wants. */
static int run_walk(struct session *s, struct err *err)
{
    const bool unpacks = s->request.task == WIRE_TASK_UNPACK;
    bool left_out = false;
    struct archive_walk_task task = {.open = open_file,
                                     .entry = unpacks ? on_offer : on_entry,
                                     .offers = unpacks,
                                     .bytes = on_bytes,
                                     .left_out = &left_out,
                                     .arg = s,
                                     .pulse = {on_life, s},
                                     .max_entries = s->request.limits.max_entries,
                                     .max_bytes = s->unpack.max_bytes,
                                     .memory_bytes = INNER_BYTES};
    struct decoder_end end = {.complete = true, .damage = "", .clock = ""};
    int rc = archive_walk(&task, err);

    if (rc == 0) {
        end.complete = !left_out;
        wire_put_end(&s->out, &end);
        rc = send_out(s, WIRE_END, err);
    }
    return rc;
}

/* --- the process --- */

/* Everything that opens files at its first use is used once before the doors close. Names of
 * members come as UTF-8 where an archive states their encoding, and untouched where it does not;
 * times without a zone are UTC, so that the same archive says the same everywhere. */
static int warm_up(struct err *err)
{
    setenv("TZ", "UTC0", 1);
    tzset();
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        setlocale(LC_CTYPE, "en_US.UTF-8");
    return decoder_load(err);
}

/* While the sandbox still allows it: the C library asks for a size by a call that takes names too.
 */
static int look_at_file(struct session *s, struct err *err)
{
    struct stat st;

    if (fstat(FILE_FD, &st) != 0)
        return err_set(err, ERR_IO, "cannot look at the file");
    if (!S_ISREG(st.st_mode) && s->request.task != WIRE_TASK_SANDBOX)
        return err_set(err, ERR_INPUT, "not a regular file");
    s->file_size = (uint64_t)st.st_size;
    return 0;
}

static int get_request(struct session *s, struct err *err)
{
    struct frame frame;
    int rc = frame_read_fd(SOCKET_FD, &s->in, REQUEST_WAIT_MS, &frame, err);

    if (rc == 0 && frame.type != WIRE_REQUEST)
        rc = err_set(err, ERR_PROTOCOL, "no request");
    if (rc == 0)
        rc = wire_get_request(frame.payload, frame.len, &s->request, err);
    return rc;
}

static int run_decoder_task(struct session *s, struct sandbox_report *report, struct err *err)
{
    const struct decoder_limits *limits = &s->request.limits;

    if (s->request.task == WIRE_TASK_SANDBOX) {
        sandbox_try(report);
        wire_put_sandbox(&s->out, report);
        return send_out(s, WIRE_SANDBOX, err);
    }
    s->unpack.max_bytes = limits->max_unpacked_bytes ? limits->max_unpacked_bytes
                                                     : unpack_default_bytes(s->file_size);
    return s->request.task == WIRE_TASK_DECODE ? run_decode(s, err) : run_walk(s, err);
}

static int decode_once(void)
{
    struct session s = {.out = BUF_INIT};
    struct sandbox_report report;
    struct err err = {0}, ignored;
    int rc;

    log_begin("decoder"); /* it is another process than the one that has loaded */
    s.sent_ms = clock_mono_ms();
    rc = get_request(&s, &err);
    if (rc != 0) {
        log_error("decoder: %s", err.msg);
        return DECODER_EXIT_UNASKED;
    }
    rc = look_at_file(&s, &err);
    if (rc == 0) {
        rc = sandbox_enter(&(struct sandbox_wish){.parent_pid = s.request.parent_pid,
                                                  .socket = SOCKET_FD,
                                                  .memory_bytes = s.request.limits.memory_bytes,
                                                  .cpu_seconds = s.request.limits.cpu_seconds,
                                                  .landlock_most = UINT32_MAX},
                           &report, &err);
    }
    if (rc == 0)
        rc = run_decoder_task(&s, &report, &err);
    if (rc != 0) {
        wire_put_error(&s.out, &err);
        (void)send_out(&s, WIRE_ERROR, &ignored);
    }
    wire_request_free(&s.request);
    frame_reader_free(&s.in);
    buf_free(&s.out);
    return 0;
}

int decoder_main(int argc, char **argv)
{
    struct err err = {0};
    int rc;

    if (!(argc > 1 && strcmp(argv[1], DECODER_BARE) == 0) && warm_up(&err) != 0)
        return EX_UNAVAILABLE; /* nobody gets a decoder, so that no recording is blamed */
    rc = fork_server_main(decode_once);
    if (rc < 0) {
        log_error("decoder: this command is started by `nightshift run`");
        return DECODER_EXIT_UNASKED;
    }
    return rc;
}
