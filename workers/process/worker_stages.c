#include "workers/process/worker_stages.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "gpu/backend.h"
#include "gpu/devices/devices.h"
#include "workers/media/sandbox.h"
#include "workers/models/files/model_dir.h"
#include "workers/stages/stage_kind.h"
#include "workers/pass/lease.h"

_Static_assert(SETUP_CACHE_MOST == CACHE_COUNT - 1, "every one of them can be asked for");

/* Lanes at once of stages of windows: several recordings are decoded at a time. */
#define LANES_LEAST 4u

static void on_beat(void *arg)
{
    const struct engine_share *s = arg;

    pthread_mutex_lock(&s->e->w->lock);
    s->pulse->beat++;
    pthread_mutex_unlock(&s->e->w->lock);
}

static const char *name_of(const struct engine_stages *e, uint32_t k)
{
    return e->w->stages[k].name;
}

static uint32_t capacity_of(const char *name, uint32_t slots)
{
    if (stage_kind_find(name)->few_windows || slots > LANES_LEAST / 2)
        return 2 * slots;
    return LANES_LEAST;
}

static void note_size(struct engine_stages *e, uint32_t k)
{
    struct engine_stage *s = &e->of[k];

    s->slots = stage_slots(s->stage);
    s->windows = stage_windows(s->stage);
    s->capacity = capacity_of(name_of(e, k), s->slots);
}

static void close_engine_stage(struct engine_stage *s)
{
    stage_close(s->stage);
    backend_close(s->fork);
    s->stage = NULL;
    s->fork = NULL;
}

/* ---- loading */

/* Slow checks before READY, which run while the model loads: its files have the expected hash, and
 * a decoder can be started. If none can, no recording is to blame, so the worker must not get a
 * lease. A fork server that had to be started anew ends with this thread, and the first lease's
 * decoder starts another. */
struct check {
    struct worker *w; /* that it is the end of, so that it is told at once; NULL: an extra's */
    const char *stage, *dir, *expected;
    bool decodes;
    int rc;
    struct err err;
    pthread_t thread;
    bool beside;
};

void stages_give_up(struct worker *w, const struct err *why)
{
    bool first;

    pthread_mutex_lock(&w->lock);
    first = !w->failed;
    if (first)
        w->failed = why->code;
    pthread_mutex_unlock(&w->lock);
    if (!first)
        return;
    worker_post_fatal(w, why);
    lease_leave(w);
    outbox_wake(&w->out);
}

static int check_model(const struct check *c, struct err *err)
{
    char hash[MODEL_HASH_LEN];
    int rc = stage_model_hash(c->stage, c->dir, hash, err);

    if (rc == 0 && strcmp(hash, c->expected) != 0)
        rc = err_set(err, ERR_MODEL,
                     "the model's files in '%s' are not those that the job was set up with "
                     "(now %s, then %s): restore them, or enqueue with this model",
                     c->dir, hash, c->expected);
    return rc;
}

static int try_decoder(struct err *err)
{
    struct sandbox_report report;
    int rc = sandbox_check(&report, err);

    if (rc == 0 || rc == ERR_NOMEM) /* a shortage passes, and whoever decodes waits for that */
        return 0;
    return err_prefix(err, "trying a decoder");
}

/* The shorter first. */
static void *check_all(void *arg)
{
    struct check *c = arg;

    c->rc = c->decodes ? try_decoder(&c->err) : 0;
    if (c->rc == 0)
        c->rc = check_model(c, &c->err);
    if (c->rc != 0 && c->w)
        stages_give_up(c->w, &c->err);
    return NULL;
}

static void check_begin(struct check *c)
{
    c->beside = pthread_create(&c->thread, NULL, check_all, c) == 0;
    if (!c->beside)
        check_all(c);
}

/* rc: the result of loading. If the check fails, its error replaces rc, since a wrong model may be
 * the cause. */
static int check_end(struct check *c, int rc, struct err *err)
{
    if (rc != 0 && c->w && rc != ERR_MODEL && rc != ERR_VRAM && rc != ERR_NOMEM)
        stages_give_up(c->w, err);
    if (c->beside)
        pthread_join(c->thread, NULL);
    if (c->rc == 0)
        return rc;
    *err = c->err;
    return c->rc;
}

static int open_device(struct engine_stages *e, struct err *err)
{
    const struct msg_setup *m = &e->w->setup;
    const struct device_options o = {
        .threads = m->threads,
        .cap = m->memory_limit,
        .deterministic = m->deterministic,
    };

    int rc = device_open(e->w->device, &o, &e->backend, err);

    if (rc == 0)
        worker_recall(e->w, e->backend);
    return rc;
}

/* Between the models and the room for work: stage_setup.tune. */
static int tune_for_device(void *arg, struct stage *synthetic_load, uint32_t *slots,
                           uint32_t *windows, struct err *err)
{
    struct engine_stages *e = arg;
    int rc = worker_tune(e->w, e->backend, synthetic_load, &e->tuning, err);

    *slots = e->tuning.slots;
    *windows = e->tuning.windows;
    return rc;
}

static struct backend *be_of(const struct engine_stages *e, uint32_t k)
{
    return e->of[k].fork ? e->of[k].fork : e->backend;
}

static int open_stage(struct engine_stages *e, uint32_t k, const struct stage_setup *setup,
                      struct err *err)
{
    struct engine_stage *s = &e->of[k];
    int rc = 0;

    if (k > 0 && e->backend->ops->fork)
        rc = e->backend->ops->fork(e->backend, false, &s->fork, err);
    if (rc == 0)
        rc = worker_tune_other(e->w, k, setup, be_of(e, k), &s->rate, err);
    if (rc == 0)
        rc = stage_open(setup, be_of(e, k), &s->stage, err);
    if (rc != 0)
        return rc;
    note_size(e, k);
    if (k == 0 && s->rate > 0)
        e->tuning = (struct worker_tuning){.rate = s->rate, .measured = true};
    else if (k == 0 && !e->tuning.rate)
        e->tuning.rate = e->w->setup.tuned_rate;
    return 0;
}

/* Foretold, since a model that does not fit should not be read from the disk first. On a device
 * without a bound of its own there is always room. */
static int check_room(const struct engine_stages *e, const struct stage_setup *setup,
                      struct err *err)
{
    const struct backend *be = e->backend;
    struct stage_setup as_chosen = *setup;
    uint64_t bytes = 0, left = be->budget > be->allocated ? be->budget - be->allocated : 0;
    int rc;

    if (!be->budget)
        return 0;
    rc = backend_precision(be, setup->precision, &as_chosen.precision, err);
    if (rc == 0)
        rc = stage_predict_bytes(&as_chosen, be->ops->record_begin != NULL, &bytes, err);
    if (rc == 0 && bytes > left)
        rc = err_set(err, ERR_VRAM,
                     "it takes %.2f GB of device memory at least, and %.2f GB are left",
                     (double)bytes / 1e9, (double)left / 1e9);
    return rc;
}

/* How much the first takes at once is asked for, remembered or measured; the others take what they
 * choose. */
static struct stage_setup setup_of(struct engine_stages *e, uint32_t k)
{
    const struct msg_setup *m = &e->w->setup;
    struct stage_setup setup = {.name = name_of(e, k),
                                .params = m->stages[k].params_json,
                                .precision = PRECISION_AUTO,
                                .cache = (enum cache_precision)m->cache};

    if (k == 0) {
        setup.slots = m->slots;
        setup.windows = m->windows;
        setup.tune = tune_for_device;
        setup.tune_arg = e;
    }
    return setup;
}

static bool hears_the_same(const struct worker *w, uint32_t k)
{
    const struct hearing *first = &w->stages[0].hearing, *h = &w->stages[k].hearing;

    /* A mix is there whatever else is heard. */
    return h->channel == first->channel && h->tracks == first->tracks &&
           (!stage_kind_find(w->stages[k].name)->apart || h->channels == first->channels);
}

static int load_engine_stage(struct engine_stages *e, uint32_t k, struct err *err)
{
    const struct msg_stage *m = &e->w->setup.stages[k];
    struct stage_setup setup = setup_of(e, k);
    struct check check = {.w = k == 0 ? e->w : NULL,
                          .stage = setup.name,
                          .expected = m->model_hash,
                          .decodes = k == 0 && stage_hears(setup.name)};
    char *dir = NULL;
    int rc = precision_parse(e->w->setup.precision, &setup.precision, err);

    if (rc == 0 && k > 0 && (!stage_hears(name_of(e, 0)) || !stage_hears(setup.name)))
        rc = err_set(err, ERR_USAGE, "there is no decoding pass that both could share");
    if (rc == 0 && k > 0 && !hears_the_same(e->w, k))
        rc = err_set(err, ERR_USAGE, "it hears other tracks or channels");
    if (rc == 0)
        rc = model_dir_find(m->model_dir, &dir, err);
    setup.dir = check.dir = dir;
    if (rc == 0 && k > 0)
        rc = check_room(e, &setup, err);
    if (rc == 0) {
        check_begin(&check);
        rc = k == 0 ? open_device(e, err) : 0;
        if (rc == 0)
            rc = open_stage(e, k, &setup, err);
        rc = check_end(&check, rc, err);
        if (rc != 0)
            close_engine_stage(&e->of[k]);
    }
    free(dir);
    return rc;
}

static void share_out_stages(struct engine_stages *e)
{
    const uint32_t each = e->backend->ops->fork ? 1 : e->w->stage_count;

    for (uint32_t k = 0; k < e->w->stage_count; k += each) {
        struct engine_share *s = &e->share[e->share_count];

        *s = (struct engine_share){e, k, k + each, &e->w->engine[e->share_count]};
        e->share_count++;
        for (uint32_t i = s->first; i < s->end; i++)
            if (e->of[i].stage)
                stage_on_beat(e->of[i].stage, on_beat, s);
    }
}

int stages_load(struct worker *w, struct engine_stages *ret, struct err *err)
{
    int rc;

    *ret = (struct engine_stages){.w = w};
    rc = load_engine_stage(ret, 0, err);
    for (uint32_t k = 1; rc == 0 && k < w->stage_count; k++) {
        struct err why = {0};

        if (load_engine_stage(ret, k, &why) != 0)
            ret->of[k].why = why;
        if (ret->of[k].why.code == ERR_DEVICE) {
            *err = why;
            rc = err_prefix(err, "%s", name_of(ret, k));
        }
    }
    if (rc == 0)
        share_out_stages(ret);
    return rc;
}

void stages_unload(struct engine_stages *e)
{
    for (uint32_t k = SETUP_MAX_STAGES; k-- > 0;)
        close_engine_stage(&e->of[k]);
    backend_close(e->backend);
    e->backend = NULL;
}

void stages_post_ready(struct engine_stages *e)
{
    struct worker *w = e->w;
    const struct err *why_not[SETUP_MAX_STAGES];
    float rates[SETUP_MAX_STAGES];
    struct worker_room room = {.capacity = e->of[0].capacity, .why_not = why_not, .rates = rates};

    for (uint32_t k = 0; k < w->stage_count; k++) {
        why_not[k] = &e->of[k].why;
        if (k > 0)
            rates[k - 1] = e->of[k].rate;
        if (e->of[k].stage)
            room.predicted_bytes += stage_footprint(e->of[k].stage, e->backend);
    }
    worker_note_memory(w, e->backend);
    pthread_mutex_lock(&w->lock); /* before READY: the answer may be a lease with all of them */
    for (uint32_t k = 0; k < w->stage_count; k++)
        w->stages[k].loaded = e->of[k].stage != NULL;
    w->slots = e->of[0].slots;
    pthread_mutex_unlock(&w->lock);
    worker_post_ready(w, e->backend, e->of[0].stage, &room, &e->tuning);
    pthread_mutex_lock(&w->lock);
    w->ready = true;
    worker_changed(w);
    pthread_mutex_unlock(&w->lock);
}

/* ---- the work */

static void refresh_stage_stats(struct engine_stage *s)
{
    if (s->stage)
        stage_stats(s->stage, &s->lanes, &s->flying, &s->samples);
}

uint32_t stages_count(const struct engine_share *s)
{
    uint32_t lanes = 0;

    for (uint32_t k = s->first; k < s->end; k++) {
        refresh_stage_stats(&s->e->of[k]);
        lanes += s->e->of[k].lanes;
    }
    return lanes;
}

/* The device's memory did not suffice, and the stage takes less at once now. The scheduler is told
 * of what it remembers, which is the first stage's, and not what a long text takes. */
static void note_lack(struct engine_stages *e, uint32_t k)
{
    struct engine_stage *s = &e->of[k];

    if (stage_slots(s->stage) == s->slots && stage_windows(s->stage) == s->windows)
        return;
    note_size(e, k);
    if (k == 0 && stage_lack(s->stage)->code == ERR_VRAM)
        worker_post_tuned(e->w, s->slots, s->windows, stage_lack(s->stage)->msg);
    else
        log_info("%s takes less at once from now on: %s", name_of(e, k), stage_lack(s->stage)->msg);
}

/* Its lanes go with it, so that nobody removes them from a stage that has failed. */
static void close_stage(struct engine_stages *e, uint32_t k, const struct err *why)
{
    struct worker *w = e->w;

    log_warn("%s does not listen any longer: %s", name_of(e, k), why->msg);
    close_engine_stage(&e->of[k]);
    e->of[k] = (struct engine_stage){.why = *why};
    pthread_mutex_lock(&w->lock);
    for (struct shard *s = w->shards; s; s = s->next)
        for (uint32_t i = 0; s->track->stage == k && i < s->part_count; i++)
            s->parts[i].lane = NULL;
    tracks_give_up(w, k);
    pthread_mutex_unlock(&w->lock);
}

static bool is_leaving(struct worker *w)
{
    bool leaving;

    pthread_mutex_lock(&w->lock);
    leaving = w->leaving;
    pthread_mutex_unlock(&w->lock);
    return leaving;
}

static int step_engine_stage(const struct engine_share *s, uint32_t k, bool *progress,
                             struct err *err)
{
    struct engine_stages *e = s->e;
    bool moved = false;
    int rc = stage_step(e->of[k].stage, &moved, err);

    refresh_stage_stats(&e->of[k]);
    *progress |= moved;
    if (rc == 0) {
        note_lack(e, k);
    } else if (k > 0 && rc != ERR_DEVICE) {
        close_stage(e, k, err);
        *progress = true;
        rc = 0;
    }
    on_beat((void *)s);
    return rc;
}

int stages_step(const struct engine_share *s, bool *progress, struct err *err)
{
    struct engine_stages *e = s->e;
    int rc = 0;

    *progress = false;
    for (uint32_t k = s->first; rc == 0 && k < s->end; k++)
        if (e->of[k].stage && e->of[k].lanes && (k == 0 || !is_leaving(e->w)))
            rc = step_engine_stage(s, k, progress, err);
    worker_note_memory(e->w, e->backend);
    return rc;
}
