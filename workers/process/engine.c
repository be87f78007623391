#include "workers/process/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/clock.h"
#include "workers/stages/stage.h"
#include "workers/pass/lease.h"
#include "workers/pass/shard_report.h"
#include "workers/process/worker_stages.h"

static void mark_shard_finished(struct shard *s)
{
    struct worker *w = s->worker;

    pthread_mutex_lock(&w->lock);
    shard_finish(w, s);
    pthread_mutex_unlock(&w->lock);
}

/* Reports and finishes: s may be gone afterwards. The end of the audio is read under the lock,
 * because a decoder may still be feeding a lane that ended with an error. */
static void report_shard(struct shard *s, const struct stage_result *r, const struct err *failed)
{
    struct worker *w = s->worker;
    struct buf b = BUF_INIT;
    struct err e = {0};

    pthread_mutex_lock(&w->lock);
    if (s->dropped) {
        /* Somebody else computes it by now, or nobody wants it. */
    } else if (!r) {
        report_failed(w, s->lease, s->track, s->seq, failed);
    } else if (report_encode(s, r, &b, &e) != 0) {
        buf_free(&b);
        report_failed(w, s->lease, s->track, s->seq, &e);
    } else {
        outbox_post(&w->out, MSG_SHARD_DONE, &b);
        w->results++;
    }
    shard_finish(w, s);
    pthread_mutex_unlock(&w->lock);
}

/* Audio that no part wants any more. Lock held. */
static void release_shard_audio(struct shard *s)
{
    int64_t at = INT64_MAX;

    for (uint32_t i = 0; i < s->part_count; i++)
        if (!s->parts[i].ended && s->parts[i].released < at)
            at = s->parts[i].released;
    if (pcm_lane_release(&s->pcm, at))
        pthread_cond_broadcast(&s->worker->room);
}

static bool has_ended(const struct shard *s)
{
    for (uint32_t i = 0; i < s->part_count; i++)
        if (!s->parts[i].ended)
            return false;
    return true;
}

/* One of several has its result, or has failed, and the shard with it: then the others are removed,
 * as of one that nobody wants. */
static void part_done(struct shard_part *p, const struct stage_result *r, const struct err *failed)
{
    struct shard *s = p->shard;
    struct worker *w = s->worker;
    struct buf b = BUF_INIT;
    struct err e = {0};
    int rc = 0;

    pthread_mutex_lock(&w->lock);
    if (!s->dropped && !r)
        rc = (e = *failed).code;
    else if (!s->dropped)
        rc = report_keep(p, r, &e);
    if (rc == 0 && !s->dropped && has_ended(s)) {
        rc = report_encode_parts(s, &b, &e);
        if (rc == 0) {
            outbox_post(&w->out, MSG_SHARD_DONE, &b);
            w->results++;
            shard_finish(w, s);
            pthread_mutex_unlock(&w->lock);
            return;
        }
        buf_free(&b);
    }
    if (rc != 0) {
        report_failed(w, s->lease, s->track, s->seq, &e);
        s->dropped = true;
    }
    release_shard_audio(s);
    worker_changed(w); /* there may be room now, or one shard less */
    pthread_mutex_unlock(&w->lock);
}

static void on_lane_done(void *arg, const struct stage_result *result, const struct err *err)
{
    struct shard_part *p = arg;

    p->lane = NULL;
    p->ended = true;
    if (p->shard->part_count > 1)
        part_done(p, result, err);
    else
        report_shard(p->shard, result, err);
}

/* Does another part that is in work still want audio from before this one's? (pcm.h) */
static bool is_ahead(const struct shard_part *p)
{
    const struct shard *s = p->shard;

    for (uint32_t i = 0; i < s->part_count; i++)
        if (s->parts[i].added && !s->parts[i].ended && s->parts[i].released < p->released)
            return true;
    return false;
}

static int64_t lane_read(void *arg, int64_t at, size_t n, float *out)
{
    const struct shard_part *p = arg;
    struct shard *s = p->shard;
    struct worker *w = s->worker;
    int64_t got = -1;

    pthread_mutex_lock(&w->lock);
    if (!s->dropped) {
        int64_t asked = s->pcm.asked;

        got = pcm_lane_read(&s->pcm, p->source, at, n, is_ahead(p), out);
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
    struct shard_part *p = arg;
    struct worker *w = p->shard->worker;

    pthread_mutex_lock(&w->lock);
    if (at > p->released)
        p->released = at;
    release_shard_audio(p->shard);
    pthread_mutex_unlock(&w->lock);
}

static int64_t lane_end(void *arg)
{
    const struct shard *s = ((const struct shard_part *)arg)->shard;
    struct worker *w = s->worker;
    int64_t cut;

    pthread_mutex_lock(&w->lock);
    cut = s->pcm.cut;
    pthread_mutex_unlock(&w->lock);
    return cut;
}

/* Hashes the recording's content and the numbers of shard and source: the same in every run and on
 * every device. */
static uint64_t seed_of(const struct shard *s, uint32_t source)
{
    return XXH64(s->lease->msg.fingerprint, sizeof(s->lease->msg.fingerprint),
                 s->seq | (uint64_t)source << 32);
}

/* The first part that no lane was made for; NULL: all have, or had, theirs. */
static struct shard_part *next_part(struct shard *s)
{
    for (uint32_t i = 0; i < s->part_count; i++)
        if (!s->parts[i].added)
            return &s->parts[i];
    return NULL;
}

/* The text that is there for a shard; NULL: it is to be heard. One of other sources than those of
 * the recording is none of it. */
static const struct result_known_text *told_of(const struct shard *s)
{
    const struct msg_track *m = s->track->msg;
    const uint32_t from = s->part_count > 1, to = s->part_count > 1 ? s->part_count : 0;
    uint32_t i = 0;

    while (i < m->known_text_count && m->known_text[i].seq < s->seq)
        i++;
    if (i == m->known_text_count || m->known_text[i].seq != s->seq)
        return NULL;
    for (uint32_t k = 0; k < m->known_text[i].segment_count; k++)
        if (m->known_text[i].segments[k].source < from || m->known_text[i].segments[k].source > to)
            return NULL;
    return &m->known_text[i];
}

static bool is_empty(const struct shard *s)
{
    if (told_of(s))
        return false;
    if (s->text)
        return s->lease->msg.passage_count == 0;
    return s->pcm.closed && s->pcm.cut == s->pcm.start;
}

/* The engine's stage for a shard. */
static struct engine_stage *stage_of(struct engine_stages *e, const struct shard *s)
{
    return &e->of[s->track->stage];
}

static bool has_share_in(const struct engine_share *share, const struct shard *s)
{
    return s->track->stage >= share->first && s->track->stage < share->end;
}

/* Is there a lane for its next part? All parts of a shard get theirs together, for what one has
 * heard is kept for those that have not: pcm.h. */
static bool has_lane(struct engine_stages *e, const struct shard *s)
{
    const struct engine_stage *stage = stage_of(e, s);

    return stage->stage && (s->parts[0].added || stage->lanes == 0 ||
                            stage->lanes + s->part_count <= stage->capacity);
}

enum task { TASK_NONE, TASK_REMOVE, TASK_EMPTY, TASK_ADD };

/* The next thing to do with a shard of this thread's. One that waits for lanes has no younger one
 * of its stage before it. Lock held; the shard stays ours, since only this thread finishes it. */
static enum task next_task(const struct engine_share *share, struct shard **ret)
{
    struct engine_stages *e = share->e;
    bool waits[SETUP_MAX_STAGES] = {false};

    for (struct shard *s = e->w->shards; s; s = s->next) {
        if (s->finished || !has_share_in(share, s))
            continue;
        *ret = s;
        if (s->dropped)
            return TASK_REMOVE;
        if (!next_part(s))
            continue;
        if (is_empty(s) && next_part(s) == s->parts)
            return TASK_EMPTY;
        if (!waits[s->track->stage] && has_lane(e, s))
            return TASK_ADD;
        waits[s->track->stage] = true;
    }
    return TASK_NONE;
}

static void add_lane(struct engine_stages *e, struct shard *s)
{
    struct shard_part *p = next_part(s);
    struct stage_work work = {
        .start_sample = s->pcm.start,
        .end = lane_end,
        .end_arg = p,
        .source = {.read = lane_read, .release = lane_release, .arg = p, .again = p != s->parts},
        .language = s->track->msg->language,
        .seed = seed_of(s, p->source),
        .known_text = told_of(s),
        .known_text_source = p->source,
    };
    struct err err = {0};

    if (p == s->parts)
        s->begun_ms = clock_mono_ms();
    p->added = true;
    if (s->text) {
        work.passages = s->lease->msg.passages;
        work.passage_count = s->lease->msg.passage_count;
    }
    if (stage_add(stage_of(e, s)->stage, &work, on_lane_done, p, &p->lane, &err) != 0)
        on_lane_done(p, NULL, &err);
}

static void remove_lanes(struct engine_stages *e, struct shard *s)
{
    for (uint32_t i = 0; i < s->part_count; i++)
        if (s->parts[i].lane)
            stage_remove(stage_of(e, s)->stage, s->parts[i].lane);
}

static void do_tasks(const struct engine_share *share)
{
    static const struct stage_result nothing = {.language = "", .account.speech_ms = -1};
    struct engine_stages *e = share->e;
    struct worker *w = e->w;
    struct shard *s = NULL;
    enum task task;

    for (;;) {
        stages_count(share);
        pthread_mutex_lock(&w->lock);
        task = next_task(share, &s);
        if (task == TASK_EMPTY || (task == TASK_ADD && s->text))
            s->begun = true;
        pthread_mutex_unlock(&w->lock);
        if (task == TASK_NONE)
            return;
        if (task == TASK_ADD) {
            add_lane(e, s);
        } else if (task == TASK_EMPTY) {
            s->begun_ms = clock_mono_ms();
            report_shard(s, &nothing, NULL);
        } else {
            remove_lanes(e, s);
            mark_shard_finished(s);
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

/* A round: a step of each stage of the share that has work. */
static int run_engine_tick(const struct engine_share *share, bool *progress, struct err *err)
{
    struct engine_stages *e = share->e;
    struct worker *w = e->w;
    uint32_t windows = 0;
    int rc;

    if (!pause_for_faults(w))
        return 0;
    rc = stages_step(share, progress, err);
    for (uint32_t k = share->first; k < share->end; k++)
        windows += e->of[k].flying;
    pthread_mutex_lock(&w->lock);
    share->pulse->stepping = false;
    share->pulse->windows = windows;
    if (share->first == 0)
        w->engine_samples = e->of[0].samples;
    if (rc == 0 && faults_device_now(&w->faults, w->results))
        rc = err_set(err, ERR_DEVICE, "the device was lost (asked for by NIGHTSHIFT_FAULT)");
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static int run_engine_loop(const struct engine_share *share, struct err *err)
{
    struct worker *w = share->e->w;
    uint32_t lanes;
    bool progress;
    uint64_t seen;
    int rc;

    for (;;) {
        pthread_mutex_lock(&w->lock);
        seen = w->changes;
        pthread_mutex_unlock(&w->lock);
        do_tasks(share);
        lanes = stages_count(share);
        pthread_mutex_lock(&w->lock);
        if (w->leaving) {
            pthread_mutex_unlock(&w->lock);
            return 0;
        }
        if (lanes == 0) {
            /* Those of a cancelled lane are in nobody's count any more. */
            share->pulse->windows = 0;
            await_change(w, seen);
            pthread_mutex_unlock(&w->lock);
            continue;
        }
        share->pulse->stepping = true;
        pthread_mutex_unlock(&w->lock);
        progress = false;
        rc = run_engine_tick(share, &progress, err);
        if (rc != 0)
            return rc;
        if (!progress) {
            pthread_mutex_lock(&w->lock);
            await_change(w, seen);
            pthread_mutex_unlock(&w->lock);
        }
    }
}

/* Until the worker leaves. Whatever ends one thread is the end of all: they share a device. */
static void run_share(const struct engine_share *share)
{
    struct err err = {0};

    if (run_engine_loop(share, &err) != 0)
        stages_give_up(share->e->w, &err);
}

static void *share_thread(void *arg)
{
    const struct engine_share *share = arg;
    char name[16]; /* the kernel's most */

    snprintf(name, sizeof(name), "engine %s", share->e->w->stages[share->first].name);
    pthread_setname_np(pthread_self(), name);
    run_share(share);
    return NULL;
}

/* This thread has the first share. */
static void run_engine(struct engine_stages *e)
{
    pthread_t thread[SETUP_MAX_STAGES];
    uint32_t started = 1;
    int rc = 0;

    while (started < e->share_count && rc == 0) {
        rc = pthread_create(&thread[started], NULL, share_thread, &e->share[started]);
        started += rc == 0;
    }
    if (rc == 0) {
        run_share(&e->share[0]);
    } else {
        struct err err = {0};

        err_set(&err, ERR_NOMEM, "a thread cannot be started: %s", strerror(rc));
        stages_give_up(e->w, &err);
    }
    while (started > 1)
        pthread_join(thread[--started], NULL);
}

void *engine_thread(void *arg)
{
    struct worker *w = arg;
    struct engine_stages e;
    struct err err = {0};

    if (stages_load(w, &e, &err) == 0) {
        stages_post_ready(&e);
        run_engine(&e);
    } else {
        stages_give_up(w, &err);
    }
    stages_unload(&e);
    pthread_mutex_lock(&w->lock);
    w->threads--;
    pthread_cond_broadcast(&w->over);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}
