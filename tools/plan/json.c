/* A plan for programs; docs/reference/program.md has the keys. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "tools/plan/plan.h"

static json_t *make_text_json(const char *s)
{
    char *shown = utf8_display(s, strlen(s));
    json_t *j = json_string(shown ? shown : "");

    free(shown);
    return j;
}

static json_t *number_or_null(int64_t n) { return n < 0 ? json_null() : json_integer(n); }

static json_t *end_of(int64_t ms)
{
    char at[CLOCK_ISO_LEN];

    if (ms < 0)
        return json_null();
    clock_iso8601(clock_wall_ms() + ms, at);
    return json_string(at);
}

static json_t *make_devices_json(const struct plan *p)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < p->all->count; i++) {
        const struct device *d = &p->all->list[i];
        bool used = false;

        for (uint32_t k = 0; k < p->picked->count; k++)
            used |= strcmp(p->picked->list[k].name, d->name) == 0;
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:b, s:b}",
                                              "name", d->name, "label", d->label, "model", d->model,
                                              "id", d->id, "driver", d->driver, "memory_total",
                                              (json_int_t)d->memory_total, "memory_free",
                                              (json_int_t)d->memory_free, "usable",
                                              (int)!d->unusable, "used", (int)used));
    }
    return list;
}

static json_t *make_placements_json(const struct plan *p, const struct plan_stage *s)
{
    static const char *const source[] = {"unknown", "estimate", "measured"};
    json_t *list = json_array();

    for (uint32_t i = 0; i < p->picked->count && s->sized; i++) {
        const struct placement *on = &s->on[i];
        json_t *o = json_pack("{s:s, s:s, s:b, s:s, s:s}", "device", p->picked->list[i].label,
                              "name", p->picked->list[i].name, "fits", (int)on->fits, "why",
                              on->why, "note", on->note);

        json_object_set_new(o, "predicted_bytes", json_integer((json_int_t)on->bytes));
        json_object_set_new(o, "budget_bytes", json_integer((json_int_t)on->budget));
        if (on->fits) {
            json_object_set_new(o, "precision", json_string(precision_name(on->precision)));
            json_object_set_new(o, "slots", json_integer(on->slots));
            json_object_set_new(o, "windows", json_integer(on->windows));
            json_object_set_new(o, "remembered", json_boolean(on->remembered));
            json_object_set_new(o, "times_real_time",
                                on->speed > 0 ? json_real(on->speed) : json_null());
            json_object_set_new(o, "speed_is", json_string(source[on->source]));
        } else {
            json_object_set_new(o, "would_fit",
                                s->would_fit[i] ? json_string(s->would_fit[i]) : json_null());
        }
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *make_stages_json(const struct plan *p)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < p->stage_count; i++) {
        const struct plan_stage *s = &p->stages[i];
        const double processor = s->cost.core_s + (p->gpus ? s->cost.thread_s : 0);
        json_t *o = json_pack(
            "{s:s, s:s, s:I, s:I, s:o, s:o, s:o, s:o}", "stage", s->name, "error", s->no_model.msg,
            "recordings", (json_int_t)s->recordings, "unknown_lengths", (json_int_t)s->unknown,
            "audio_ms", number_or_null(s->left_ms), "model", make_text_json(s->model), "devices",
            make_placements_json(p, s), "seconds", number_or_null(s->ms < 0 ? -1 : s->ms / 1000));

        json_object_set_new(o, "times_real_time", s->speed > 0 ? json_real(s->speed) : json_null());
        json_object_set_new(o, "waiting_for_source", json_integer((json_int_t)s->sourceless));
        json_object_set_new(o, "heard_apart", json_integer((json_int_t)s->sources.known));
        json_object_set_new(o, "settling", json_integer((json_int_t)s->settling));
        json_object_set_new(o, "put_aside",
                            s->disabled ? make_text_json(s->disabled) : json_null());
        json_object_set_new(o, "device_seconds_an_hour",
                            s->cost.device_s > 0 ? json_real(s->cost.device_s) : json_null());
        json_object_set_new(o, "processor_seconds_an_hour",
                            processor > 0 ? json_real(processor) : json_null());
        json_object_set_new(o, "speed_is",
                            json_string(s->cost.device_s <= 0 ? "unknown"
                                        : s->measured         ? "measured"
                                                              : "estimate"));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *make_night_json(const struct plan *p)
{
    static const char *const bounds[] = {"nothing", "devices", "thread", "processor",
                                         "earlier nights"};
    const struct night_length *n = &p->night;
    const bool alone = p->gpus == 0; /* the processor is the device */
    const char *bound = bounds[alone && n->bound != NIGHT_NOTHING ? NIGHT_CORES : n->bound];
    json_t *formats;

    if (!p->fits || plan_is_stuck(p))
        return json_null();
    formats = json_object();
    for (uint32_t i = 0; i < p->format_count; i++)
        json_object_set_new(formats, p->formats[i].format->name, json_real(p->formats[i].hours));
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:s?, s:i, s:f, s:f, s:o}", "bound_by", bound,
                     "seconds", n->seconds, "device_seconds", n->device_s, "thread_seconds",
                     n->thread_s, "core_seconds", n->core_s, "thread", n->thread, "cores",
                     (int)p->cores, "decode_seconds_an_hour", p->decode_s, "other_seconds_an_hour",
                     p->commit_s, "hours_by_format", formats);
}

void plan_print_json(const struct plan *p, const struct plan_options *o)
{
    const int64_t ms = p->waiting && !plan_is_stuck(p) ? p->ms : -1;
    json_t *j =
        json_pack("{s:o, s:b, s:b, s:b, s:b, s:s, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "catalog",
                  make_text_json(o->catalog), "catalog_exists", (int)!p->missing, "paused",
                  (int)p->paused, "waiting", (int)p->waiting, "fits", (int)p->fits, "no_gpu",
                  p->all->no_gpu.msg, "recordings", (json_int_t)p->recordings, "unknown_lengths",
                  (json_int_t)p->unknown, "audio_ms", number_or_null(p->left_ms), "devices",
                  make_devices_json(p), "stages", make_stages_json(p), "seconds",
                  number_or_null(ms < 0 ? -1 : ms / 1000), "done_at", end_of(p->paused ? -1 : ms));

    json_object_set_new(j, "night", make_night_json(p));
    json_dumpf(j, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(j);
}
