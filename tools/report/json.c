/* The report for programs. */
#include <stdlib.h>

#include <jansson.h>

#include "base/clock.h"
#include "tools/cli/account_json.h"
#include "tools/demo_model.h"
#include "tools/report/report.h"

static json_t *make_time_json(int64_t wall_ms)
{
    char text[CLOCK_ISO_LEN];

    clock_iso8601(wall_ms, text);
    return json_string(text);
}

static json_t *time_or_null(int64_t ms) { return ms >= 0 ? json_integer(ms) : json_null(); }

static json_t *run_json(const struct report *r, const struct store_run *run)
{
    return json_pack("{s:I, s:o, s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "run",
                     (json_int_t)run->run_id, "started_at", make_time_json(run->started_ms),
                     "ended_at", run->ended_ms ? make_time_json(run->ended_ms) : json_null(), "why",
                     run->why[0] ? run->why
                     : r->on     ? ""
                                 : "lost",
                     "reason", run->reason, "devices", run->devices, "recordings_done",
                     (json_int_t)run->recordings_done, "recordings_failed",
                     (json_int_t)run->recordings_failed, "recordings_left",
                     (json_int_t)run->recordings_left, "audio_ms", (json_int_t)run->audio_ms);
}

/* Adds the driver's figures for the step. null: not known. Takes and returns the object. */
static json_t *with_sample(json_t *o, const struct report_step *s)
{
    json_object_set_new(o, "seen_ms", json_integer((json_int_t)s->seen_ms));
    json_object_set_new(o, "left_ms", json_integer((json_int_t)s->left_ms));
    json_object_set_new(o, "load_ms", time_or_null(s->load_ms));
    json_object_set_new(o, "energy_j", time_or_null(s->energy_j));
    json_object_set_new(o, "temperature_c", time_or_null(s->celsius));
    json_object_set_new(o, "used_bytes", time_or_null(s->used_bytes));
    return o;
}

static json_t *step_json(const struct report_step *s)
{
    json_t *o =
        json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "at", make_time_json(s->at_ms), "span_ms",
                  (json_int_t)s->span_ms, "busy_ms", (json_int_t)s->busy_ms, "audio_ms",
                  (json_int_t)s->audio_ms, "memory_bytes", (json_int_t)s->memory_bytes,
                  "predicted_bytes", (json_int_t)s->predicted_bytes);

    return with_sample(o, s);
}

static json_t *device_json(const struct report_device *d)
{
    json_t *steps = json_array();

    for (size_t i = 0; i < d->steps; i++)
        json_array_append_new(steps, step_json(&d->step[i]));
    return with_sample(
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:o}", "device", d->name, "span_ms",
                  (json_int_t)d->sum.span_ms, "busy_ms", (json_int_t)d->sum.busy_ms, "audio_ms",
                  (json_int_t)d->sum.audio_ms, "memory_bytes", (json_int_t)d->sum.memory_bytes,
                  "predicted_bytes", (json_int_t)d->sum.predicted_bytes, "slots", (int)d->slots,
                  "windows", (int)d->windows, "steps", steps),
        &d->sum);
}

static json_t *news_json(const struct report_news *x)
{
    json_t *list = json_array();

    for (size_t i = 0; i < x->items; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "path", x->item[i].path, "stage",
                                              x->item[i].stage, "reason", x->item[i].reason));
    return json_pack("{s:s, s:s, s:I, s:I, s:s, s:o}", "kind", x->kind, "code", x->code, "new",
                     (json_int_t)x->fresh, "before", (json_int_t)x->before, "mend", x->mend,
                     "recordings", list);
}

static json_t *event_json(const struct report_event *e)
{
    return json_pack("{s:o, s:s, s:s, s:s}", "at", make_time_json(e->at_ms), "kind", e->kind,
                     "device", e->device, "text", e->text);
}

static json_t *doubt_json(const struct report_doubt *d)
{
    return json_pack("{s:s, s:I, s:s, s:s}", "path", d->path, "start_ms", (json_int_t)d->start_ms,
                     "text", d->text, "reason", d->reason);
}

static json_t *left_json(const struct report *r)
{
    const struct store_archive *a = &r->totals.archive;

    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "recordings",
                     (json_int_t)a->pending, "high_priority", (json_int_t)r->high,
                     "unknown_lengths", (json_int_t)a->unknown, "waiting", (json_int_t)a->waiting,
                     "paused", (json_int_t)a->paused, "absent", (json_int_t)a->absent, "audio_ms",
                     time_or_null(r->left_ms), "low_ms", time_or_null(r->low_ms), "high_ms",
                     time_or_null(r->high_ms));
}

void report_json(const struct report *r, struct buf *out)
{
    json_t *runs = json_array(), *devices = json_array(), *news = json_array(),
           *doubts = json_array(), *events = json_array(), *o;
    char *text;

    for (size_t i = 0; i < r->runs; i++)
        json_array_append_new(runs, run_json(r, &r->run[i]));
    for (size_t i = 0; i < r->devices; i++)
        json_array_append_new(devices, device_json(&r->device[i]));
    for (size_t i = 0; i < r->events; i++)
        json_array_append_new(events, event_json(&r->event[i]));
    for (size_t i = 0; i < r->kinds; i++)
        json_array_append_new(news, news_json(&r->news[i]));
    for (size_t i = 0; i < r->doubts; i++)
        json_array_append_new(doubts, doubt_json(&r->doubt[i]));
    o = json_pack(
        "{s:s, s:o, s:b, s:o, s:I, s:I, s:I, s:I, s:f, s:I, s:o, s:o, s:o, s:I, s:I, s:o, "
        "s:o, s:o, s:s}",
        "catalog", r->catalog, "since", r->since[0] ? json_string(r->since) : json_null(), "on",
        (int)r->on, "runs", runs, "recordings_done", (json_int_t)r->done, "recordings_failed",
        (json_int_t)r->failed, "audio_ms", (json_int_t)r->audio_ms, "work_ms",
        (json_int_t)r->work_ms, "times_real_time", report_speed(r), "step_ms",
        (json_int_t)r->step_ms, "devices", devices, "device_events", events, "left", left_json(r),
        "without_speech", (json_int_t)r->textless[TEXTLESS_SILENT], "without_text",
        (json_int_t)textless_all(r->textless), "speech", account_json(&r->account), "news", news,
        "doubts", doubts, "note", demo_model_made(r->demo));
    text = o ? json_dumps(o, JSON_INDENT(2)) : NULL;
    if (text)
        buf_printf(out, "%s\n", text);
    else
        out->failed = true;
    free(text);
    json_decref(o);
}
