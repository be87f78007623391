#include "scheduler/run/diary.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "scheduler/run/gpu_watch.h"

#define NOTE_MS 1000

void diary_device(const struct run *run, uint32_t index, char *ret, size_t cap)
{
    const struct device *list = run->devices.picked->list;
    uint32_t before = 0;

    for (uint32_t i = 0; i < index; i++)
        before += strcmp(list[i].label, list[index].label) == 0;
    if (before > 0)
        snprintf(ret, cap, "%s #%u", list[index].label, before + 1);
    else
        snprintf(ret, cap, "%s", list[index].label);
}

/* "cuda:0 NVIDIA H200 (150.1 GB), cpu" */
static void name_devices(const struct run *run, char *ret, size_t cap)
{
    size_t n = 0;

    ret[0] = 0;
    for (uint32_t i = 0; i < run->devices.count && n < cap; i++) {
        const struct device *d = &run->devices.picked->list[i];
        char name[48], memory[32] = "";
        int more;

        diary_device(run, i, name, sizeof(name));
        if (d->kind != DEVICE_CPU && d->memory_total > 0)
            snprintf(memory, sizeof(memory), " (%.1f GB)", (double)d->memory_total / 1e9);
        more = snprintf(ret + n, cap - n, "%s%s%s%s%s", i > 0 ? ", " : "", name,
                        d->model[0] ? " " : "", d->model, memory);
        n += more > 0 ? (size_t)more : 0;
    }
}

const char *diary_why(const struct run *run)
{
    if (run->tick.mode != RUN_ENDING)
        return "";
    return run->failure.code  ? "failed"
           : run->interrupted ? "interrupted"
           : run->hours.over  ? "until"
           : run->tick.paused ? "paused"
                              : "done";
}

static void note_run(struct run *run)
{
    const bool ended = run->tick.mode == RUN_ENDING;
    char devices[1024];
    struct store_run r = {
        .run_id = run->diary.run_id,
        .started_ms = run->figures.started_wall_ms,
        .seen_ms = clock_wall_ms(),
        .why = diary_why(run),
        .reason = run->failure.code ? run->failure.msg : "",
        .devices = devices,
        .recordings_done = run->figures.recordings_done,
        .recordings_failed = run->figures.failed.count,
        .recordings_left = run->figures.totals.archive.pending,
        .audio_ms = run->figures.audio_ms,
        .work_ms = run->diary.work_ms,
    };
    struct err err = {0};

    if (ended)
        r.ended_ms = r.seen_ms;
    name_devices(run, devices, sizeof(devices));
    run_check(run, ledger_run(run->ledger, &r, &err), &err);
}

static uint64_t count_run_results(const struct run *run)
{
    return ledger_written(run->ledger) + run->figures.tasks_done + run->figures.tasks_failed;
}

/* A run that is killed has told of all but the last seconds. */
static void note_results(struct run *run)
{
    const int64_t now = clock_mono_ms();

    if (count_run_results(run) == run->diary.noted || now < run->diary.note_due_ms)
        return;
    run->diary.noted = count_run_results(run);
    run->diary.note_due_ms = now + NOTE_MS;
    note_run(run);
    run_note_commit(run);
}

static void stretch_begin(struct run_stretch *s)
{
    *s = (struct run_stretch){.celsius = -1, .used_bytes = -1};
}

static void note_device(struct run *run, struct run_worker *w)
{
    struct run_stretch *s = &w->diary.stretch;
    char name[48];
    struct err err = {0};
    struct store_sample sample = {
        .run_id = run->diary.run_id,
        .device = name,
        .at_ms = run->diary.stretch_ms,
        .span_ms = run->diary.span_ms,
        .busy_ms = s->busy_ms,
        .audio_ms = s->audio_ms,
        .memory_bytes = s->memory_bytes,
        .predicted_bytes = s->predicted_bytes,
        .slots = s->slots,
        .windows = s->windows,
        .seen_ms = s->seen_ms,
        .load_ms = s->percents ? s->percent_ms / 100 : -1,
        .energy_j = s->milliwatts ? s->microjoules / 1000000 : -1,
        .celsius = s->celsius,
        .used_bytes = s->used_bytes,
        .left_ms = s->left_ms,
    };

    diary_device(run, w->index, name, sizeof(name));
    run_check(run, ledger_sample(run->ledger, &sample, &err), &err);
    w->diary.busy_before_ms += s->busy_ms;
    w->diary.audio_before_ms += s->audio_ms;
    w->diary.microjoules_before += s->microjoules;
    stretch_begin(s);
}

static void end_stretch(struct run *run)
{
    for (uint32_t i = 0; i < run->devices.count; i++)
        note_device(run, &run->devices.workers[i]);
    run->diary.span_ms = 0;
    note_run(run);
    run_note_commit(run);
}

static int64_t stretch_of(int64_t wall_ms) { return wall_ms - wall_ms % DIARY_STRETCH_MS; }

int diary_begin(struct run *run, struct err *err)
{
    int rc = store_run_next(run->st, &run->diary.run_id, err);

    if (rc)
        return rc;
    run->diary.stretch_ms = stretch_of(run->figures.started_wall_ms);
    run->diary.ticked_ms = run->figures.started_ms;
    for (uint32_t i = 0; i < run->devices.count; i++)
        stretch_begin(&run->devices.workers[i].diary.stretch);
    note_run(run);
    return 0;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The driver's last sample stands for the time since the last call. */
static void look_at_gpu(struct run_worker *w, int64_t now, int64_t passed_ms)
{
    const struct gpu_sample *g = gpu_watch_sample(w, now);
    struct run_stretch *s = &w->diary.stretch;

    if (w->way.left)
        s->left_ms += passed_ms;
    if (!g)
        return;
    s->seen_ms += passed_ms;
    if (g->percent >= 0) {
        s->percents = true;
        s->percent_ms += passed_ms * g->percent;
    }
    if (g->milliwatts >= 0) {
        s->milliwatts = true;
        s->microjoules += passed_ms * g->milliwatts;
    }
    if (g->celsius != GPU_SAMPLE_COLD)
        s->celsius = most(s->celsius, g->celsius);
    if (g->total_bytes > 0)
        s->used_bytes = most(s->used_bytes, (int64_t)g->used_bytes);
}

/* Does it have work? */
static bool look_at(struct run *run, struct run_worker *w, int64_t passed_ms)
{
    const bool works = planner_worker_leases(run->planner, w->index, NULL, 0) > 0;
    struct run_stretch *s = &w->diary.stretch;

    if (works)
        s->busy_ms += passed_ms;
    if (w->pulse.memory_bytes > s->memory_bytes)
        s->memory_bytes = w->pulse.memory_bytes;
    if (w->memory.use.slots == 0)
        return works;
    s->slots = w->memory.use.slots;
    s->windows = w->memory.use.windows;
    if (w->memory.use.predicted > s->predicted_bytes)
        s->predicted_bytes = w->memory.use.predicted;
    return works;
}

void diary_work(struct run *run)
{
    const int64_t now = clock_mono_ms(), passed = now - run->diary.ticked_ms;
    bool works = false;

    run->diary.ticked_ms = now;
    run->diary.span_ms += passed;
    for (uint32_t i = 0; i < run->devices.count; i++) {
        works = look_at(run, &run->devices.workers[i], passed) || works;
        look_at_gpu(&run->devices.workers[i], now, passed);
    }
    if (works)
        run->diary.work_ms += passed;
}

void diary_heard(struct worker_diary *d, int64_t ms) { d->stretch.audio_ms += ms; }

void diary_tick(struct run *run)
{
    const int64_t stretch = stretch_of(clock_wall_ms());

    diary_work(run);
    note_results(run);
    if (stretch == run->diary.stretch_ms)
        return;
    end_stretch(run);
    run->diary.stretch_ms = stretch;
}

void diary_end(struct run *run)
{
    diary_work(run);
    end_stretch(run);
}
