#include "scheduler/run/figures.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "scheduler/run/archive.h"
#include "store/read/pace.h"
#include "store/read/read.h"

#define TOTALS_MS 500    /* reading the totals again: not sooner, and */
#define TOTALS_SHARE 200 /*   not more of the time than one part in so many */

uint64_t figures_audio_seen(const struct run *run)
{
    uint64_t ms = run->figures.audio_seen_ms;

    for (uint32_t i = 0; i < run->devices.count; i++)
        ms += run->devices.workers[i].pulse.audio_ms;
    return ms;
}

void figures_worker_gone(struct figures *f, uint64_t audio_ms) { f->audio_seen_ms += audio_ms; }

void figures_begin(struct figures *f)
{
    f->started_wall_ms = clock_wall_ms();
    f->started_ms = clock_mono_ms();
}

void figures_written(struct figures *f, uint64_t tasks, uint64_t recordings)
{
    f->recordings_done += recordings;
    f->tasks_done += tasks;
    f->tasks_failed += f->failed_pending;
    f->failed_pending = 0;
}

/* ------------------------------------------------------------------------------- each once */

void figures_heard(struct run *run, struct run_task *t, int64_t ms)
{
    struct figures *f = &run->figures;
    const uint64_t id = (uint64_t)t->t.media_id;
    int64_t before = (int64_t)(uintptr_t)idmap_get(&f->heard, id);
    struct err err = {0};

    t->heard_ms += ms;
    f->turn_audio_ms += (uint64_t)ms;
    if (t->heard_ms <= before)
        return;
    f->audio_ms += t->heard_ms - before;
    if (idmap_put(&f->heard, id, (void *)(uintptr_t)t->heard_ms))
        run_check(run, err_set(&err, ERR_NOMEM, "no memory for a figure"), &err);
}

bool figures_failed(struct run *run, int64_t media, const char *why)
{
    uint8_t hash[HASH_BYTES];
    uintptr_t said;
    void *value;
    bool news;
    struct err err = {0};

    hash_of(why, strlen(why), hash);
    memcpy(&said, hash, sizeof(said));
    value = (void *)(said | 1); /* no NULL */
    news = idmap_get(&run->figures.failed, (uint64_t)media) != value;
    run->figures.failed_pending++;
    if (idmap_put(&run->figures.failed, (uint64_t)media, value))
        run_check(run, err_set(&err, ERR_NOMEM, "no memory for a figure"), &err);
    return news;
}

void figures_free(struct figures *f)
{
    idmap_free(&f->heard);
    idmap_free(&f->failed);
    free(f->stages_left);
    free(f->paces);
}

/* --------------------------------------------------------------------------- what is left to do */

/* The speed of this run's devices in earlier runs; read once for each stage. */
static double lookup_past_speed(struct run *run, int64_t stage)
{
    struct figures *f = &run->figures;
    struct run_pace *grown;
    double speed = 0;

    for (size_t i = 0; i < f->pace_count; i++)
        if (f->paces[i].stage == stage)
            return f->paces[i].speed;
    for (uint32_t i = 0; i < run->devices.count; i++) {
        const char *device = run->devices.workers[i].device;
        struct err err = {0};
        double one = 0;
        uint32_t k = 0;

        while (k < i && strcmp(run->devices.workers[k].device, device) != 0)
            k++;
        if (k == i && store_pace(run->st, stage, device, &one, &err) == 0)
            speed += one;
    }
    grown = realloc(f->paces, (f->pace_count + 1) * sizeof(*grown));
    if (grown) {
        f->paces = grown;
        f->paces[f->pace_count++] = (struct run_pace){stage, speed};
    }
    return speed;
}

static bool is_stage_of_run(const struct run *run, int64_t stage)
{
    for (uint32_t i = 0; i < run->beside.count; i++)
        if (run->beside.stages[i].row.stage_id == stage)
            return true;
    return run->backlog.has_stage && run->backlog.stage.stage_id == stage;
}

/* One that waits for a transcription is taken for as long as the others are. */
static struct rate_backlog left_of(const struct store_archive *a, const struct read_progress *p)
{
    struct rate_backlog b = archive_backlog(a);

    b.known_left_ms = p->audio_left_ms;
    b.tasks_unknown = p->unknown + p->waiting;
    b.bytes_unknown =
        p->waiting == 0 && a->unknown > 0
            ? (uint64_t)((double)a->bytes_unknown * (double)p->unknown / (double)a->unknown)
            : 0; /* not known */
    return b;
}

static int add_left(void *arg, const struct read_progress *p)
{
    struct run *run = arg;
    struct figures *f = &run->figures;
    struct estimate_left *grown;

    if (p->pending + p->waiting == 0 || run_is_disabled(run, p->stage_id))
        return 0;
    grown = realloc(f->stages_left, (f->stages_left_count + 1) * sizeof(*grown));
    if (!grown)
        return ERR_NOMEM;
    f->stages_left = grown;
    grown[f->stages_left_count++] =
        (struct estimate_left){.stage = p->stage_id,
                               .left = left_of(&f->totals.archive, p),
                               .rides = is_stage_of_run(run, p->stage_id),
                               .text = p->source_id != 0};
    return 0;
}

static int note_turn(void *arg, const struct read_progress *p)
{
    struct run *run = arg;

    if (run->backlog.has_stage && p->stage_id == run->backlog.stage.stage_id)
        run->figures.turn_done = p->done;
    return add_left(run, p);
}

void figures_totals(struct run *run)
{
    struct figures *f = &run->figures;
    int64_t before = clock_mono_ms();
    struct store_totals t;
    struct err err = {0};

    /* Figures for people: a catalog that cannot be read now is found out by who needs it. */
    if (store_totals(run->st, &t, &err) == 0) {
        f->totals = t;
        f->totals_done = f->tasks_done;
        f->totals_failed = f->tasks_failed;
        f->totals_recordings = f->recordings_done;
        f->stages_left_count = 0;
        f->turn_done = 0;
        if (read_progress(run->st, note_turn, run, &err) != 0)
            f->stages_left_count = 0;
        for (size_t i = 0; i < f->stages_left_count; i++)
            f->stages_left[i].remembered = lookup_past_speed(run, f->stages_left[i].stage);
    }
    f->totals_at_ms = clock_mono_ms();
    f->totals_cost_ms = f->totals_at_ms - before;
}

void figures_stale(struct figures *f) { f->totals_at_ms = 0; }

static void refresh_totals(struct run *run, int64_t now)
{
    int64_t wait = run->figures.totals_cost_ms * TOTALS_SHARE;

    if (run->figures.totals_at_ms == 0 ||
        now - run->figures.totals_at_ms >= (wait > TOTALS_MS ? wait : TOTALS_MS))
        figures_totals(run);
}

bool figures_all_done(struct run *run)
{
    struct err none = {0};
    bool pending = true;

    return store_is_pending(run->st, &pending, &none) == 0 && !pending;
}

/* ------------------------------------------------------------------------------------ the end */

void figures_begin_stage(struct run *run)
{
    run->figures.turn_base_ms = figures_audio_seen(run);
    run->figures.turn_audio_ms = 0;
    estimate_begin(&run->figures.estimate, run->backlog.stage.stage_id, clock_mono_ms());
}

void figures_tick(struct run *run, int64_t now)
{
    struct figures *f = &run->figures;
    uint64_t seen = figures_audio_seen(run), turn = seen - f->turn_base_ms;

    rate_add(&f->rate, now, seen);
    /* Heartbeats are the finer measure, but not every stage tells of audio in them. */
    estimate_add(&f->estimate, now, turn > f->turn_audio_ms ? turn : f->turn_audio_ms,
                 run_leased(run));
}

/* ------------------------------------------------------------------------------ what is shown */

/* The oldest lease's recording is in work for certain; others may wait at their worker. */
static void show_work(struct run *run, struct progress *p)
{
    const struct run_lease *l, *oldest = NULL;
    uint32_t tasks = 0;
    size_t at = 0;

    run->figures.shown_mark++;
    while ((l = idmap_next(&run->dispatch.leases, &at))) {
        if (!oldest || l->id < oldest->id)
            oldest = l;
        if (l->task && l->task->mark != run->figures.shown_mark) {
            l->task->mark = run->figures.shown_mark;
            tasks++;
        }
    }
    p->work_percent = -1;
    if (!oldest || !oldest->task || !oldest->task->shown)
        return;
    p->work = oldest->task->shown;
    p->work_percent = planner_task_percent(run->planner, oldest->task->t.task_id);
    p->work_more = tasks - 1;
}

static void show_note(const struct run *run, struct progress *p)
{
    p->note = run->tick.note ? run->tick.note : "";
    if (run->tick.mode == RUN_DRAINING)
        p->note = "stopping at a checkpoint";
    else if (run->tick.mode == RUN_PAUSED)
        p->note = run->tick.paused ? "paused" : run->hours.text;
    else if (run->tick.mode == RUN_GOING && run->way.all_left)
        p->note = run->way.text;
    else if (run->commit.trouble_since_ms)
        p->note = "the catalog cannot be written";
    else if (run->tick.mode == RUN_GOING && p->workers_ready == 0 && run->backlog.has_stage &&
             !run->catalog.disk_space.waiting)
        p->note = "loading the model";
}

void figures_view(struct run *run, struct progress *p)
{
    struct figures *f = &run->figures;
    int64_t now = clock_mono_ms(), unknown_ms;
    const struct store_archive *a = &f->totals.archive;
    struct rate_backlog unknown;

    refresh_totals(run, now);
    unknown = archive_backlog(a);
    *p = archive_progress(a);
    /* A large archive is not counted often. */
    p->done += f->recordings_done - f->totals_recordings;
    p->speed = rate_speed(&f->rate, now);
    p->workers = run->devices.count;
    p->workers_ready = run_ready_workers(run);
    unknown.known_left_ms = 0;
    unknown_ms = rate_left_ms(&unknown);
    if (unknown_ms >= 0)
        p->audio_all_ms = a->audio_known_ms + unknown_ms;
    if (run->backlog.has_stage && f->turn_done > a->done) {
        p->stage = run->backlog.stage.name;
        p->stage_done = f->turn_done;
    }
    show_note(run, p);
    show_work(run, p);
    if (run->tick.mode == RUN_GOING && !run->way.all_left && f->stages_left_count > 0 &&
        !estimate_range(&f->estimate, now, f->stages_left, f->stages_left_count, &p->low_ms,
                        &p->high_ms))
        p->low_ms = p->high_ms = -1;
}
