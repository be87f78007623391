#include "workers/pass/feed.h"

#include <stdlib.h>

#include "workers/pass/lease.h"
#include "workers/pass/shard_report.h"

#define SAMPLES_PER_MS 16

static bool is_shard_wanted(const struct lease *l, const struct track *t, uint32_t seq)
{
    size_t low = 0, high = t->msg->skip_count;

    if (seq < l->msg.first || seq > l->last)
        return false;
    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (t->msg->skip[mid] == seq)
            return false;
        if (t->msg->skip[mid] < seq)
            low = mid + 1;
        else
            high = mid;
    }
    return true;
}

/* The tracks that listen, in order: for (k = 0; (t = next_track(p, &k));). One may be dropped in
 * between. */
static struct track *next_track(const struct pass *p, uint32_t *k)
{
    while (*k < p->w->stage_count) {
        struct track *t = &p->l->tracks[(*k)++];

        if (t->listens)
            return t;
    }
    return NULL;
}

static bool anybody_wants(const struct pass *p, uint32_t seq)
{
    const struct track *t;

    for (uint32_t k = 0; (t = next_track(p, &k));)
        if (is_shard_wanted(p->l, t, seq))
            return true;
    return false;
}

/* ---- shards */

/* The decoder adds nothing more to a shard. Lock held; s may be gone afterwards. */
static void finish_feeding(struct shard *s)
{
    struct worker *w = s->worker;

    if (s->trailing)
        s->track->trailing--;
    s->trailing = false;
    s->fed = true;
    if (s->finished)
        shard_free(w, s);
    worker_changed(w);
}

static bool is_of_use(const struct shard *s) { return !s->dropped && !s->finished; }

/* The track's open shard, when somebody still wants it. */
static struct shard *open_shard(const struct track *t)
{
    return t->feeding && is_of_use(t->feeding) ? t->feeding : NULL;
}

/* Drops the open shard: an incomplete one is no result. */
static void drop_open(struct track *t)
{
    struct shard *s = t->feeding;

    if (!s)
        return;
    t->feeding = NULL;
    s->dropped = true;
    finish_feeding(s);
}

/* Calls fn for each trailing shard of the track, which may free it. Lock held. */
static int each_trailing(struct worker *w, const struct track *t, int (*fn)(struct shard *, void *),
                         void *arg)
{
    struct shard *next;
    int rc = 0;

    for (struct shard *s = w->shards; s && rc == 0 && t->trailing; s = next) {
        next = s->next;
        if (s->track == t && s->trailing)
            rc = fn(s, arg);
    }
    return rc;
}

static int forget_useless(struct shard *s, void *arg)
{
    (void)arg;
    if (!is_of_use(s))
        finish_feeding(s);
    return 0;
}

static bool anything_trails(const struct pass *p)
{
    const struct track *t;

    for (uint32_t k = 0; (t = next_track(p, &k));)
        if (t->trailing)
            return true;
    return false;
}

/* A worker that drains finishes what has begun, and starts nothing else. */
static bool has_begun_shard(const struct pass *p)
{
    const struct track *t;

    for (uint32_t k = 0; (t = next_track(p, &k));)
        if (t->feeding && !t->feeding->dropped)
            return true;
    return false;
}

int feed_may_go_on(const struct pass *p, uint32_t seq, struct err *err)
{
    const struct track *t;

    if (p->w->leaving || p->l->cancelled)
        return err_set(err, ERR_CANCELLED, "cancelled");
    for (uint32_t k = 0; (t = next_track(p, &k));)
        each_trailing(p->w, t, forget_useless, NULL);
    if (anything_trails(p))
        return 0;
    if (seq > p->l->last)
        return err_set(err, ERR_EMPTY, "the rest is not wanted");
    if (p->w->draining && !has_begun_shard(p)) {
        p->l->given_up = true;
        return err_set(err, ERR_EMPTY, "the worker is stopping");
    }
    return 0;
}

static int add_shard(struct worker *w, struct lease *l, struct track *t, int64_t at,
                     struct shard **ret, struct err *err)
{
    struct shard **tail = &w->shards;
    struct shard *s = calloc(1, sizeof(*s));

    if (!s)
        return err_set(err, ERR_NOMEM, "no memory for a shard");
    s->worker = w;
    s->lease = l;
    s->track = t;
    s->seq = l->feeding_seq;
    pcm_lane_init(&s->pcm, &w->pool, l->sources ? l->sources + 1 : 1, at);
    s->part_count = w->stages[t->stage].apart && l->sources ? l->sources : 1;
    for (uint32_t i = 0; i < s->part_count; i++)
        s->parts[i] = (struct shard_part){
            .shard = s, .source = s->part_count > 1 ? i + 1 : 0, .released = at};
    while (*tail)
        tail = &(*tail)->next;
    *tail = s;
    l->unfinished++;
    worker_changed(w);
    *ret = s;
    return 0;
}

/* ---- other tracks than the first */

/* An error with a track's shards: of another than the first it is its own affair. Lock held. */
static int charge_track_error(const struct pass *p, struct track *t, int rc, const struct err *err)
{
    if (rc == 0 || t->stage == 0)
        return rc;
    if (is_shard_wanted(p->l, t, p->l->feeding_seq))
        report_failed(p->w, p->l, t, p->l->feeding_seq, err);
    track_drop(p->w, t);
    return 0;
}

static bool is_track_lagging(const struct worker *w, const struct track *t)
{
    uint64_t bytes = 0;

    if (t->stage == 0 || pcm_pool_has_room(&w->pool))
        return false;
    for (const struct shard *s = w->shards; s; s = s->next)
        if (s->track == t)
            bytes += s->pcm.held_bytes / s->pcm.stride;
    return bytes > PCM_LAG_BYTES;
}

static void fall_behind(const struct pass *p, struct track *t)
{
    struct err why = {0};

    err_set(&why, ERR_CANCELLED, "it fell behind the recording's pass");
    report_failed(p->w, p->l, t, p->l->feeding_seq, &why);
    drop_open(t);
}

/* Those that cannot keep up must not fill the memory: pcm.h. Lock held. */
static void drop_laggards(const struct pass *p)
{
    struct track *t;

    for (uint32_t k = 0; (t = next_track(p, &k));) {
        const struct shard *s = open_shard(t);

        if (s && !pcm_lane_starves(&s->pcm) && is_track_lagging(p->w, t))
            fall_behind(p, t);
    }
}

/* ---- from the splitter */

/* A track's shard that begins now, if it is wanted. Lock held. */
static int open_track(const struct pass *p, struct track *t, int64_t at, struct err *err)
{
    if (!is_shard_wanted(p->l, t, p->l->feeding_seq))
        return 0;
    if (p->w->draining)
        p->l->given_up |= t->stage == 0; /* decoding goes on for those before it alone */
    else if (is_track_lagging(p->w, t))
        fall_behind(p, t);
    else
        return add_shard(p->w, p->l, t, at, &t->feeding, err);
    return 0;
}

static int on_open(void *arg, uint32_t seq, int64_t at, struct err *err)
{
    const struct pass *p = arg;
    struct track *t;
    int rc;

    pthread_mutex_lock(&p->w->lock);
    p->l->feeding_seq = seq;
    rc = feed_may_go_on(p, seq, err);
    while (rc == 0 && anybody_wants(p, seq) && !anything_trails(p) &&
           !pcm_pool_has_room(&p->w->pool)) {
        pthread_cond_wait(&p->w->room, &p->w->lock);
        rc = feed_may_go_on(p, seq, err);
    }
    for (uint32_t k = 0; rc == 0 && (t = next_track(p, &k));)
        rc = charge_track_error(p, t, open_track(p, t, at, err), err);
    pthread_mutex_unlock(&p->w->lock);
    return rc;
}

struct piece {
    const int16_t *pcm;
    size_t n;
    struct err *err;
};

static int append_tail(struct shard *s, void *arg)
{
    const struct piece *a = arg;
    int64_t tail = s->worker->stages[s->track->stage].tail;
    int64_t left = s->pcm.cut + tail - s->pcm.end;
    int rc = pcm_lane_append(&s->pcm, a->pcm, (int64_t)a->n < left ? a->n : (size_t)left, a->err);

    if (rc == 0 && (int64_t)a->n >= left) {
        pcm_lane_close(&s->pcm);
        finish_feeding(s);
    }
    return rc;
}

/* The lanes that drive the pass have all that the engine asked of them: pcm.h. False as well
 * when there are none. Lock held. */
static bool drivers_are_fed(const struct pass *p)
{
    const struct shard *first = open_shard(&p->l->tracks[0]);
    const struct track *t;
    bool any = false;

    if (first)
        return !pcm_lane_starves(&first->pcm);
    for (uint32_t k = 1; (t = next_track(p, &k));) {
        const struct shard *s = open_shard(t);

        if (s && pcm_lane_starves(&s->pcm))
            return false;
        any = any || s;
    }
    return any;
}

/* Waits until the open shards may have more. Lock held. */
static int await_room(const struct pass *p, struct err *err)
{
    int rc = feed_may_go_on(p, p->l->feeding_seq, err);

    while (rc == 0 && !anything_trails(p) && !pcm_pool_has_room(&p->w->pool) &&
           drivers_are_fed(p)) {
        pthread_cond_wait(&p->w->room, &p->w->lock);
        rc = feed_may_go_on(p, p->l->feeding_seq, err);
    }
    return rc;
}

static int feed_track(struct worker *w, struct track *t, struct piece *piece)
{
    struct shard *s = open_shard(t);
    int rc = s ? pcm_lane_append(&s->pcm, piece->pcm, piece->n, piece->err) : 0;

    return rc != 0 ? rc : each_trailing(w, t, append_tail, piece);
}

static int on_audio(void *arg, const int16_t *pcm, size_t n, struct err *err)
{
    const struct pass *p = arg;
    struct piece piece = {pcm, n, err};
    struct track *t;
    int rc;

    pthread_mutex_lock(&p->w->lock);
    rc = await_room(p, err);
    if (rc == 0)
        drop_laggards(p);
    for (uint32_t k = 0; rc == 0 && (t = next_track(p, &k));)
        rc = charge_track_error(p, t, feed_track(p->w, t, &piece), err);
    if (rc == 0) {
        p->w->changes++;
        pthread_cond_broadcast(&p->w->work);
    }
    pthread_mutex_unlock(&p->w->lock);
    return rc;
}

static int close_track(struct worker *w, struct track *t, int64_t at, struct err *err)
{
    struct shard *s = t->feeding;

    if (!s)
        return 0;
    if (is_of_use(s) && s->pcm.end != at)
        return err_set(err, ERR_INPUT, "a shard's audio does not end at its cut");
    t->feeding = NULL;
    pcm_lane_cut(&s->pcm);
    if (w->stages[t->stage].tail && is_of_use(s)) {
        s->trailing = true;
        t->trailing++;
        worker_changed(w);
    } else {
        pcm_lane_close(&s->pcm);
        finish_feeding(s);
    }
    return 0;
}

static int on_close(void *arg, int64_t at, struct err *err)
{
    const struct pass *p = arg;
    struct track *t;
    int rc = 0;

    pthread_mutex_lock(&p->w->lock);
    /* Before the engine may have the last shards, with which it is told. */
    p->l->reached_end |= at == p->l->total_samples;
    for (uint32_t k = 0; rc == 0 && (t = next_track(p, &k));)
        rc = charge_track_error(p, t, close_track(p->w, t, at, err), err);
    pthread_mutex_unlock(&p->w->lock);
    return rc;
}

struct split_sink feed_sink(const struct pass *p)
{
    return (struct split_sink){on_open, on_audio, on_close, (void *)p};
}

/* ---- ends */

static int close_tail(struct shard *s, void *arg)
{
    (void)arg;
    pcm_lane_close(&s->pcm);
    finish_feeding(s);
    return 0;
}

void feed_end(const struct pass *p)
{
    const struct track *t;

    pthread_mutex_lock(&p->w->lock);
    for (uint32_t k = 0; (t = next_track(p, &k));)
        each_trailing(p->w, t, close_tail, NULL);
    pthread_mutex_unlock(&p->w->lock);
}

static int drop_tail(struct shard *s, void *arg)
{
    (void)arg;
    s->dropped = true;
    finish_feeding(s);
    return 0;
}

void feed_stop(struct worker *w, struct track *t)
{
    each_trailing(w, t, drop_tail, NULL);
    drop_open(t);
}

int feed_text(const struct pass *p, struct err *err)
{
    struct lease *l = p->l;
    struct shard *s = NULL;
    int rc = feed_may_go_on(p, l->msg.first, err);

    if (rc != 0 || !is_shard_wanted(l, &l->tracks[0], l->msg.first))
        return rc;
    l->feeding_seq = l->msg.first;
    rc = add_shard(p->w, l, &l->tracks[0], 0, &s, err);
    if (rc != 0)
        return rc;
    s->text = true;
    s->pcm.end = l->msg.total_ms * SAMPLES_PER_MS;
    pcm_lane_cut(&s->pcm);
    pcm_lane_close(&s->pcm);
    s->fed = true;
    return 0;
}
