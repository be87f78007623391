#include "workers/worker_feed.h"

#include <stdlib.h>

#include "workers/worker_lease.h"

#define SAMPLES_PER_MS 16

static bool wanted(const struct lease *l, uint32_t seq)
{
    size_t low = 0, high = l->msg.skip_count;

    if (seq < l->msg.first || seq > l->last)
        return false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (l->msg.skip[mid] == seq)
            return false;
        if (l->msg.skip[mid] < seq)
            low = mid + 1;
        else
            high = mid;
    }
    return true;
}

/* ---- shards */

/* The decoder adds nothing more to a shard. Lock held; s may be gone afterwards. */
static void finish_feeding(const struct pass *p, struct shard *s)
{
    if (s->trailing)
        p->l->trailing--;
    s->trailing = false;
    s->fed = true;
    if (s->settled)
        shard_free(p->w, s);
    worker_changed(p->w);
}

static bool is_of_use(const struct shard *s) { return !s->dropped && !s->settled; }

/* Calls fn for each trailing shard of the lease, which may free it. Lock held. */
static int each_trailing(const struct pass *p,
                         int (*fn)(const struct pass *, struct shard *, void *), void *arg)
{
    struct shard *next;
    int rc = 0;

    for (struct shard *s = p->w->shards; s && rc == 0 && p->l->trailing; s = next) {
        next = s->next;
        if (s->lease == p->l && s->trailing)
            rc = fn(p, s, arg);
    }
    return rc;
}

static int forget_useless(const struct pass *p, struct shard *s, void *arg)
{
    (void)arg;
    if (!is_of_use(s))
        finish_feeding(p, s);
    return 0;
}

int feed_may_go_on(const struct pass *p, uint32_t seq, struct err *err)
{
    if (p->w->leaving || p->l->cancelled)
        return err_set(err, ERR_CANCELLED, "cancelled");
    each_trailing(p, forget_useless, NULL);
    if (p->l->trailing)
        return 0;
    if (seq > p->l->last)
        return err_set(err, ERR_EMPTY, "the rest is not wanted");
    /* What has begun is finished; nothing else is started. */
    if (p->w->draining && (!p->l->feeding || p->l->feeding->dropped)) {
        p->l->given_up = true;
        return err_set(err, ERR_EMPTY, "the worker is stopping");
    }
    return 0;
}

static int add_shard(const struct pass *p, uint32_t seq, int64_t at, struct shard **ret,
                     struct err *err)
{
    struct shard **tail = &p->w->shards;
    struct shard *s = calloc(1, sizeof(*s));

    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a shard");
    s->worker = p->w;
    s->lease = p->l;
    s->seq = seq;
    pcm_lane_init(&s->pcm, &p->w->pool, at);
    while (*tail)
        tail = &(*tail)->next;
    *tail = s;
    p->l->unsettled++;
    worker_changed(p->w);
    *ret = s;
    return 0;
}

/* ---- from the splitter */

static int on_open(void *arg, uint32_t seq, int64_t at, struct err *err)
{
    const struct pass *p = arg;
    struct lease *l = p->l;
    int rc;

    pthread_mutex_lock(&p->w->lock);
    l->feeding_seq = seq;
    rc = feed_may_go_on(p, seq, err);
    while (rc == 0 && wanted(l, seq) && !l->trailing && !pcm_pool_has_room(&p->w->pool)) {
        pthread_cond_wait(&p->w->room, &p->w->lock);
        rc = feed_may_go_on(p, seq, err);
    }
    if (rc == 0 && wanted(l, seq) && p->w->draining)
        l->given_up = true; /* decoding goes on for those before it alone */
    else if (rc == 0 && wanted(l, seq))
        rc = add_shard(p, seq, at, &l->feeding, err);
    pthread_mutex_unlock(&p->w->lock);
    return rc;
}

struct piece {
    const int16_t *pcm;
    size_t n;
    struct err *err;
};

static int append_tail(const struct pass *p, struct shard *s, void *arg)
{
    const struct piece *a = arg;
    int64_t left = s->pcm.cut + p->w->tail - s->pcm.end;
    int rc = pcm_lane_append(&s->pcm, a->pcm, (int64_t)a->n < left ? a->n : (size_t)left, a->err);

    if (rc == 0 && (int64_t)a->n >= left) {
        pcm_lane_close(&s->pcm);
        finish_feeding(p, s);
    }
    return rc;
}

/* Waits until the open shard may have more. Lock held. */
static int await_room(const struct pass *p, struct err *err)
{
    struct lease *l = p->l;
    int rc = feed_may_go_on(p, l->feeding_seq, err);

    while (rc == 0 && !l->trailing && l->feeding && is_of_use(l->feeding) &&
           !pcm_lane_may_append(&l->feeding->pcm)) {
        pthread_cond_wait(&p->w->room, &p->w->lock);
        rc = feed_may_go_on(p, l->feeding_seq, err);
    }
    return rc;
}

static int on_audio(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    const struct pass *p = arg;
    struct piece piece = {pcm, n, err};
    struct shard *s;
    int rc;

    pthread_mutex_lock(&p->w->lock);
    rc = await_room(p, err);
    s = p->l->feeding;
    if (rc == 0 && s && is_of_use(s))
        rc = pcm_lane_append(&s->pcm, pcm, n, err);
    if (rc == 0)
        rc = each_trailing(p, append_tail, &piece);
    if (rc == 0) {
        p->w->changes++;
        pthread_cond_broadcast(&p->w->work);
    }
    pthread_mutex_unlock(&p->w->lock);
    return rc;
}

static int on_close(void *arg, int64_t at, struct err *err)
{
    const struct pass *p = arg;
    struct shard *s;
    int rc = 0;

    pthread_mutex_lock(&p->w->lock);
    s = p->l->feeding;
    if (s && is_of_use(s) && s->pcm.end != at) {
        rc = err_set(err, ERR_INPUT, "a shard's audio does not end at its cut");
    } else if (s) {
        p->l->feeding = NULL;
        pcm_lane_cut(&s->pcm);
        if (p->w->tail && is_of_use(s)) {
            s->trailing = true;
            p->l->trailing++;
            worker_changed(p->w);
        } else {
            pcm_lane_close(&s->pcm);
            finish_feeding(p, s);
        }
    }
    pthread_mutex_unlock(&p->w->lock);
    return rc;
}

struct split_sink feed_sink(const struct pass *p)
{
    return (struct split_sink){on_open, on_audio, on_close, (void *)p};
}

/* ---- ends */

static int close_tail(const struct pass *p, struct shard *s, void *arg)
{
    (void)arg;
    pcm_lane_close(&s->pcm);
    finish_feeding(p, s);
    return 0;
}

void feed_end(const struct pass *p)
{
    pthread_mutex_lock(&p->w->lock);
    each_trailing(p, close_tail, NULL);
    pthread_mutex_unlock(&p->w->lock);
}

static int drop_tail(const struct pass *p, struct shard *s, void *arg)
{
    (void)arg;
    s->dropped = true;
    finish_feeding(p, s);
    return 0;
}

void feed_stop(const struct pass *p)
{
    struct shard *s = p->l->feeding;

    each_trailing(p, drop_tail, NULL);
    if (!s)
        return;
    p->l->feeding = NULL;
    s->dropped = true;
    finish_feeding(p, s);
}

int feed_text(const struct pass *p, struct err *err)
{
    struct lease *l = p->l;
    struct shard *s = NULL;
    int rc = feed_may_go_on(p, l->msg.first, err);

    if (rc != 0 || !wanted(l, l->msg.first))
        return rc;
    rc = add_shard(p, l->msg.first, 0, &s, err);
    if (rc != 0)
        return rc;
    s->text = true;
    s->pcm.end = l->msg.total_ms * SAMPLES_PER_MS;
    pcm_lane_cut(&s->pcm);
    pcm_lane_close(&s->pcm);
    s->fed = true;
    return 0;
}
