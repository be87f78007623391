#include "workers/stages/windowed.h"

#include <stdlib.h>
#include <string.h>

struct windowed_lane {
    struct windowed_lane *next; /* oldest first */
    struct stage_work work;
    stage_done done;
    void *done_arg;
    int64_t k;        /* the next window */
    int64_t from;     /* samples before it are counted as done */
    uint32_t windows; /* that it has had */
    bool over;        /* no further window: to be told */
    int failed;       /* 0, or the code in err */
    struct err err;
    void *state; /* owned: plan.state_bytes */
};

struct windowed {
    struct windowed_plan plan;
    uint32_t batch;
    struct windowed_lane *lanes; /* owned */
    uint32_t lane_count, flying;
    int64_t samples_done;
    float *pcm;                  /* of a batch */
    struct windowed_item *items; /* of a batch */
    struct windowed_lane **of;   /* whose they are */
    struct err lack;
    void (*beat)(void *arg);
    void *beat_arg;
};

int64_t windowed_first(const struct windowed_plan *plan, int64_t sample)
{
    return (sample + plan->hop - 1) / plan->hop;
}

int windowed_new(const struct windowed_plan *plan, uint32_t batch, struct windowed **ret,
                 struct err *err)
{
    struct windowed *w = calloc(1, sizeof(*w));
    size_t samples = plan->joined ? (size_t)((batch - 1) * plan->hop + plan->window)
                                  : (size_t)batch * (size_t)plan->window;

    if (!w)
        return err_set(err, ERR_NOMEM, "no memory for %s", plan->what);
    w->plan = *plan;
    w->batch = batch;
    w->pcm = malloc(samples * sizeof(*w->pcm));
    w->items = calloc(batch, sizeof(*w->items));
    w->of = calloc(batch, sizeof(struct windowed_lane *));
    if (!w->pcm || !w->items || !w->of) {
        windowed_free(w);
        return err_set(err, ERR_NOMEM, "no memory for %u windows of %s", batch, plan->what);
    }
    *ret = w;
    return 0;
}

static void lane_free(struct windowed *w, struct windowed_lane *l)
{
    if (l->state)
        w->plan.drop(w->plan.arg, l->state);
    free(l->state);
    free(l);
}

void windowed_free(struct windowed *w)
{
    if (!w)
        return;
    while (w->lanes) {
        struct windowed_lane *next = w->lanes->next;

        lane_free(w, w->lanes);
        w->lanes = next;
    }
    free(w->pcm);
    free(w->items);
    free(w->of);
    free(w);
}

uint32_t windowed_batch(const struct windowed *w) { return w->batch; }

const struct err *windowed_lack(const struct windowed *w) { return &w->lack; }

void windowed_on_beat(struct windowed *w, void (*beat)(void *arg), void *arg)
{
    w->beat = beat;
    w->beat_arg = arg;
}

void windowed_stats(const struct windowed *w, uint32_t *lanes, uint32_t *windows,
                    int64_t *samples_done)
{
    *lanes = w->lane_count;
    *windows = w->flying;
    *samples_done = w->samples_done;
}

/* ---- lanes */

int windowed_add(struct windowed *w, const struct stage_work *work, stage_done done, void *done_arg,
                 struct stage_lane **ret, struct err *err)
{
    struct windowed_lane **end = &w->lanes, *l = calloc(1, sizeof(*l));

    if (l)
        l->state = calloc(1, w->plan.state_bytes);
    if (!l || !l->state) {
        free(l);
        return err_set(err, ERR_NOMEM, "no memory for a shard");
    }
    l->work = *work;
    l->done = done;
    l->done_arg = done_arg;
    l->k = windowed_first(&w->plan, work->start_sample);
    l->from = work->start_sample;
    while (*end)
        end = &(*end)->next;
    *end = l;
    w->lane_count++;
    *ret = (struct stage_lane *)l;
    return 0;
}

static void unlink_lane(struct windowed *w, struct windowed_lane *l)
{
    struct windowed_lane **at = &w->lanes;

    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    w->lane_count--;
}

void windowed_remove(struct windowed *w, struct stage_lane *lane)
{
    struct windowed_lane *l = (struct windowed_lane *)lane;

    unlink_lane(w, l);
    lane_free(w, l);
}

/* The next shard counts samples after this shard's end. */
static void count_processed_samples(struct windowed *w, struct windowed_lane *l, int64_t to)
{
    int64_t end = l->work.end(l->work.end_arg);

    if (end >= 0 && to > end)
        to = end;
    if (to > l->from) {
        w->samples_done += l->work.source.again ? 0 : to - l->from;
        l->from = to;
    }
}

/* With its result, or what is wrong with it. */
static void report_lane_result(struct windowed *w, struct windowed_lane *l)
{
    struct stage_result r = {.language = "", .windows = l->windows, .account.speech_ms = -1};

    r.end_sample = l->work.end(l->work.end_arg);
    if (!l->failed)
        l->failed = w->plan.finish(w->plan.arg, l->state, &r, &l->err);
    count_processed_samples(w, l, r.end_sample);
    l->done(l->done_arg, l->failed ? NULL : &r, l->failed ? &l->err : NULL);
}

/* From the list's head again after each: done may add and remove lanes. */
static bool tell_ended(struct windowed *w)
{
    struct windowed_lane *l = w->lanes;
    bool any = false;

    while (l) {
        if (!l->over) {
            l = l->next;
            continue;
        }
        any = true;
        unlink_lane(w, l);
        report_lane_result(w, l);
        lane_free(w, l);
        l = w->lanes;
    }
    return any;
}

/* ---- windows */

/* Reads window l->k + ahead; the one before it, of *samples, lies a hop before out, where there is
 * one. 1: *samples of it are at out, zeros behind them; 0: not decoded yet; -1: there is no such
 * window, nor one after it. The end is asked for once more after reading: what has come while it
 * was not known yet is the shard's own audio. */
static int read_window(const struct windowed *w, struct windowed_lane *l, uint32_t ahead,
                       float *out, int64_t *samples)
{
    const struct windowed_plan *p = &w->plan;
    int64_t k = l->k + ahead, at = k * p->hop, n, end = l->work.end(l->work.end_arg);
    int64_t shared = ahead && *samples == p->window ? p->window - p->hop : 0;

    if (end >= 0 && at >= end)
        return -1;
    n = l->work.source.read(l->work.source.arg, at + shared, (size_t)(p->window - shared),
                            out + shared);
    if (n < 0)
        return 0;
    n += shared;
    end = l->work.end(l->work.end_arg);
    if (end >= 0 && at >= end)
        return -1;
    if (k > 0 && n <= p->window - p->hop)
        return -1;
    memset(out + n, 0, (size_t)(p->window - n) * sizeof(*out));
    *samples = n;
    return 1;
}

/* Windows of one lane, as many as are ready, behind the `n` that are there: a stretch. */
static uint32_t take_windows(struct windowed *w, struct windowed_lane *l, uint32_t n)
{
    float *pcm = w->pcm + (n ? w->items[n - 1].pcm - w->pcm + w->plan.window : 0);
    uint32_t ahead = 0;
    int64_t samples = 0;

    for (; n < w->batch && !l->over; pcm += w->plan.hop) {
        int got = read_window(w, l, ahead, pcm, &samples);

        if (got == 0)
            break;
        if (got < 0) {
            l->over = ahead == 0; /* else when those before it have been computed */
            break;
        }
        w->items[n] = (struct windowed_item){l->state, l->k + ahead, 1, samples, pcm};
        w->of[n++] = l;
        ahead++;
    }
    return n;
}

/* A stretch of one lane. */
static uint32_t take_stretch(struct windowed *w, struct windowed_lane *l)
{
    struct windowed_item it = {.state = l->state, .first = l->k, .pcm = w->pcm};
    int64_t samples = 0;

    while (it.windows < w->batch) {
        int64_t at = it.windows * w->plan.hop;
        int got = read_window(w, l, it.windows, w->pcm + at, &samples);

        if (got < 0 && it.windows == 0)
            l->over = true;
        if (got <= 0)
            break;
        it.windows++;
        it.samples = at + samples;
    }
    w->items[0] = it;
    w->of[0] = l;
    return it.windows ? 1 : 0;
}

/* Lanes in turn of age: the oldest ends first, and its audio is freed. */
static uint32_t gather_windows(struct windowed *w)
{
    uint32_t n = 0;

    for (struct windowed_lane *l = w->lanes; l && n < w->batch; l = l->next) {
        if (l->over)
            continue;
        n = w->plan.joined ? take_stretch(w, l) : take_windows(w, l, n);
        if (w->plan.joined && n)
            break;
    }
    return n;
}

static void move_on(struct windowed *w, uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < from + n; i++) {
        struct windowed_lane *l = w->of[i];

        l->k += w->items[i].windows;
        l->windows += w->items[i].windows;
        count_processed_samples(w, l, l->k * w->plan.hop);
        l->work.source.release(l->work.source.arg, l->k * w->plan.hop);
    }
}

static bool is_of_content(int code) { return code == ERR_INPUT || code == ERR_LIMIT; }

/* Items from this one on cannot be computed. An error in an item's content fails its shard.
 * ERR_VRAM halves the batch, if it can. Any other error is returned, and fails all. */
static int charge_error(struct windowed *w, uint32_t from, struct err *err)
{
    struct windowed_lane *l = w->of[from];

    if (err->code == ERR_VRAM && w->batch > 1) {
        w->lack = *err;
        w->batch /= 2;
        return 0;
    }
    if (!is_of_content(err->code))
        return err->code;
    l->failed = err->code;
    l->err = *err;
    l->over = true;
    return 0;
}

/* The content of one of these items is bad: computes each alone, so that the other lanes do not
 * fail with it. Items left after ERR_VRAM are computed again. */
static int run_each(struct windowed *w, uint32_t n, struct err *err)
{
    for (uint32_t i = 0; i < n; i++) {
        int rc;

        if (w->of[i]->over) /* for a window before this one */
            continue;
        rc = w->plan.run(w->plan.arg, &w->items[i], 1, err);
        if (rc == 0)
            move_on(w, i, 1);
        else if (!is_of_content(rc))
            return charge_error(w, i, err);
        else
            charge_error(w, i, err);
    }
    return 0;
}

int windowed_step(struct windowed *w, bool *progress, struct err *err)
{
    uint32_t n = gather_windows(w);
    int rc = 0;

    *progress = n > 0;
    if (n) {
        w->flying = n;
        rc = w->plan.run(w->plan.arg, w->items, n, err);
        if (rc == 0)
            move_on(w, 0, n);
        else
            rc = n > 1 && is_of_content(rc) ? run_each(w, n, err) : charge_error(w, 0, err);
        w->flying = 0;
        if (w->beat)
            w->beat(w->beat_arg);
    }
    if (rc == 0 && tell_ended(w))
        *progress = true;
    return rc;
}

/* ---- behind stage.h */

static struct windowed *of(const void *self) { return *(struct windowed *const *)self; }

uint32_t windowed_stage_slots(const void *self) { return windowed_batch(of(self)); }

const struct err *windowed_stage_lack(const void *self) { return windowed_lack(of(self)); }

enum precision windowed_stage_f32(const void *self)
{
    (void)self;
    return PRECISION_F32;
}

int windowed_stage_add(void *self, const struct stage_work *work, stage_done done, void *done_arg,
                       struct stage_lane **ret, struct err *err)
{
    return windowed_add(of(self), work, done, done_arg, ret, err);
}

void windowed_stage_remove(void *self, struct stage_lane *lane) { windowed_remove(of(self), lane); }

int windowed_stage_step(void *self, bool *progress, struct err *err)
{
    return windowed_step(of(self), progress, err);
}

void windowed_stage_on_beat(void *self, void (*beat)(void *arg), void *arg)
{
    windowed_on_beat(of(self), beat, arg);
}

void windowed_stage_stats(const void *self, uint32_t *lanes, uint32_t *windows,
                          int64_t *samples_done)
{
    windowed_stats(of(self), lanes, windows, samples_done);
}
