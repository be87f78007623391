/* Gathers what a plan is made of: devices, what waits, what is remembered; places it. */

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "gpu/backend.h"
#include "scheduler/run/archive.h"
#include "store/read/pace.h"
#include "store/read/read.h"
#include "store/store.h"
#include "store/tuning.h"
#include "tools/disabled_stages.h"
#include "tools/enqueue/stages/enqueue_model.h"
#include "tools/plan/plan.h"
#include "workers/models/files/model_dir.h"
#include "workers/models/whisper/whisper.h"
#include "workers/stages/stage.h"
#include "workers/stages/stage_kind.h"
#include "workers/stages/windowed.h"
#include "workers/text/tokenizer/vocabulary.h"

/* 128 kbit/s, for a plan without any known length. */
#define GUESS_BYTES_PER_SECOND 16000
#define HOUR_S 3600.0
#define HOUR_MS 3600000.0
/* The model of a plan if none is named, waiting or here: most machines can use it. */
#define UNNAMED "openai/whisper-small"

/* ---------------------------------------------------------------------------- the catalog */

static int add_stage(struct plan *p, const char *name, const char *model, struct plan_stage **ret)
{
    struct plan_stage *grown = realloc(p->stages, (p->stage_count + 1) * sizeof(*grown)), *s;

    if (!grown)
        return ERR_NOMEM;
    p->stages = grown;
    s = &grown[p->stage_count++];
    memset(s, 0, sizeof(*s));
    s->name = strdup(name);
    s->model = strdup(model);
    s->other = strcmp(name, stage_transcribe.name) != 0;
    transcribe_params_default(&s->size.params);
    *ret = s;
    return s->name && s->model ? 0 : ERR_NOMEM;
}

struct reading {
    struct plan *p;
    const struct plan_options *o;
    struct store *st;
    struct disabled_stages *disabled;
    struct err err;
};

/* With --model all that waits to be transcribed is planned with that one. */
static int stage_of(struct reading *r, const struct read_progress *row, struct plan_stage **ret)
{
    const bool replaced = r->o->model && strcmp(row->stage, stage_transcribe.name) == 0;
    struct plan_stage *s = NULL;
    struct err err = {0};

    for (uint32_t i = 0; replaced && i < r->p->stage_count; i++)
        if (!r->p->stages[i].other)
            s = &r->p->stages[i];
    if (!s && add_stage(r->p, row->stage, replaced ? r->o->model : row->model, &s))
        return ERR_NOMEM;
    *ret = s;
    if (s->other) {
        s->params = strdup(row->params_json);
        if (!s->params)
            return ERR_NOMEM;
    } else {
        /* Those of a later version: the run says what it thinks of them. */
        (void)transcribe_params_from_json(row->params_json, &s->size.params, &err);
    }
    if (replaced)
        return 0;
    s->stage_id = row->stage_id;
    s->dir = strdup(row->model_dir);
    snprintf(s->size.hash, sizeof(s->size.hash), "%s", row->model_hash);
    return s->dir ? 0 : ERR_NOMEM;
}

/* The stage's sums lack recordings that wait for a transcription, which come the same night. */
static int add_waiting(struct reading *r, int64_t stage_id, struct plan_stage *s)
{
    struct store_waiting w;
    int rc = store_waiting(r->st, stage_id, &w, &r->err);

    if (rc < 0)
        return rc;
    s->unknown += w.unknown;
    s->bytes += w.bytes;
    s->known_left_ms += w.audio_ms;
    s->known += w.known;
    return 0;
}

/* Channels and tracks that are heard apart add to the work. */
static int add_apart(struct reading *r, const struct read_progress *row, struct plan_stage *s)
{
    struct store_apart a;
    int rc;

    if (!stage_hears_apart(row->stage, row->params_json))
        return 0;
    s->apart = true;
    rc = store_apart(r->st, row->stage_id, &a, &r->err);
    if (rc == 0) {
        s->sources.known += a.known;
        s->sources.more_ms += a.more_ms;
    }
    return rc;
}

/* Reads the pace of earlier runs' shards on each device. */
static int read_paces(struct reading *r, struct plan_stage *s)
{
    const struct devices *on = r->p->picked;
    int rc = 0;

    if (!s->stage_id || s->pace)
        return 0;
    s->pace = calloc(on->count, sizeof(*s->pace));
    if (!s->pace)
        return ERR_NOMEM;
    for (uint32_t i = 0; i < on->count && rc == 0; i++)
        rc = store_pace(r->st, s->stage_id, on->list[i].name, &s->pace[i], &r->err);
    return rc;
}

static int on_stage(void *arg, const struct read_progress *row)
{
    struct reading *r = arg;
    struct plan_stage *s;

    if (row->pending + row->waiting == 0)
        return 0;
    if (stage_of(r, row, &s))
        return ERR_NOMEM;
    s->recordings += row->pending + row->waiting;
    s->sourceless += row->waiting;
    s->settling += row->settling;
    s->unknown += row->unknown;
    if (row->pending)
        s->bytes += row->bytes_pending / row->pending * row->unknown;
    s->known_left_ms += row->audio_left_ms;
    s->known_ms += row->audio_known_ms;
    s->known += row->pending - row->unknown + row->done;
    if (!s->disabled && disabled_stages_why(r->disabled, row) &&
        !(s->disabled = strdup(disabled_stages_why(r->disabled, row))))
        return ERR_NOMEM;
    if (row->waiting && add_waiting(r, row->stage_id, s) < 0)
        return ERR_IO;
    if (add_apart(r, row, s) < 0)
        return ERR_IO;
    return read_paces(r, s);
}

static int on_tuning(void *arg, const struct store_tuning_row *row)
{
    struct plan *p = arg;
    enum precision precision;
    struct placement_tuning *t;
    struct err err = {0};

    if (precision_parse(row->key.precision, &precision, &err) != 0)
        return 0; /* of a later version */
    if (p->tuning_count == p->tuning_room) {
        uint32_t room = p->tuning_room ? 2 * p->tuning_room : 16;

        t = realloc(p->tunings, room * sizeof(*t));
        if (!t)
            return ERR_NOMEM;
        p->tunings = t;
        p->tuning_room = room;
    }
    t = &p->tunings[p->tuning_count];
    *t = (struct placement_tuning){.device_id = strdup(row->key.device_id),
                                   .driver = strdup(row->key.driver),
                                   .model_hash = strdup(row->key.model_hash),
                                   .decoding = strdup(row->key.decoding),
                                   .precision = precision,
                                   .slots = row->tuning.slots,
                                   .windows = row->tuning.windows,
                                   .rate = row->tuning.rate};
    p->tuning_count++;
    return t->device_id && t->driver && t->model_hash && t->decoding ? 0 : ERR_NOMEM;
}

/* By the codec, or the name's ending; what is not known of it, as of the others (add_up). */
static void on_undecoded(void *arg, const struct store_undecoded *row)
{
    struct plan *p = arg;
    const char *dot = strrchr(row->name, '.');
    const struct night_format *format;
    char ending[16];
    double seconds, samples_s;
    uint32_t i = 0;

    snprintf(ending, sizeof(ending), "%s", row->codec[0] || !dot ? row->codec : dot + 1);
    for (char *c = ending; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    format = night_format(ending);
    while (i < p->format_count && p->formats[i].format != format)
        i++;
    if (i == PLAN_FORMATS)
        return;
    p->formats[i].format = format;
    if (i == p->format_count)
        p->format_count++;
    samples_s = row->samples_s > 0 ? (double)row->samples_s : format->samples_s;
    if (row->duration_ms >= 0)
        seconds = (double)row->duration_ms / 1000;
    else if (p->audio_known_ms > 0 && p->bytes_known > 0)
        seconds =
            (double)row->size_bytes / (double)p->bytes_known * (double)p->audio_known_ms / 1000;
    else
        seconds = (double)row->size_bytes / format->bytes_per_s;
    if (row->samples_s <= 0 && format->plain && seconds > 0)
        samples_s = (double)row->size_bytes / 2 / seconds;
    p->formats[i].hours += seconds / HOUR_S;
    p->formats[i].decode_s += seconds / HOUR_S * format->decode_s * samples_s / format->samples_s;
}

/* Sums up as the run's line does: audio counts once, whether one stage or several hear it. */
static void add_up(const struct store_archive *a, struct plan *p)
{
    struct rate_backlog b = archive_backlog(a);

    p->recordings = a->pending + a->waiting;
    p->held = a->paused;
    p->unknown = a->unknown;
    p->guessed = a->audio_known_ms == 0;
    p->bytes_known = a->bytes_known;
    p->audio_known_ms = a->audio_known_ms;
    if (p->guessed) {
        b.bytes_known = GUESS_BYTES_PER_SECOND;
        b.known_ms = 1000;
    }
    if (b.bytes_unknown == 0) /* empty files take no time */
        b.tasks_unknown = 0;
    p->left_ms = rate_left_ms(&b);
}

static int read_catalog(const struct plan_options *o, struct plan *p, struct err *err)
{
    struct reading r = {.p = p, .o = o};
    struct store_totals totals;
    struct store *st = NULL;
    int rc = store_open(o->catalog, STORE_READ, &st, err);

    if (rc == ERR_MISSING) {
        p->missing = true;
        *err = (struct err){0};
        return 0;
    }
    if (rc == 0)
        rc = store_totals(st, &totals, err);
    r.st = st;
    if (rc == 0)
        rc = disabled_stages_read(st, &r.disabled, err);
    if (rc == 0)
        rc = read_progress(st, on_stage, &r, err);
    disabled_stages_free(r.disabled);
    if (r.err.code)
        *err = r.err;
    if (rc == 0)
        rc = store_tuning_each(st, on_tuning, p, err);
    if (rc == ERR_NOMEM && err->code == 0)
        err_set(err, ERR_NOMEM, "no memory for the plan");
    if (rc == 0) {
        p->paused = totals.paused;
        add_up(&totals.archive, p);
        rc = store_undecoded(st, on_undecoded, p, err);
    }
    store_close(st);
    return rc;
}

/* ----------------------------------------------------------------------------- the models */

static void find_whisper(const struct plan *p, struct plan_stage *s)
{
    struct whisper_config *c = &s->size.config;

    if (!s->dir && model_dir_find(s->model, &s->dir, &s->no_model) != 0) {
        /* A well-known model's size is known without its files. */
        const char *name = strrchr(s->model, '/') ? strrchr(s->model, '/') + 1 : s->model;
        struct err unknown = {0};

        (void)whisper_preset(name, c, &unknown);
    } else if (whisper_read_sizes(s->dir, c, &s->no_model) != 0) {
        memset(c, 0, sizeof(*c));
    } else if (!s->size.hash[0] && p->tuning_count) {
        char hash[MODEL_HASH_LEN];

        /* Reads all of the weights: only where something may be remembered of them. */
        if (model_dir_hash(s->dir, hash, &s->no_model) == 0)
            snprintf(s->size.hash, sizeof(s->size.hash), "%s", hash);
    }
}

static void find_model(const struct plan *p, struct plan_stage *s)
{
    const struct stage_setup setup = {.name = s->name, .dir = s->dir, .params = s->params};
    uint64_t bytes;

    if (!s->other) {
        find_whisper(p, s);
        s->sized = s->size.config.d_model != 0;
        return;
    }
    s->sized = stage_predict_bytes(&setup, false, &bytes, &s->no_model) == 0;
}

/* -------------------------------------------------------------------------------- placing */

/* A well-known model that fits where this one does not: the largest that is smaller. */
static const char *would_fit(const struct device *d, const struct plan_stage *s,
                             const struct placement_wish *wish)
{
    struct plan_model known[16];
    struct placement_model list[16];
    struct err err = {0};
    uint32_t n = 0;
    int best;

    for (uint32_t i = 0; i < 16 && whisper_preset_name(i); i++) {
        if (whisper_preset(whisper_preset_name(i), &known[n].config, &err) != 0)
            continue;
        known[n].hash[0] = 0;
        known[n].params = s->size.params;
        plan_model_ready(&known[n], whisper_preset_name(i), NULL);
        list[n] = known[n].placement;
        n++;
    }
    best = placement_largest(d, list, n, wish);
    return best >= 0 && strcmp(list[best].name, s->model) != 0 ? list[best].name : NULL;
}

static uint32_t threads_each(const struct plan *p, const struct plan_options *o)
{
    /* As supervisor.c, where nobody is bound to a part of the processors. */
    return o->threads ? o->threads : cpu_threads(p->picked->count);
}

static uint32_t sharers_of(const struct plan *p, const struct device *d)
{
    uint32_t n = 0;

    for (uint32_t k = 0; k < p->picked->count; k++)
        n += strcmp(p->picked->list[k].name, d->name) == 0;
    return n ? n : 1;
}

/* Applies what an earlier run measured there; without that the speed is unknown. */
static void apply_measured_tuning(const struct plan *p, const struct device *d,
                                  const struct plan_stage *s, enum precision precision,
                                  struct placement *on)
{
    for (uint32_t i = 0; i < p->tuning_count; i++) {
        const struct placement_tuning *t = &p->tunings[i];

        if (strcmp(t->device_id, d->id) != 0 || strcmp(t->driver, d->driver) != 0 ||
            strcmp(t->model_hash, s->size.hash) != 0 || t->rate <= 0 ||
            strcmp(precision_name(t->precision), precision_name(precision)) != 0)
            continue;
        on->speed = t->rate;
        on->source = PLACEMENT_MEASURED;
    }
}

/* How fast an earlier run was there, as far as its settings are today's. */
static void apply_past_speed(const struct plan *p, const struct plan_options *o,
                             struct plan_stage *s, uint32_t i, struct placement *on)
{
    if (!s->pace || s->pace[i] <= 0 || !on->fits || on->source == PLACEMENT_MEASURED ||
        o->precision != PRECISION_AUTO || o->cache != CACHE_AUTO || o->slots || o->threads)
        return;
    on->speed = s->pace[i] / sharers_of(p, &p->picked->list[i]);
    on->source = PLACEMENT_MEASURED;
    s->paced++;
}

static void place_other(const struct plan *p, const struct plan_options *o, struct plan_stage *s,
                        uint32_t i)
{
    const struct device *d = &p->picked->list[i];
    const struct stage_kind *kind = stage_kind_find(s->name);
    struct placement *on = &s->on[i];
    const struct stage_setup setup = {.name = s->name,
                                      .dir = s->dir,
                                      .params = s->params,
                                      .precision = o->precision,
                                      .cache = o->cache,
                                      .slots = o->slots};
    char need[PLACEMENT_SIZE], budget[PLACEMENT_SIZE];
    struct err err = {0};

    on->free = d->memory_free / sharers_of(p, d);
    on->budget = device_budget(on->free, d->memory_limit);
    if (kind && kind->precision == windowed_stage_f32)
        on->precision = PRECISION_F32;
    else if (!placement_precision(d, o->precision, on))
        return;
    if (stage_predict_bytes(&setup, d->kind == DEVICE_CUDA, &on->bytes, &err) != 0)
        snprintf(on->why, sizeof(on->why), "%.190s", err.msg);
    else if (on->bytes > on->budget)
        snprintf(on->why, sizeof(on->why), "it needs %s, and %s may be taken",
                 placement_size(on->bytes, need), placement_size(on->budget, budget));
    on->fits = on->why[0] == 0;
    if (on->fits)
        apply_measured_tuning(p, d, s, precision_resolve(o->precision, d->precisions), on);
    apply_past_speed(p, o, s, i, on);
    if (on->fits && on->source == PLACEMENT_UNKNOWN && kind) {
        on->speed =
            placement_other_speed(d, kind->cost.h200_s, kind->cost.core_s, threads_each(p, o));
        on->source = on->speed > 0 ? PLACEMENT_ESTIMATED : PLACEMENT_UNKNOWN;
    }
}

static void place_on(const struct plan *p, const struct plan_options *o, struct plan_stage *s,
                     uint32_t i)
{
    const struct device *d = &p->picked->list[i];
    struct placement_wish wish = {
        .precision = o->precision, .slots = o->slots, .threads = threads_each(p, o)};

    if (s->other) {
        place_other(p, o, s, i);
        return;
    }
    wish.sharers = sharers_of(p, d);
    placement_decide(d, &s->size.placement, &wish, p->tunings,
                     o->cache == CACHE_AUTO ? p->tuning_count : 0, &s->on[i]);
    apply_past_speed(p, o, s, i, &s->on[i]);
    if (!s->on[i].fits && !d->unusable)
        s->would_fit[i] = would_fit(d, s, &wish);
}

/* In that is how often what it did was heard. */
static bool has_pace(const struct plan_stage *s, const struct plan *p)
{
    for (uint32_t i = 0; s->pace && i < p->picked->count; i++)
        if (s->pace[i] > 0)
            return true;
    return false;
}

static void estimate_stage_time(struct plan_stage *s, const struct plan *p,
                                uint32_t processor_threads)
{
    uint32_t fitting = 0;
    struct rate_backlog b = {
        .known_left_ms = s->known_left_ms,
        .tasks_unknown = s->bytes ? s->unknown : 0, /* empty files take no time */
        .known_ms = s->known_ms,
        .tasks_known = s->known,
    };

    /* In a first run nothing is known but sizes; later the archive's ratio. */
    if (s->unknown && p->audio_known_ms == 0) {
        b.bytes_unknown = s->bytes;
        b.bytes_known = GUESS_BYTES_PER_SECOND;
        b.known_ms = 1000;
    } else if (s->unknown && p->audio_known_ms > 0) {
        b.bytes_unknown = s->bytes;
        b.bytes_known = p->bytes_known;
        b.known_ms = p->audio_known_ms;
    }
    s->left_ms = rate_left_ms(&b);
    b.known_left_ms += has_pace(s, p) ? 0 : s->sources.more_ms;
    s->measured = true;
    for (uint32_t i = 0; i < p->picked->count; i++) {
        if (!s->on[i].fits)
            continue;
        fitting++;
        s->speed += s->on[i].speed;
        s->measured &= s->on[i].source == PLACEMENT_MEASURED;
    }
    s->ms = rate_eta_ms(s->speed, &b);
    s->cost = (struct night_stage){
        .name = s->name,
        .hours = p->waiting ? fmax((double)rate_left_ms(&b), 0) / HOUR_MS : 1,
        .device_s = s->speed > 0 ? HOUR_S / s->speed : 0,
        .together = s->paced > 0 && s->paced == fitting,
        .thread_s = stage_kind_find(s->name) ? stage_kind_find(s->name)->cost.thread_s : 0,
        .text = !stage_hears(s->name),
    };
    if (s->speed > 0 && !s->cost.together)
        s->cost.core_s = HOUR_S / s->speed * processor_threads;
}

/* Threads that compute in workers without a GPU. */
static uint32_t processor_threads(const struct plan *p, const struct plan_options *o)
{
    return (p->picked->count - p->gpus) * threads_each(p, o);
}

static int place_stage(struct plan *p, const struct plan_options *o, struct plan_stage *s,
                       struct err *err)
{
    bool any = false;

    s->on = calloc(p->picked->count, sizeof(*s->on));
    s->would_fit = calloc(p->picked->count, sizeof(*s->would_fit));
    if (!s->on || !s->would_fit)
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    if (!s->other) {
        plan_model_ready(&s->size, s->model, s->no_model.code ? NULL : s->dir);
        s->size.memory.cache = s->size.placement.cache = o->cache;
    }
    for (uint32_t i = 0; i < p->picked->count && s->sized; i++) {
        place_on(p, o, s, i);
        any |= s->on[i].fits;
    }
    p->fits &= any;
    estimate_stage_time(s, p, processor_threads(p, o));
    if (s->ms < 0 && s->other && any)
        p->untold = true;
    else if (s->ms < 0)
        p->ms = -1;
    return 0;
}

static int most_first(const void *a, const void *b)
{
    double x = ((const struct plan_format *)a)->hours, y = ((const struct plan_format *)b)->hours;

    return (x < y) - (x > y);
}

/* All stages and the host at once. */
static int estimate_night(struct plan *p, struct err *err)
{
    struct night_stage *stages = calloc(p->stage_count + 1, sizeof(*stages));
    struct night n = {
        .stages = stages, .count = p->stage_count, .gpus = p->gpus, .cores = p->cores};
    double hours = 0, decode_s = 0;

    if (!stages)
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    p->commit_s = NIGHT_RECEIVE_S + NIGHT_COMMIT_S;
    for (uint32_t i = 0; i < p->stage_count; i++) {
        const struct plan_stage *s = &p->stages[i];

        stages[i] = s->cost;
        if (stage_finalizes(s->name))
            p->commit_s = NIGHT_RECEIVE_S + NIGHT_COMMIT_S + NIGHT_FINALIZE_S;
        if (!s->cost.text)
            n.hours = fmax(n.hours, p->waiting ? fmax((double)s->left_ms, 0) / HOUR_MS : 1);
    }
    if (n.hours > 0 && p->waiting)
        n.hours = fmax(n.hours, (double)p->left_ms / HOUR_MS);
    for (uint32_t i = 0; i < p->format_count; i++) {
        hours += p->formats[i].hours;
        decode_s += p->formats[i].decode_s;
    }
    qsort(p->formats, p->format_count, sizeof(p->formats[0]), most_first);
    p->hears = n.hours > 0;
    p->decode_s = hours > 0 ? decode_s / hours : night_format("mp3")->decode_s;
    n.host_s = p->decode_s + p->commit_s;
    night_length(&n, &p->night);
    if (p->ms >= 0)
        p->ms = (int64_t)(p->night.seconds * 1000);
    free(stages);
    return 0;
}

int plan_make(const struct plan_options *o, struct plan *p, struct err *err)
{
    const char *usual;
    struct plan_stage *s;
    int rc;

    memset(p, 0, sizeof(*p));
    p->fits = true;
    p->all = calloc(1, sizeof(*p->all));
    p->picked = calloc(1, sizeof(*p->picked));
    if (!p->all || !p->picked)
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    /* Also for a list that names the processor alone: what else is here is told. */
    rc = devices_find(NULL, p->all, err);
    if (rc == 0)
        rc = devices_pick(p->all, o->devices, o->allow_cpu, p->picked, err);
    if (rc == 0)
        rc = devices_cap(p->picked, o->device_memory, err);
    for (uint32_t i = 0; rc == 0 && i < p->picked->count; i++)
        p->gpus += p->picked->list[i].kind == DEVICE_CUDA;
    p->cores = cpu_processors();
    if (rc == 0)
        rc = read_catalog(o, p, err);
    if (rc != 0)
        return rc;
    p->waiting = p->stage_count > 0;
    usual = p->waiting ? NULL : enqueue_model_usual();
    if (!p->waiting && add_stage(p, stage_transcribe.name,
                                 o->model ? o->model
                                 : usual  ? usual
                                          : UNNAMED,
                                 &s))
        return err_set(err, ERR_NOMEM, "no memory for the plan");
    for (uint32_t i = 0; i < p->stage_count && rc == 0; i++) {
        find_model(p, &p->stages[i]);
        rc = place_stage(p, o, &p->stages[i], err);
    }
    return rc == 0 ? estimate_night(p, err) : rc;
}

bool plan_is_stuck(const struct plan *p)
{
    for (uint32_t i = 0; i < p->stage_count; i++)
        if (p->stages[i].recordings > p->stages[i].sourceless)
            return false;
    return p->waiting;
}

void plan_free(struct plan *p)
{
    for (uint32_t i = 0; i < p->stage_count; i++) {
        struct plan_stage *s = &p->stages[i];

        free(s->name);
        free(s->model);
        free(s->dir);
        free(s->params);
        free(s->on);
        free(s->would_fit);
        free(s->pace);
        free(s->disabled);
    }
    for (uint32_t i = 0; i < p->tuning_count; i++) {
        free((char *)p->tunings[i].device_id);
        free((char *)p->tunings[i].driver);
        free((char *)p->tunings[i].model_hash);
        free((char *)p->tunings[i].decoding);
    }
    free(p->stages);
    free(p->tunings);
    free(p->all);
    free(p->picked);
}

/* ---- what a Whisper model takes and does, from its dimensions alone */

static uint64_t bytes_of(const void *arg, const struct device *d, enum precision p, uint32_t slots,
                         uint32_t windows)
{
    const struct footprint_device on = {.gpu = d->kind == DEVICE_CUDA,
                                        .halves = d->kind != DEVICE_CUDA && backend_host_halves()};
    const struct plan_memory *m = arg;
    const struct asr_shape shape = footprint_shape(m->shape, &on, slots, windows);

    return footprint_bytes(
        whisper_predict_bytes(m->config, p, cache_precision_resolve(m->cache, p), on.halves, shape),
        m->voice, &on);
}

/* Its tokenizer says which heads word times need. A model whose tokenizer cannot be read is refused
 * by the run, with a better sentence than there is room for here. */
static void read_shape(struct plan_model *m, const char *dir)
{
    struct vocabulary *vocab = NULL;
    struct err err = {0};
    uint32_t heads;

    if (dir && m->params.word_timestamps)
        (void)whisper_vocabulary(dir, &vocab, &err);
    heads = whisper_heads(vocab, &m->config, NULL, 0);
    m->memory = (struct plan_memory){.config = &m->config, .voice = m->params.vad_model[0] != 0};
    transcribe_shape(&m->params, heads < WHISPER_MAX_ALIGN_HEADS ? heads : WHISPER_MAX_ALIGN_HEADS,
                     &m->memory.shape);
    transcribe_decoding(&m->params, m->decoding);
    vocabulary_free(vocab);
}

/* Products alone, as the encoder and the decoder's rows have them. */
void plan_model_ready(struct plan_model *m, const char *name, const char *dir)
{
    const struct whisper_config *c = &m->config;
    double d = c->d_model, t = WHISPER_POSITIONS, layers = c->decoder_layers;
    double conv = 2.0 * WHISPER_FRAMES * d * 3.0 * c->mel_bins + 2.0 * t * d * 3.0 * d;
    double cross = layers * 2.0 * t * 2.0 * d * d; /* keys and values of a window */
    double weights = layers * (6.0 * d * d + 2.0 * d * c->decoder_ffn) + d * c->vocab_size;
    double rows = transcribe_rows(&m->params);

    read_shape(m, dir);
    m->placement = (struct placement_model){
        .name = name,
        .hash = m->hash,
        .decoding = m->decoding,
        .branches = m->memory.shape.branches,
        .bytes = bytes_of,
        .arg = &m->memory,
        .encoder_flop = conv + cross +
                        c->encoder_layers *
                            (2.0 * t * (4.0 * d * d + 2.0 * d * c->encoder_ffn) + 4.0 * t * t * d),
        .token_flop = rows * 2.0 * weights,
        .align_flop = m->memory.shape.align_heads ? PLACEMENT_TOKENS * 2.0 * weights : 0,
        .decoder_weights = weights,
        .token_values = rows * layers * 2.0 * t * d,
    };
}
