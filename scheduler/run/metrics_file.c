#include "scheduler/run/metrics_file.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/replace.h"
#include "scheduler/plan/metrics.h"
#include "scheduler/run/diary.h"
#include "scheduler/run/figures.h"
#include "scheduler/run/gpu_watch.h"
#include "scheduler/run/report.h"

#define METRICS_MS 10000

static void look_at(const struct run *run, uint32_t index, struct metrics_device *d)
{
    const struct run_worker *w = &run->devices.workers[index];
    const struct gpu_sample *s = gpu_watch_sample(w, clock_mono_ms());

    diary_device(run, index, d->name, sizeof(d->name));
    d->ready = run_worker_ready(w);
    d->busy_ms = w->diary.busy_before_ms + w->diary.stretch.busy_ms;
    d->audio_ms = w->diary.audio_before_ms + w->diary.stretch.audio_ms;
    d->memory_bytes = w->pulse.memory_bytes;
    d->predicted_bytes = w->memory.use.predicted;
    d->slots = w->memory.use.slots;
    d->windows = w->memory.use.windows;
    d->left = w->way.left;
    d->percent = s ? s->percent : -1;
    d->celsius = s && s->celsius != GPU_SAMPLE_COLD ? s->celsius : -1;
    d->milliwatts = s ? s->milliwatts : -1;
    d->used_bytes = s && s->total_bytes > 0 ? (int64_t)s->used_bytes : -1;
    d->total_bytes = s && s->total_bytes > 0 ? (int64_t)s->total_bytes : -1;
    d->joules = (w->diary.microjoules_before + w->diary.stretch.microjoules) / 1000000;
    if (d->joules == 0 && d->milliwatts < 0) /* none was ever told of */
        d->joules = -1;
}

static void write_now(struct run *run, bool on)
{
    struct metrics_device *list = calloc(run->devices.count + 1u, sizeof(*list));
    struct metrics m = {.on = on,
                        .started_ms = run->figures.started_wall_ms,
                        .audio_ms = run->figures.audio_ms,
                        .done = run->figures.recordings_done,
                        .failed = run->figures.failed.count,
                        .device = list,
                        .devices = run->devices.count};
    struct buf b = BUF_INIT;
    struct err err = {0};

    figures_view(run, &m.progress);
    for (uint32_t i = 0; list && i < run->devices.count; i++)
        look_at(run, i, &list[i]);
    if (list)
        metrics_text(&m, &b);
    if (!list || b.failed)
        err_set(&err, ERR_NOMEM, "no memory for the metrics");
    else
        replace_file(run->o->metrics, b.data, b.len, REPLACE_THEIRS, &err);
    if (err.code && !run->metrics.told)
        report_event(run, LOG_WARN, "the metrics: %s; the run continues without them", err.msg);
    run->metrics.told = err.code != 0;
    buf_free(&b);
    free(list);
}

void metrics_file_tick(struct run *run, int64_t now)
{
    if (!run->o->metrics || now < run->metrics.due_ms)
        return;
    run->metrics.due_ms = now + METRICS_MS;
    write_now(run, true);
}

void metrics_file_end(struct run *run)
{
    if (run->o->metrics)
        write_now(run, false);
}
