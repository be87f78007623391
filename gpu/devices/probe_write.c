#include <jansson.h>

#include "gpu/devices/cuda_load.h"
#include "gpu/devices/probe.h"

/* Strings of libraries: what is no UTF-8 must not cost the line. */
static json_t *text(const char *s)
{
    json_t *ret = json_string(s ? s : "");

    return ret ? ret : json_string("(unreadable)");
}

/* Each line is flushed, so that it is there when the next step crashes. Takes the object. */
static void put(FILE *out, json_t *object)
{
    if (object && json_dumpf(object, out, JSON_COMPACT) == 0)
        fputc('\n', out);
    fflush(out);
    json_decref(object);
}

static void put_doing(FILE *out, const char *what) { put(out, json_pack("{s:s}", "doing", what)); }

static void put_error(FILE *out, const struct err *err)
{
    put(out, json_pack("{s:{s:s, s:o}}", "error", "code", err_name(err->code), "message",
                       text(err->msg)));
}

static void put_device(FILE *out, const struct cuda_device *d)
{
    put(out, json_pack("{s:{s:I, s:o, s:o, s:i, s:i, s:I, s:I, s:I}}", "device", "ordinal",
                       (json_int_t)d->ordinal, "name", text(d->name), "uuid", text(d->uuid),
                       "major", d->major, "minor", d->minor, "total", (json_int_t)d->memory_total,
                       "free", (json_int_t)d->memory_free, "precisions", (json_int_t)d->have));
}

static void put_finding(void *arg, const struct cuda_finding *f)
{
    put(arg, json_pack("{s:{s:i, s:o, s:o, s:o, s:o}}", "finding", "state", f->state, "name",
                       text(f->name), "found", text(f->found), "wanted", text(f->wanted), "do",
                       text(f->todo)));
}

int probe_write(const char *module, bool thorough, FILE *out)
{
    static struct cuda_device list[DEVICES_MAX];
    const struct cuda_module *m = NULL;
    struct err err = {0};
    uint32_t n = 0;

    put_doing(out, "the CUDA module was opened");
    if (cuda_module_load(module, &m, &err) != 0) {
        put_error(out, &err);
    } else {
        put(out, json_pack("{s:o, s:o}", "module", text(module), "built_for", text(m->built_for)));
        put_doing(out, "devices were asked for");
        if (m->devices(list, DEVICES_MAX - 1, &n, &err) != 0)
            put_error(out, &err);
        else
            for (uint32_t i = 0; i < n && i < DEVICES_MAX - 1; i++)
                put_device(out, &list[i]);
        put_doing(out, thorough ? "operations were tried" : "libraries were looked at");
        m->check(thorough, put_finding, out);
    }
    put(out, json_pack("{s:b}", "end", 1));
    return fflush(out) != 0 || ferror(out) ? -1 : 0;
}
