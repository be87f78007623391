#include "workers/process/worker_lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "workers/wire/frame.h"
#include "workers/media/decoder.h"
#include "workers/stages/stage.h"
#include "workers/process/worker_companions.h"
#include "workers/process/worker_split.h"

static void unlink_lease(struct worker *w, struct lease *l)
{
    struct lease **p = &w->leases;

    while (*p != l)
        p = &(*p)->next;
    *p = l->next;
    w->lease_count--;
}

static void lease_free(struct lease *l)
{
    msg_lease_free(&l->msg);
    free(l);
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
    };

    if (l->reached_end) {
        m.total_ms = l->total_samples * 1000 / DECODER_RATE_HZ;
        m.shards = stage_hears(w->stages[l->msg.companion].name)
                       ? shard_count(l->msg.shard_ms, l->total_samples)
                       : 1;
    }
    memcpy(m.content_hash, l->content_hash, sizeof(m.content_hash));
    msg_lease_end_put(&b, &m);
    outbox_post(&w->out, MSG_LEASE_END, &b);
    free(sentence);
}

void lease_settle(struct worker *w, struct lease *l)
{
    if (!l->input_over || l->unsettled)
        return;
    if (l->cancelled)
        err_set(&l->result, ERR_CANCELLED, "cancelled");
    else if (l->given_up && l->result.code == 0)
        err_set(&l->result, ERR_CANCELLED, "the worker is stopping and leaves the rest to others");
    post_end(w, l);
    unlink_lease(w, l);
    lease_free(l);
}

void shard_free(struct worker *w, struct shard *s)
{
    struct shard **p = &w->shards;

    while (*p != s)
        p = &(*p)->next;
    *p = s->next;
    pcm_lane_free(&s->pcm);
    free(s->passages);
    free(s);
}

void shard_settle(struct worker *w, struct shard *s)
{
    struct lease *l = s->lease;

    s->settled = true;
    pcm_lane_free(&s->pcm);
    l->unsettled--;
    if (s->fed)
        shard_free(w, s);
    worker_changed(w);
    lease_settle(w, l);
}

void lease_drop_shards(struct worker *w, const struct lease *l, int64_t after, bool begun_too)
{
    for (struct shard *s = w->shards; s; s = s->next) {
        if (s->lease != l || (int64_t)s->seq <= after || (s->begun && !begun_too) || s->settled)
            continue;
        s->dropped = true;
    }
    worker_changed(w);
}

struct lease *lease_find(const struct worker *w, uint64_t id)
{
    struct lease *l = w->leases;

    while (l && l->msg.lease_id != id)
        l = l->next;
    return l;
}

/* Answers a lease that is not taken. Frees msg's content. */
static void refuse(struct worker *w, struct msg_lease *msg, const struct err *why)
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

static int refuse_long(const struct worker *w, const struct msg_lease *msg, struct err *err)
{
    return err_set(err, ERR_LIMIT,
                   "a shard of %u minutes may give more than a message can hold: use a shorter one "
                   "(--shard=%um)",
                   msg->shard_ms / 60000, w->stages[msg->companion].most_shard_ms / 60000);
}

/* 0: the lease can be taken; a companion's into the pass of *host. */
static int may_accept(const struct worker *w, const struct msg_lease *msg, struct lease **host,
                      struct err *err)
{
    int rc = 0;

    if (w->draining || w->leaving)
        return err_set(err, ERR_CANCELLED, "the worker is stopping");
    if (w->lease_count >= WORKER_MAX_LEASES)
        return err_set(err, ERR_NOMEM, "the worker holds too many leases already");
    if (lease_find(w, msg->lease_id))
        return err_set(err, ERR_PROTOCOL, "a lease of this number is being worked on");
    if (msg->companion)
        rc = companion_host(w, msg, host, err);
    if (rc == 0 && msg->shard_ms > w->stages[msg->companion].most_shard_ms)
        rc = refuse_long(w, msg, err);
    return rc;
}

void lease_accept(struct worker *w, struct msg_lease *msg)
{
    struct lease **tail = &w->leases, *host = NULL, *l = calloc(1, sizeof(*l));
    struct err why = {0};
    int rc;

    pthread_mutex_lock(&w->lock);
    if (msg->companion)
        companion_arrived(w, msg);
    rc = may_accept(w, msg, &host, &why);
    if (rc == 0 && !l)
        rc = err_set(&why, ERR_NOMEM, "no memory for a lease");
    if (rc != 0) {
        refuse(w, msg, &why);
        free(l);
    } else {
        l->msg = *msg;
        l->last = msg->last;
        memset(msg, 0, sizeof(*msg));
        if (host)
            companion_join(host, l);
        else
            l->parts[0] = l;
        l->awaited = l->msg.companions;
        while (*tail)
            tail = &(*tail)->next;
        *tail = l;
        w->lease_count++;
        worker_changed(w);
    }
    pthread_mutex_unlock(&w->lock);
}

bool lease_is_waiting(const struct lease *l)
{
    return !l->msg.companion && !l->running && !l->input_over;
}

/* Ends a lease whose pass no decoder thread has begun, with its companions; and a companion's,
 * wherever its pass is. Lock held; l may be gone afterwards. */
static void end_early(struct worker *w, struct lease *l)
{
    if (l->msg.companion) {
        companion_leave(w, l, NULL);
        return;
    }
    if (l->running)
        return;
    companions_end(w, l);
    l->input_over = true;
    lease_settle(w, l);
}

/* What is said of a lease is said of its companions too, also of those that have left its pass with
 * shards in hand: others may take what is said to be not wanted here. */
static bool is_meant(const struct lease *l, uint64_t id)
{
    return l->msg.lease_id == id || (l->msg.companion && l->msg.with == id);
}

void lease_cap(struct worker *w, const struct msg_cap *m)
{
    pthread_mutex_lock(&w->lock);
    for (struct lease *l = w->leases; l; l = l->next)
        if (is_meant(l, m->lease_id) && m->last < l->last) {
            l->last = m->last;
            lease_drop_shards(w, l, m->last, true);
        }
    pthread_mutex_unlock(&w->lock);
}

void lease_cancel(struct worker *w, const struct msg_cancel *m)
{
    struct lease *l;

    pthread_mutex_lock(&w->lock);
    for (l = w->leases; l; l = l->next)
        if (is_meant(l, m->lease_id) && !l->cancelled) {
            l->cancelled = true;
            if (l->decoder)
                decoder_cancel(l->decoder);
            lease_drop_shards(w, l, -1, true);
        }
    l = lease_find(w, m->lease_id);
    if (l)
        end_early(w, l);
    pthread_mutex_unlock(&w->lock);
}

static struct lease *first_waiting(const struct worker *w)
{
    struct lease *l = w->leases;

    while (l && !lease_is_waiting(l))
        l = l->next;
    return l;
}

/* From the list's head again after each that ends: its companions end with it. */
void lease_drain(struct worker *w)
{
    struct lease *l;

    pthread_mutex_lock(&w->lock);
    w->draining = true;
    for (l = w->leases; l; l = l->next) {
        l->given_up |= lease_is_waiting(l);
        for (struct shard *s = w->shards; s; s = s->next)
            if (s->lease == l && !s->begun && !s->settled)
                l->given_up = true;
        lease_drop_shards(w, l, -1, false);
    }
    while ((l = first_waiting(w)))
        end_early(w, l);
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
        lease_free(l);
    }
}
