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
    uint64_t ms = run->audio_seen_ms;

    for (uint32_t i = 0; i < run->worker_count; i++)
        ms += run->workers[i].audio_ms;
    return ms;
}

/* ------------------------------------------------------------------------------- each once */

void figures_heard(struct run *run, struct run_task *t, int64_t ms)
{
    const uint64_t id = (uint64_t)t->t.media_id;
    int64_t before = (int64_t)(uintptr_t)idmap_get(&run->heard, id);
    struct err err = {0};

    t->heard_ms += ms;
    run->turn_audio_ms += (uint64_t)ms;
    if (t->heard_ms <= before)
        return;
    run->audio_ms += t->heard_ms - before;
    if (idmap_put(&run->heard, id, (void *)(uintptr_t)t->heard_ms))
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
    news = idmap_get(&run->failed, (uint64_t)media) != value;
    run->failed_pending++;
    if (idmap_put(&run->failed, (uint64_t)media, value))
        run_check(run, err_set(&err, ERR_NOMEM, "no memory for a figure"), &err);
    return news;
}

void figures_free(struct run *run)
{
    idmap_free(&run->heard);
    idmap_free(&run->failed);
    free(run->stages_left);
    free(run->paces);
}

/* --------------------------------------------------------------------------- what is left to do */

/* Of the devices of this run, in earlier ones; asked once for each stage. */
static double remembered(struct run *run, int64_t stage)
{
    struct run_pace *grown;
    double speed = 0;

    for (size_t i = 0; i < run->pace_count; i++)
        if (run->paces[i].stage == stage)
            return run->paces[i].speed;
    for (uint32_t i = 0; i < run->worker_count; i++) {
        const char *device = run->workers[i].device;
        struct err err = {0};
        double one = 0;
        uint32_t k = 0;

        while (k < i && strcmp(run->workers[k].device, device) != 0)
            k++;
        if (k == i && store_pace(run->st, stage, device, &one, &err) == 0)
            speed += one;
    }
    grown = realloc(run->paces, (run->pace_count + 1) * sizeof(*grown));
    if (grown) {
        run->paces = grown;
        run->paces[run->pace_count++] = (struct run_pace){stage, speed};
    }
    return speed;
}

static bool rides(const struct run *run, int64_t stage)
{
    for (uint32_t i = 0; i < run->beside_count; i++)
        if (run->beside[i].row.stage_id == stage)
            return true;
    return run->has_stage && run->stage.stage_id == stage;
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
    struct estimate_left *grown;

    if (p->pending + p->waiting == 0 || run_is_aside(run, p->stage_id))
        return 0;
    grown = realloc(run->stages_left, (run->stages_left_count + 1) * sizeof(*grown));
    if (!grown)
        return ERR_NOMEM;
    run->stages_left = grown;
    grown[run->stages_left_count++] =
        (struct estimate_left){.stage = p->stage_id,
                               .left = left_of(&run->totals.archive, p),
                               .rides = rides(run, p->stage_id),
                               .text = p->source_id != 0};
    return 0;
}

static int note_turn(void *arg, const struct read_progress *p)
{
    struct run *run = arg;

    if (run->has_stage && p->stage_id == run->stage.stage_id)
        run->turn_done = p->done;
    return add_left(run, p);
}

void figures_totals(struct run *run)
{
    int64_t before = clock_mono_ms();
    struct store_totals t;
    struct err err = {0};

    /* Figures for people: a catalog that cannot be read now is found out by who needs it. */
    if (store_totals(run->st, &t, &err) == 0) {
        run->totals = t;
        run->totals_done = run->tasks_done;
        run->totals_failed = run->tasks_failed;
        run->stages_left_count = 0;
        run->turn_done = 0;
        if (read_progress(run->st, note_turn, run, &err) != 0)
            run->stages_left_count = 0;
        for (size_t i = 0; i < run->stages_left_count; i++)
            run->stages_left[i].remembered = remembered(run, run->stages_left[i].stage);
    }
    run->totals_at_ms = clock_mono_ms();
    run->totals_cost_ms = run->totals_at_ms - before;
}

static void refresh(struct run *run, int64_t now)
{
    int64_t wait = run->totals_cost_ms * TOTALS_SHARE;

    if (run->totals_at_ms == 0 || now - run->totals_at_ms >= (wait > TOTALS_MS ? wait : TOTALS_MS))
        figures_totals(run);
}

bool figures_all_done(struct run *run)
{
    refresh(run, clock_mono_ms());
    return run->totals.tasks_pending == 0;
}

/* ------------------------------------------------------------------------------------ the end */

void figures_begin_stage(struct run *run)
{
    run->turn_base_ms = figures_audio_seen(run);
    run->turn_audio_ms = 0;
    estimate_begin(&run->estimate, run->stage.stage_id, clock_mono_ms());
}

void figures_tick(struct run *run, int64_t now)
{
    uint64_t seen = figures_audio_seen(run), turn = seen - run->turn_base_ms;

    rate_add(&run->rate, now, seen);
    /* Heartbeats are the finer measure, but not every stage tells of audio in them. */
    estimate_add(&run->estimate, now, turn > run->turn_audio_ms ? turn : run->turn_audio_ms,
                 run_leased(run));
}

/* ------------------------------------------------------------------------------ what is shown */

/* The oldest lease's recording is in work for certain; others may wait at their worker. */
static void show_work(struct run *run, struct progress *p)
{
    const struct run_lease *l, *oldest = NULL;
    uint32_t tasks = 0;
    size_t at = 0;

    run->shown_mark++;
    while ((l = idmap_next(&run->leases, &at))) {
        if (!oldest || l->id < oldest->id)
            oldest = l;
        if (l->task && l->task->mark != run->shown_mark) {
            l->task->mark = run->shown_mark;
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
    p->note = run->note ? run->note : "";
    if (run->mode == RUN_DRAINING)
        p->note = "stopping at a checkpoint";
    else if (run->mode == RUN_PAUSED)
        p->note = run->paused ? "paused" : run->rests;
    else if (run->mode == RUN_GOING && run->all_left)
        p->note = run->makes_way;
    else if (run->trouble_since_ms)
        p->note = "the catalog cannot be written";
    else if (run->mode == RUN_GOING && p->workers_ready == 0 && run->has_stage &&
             !run->room.waiting)
        p->note = "loading the model";
}

void figures_view(struct run *run, struct progress *p)
{
    int64_t now = clock_mono_ms(), unknown_ms;
    const struct store_archive *a = &run->totals.archive;
    struct rate_backlog unknown;

    refresh(run, now);
    unknown = archive_backlog(a);
    *p = archive_progress(a);
    p->speed = rate_speed(&run->rate, now);
    p->workers = run->worker_count;
    p->workers_ready = run_ready_workers(run);
    unknown.known_left_ms = 0;
    unknown_ms = rate_left_ms(&unknown);
    if (unknown_ms >= 0)
        p->audio_all_ms = a->audio_known_ms + unknown_ms;
    if (run->has_stage && run->turn_done > a->done) {
        p->stage = run->stage.name;
        p->stage_done = run->turn_done;
    }
    show_note(run, p);
    show_work(run, p);
    if (run->mode == RUN_GOING && !run->all_left && run->stages_left_count > 0 &&
        !estimate_range(&run->estimate, now, run->stages_left, run->stages_left_count, &p->low_ms,
                        &p->high_ms))
        p->low_ms = p->high_ms = -1;
}
