#include "workers/worker_engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "gpu/backend.h"
#include "gpu/devices.h"
#include "workers/frame.h"
#include "workers/models/model_dir.h"
#include "workers/models/silero.h"
#include "workers/models/whisper.h"
#include "workers/stages/transcribe.h"
#include "workers/text/vocabulary.h"
#include "workers/worker.h"
#include "workers/worker_lease.h"
#include "workers/worker_tune.h"

#define SAMPLES_PER_MS 16

/* What the engine thread owns. */
struct engine {
    struct worker *w;
    struct backend *backend;
    struct transcribe_params params;
    struct whisper *model;
    struct silero *vad; /* NULL: no voice activity */
    struct vocabulary *vocab;
    struct whisper_shape shape;
    struct worker_load load;
    struct transcriber *transcriber;
    struct worker_tuning tuning;
    uint32_t slots, windows; /* as the scheduler was told */
    uint32_t capacity; /* lanes at once: twice the slots, so that a finished one has a successor */
    uint32_t lanes;
};

static void post_failed(const struct shard *s, const struct err *why)
{
    struct buf b = BUF_INIT;
    char *sentence = worker_sentence(why);
    struct msg_shard_failed m = {
        .lease_id = s->lease->msg.lease_id,
        .media_id = s->lease->msg.media_id,
        .seq = s->seq,
        .code = why->code,
        .message = sentence,
    };

    msg_shard_failed_put(&b, &m);
    outbox_post(&s->worker->out, MSG_SHARD_FAILED, &b);
    free(sentence);
}

static float between_0_and_1(float v) { return v < 0 ? 0 : v > 1 ? 1 : v; }

static void free_segments(struct msg_segment *segments, uint32_t n)
{
    for (uint32_t i = 0; segments && i < n; i++)
        free(segments[i].words);
    free(segments);
}

static int put_words(const struct transcribe_segment *from, struct msg_segment *to, struct err *err)
{
    if (!from->word_count)
        return 0;
    to->words = calloc(from->word_count, sizeof(*to->words));
    if (!to->words)
        return err_set(err, ERR_NOMEM, "no memory to report %u words", from->word_count);
    to->word_count = from->word_count;
    for (uint32_t i = 0; i < from->word_count; i++)
        to->words[i] = (struct msg_word){
            .start_ms = from->words[i].start_ms,
            .end_ms = from->words[i].end_ms,
            .text = (char *)from->words[i].text,
            .probability = between_0_and_1(from->words[i].probability),
        };
    return 0;
}

static struct msg_segment put_segment(const struct transcribe_segment *from)
{
    return (struct msg_segment){
        .start_ms = from->start_ms,
        .end_ms = from->end_ms,
        .text = (char *)from->text,
        .language = (char *)from->language,
        .avg_logprob = from->avg_logprob,
        .no_speech_prob = from->no_speech_prob,
        .compression_ratio = from->compression_ratio,
        .temperature = from->temperature,
        .attempts = from->attempts,
        .speech_prob = from->speech_prob > 1 ? 1 : from->speech_prob, /* -1 stays */
        .dropped = from->dropped,
        .reason = (char *)from->reason,
    };
}

/* The transcriber's result as a message whose strings are borrowed; only the arrays are ours. */
static int make_message(const struct shard *s, const struct lane_result *r,
                        struct msg_shard_done *ret, struct err *err)
{
    struct msg_segment *segments =
        calloc(r->segment_count ? r->segment_count : 1, sizeof(*segments));
    int rc = 0;

    if (!segments)
        return err_set(err, ERR_NOMEM, "no memory to report %u segments", r->segment_count);
    for (uint32_t i = 0; rc == 0 && i < r->segment_count; i++) {
        segments[i] = put_segment(&r->segments[i]);
        rc = put_words(&r->segments[i], &segments[i], err);
    }
    if (rc != 0) {
        free_segments(segments, r->segment_count);
        return rc;
    }
    *ret = (struct msg_shard_done){
        .lease_id = s->lease->msg.lease_id,
        .media_id = s->lease->msg.media_id,
        .seq = s->seq,
        .start_ms = s->pcm.start / SAMPLES_PER_MS,
        .end_ms = s->pcm.end / SAMPLES_PER_MS,
        .language = (char *)r->language,
        .language_prob = between_0_and_1(r->language_prob),
        .windows = r->windows,
        .wall_ms = (uint32_t)(clock_mono_ms() - s->begun_ms),
        .segment_count = r->segment_count,
        .segments = segments,
    };
    return 0;
}

/* The result must be one that the scheduler can read: otherwise it would close a worker that did
 * nothing wrong, again and again. */
static int encode_result(const struct shard *s, const struct lane_result *r, struct buf *out,
                         struct err *err)
{
    struct msg_shard_done m = {0}, check;
    int rc = make_message(s, r, &m, err);

    if (rc != 0)
        return rc;
    msg_shard_done_put(out, &m);
    free_segments(m.segments, m.segment_count);
    if (out->failed)
        return err_set(err, ERR_NOMEM, "no memory to report a shard");
    if (out->len > FRAME_MAX)
        return err_set(err, ERR_LIMIT, "the shard gave more text than a message can hold");
    rc = msg_shard_done_get(out->data, out->len, &check, err);
    if (rc == ERR_NOMEM)
        return rc;
    if (rc != 0)
        return err_set(err, ERR_INPUT, "the model gave a result that cannot be stored");
    msg_shard_done_free(&check);
    return 0;
}

static void settle(struct shard *s)
{
    struct worker *w = s->worker;

    pthread_mutex_lock(&w->lock);
    shard_settle(w, s);
    pthread_mutex_unlock(&w->lock);
}

/* Reports and settles: s may be gone afterwards. The end of the audio is read under the lock,
 * because a decoder may still be feeding a lane that ended with an error. */
static void report(struct shard *s, const struct lane_result *r, const struct err *failed)
{
    struct worker *w = s->worker;
    struct buf b = BUF_INIT;
    struct err e = {0};

    pthread_mutex_lock(&w->lock);
    if (s->dropped) {
        /* Somebody else computes it by now, or nobody wants it. */
    } else if (!r) {
        post_failed(s, failed);
    } else if (encode_result(s, r, &b, &e) != 0) {
        buf_free(&b);
        post_failed(s, &e);
    } else {
        outbox_post(&w->out, MSG_SHARD_DONE, &b);
        w->results++;
    }
    shard_settle(w, s);
    pthread_mutex_unlock(&w->lock);
}

static void on_lane_done(void *arg, const struct lane_result *result, const struct err *err)
{
    report(arg, result, err);
}

static int64_t lane_read(void *arg, int64_t at, size_t n, float *out)
{
    struct shard *s = arg;
    struct worker *w = s->worker;
    int64_t got = -1;

    pthread_mutex_lock(&w->lock);
    if (!s->dropped) {
        int64_t asked = s->pcm.asked;

        got = pcm_lane_read(&s->pcm, at, n, out);
        if (got >= 0)
            s->begun = true;
        else if (s->pcm.asked > asked)
            pthread_cond_broadcast(&w->room); /* this lane may be fed beyond the budget now */
    }
    pthread_mutex_unlock(&w->lock);
    return got;
}

static void lane_release(void *arg, int64_t at)
{
    struct shard *s = arg;
    struct worker *w = s->worker;

    pthread_mutex_lock(&w->lock);
    if (pcm_lane_release(&s->pcm, at))
        pthread_cond_broadcast(&w->room);
    pthread_mutex_unlock(&w->lock);
}

/* Of the recording's content and the shard's number: the same in every run and on every device. */
static uint64_t seed_of(const struct shard *s)
{
    return XXH64(s->lease->msg.fingerprint, sizeof(s->lease->msg.fingerprint), s->seq);
}

static bool is_empty(const struct shard *s) { return s->pcm.closed && s->pcm.end == s->pcm.start; }

enum task { TASK_NONE, TASK_REMOVE, TASK_EMPTY, TASK_ADD };

/* The next thing to do with a shard. Lock held; the shard stays ours, since only this thread
 * settles shards. */
static enum task next_task(const struct engine *e, struct shard **ret)
{
    for (struct shard *s = e->w->shards; s; s = s->next) {
        if (s->settled)
            continue;
        *ret = s;
        if (s->dropped)
            return TASK_REMOVE;
        if (s->lane)
            continue;
        if (is_empty(s))
            return TASK_EMPTY;
        if (e->lanes < e->capacity)
            return TASK_ADD;
    }
    return TASK_NONE;
}

static void add_lane(struct engine *e, struct shard *s)
{
    struct lane_source source = {lane_read, lane_release, s};
    struct err err = {0};
    int rc;

    s->begun_ms = clock_mono_ms();
    rc = transcriber_add(e->transcriber, s->pcm.start, s->lease->msg.language, seed_of(s), source,
                         on_lane_done, s, &s->lane, &err);
    if (rc != 0)
        report(s, NULL, &err);
}

static void do_tasks(struct engine *e)
{
    static const struct lane_result nothing = {.language = ""};
    struct worker *w = e->w;
    struct shard *s = NULL;
    enum task task;

    for (;;) {
        transcriber_stats(e->transcriber, &e->lanes, &(uint32_t){0}, &(int64_t){0});
        pthread_mutex_lock(&w->lock);
        task = next_task(e, &s);
        if (task == TASK_EMPTY)
            s->begun = true;
        pthread_mutex_unlock(&w->lock);
        if (task == TASK_NONE)
            return;
        if (task == TASK_ADD) {
            add_lane(e, s);
        } else if (task == TASK_EMPTY) {
            s->begun_ms = clock_mono_ms();
            report(s, &nothing, NULL);
        } else {
            if (s->lane)
                transcriber_remove(e->transcriber, s->lane);
            settle(s);
        }
    }
}

/* Sleeps until something changed since `seen`. Lock held. */
static void await_change(struct worker *w, uint64_t seen)
{
    while (w->changes == seen && !w->leaving)
        pthread_cond_wait(&w->work, &w->lock);
}

/* False when the worker leaves: a step may take seconds, and nobody waits for its result. */
static bool pause_for_faults(struct worker *w)
{
    bool stay;

    if (w->faults.slow_ms)
        usleep(w->faults.slow_ms * 1000);
    pthread_mutex_lock(&w->lock);
    while (w->stalled && !w->leaving)
        pthread_cond_wait(&w->work, &w->lock);
    stay = !w->leaving;
    pthread_mutex_unlock(&w->lock);
    return stay;
}

static void on_beat(void *arg)
{
    struct worker *w = arg;

    pthread_mutex_lock(&w->lock);
    w->beat++;
    pthread_mutex_unlock(&w->lock);
}

/* The device's memory did not suffice, and the transcriber takes less at once now. */
static void note_lack(struct engine *e)
{
    uint32_t slots = transcriber_slots(e->transcriber);
    uint32_t windows = transcriber_windows(e->transcriber);

    if (slots == e->slots && windows == e->windows)
        return;
    e->slots = slots;
    e->windows = windows;
    e->capacity = 2 * slots;
    worker_post_tuned(e->w, slots, windows, transcriber_lack(e->transcriber)->msg);
}

static int step(struct engine *e, bool *progress, struct err *err)
{
    struct worker *w = e->w;
    uint32_t windows;
    int64_t samples;
    int rc;

    if (!pause_for_faults(w))
        return 0;
    rc = transcriber_step(e->transcriber, progress, err);
    transcriber_stats(e->transcriber, &e->lanes, &windows, &samples);
    worker_note_memory(w, e->backend);
    if (rc == 0)
        note_lack(e);
    pthread_mutex_lock(&w->lock);
    w->stepping = false;
    w->windows = windows;
    w->engine_samples = samples;
    w->beat++;
    if (rc == 0 && faults_device_now(&w->faults, w->results))
        rc = err_set(err, ERR_DEVICE, "the device was lost (asked for by NIGHTSHIFT_FAULT)");
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int run(struct engine *e, struct err *err)
{
    struct worker *w = e->w;
    bool progress;
    uint64_t seen;
    int rc;

    for (;;) {
        pthread_mutex_lock(&w->lock);
        seen = w->changes;
        pthread_mutex_unlock(&w->lock);
        do_tasks(e);
        pthread_mutex_lock(&w->lock);
        if (w->leaving) {
            pthread_mutex_unlock(&w->lock);
            return 0;
        }
        if (e->lanes == 0) {
            w->windows = 0; /* those of a cancelled lane are in nobody's count any more */
            await_change(w, seen);
            pthread_mutex_unlock(&w->lock);
            continue;
        }
        w->stepping = true;
        pthread_mutex_unlock(&w->lock);
        progress = false;
        rc = step(e, &progress, err);
        if (rc != 0)
            return rc;
        if (!progress) {
            pthread_mutex_lock(&w->lock);
            await_change(w, seen);
            pthread_mutex_unlock(&w->lock);
        }
    }
}

static int check_model(const char *dir, const char *expected, struct err *err)
{
    char hash[MODEL_HASH_LEN];
    int rc = model_dir_hash(dir, hash, err);

    if (rc == 0 && strcmp(hash, expected) != 0)
        rc = err_set(err, ERR_MODEL,
                     "the model's files in '%s' are not those that the job was set up with "
                     "(now %s, then %s): restore them, or enqueue with this model",
                     dir, hash, expected);
    return rc;
}

static int open_device(struct engine *e, struct err *err)
{
    const struct msg_setup *m = &e->w->setup;
    const struct device_options o = {
        .threads = m->threads,
        .budget = m->vram_budget,
        .deterministic = m->deterministic,
    };

    return device_open(e->w->device, &o, &e->backend, err);
}

/* The voice activity's file, when the stage has one: found and compared before anything large is
 * loaded. *ret NULL: it has none. */
static int find_vad(const struct transcribe_params *p, char **ret, struct err *err)
{
    char hash[33];
    char *file = NULL;
    int rc;

    *ret = NULL;
    if (!p->vad_model[0])
        return 0;
    rc = silero_find(p->vad_model, &file, err);
    if (rc == 0)
        rc = silero_hash(file, hash, err);
    if (rc == 0 && strcmp(hash, p->vad_hash) != 0)
        rc = err_set(err, ERR_MODEL,
                     "the voice activity's file '%s' is not the one that the job was set up with "
                     "(now %s, then %s): restore it, or enqueue with this one",
                     file, hash, p->vad_hash);
    if (rc != 0)
        free(file);
    else
        *ret = file;
    return rc;
}

static int load_models(struct engine *e, const char *dir, const char *vad_file,
                       enum precision precision, struct err *err)
{
    int rc = whisper_load(dir, e->backend, precision, &e->model, err);

    if (rc == 0)
        rc = vocabulary_load(dir, &e->vocab, err);
    if (rc == 0 && vad_file)
        rc = silero_load(vad_file, e->backend, 0, &e->vad, err);
    if (rc != 0)
        return rc;
    transcribe_shape(&e->params, whisper_config(e->model), e->vocab, &e->shape);
    e->load = (struct worker_load){
        .model = e->model,
        .shape = &e->shape,
        .rows = transcribe_rows(&e->params),
        .voice = e->vad != NULL,
    };
    return 0;
}

static int make_transcriber(struct engine *e, struct err *err)
{
    int rc = worker_tune(e->w, e->backend, &e->load, &e->tuning, err);

    if (rc == 0)
        rc = transcriber_new(e->model, e->vad, e->vocab, &e->params, e->tuning.slots,
                             e->tuning.windows, &e->transcriber, err);
    if (rc == 0)
        transcriber_on_beat(e->transcriber, on_beat, e->w);
    return rc;
}

static int load(struct engine *e, struct err *err)
{
    const struct msg_setup *setup = &e->w->setup;
    enum precision precision = PRECISION_AUTO;
    char *dir = NULL, *vad_file = NULL;
    int rc;

    rc = precision_parse(setup->precision, &precision, err);
    if (rc == 0)
        rc = transcribe_params_from_json(setup->params_json, &e->params, err);
    if (rc == 0)
        rc = model_dir_find(setup->model_dir, &dir, err);
    if (rc == 0)
        rc = check_model(dir, setup->model_hash, err);
    if (rc == 0)
        rc = find_vad(&e->params, &vad_file, err);
    if (rc == 0)
        rc = open_device(e, err);
    if (rc == 0)
        rc = load_models(e, dir, vad_file, precision, err);
    if (rc == 0)
        rc = make_transcriber(e, err);
    free(dir);
    free(vad_file);
    return rc;
}

static void unload(struct engine *e)
{
    transcriber_free(e->transcriber);
    vocabulary_free(e->vocab);
    silero_free(e->vad);
    whisper_free(e->model);
    backend_close(e->backend);
}

static void post_ready(struct engine *e)
{
    e->slots = transcriber_slots(e->transcriber);
    e->windows = transcriber_windows(e->transcriber);
    e->capacity = 2 * e->slots;
    worker_note_memory(e->w, e->backend);
    worker_post_ready(e->w, e->backend, &e->load, e->capacity, e->slots, e->windows, &e->tuning);
    pthread_mutex_lock(&e->w->lock);
    e->w->ready = true;
    worker_changed(e->w);
    pthread_mutex_unlock(&e->w->lock);
}

/* After an error of the device or of memory a fresh process is the cure; a model that cannot be
 * used stays so. */
static int exit_status(int code)
{
    switch (code) {
    case ERR_DEVICE:
    case ERR_VRAM:
    case ERR_NOMEM:
        return WORKER_EXIT_DEVICE;
    default:
        return err_exit_status(code);
    }
}

static void give_up(struct worker *w, const struct err *why)
{
    struct buf b = BUF_INIT;
    char *sentence = worker_sentence(why);
    struct msg_fatal m = {.code = why->code, .message = sentence};

    msg_fatal_put(&b, &m);
    outbox_post(&w->out, MSG_FATAL, &b);
    free(sentence);
    pthread_mutex_lock(&w->lock);
    w->status = exit_status(why->code);
    pthread_mutex_unlock(&w->lock);
    lease_leave(w);
    outbox_wake(&w->out);
}

void *engine_thread(void *arg)
{
    struct worker *w = arg;
    struct engine e = {.w = w};
    struct err err = {0};
    int rc = load(&e, &err);

    if (rc == 0) {
        post_ready(&e);
        rc = run(&e, &err);
    }
    if (rc != 0)
        give_up(w, &err);
    unload(&e);
    pthread_mutex_lock(&w->lock);
    w->threads--;
    pthread_cond_broadcast(&w->over);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}
