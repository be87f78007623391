#include "scheduler/plan/metrics.h"

#include <inttypes.h>
#include <string.h>

static void put_metric_head(struct buf *out, const char *name, const char *type, const char *help)
{
    buf_printf(out, "# HELP nightshift_%s %s\n# TYPE nightshift_%s %s\n", name, help, name, type);
}

static void put_metric(struct buf *out, const char *name, const char *type, const char *help,
                       double value)
{
    put_metric_head(out, name, type, help);
    buf_printf(out, "nightshift_%s %.15g\n", name, value);
}

static void put_state_count(struct buf *out, const char *name, uint64_t n)
{
    buf_printf(out, "nightshift_recordings{state=\"%s\"} %" PRIu64 "\n", name, n);
}

static void put_archive(const struct progress *p, struct buf *out)
{
    const uint64_t ended = p->done + p->failed + p->paused + p->cancelled + p->gone;

    put_metric_head(out, "recordings", "gauge",
                    "Recordings of the whole archive, each in one state.");
    put_state_count(out, "done", p->done);
    put_state_count(out, "failed", p->failed);
    put_state_count(out, "paused", p->paused);
    put_state_count(out, "cancelled", p->cancelled);
    put_state_count(out, "absent", p->gone);
    put_state_count(out, "to_do", p->all > ended ? p->all - ended : 0);
    put_metric(out, "archive_audio_done_seconds", "gauge", "Audio that all stages have processed.",
               (double)p->audio_done_ms / 1000);
}

static void put_run(const struct metrics *m, struct buf *out)
{
    const struct progress *p = &m->progress;

    put_metric(out, "run_on", "gauge", "1 while the run is active.", m->on);
    put_metric(out, "run_start_time_seconds", "gauge", "When it began.",
               (double)m->started_ms / 1000);
    put_metric(out, "run_recordings_done_total", "counter",
               "Recordings done as a whole by this run.", (double)m->done);
    put_metric(out, "run_recordings_failed_total", "counter", "Recordings that failed in this run.",
               (double)m->failed);
    put_metric(out, "run_audio_seconds_total", "counter", "Audio processed in this run.",
               (double)m->audio_ms / 1000);
    put_metric(out, "run_times_real_time", "gauge", "Speed of the last minutes.", p->speed);
    put_metric(out, "run_waiting", "gauge", "1 while it begins nothing: paused, resting, no room.",
               p->note[0] != 0);
    if (p->low_ms >= 0)
        put_metric(out, "run_left_seconds", "gauge", "Until its end, about.",
                   (double)progress_middle(p->low_ms, p->high_ms) / 1000);
}

/* A label's value: as the format wants it. */
static void put_label(struct buf *out, const char *s)
{
    for (; *s; s++)
        if (*s == '\\' || *s == '"')
            buf_printf(out, "\\%c", *s);
        else if (*s == '\n')
            buf_printf(out, "\\n");
        else
            buf_put(out, s, 1);
}

typedef double (*value_fn)(const struct metrics_device *d);
static double ready_of(const struct metrics_device *d) { return d->ready; }
static double busy_of(const struct metrics_device *d) { return (double)d->busy_ms / 1000; }
static double audio_of(const struct metrics_device *d) { return (double)d->audio_ms / 1000; }
static double memory_of(const struct metrics_device *d) { return (double)d->memory_bytes; }
static double predicted_of(const struct metrics_device *d) { return (double)d->predicted_bytes; }
static double slots_of(const struct metrics_device *d) { return d->slots; }
static double windows_of(const struct metrics_device *d) { return d->windows; }
static double left_of(const struct metrics_device *d) { return d->left; }
static double load_of(const struct metrics_device *d) { return d->percent / 100.0; }
static double celsius_of(const struct metrics_device *d) { return d->celsius; }
static double watts_of(const struct metrics_device *d) { return (double)d->milliwatts / 1000; }
static double joules_of(const struct metrics_device *d) { return (double)d->joules; }
static double used_of(const struct metrics_device *d) { return (double)d->used_bytes; }
static double total_of(const struct metrics_device *d) { return (double)d->total_bytes; }

static bool any_knows(const struct metrics *m, value_fn value)
{
    for (size_t i = 0; i < m->devices; i++)
        if (value(&m->device[i]) >= 0)
            return true;
    return false;
}

static void put_devices(const struct metrics *m, struct buf *out)
{
    static const struct {
        const char *name, *type, *help;
        value_fn value;
    } list[] = {
        {"device_ready", "gauge", "1 when it takes work.", ready_of},
        {"device_busy_seconds_total", "counter", "Time in which it had work.", busy_of},
        {"device_audio_seconds_total", "counter", "Audio processed, for each stage in turn.",
         audio_of},
        {"device_memory_bytes", "gauge", "In use: a GPU's memory, or the worker's own.", memory_of},
        {"device_memory_predicted_bytes", "gauge", "The predicted part of it.", predicted_of},
        {"device_windows_in_flight", "gauge", "Windows of 30 s at once.", slots_of},
        {"device_windows_encoded", "gauge", "Of them in the encoder at once.", windows_of},
        {"device_left", "gauge", "1 while it is left to others (run --idle).", left_of},
        {"device_load_ratio", "gauge", "Of its time, whoever uses it, by the driver.", load_of},
        {"device_temperature_celsius", "gauge", "By the driver.", celsius_of},
        {"device_power_watts", "gauge", "That it takes, by the driver.", watts_of},
        {"device_energy_joules_total", "counter", "That it took in this run.", joules_of},
        {"device_memory_used_bytes", "gauge", "Whoever uses it, by the driver.", used_of},
        {"device_memory_size_bytes", "gauge", "All that it has, by the driver.", total_of},
    };

    for (size_t k = 0; k < sizeof(list) / sizeof(list[0]); k++) {
        if (!any_knows(m, list[k].value)) /* a series that is not there is the format's NULL */
            continue;
        put_metric_head(out, list[k].name, list[k].type, list[k].help);
        for (size_t i = 0; i < m->devices; i++) {
            if (list[k].value(&m->device[i]) < 0)
                continue;
            buf_printf(out, "nightshift_%s{device=\"", list[k].name);
            put_label(out, m->device[i].name);
            buf_printf(out, "\"} %.15g\n", list[k].value(&m->device[i]));
        }
    }
}

void metrics_text(const struct metrics *m, struct buf *out)
{
    put_run(m, out);
    put_archive(&m->progress, out);
    put_devices(m, out);
}
