#include "workers/pass/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/wire/frame.h"
#include "workers/media/decoder.h"
#include "workers/stages/stage.h"
#include "workers/pass/feed.h"
#include "workers/pass/shard_report.h"
#include "workers/pass/split.h"
#include "workers/pass/unpack.h"

static void unlink_lease(struct worker *w, struct lease *l)
{
    struct lease **p = &w->leases;

    while (*p != l)
        p = &(*p)->next;
    *p = l->next;
    w->lease_count--;
}

static void lease_free(struct worker *w, struct lease *l)
{
    unpack_release(w, l);
    msg_lease_free(&l->msg);
    free(l->channels);
    free(l);
}

uint32_t lease_total(const struct worker *w, const struct lease *l, int64_t *total_ms)
{
    const int64_t length = l->length > l->total_samples ? l->length : l->total_samples;

    *total_ms = l->reached_end ? length * 1000 / DECODER_RATE_HZ : 0;
    if (!l->reached_end)
        return 0;
    return stage_hears(w->stages[0].name) ? shard_count(l->msg.shard_ms, l->total_samples) : 1;
}

static void post_end(struct worker *w, const struct lease *l)
{
    struct buf b = BUF_INIT;
    char *sentence = worker_sentence(&l->result);
    struct msg_lease_end m = {
        .lease_id = l->msg.lease_id,
        .media_id = l->msg.media_id,
        .code = l->result.code,
        .message = sentence,
        .reached_end = l->reached_end,
        .has_hash = l->has_hash,
        .damage = (char *)l->damage,
        .clock = (char *)l->clock,
        .channels = l->channels,
        .channel_count = l->channel_count,
    };

    m.shards = lease_total(w, l, &m.total_ms);
    memcpy(m.content_hash, l->content_hash, sizeof(m.content_hash));
    msg_lease_end_put(&b, &m);
    outbox_post(&w->out, MSG_LEASE_END, &b);
    free(sentence);
}

void lease_finish(struct worker *w, struct lease *l)
{
    if (!l->input_over || l->unfinished)
        return;
    if (l->cancelled)
        err_set(&l->result, ERR_CANCELLED, "cancelled");
    else if (l->given_up && l->result.code == 0)
        err_set(&l->result, ERR_CANCELLED, "the worker is stopping and leaves the rest to others");
    post_end(w, l);
    unlink_lease(w, l);
    lease_free(w, l);
}

void shard_free(struct worker *w, struct shard *s)
{
    struct shard **p = &w->shards;

    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    pcm_lane_free(&s->pcm);
    for (uint32_t i = 0; i < s->part_count; i++)
        report_forget(&s->parts[i]);
    free(s);
}

void shard_finish(struct worker *w, struct shard *s)
{
    struct lease *l = s->lease;

    s->finished = true;
    pcm_lane_free(&s->pcm);
    l->unfinished--;
    if (s->fed)
        shard_free(w, s);
    worker_changed(w);
    lease_finish(w, l);
}

/* Nobody wants the results of a lease's shards behind `after`; t: of that track alone, or NULL;
 * begun_too: also of those that the engine works on. Frees nothing. */
static void drop_shards(struct worker *w, const struct lease *l, const struct track *t,
                        int64_t after, bool begun_too)
{
    for (struct shard *s = w->shards; s; s = s->next)
        if (s->lease == l && (!t || s->track == t) && (int64_t)s->seq > after && !s->finished &&
            (begun_too || !s->begun))
            s->dropped = true;
    worker_changed(w);
}

static struct lease *lease_find(const struct worker *w, uint64_t id)
{
    struct lease *l = w->leases;

    while (l && l->msg.lease_id != id)
        l = l->next;
    return l;
}

/* ---- tracks */

void track_drop(struct worker *w, struct track *t)
{
    t->listens = false;
    feed_stop(w, t);
    worker_changed(w);
}

void tracks_give_up(struct worker *w, uint32_t stage)
{
    w->stages[stage].loaded = false;
    for (struct lease *l = w->leases; l; l = l->next) {
        drop_shards(w, l, &l->tracks[stage], -1, true);
        track_drop(w, &l->tracks[stage]);
    }
}

/* ---- leases */

/* Answers a lease that is not taken. Frees msg's content. */
static void refuse_lease(struct worker *w, struct msg_lease *msg, const struct err *why)
{
    struct lease l = {.msg = *msg, .result = *why};

    post_end(w, &l);
    msg_lease_free(msg);
}

/* A sixteenth of the message is left for what is not counted by the second, and for a shard that is
 * cut later than its nominal end. */
uint32_t lease_most_shard_ms(const char *stage, const char *params)
{
    uint64_t rate = stage_bytes_per_s(stage, params);
    uint64_t most = rate ? (FRAME_MAX - FRAME_MAX / 16) * UINT64_C(1000) / rate : UINT32_MAX;

    return most < UINT32_MAX ? (uint32_t)most : UINT32_MAX;
}

/* 0: the lease can be taken. */
static int may_accept(const struct worker *w, const struct msg_lease *msg, struct err *err)
{
    if (w->draining || w->leaving)
        return err_set(err, ERR_CANCELLED, "the worker is stopping");
    if (w->lease_count >= WORKER_MAX_LEASES)
        return err_set(err, ERR_NOMEM, "the worker holds too many leases already");
    if (lease_find(w, msg->lease_id))
        return err_set(err, ERR_PROTOCOL, "a lease of this number is being worked on");
    if (msg->tracks[msg->track_count - 1].stage >= w->stage_count)
        return err_set(err, ERR_PROTOCOL, "no such stage was set up");
    if (msg->shard_ms > w->stages[0].most_shard_ms)
        return err_set(err, ERR_LIMIT,
                       "a shard of %u minutes may give more than a message can hold: use a shorter "
                       "one (--shard=%um)",
                       msg->shard_ms / 60000, w->stages[0].most_shard_ms / 60000);
    return 0;
}

/* A stage that was loaded when the scheduler wrote the lease may not be any more; and one for which
 * the shards are too long says so in its own turn. */
static void add_track(const struct worker *w, struct lease *l, const struct msg_track *msg)
{
    const struct worker_stage *s = &w->stages[msg->stage];

    l->tracks[msg->stage] = (struct track){
        .stage = msg->stage,
        .msg = msg,
        .listens = msg->stage == 0 || (s->loaded && l->msg.shard_ms <= s->most_shard_ms),
    };
}

static void queue_accepted_lease(struct worker *w, struct lease *l, struct msg_lease *msg)
{
    struct lease **tail = &w->leases;

    l->msg = *msg;
    l->last = msg->last;
    memset(msg, 0, sizeof(*msg));
    if (w->setup.pcm_bytes == 0)
        pcm_pool_widen(&w->pool, w->slots, l->msg.shard_ms);
    for (uint32_t i = 0; i < l->msg.track_count; i++)
        add_track(w, l, &l->msg.tracks[i]);
    while (*tail)
        tail = &(*tail)->next;
    *tail = l;
    w->lease_count++;
    worker_changed(w);
}

void lease_accept(struct worker *w, struct msg_lease *msg)
{
    struct lease *l = calloc(1, sizeof(*l));
    struct err why = {0};
    int rc;

    pthread_mutex_lock(&w->lock);
    rc = may_accept(w, msg, &why);
    if (rc == 0 && !l)
        rc = err_set(&why, ERR_NOMEM, "no memory for a lease");
    if (rc == 0) {
        queue_accepted_lease(w, l, msg);
    } else {
        refuse_lease(w, msg, &why);
        free(l);
    }
    pthread_mutex_unlock(&w->lock);
}

bool lease_is_waiting(const struct lease *l) { return !l->running && !l->input_over; }

/* Ends a lease whose pass no decoder thread has begun. Lock held; l may be gone afterwards. */
static void end_early(struct worker *w, struct lease *l)
{
    if (l->running)
        return;
    l->input_over = true;
    lease_finish(w, l);
}

void lease_cap(struct worker *w, const struct msg_cap *m)
{
    struct lease *l;

    pthread_mutex_lock(&w->lock);
    l = lease_find(w, m->lease_id);
    if (l && m->last < l->last) {
        l->last = m->last;
        drop_shards(w, l, NULL, m->last, true);
    }
    pthread_mutex_unlock(&w->lock);
}

static void cancel_all(struct worker *w, struct lease *l)
{
    l->cancelled = true;
    if (l->decoder)
        decoder_cancel(l->decoder);
    drop_shards(w, l, NULL, -1, true);
    end_early(w, l);
}

/* A track's numbers have been checked, but it need not be one of the lease's: then it has no
 * shards, and does not listen. */
void lease_cancel(struct worker *w, const struct msg_cancel *m)
{
    struct lease *l;

    pthread_mutex_lock(&w->lock);
    l = lease_find(w, m->lease_id);
    if (l && m->track) {
        drop_shards(w, l, &l->tracks[m->track], -1, true);
        track_drop(w, &l->tracks[m->track]);
    } else if (l && !l->cancelled) {
        cancel_all(w, l);
    }
    pthread_mutex_unlock(&w->lock);
}

void lease_drain(struct worker *w)
{
    struct lease *l, *next;

    pthread_mutex_lock(&w->lock);
    w->draining = true;
    for (l = w->leases; l; l = next) {
        next = l->next;
        l->given_up |= lease_is_waiting(l);
        for (struct shard *s = w->shards; s; s = s->next)
            if (s->track == &l->tracks[0] && !s->begun && !s->finished)
                l->given_up = true;
        drop_shards(w, l, NULL, -1, false);
        end_early(w, l);
    }
    worker_changed(w);
    pthread_mutex_unlock(&w->lock);
}

void lease_leave(struct worker *w)
{
    pthread_mutex_lock(&w->lock);
    w->leaving = true;
    for (struct lease *l = w->leases; l; l = l->next)
        if (l->decoder)
            decoder_cancel(l->decoder);
    unpack_leave(w);
    worker_changed(w);
    pthread_mutex_unlock(&w->lock);
}

void lease_free_all(struct worker *w)
{
    while (w->shards)
        shard_free(w, w->shards);
    while (w->leases) {
        struct lease *l = w->leases;

        unlink_lease(w, l);
        lease_free(w, l);
    }
    unpack_free_all(w);
}
