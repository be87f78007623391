/* Status for programs. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "scheduler/plan/progress.h"
#include "store/tuning.h"
#include "tools/cli/account_json.h"
#include "tools/demo_model.h"
#include "tools/status/status.h"

struct rows {
    const struct status *s;
    json_t *list; /* of those that are read; NULL: no memory */
    bool no_memory;
};

static int append_json_row(struct rows *r, json_t *o)
{
    if (!o || json_array_append_new(r->list, o) != 0) {
        r->no_memory = true;
        return 1;
    }
    return 0;
}

static int json_stage(void *arg, const struct read_progress *p)
{
    const struct status *s = ((const struct rows *)arg)->s;
    const uint64_t unused = status_unused(s, p);

    return append_json_row(
        arg,
        json_pack("{s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
                  "s:I, s:I, s:I, s:s?, s:b}",
                  "stage", (json_int_t)p->stage_id, "source", (json_int_t)p->source_id, "name",
                  p->stage, "model", p->model, "params", p->params_json, "waiting_for_source",
                  (json_int_t)p->waiting, "settling", (json_int_t)p->settling, "tasks",
                  (json_int_t)p->tasks, "done", (json_int_t)p->done, "pending",
                  (json_int_t)p->pending, "failed", (json_int_t)p->failed, "cancelled",
                  (json_int_t)p->cancelled, "paused", (json_int_t)p->paused, "superseded",
                  (json_int_t)unused, "current_still", (json_int_t)(p->superseded - unused),
                  "audio_known_ms", (json_int_t)p->audio_known_ms, "audio_done_ms",
                  (json_int_t)p->audio_done_ms, "put_aside", disabled_stages_why(s->disabled, p),
                  "demo", (int)(demo_model(p->model, p->model_hash) != 0)));
}

static int json_device(void *arg, const struct store_tuning_row *row)
{
    const struct store_tuning *t = &row->tuning;

    return append_json_row(
        arg, json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:I, s:I, s:i, s:s, s:s}",
                       "device_id", row->key.device_id, "driver", row->key.driver, "model_hash",
                       row->key.model_hash, "precision", row->key.precision, "decoding",
                       row->key.decoding, "slots", (int)t->slots, "windows", (int)t->windows,
                       "times_real_time", t->rate, "predicted_bytes",
                       (json_int_t)t->predicted_bytes, "peak_bytes", (json_int_t)t->peak_bytes,
                       "oom_count", (int)t->oom_count, "at", row->at, "stage", row->stage));
}

static int json_job(void *arg, const struct read_job *j)
{
    return append_json_row(
        arg,
        json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
                  "job", (json_int_t)j->job_id, "created_at", j->created_at, "ended_at",
                  j->ended_at, "command", j->command, "stage", j->stage, "model", j->model,
                  "priority", j->priority, "recordings", (json_int_t)j->counts.seen, "new",
                  (json_int_t)j->counts.added, "changed", (json_int_t)j->counts.changed, "vanished",
                  (json_int_t)j->counts.vanished, "pending", (json_int_t)j->tasks_pending, "done",
                  (json_int_t)j->tasks_done, "failed", (json_int_t)j->tasks_failed, "cancelled",
                  (json_int_t)j->tasks_cancelled));
}

static int json_failure(void *arg, const struct read_failure *f)
{
    return append_json_row(arg, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:i}", "kind",
                                          f->kind, "path", f->path, "member", f->member, "code",
                                          f->code, "reason", f->reason, "stage", f->stage, "at",
                                          f->at, "recording", (json_int_t)f->media_id, "attempts",
                                          (int)f->attempts));
}

static int json_event(void *arg, const struct read_event *e)
{
    return append_json_row(arg, json_pack("{s:I, s:s, s:s, s:s, s:s, s:s, s:I}", "event",
                                          (json_int_t)e->event_id, "at", e->at, "kind", e->kind,
                                          "device", e->device, "text", e->text, "path", e->path,
                                          "recording", (json_int_t)e->media_id));
}

static json_t *json_time(int64_t ms) { return ms >= 0 ? json_integer(ms) : json_null(); }

static json_t *json_work(const struct control_live *l)
{
    if (!l->work[0])
        return json_null();
    return json_pack("{s:s, s:o, s:I}", "recording", l->work, "percent", json_time(l->work_percent),
                     "more", (json_int_t)l->work_more);
}

static json_t *json_archive(const struct store_archive *a)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "pending",
                     (json_int_t)a->pending, "waiting", (json_int_t)a->waiting, "done",
                     (json_int_t)a->done, "failed", (json_int_t)a->failed, "cancelled",
                     (json_int_t)a->cancelled, "paused", (json_int_t)a->paused, "absent",
                     (json_int_t)a->absent, "audio_known_ms", (json_int_t)a->audio_known_ms,
                     "audio_done_ms", (json_int_t)a->audio_done_ms, "audio_left_ms",
                     (json_int_t)a->audio_left_ms, "unknown_lengths", (json_int_t)a->unknown);
}

/* The GPUs of the run, in the order of its devices. null: not known. */
static json_t *json_gpus(const struct control_live *l)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list && i < l->devices; i++) {
        const struct control_device *d = &l->device[i];

        json_array_append_new(
            list,
            json_pack("{s:s, s:b, s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:s}", "device", d->name,
                      "ready", (int)d->ready, "left_to_others", (int)d->left, "used_by", d->user,
                      "load_percent", json_time(d->percent), "temperature_c", json_time(d->celsius),
                      "power_mw", json_time(d->milliwatts), "used_bytes", json_time(d->used_bytes),
                      "total_bytes", json_time(d->total_bytes), "health", d->health));
    }
    return list;
}

static json_t *json_run(const struct status *s)
{
    const struct control_live *l = &s->live;
    char at[CLOCK_ISO_LEN];

    if (!s->on)
        return json_null();
    clock_iso8601(l->started_ms, at);
    return json_pack("{s:I, s:s, s:i, s:i, s:I, s:f, s:o, s:o, s:o, s:b, s:s, s:s, s:o, s:o}",
                     "pid", (json_int_t)l->pid, "started_at", at, "workers", (int)l->workers,
                     "workers_ready", (int)l->workers_ready, "audio_done_ms",
                     (json_int_t)l->audio_done_ms, "speed", l->speed, "eta_ms",
                     json_time(l->low_ms < 0 ? -1 : progress_middle(l->low_ms, l->high_ms)),
                     "eta_low_ms", json_time(l->low_ms), "eta_high_ms", json_time(l->high_ms),
                     "draining", (int)l->draining, "note", l->note, "hours", l->hours, "in_work",
                     json_work(l), "devices", json_gpus(l));
}

static json_t *json_totals(const struct status *s)
{
    const struct store_totals *t = &s->totals;

    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:{s:I, s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, "
        "s:I, s:I}, s:b}",
        "recordings", (json_int_t)t->recordings, "places", (json_int_t)t->places, "vanished",
        (json_int_t)s->gone, "damaged", (json_int_t)t->damaged, "unreadable",
        (json_int_t)t->troubles, "segments", (json_int_t)t->segments, "checkpoints",
        (json_int_t)t->shards_done, "tasks", "pending", (json_int_t)t->tasks_pending, "done",
        (json_int_t)t->tasks_done, "failed", (json_int_t)t->tasks_failed, "cancelled",
        (json_int_t)t->tasks_cancelled, "paused", (json_int_t)t->tasks_paused, "absent",
        (json_int_t)t->tasks_absent, "audio", "known_ms", (json_int_t)t->audio_known_ms, "done_ms",
        (json_int_t)t->audio_done_ms, "left_ms", (json_int_t)t->audio_left_ms, "unknown_tasks",
        (json_int_t)t->tasks_unknown, "pending_bytes", (json_int_t)t->bytes_pending, "paused",
        (int)t->paused);
}

/* store_path is as the user gave it: any bytes. */
static json_t *json_path(const char *path)
{
    char *shown = utf8_display(path, strlen(path));
    json_t *ret = shown ? json_string(shown) : NULL;

    free(shown);
    return ret;
}

static int read_stages(struct rows *r, struct err *err)
{
    return read_progress(r->s->store, json_stage, r, err);
}

static int read_devices(struct rows *r, struct err *err)
{
    return store_tuning_each(r->s->store, json_device, r, err);
}

static int read_all_jobs(struct rows *r, struct err *err)
{
    return read_jobs(r->s->store, json_job, r, err);
}

static int read_all_failures(struct rows *r, struct err *err)
{
    return read_failures(r->s->store, NULL, 0, json_failure, r, err);
}

static int read_all_events(struct rows *r, struct err *err)
{
    return read_events(r->s->store, 0, 0, json_event, r, err);
}

/* One of the readings, with its rows in a new array at o[name]. */
static int put_rows(struct rows *r, json_t *o, const char *name,
                    int (*read)(struct rows *r, struct err *err), struct err *err)
{
    int rc = 0;

    r->list = json_array();
    r->no_memory = !r->list || json_object_set_new(o, name, r->list) != 0;
    if (!r->no_memory)
        rc = read(r, err);
    return r->no_memory ? err_set(err, ERR_NOMEM, "out of memory") : rc;
}

static bool put_figures(json_t *o, const struct status *s)
{
    const json_int_t speechless = (json_int_t)s->textless[TEXTLESS_SILENT],
                     textless = (json_int_t)textless_all(s->textless),
                     kept = (json_int_t)s->corrections.kept,
                     conflicts = (json_int_t)s->corrections.conflicts;

    return o && json_object_set_new(o, "catalog", json_path(store_path(s->store))) == 0 &&
           json_object_set_new(o, "archive", json_archive(&s->totals.archive)) == 0 &&
           json_object_set_new(o, "without_speech", json_integer(speechless)) == 0 &&
           json_object_set_new(o, "without_text", json_integer(textless)) == 0 &&
           json_object_set_new(o, "without_sound", json_integer((json_int_t)s->no_sound)) == 0 &&
           json_object_set_new(o, "speech", account_json(&s->totals.account)) == 0 &&
           json_object_set_new(o, "corrections", json_integer(kept)) == 0 &&
           json_object_set_new(o, "conflicts", json_integer(conflicts)) == 0 &&
           json_object_set_new(o, "schema", json_integer(store_schema_version(s->store))) == 0 &&
           json_object_set_new(o, "run", json_run(s)) == 0;
}

int status_json(const struct status *s, const struct status_wanted *w, FILE *out, struct err *err)
{
    struct rows r = {.s = s};
    json_t *o = json_totals(s);
    int rc = put_figures(o, s) ? 0 : err_set(err, ERR_NOMEM, "out of memory");

    if (rc == 0)
        rc = put_rows(&r, o, "stages", read_stages, err);
    if (rc == 0)
        rc = put_rows(&r, o, "devices", read_devices, err);
    if (rc == 0)
        rc = put_rows(&r, o, "jobs", read_all_jobs, err);
    if (rc == 0)
        rc = put_rows(&r, o, "failures", read_all_failures, err);
    if (rc == 0 && w->events)
        rc = put_rows(&r, o, "events", read_all_events, err);
    if (rc == 0 && json_dumpf(o, out, w->watch ? JSON_COMPACT : JSON_INDENT(2)) != 0)
        rc = ferror(out) ? 0 /* said when it is flushed */
                         : err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        putc('\n', out);
    json_decref(o);
    return rc;
}
