#include "workers/process/finalize_main.h"

#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <poll.h>
#include <stdbool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "base/utf8.h"
#include "workers/wire/frame.h"
#include "workers/models/pyannote/diarization_dir.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/pyannote/plda_file.h"
#include "workers/models/pyannote/pyannet.h"
#include "workers/process/worker.h"
#include "workers/speakers/diarize.h"
#include "workers/speakers/vbx.h"
#include "workers/stages/stage.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/stage_params.h"

/* Address space: a day's recording takes some 2 GiB. */
#define MEMORY_BYTES (UINT64_C(16) << 30)
/* The most malloc arenas, each of which takes 64 MiB of address space. */
#define MOST_ARENAS 4
/* The last pause before a model is read again. */
#define AGAIN_MOST_MS 16000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* sanitizers take terabytes of address space */
#else
#define SANITIZED 0
#endif

#define FRAME_LENGTH_S 0.0619375 /* that a frame hears: 991 samples */

void finalizing_free(struct finalizing *s)
{
    free(s->active);
    free(s->vectors);
    memset(s, 0, sizeof(*s));
}

/* ---- gathering */

static int make_room(struct finalizing *s, uint32_t windows, struct err *err)
{
    size_t voices = (size_t)s->speakers * s->size;
    uint32_t room = windows < UINT32_MAX / 2 ? 2 * windows : windows;
    uint8_t *active;
    float *vectors;

    if (windows <= s->room)
        return 0;
    active = realloc(s->active, (size_t)room * s->frames);
    if (active)
        s->active = active;
    vectors = realloc(s->vectors, room * voices * sizeof(*vectors));
    if (vectors)
        s->vectors = vectors;
    if (!active || !vectors)
        return err_set(err, ERR_NOMEM, "no memory for %u windows of voices", windows);
    s->room = room;
    return 0;
}

static int check_next(const struct finalizing *s, const struct result_voices *v, struct err *err)
{
    if (v->frames != PYANNET_FRAMES)
        return err_set(err, ERR_INPUT, "its windows have %u frames, and not %d", v->frames,
                       PYANNET_FRAMES);
    if (s->windows && (v->frames != s->frames || v->speakers != s->speakers || v->size != s->size))
        return err_set(err, ERR_INPUT, "its shards were heard by different models");
    if (v->first != s->windows)
        return err_set(err, ERR_INPUT, "its shards leave a gap: window %u follows window %u",
                       v->first, s->windows);
    if (v->windows > UINT32_MAX - s->windows)
        return err_set(err, ERR_LIMIT, "it has more windows than can be");
    return 0;
}

int finalizing_add(struct finalizing *s, const struct result_voices *v, struct err *err)
{
    size_t voices;
    float *to;
    int rc;

    if (v->windows == 0)
        return 0;
    if (v->speakers == 0 || v->size == 0)
        return err_set(err, ERR_INPUT, "its windows are of nobody");
    rc = check_next(s, v, err);
    if (rc != 0)
        return rc;
    s->frames = v->frames;
    s->speakers = v->speakers;
    s->size = v->size;
    rc = make_room(s, s->windows + v->windows, err);
    if (rc != 0)
        return rc;
    voices = (size_t)s->speakers * s->size;
    to = s->vectors + s->windows * voices;
    memcpy(s->active + (size_t)s->windows * s->frames, v->active, (size_t)v->windows * v->frames);
    for (size_t i = 0; i < v->windows * voices; i++)
        to[i] = NAN;
    for (uint32_t i = 0; i < v->vector_count; i++)
        memcpy(to + (size_t)v->of[i] * s->size, v->vectors + (size_t)i * s->size,
               s->size * sizeof(*to));
    s->windows += v->windows;
    return 0;
}

/* ---- how */

/* Takes the job's parameters, else the model's, which default to the published pipeline's. */
static void choose_params(const struct diarize_stage_params *said,
                          const struct diarization_dir *dir, struct diarize_params *ret)
{
    enum diarize_clustering own = dir->vbx ? DIARIZE_VBX : DIARIZE_AHC;

    diarize_params_default(said->clustering_said ? said->p.clustering : own, ret);
    if (ret->clustering == own) {
        ret->threshold = dir->threshold;
        ret->min_cluster_size = dir->min_cluster_size;
        ret->fa = dir->fa;
        ret->fb = dir->fb;
    }
    if (said->threshold_said)
        ret->threshold = said->p.threshold;
    if (said->min_cluster_size_said)
        ret->min_cluster_size = said->p.min_cluster_size;
    if (said->fa_said)
        ret->fa = said->p.fa;
    if (said->fb_said)
        ret->fb = said->p.fb;
    ret->min_duration_off = said->p.min_duration_off;
    ret->num_speakers = said->p.num_speakers;
    ret->min_speakers = said->p.min_speakers;
    ret->max_speakers = said->p.max_speakers;
}

static int check_model(const struct msg_finalize *m, const char *dir, struct err *err)
{
    char hash[MODEL_HASH_LEN];
    int rc = stage_model_hash(stage_diarize.name, dir, hash, err);

    if (rc == 0 && strcmp(hash, m->model_hash) != 0)
        rc = err_set(err, ERR_MODEL,
                     "the model's files in '%s' are not those that the job was set up with "
                     "(now %s, then %s): restore them, or enqueue with this model",
                     dir, hash, m->model_hash);
    return rc;
}

void finalizing_model_free(struct finalizing_model *k)
{
    plda_free(k->plda);
    diarization_dir_free(&k->dir);
    free(k->name);
    free(k->hash);
    memset(k, 0, sizeof(*k));
}

static int open_model(struct finalizing_model *k, const struct msg_finalize *m, struct err *err)
{
    char *dir = NULL;
    int rc = model_dir_find(m->model_dir, &dir, err);

    if (rc == 0)
        rc = check_model(m, dir, err);
    if (rc == 0)
        rc = diarization_dir_open(dir, &k->dir, err);
    free(dir);
    if (rc != 0)
        return rc;
    k->name = strdup(m->model_dir);
    k->hash = strdup(m->model_hash);
    return k->name && k->hash ? 0 : err_set(err, ERR_NOMEM, "no memory for a model's name");
}

static int know_model(struct finalizing_model *k, const struct msg_finalize *m, struct err *err)
{
    int rc;

    if (k->name && strcmp(k->name, m->model_dir) == 0 && strcmp(k->hash, m->model_hash) == 0)
        return 0;
    finalizing_model_free(k);
    rc = open_model(k, m, err);
    if (rc != 0)
        finalizing_model_free(k);
    return rc;
}

static int need_plda(struct finalizing_model *k, struct err *err)
{
    if (k->plda)
        return 0;
    if (!k->dir.plda)
        return err_set(err, ERR_USAGE, "clustering by VBx needs a model that has a PLDA");
    return plda_open(k->dir.plda, &k->plda, err);
}

static int read_how(const struct msg_finalize *m, struct finalizing_model *k,
                    struct diarize_params *params, struct err *err)
{
    struct diarize_stage_params said;
    int rc = param_table_from_json(stage_diarize.params, m->params_json, &said, err);

    if (rc == 0)
        rc = know_model(k, m, err);
    if (rc == 0) {
        choose_params(&said, &k->dir, params);
        params->threads = m->threads;
    }
    if (rc == 0 && params->clustering == DIARIZE_VBX)
        rc = need_plda(k, err);
    /* An error of the stage would recur with each of its recordings. */
    if (rc == ERR_USAGE || rc == ERR_MISSING || rc == ERR_DENIED)
        rc = err->code = ERR_MODEL;
    return rc;
}

/* ---- what became of them */

static int64_t to_ms(double seconds, int64_t most)
{
    int64_t ms = seconds > 0 ? llround(seconds * 1000) : 0;

    return ms < most ? ms : most;
}

static bool has_direction(const float *v, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++)
        if (v[i] != 0)
            return true;
    return false;
}

/* A copy of a speaker's voice; NULL where it has no direction, or (ERR_NOMEM) no memory. */
static int copy_voice(const float *from, uint32_t size, const float **ret, struct err *err)
{
    float *voice;

    if (!has_direction(from, size))
        return 0;
    voice = malloc(size * sizeof(*voice));
    if (!voice)
        return err_set(err, ERR_NOMEM, "no memory for a speaker's voice");
    memcpy(voice, from, size * sizeof(*voice));
    *ret = voice;
    return 0;
}

static int fill_people_result(const struct diarize_result *r, uint32_t size, int64_t total_ms,
                              struct result_people *ret, struct err *err)
{
    struct result_speaker *speakers = calloc(r->speakers + 1u, sizeof(*speakers));
    struct result_turn *turns = calloc(r->turn_count + (size_t)1, sizeof(*turns));
    int rc = 0;

    ret->speakers = speakers;
    ret->turns = turns;
    if (!speakers || !turns)
        return err_set(err, ERR_NOMEM, "no memory for %u turns", r->turn_count);
    ret->size = r->speakers ? size : 0;
    ret->speaker_count = r->speakers;
    ret->turn_count = r->turn_count;
    for (uint32_t i = 0; i < r->speakers && rc == 0; i++) {
        speakers[i].speech_ms = to_ms(r->speech_s[i], total_ms);
        rc = copy_voice(r->vectors + (size_t)i * size, size, &speakers[i].values, err);
    }
    for (uint32_t i = 0; i < r->turn_count; i++)
        turns[i] = (struct result_turn){to_ms(r->turns[i].start_s, total_ms),
                                        to_ms(r->turns[i].end_s, total_ms), r->turns[i].speaker};
    return rc;
}

static int cluster_speakers(const struct finalizing *s, const struct msg_finalize *m,
                            struct finalizing_model *k, struct msg_finalized *ret, struct err *err)
{
    struct diarize_input in = {
        .windows = s->windows,
        .frames = s->frames,
        .speakers = s->speakers,
        .window_s = PYANNET_SAMPLES / 16000.0,
        .step_s = PYANNET_STEP / 16000.0,
        .frame_s = PYANNET_FRAME_S,
        .frame_length_s = FRAME_LENGTH_S,
        .duration_s = (double)m->total_ms / 1000,
        .active = s->active,
        .size = s->size,
        .vectors = s->vectors,
    };
    struct diarize_params params;
    struct diarize_result result = {0};
    int rc = read_how(m, k, &params, err);

    if (rc == 0 && m->apart)
        rc = diarize_apart(&in, &params, &result, err);
    else if (rc == 0)
        rc = diarize_recording(&in, &params, params.clustering == DIARIZE_VBX ? k->plda : NULL,
                               &result, err);
    if (rc == ERR_USAGE) /* as in read_how: of the stage, and not of this recording */
        rc = err->code = ERR_MODEL;
    if (rc == 0)
        rc = fill_people_result(&result, s->size, m->total_ms, &ret->people, err);
    diarize_free(&result);
    return rc;
}

int finalizing_finish(const struct finalizing *s, const struct msg_finalize *m,
                      struct finalizing_model *k, struct msg_finalized *ret, struct err *err)
{
    struct msg_finalized finalized = {.task_id = m->task_id};
    int64_t begun = clock_mono_ms();
    int rc = s->windows ? cluster_speakers(s, m, k, &finalized, err) : 0;

    if (rc != 0) {
        msg_finalized_free(&finalized);
        return rc;
    }
    finalized.wall_ms = (uint32_t)(clock_mono_ms() - begun);
    *ret = finalized;
    return 0;
}

/* ---- the process's state */

struct finalizer {
    struct frame_reader in;
    struct msg_finalize work; /* model_dir NULL: none */
    struct finalizing voices;
    struct finalizing_model model; /* of the last work that was done */
    struct err failed;             /* a message of this work that cannot be used: told at its end */
};

/* ---- what is said */

static int send_finalizer_message(uint8_t type, struct buf *b, struct err *err)
{
    int rc = b->failed ? err_set(err, ERR_NOMEM, "no memory for a message")
                       : frame_write_fd(WORKER_SOCKET_FD, type, b->data, b->len, err);

    buf_free(b);
    return rc;
}

static int say_hello(struct err *err)
{
    struct buf b = BUF_INIT;
    const struct msg_hello m = {
        .pid = (uint32_t)getpid(),
        .device = (char *)"finalize",
        .program = (char *)NIGHTSHIFT_VERSION,
    };

    msg_hello_put(&b, &m);
    return send_finalizer_message(MSG_HELLO, &b, err);
}

/* A line that cannot be sent is lost: its reader is gone, too. */
static void log_to_scheduler(enum log_level level, const char *line, void *arg)
{
    struct buf b = BUF_INIT;
    struct err ignored = {0};
    char *valid = utf8_repair(line, strlen(line));
    const struct msg_log m = {.level = (uint8_t)level, .line = valid};

    (void)arg;
    msg_log_put(&b, &m);
    send_finalizer_message(MSG_LOG, &b, &ignored);
    free(valid);
}

static int say_failed(int64_t task, const struct err *why, struct err *err)
{
    struct buf b = BUF_INIT;
    char *valid = utf8_repair(why->msg, strlen(why->msg));
    const struct msg_finalize_failed m = {.task_id = task, .code = why->code, .message = valid};

    msg_finalize_failed_put(&b, &m);
    free(valid);
    return send_finalizer_message(MSG_FINALIZE_FAILED, &b, err);
}

/* The message must be one that the scheduler can read: else it would close a finalizer that did
 * nothing wrong, again and again. */
static int encode_finalize_result(const struct msg_finalized *m, struct buf *b, struct err *err)
{
    struct msg_finalized check;
    int rc;

    msg_finalized_put(b, m);
    if (b->failed)
        return err_set(err, ERR_NOMEM, "no memory for a recording's speakers");
    if (b->len > FRAME_MAX)
        return err_set(err, ERR_LIMIT, "it has more turns than a message can hold");
    rc = msg_finalized_get(b->data, b->len, &check, err);
    if (rc == 0)
        msg_finalized_free(&check);
    else if (rc != ERR_NOMEM)
        rc = err_set(err, ERR_INPUT, "its voices gave a result that cannot be stored");
    return rc;
}

/* ---- what is heard */

static void reset_finalizer(struct finalizer *s)
{
    msg_finalize_free(&s->work);
    finalizing_free(&s->voices);
    s->failed = (struct err){0};
}

static int on_finalize(struct finalizer *s, const struct frame *f, struct err *err)
{
    if (s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "FINALIZE came before the last one's end");
    return msg_finalize_get(f->payload, f->len, &s->work, err);
}

static int on_voices(struct finalizer *s, const struct frame *f, struct err *err)
{
    struct result_voices m;
    int rc;

    if (!s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "VOICES came without FINALIZE");
    rc = msg_voices_get(f->payload, f->len, &m, err);
    if (rc != 0)
        return rc;
    if (!s->failed.code)
        finalizing_add(&s->voices, &m, &s->failed);
    msg_voices_free(&m);
    return 0;
}

/* False: the scheduler has something to say, which is QUIT, or has gone. */
static bool wait_without_message(int ms)
{
    struct pollfd p = {.fd = WORKER_SOCKET_FD, .events = POLLIN};

    return poll(&p, 1, ms) == 0;
}

/* The voices are all here: what a disk fails to give is the model. It is read again, as a worker is
 * restarted; an error that remains is the stage's, since no recording is to blame. */
static int finish_with_retries(struct finalizer *s, struct msg_finalized *ret)
{
    int rc = finalizing_finish(&s->voices, &s->work, &s->model, ret, &s->failed);

    for (int ms = 1000; rc == ERR_IO && ms <= AGAIN_MOST_MS; ms *= 4) {
        log_warn("%s; it is read again in %d s", s->failed.msg, ms / 1000);
        if (!wait_without_message(ms))
            break;
        s->failed = (struct err){0};
        rc = finalizing_finish(&s->voices, &s->work, &s->model, ret, &s->failed);
    }
    return rc == ERR_IO ? s->failed.code = ERR_MODEL : rc;
}

static int on_go(struct finalizer *s, struct err *err)
{
    struct msg_finalized m = {0};
    struct buf b = BUF_INIT;
    int rc = s->failed.code;

    if (!s->work.model_dir)
        return err_set(err, ERR_PROTOCOL, "FINALIZE_GO came without FINALIZE");
    if (rc == 0)
        rc = finish_with_retries(s, &m);
    if (rc == 0)
        rc = encode_finalize_result(&m, &b, &s->failed);
    msg_finalized_free(&m);
    if (rc == 0) {
        rc = send_finalizer_message(MSG_FINALIZED, &b, err);
    } else {
        buf_free(&b);
        rc = say_failed(s->work.task_id, &s->failed, err);
    }
    reset_finalizer(s);
    return rc;
}

static int handle_finalize_message(struct finalizer *s, const struct frame *f, struct err *err)
{
    switch (f->type) {
    case MSG_FINALIZE:
        return on_finalize(s, f, err);
    case MSG_VOICES:
        return on_voices(s, f, err);
    case MSG_FINALIZE_GO:
        return on_go(s, err);
    case MSG_QUIT:
        return err_set(err, ERR_EMPTY, "the scheduler wants this finalizer to leave");
    default:
        return err_set(err, ERR_PROTOCOL, "the scheduler sent a message of type %u", f->type);
    }
}

static int serve_scheduler(struct finalizer *s, struct err *err)
{
    struct frame f;
    int rc = say_hello(err);

    while (rc == 0) {
        rc = frame_read_fd(WORKER_SOCKET_FD, &s->in, -1, &f, err);
        if (rc == 0)
            rc = handle_finalize_message(s, &f, err);
    }
    return rc;
}

/* ---- the process */

/* Like a worker: the scheduler decides when to stop. */
static void ignore_signals(void)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct sigaction a = {.sa_handler = SIG_IGN};

    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        sigaction(ignored[i], &a, NULL);
}

static void limit_memory(void)
{
    struct rlimit r;

#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, MOST_ARENAS);
#endif
    if (SANITIZED || getrlimit(RLIMIT_AS, &r) != 0)
        return;
    if (r.rlim_cur > MEMORY_BYTES)
        r.rlim_cur = MEMORY_BYTES;
    setrlimit(RLIMIT_AS, &r);
}

static bool has_socket(void)
{
    struct stat st;

    return fstat(WORKER_SOCKET_FD, &st) == 0 && S_ISSOCK(st.st_mode) &&
           fcntl(WORKER_SOCKET_FD, F_SETFD, FD_CLOEXEC) == 0;
}

int finalizer_main(int argc, char **argv)
{
    struct finalizer s = {0};
    struct err err = {0};
    int rc;

    (void)argv;
    if (argc != 1 || !has_socket()) {
        fprintf(stderr, "nightshift finalize: this command is started by 'nightshift run' only\n");
        return EX_USAGE;
    }
    if (!spawn_begun(WORKER_SOCKET_FD))
        return EX_OK;
    ignore_signals();
    limit_memory();
    log_set_sink(log_to_scheduler, NULL);
    rc = serve_scheduler(&s, &err);
    if (rc != ERR_EMPTY && rc != ERR_IO)
        log_warn("%s", err.msg);
    reset_finalizer(&s);
    finalizing_model_free(&s.model);
    frame_reader_free(&s.in);
    log_set_sink(NULL, NULL);
    return rc == ERR_EMPTY || rc == ERR_IO ? EX_OK : err_exit_status(rc);
}
