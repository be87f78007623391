/* The child's part of gpu/sight/sight.h. */
#include <stdlib.h>
#include <time.h>

#include <jansson.h>

#include "gpu/sight/nvml.h"
#include "gpu/sight/sight.h"

/* Takes the object. */
static int put(FILE *out, json_t *object)
{
    const int rc = object ? json_dumpf(object, out, JSON_COMPACT) : -1;

    json_decref(object);
    if (rc != 0 || fputc('\n', out) < 0)
        return -1;
    return fflush(out) != 0 ? -1 : 0;
}

static void set(json_t *o, const char *key, uint64_t value, bool known)
{
    if (known)
        json_object_set_new(o, key, json_integer((json_int_t)value));
}

static json_t *processes(const struct gpu_sight *s)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < s->process_count; i++) {
        const struct gpu_process *p = &s->process[i];
        json_t *o = json_object();

        set(o, "pid", p->pid, true);
        set(o, "percent", (uint64_t)p->percent, p->percent >= 0);
        json_object_set_new(o, "computes", json_boolean(p->computes));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *gpu(const struct gpu_sight *s)
{
    json_t *o = json_object();

    set(o, "percent", (uint64_t)s->percent, s->percent >= 0);
    set(o, "celsius", (uint64_t)s->celsius, s->celsius >= 0);
    set(o, "milliwatts", (uint64_t)s->milliwatts, s->milliwatts >= 0);
    /* As it is told: the reader judges, for which it must be a number that JSON has. */
    set(o, "used", s->used_bytes, s->total_bytes > 0 && s->used_bytes <= INT64_MAX);
    set(o, "total", s->total_bytes, s->total_bytes > 0 && s->total_bytes <= INT64_MAX);
    if (s->lists)
        json_object_set_new(o, "processes", processes(s));
    return o;
}

static int look(struct nvml *n, const char *const uuids[], uint64_t since_us[], size_t count,
                FILE *out)
{
    json_t *list = json_array();

    for (size_t i = 0; i < count; i++) {
        struct gpu_sight s;

        nvml_look(n, uuids[i], &since_us[i], &s);
        json_array_append_new(list, gpu(&s));
    }
    return put(out, json_pack("{s:o}", "gpus", list));
}

int gpu_sight_write(int64_t period_ms, const char *const uuids[], size_t n, FILE *out)
{
    const struct timespec period = {period_ms / 1000, period_ms % 1000 * 1000000};
    uint64_t *since_us = calloc(n + 1, sizeof(*since_us));
    struct nvml *nvml = NULL;
    struct err err = {0};
    json_t *text;

    if (!since_us)
        return -1;
    if (nvml_open(&nvml, &err) != 0) {
        free(since_us);
        text = json_string(err.msg); /* NULL: it is no UTF-8 */
        return put(out, json_pack("{s:o}", "error", text ? text : json_string("(unreadable)")));
    }
    text = json_string(nvml_driver(nvml));
    if (put(out, json_pack("{s:o}", "driver", text ? text : json_string(""))) == 0)
        while (look(nvml, uuids, since_us, n, out) == 0)
            nanosleep(&period, NULL);
    nvml_close(nvml);
    free(since_us);
    return -1;
}
