#include "tests/unit/workers/play.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu/backend.h"
#include "workers/media/decoder.h"
#include "workers/media/stream/fingerprint.h"
#include "workers/models/files/model_dir.h"
#include "workers/process/finalize_main.h"
#include "workers/stages/stage.h"
#include "workers/process/worker.h"

bool play_dispatch(int argc, char **argv, int *status)
{
    if (argc > 1 && strcmp(argv[1], "worker") == 0) {
        backend_host_sleep_when_idle(argv); /* as the program's own main */
        *status = worker_main(argc - 1, argv + 1);
    } else if (argc > 1 && strcmp(argv[1], "finalize") == 0)
        *status = finalizer_main(argc - 1, argv + 1);
    else if (argc > 1 && strcmp(argv[1], "decoder") == 0)
        *status = decoder_main(argc - 1, argv + 1);
    else
        return false;
    return true;
}

static void child(int sock, const struct play_options *o)
{
    char *const worker[] = {(char *)"nightshift", (char *)"worker", (char *)"--device",
                            (char *)(o->device ? o->device : "cpu"), NULL};
    char *const finalizer[] = {(char *)"nightshift", (char *)"finalize", NULL};

    if (o->fault)
        setenv("NIGHTSHIFT_FAULT", o->fault, 1);
    if (o->no_leak_check)
        setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    if (sock == WORKER_SOCKET_FD)
        fcntl(sock, F_SETFD, 0);
    else
        dup2(sock, WORKER_SOCKET_FD);
    execv("/proc/self/exe", o->finalize ? finalizer : worker);
    _exit(127);
}

static void put(struct play *p, uint8_t type, struct buf *payload)
{
    assert_false(payload->failed);
    frame_put(&p->out, type, payload->data, payload->len);
    buf_free(payload);
}

/* As asked for, with the hash of what is there. Each owns its hash alone. */
static void fill_beside(const struct play_options *o, struct msg_stage *to)
{
    for (uint32_t i = 0; i < o->beside_count; i++) {
        struct err e = {0};

        to[i] = o->beside[i];
        if (to[i].model_hash) {
            to[i].model_hash = strdup(to[i].model_hash);
            continue;
        }
        to[i].model_hash = calloc(1, MODEL_HASH_LEN);
        assert_ok(stage_model_hash(to[i].name, to[i].model_dir, to[i].model_hash, &e), e);
    }
}

/* Whatever is said of the first stage's folder, its hash is that of the right one. */
static void fill_first(const struct play_options *o, char *hash, struct msg_stage *to)
{
    const char *nano = test_source_path("workers/models/whisper-nano");
    struct transcribe_params params;
    struct err e = {0};

    *to = (struct msg_stage){.name = (char *)(o->stage ? o->stage : ""), .model_hash = hash};
    if (o->stage) {
        assert_ok(stage_model_hash(o->stage, o->model_dir, hash, &e), e);
        to->params_json = strdup(o->params);
    } else {
        assert_ok(model_dir_hash(nano, hash, &e), e);
        transcribe_params_default(&params);
        assert_ok(transcribe_params_to_json(&params, &to->params_json, &e), e);
    }
    to->model_dir = strdup(o->model_dir ? o->model_dir : nano);
    if (o->model_hash)
        snprintf(hash, MODEL_HASH_LEN, "%s", o->model_hash);
}

static void put_setup(struct play *p, const struct play_options *o)
{
    struct msg_stage stages[SETUP_MAX_STAGES];
    struct buf b = BUF_INIT;
    char hash[MODEL_HASH_LEN];
    struct msg_setup m = {
        .stage_count = 1 + o->beside_count,
        .stages = stages,
        .precision = (char *)"f32",
        .slots = o->slots,
        .decoders = o->decoders,
        .threads = 1,
        .pcm_bytes = o->pcm_bytes,
        .windows = o->windows,
        .memory_limit = o->memory_limit,
        .tuned_slots = o->tuned_slots,
        .tuned_windows = o->tuned_windows,
        .tuned_rate = o->tuned_rate,
    };

    fill_first(o, hash, &stages[0]);
    fill_beside(o, &stages[1]);
    msg_setup_put(&b, &m);
    put(p, MSG_SETUP, &b);
    for (uint32_t i = 1; i < m.stage_count; i++)
        free(stages[i].model_hash);
    free(stages[0].model_dir);
    free(stages[0].params_json);
}

void play_start(struct play *p, const struct play_options *o)
{
    int fds[2];

    memset(p, 0, sizeof(*p));
    p->next_lease = 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0)
        child(fds[1], o);
    close(fds[1]);
    p->fd = fds[0];
    if (!o->no_setup && !o->finalize) {
        put_setup(p, o);
        play_send(p);
    }
}

void play_ready(struct play *p, const struct play_options *o)
{
    play_start(p, o);
    while (!p->ready)
        if (!play_step(p) || p->fatal)
            fail_msg("the worker is not ready: %s", p->fatal_message);
    assert_true(p->hello);
}

int play_wait(struct play *p)
{
    int status = 0;

    while (waitpid(p->pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    p->pid = 0;
    return status;
}

void play_forget(struct play *p)
{
    while (p->done_count)
        msg_shard_done_free(&p->done[--p->done_count]);
    while (p->failed_count)
        msg_shard_failed_free(&p->failed[--p->failed_count]);
    while (p->end_count)
        msg_lease_end_free(&p->ends[--p->end_count]);
    while (p->media_count)
        msg_media_free(&p->media[--p->media_count]);
    while (p->finalized_count)
        msg_finalized_free(&p->finalized[--p->finalized_count]);
}

void play_free(struct play *p)
{
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    play_forget(p);
    frame_reader_free(&p->in);
    buf_free(&p->out);
}

void play_quit(struct play *p)
{
    int status;

    play_put_empty(p, MSG_QUIT);
    play_send(p);
    play_until_gone(p);
    status = play_wait(p);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    play_free(p);
}

/* ---- saying */

struct msg_lease play_lease_of(struct play *p, const char *path, uint32_t shard_ms)
{
    struct msg_lease m = {
        .lease_id = p->next_lease++,
        .path = (char *)path,
        .member = (char *)"",
        .want_hash = true,
        .shard_ms = shard_ms,
        .last = UINT32_MAX,
        .tracks = p->tracks[p->next_lease % PLAY_MAX],
    };
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct err e = {0};
    struct stat st;

    play_add_track(&m);
    m.media_id = (int64_t)m.lease_id + 1000;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        m.size_bytes = (uint64_t)st.st_size;
        assert_ok(fingerprint_fd(fd, m.size_bytes, m.fingerprint, &e), e);
    }
    if (fd >= 0)
        close(fd);
    return m;
}

struct msg_track *play_add_track(struct msg_lease *m)
{
    struct msg_track *t = &m->tracks[m->track_count];

    *t = (struct msg_track){.stage = m->track_count ? t[-1].stage + 1 : 0, .language = (char *)""};
    m->track_count++;
    return t;
}

void play_put_lease(struct play *p, const struct msg_lease *m)
{
    struct buf b = BUF_INIT;

    msg_lease_put(&b, m);
    put(p, MSG_LEASE, &b);
}

void play_put_cap(struct play *p, uint64_t lease, uint32_t last)
{
    struct msg_cap m = {lease, last};
    struct buf b = BUF_INIT;

    msg_cap_put(&b, &m);
    put(p, MSG_CAP, &b);
}

void play_put_cancel(struct play *p, uint64_t lease) { play_put_cancel_track(p, lease, 0); }

void play_put_cancel_track(struct play *p, uint64_t lease, uint32_t track)
{
    struct msg_cancel m = {lease, track};
    struct buf b = BUF_INIT;

    msg_cancel_put(&b, &m);
    put(p, MSG_CANCEL, &b);
}

void play_put_finalize(struct play *p, const struct msg_finalize *m)
{
    struct buf b = BUF_INIT;

    msg_finalize_put(&b, m);
    put(p, MSG_FINALIZE, &b);
}

void play_put_voices(struct play *p, const struct result_voices *m)
{
    struct buf b = BUF_INIT;

    msg_voices_put(&b, m);
    put(p, MSG_VOICES, &b);
}

void play_put_empty(struct play *p, uint8_t type) { frame_put(&p->out, type, NULL, 0); }

void play_send(struct play *p)
{
    for (size_t at = 0; at < p->out.len;) {
        ssize_t n = send(p->fd, p->out.data + at, p->out.len - at, MSG_NOSIGNAL);

        if (n < 0)
            break; /* it has left: what the test expects of it is checked by what it said */
        at += (size_t)n;
    }
    buf_clear(&p->out);
}

/* ---- hearing */

static void keep_fatal(struct play *p, const struct frame *f)
{
    struct msg_fatal m;
    struct err e = {0};

    assert_ok(msg_fatal_get(f->payload, f->len, &m, &e), e);
    p->fatal = m.code;
    snprintf(p->fatal_message, sizeof(p->fatal_message), "%s", m.message);
    msg_fatal_free(&m);
}

static void keep_ready(struct play *p, const struct frame *f)
{
    struct msg_ready m;
    struct err e = {0};

    assert_ok(msg_ready_get(f->payload, f->len, &m, &e), e);
    assert_true(m.description[0] != 0);
    p->ready = true;
    p->capacity = m.capacity;
    p->slots = m.slots;
    p->windows = m.windows;
    p->rate = m.rate;
    p->measured = m.measured;
    p->predicted_bytes = m.predicted_bytes;
    p->allocated_bytes = m.allocated_bytes;
    snprintf(p->precision, sizeof(p->precision), "%s", m.precision);
    p->stage_count = m.stage_count;
    for (uint32_t i = 0; i < m.stage_count; i++)
        snprintf(p->why_not[i], sizeof(p->why_not[i]), "%s", m.why_not[i]);
    msg_ready_free(&m);
}

static void check_hello(struct play *p, const struct frame *f)
{
    struct msg_hello m;
    struct err e = {0};

    assert_ok(msg_hello_get(f->payload, f->len, &m, &e), e);
    assert_int_equal(m.pid, p->pid);
    p->hello = true;
    msg_hello_free(&m);
}

static void keep_finalize_failed(struct play *p, const struct frame *f)
{
    struct msg_finalize_failed m;
    struct err e = {0};

    assert_ok(msg_finalize_failed_get(f->payload, f->len, &m, &e), e);
    p->finalize_failed++;
    p->finalize_code = m.code;
    snprintf(p->finalize_message, sizeof(p->finalize_message), "%s", m.message);
    msg_finalize_failed_free(&m);
}

static void keep_log(struct play *p, const struct frame *f)
{
    struct msg_log m;
    struct err e = {0};

    assert_ok(msg_log_get(f->payload, f->len, &m, &e), e);
    print_message("worker: %s\n", m.line);
    snprintf(p->log, sizeof(p->log), "%s", m.line);
    msg_log_free(&m);
}

#define KEEP(name, array, count)                                                     \
    do {                                                                             \
        assert_true(p->count < PLAY_MAX);                                            \
        assert_ok(msg_##name##_get(f->payload, f->len, &p->array[p->count], &e), e); \
        p->count++;                                                                  \
    } while (0)

static void keep(struct play *p, const struct frame *f)
{
    struct msg_tuned tuned;
    struct err e = {0};

    switch (f->type) {
    case MSG_HELLO:
        check_hello(p, f);
        break;
    case MSG_READY:
        keep_ready(p, f);
        break;
    case MSG_FATAL:
        keep_fatal(p, f);
        break;
    case MSG_MEDIA:
        KEEP(media, media, media_count);
        break;
    case MSG_SHARD_DONE:
        KEEP(shard_done, done, done_count);
        break;
    case MSG_SHARD_FAILED:
        KEEP(shard_failed, failed, failed_count);
        break;
    case MSG_LEASE_END:
        KEEP(lease_end, ends, end_count);
        break;
    case MSG_HEARTBEAT:
        assert_ok(msg_heartbeat_get(f->payload, f->len, &p->beat, &e), e);
        p->beats++;
        break;
    case MSG_LOG:
        keep_log(p, f);
        break;
    case MSG_TUNED:
        assert_ok(msg_tuned_get(f->payload, f->len, &tuned, &e), e);
        p->slots = tuned.slots;
        p->windows = tuned.windows;
        p->tuned_count++;
        msg_tuned_free(&tuned);
        break;
    case MSG_FINALIZED:
        KEEP(finalized, finalized, finalized_count);
        break;
    case MSG_FINALIZE_FAILED:
        keep_finalize_failed(p, f);
        break;
    default:
        fail_msg("the worker sent a message of type %u", f->type);
    }
}

bool play_step(struct play *p)
{
    struct err e = {0};
    struct frame f;
    int rc;

    if (p->gone)
        return false;
    rc = frame_read_fd(p->fd, &p->in, PLAY_SILENCE_MS, &f, &e);
    if (rc == ERR_EMPTY || rc == ERR_IO) {
        p->gone = true;
        return false;
    }
    assert_ok(rc, e);
    keep(p, &f);
    return true;
}

static const struct msg_lease_end *find_end(const struct play *p, uint64_t lease)
{
    for (uint32_t i = 0; i < p->end_count; i++)
        if (p->ends[i].lease_id == lease)
            return &p->ends[i];
    return NULL;
}

const struct msg_lease_end *play_until_end(struct play *p, uint64_t lease)
{
    while (!find_end(p, lease))
        if (!play_step(p))
            fail_msg("the worker left: %s", p->fatal_message);
    return find_end(p, lease);
}

void play_until_media(struct play *p)
{
    while (!p->media_count)
        assert_true(play_step(p));
}

void play_until_busy(struct play *p)
{
    do {
        p->beat.windows = 0;
        assert_true(play_step(p));
    } while (!p->beat.windows);
}

void play_until_gone(struct play *p)
{
    while (play_step(p)) {
    }
}

const struct msg_shard_done *play_shard(const struct play *p, uint64_t lease, uint32_t seq)
{
    return play_shard_of(p, lease, 0, seq);
}

const struct msg_shard_done *play_shard_of(const struct play *p, uint64_t lease, uint32_t track,
                                           uint32_t seq)
{
    const struct msg_shard_done *found = NULL;

    for (uint32_t i = 0; i < p->done_count; i++)
        if (p->done[i].lease_id == lease && p->done[i].track == track && p->done[i].seq == seq) {
            assert_null(found); /* never twice */
            found = &p->done[i];
        }
    return found;
}

uint32_t play_shards(const struct play *p, uint64_t lease) { return play_shards_of(p, lease, 0); }

uint32_t play_shards_of(const struct play *p, uint64_t lease, uint32_t track)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->done_count; i++)
        n += p->done[i].lease_id == lease && p->done[i].track == track;
    return n;
}

char *play_text(const struct play *p, uint64_t lease)
{
    struct buf b = BUF_INIT;
    char *text;

    for (uint32_t seq = 0; seq < PLAY_MAX; seq++) {
        const struct msg_shard_done *s = play_shard(p, lease, seq);

        for (uint32_t i = 0; s && i < s->segment_count; i++)
            buf_printf(&b, "%s%s", b.len ? " " : "", s->segments[i].text);
    }
    text = strdup(b.len ? buf_cstr(&b) : "");
    buf_free(&b);
    return text;
}

void play_same(const struct msg_shard_done *a, const struct msg_shard_done *b)
{
    struct msg_shard_done like = *b;
    struct buf x = BUF_INIT, y = BUF_INIT;

    assert_non_null(a);
    assert_non_null(b);
    like.lease_id = a->lease_id;
    like.media_id = a->media_id;
    like.track = a->track;
    like.shards = a->shards;
    like.total_ms = a->total_ms;
    like.wall_ms = a->wall_ms;
    msg_shard_done_put(&x, a);
    msg_shard_done_put(&y, &like);
    if (x.len != y.len || memcmp(x.data, y.data, x.len) != 0)
        fail_msg("shard %u differs: [%lld, %lld) and %u segments, [%lld, %lld) and %u", a->seq,
                 (long long)a->start_ms, (long long)a->end_ms, a->segment_count,
                 (long long)b->start_ms, (long long)b->end_ms, b->segment_count);
    buf_free(&x);
    buf_free(&y);
}
